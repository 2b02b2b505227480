//! `forebay evaluate corpus`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forebay_evaluation::Profile;
use forebay_evaluation::run::corpus::{self, Case};
use forebay_supervisor::installed::AGENT;

use crate::experiment::{Measured, Output, carry_out, print, tell, this_program};

/// Options of `forebay evaluate corpus`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Corpus {
    /// List the command lines, their kinds, and the packages that they need
    #[arg(long)]
    pub list: bool,
    /// Command line to measure, by the name that --list prints; repeat it for several [default: all]
    #[arg(long = "only", value_name = "NAME", value_parser = case)]
    pub only: Vec<&'static Case>,
    /// Disk of the data, the programs and their libraries: local, nvme, ssd-1ms-q128, raid-12ms-q4, hdd-1ms-q1 or
    /// remote
    #[arg(long, value_name = "DISK", default_value = "ssd-1ms-q128")]
    pub disk: Profile,
    /// Rounds; each runs every command line alone and with forebay, cold, and once more alone, warm
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Put forebay's own files on the disk, too; they are in memory without this option
    #[arg(long)]
    pub forebay_cold: bool,
    /// Run each command line alone once more a round, and show what chance makes of the figures
    #[arg(long)]
    pub control: bool,
    /// Record each program in one run first, and replay its access profile
    #[arg(long)]
    pub second_run: bool,
    /// Folder with packages of Python (python, a virtual environment) and of Node (node)
    #[arg(long, value_name = "DIR", default_value = "target/corpus")]
    pub tools: PathBuf,
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

const HELP: &str = "\
The corpus has command lines of real programs of Debian, PyPI and npm. Each runs
with its data, its program and its libraries on the disk, all of them cold:
alone, and with forebay. It runs once more with everything in memory, which
tells how much of the time is stall. Outputs, statuses and files are compared.
What a program writes goes to the same disk.

A command line is left out if a package is missing. The command needs root and
strace, which finds the files that a program needs.

Examples:
  forebay evaluate corpus --list
  forebay evaluate corpus --runs 5 --json corpus.json
  forebay evaluate corpus --only grep-r --only git-log-patch --disk nvme
  forebay evaluate corpus --disk local --control";

fn case(name: &str) -> Result<&'static Case, String> {
    let found = corpus::all().iter().find(|case| case.name == name);
    found.ok_or_else(|| "there is no such command line; --list prints all".to_owned())
}

/// Lists the corpus, or measures it.
pub fn run(args: &Corpus) -> anyhow::Result<ExitCode> {
    let cases = if args.only.is_empty() { corpus::all().iter().collect() } else { args.only.clone() };
    if args.list {
        print(&corpus::list(&cases, &args.tools))?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = corpus::Options {
        profile: args.disk,
        cases,
        runs: args.runs.into(),
        forebay_cold: args.forebay_cold,
        control: args.control,
        second_run: args.second_run,
        tools: args.tools.clone(),
        forebay: this_program()?,
        agent: AGENT.find().ok(),
    };
    let measured = |outcome: corpus::Outcome| Measured {
        agrees: outcome.agrees(),
        ..Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped)
    };
    // A terminal shows the bar, which names what runs.
    let mut told = |line: &str| {
        if !std::io::stderr().is_terminal() {
            tell(line);
        }
    };
    carry_out(&args.output, |progress| corpus::run(&options, progress, &mut told).map(measured))
}
