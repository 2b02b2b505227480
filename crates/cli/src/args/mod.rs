//! The command line: every option, once. Help, completions and man pages are made from this.

mod cameras;
mod evaluate;
mod profile;
mod report;
mod serve;
mod warm;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use forebay_quantity::size;
use serde::Serialize;

use crate::experiment::Output;
pub use cameras::Cameras;
pub use evaluate::{Chosen, Evaluate, Host, Model, Multiview, Overhead, Projection, Speculation, Table};
pub use profile::{Forget, List, Merge, Pack, Profile, Show};
pub use report::{FailOn, Report};
pub use serve::Serve;
pub use warm::Warm;

/// Run programs that wait for data faster, share memory between processes, stream media files
#[derive(Debug, Parser)]
#[command(name = "forebay", bin_name = "forebay", version = env!("FOREBAY_VERSION"), max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = concat!(
    "\
Examples:
  forebay run -- grep -r needle src
  forebay run --stats -- ld @objects -o program
  forebay profile pack -- ./program > app.profile
  forebay warm --wait app.profile
  forebay share -n 4 -- ./program
  forebay serve films
  forebay demo
  forebay doctor

Documentation: ",
    env!("CARGO_PKG_REPOSITORY")
);

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an unmodified program, and prefetch the data that it would wait for
    Run(Run),
    /// Show, remove and pack what earlier runs needed (access profiles)
    #[command(subcommand)]
    Profile(Profile),
    /// Bring what a program will need into memory, from a pack or a profile
    Warm(Warm),
    /// Run a program as several processes (hosts) that share memory
    Share(Share),
    /// Stream the media files of a folder over RTSP and HTTP
    Serve(Serve),
    /// Compare real programs without and with forebay, on generated data
    Demo(Demo),
    /// Measure forebay, programs, servers and this machine
    #[command(subcommand)]
    Evaluate(Evaluate),
    /// Make one page of text, tables and figures from results
    Report(Report),
    /// Check what this machine supports, and say how to enable what is missing
    Doctor(Doctor),
    /// Print the completion script for a shell
    Completions(Completions),
    /// Print the main man page, or write the pages of all commands
    Man(Man),
}

/// Options of `forebay doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub struct Doctor {
    /// Commands to check [default: all]
    #[arg(value_name = "COMMAND", value_enum)]
    pub commands: Vec<Job>,
    /// Write the findings as JSON to FILE; with - standard output has the JSON alone
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The commands that need something of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Job {
    /// forebay run
    Run,
    /// forebay share
    Share,
    /// forebay serve
    Serve,
    /// forebay evaluate and forebay demo
    Evaluate,
}

const DOCTOR_HELP: &str = "\
Exit status:
  0: everything that the commands require is present.
  1: something that they require is missing.

Examples:
  forebay doctor
  forebay doctor run && forebay run -- make
  forebay doctor share --json -";

/// Options of `forebay run`.
#[derive(Debug, PartialEq, Eq, Args)]
#[command(after_help = RUN_HELP)]
pub struct Run {
    /// Print statistics to standard error when the program ends
    #[arg(long)]
    pub stats: bool,
    /// Write the statistics as JSON to FILE (-: standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Pause speculation while it costs more than it saves
    #[arg(long, value_name = "WHEN", default_value = "on", action = clap::ArgAction::Set,
        value_parser = PossibleValuesParser::new(["on", "off"]).map(|when| when == "on"))]
    pub memory_control: bool,
    /// Limit the memory that a speculative copy may add, such as 64M [default: what fits the machine]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<u64>,
    /// Load the agent but start no speculative copy: shows what the agent alone costs
    #[arg(long)]
    pub no_speculation: bool,
    /// Intercept libc's functions instead of patching its system calls; misses the reads that libc makes internally
    #[arg(long)]
    pub no_patching: bool,
    /// Neither replay what earlier runs needed nor record what this one needs
    #[arg(long)]
    pub no_profile: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl Default for Run {
    /// Without options.
    fn default() -> Self {
        Self {
            stats: false,
            json: None,
            memory_control: true,
            memory_limit: None,
            no_speculation: false,
            no_patching: false,
            no_profile: false,
            command: vec![],
        }
    }
}

