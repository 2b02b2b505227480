//! `forebay evaluate server`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use forebay_evaluation::servers::server::{Options, SHIPPED, run as measure};

use crate::experiment::{Measured, Output, carry_out, print, this_program};

/// Options of `forebay evaluate server`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Server {
    /// The experiment: a file, or an included one: web, streaming, router or any
    #[arg(required_unless_present_any = ["list", "print"])]
    experiment: Option<PathBuf>,
    /// Give a factor other levels, such as clients=4,64; repeat it for several factors
    #[arg(long, value_name = "NAME=LEVELS", requires = "experiment")]
    set: Vec<String>,
    /// List the included experiments
    #[arg(long, conflicts_with_all = ["experiment", "print"])]
    list: bool,
    /// Print the file of an included experiment, to start from
    #[arg(long, value_name = "NAME", conflicts_with = "experiment")]
    print: Option<String>,
    /// Simulate the cache misses of requests too, by valgrind; takes seconds for each combination
    #[arg(long)]
    simulate: bool,
    /// Predict the server's processor time by these results of forebay evaluate host
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

const HELP: &str = "\
forebay starts a server for each combination of levels, or watches one that runs
already. Under load it counts the server's processor time, page faults, context
switches and memory, and samples the states of its threads. The table ends with
the limit of the server in each condition; the evidence stands below it.

Latency begins when a request is due. With rate=500 a request is due each 2 ms,
however late the answers are. With rate=most each client sends its next request
as soon as its last is answered.

A limit of memory needs root and a control group of memory. After an interrupt,
or when a server fails, the results so far are shown and written.

Examples:
  forebay evaluate server web --set document=10K --set runs=5 --json web.json
  forebay evaluate server web --set document=10K --set memory=all,24M
  forebay evaluate server web --host host.json
  forebay evaluate server --print any > mine.toml
  forebay evaluate server mine.toml";

/// Carries the experiment out.
pub fn run(args: &Server) -> anyhow::Result<ExitCode> {
    if args.list {
        let lines = SHIPPED.iter().map(|shipped| format!("{:10} {}", shipped.name, shipped.title()));
        print(&lines.collect::<Vec<_>>().join("\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &args.print {
        let Some(shipped) = SHIPPED.iter().find(|shipped| shipped.name == name) else {
            bail!("unknown experiment '{name}'; --list prints the included ones");
        };
        print(shipped.text.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let experiment = args.experiment.as_deref().context("name an experiment")?;
    let options = described(experiment, &args.set)?;
    let options = Options { simulate: args.simulate, host: args.host.clone(), ..options };
    carry_out(&args.output, |progress| measure(&options, progress).map(Measured::of))
}

/// The experiment of this name or file, with other levels for some factors.
///
/// # Errors
/// There is no such experiment, or it makes no sense.
pub fn described(experiment: &Path, set: &[String]) -> anyhow::Result<Options> {
    let options = Options::read(experiment, set).context("the experiment cannot be carried out")?;
    Ok(Options { forebay: this_program()?, ..options })
}
