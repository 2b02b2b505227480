//! `forebay evaluate thesis`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use forebay_evaluation::servers::thesis::{Measured, Options, Outcome, Part, run as measure};
use forebay_results::{Report, Sink};

use crate::experiment::{print, tell, with_bar};
use crate::surroundings::Surroundings;
use crate::{FAILURE, report, results};

/// Options of `forebay evaluate thesis`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Thesis {
    /// Write the results as files of this folder, one for each part
    #[arg(long, value_name = "DIR")]
    json: Option<PathBuf>,
    /// Measure these parts only: model, web, router, misses, memory; separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,
    /// One short run of few levels, to see whether everything works
    #[arg(long)]
    quick: bool,
}

const HELP: &str = "\
The parts are the rows of a thesis of 2003 on memory in servers. model has the
table of the latency model and the formulas of caches. web has nginx and Apache
by clients, over kept and new connections. router has three layouts of networks
and three sizes of messages. misses simulates the caches of web servers and of
GStreamer's streaming server. memory searches the memory below which the streams
of forebay serve suffer.

The table at the end has what was published beside what was measured here. A
part that this machine does not allow is left out, with the reason. router and
memory need root, misses needs valgrind, and streams need GStreamer.

Examples:
  forebay evaluate thesis --json thesis
  forebay evaluate thesis --only web,router --json thesis
  forebay evaluate thesis --quick";

/// Measures, shows and writes.
pub fn run(args: &Thesis) -> anyhow::Result<ExitCode> {
    let parts = if args.only.is_empty() { Part::ALL.to_vec() } else { args.only.clone() };
    let folder = args.json.as_deref();
    if let Some(folder) = folder {
        report::make_folder(folder, "results")?;
        // That a file cannot be written is told before anything is measured.
        parts.iter().try_for_each(|part| Sink::open(&file(folder, *part)).map(drop))?;
    }
    let forebay = env::current_exe().context("cannot tell where forebay itself is; mount /proc")?;
    let options = Options { parts, quick: args.quick, forebay };
    let warn = |what: &str| tell(&format!("forebay: {what}"));
    let surroundings = Surroundings::look(warn);
    let outcome = with_bar(|progress| measure(&options, progress)).context("nothing was measured")?;
    let others_cpu = surroundings.end(0.0, warn);
    let shown = print(&outcome.table());
    if let Some(error) = &outcome.stopped {
        tell(&format!("forebay: {error}; what had been measured by then is shown"));
    }
    let Outcome { parts, left_out, stopped } = outcome;
    for Measured { part, rows, statements } in parts {
        let Some(folder) = folder else { break };
        let report = results::report(rows).with_statements(statements);
        Sink::open(&file(folder, part))?.write(&Report { others_cpu, ..report })?;
    }
    shown?;
    let all = left_out.is_empty() && stopped.is_none();
    Ok(if all { ExitCode::SUCCESS } else { FAILURE.into() })
}

fn file(folder: &Path, part: Part) -> PathBuf {
    folder.join(part.name()).with_extension("json")
}
