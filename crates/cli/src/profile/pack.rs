//! `forebay profile pack` and `forebay profile merge`.

use std::cell::RefCell;
use std::io::{IsTerminal, stderr, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, absolute};
use std::process::ExitCode;

use anyhow::{Context, bail};
use forebay_linux::process::end_by;
use forebay_profile::{Pack, Profile};
use forebay_quantity::thousands;
use forebay_results::Sink;
use forebay_supervisor::profiles::profile_of;
use forebay_supervisor::{Error, Outcome, Recorded, run_recorded};
use rustix::stdio::dup2_stdout;

use super::{line, list, store};
use crate::args::{Merge, Pack as Packing, Run};
use crate::costs::size;
use crate::run::{self, FAILURE, complain};
use crate::warm::read;

/// Packs what a command needs, or what one needed. Ends as the command does.
pub fn pack(args: Packing) -> anyhow::Result<ExitCode> {
    if args.last {
        let Some(profile) = store()?.latest() else {
            bail!("there are no profiles; make one with: forebay run -- CMD");
        };
        let sink = open(args.output.as_deref())?;
        complain(&format!("packing {}", list::Row::of(&profile).head(list::now_s())));
        write(sink, packed(profile, &args)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let recorded = match open(args.output.as_deref()).and_then(|sink| Ok((record(&args)?, sink))) {
        Ok((recorded, sink)) => (recorded, sink),
        Err(error) => {
            complain(&format!("{error:#}"));
            let status = error.downcast_ref::<Error>().map_or(FAILURE, Error::exit_status);
            return Ok(status.into());
        }
    };
    let ((outcome, profile), sink) = recorded;
    let written = packed(profile, &args).and_then(|pack| write(sink, pack));
    if let Err(error) = written {
        complain(&format!("{error:#}"));
        return Ok(FAILURE.into());
    }
    if let Some(signal) = outcome.signal {
        end_by(signal);
    }
    Ok(outcome.exit_status.into())
}

/// Merges packs.
pub fn merge(args: &Merge) -> anyhow::Result<()> {
    let mut packs = args.packs.iter().map(|path| read(path));
    let first = packs.next().context("there is no pack to merge; name some")??;
    let merged = packs.try_fold(first, |merged, pack| anyhow::Ok(merged.merge(pack?)))?;
    write(open(args.output.as_deref())?, args.max.map_or(merged.clone(), |max| merged.cut_off(max)))
}

/// Where a pack goes.
fn open(output: Option<&Path>) -> anyhow::Result<Sink> {
    if output.is_none() && stdout().is_terminal() {
        bail!("a pack is no text for a terminal; name a file with --output");
    }
    Ok(Sink::open(output.unwrap_or(Path::new("-")))?)
}

fn write(sink: Sink, pack: Pack) -> anyhow::Result<()> {
    let costs = pack.costs();
    Ok(sink.write_bytes(&pack.encode()).inspect(|()| {
        complain(&format!(
            "packed {} paths, and {} of data",
            thousands(costs.paths),
            size(costs.total.bytes)
        ));
    })?)
}

/// Runs the command, and tells how it ended and what it needed. Its standard output is ours, or our standard error if a pack
/// goes there.
fn record(args: &Packing) -> anyhow::Result<(Outcome, Profile)> {
    let options = run::options(Run { command: args.command.clone(), ..Run::default() })?;
    let ours = args.output.is_none().then(turn_output).transpose()?;
    let needed = RefCell::new(Recorded::default());
    // The agent belongs to the recording.
    let agent = options.agent.as_os_str().as_bytes();
    let keep = |mut recorded: Recorded| {
        recorded.needs.retain(|need| need.path != agent);
        *needed.borrow_mut() = recorded;
    };
    let outcome = run_recorded(&options, &keep);
    if let Some(ours) = ours {
        dup2_stdout(ours)?;
    }
    Ok((outcome?, profile_of(&args.command, &needed.borrow(), list::now_s())))
}

/// Lets standard output be standard error, and returns what it was.
fn turn_output() -> anyhow::Result<OwnedFd> {
    let ours = stdout().as_fd().try_clone_to_owned()?;
    dup2_stdout(stderr())?;
    Ok(ours)
}

/// What of the profile lies below the root, also by the root's own path without links.
fn packed(profile: Profile, args: &Packing) -> anyhow::Result<Pack> {
    let named = absolute(&args.root)?;
    let real = args
        .root
        .canonicalize()
        .with_context(|| format!("cannot pack below '{}'; name a folder with --root", args.root.display()))?;
    let mut pack = Pack::of(profile.clone(), named.as_os_str().as_bytes());
    if real != named {
        pack = Pack::of(profile, real.as_os_str().as_bytes()).merge(pack);
    }
    if pack.entries().is_empty() {
        bail!(
            "nothing that {} needed lies below '{}'; name another folder with --root",
            if args.last { "the command".into() } else { line(&args.command) },
            named.display()
        );
    }
    Ok(args.max.map_or(pack.clone(), |max| pack.cut_off(max)))
}
