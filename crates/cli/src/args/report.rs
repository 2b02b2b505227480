//! Options of `forebay report`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// Options of `forebay report`.
#[derive(Debug, Args)]
#[command(after_help = HELP, group(ArgGroup::new("outputs").required(true).multiple(true)))]
pub struct Report {
    /// Results that commands wrote with --json
    #[arg(required = true, value_name = "RESULTS")]
    pub results: Vec<PathBuf>,
    /// Write one page of text, tables and figures, which needs no other file; - is standard output
    #[arg(short, long, value_name = "FILE", group = "outputs")]
    pub output: Option<PathBuf>,
    /// Write every row, or every change, as CSV; - is standard output
    #[arg(long, value_name = "FILE", group = "outputs")]
    pub csv: Option<PathBuf>,
    /// Write all results in one file, which this command reads too; - is standard output
    #[arg(long, value_name = "FILE", group = "outputs", conflicts_with = "compare")]
    pub json: Option<PathBuf>,
    /// Write each figure as a file of this folder
    #[arg(long, value_name = "DIR", group = "outputs")]
    pub svg: Option<PathBuf>,
    /// Write pages of chosen rows into this folder, as Markdown; - prints the page, where there is one
    #[arg(long, value_name = "DIR", group = "outputs", conflicts_with = "compare")]
    pub markdown: Option<PathBuf>,
    /// Compare RESULTS, taken as before, with this file, taken as after
    #[arg(long, value_name = "AFTER")]
    pub compare: Option<PathBuf>,
    /// Leave out files that are refused, with a message, instead of failing
    #[arg(long)]
    pub keep_going: bool,
}

const HELP: &str = "\
A file is refused if it is not JSON, is no result of forebay, has a schema later
than this version's, has no rows, or has a row twice. Files of schema 1 are read
with today's names of programs, disk profiles and metrics.

A comparison gives the ratio of each two medians, with an interval and its
confidence. The interval is computed from the values of all runs, or from their
extremes. Each side needs three runs.

--markdown makes these pages, as far as there are results for them: run-files,
run-corpus, run-corpus-second, run-swap, overhead, share, serve, servers and
machine. Each table stands below the command that measured it.

Examples:
  forebay report results/*.json -o page.html
  forebay report ssd.json local.json -o page.html --csv rows.csv --svg figures
  forebay report before.json --compare after.json -o changes.html
  forebay report benches/results/*.json --markdown docs/benchmarks";
