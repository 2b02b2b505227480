//! `forebay run`.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use forebay_linux::process::end_by;
use forebay_results::Sink;
use forebay_supervisor::{Error, Options, Outcome, agent_library, terminal_width};

use crate::{args::Run, results};

/// Exit status of failures of forebay itself, as of env(1) and timeout(1).
pub const FAILURE: u8 = 125;

/// Runs the program and ends with its exit status. If a signal ended the program, forebay ends by the same signal, so the
/// parent process sees the same wait status.
pub fn run(args: Run) -> ExitCode {
    let sink = match results::open(args.json.as_deref()) {
        Ok(sink) => sink,
        Err(error) => {
            complain(&error);
            return FAILURE.into();
        }
    };
    let stats = args.stats;
    match start(args) {
        Ok(outcome) => {
            report(&outcome, stats, sink);
            if let Some(signal) = outcome.signal {
                end_by(signal);
            }
            outcome.exit_status.into()
        }
        Err(error) => {
            sink.into_iter().for_each(Sink::discard);
            complain(&error);
            error.exit_status().into()
        }
    }
}

fn start(args: Run) -> Result<Outcome, Error> {
    let agent = agent_library::locate()?;
    let (speculate, patch) = (!args.no_speculation, !args.no_patching);
    forebay_supervisor::run(&Options {
        command: args.command,
        agent,
        speculate,
        memory_control: args.memory_control,
        memory_limit_bytes: args.memory_limit,
        statistics: args.stats || args.json.is_some(),
        patch,
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
