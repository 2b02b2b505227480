//! `forebay evaluate meter`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::{ArgGroup, Args};
use forebay_counters::{Files, Options, Target};
use forebay_evaluation::machine::meter::{self, Event, Lines, Subject, overhead};
use forebay_linux::process::{Elf, ProgramFile, StartError, check_executable, start_first};
use forebay_supervisor::terminal_width;
use rustix::io::Errno;

use crate::experiment::{Measured, Output, carry_out, tell};
use crate::results;

/// Options of `forebay evaluate meter`.
#[derive(Debug, Args)]
#[command(after_help = HELP, group(ArgGroup::new("subject").required(true)))]
pub struct Meter {
    /// A process that runs already, without its children
    #[arg(long, value_name = "N", group = "subject")]
    pid: Option<u32>,
    /// With its children and all descendants
    #[arg(long, requires = "pid")]
    tree: bool,
    /// A control group, by its folder under /sys/fs/cgroup or by its name there
    #[arg(long, value_name = "PATH", group = "subject")]
    cgroup: Option<PathBuf>,
    /// The whole machine
    #[arg(long, group = "subject")]
    machine: bool,
    /// The cost of the meter: throughput of a busy server without and with it
    #[arg(long, group = "subject")]
    overhead: bool,
    /// The program and its arguments, measured with all that it starts
    #[arg(trailing_var_arg = true, value_name = "CMD", group = "subject")]
    command: Vec<OsString>,
    /// Time between samples, such as 500ms, 1s or 5m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    interval: Duration,
    /// Measure for this time, such as 10s [default: until the process ends or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with_all = ["command", "overhead"])]
    limit: Option<Duration>,
    /// Use the processor's counters too; a program that often switches threads slows by a few per cent
    #[arg(long)]
    hardware: bool,
    /// Count the pages in memory of this file, or of this folder's files; repeat it for several; without a path, of
    /// the files that the processes have open
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, conflicts_with = "overhead")]
    files: Option<Vec<PathBuf>>,
    /// Simulate caches and translation buffers too: the program runs twice more, under Valgrind, up to a hundred
    /// times slower
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "machine", "overhead"])]
    simulate: bool,
    /// Data accesses whose address translation is simulated
    #[arg(long, value_name = "NUMBER", default_value_t = meter::ACCESSES_DEFAULT, requires = "simulate",
        value_parser = clap::value_parser!(u64).range(1..))]
    accesses: u64,
    /// Print a line for every interval
    #[arg(long, conflicts_with = "overhead")]
    every: bool,
    #[command(flatten)]
    output: Output,
}

const HELP: &str = "\
Every number names its source: hardware (the processor's counters), software
(the kernel's), or simulated. Counters that could not be had are listed with the
reason and the remedy. Ctrl-C ends the measurement and prints the counts so far.

Exit status:
  that of the program, or 128 + n when signal n ended it
  125 when the program cannot be measured
  126 when it is found and cannot be executed
  127 when it, or the interpreter that its first line names, is not found

Examples:
  forebay evaluate meter -- grep -r needle src
  forebay evaluate meter --simulate -- sort words
  forebay evaluate meter --pid 4711 --tree --for 10s --every --hardware
  forebay evaluate meter --cgroup system.slice/nginx.service --for 1m
  forebay evaluate meter --machine --for 10s --files=/srv/data
  forebay evaluate meter --overhead";

/// Runs `forebay evaluate meter`.
pub fn run(args: &Meter) -> anyhow::Result<ExitCode> {
    let sampling = Options {
        interval: args.interval,
        hardware: args.hardware,
        kernel_events: args.hardware,
        files: args.files(),
    };
    if args.overhead {
        let options = overhead::Options { sampling, ..overhead::Options::new() };
        let measured = |outcome: overhead::Outcome| {
            Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped)
        };
        return carry_out(&args.output, |progress| overhead::run(&options, progress).map(measured));
    }
    if let Err(error) = can_start(&args.command) {
        crate::run::complain(&error);
        return Ok(error.exit_status().into());
    }
    let opened = args.output.open()?;
    let mut lines = Lines::default();
    let width = terminal_width();
    let options = meter::Options {
        subject: args.subject(),
        sampling,
        simulated_accesses: args.simulate.then_some(args.accesses),
    };
    let measured = meter::run(&options, &mut |event| match event {
        Event::Interval(counters, interval) if args.every => {
            tell(&lines.line(counters, interval, width));
        }
        Event::Interval(..) => {}
        Event::Doing(what) => tell(&format!("forebay: {what}")),
    });
    let outcome = match measured {
        Ok(outcome) => outcome,
        Err(error) => {
            opened.discard();
            crate::run::complain(&error);
            return Ok(crate::run::FAILURE.into());
        }
    };
    let table = meter::table(&outcome, width);
    // Standard output is the program's.
    let shown = if outcome.status.is_some() {
        tell(&table);
        Ok(())
    } else {
        opened.show(&table)
    };
    opened.write(results::report(outcome.rows()))?;
    shown?;
    Ok(outcome.status.map_or(ExitCode::SUCCESS, exit_code))
}

