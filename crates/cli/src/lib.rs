//! The `forebay` command, in two executables.
//!
//! `forebay run` stays in memory beside the program, often in the same small control group. The kernel charges the group
//! for the pages of the executable that it reads. `forebay` is therefore small: [`front`] runs programs, and executes
//! `forebay-commands`, which has [`all`], for every other command.
#![forbid(unsafe_code)]

mod args;
mod cache;
mod corpus;
mod costs;
mod demo;
mod doctor;
mod evaluate;
mod experiment;
mod meter;
mod millipage;
mod need;
mod pages;
mod profile;
mod report;
mod results;
mod run;
mod serve;
mod server;
mod share;
mod streaming;
mod surroundings;
mod thesis;
mod warm;
mod why;

use std::env;
use std::process::ExitCode;

use clap::{Parser, error::ErrorKind};
use forebay_supervisor::installed::COMMANDS;

use args::{Cli, Command, Run, Warm};

/// Exit status of an invalid command line.
const USAGE: u8 = 2;
/// Exit status of failures of forebay itself.
const FAILURE: u8 = 1;

/// `forebay`: executes a valid command line of `run` or `warm`, and leaves every other one to `forebay-commands`.
pub fn front() -> ExitCode {
    if let Some(run) = Run::quickly(env::args_os().skip(1)) {
        return run::run(run);
    }
    if let Some(warm) = Warm::quickly(env::args_os().skip(1)) {
        return ended(warm::run(&warm));
    }
    run::complain(&COMMANDS.execute(env::args_os()));
    failure().into()
}

/// `forebay-commands`: every command.
pub fn all() -> ExitCode {
    // The slow disk's server is this executable again.
    forebay_lab::cleanup::enter_if_asked();
    // Process listings show this executable as forebay, too.
    let _ = rustix::thread::set_name(c"forebay");
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = match cli.command {
        // The exit status is that of the program.
        Command::Run(run) => return run::run(run),
        Command::Profile(profile) => profile::run(profile),
        Command::Warm(warm) => warm::run(&warm),
        Command::Share(share) => return share::share(share),
        Command::Serve(serve) => serve::run(serve),
        Command::Demo(demo) => demo::run(&demo),
        Command::Evaluate(evaluate) => evaluate::run(evaluate),
        Command::Report(args) => report::run(&args),
        Command::Doctor(doctor) => doctor::run(&doctor),
        Command::Completions(completions) => pages::completions(&completions),
        Command::Man(man) => pages::man(&man),
    };
    ended(done)
}

fn ended(done: anyhow::Result<ExitCode>) -> ExitCode {
    match done {
        Ok(status) => status,
        Err(error) => {
            eprintln!("forebay: {}", sentence(&error));
            FAILURE.into()
        }
    }
}

/// The error with its causes, each once: some errors quote their cause, others leave it to the caller.
fn sentence(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        let words = cause.split(" (os error").next().unwrap_or(&cause);
        if told.is_empty() {
            told = cause;
        } else if !told.contains(words) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

/// Prints help, the version, or what is wrong with the command line.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed standard error leaves nowhere to report this.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ if runs_a_program() => run::FAILURE.into(),
        _ => USAGE.into(),
    }
}

/// Exit status of a failure before the command line is parsed.
fn failure() -> u8 {
    if runs_a_program() { run::FAILURE } else { FAILURE }
}

/// Whether the exit status is that of a program: its caller must be able to tell failures of forebay from it.
fn runs_a_program() -> bool {
    env::args_os().nth(1).is_some_and(|command| command == "run" || command == "share")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::sentence;

    #[test]
    fn a_cause_is_told_once() {
        let taken = || std::io::Error::from_raw_os_error(98);
        let quoted = anyhow!(taken()).context("port 80 is taken (Address already in use)");
        assert_eq!(
            sentence(&quoted.context("nothing was measured")),
            "nothing was measured: port 80 is taken (Address already in use)"
        );
        let left_out = anyhow!(taken()).context("cannot listen");
        assert_eq!(sentence(&left_out), "cannot listen: Address already in use (os error 98)");
    }
}
