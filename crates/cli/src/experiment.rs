//! What all experiments of `forebay evaluate` have in common: a progress bar, a table, and where results and figures go.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use forebay_evaluation::{Error, Progress};
use forebay_results::{Row, Sink, Statement};
use forebay_supervisor::installed::FRONT;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{FAILURE, report, results};

/// Steps of the bar.
const STEPS: u64 = 1000;

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
    /// Whether what had to be the same on all sides was.
    pub agrees: bool,
    /// Why there is not all of it.
    pub stopped: Option<Error>,
}

impl Measured {
    /// All of an experiment without sides that must agree.
    pub fn all(table: String, rows: Vec<Row>) -> Self {
        Self { table, rows, statements: vec![], agrees: true, stopped: None }
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
    let measured = match with_bar(experiment) {
        Ok(measured) => measured,
        Err(error) => {
            opened.discard();
            return Err(error).context("nothing was measured");
        }
    };
    output.show(&measured.table);
    if let Some(error) = &measured.stopped {
        tell(&format!("forebay: {error}; what had been measured by then is shown"));
    }
    let any = !measured.rows.is_empty();
    opened.write_with(measured.rows, measured.statements)?;
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
            if let Err(error) = report::make_folder(folder) {
                opened.discard();
                return Err(error);
            }
            (opened.folder, opened.made) = (Some(folder.as_path()), is_new);
        }
        Ok(opened)
    }

    /// Prints the table where it does not get into the way of JSON.
    pub fn show(&self, table: &str) {
        if self.json.as_deref() == Some(Path::new("-")) {
            tell(table);
        } else {
            // The reader may have shut the pipe; the results are written all the same.
            let _ = writeln!(io::stdout(), "{table}");
        }
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
    /// Writes `rows` and their figures. Without rows nothing is left.
    ///
    /// # Errors
    /// Writing fails. What can be written is, whatever else cannot.
    pub fn write(self, rows: Vec<Row>) -> anyhow::Result<()> {
        self.write_with(rows, Vec::new())
    }

    /// The same, with what follows from the rows.
    ///
    /// # Errors
    /// Writing fails. What can be written is, whatever else cannot.
    pub fn write_with(self, rows: Vec<Row>, statements: Vec<Statement>) -> anyhow::Result<()> {
        if rows.is_empty() {
            self.discard();
            return Ok(());
        }
        let report = results::report(rows).with_statements(statements);
        let written = self.json.map_or(Ok(()), |sink| sink.write(&report));
        let drawn = self.folder.map_or(Ok(()), |folder| report::draw(folder, report));
        written.map_err(Into::into).and(drawn)
    }

    /// Removes what opening created.
    pub fn discard(self) {
        self.json.into_iter().for_each(Sink::discard);
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
    let done = experiment(&mut |progress| {
        bar.set_position((progress.share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        bar.set_message(progress.doing);
    });
    bar.finish_and_clear();
    done
}

/// Prints a line to standard error, which may be a shut pipe as well.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A difference between the sides, or nothing to compare, is a failure.
fn verdict(agrees: bool) -> ExitCode {
    if agrees { ExitCode::SUCCESS } else { FAILURE.into() }
}
