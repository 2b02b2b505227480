//! `forebay evaluate millipage`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use forebay_evaluation::share::millipage::{
    Kernel, Setting, Size, chunking, costs, false_sharing, peers, programs,
};
use forebay_evaluation::{Error, Progress};
use forebay_results::Row;

use crate::evaluate::{Partial, carry_out_as_far, this_program};

/// Options of `forebay evaluate millipage`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Millipage {
    #[command(flatten)]
    experiment: Experiment,
    /// Little to do, in one round: to see whether it works
    #[arg(long)]
    quick: bool,
    /// Rounds; each runs every side once [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// What messages go over: shm, tcp or auto; --table 1 measures the first two
    #[arg(long, value_name = "WHAT", default_value = "shm", value_parser = ["shm", "tcp", "auto"])]
    transport: String,
    /// Number of processes; several times for several [default: 1, 2, 4 and 8; 1 and 2 for --peers]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64))]
    hosts: Vec<u16>,
    /// Program of --figure 6: sor, is, water, lu or tsp; several times for several; all without it
    #[arg(long = "program", value_name = "PROGRAM")]
    programs: Vec<Kernel>,
    /// Write the results as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a chart of --figure 6 or --chunking
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Which one.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Experiment {
    /// Regenerate a published table: 1 (what faults, messages, fetches, barriers and locks take)
    #[arg(long, value_name = "NUMBER")]
    table: Option<Table>,
    /// Regenerate a published figure: 6 (five programs: speedup, where the time goes, requests)
    #[arg(long, value_name = "NUMBER")]
    figure: Option<Figure>,
    /// Share more and more molecules of WATER at a time
    #[arg(long)]
    chunking: bool,
    /// Have two processes write to neighbouring objects
    #[arg(long)]
    false_sharing: bool,
    /// Compare SOR and LU with the same written for MPI one-sided
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
Each measurement starts processes by forebay share, bound to a processor each in turn; more of them than processors take turns, \
which is marked. What was computed is compared with the sequential form, in each run. Figures that are wanted and missed are \
said so. --peers needs mpicc and mpirun (apt-get install libopenmpi-dev openmpi-bin); all need UCX (apt-get install libucx0).

Examples:
  forebay evaluate millipage --table 1 --json costs.json
  forebay evaluate millipage --false-sharing
  forebay evaluate millipage --figure 6 --program sor --program lu --hosts 1 --hosts 2
  forebay evaluate millipage --figure 6 --json programs.json --svg programs.svg
  forebay evaluate millipage --chunking --svg chunking.svg
  forebay evaluate millipage --peers --runs 5";

/// What came of an experiment.
struct Shown {
    table: String,
    rows: Vec<Row>,
    svg: Option<String>,
    is_right: bool,
}

/// Runs the experiment.
pub fn run(args: &Millipage) -> anyhow::Result<ExitCode> {
    let experiment = &args.experiment;
    if args.svg.is_some() && experiment.figure.is_none() && !experiment.chunking {
        bail!("there are charts of --figure 6 and --chunking only; leave --svg out");
    }
    if !args.programs.is_empty() && experiment.figure.is_none() {
        bail!("programs are chosen for --figure 6 only; leave --program out");
    }
    if !args.hosts.is_empty() && (experiment.chunking || experiment.false_sharing) {
        bail!("that is measured with two processes; leave --hosts out");
    }
    let mut setting = Setting::new(this_program()?);
    setting.transport.clone_from(&args.transport);
    setting.runs = args.runs.map_or(if args.quick { 1 } else { setting.runs }, usize::from);
    let measured = |shown: Shown| Partial {
        table: shown.table,
        rows: shown.rows,
        chart: shown.svg,
        agrees: shown.is_right,
        stopped: None,
    };
    carry_out_as_far(args.json.as_deref(), args.svg.as_deref(), |progress| {
        measure(args, setting, progress).map(measured)
    })
}

fn measure(args: &Millipage, setting: Setting, progress: &mut dyn FnMut(Progress)) -> Result<Shown, Error> {
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
        return Ok(Shown { table: outcome.table(), rows: outcome.rows(), svg: None, is_right: true });
    }
    if experiment.false_sharing {
        let mut options = false_sharing::Options::new(setting);
        if args.quick {
            options.milliseconds = 20;
        }
        let outcome = false_sharing::run(&options, progress)?;
        return Ok(Shown { table: outcome.table(), rows: outcome.rows(), svg: None, is_right: true });
    }
    if experiment.chunking {
        let outcome =
            chunking::run(&chunking::Options { size, ..chunking::Options::new(setting) }, progress)?;
        let (svg, is_right) = (Some(outcome.svg()), outcome.is_right());
        return Ok(Shown { table: outcome.table(), rows: outcome.rows(), svg, is_right });
    }
    if experiment.peers {
        let mut options = peers::Options { size, ..peers::Options::new(setting) };
        choose(&mut options.hosts);
        let outcome = peers::run(&options, progress)?;
        let is_right = outcome.is_right();
        return Ok(Shown { table: outcome.table(), rows: outcome.rows(), svg: None, is_right });
    }
    let mut options = programs::Options { size, ..programs::Options::new(setting) };
    choose(&mut options.hosts);
    if !args.programs.is_empty() {
        options.kernels.clone_from(&args.programs);
    }
    let outcome = programs::run(&options, progress)?;
    let (svg, is_right) = (Some(outcome.svg()), outcome.is_right());
    Ok(Shown { table: outcome.table(), rows: outcome.rows(), svg, is_right })
}
