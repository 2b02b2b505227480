//! `forebay evaluate why`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forebay_evaluation::servers::server::{Resource, WhyAsked, why};

use crate::experiment::{Measured, Output, carry_out};
use crate::server::described;

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
    /// Doses of these alone: processors, memory, page-cache, bandwidth, last-cache, disk, dependency; separated by
    /// commas
    #[arg(long, value_name = "DOSES", value_delimiter = ',')]
    only: Vec<Resource>,
    #[command(flatten)]
    output: Output,
}

const HELP: &str = "\
forebay loads the server, and takes known doses of one resource at a time away
from it. A quota takes processor time, and a limit takes memory. An evictor
holds a part of the files out of memory. A thief on a processor of its own takes
memory's throughput, or half of the last cache. Runs without that dose have a
twin of the thief, which executes the same and touches one page.

A server that uses a disk has its files on a disk of forebay's, with a latency
and without. A folder that the server reads is files = \"DIR\" in the experiment,
with {files} in the command line. A server that the server asks is dependency =
\"HOST:PORT\", with {dependency} or {dependency_port} in the command line. A proxy
of forebay's makes the answers of the dependency later.

An elasticity is the percentage by which answers become fewer, or the p99
longer, for each percent of the resource. The interval holds the median of the
rounds. The resource whose interval begins at 0.30 or more binds. Six pairs of
runs, three rounds, are the fewest for an interval of 95 %.

Quotas, limits and disks need root. Doses that this machine does not allow are
named with the reason.

Examples:
  forebay evaluate why web --set servers=nginx --set clients=8
  forebay evaluate why mine.toml --rounds 5 --only bandwidth,last-cache";

/// Carries the experiment out.
pub fn run(args: &Why) -> anyhow::Result<ExitCode> {
    let options = described(&args.experiment, &args.set)?;
    let asked = WhyAsked { rounds: args.rounds, only: args.only.clone() };
    carry_out(&args.output, |progress| why(&options, &asked, progress).map(Measured::of))
}
