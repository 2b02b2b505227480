//! `forebay-commands`: what `forebay` becomes for every command but a plain `run`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::all()
}
