//! `forebay evaluate`: runs an experiment with a progress bar and prints its table.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use forebay_evaluation::{Error, Progress, overhead, speculation};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Evaluate, Overhead, Speculation};
use crate::{FAILURE, results};

/// Steps of the bar.
const STEPS: u64 = 1000;

/// Runs the experiment.
pub fn run(args: Evaluate) -> anyhow::Result<ExitCode> {
    match args {
        Evaluate::Speculation(args) => compare(args),
        Evaluate::Overhead(args) => measure_overhead(&args),
    }
}

fn compare(args: Speculation) -> anyhow::Result<ExitCode> {
    let sink = results::open(args.json.as_deref())?;
    let mut options = speculation::Options::new(args.profile, this_program()?);
    options.runs = args.runs.into();
    if !args.programs.is_empty() {
        options.programs = args.programs;
    }
    let outcome =
        with_bar(|progress| speculation::run(&options, progress)).context("the comparison failed")?;
    show(&outcome.table(), args.json.as_deref());
    results::write(sink, || outcome.rows())?;
    Ok(verdict(outcome.identical()))
}

fn measure_overhead(args: &Overhead) -> anyhow::Result<ExitCode> {
    let sink = results::open(args.json.as_deref())?;
    let options = overhead::Options { pairs: args.pairs.into(), ..overhead::Options::new(this_program()?) };
    let outcome = with_bar(|progress| overhead::run(&options, progress)).context("the measurement failed")?;
    show(&outcome.table(), args.json.as_deref());
    results::write(sink, || outcome.rows())?;
    Ok(verdict(outcome.identical()))
}

/// The `forebay` that experiments run: this one.
pub fn this_program() -> anyhow::Result<PathBuf> {
    env::current_exe().context("cannot tell where forebay itself is; mount /proc")
}

/// Runs `experiment` under a progress bar on standard error.
pub fn with_bar<T>(
    experiment: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T, Error>,
) -> Result<T, Error> {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3}% {elapsed} {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(STEPS).with_style(style);
    let done = experiment(&mut |progress| {
        bar.set_position((progress.share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        bar.set_message(progress.doing);
    });
    bar.finish_and_clear();
    done
}

/// Prints the table where it does not get into the way of JSON.
pub fn show(table: &str, json: Option<&Path>) {
    if json.is_some_and(|path| path.as_os_str() == "-") {
        eprintln!("{table}");
    } else {
        println!("{table}");
    }
}

/// A difference between the sides is a failure.
pub fn verdict(identical: bool) -> ExitCode {
    if identical { ExitCode::SUCCESS } else { FAILURE.into() }
}