impl Run {
    /// What the full parser makes of a command line (without the program's name) that starts with `run` and has valid
    /// options of `run` alone; `None` for any other. The full parser takes a tenth of the time that `forebay run` may
    /// add to a program, and megabytes of memory.
    pub fn quickly(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.peekable();
        arguments.next_if(|command| command == "run")?;
        let mut run = Self::default();
        let mut given = Vec::new();
        loop {
            let argument = arguments.next()?;
            let text = argument.to_str()?;
            if text == "--" {
                break;
            }
            if !text.starts_with('-') {
                run.command.push(argument);
                break;
            }
            let (option, value) = match text.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (text, None),
            };
            // The full parser reports the repeated option.
            if given.iter().any(|other| other == option) {
                return None;
            }
            given.push(option.to_owned());
            match option {
                "--stats" | "--no-speculation" | "--no-patching" | "--no-profile" if value.is_some() => {
                    return None;
                }
                "--stats" => run.stats = true,
                "--no-speculation" => run.no_speculation = true,
                "--no-patching" => run.no_patching = true,
                "--no-profile" => run.no_profile = true,
                "--json" => run.json = Some(plain(value, &mut arguments)?.into()),
                "--memory-control" => {
                    run.memory_control = on_or_off(plain(value, &mut arguments)?.to_str()?)?;
                }
                "--memory-limit" => {
                    run.memory_limit = Some(size(plain(value, &mut arguments)?.to_str()?).ok()?);
                }
                _ => return None,
            }
        }
        run.command.extend(arguments);
        (!run.command.is_empty()).then_some(run)
    }
}

/// The value of an option, behind `=` or as the next argument, unless it may be something else.
fn plain(value: Option<&str>, arguments: &mut impl Iterator<Item = OsString>) -> Option<OsString> {
    let value = value.map(OsString::from).or_else(|| arguments.next())?;
    let named = !value.is_empty() && !value.as_bytes().starts_with(b"-");
    (named || value == "-").then_some(value)
}

