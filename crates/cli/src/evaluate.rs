//! `forebay evaluate`: runs an experiment with a progress bar and prints its table.

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use forebay_evaluation::{
    Error, Profile, Program, Progress, SwappingProgram, machine::host, machine::model, model::LineFill,
    run::memory_control, run::overhead, run::side_effects, run::speculation, share::multiview,
    share::projection,
};
use forebay_results::{Row, Sink};
use forebay_supervisor::installed::FRONT;
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Chosen, Evaluate, Host, Model, Multiview, Overhead, Projection, Speculation, Table};
use crate::{FAILURE, meter, millipage, report, results, server, streaming};

/// Steps of the bar.
const STEPS: u64 = 1000;

/// Runs the experiment.
pub fn run(args: Evaluate) -> anyhow::Result<ExitCode> {
    match args {
        Evaluate::Speculation(args) => match args.table {
            None => compare(&args, speculation::run, speculation::table),
            Some(Table::MemoryControl) => show_memory_control(&args),
            Some(Table::SideEffects) => compare(&args, side_effects::run, side_effects::table),
        },
        Evaluate::Overhead(args) => measure_overhead(&args),
        Evaluate::Multiview(args) => measure_views(&args),
        Evaluate::Millipage(args) => millipage::run(&args),
        Evaluate::Projection(args) => project(&args),
        Evaluate::Meter(args) => meter::run(&args),
        Evaluate::Model(args) => ask_model(&args),
        Evaluate::Host(args) => measure_host(&args),
        Evaluate::Server(args) => server::run(&args),
        Evaluate::Streaming(args) => streaming::run(&args),
        Evaluate::Players => streaming::play(),
    }
}

/// What is run of the programs that wait for files.
type Experiment = fn(&speculation::Options, &mut dyn FnMut(Progress)) -> Result<speculation::Outcome, Error>;

fn compare(
    args: &Speculation,
    run: Experiment,
    table: fn(&speculation::Outcome) -> String,
) -> anyhow::Result<ExitCode> {
    let options = comparison(args)?;
    let measured = |outcome: speculation::Outcome| Partial {
        table: table(&outcome),
        rows: outcome.rows(),
        agrees: outcome.identical(),
        chart: None,
        stopped: outcome.stopped,
    };
    carry_out_as_far(args.json.as_deref(), None, |progress| run(&options, progress).map(measured))
}

fn show_memory_control(args: &Speculation) -> anyhow::Result<ExitCode> {
    let profile = args.profile.unwrap_or(Profile::Ssd1Ms);
    let mut options = memory_control::Options::new(profile, this_program()?);
    options.runs = args.runs.into();
    if !args.programs.is_empty() {
        options.programs = args.programs.iter().map(swapping).collect::<anyhow::Result<_>>()?;
    }
    let measured = |outcome: memory_control::Outcome| Partial {
        table: outcome.table(),
        rows: outcome.rows(),
        agrees: outcome.identical(),
        chart: Some(outcome.svg()),
        stopped: outcome.stopped,
    };
    carry_out_as_far(args.json.as_deref(), args.svg.as_deref(), |progress| {
        memory_control::run(&options, progress).map(measured)
    })
}

/// What the options say of the programs that wait for files.
fn comparison(args: &Speculation) -> anyhow::Result<speculation::Options> {
    if args.svg.is_some() {
        bail!("there is a chart of --table 5 only; leave --svg out");
    }
    let profile = args.profile.unwrap_or(Profile::Local);
    let mut options = speculation::Options::new(profile, this_program()?);
    options.runs = args.runs.into();
    if !args.programs.is_empty() {
        options.programs = args.programs.iter().map(reading).collect::<anyhow::Result<_>>()?;
    } else if args.table == Some(Table::SideEffects) {
        options.programs = Program::PUBLISHED.to_vec();
    }
    Ok(options)
}

fn reading(chosen: &Chosen) -> anyhow::Result<Program> {
    match chosen {
        Chosen::Reading(program) => Ok(*program),
        Chosen::Swapping(program) => {
            bail!(
                "{program} is a program of --table 5; expected one of: grep, ld, random-reads, mapped, chased, mapscan, resident"
            )
        }
    }
}

fn swapping(chosen: &Chosen) -> anyhow::Result<SwappingProgram> {
    match chosen {
        Chosen::Swapping(program) => Ok(*program),
        Chosen::Reading(program) => {
            bail!("{program} is no program of --table 5; give sphinx, matvec, fft, multigrid or gather")
        }
    }
}

fn measure_overhead(args: &Overhead) -> anyhow::Result<ExitCode> {
    let options = overhead::Options { pairs: args.pairs.into(), ..overhead::Options::new(this_program()?) };
    let measured = |outcome: overhead::Outcome| Partial {
        table: outcome.table(),
        rows: outcome.rows(),
        chart: None,
        agrees: outcome.identical(),
        stopped: None,
    };
    carry_out_as_far(args.json.as_deref(), None, |progress| overhead::run(&options, progress).map(measured))
}

fn measure_views(args: &Multiview) -> anyhow::Result<ExitCode> {
    let mut options = if args.full { multiview::Options::full() } else { multiview::Options::new() };
    options.runs = args.runs.into();
    options.views_max = args.views_max.unwrap_or(options.views_max);
    if !args.sizes_bytes.is_empty() {
        options.sizes_bytes.clone_from(&args.sizes_bytes);
    }
    let measured = |outcome: multiview::Outcome| Partial {
        table: outcome.table(),
        rows: outcome.rows(),
        chart: Some(outcome.svg()),
        agrees: !outcome.curves.is_empty(),
        stopped: None,
    };
    carry_out_as_far(args.json.as_deref(), args.svg.as_deref(), |progress| {
        multiview::run(&options, progress).map(measured)
    })
}

