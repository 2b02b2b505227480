//! `forebay`: runs programs, and executes `forebay-commands` for every other command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::front()
}