/// Whether the program of a command line can be started, as far as its file says; true without one. The shell that becomes
/// the program would otherwise be measured in its place.
fn can_start(command: &[OsString]) -> Result<(), StartError> {
    if command.is_empty() {
        return Ok(());
    }
    start_first(command, |path, _| {
        check_executable(path)?;
        // Who may execute a file need not be allowed to read it.
        let Ok(file) = ProgramFile::open(path) else { return Ok(()) };
        let elf = file.elf();
        let needed = match &elf {
            Some(Elf::OtherMachine) => return Err(Errno::NOEXEC.into()),
            Some(Elf::Dynamic { loader, .. }) => Some(loader.clone()),
            Some(Elf::Static) => None,
            None => file.script_interpreter(),
        };
        match needed {
            Some(needed) if !needed.exists() => Err(Errno::NOENT.into()),
            None if elf.is_none() && !file.is_text() => Err(Errno::NOEXEC.into()),
            _ => Ok(()),
        }
    })
}

impl Meter {
    fn files(&self) -> Files {
        match &self.files {
            None => Files::None,
            Some(paths) if paths.is_empty() => Files::Open,
            Some(paths) => Files::Under(paths.clone()),
        }
    }

    fn subject(&self) -> Subject {
        let running = |target| Subject::Running(target, self.limit);
        match (self.pid, &self.cgroup) {
            (Some(pid), _) if self.tree => running(Target::Tree(pid)),
            (Some(pid), _) => running(Target::Process(pid)),
            (None, Some(path)) => running(Target::Cgroup(path.clone())),
            (None, None) if self.machine => running(Target::Machine),
            (None, None) => Subject::Command(self.command.clone()),
        }
    }
}

/// The status of the program, as a shell tells it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::run::FAILURE).into()
}

/// Numbers with their units, such as `1m 30s`; a number alone is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    // A capital M would be months.
    const LONGEST: Duration = Duration::from_secs(7 * 86_400);
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let duration = seconds.or_else(|| humantime::parse_duration(text).ok());
    let fits = duration.filter(|duration| !duration.is_zero() && *duration <= LONGEST);
    fits.ok_or_else(|| "give a time of at most 7 days, such as 500ms, 1s or 1m30s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let told = ["500ms", "1s", "2", "0.5", "1.5m", "1m30s", "1h", "7 days"]
            .map(|text| duration(text).map(|time| time.as_secs_f64()));
        assert_eq!(told, [0.5, 1.0, 2.0, 0.5, 90.0, 90.0, 3600.0, 604_800.0].map(Ok));
        for nonsense in ["", "s", "-1s", "1x", "0s", "1e99s", "nan", "inf", "5M", "8d"] {
            assert!(duration(nonsense).is_err(), "{nonsense}");
        }
    }
}
