//! `forebay evaluate`: what the options ask for, as experiments.

use std::env;
use std::process::ExitCode;

use anyhow::bail;
use forebay_evaluation::{
    Error, Profile, Program, Progress, SwappingProgram, machine::host, machine::model, model::LineFill,
    run::memory_control, run::overhead, run::side_effects, run::speculation, share::multiview,
    share::projection,
};

use crate::args::{Chosen, Evaluate, Host, Model, Multiview, Overhead, Projection, Speculation, Table};
use crate::experiment::{Measured, carry_out, this_program};
use crate::{cache, corpus, meter, millipage, need, report, results, server, streaming, thesis, why};

/// Runs the experiment.
pub fn run(args: Evaluate) -> anyhow::Result<ExitCode> {
    match args {
        Evaluate::Speculation(args) => match args.table {
            None => compare(&args, speculation::run, speculation::table),
            Some(Table::MemoryControl) => show_memory_control(&args),
            Some(Table::SideEffects) => compare(&args, side_effects::run, side_effects::table),
        },
        Evaluate::Corpus(args) => corpus::run(&args),
        Evaluate::Overhead(args) => measure_overhead(&args),
        Evaluate::Multiview(args) => measure_views(&args),
        Evaluate::Millipage(args) => millipage::run(&args),
        Evaluate::Projection(args) => project(&args),
        Evaluate::Meter(args) => meter::run(&args),
        Evaluate::Model(args) => ask_model(&args),
        Evaluate::Cache(args) => cache::run(&args),
        Evaluate::Host(args) => measure_host(&args),
        Evaluate::Server(args) => server::run(&args),
        Evaluate::Why(args) => why::run(&args),
        Evaluate::Need(args) => need::run(args),
        Evaluate::Streaming(args) => streaming::run(&args),
        Evaluate::Thesis(args) => thesis::run(&args),
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
    let measured = |outcome: speculation::Outcome| Measured {
        agrees: outcome.identical(),
        ..Measured::all(table(&outcome), outcome.rows()).until(outcome.stopped)
    };
    carry_out(&args.output, |progress| run(&options, progress).map(measured))
}

fn show_memory_control(args: &Speculation) -> anyhow::Result<ExitCode> {
    if args.file_system.is_some() {
        bail!("--table 5 swaps to the disk, without a file system; leave --file-system out");
    }
    let profile = args.profile.unwrap_or(Profile::Ssd1Ms);
    let mut options = memory_control::Options::new(profile, this_program()?);
    options.runs = args.runs.into();
    if !args.programs.is_empty() {
        options.programs = args.programs.iter().map(swapping).collect::<anyhow::Result<_>>()?;
    }
    let measured = |outcome: memory_control::Outcome| Measured {
        agrees: outcome.identical(),
        ..Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped)
    };
    carry_out(&args.output, |progress| memory_control::run(&options, progress).map(measured))
}

/// What the options say of the programs that wait for files.
fn comparison(args: &Speculation) -> anyhow::Result<speculation::Options> {
    let profile = args.profile.unwrap_or(Profile::Local);
    let mut options = speculation::Options::new(profile, this_program()?);
    options.runs = args.runs.into();
    if let Some(file_system) = args.file_system {
        if !profile.is_device() {
            bail!("{profile} has the file system that it has; for --file-system choose another --profile");
        }
        options.file_system = file_system;
    }
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
            bail!("{program} is a program of --table 5; expected one of: {}", Program::NAMES.join(", "))
        }
    }
}

fn swapping(chosen: &Chosen) -> anyhow::Result<SwappingProgram> {
    match chosen {
        Chosen::Swapping(program) => Ok(*program),
        Chosen::Reading(program) => {
            bail!(
                "{program} is no program of --table 5; expected one of: {}",
                SwappingProgram::NAMES.join(", ")
            )
        }
    }
}

fn measure_overhead(args: &Overhead) -> anyhow::Result<ExitCode> {
    let options = overhead::Options { pairs: args.pairs.into(), ..overhead::Options::new(this_program()?) };
    let measured = |outcome: overhead::Outcome| Measured {
        agrees: outcome.identical(),
        ..Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped)
    };
    carry_out(&args.output, |progress| overhead::run(&options, progress).map(measured))
}

fn measure_views(args: &Multiview) -> anyhow::Result<ExitCode> {
    let mut options = if args.full { multiview::Options::full() } else { multiview::Options::new() };
    options.runs = args.runs.into();
    options.views_max = args.views_max.unwrap_or(options.views_max);
    if !args.sizes_bytes.is_empty() {
        options.sizes_bytes.clone_from(&args.sizes_bytes);
    }
    let measured =
        |outcome: multiview::Outcome| Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped);
    carry_out(&args.output, |progress| multiview::run(&options, progress).map(measured))
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
    let measured = |outcome: projection::Outcome| Measured {
        agrees: outcome.programs.iter().all(|program| !program.cells.is_empty()),
        ..Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped)
    };
    carry_out(&args.output, |progress| projection::run(&options, progress).map(measured))
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
    let opened = args.output.open()?;
    let shown = opened.show(&table);
    opened.write(results::report(rows))?;
    shown?;
    Ok(ExitCode::SUCCESS)
}

fn measure_host(args: &Host) -> anyhow::Result<ExitCode> {
    let options = host::Options {
        probes: if args.only.is_empty() { host::Probe::ALL.to_vec() } else { args.only.clone() },
        quick: args.quick,
        folder: args.dir.clone().unwrap_or_else(env::temp_dir),
        check: args.check,
    };
    let measured = |outcome: host::Outcome| Measured {
        statements: Vec::new(),
        agrees: !outcome.interrupted,
        ..Measured::all(outcome.table(), outcome.rows())
    };
    carry_out(&args.output, |progress| host::run(&options, progress).map(measured))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use forebay_evaluation::FileSystem;

    use super::*;
    use crate::args::{Cli, Command};

    fn speculation(options: &str) -> Speculation {
        let words = ["forebay", "evaluate", "speculation"].into_iter().chain(options.split(' '));
        match Cli::parse_from(words).command {
            Command::Evaluate(Evaluate::Speculation(args)) => args,
            _ => panic!("{options} is no speculation"),
        }
    }

    #[test]
    fn a_file_system_is_for_disks_that_are_devices() {
        let found = comparison(&speculation("--profile cloud --file-system xfs --program tar")).unwrap();
        assert_eq!((found.file_system, found.programs), (FileSystem::Xfs, vec![Program::Tar]));
        for options in ["--file-system xfs", "--profile remote --file-system ext4"] {
            let refused = comparison(&speculation(options)).unwrap_err().to_string();
            assert!(refused.contains("choose another --profile"), "{refused}");
        }
        let refused = show_memory_control(&speculation("--table 5 --file-system xfs")).unwrap_err();
        assert!(refused.to_string().contains("without a file system"), "{refused}");
    }

    #[test]
    fn the_figures_of_a_remote_file_system_are_of_one_command() {
        let programs = ["grep", "tar", "find-ls", "cp-r", "random-reads"];
        let chosen = programs.map(|name| format!(" --program {name}")).concat();
        let found = comparison(&speculation(&format!("--profile remote{chosen}"))).unwrap();
        assert_eq!(found.programs.iter().map(|program| program.name()).collect::<Vec<_>>(), programs);
        assert_eq!((found.profile, found.scale.files), (Profile::Remote, 2_000));
    }
}
