//! The `forebay` command: two programs that are one to the user.
//!
//! `forebay run` stays in memory beside the program that it runs, often in a control group that has too little for both,
//! and the kernel charges the group with what it reads of our executable, megabytes at a time. So [`front`] is all that
//! `forebay` itself has: it runs programs, and becomes `forebay-commands`, which has [`all`], for everything else.
#![forbid(unsafe_code)]

mod args;
mod demo;
mod doctor;
mod evaluate;
mod experiment;
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
use forebay_supervisor::installed::COMMANDS;

use args::{Cli, Command, Run};

/// Status of a command line that makes no sense.
const USAGE: u8 = 2;
/// Status of our own failures.
const FAILURE: u8 = 1;

/// `forebay`: a command line of `run` that makes sense is run; whatever else is that of all commands.
pub fn front() -> ExitCode {
    if let Some(run) = Run::quickly(env::args_os().skip(1)) {
        return run::run(run);
    }
    run::complain(&COMMANDS.execute(env::args_os()));
    failure().into()
}

/// `forebay-commands`: every command.
pub fn all() -> ExitCode {
    // The slow disk's server is this executable again.
    forebay_lab::cleanup::enter_if_asked();
    // To whoever lists processes this is forebay, too.
    let _ = rustix::thread::set_name(c"forebay");
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
            eprintln!("forebay: {}", sentence(&error));
            FAILURE.into()
        }
    }
}

/// The error with its causes, each once: some errors quote theirs, some leave it to whoever prints them.
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
    // Nobody reads it where this fails.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ if runs_a_program() => run::FAILURE.into(),
        _ => USAGE.into(),
    }
}

/// Status of a failure of ours before it is known what to do.
fn failure() -> u8 {
    if runs_a_program() { run::FAILURE } else { FAILURE }
}

/// Whether our exit status is a program's: its caller must be able to tell our failures from that.
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
