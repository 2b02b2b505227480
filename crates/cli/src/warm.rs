//! `forebay warm`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use forebay_profile::{Costs, Pack, Plan, format};
use forebay_quantity::{seconds, thousands};
use forebay_results::Sink;
use forebay_supervisor::warm::{Warmed, Warming, latency, open_root};
use serde::Serialize;

use crate::{
    FAILURE,
    args::Warm,
    costs::{Told, size},
    profile,
    results::REVISION,
    run::complain,
};

/// Version of what `--json` writes.
const SCHEMA: u32 = 1;

/// What a request for warmth names.
enum Source {
    Pack(Box<Pack>),
    Profile(Box<forebay_profile::Profile>),
}

#[derive(Serialize)]
struct Explained {
    schema: u32,
    revision: &'static str,
    #[serde(flatten)]
    costs: Told,
}

#[derive(Serialize)]
struct Fetched {
    schema: u32,
    revision: &'static str,
    seconds: f64,
    requests: u64,
    waited: u64,
    changed: u64,
    bytes: u64,
    bytes_left_out: u64,
    leases: bool,
}

/// Fetches, or explains.
pub fn run(warm: &Warm) -> anyhow::Result<ExitCode> {
    let source = Source::of(warm)?;
    let root = warm.root.as_deref().unwrap_or(Path::new("/"));
    let opened = open_root(root)
        .with_context(|| format!("cannot fetch below '{}'; name a folder with --root", root.display()))?;
    let sink = warm.json.as_deref().map(Sink::open).transpose()?;
    if warm.explain {
        let costs = source.costs();
        let costs = Told::new(&costs, latency(source.plan(), std::os::fd::AsFd::as_fd(&opened)));
        if warm.json.as_deref() != Some(Path::new("-")) {
            print(&costs.text())?;
        }
        let explained = Explained { schema: SCHEMA, revision: REVISION, costs };
        sink.map(|sink| write(sink, &explained)).transpose()?;
        return Ok(ExitCode::SUCCESS);
    }
    // Descriptors are opened anew there, and the memory that is available is told there.
    if !Path::new("/proc/self/fd").exists() {
        bail!("there is no /proc here; mount it with: mount -t proc proc /proc");
    }
    let warming = Warming::new(source.plan(), opened, warm.even_if_changed);
    if !warm.wait {
        warming.begin().context("cannot start a process that fetches; use --wait")?;
        return Ok(ExitCode::SUCCESS);
    }
    let warmed = warming.carry_out().context("cannot get memory for fetching; free some")?;
    complain(&sentence(&warmed, warm));
    sink.map(|sink| write(sink, &Fetched::of(&warmed))).transpose()?;
    let found_nothing = warmed.bytes_wanted > 0 && warmed.bytes == 0 && warmed.changed == 0;
    Ok(if found_nothing && !warmed.are_leases_held { FAILURE.into() } else { ExitCode::SUCCESS })
}

impl Source {
    fn of(warm: &Warm) -> anyhow::Result<Self> {
        match &warm.pack {
            Some(path) => Ok(Self::Pack(Box::new(read(path)?))),
            None => Ok(Self::Profile(Box::new(profile::of_command(&profile::store()?, &warm.command)?))),
        }
    }

    fn costs(&self) -> Costs {
        match self {
            Self::Pack(pack) => pack.costs(),
            Self::Profile(profile) => Costs::of(profile),
        }
    }

    /// With paths that begin at the root.
    fn plan(&self) -> Plan {
        match self {
            Self::Pack(pack) => pack.as_ref().clone().plan(b"/"),
            Self::Profile(profile) => Plan::new(profile.as_ref().clone()),
        }
    }
}

/// Reads a pack. No more of it is read than a pack may have.
pub fn read(path: &Path) -> anyhow::Result<Pack> {
    let mut bytes = Vec::new();
    let mut read = |from: &mut dyn Read| from.take(format::BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    let read = if path == Path::new("-") {
        read(&mut io::stdin().lock())
    } else {
        File::open(path).and_then(|mut file| read(&mut file))
    };
    let named = || name_of(path);
    read.with_context(|| format!("cannot read {}; name a file that 'forebay profile pack' made", named()))?;
    match Pack::decode(&bytes) {
        Ok(pack) => Ok(pack),
        Err(error) => bail!("{} is refused: {error}; make it anew with 'forebay profile pack'", named()),
    }
}

fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "the pack on standard input".into() } else { format!("'{}'", path.display()) }
}

fn sentence(warmed: &Warmed, warm: &Warm) -> String {
    let mut said = format!(
        "{} of {} in memory after {}; of {} requests, a disk answered {}",
        size(warmed.bytes),
        size(warmed.bytes_wanted),
        seconds(warmed.elapsed.as_secs_f64()),
        thousands(warmed.steps),
        thousands(warmed.waited),
    );
    if warmed.changed > 0 {
        said += &format!("; requests to changed files: {}", thousands(warmed.changed));
    }
    if warmed.bytes_left_out > 0 {
        said += &format!("; {} did not fit in a quarter of the memory", size(warmed.bytes_left_out));
    }
    if warmed.are_leases_held {
        said += "; no file was opened, because a process holds a lease on one";
    } else if warmed.bytes_wanted > 0 && warmed.bytes == 0 && warmed.changed == 0 {
        let root = warm.root.clone().unwrap_or_else(|| PathBuf::from("/"));
        said += &format!("; nothing was found below '{}', so check --root", root.display());
    }
    said
}

impl Fetched {
    fn of(warmed: &Warmed) -> Self {
        Self {
            schema: SCHEMA,
            revision: REVISION,
            seconds: warmed.elapsed.as_secs_f64(),
            requests: warmed.steps,
            waited: warmed.waited,
            changed: warmed.changed,
            bytes: warmed.bytes,
            bytes_left_out: warmed.bytes_left_out,
            leases: warmed.are_leases_held,
        }
    }
}

/// Writes indented JSON and a final newline.
pub fn write(sink: Sink, told: &impl Serialize) -> anyhow::Result<()> {
    Ok(sink.write_text(&(serde_json::to_string_pretty(told)? + "\n"))?)
}

/// Prints text to standard output, which may be a pipe that is closed.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output; check where it goes"),
    }
}
