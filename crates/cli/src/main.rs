//! The `forebay` command.
#![forbid(unsafe_code)]

mod args;
mod demo;
mod doctor;
mod evaluate;
mod meter;
mod millipage;
mod pages;
mod report;
mod results;
mod run;
mod serve;
mod server;
mod share;
mod streaming;

use std::env;
use std::process::ExitCode;

use clap::{Parser, error::ErrorKind};

use args::{Cli, Command, Run};

/// Status of a command line that makes no sense.
const USAGE: u8 = 2;
/// Status of our own failures.
const FAILURE: u8 = 1;

fn main() -> ExitCode {
    // The slow disk's server is this executable again.
    forebay_testkit::guardian::enter_if_asked();
    if let Some(run) = Run::quickly(env::args_os().skip(1)) {
        return run::run(run);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = match cli.command {
        // Its exit status is the program's.
        Command::Run(run) => return run::run(run),
        Command::Share(share) => return share::share(share),
        Command::Serve(serve) => serve::run(serve),
        Command::Demo(demo) => demo::run(&demo),
        Command::Evaluate(evaluate) => evaluate::run(evaluate),
        Command::Report(args) => report::run(&args),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Completions(completions) => pages::completions(&completions),
        Command::Man(man) => pages::man(&man),
    };
    match done {
        Ok(status) => status,
        Err(error) => {
            eprintln!("forebay: {error:#}");
            FAILURE.into()
        }
    }
}

/// Prints help, the version, or what is wrong with the command line.
fn usage(error: &clap::Error) -> ExitCode {
    // Nobody reads it where this fails.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        // A caller of `run` or `share` must be able to tell our failures from the program's.
        _ if env::args_os().nth(1).is_some_and(|command| command == "run" || command == "share") => {
            run::FAILURE.into()
        }
        _ => USAGE.into(),
    }
}
