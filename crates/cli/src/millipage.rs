//! `forebay evaluate millipage`.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use forebay_evaluation::share::millipage::{
    Kernel, Setting, Size, chunking, costs, false_sharing, peers, programs,
};
use forebay_evaluation::{Error, Progress};

use crate::experiment::{Measured, Output, carry_out, this_program};

/// Options of `forebay evaluate millipage`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Millipage {
    #[command(flatten)]
    experiment: Experiment,
    /// Small sizes in one round, to see whether everything works
    #[arg(long)]
    quick: bool,
    /// Rounds; each runs every side once [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Transport of messages: shm, tcp or auto; --table 1 measures shm and tcp
    #[arg(long, value_name = "WHAT", default_value = "shm", value_parser = ["shm", "tcp", "auto"])]
    transport: String,
    /// Number of processes; repeat it for several [default: 1, 2, 4 and 8; 1 and 2 for --peers]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64))]
    hosts: Vec<u16>,
    /// Program of --figure 6: sor, is, water, lu or tsp; repeat it for several [default: all]
    #[arg(long = "program", value_name = "PROGRAM")]
    programs: Vec<Kernel>,
    #[command(flatten)]
    output: Output,
}

/// Which one.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Experiment {
    /// Repeat a published table: 1 (costs of faults, messages, fetches, barriers and locks)
    #[arg(long, value_name = "NUMBER")]
    table: Option<Table>,
    /// Repeat a published figure: 6 (five programs: speedup, parts of the time, requests)
    #[arg(long, value_name = "NUMBER")]
    figure: Option<Figure>,
    /// Share more and more molecules of WATER at a time
    #[arg(long)]
    chunking: bool,
    /// Measure two processes that write to neighbouring objects
    #[arg(long)]
    false_sharing: bool,
    /// Compare SOR and LU with versions for one-sided MPI
    #[arg(long)]
    peers: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Table {
    #[value(name = "1")]
    Costs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Figure {
    #[value(name = "6")]
    Programs,
}

const HELP: &str = "\
Each measurement starts processes by forebay share, each bound to a processor.
More processes than processors take turns, which the table marks. Each run's
result is compared with that of the sequential program.

--table 1 needs UCX (apt-get install libucx0). --peers needs mpicc and mpirun
(apt-get install libopenmpi-dev openmpi-bin).

Examples:
  forebay evaluate millipage --table 1 --json costs.json
  forebay evaluate millipage --false-sharing
  forebay evaluate millipage --figure 6 --program sor --hosts 1 --hosts 2
  forebay evaluate millipage --figure 6 --json programs.json --svg figures
  forebay evaluate millipage --chunking --svg figures
  forebay evaluate millipage --peers --runs 5";

/// Runs the experiment.
pub fn run(args: &Millipage) -> anyhow::Result<ExitCode> {
    let experiment = &args.experiment;
    if !args.programs.is_empty() && experiment.figure.is_none() {
        bail!("programs are chosen for --figure 6 only; leave --program out");
    }
    if !args.hosts.is_empty() && (experiment.chunking || experiment.false_sharing) {
        bail!("that is measured with two processes; leave --hosts out");
    }
    let mut setting = Setting::new(this_program()?);
    setting.transport.clone_from(&args.transport);
    setting.runs = args.runs.map_or(if args.quick { 1 } else { setting.runs }, usize::from);
    carry_out(&args.output, |progress| measure(args, setting, progress))
}

fn measure(
    args: &Millipage,
    setting: Setting,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measured, Error> {
    let size = if args.quick { Size::Quick } else { Size::Full };
    let choose = |hosts: &mut Vec<u16>| {
        if !args.hosts.is_empty() {
            hosts.clone_from(&args.hosts);
        }
    };
    let experiment = &args.experiment;
    if experiment.table.is_some() {
        let mut options = costs::Options::new(setting);
        if args.quick {
            options = costs::Options::quick(options.setting);
        }
        choose(&mut options.hosts);
        let outcome = costs::run(&options, progress)?;
        return Ok(Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped));
    }
    if experiment.false_sharing {
        let mut options = false_sharing::Options::new(setting);
        if args.quick {
            options.milliseconds = 20;
        }
        let outcome = false_sharing::run(&options, progress)?;
        return Ok(Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped));
    }
    if experiment.chunking {
        let outcome =
            chunking::run(&chunking::Options { size, ..chunking::Options::new(setting) }, progress)?;
        let agrees = outcome.is_right();
        return Ok(Measured {
            agrees,
            ..Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped)
        });
    }
    if experiment.peers {
        let mut options = peers::Options { size, ..peers::Options::new(setting) };
        choose(&mut options.hosts);
        let outcome = peers::run(&options, progress)?;
        let agrees = outcome.is_right();
        return Ok(Measured {
            agrees,
            ..Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped)
        });
    }
    let mut options = programs::Options { size, ..programs::Options::new(setting) };
    choose(&mut options.hosts);
    if !args.programs.is_empty() {
        options.kernels.clone_from(&args.programs);
    }
    let outcome = programs::run(&options, progress)?;
    let agrees = outcome.is_right();
    Ok(Measured { agrees, ..Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped) })
}
