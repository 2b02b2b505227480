//! `forebay evaluate server`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use forebay_evaluation::servers::server::{Options, Outcome, SHIPPED, run as measure};

use crate::experiment::{Measured, Output, carry_out, this_program};

/// Options of `forebay evaluate server`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Server {
    /// The experiment: a file, or one that comes with forebay: web, streaming, router or any
    #[arg(required_unless_present_any = ["list", "print"])]
    experiment: Option<PathBuf>,
    /// Give a factor other levels, such as clients=4,64; several times for several factors
    #[arg(long, value_name = "NAME=LEVELS", requires = "experiment")]
    set: Vec<String>,
    /// List the experiments that come with forebay
    #[arg(long, conflicts_with_all = ["experiment", "print"])]
    list: bool,
    /// Print the file of an experiment that comes with forebay, to start from
    #[arg(long, value_name = "NAME", conflicts_with = "experiment")]
    print: Option<String>,
    /// Simulate what requests miss in caches too (needs valgrind): it takes some seconds for each combination
    #[arg(long)]
    simulate: bool,
    /// Set cache misses against these results of forebay evaluate host, and predict by them what the server takes
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

const HELP: &str = "\
A server is started for each combination of levels, or one is watched that runs already, and is loaded while its processor \
time, page faults, context switches and memory are counted and its threads are looked at. The table ends with what limits \
the server in each condition, and below it stands by what that was decided.

Latency is from when a request was to be made. With rate=500 a request is made each 2 ms, however late the answers are; \
with rate=most each client makes one as soon as its last is answered.

A limit of memory needs root and a control group of memory. When it is interrupted, or a server fails, what was measured is \
shown and written.

Examples:
  forebay evaluate server web --set document=10K --set runs=5 --json web.json
  forebay evaluate server web --set document=10K --set memory=all,24M
  forebay evaluate server web --host host.json
  forebay evaluate server --print any > mine.toml
  forebay evaluate server mine.toml";

/// Carries the experiment out.
pub fn run(args: &Server) -> anyhow::Result<ExitCode> {
    if args.list {
        SHIPPED.iter().for_each(|shipped| println!("{:10} {}", shipped.name, shipped.title()));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &args.print {
        let Some(shipped) = SHIPPED.iter().find(|shipped| shipped.name == name) else {
            bail!("no experiment called {name} comes with forebay; --list tells those that do");
        };
        print!("{}", shipped.text);
        return Ok(ExitCode::SUCCESS);
    }
    let experiment = args.experiment.as_deref().context("name an experiment")?;
    let options = Options::read(experiment, &args.set).context("the experiment cannot be carried out")?;
    let options =
        Options { simulate: args.simulate, host: args.host.clone(), forebay: this_program()?, ..options };
    let measured = |outcome: Outcome| Measured {
        table: outcome.table(),
        rows: outcome.rows(),
        agrees: true,
        stopped: outcome.stopped,
    };
    carry_out(&args.output, |progress| measure(&options, progress).map(measured))
}
