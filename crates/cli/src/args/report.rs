//! Options of `forebay report`.

use std::path::PathBuf;
use std::str::FromStr;

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
    /// Compare RESULTS, taken as before, with this file, taken as after; repeat it for several runs
    #[arg(long, value_name = "AFTER")]
    pub compare: Vec<PathBuf>,
    /// The least change that counts in a comparison, in per cent [default: 5%]
    #[arg(long, value_name = "PERCENT", value_parser = share, requires = "compare")]
    pub least: Option<f64>,
    /// End with status 3 if a value is worse, or changed, by this much: worse:5% or change:5%
    #[arg(long, value_name = "WHAT", requires = "compare", group = "outputs")]
    pub fail_on: Option<FailOn>,
    /// Leave out files that are refused, with a message, instead of failing
    #[arg(long)]
    pub keep_going: bool,
}

/// The changes that make a comparison fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FailOn {
    /// Those for the worse by this share.
    Worse(f64),
    /// All by this share.
    Change(f64),
}

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("worse", least)) => share(least).map(Self::Worse),
            Some(("change", least)) => share(least).map(Self::Change),
            _ => Err("give worse:PERCENT or change:PERCENT, such as worse:5%".into()),
        }
    }
}

/// A share from per cent.
fn share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>().ok();
    let share = percent.filter(|percent| (0.0..=1000.0).contains(percent)).map(|percent| percent / 100.0);
    share.ok_or_else(|| "give per cent from 0 to 1000, such as 5%".into())
}

const HELP: &str = "\
A file is refused if it is not JSON, is no result of forebay, has a schema later
than this version's, has no rows, or has a row twice. Files of schema 1 are read
with today's names of programs, disk profiles and metrics.

A comparison gives the ratio of each two medians, with an interval and its
confidence. Each side needs three runs. Where several files of a side have a
value, each file is a run. Samples of one run, as evaluate host takes them, are
one value.

--fail-on says how many values could not be judged. The comparison also fails if
rows of RESULTS are missing in AFTER, or if no value that differs can be judged.

--markdown makes these pages, as far as there are results for them: run-files,
run-corpus, run-corpus-second, run-swap, overhead, share, serve, servers and
machine. Each table stands below the command that measured it.

Examples:
  forebay report results/*.json -o page.html
  forebay report ssd.json local.json -o page.html --csv rows.csv --svg figures
  forebay report before.json --compare after.json -o changes.html
  forebay report before.json --compare after.json --fail-on worse:5%
  forebay report benches/results/*.json --markdown docs/benchmarks";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_given_in_per_cent() {
        assert_eq!("worse:5%".parse(), Ok(FailOn::Worse(0.05)));
        assert_eq!("change:12.5".parse(), Ok(FailOn::Change(0.125)));
        for nonsense in ["", "worse", "worse:", "worse:x%", "worse:-5%", "better:5%", "worse:nan"] {
            assert!(nonsense.parse::<FailOn>().is_err(), "{nonsense}");
        }
    }
}
