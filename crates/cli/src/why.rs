//! `forebay evaluate why`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use forebay_evaluation::servers::server::{Options, Why as Outcome, why};

use crate::experiment::{Measured, Output, carry_out, this_program};

/// Options of `forebay evaluate why`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Why {
    /// The experiment, as for forebay evaluate server: a file, or an included one
    experiment: PathBuf,
    /// Give a factor other levels, such as clients=8; repeat it for several factors
    #[arg(long, value_name = "NAME=LEVELS")]
    set: Vec<String>,
    /// Rounds; each runs every dose twice, and twice without it
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    #[command(flatten)]
    output: Output,
}

const HELP: &str = "\
forebay loads the server, and takes known doses of one resource at a time away
from it: processor time by a quota, and memory by a limit. A server that asks
another one can name that as dependency = \"HOST:PORT\" in the experiment, with
{dependency} or {dependency_port} in its command line. A proxy of forebay's then
makes the answers of the dependency later.

An elasticity is the percentage by which answers become fewer for each percent
of the resource. The interval holds the median of the rounds. The resource whose
interval begins at 0.30 or more binds. Six pairs of runs, three rounds, are the
fewest for an interval of 95 %.

Quotas and limits need root and control groups. Doses that this machine does not
allow are named.

Examples:
  forebay evaluate why web --set servers=nginx --set clients=8
  forebay evaluate why mine.toml --rounds 5 --json why.json";

/// Carries the experiment out.
pub fn run(args: &Why) -> anyhow::Result<ExitCode> {
    let options =
        Options::read(&args.experiment, &args.set).context("the experiment cannot be carried out")?;
    let options = Options { forebay: this_program()?, ..options };
    let measured = |outcome: Outcome| Measured {
        table: outcome.table(),
        rows: outcome.rows(),
        statements: outcome.statements(),
        agrees: true,
        stopped: outcome.stopped,
    };
    carry_out(&args.output, |progress| why(&options, args.rounds, progress).map(measured))
}
