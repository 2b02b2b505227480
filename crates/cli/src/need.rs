//! `forebay evaluate need`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use forebay_evaluation::servers::server::{NeedOf, NeedOptions, need};

use crate::experiment::{Measured, Output, carry_out};
use crate::server::described;

/// Options of `forebay evaluate need`.
#[derive(Debug, Args)]
#[command(after_help = HELP, group(ArgGroup::new("subject").required(true)))]
pub struct Need {
    /// The experiment, as for forebay evaluate server: a file, or an included one
    #[arg(group = "subject")]
    experiment: Option<PathBuf>,
    /// The program and its arguments, in place of an experiment
    #[arg(last = true, value_name = "CMD", group = "subject")]
    command: Vec<OsString>,
    /// Give a factor other levels, such as clients=8; repeat it for several factors
    #[arg(long, value_name = "NAME=LEVELS", conflicts_with = "command")]
    set: Vec<String>,
    /// How often the limit goes down and up again
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Pairs of fresh runs, with all memory and with the limit that is enough
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Seconds that are counted at a limit [default: those of the experiment; 1 for a program]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    #[command(flatten)]
    output: Output,
}

const HELP: &str = "\
forebay runs the server under its load, or the program, in a control group. The
limit of the group goes down, and up again, while the server works. A limit is
too little where pages come back that memory had no room for. The result is the
least memory without such pages, with the interval of all ways down and up.

Then forebay looks for the least memory with which answers stay within 10 %: as
many, and their p99 as early, as with all memory. Fresh runs prove that limit.
A program without a load is judged by its processor time outside of the kernel,
and one that ends by itself by its whole runs.

A limit on memory that is in no file needs swap. Without root, the command needs
a control group that belongs to the user, as a delegated one does.

Examples:
  forebay evaluate need web --set servers=nginx --set clients=16
  forebay evaluate need streaming --set servers=forebay --set clients=16
  forebay evaluate need mine.toml --seconds 2 --json need.json --svg figures
  forebay evaluate need -- forebay run -- sort words";

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "give seconds from 0.05 to 3600".into())
}

/// Carries the experiment out.
pub fn run(args: Need) -> anyhow::Result<ExitCode> {
    let of = match &args.experiment {
        Some(experiment) => NeedOf::Experiment(Box::new(described(experiment, &args.set)?)),
        None => NeedOf::Command(args.command),
    };
    let options = NeedOptions { of, rounds: args.rounds, pairs: args.pairs, seconds: args.seconds };
    carry_out(&args.output, |progress| need(&options, progress).map(Measured::of))
}
