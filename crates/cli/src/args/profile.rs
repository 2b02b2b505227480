//! Options of `forebay profile`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_quantity::size;

/// What to do with access profiles.
#[derive(Debug, Subcommand)]
pub enum Profile {
    /// List the profiles that runs left
    List(List),
    /// Show what a cold start of a command pays, by its profile
    Show(Show),
    /// Remove the profiles of a command, or all
    Forget(Forget),
    /// Print the folder with the profiles
    Path,
    /// Let runs neither use nor leave profiles, from now on
    Off,
    /// Let runs use and leave profiles again
    On,
    /// Make a pack, a profile for other machines
    Pack(Pack),
    /// Make one pack of several
    Merge(Merge),
}

/// Options of `forebay profile list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub struct List {
    /// Write the list as JSON to FILE; with - standard output has the JSON alone
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

const LIST_HELP: &str = "\
A command has up to three profiles: of its whole command line, of its program
and first argument, and of its program. '...' stands for what differs.

Examples:
  forebay profile list
  forebay profile list --json -";

/// Options of `forebay profile show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_HELP)]
pub struct Show {
    /// Write the costs as JSON to FILE; with - standard output has the JSON alone
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The command, as it was run
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

const SHOW_HELP: &str = "\
The profile is the one that forebay run would replay for this command in this
folder. The times are estimated from the disk's latency, which is measured.

Exit status:
  0: the command has a profile. 1: it has none.

Examples:
  forebay profile show -- git status
  forebay profile show --json - -- git status";

/// Options of `forebay profile forget`.
#[derive(Debug, Args)]
#[command(after_help = FORGET_HELP)]
pub struct Forget {
    /// Remove all profiles
    #[arg(long, conflicts_with = "command")]
    pub all: bool,
    /// The command, as it was run
    #[arg(required_unless_present = "all", trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

const FORGET_HELP: &str = "\
All profiles go that a run of the command would use, also those that it shares
with other commands.

Examples:
  forebay profile forget -- git status
  forebay profile forget --all";

/// Options of `forebay profile pack`.
#[derive(Debug, Args)]
#[command(after_help = PACK_HELP)]
pub struct Pack {
    /// Pack what lies below DIR, with paths that begin there
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Keep the first SIZE of data that is needed, such as 64M, and all look-ups
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max: Option<u64>,
    /// Write the pack to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Pack the profile of the run that ended last, and run nothing
    #[arg(long, conflicts_with = "command")]
    pub last: bool,
    /// The program and its arguments
    #[arg(required_unless_present = "last", trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

const PACK_HELP: &str = "\
Without --output the pack goes to standard output. What the program prints goes
to standard error then.

Exit status:
  That of the program, as of forebay run. With --last: 0 if a pack was written.
  125: forebay itself fails, or the pack cannot be written.

Examples:
  forebay profile pack -- python3 app.py --check > app.profile
  forebay profile pack --root /srv/app --max 64M -o app.profile -- ./server
  forebay profile pack --last > app.profile";

/// Options of `forebay profile merge`.
#[derive(Debug, Args)]
#[command(after_help = MERGE_HELP)]
pub struct Merge {
    /// Keep the first SIZE of data that is needed, such as 64M, and all look-ups
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max: Option<u64>,
    /// Write the pack to FILE [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The packs; - is standard input
    #[arg(required = true, value_name = "PACK")]
    pub packs: Vec<PathBuf>,
}

const MERGE_HELP: &str = "\
Where packs differ about a file, the later one is right.

Examples:
  forebay profile merge start.profile query.profile > app.profile
  forebay profile merge --max 64M -o small.profile app.profile";
