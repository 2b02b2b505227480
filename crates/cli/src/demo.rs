//! `forebay demo`.

use std::process::ExitCode;

use forebay_evaluation::run::demo::{self, Options};

use crate::args::Demo;
use crate::experiment::{Measured, carry_out, this_program};

/// Runs the demonstration and prints its table.
pub fn run(args: &Demo) -> anyhow::Result<ExitCode> {
    let options = Options::new(this_program()?);
    carry_out(&args.output, |progress| {
        let outcome = demo::run(&options, progress)?;
        let agrees = outcome.identical();
        Ok(Measured { agrees, ..Measured::all(outcome.table(), outcome.rows()) })
    })
}