fn project(args: &Projection) -> anyhow::Result<ExitCode> {
    let mut options = projection::Options::new();
    options.runs = args.runs.into();
    options.bytes_per_second = f64::from(args.gigabits) * 1e9 / 8.0;
    if !args.kernels.is_empty() {
        options.kernels.clone_from(&args.kernels);
    }
    if !args.hosts.is_empty() {
        options.hosts.clone_from(&args.hosts);
    }
    if !args.latencies_us.is_empty() {
        options.latencies_ns = args.latencies_us.iter().map(|us| u64::from(*us) * 1_000).collect();
    }
    let sink = results::open(args.json.as_deref())?;
    let outcome =
        with_bar(|progress| projection::run(&options, progress)).context("the projection failed")?;
    show(&outcome.table(), args.json.as_deref());
    results::write(sink, || outcome.rows())?;
    Ok(verdict(outcome.programs.iter().all(|program| !program.cells.is_empty())))
}

fn ask_model(args: &Model) -> anyhow::Result<ExitCode> {
    let fill = if args.whole_lines { LineFill::Whole } else { LineFill::Byte };
    let what_if = model::WhatIf {
        copies: args.copies.map(f64::from),
        zero_copy: args.zero_copy,
        memory_mb_s: args.bus.map(f64::from),
        bus_mb_s: args.io_bus.map(f64::from),
    };
    let (table, rows) = match &args.host {
        None => {
            let outcome = model::run(&model::Options { bytes: args.size, fill, what_if });
            (outcome.table(), outcome.rows())
        }
        Some(path) => {
            let host = model::Host::of(&report::rows_of(path)?, what_if.bus_mb_s)?;
            let what_if = model::WhatIf { bus_mb_s: None, ..what_if };
            let outcome = model::run_on_host(host, args.size, fill, what_if);
            (outcome.table(), outcome.rows())
        }
    };
    let sink = results::open(args.json.as_deref())?;
    show(&table, args.json.as_deref());
    results::write(sink, || rows)?;
    Ok(ExitCode::SUCCESS)
}

fn measure_host(args: &Host) -> anyhow::Result<ExitCode> {
    let options = host::Options {
        probes: if args.only.is_empty() { host::Probe::ALL.to_vec() } else { args.only.clone() },
        quick: args.quick,
        folder: args.dir.clone().unwrap_or_else(env::temp_dir),
        check: args.check,
    };
    args.svg.as_deref().map_or(Ok(()), report::make_folder)?;
    let sink = results::open(args.json.as_deref())?;
    let outcome = with_bar(|progress| host::run(&options, progress)).context("the measurement failed")?;
    show(&outcome.table(), args.json.as_deref());
    if outcome.measured.is_empty() {
        sink.into_iter().for_each(Sink::discard);
        return Ok(FAILURE.into());
    }
    results::write(sink, || outcome.rows())?;
    if let Some(folder) = &args.svg {
        report::draw(folder, results::report(outcome.rows()))?;
    }
    Ok(verdict(!outcome.interrupted))
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

/// What was measured until something stopped it.
pub struct Partial {
    /// For people.
    pub table: String,
    /// For machines.
    pub rows: Vec<Row>,
    /// Drawn, where that is wanted.
    pub chart: Option<String>,
    /// Whether what had to be the same on all sides was.
    pub agrees: bool,
    /// What it was.
    pub stopped: Option<Error>,
}

impl Partial {
    /// What has no chart, and no sides that must agree.
    pub fn of(table: String, rows: Vec<Row>, stopped: Option<Error>) -> Self {
        Self { table, rows, chart: None, agrees: true, stopped }
    }
}

/// Measures under a progress bar, and shows and writes what there is, be it all or not.
pub fn carry_out_as_far(
    json: Option<&Path>,
    svg: Option<&Path>,
    experiment: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Partial, Error>,
) -> anyhow::Result<ExitCode> {
    let sink = results::open(json)?;
    let chart = match results::open(svg) {
        Ok(chart) => chart,
        Err(error) => {
            sink.into_iter().for_each(Sink::discard);
            return Err(error.into());
        }
    };
    let measured = match with_bar(experiment) {
        Ok(measured) => measured,
        Err(error) => {
            [sink, chart].into_iter().flatten().for_each(Sink::discard);
            return Err(error).context("nothing was measured");
        }
    };
    show(&measured.table, on_stdout([json, svg]));
    // What can be written is, whatever else cannot.
    let written = results::write(sink, || measured.rows);
    let drawn = match (chart, measured.chart) {
        (Some(chart), Some(drawn)) => chart.write_text(&drawn),
        _ => Ok(()),
    };
    if let Some(error) = &measured.stopped {
        tell(&format!("forebay: {error}; what had been measured by then is shown"));
    }
    written.and(drawn)?;
    Ok(verdict(measured.agrees && measured.stopped.is_none()))
}

/// Which of these is standard output.
pub fn on_stdout<const N: usize>(paths: [Option<&Path>; N]) -> Option<&Path> {
    paths.into_iter().flatten().find(|path| path.as_os_str() == "-")
}

/// Prints the table where it does not get into the way of JSON.
pub fn show(table: &str, json: Option<&Path>) {
    if json.is_some_and(|path| path.as_os_str() == "-") {
        tell(table);
    } else {
        // Whoever reads it may have seen enough; the results are written all the same.
        let _ = writeln!(io::stdout(), "{table}");
    }
}

/// Prints a line to standard error, which may be a shut pipe as well.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A difference between the sides, or nothing to compare, is a failure.
pub fn verdict(identical: bool) -> ExitCode {
    if identical { ExitCode::SUCCESS } else { FAILURE.into() }
}