fn on_or_off(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

const RUN_HELP: &str = "\
The program's output, files and exit status are the same as without forebay.
While the program waits for data, a speculative copy of it runs ahead and
starts the reads that the program will need.

Exit status:
  That of the program. If a signal ends the program, the same signal ends
  forebay, and a shell reports 128 + n for signal n.
  127: the program is not found. 126: it cannot be executed.
  125: forebay itself fails before the program starts.

Examples:
  forebay run -- grep -r needle /usr/src
  forebay run --stats -- git status
  forebay run --json run.json -- make -j4";

/// Options of `forebay share`.
#[derive(Debug, PartialEq, Eq, Args)]
#[command(after_help = SHARE_HELP)]
pub struct Share {
    /// Number of hosts, the processes that run the program
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub hosts: u16,
    /// Minipages that may share one page, 1 to 256 [default: what the program asks for]
    #[arg(long, value_name = "V", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub views: Option<u16>,
    /// Size of the shared memory, such as 64M [default: what the program asks for]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// Transport of messages between machines; only ucx authenticates nothing
    #[arg(long, value_name = "WHAT", default_value = "auto", value_parser = ["shm", "tcp", "auto", "ucx"])]
    pub transport: String,
    /// Network interface at which hosts listen: a name, an address or a network [default: all that are up]
    #[arg(long, value_name = "WHERE")]
    pub interface: Option<String>,
    /// Give each host a memory of its own, and keep the copies equal by messages, on one machine too
    #[arg(long)]
    pub separate: bool,
    /// Let the hosts count as on M machines, each with one memory, in blocks of neighbouring ranks
    #[arg(long, value_name = "M", conflicts_with = "separate", value_parser = clap::value_parser!(u16).range(1..))]
    pub machines: Option<u16>,
    /// Fetch between machines only what an access needs, not what it will probably need after a barrier
    #[arg(long)]
    pub no_foresight: bool,
    /// Print the counters of each host to standard error when all hosts have ended
    #[arg(long)]
    pub stats: bool,
    /// Write these counters as JSON to FILE (-: standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "APP")]
    pub command: Vec<OsString>,
}

const SHARE_HELP: &str = "\
The program calls forebay's library (C, Rust or Python) to join the other
hosts and to allocate memory that all hosts share. Hosts on one machine map one
memory: an access costs no more than in a program with threads. --separate
and --machines are for tests and measurements of memory that messages keep
equal.
Connections between machines are encrypted and authenticated with a key of the
job. --transport ucx authenticates nothing.
The output of the hosts is passed on unchanged. When one host fails, forebay
ends the others. Ctrl-C twice ends hosts that go on.

Exit status:
  0: all hosts ended with 0. Otherwise it is that of the first host that fails,
  or 128 + n if signal n ended that host.
  70: a host ended because it lost another host.
  127: the program is not found. 126: it cannot be executed.
  125: forebay itself fails before the program starts.

Examples:
  forebay share -n 4 -- ./program input
  forebay share -n 2 --size 1G --views 16 -- ./program
  forebay share -n 2 --separate --transport shm -- ./program
  forebay share -n 2 --separate --transport tcp --interface lo -- ./program
  forebay share -n 2 --stats --json counters.json -- ./program";

/// Options of `forebay demo`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_HELP)]
pub struct Demo {
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

const DEMO_HELP: &str = "\
The demo takes less than 90 seconds, needs no root and removes its data. As
root it also uses a disk with a latency of 1 ms.

Example:
  forebay demo";

/// Options of `forebay completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct Completions {
    /// The shell that the script is for
    pub shell: Shell,
}

const COMPLETIONS_HELP: &str = "\
Example:
  forebay completions bash > ~/.local/share/bash-completion/completions/forebay";

/// Options of `forebay man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_HELP)]
pub struct Man {
    /// Write the man pages of all commands to this folder, instead of the main page to standard output
    #[arg(long, alias = "out", value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

const MAN_HELP: &str = "\
Examples:
  forebay man | man -l -
  forebay man --dir ~/.local/share/man/man1";

#[cfg(test)]
mod examples;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_behind_the_program_are_the_programs() {
        for line in
            [&["forebay", "run", "--", "ls", "--stats", "-x"][..], &["forebay", "run", "ls", "--stats", "-x"]]
        {
            let Command::Run(run) = Cli::parse_from(line).command else { panic!("not run") };
            assert!(!run.stats);
            assert_eq!(run.command, ["ls", "--stats", "-x"]);
        }
    }

    #[test]
    fn the_quick_parser_agrees_with_the_full_one() {
        let words = [
            "--",
            "--stats",
            "--json",
            "--json=a",
            "-",
            "--memory-control=off",
            "--memory-limit",
            "64M",
            "--no-patching",
            "--no-profile",
            "--help",
            "ls",
            "-x",
            "",
            "run",
            "\u{e9}",
        ];
        let mut quick = 0;
        // All command lines of up to four of these words.
        for length in 0..=4 {
            for number in 0..words.len().pow(length) {
                let chosen = (0..length).map(|place| words[number / words.len().pow(place) % words.len()]);
                let line: Vec<OsString> = ["run"].into_iter().chain(chosen).map(OsString::from).collect();
                let Some(run) = Run::quickly(line.iter().cloned()) else { continue };
                quick += 1;
                let full = Cli::try_parse_from(["forebay".into()].into_iter().chain(line.iter().cloned()));
                let Ok(Cli { command: Command::Run(full) }) = full else { panic!("{line:?}: {run:?}") };
                assert_eq!(run, full, "{line:?}");
            }
        }
        assert!(quick > 1000, "{quick}");
        assert_eq!(Run::quickly(["demo".into(), "--".into(), "ls".into()].into_iter()), None);
    }

    #[test]
    fn an_unknown_option_is_no_program() {
        let error = Cli::try_parse_from(["forebay", "run", "--nosuch", "--", "ls"]).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument);
    }

    #[test]
    fn sizes_have_binary_multiples() {
        assert_eq!([size("64M"), size("4096"), size("1G")], [Ok(64 << 20), Ok(4096), Ok(1 << 30)]);
        for nonsense in ["", "M", "-1", "1.5G", "1KM", "64 M", "99999999999G"] {
            assert!(size(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let group = command.has_subcommands() && command.get_name() != "forebay";
            let plain = command.get_arguments().next().is_none();
            assert!(group || plain || help.contains("Example"), "{}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
