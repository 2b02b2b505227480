//! `forebay`: runs programs itself, and leaves the other commands to `forebay-commands`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    forebay_cli::front()
}
