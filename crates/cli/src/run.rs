//! `forebay run`.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use forebay_linux::process::end_by;
use forebay_results::Sink;
use forebay_supervisor::{
    Error, Options, Outcome, agent_library, become_program, become_program_alone, can_stand_beside,
    terminal_width,
};

use crate::{args::Run, results};

/// Exit status of failures of forebay itself, as of env(1) and timeout(1).
pub const FAILURE: u8 = 125;

/// Becomes the program. With statistics, runs the program as a child and ends with its exit status: if a signal ended the
/// program, forebay ends by the same signal, so the parent process sees the same wait status.
pub fn run(args: Run) -> ExitCode {
    let sink = match results::open(args.json.as_deref()) {
        Ok(sink) => sink,
        Err(error) => {
            complain(&error);
            return FAILURE.into();
        }
    };
    let stats = args.stats;
    let command = args.command.clone();
    // Statistics come before the end of what the caller waits for.
    if !stats && sink.is_none() && can_stand_beside() {
        let error = options(args).map_or_else(|error| error, |options| become_program(&options));
        complain(&error);
        return error.exit_status().into();
    }
    match options(args).and_then(|options| forebay_supervisor::run(&options)) {
        Ok(outcome) => {
            report(&outcome, stats, sink);
            if let Some(signal) = outcome.signal {
                end_by(signal);
            }
            outcome.exit_status.into()
        }
        Err(error) => {
            complain(&error);
            let error = match error {
                // The program needs none of it.
                Error::NoSharedMemory { .. } => become_program_alone(&command),
                error => return error.exit_status().into(),
            };
            complain(&error);
            error.exit_status().into()
        }
    }
}

/// How a command line is run.
pub fn options(args: Run) -> Result<Options, Error> {
    let agent = agent_library::locate()?;
    let (speculate, patch) = (!args.no_speculation, !args.no_patching);
    Ok(Options {
        command: args.command,
        agent,
        speculate,
        memory_control: args.memory_control,
        memory_limit_bytes: args.memory_limit,
        statistics: args.stats || args.json.is_some(),
        patch,
        profile: !args.no_profile,
    })
}

/// Prints and writes the statistics. A failure to write leaves the exit status of the program unchanged.
fn report(outcome: &Outcome, stats: bool, sink: Option<Sink>) {
    if stats {
        let table = outcome.statistics.table(terminal_width());
        let _ = std::io::stderr().write_all(table.as_bytes());
    }
    if let Err(error) = results::write(sink, || outcome.statistics.rows()) {
        complain(&error);
    }
}

/// Prints an error to standard error.
pub fn complain(sentence: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "forebay: {sentence}");
}
