//! `forebay-commands`: every command of forebay. `forebay` executes it for all but a plain `run`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::all()
}
