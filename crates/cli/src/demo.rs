//! `forebay demo`.

use std::process::ExitCode;

use anyhow::Context;
use forebay_evaluation::run::demo::{self, Options};

use crate::{args::Demo, evaluate, results};

/// Runs the demonstration and prints its table.
pub fn run(args: &Demo) -> anyhow::Result<ExitCode> {
    let sink = results::open(args.json.as_deref())?;
    let options = Options::new(evaluate::this_program()?);
    let outcome =
        evaluate::with_bar(|progress| demo::run(&options, progress)).context("the demonstration failed")?;
    evaluate::show(&outcome.table(), args.json.as_deref());
    results::write(sink, || outcome.rows())?;
    Ok(evaluate::verdict(outcome.identical()))
}
