//! `forebay evaluate cache`.

use std::process::ExitCode;

use clap::Args;
use forebay_evaluation::machine::cache::{Options, run as compute};

use crate::experiment::Output;
use crate::results;

/// Options of `forebay evaluate cache`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Cache {
    /// Bytes of each access (W)
    #[arg(long, value_name = "BYTES", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    access: u32,
    /// Bytes from one access to the next [default: those of an access]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    stride: Option<u32>,
    /// Bytes of a cache line (L)
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    line: u32,
    /// Cycles of a miss (MP)
    #[arg(long, value_name = "CYCLES", default_value_t = 100)]
    penalty: u32,
    /// Accesses for each instruction (AR)
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, value_parser = not_negative)]
    accesses: f64,
    /// Instructions for each transaction (IC)
    #[arg(long, value_name = "NUMBER", default_value_t = 1e6, value_parser = not_negative)]
    instructions: f64,
    #[command(flatten)]
    output: Output,
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..1e18).contains(number));
    number.ok_or_else(|| "give a number of 0 or more".into())
}

const HELP: &str = "\
The miss ratio of a program that goes through memory in order is W/L. Its time
with misses is 1 + MR MP times its time without. It stalls for IC AR MR MP
cycles. The published cases stand beside the given one.

Examples:
  forebay evaluate cache --access 2 --line 32 --penalty 10
  forebay evaluate cache --stride 64 --penalty 200 --json cache.json";

/// Computes, shows and writes.
pub fn run(args: &Cache) -> anyhow::Result<ExitCode> {
    let outcome = compute(&Options {
        access_bytes: args.access,
        stride_bytes: args.stride.unwrap_or(args.access),
        line_bytes: args.line,
        penalty_cycles: args.penalty,
        accesses: args.accesses,
        instructions: args.instructions,
    });
    let opened = args.output.open()?;
    let shown = opened.show(&outcome.table());
    opened.write(results::report(outcome.rows()))?;
    shown?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_instructions_are_not_negative() {
        assert_eq!((not_negative("0"), not_negative("2.5e6")), (Ok(0.0), Ok(2.5e6)));
        for nonsense in ["-1", "nan", "inf", "x"] {
            assert!(not_negative(nonsense).unwrap_err().contains("0 or more"), "{nonsense}");
        }
    }
}
