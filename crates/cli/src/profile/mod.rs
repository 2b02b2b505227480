//! `forebay profile`: lists, shows, removes and packs access profiles.

mod list;
mod pack;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use forebay_profile::{Costs, Plan, Profile as Kept};
use forebay_results::Sink;
use forebay_supervisor::ProfileStore;
use forebay_supervisor::profiles::scopes_of;
use forebay_supervisor::warm::{latency, open_root};
use serde::Serialize;

use crate::args::{Forget, Profile, Show};
use crate::costs::Told;
use crate::results::REVISION;
use crate::warm::{print, write};

/// Version of what `--json` writes.
const SCHEMA: u32 = 1;

/// Does what is asked.
pub fn run(profile: Profile) -> anyhow::Result<ExitCode> {
    match profile {
        Profile::List(list) => list::run(&store()?, &list)?,
        Profile::Show(show) => run_show(&show)?,
        Profile::Forget(forget) => run_forget(&forget)?,
        Profile::Path => print(&format!("{}\n", store()?.path().display()))?,
        Profile::Off => turn_off(true)?,
        Profile::On => turn_off(false)?,
        Profile::Pack(args) => return pack::pack(args),
        Profile::Merge(args) => pack::merge(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The profiles of this user.
pub fn store() -> anyhow::Result<ProfileStore> {
    ProfileStore::of_user()
        .context("this user has no folder for profiles; set HOME, and run forebay with your own rights")
}

/// The profile that a run of the command would replay.
pub fn of_command(store: &ProfileStore, command: &[OsString]) -> anyhow::Result<Kept> {
    match store.of_command(command)? {
        Some(profile) => Ok(profile),
        None => bail!("the command has no profile; make one with: forebay run -- {}", line(command)),
    }
}

fn line(command: &[OsString]) -> String {
    command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[derive(Serialize)]
struct Shown {
    schema: u32,
    revision: &'static str,
    profile: list::Row,
    #[serde(flatten)]
    costs: Told,
}

fn run_show(show: &Show) -> anyhow::Result<()> {
    let store = store()?;
    let profile = of_command(&store, &show.command)?;
    let sink = show.json.as_deref().map(Sink::open).transpose()?;
    let root = open_root(Path::new("/"))?;
    let latency = latency(Plan::new(profile.clone()), std::os::fd::AsFd::as_fd(&root));
    let costs = Told::new(&Costs::of(&profile), latency);
    let row = list::Row::of(&profile);
    if show.json.as_deref() != Some(Path::new("-")) {
        print(&format!("{}\n{}", row.head(list::now_s()), costs.text()))?;
    }
    sink.map(|sink| write(sink, &Shown { schema: SCHEMA, revision: REVISION, profile: row, costs }))
        .transpose()?;
    Ok(())
}

fn run_forget(forget: &Forget) -> anyhow::Result<()> {
    let store = store()?;
    let removed = if forget.all {
        store.forget_all()
    } else {
        scopes_of(&forget.command)?.iter().filter(|scope| store.forget(&scope.key)).count()
    };
    if removed == 0 && !forget.all {
        bail!("the command has no profile; 'forebay profile list' prints what there is");
    }
    print(&format!("removed {removed} {}\n", if removed == 1 { "profile" } else { "profiles" }))
}

fn turn_off(off: bool) -> anyhow::Result<()> {
    let store = store()?;
    store.set_off(off).with_context(|| {
        format!(
            "cannot change '{}'; make it a folder of yours that others may not write to",
            store.path().display()
        )
    })
}
