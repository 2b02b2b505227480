//! What all experiments of `forebay evaluate` have in common: a progress bar, a table, and where results and figures go.

use std::env;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use forebay_evaluation::servers::server::Told;
use forebay_evaluation::{Error, Progress};
use forebay_results::{Report, Row, Sink, Statement};
use forebay_supervisor::installed::FRONT;
use indicatif::{ProgressBar, ProgressStyle};

use crate::surroundings::Surroundings;
use crate::{FAILURE, report, results};

/// Steps of the bar.
const STEPS: u64 = 1000;
/// Where there is no terminal, a line tells how far an experiment is, no more often than this.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Where results go besides the terminal.
#[derive(Debug, Default, PartialEq, Eq, Args)]
pub struct Output {
    /// Write the results as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the results, each figure as a file of this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// What was measured, all of it or what there was when something stopped the experiment.
pub struct Measured {
    /// For people.
    pub table: String,
    /// For machines.
    pub rows: Vec<Row>,
    /// What follows from the rows, in words.
    pub statements: Vec<Statement>,
    /// Processor time of servers that ran already, in seconds.
    pub attached_s: f64,
    /// Whether what had to be the same on all sides was.
    pub agrees: bool,
    /// Why there is not all of it.
    pub stopped: Option<Error>,
}

impl Measured {
    /// All of an experiment without sides that must agree.
    pub fn all(table: String, rows: Vec<Row>) -> Self {
        Self { table, rows, statements: vec![], attached_s: 0.0, agrees: true, stopped: None }
    }

    /// What an experiment with servers tells.
    pub fn of(outcome: impl Told) -> Self {
        let (statements, attached_s) = (outcome.statements(), outcome.attached_s());
        Self { statements, attached_s, ..Self::all(outcome.table(), outcome.rows()).until(outcome.stopped()) }
    }

    /// The same of an experiment that `stopped` ended early, if anything did.
    pub fn until(self, stopped: Option<Error>) -> Self {
        Self { stopped, ..self }
    }
}

/// Measures under a progress bar, then shows and writes what there is.
///
/// # Errors
/// Nothing was measured, or what was measured cannot be written.
pub fn carry_out(
    output: &Output,
    experiment: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Measured, Error>,
) -> anyhow::Result<ExitCode> {
    let opened = output.open()?;
    let warn = |what: &str| tell(&format!("forebay: {what}"));
    let surroundings = Surroundings::look(warn);
    let measured = match with_bar(experiment) {
        Ok(measured) => measured,
        Err(error) => {
            opened.discard();
            return Err(error).context("nothing was measured");
        }
    };
    let others_cpu = surroundings.end(measured.attached_s, warn);
    let shown = opened.show(&measured.table);
    if let Some(error) = &measured.stopped {
        tell(&format!("forebay: {error}; what had been measured by then is shown"));
    }
    let any = !measured.rows.is_empty();
    let report = results::report(measured.rows).with_statements(measured.statements);
    opened.write(Report { others_cpu, ..report })?;
    shown?;
    Ok(verdict(any && measured.agrees && measured.stopped.is_none()))
}

impl Output {
    /// Opens what will be written, so that a path that cannot be written is told before anything is measured.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(&self) -> anyhow::Result<Opened<'_>> {
        let json = results::open(self.json.as_deref())?;
        let mut opened = Opened { json, folder: None, made: false };
        if let Some(folder) = &self.svg {
            let is_new = !folder.exists();
            if let Err(error) = report::make_folder(folder, "figures") {
                opened.discard();
                return Err(error);
            }
            (opened.folder, opened.made) = (Some(folder.as_path()), is_new);
        }
        Ok(opened)
    }
}

/// Destinations of results that can be written.
pub struct Opened<'a> {
    json: Option<Sink>,
    folder: Option<&'a Path>,
    /// The folder was not there before.
    made: bool,
}

impl Opened<'_> {
    /// Prints the table where it does not get into the way of JSON.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn show(&self, table: &str) -> anyhow::Result<()> {
        if self.json.as_ref().is_some_and(Sink::is_stdout) {
            tell(table);
            return Ok(());
        }
        print(table)
    }

    /// Writes the results and their figures. Without rows nothing is left.
    ///
    /// # Errors
    /// Writing fails. What can be written is, whatever else cannot.
    pub fn write(self, report: Report) -> anyhow::Result<()> {
        if report.rows.is_empty() {
            self.discard();
            return Ok(());
        }
        let written = self.json.map_or(Ok(()), |sink| sink.write(&report));
        let drawn = self.folder.map_or(Ok(()), |folder| report::draw(folder, report));
        written.map_err(Into::into).and(drawn)
    }

    /// Removes what opening created.
    pub fn discard(self) {
        if let Some(folder) = self.folder.filter(|_| self.made) {
            // Best effort: an empty folder does no harm.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The `forebay` that experiments run: the one beside this executable, else this one.
pub fn this_program() -> anyhow::Result<PathBuf> {
    FRONT.find().or_else(|_| env::current_exe()).context("cannot tell where forebay itself is; mount /proc")
}

/// Runs `experiment` under a progress bar on standard error.
pub fn with_bar<T>(
    experiment: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T, Error>,
) -> Result<T, Error> {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3}% {elapsed}, {eta} left {wide_msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(STEPS).with_style(style);
    let mut lines = (!io::stderr().is_terminal()).then(Lines::default);
    let done = experiment(&mut |progress| {
        if let Some(line) = lines.as_mut().and_then(|lines| lines.line(&progress, Instant::now())) {
            tell(&line);
        }
        bar.set_position((progress.share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        bar.set_message(progress.doing);
    });
    bar.finish_and_clear();
    done
}

/// What is told of progress where no terminal shows a bar.
#[derive(Default)]
struct Lines {
    last: Option<Instant>,
}

impl Lines {
    /// A line, unless there was one lately. A short experiment has none.
    fn line(&mut self, progress: &Progress, now: Instant) -> Option<String> {
        let last = *self.last.get_or_insert(now);
        if now.duration_since(last) < LINE_EVERY {
            return None;
        }
        self.last = Some(now);
        Some(format!("forebay: {:.0} % done: {}", progress.share * 100.0, progress.doing))
    }
}

/// Prints text and a new line to standard output. That a reader such as head(1) has seen enough is no error.
///
/// # Errors
/// Standard output cannot be written, as when a disk is full.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let reason = forebay_results::reason(&error);
            bail!("cannot write to standard output ({reason}); send it to a place with room")
        }
        Ok(()) => Ok(()),
    }
}

/// Prints a line to standard error, which may be a shut pipe as well.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A difference between the sides, or nothing to compare, is a failure.
fn verdict(agrees: bool) -> ExitCode {
    if agrees { ExitCode::SUCCESS } else { FAILURE.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_lines_now_and_then() {
        let (mut lines, begin) = (Lines::default(), Instant::now());
        let mut told = |seconds, share| {
            let progress = Progress { share, doing: "a run".to_owned(), ended: false };
            lines.line(&progress, begin + Duration::from_secs(seconds))
        };
        assert_eq!(told(0, 0.0), None);
        assert_eq!(told(9, 0.2), None);
        assert_eq!(told(10, 0.25), Some("forebay: 25 % done: a run".to_owned()));
        assert_eq!(told(19, 0.3), None);
        assert_eq!(told(25, 0.5), Some("forebay: 50 % done: a run".to_owned()));
    }
}
