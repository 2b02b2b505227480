//! SOR and LU on shared memory beside the same written for MPI's one-sided communication: same method, same partition, same
//! input, in turn.

use forebay_results::Row;
use forebay_share_workload::Task;

use super::kernels::{agrees, elapsed_s};
use super::mpi::{KERNELS, Mpi};
use super::programs::FINE;
use super::{Kernel, Setting, Size, jobs::Jobs};
use crate::harness::interrupt::kept;
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::harness::table::{render, times_spread, yes_no};
use crate::{Error, Progress};
use forebay_quantity::seconds;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// See there.
    pub setting: Setting,
    /// Numbers of processes.
    pub hosts: Vec<u16>,
    /// How much there is to do.
    pub size: Size,
}

impl Options {
    /// One process and two.
    pub fn new(setting: Setting) -> Self {
        Self { setting, hosts: vec![1, 2], size: Size::Full }
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    transport: String,
    pairs: Vec<Pair>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// A program both ways.
#[derive(Clone, Debug)]
struct Pair {
    kernel: Kernel,
    hosts: u16,
    shared_s: Series,
    mpi_s: Series,
    /// Both have computed the same, to the last bit.
    is_same: bool,
}

impl Pair {
    fn ratio(&self) -> Series {
        self.shared_s.per_round_ratio(&self.mpi_s)
    }
}

/// Measures.
///
/// # Errors
///
/// The workload or MPI is not there, a process fails, or an interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let Options { setting, hosts, size } = options;
    let jobs = Jobs::new(setting)?;
    let mpi = Mpi::new(&jobs)?;
    let mut pairs: Vec<Pair> = KERNELS
        .iter()
        .flat_map(|kernel| hosts.iter().map(move |hosts| (*kernel, *hosts)))
        .map(|(kernel, hosts)| Pair {
            kernel,
            hosts,
            shared_s: Series::default(),
            mpi_s: Series::default(),
            is_same: true,
        })
        .collect();
    let mut steps = Steps::new(setting.runs * pairs.len() * 2, progress);
    let count = pairs.len();
    let mut measure = || {
        for pair in (0..setting.runs).flat_map(|_| 0..count) {
            let pair = &mut pairs[pair];
            let program = pair.kernel.program(*size);
            steps.begin(format!("{}, {} processes", pair.kernel, pair.hosts));
            let shared =
                jobs.share(pair.hosts, &setting.transport, &Task::Program { program, share: FINE })?;
            pair.shared_s.push(elapsed_s(&shared));
            steps.begin(format!("{}, {} processes, MPI", pair.kernel, pair.hosts));
            let peers = mpi.run(pair.hosts, pair.kernel, program)?;
            pair.mpi_s.push(elapsed_s(&peers));
            pair.is_same &= peers.iter().all(|peer| agrees(&shared, peer)) && !peers.is_empty();
        }
        Ok(())
    };
    let ended = measure();
    steps.end(&ended);
    pairs.retain(|pair| !pair.mpi_s.values().is_empty());
    let stopped = kept(ended, !pairs.is_empty())?;
    Ok(Outcome { transport: setting.transport.clone(), pairs, stopped })
}

impl Outcome {
    /// Whether all runs have computed the same both ways.
    pub fn is_right(&self) -> bool {
        self.pairs.iter().all(|pair| pair.is_same)
    }

    /// Times both ways, and ours over theirs.
    pub fn table(&self) -> String {
        let rows = self.pairs.iter().map(|pair| {
            vec![
                format!("{}, {} process{}", pair.kernel, pair.hosts, if pair.hosts == 1 { "" } else { "es" }),
                seconds(pair.shared_s.median()),
                seconds(pair.mpi_s.median()),
                times_spread(pair.ratio().spread()),
                yes_no(pair.is_same),
            ]
        });
        [
            format!("Shared memory over {}, and OpenMPI as it comes.", self.transport),
            render(&["program", "shared memory", "MPI one-sided", "ours over theirs", "same result"], rows),
        ]
        .join("\n\n")
    }

    /// Rows by the result schema: subjects are the programs, cases `TRANSPORT/N` and `mpi/N`.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for pair in &self.pairs {
            let (ours, theirs) =
                (format!("{}/{}", self.transport, pair.hosts), format!("mpi/{}", pair.hosts));
            for (case, metric, unit, series) in [
                (&ours, "elapsed", "s", &pair.shared_s),
                (&theirs, "elapsed", "s", &pair.mpi_s),
                (&ours, "of_mpi", "1", &pair.ratio()),
            ] {
                let row = |spread| Row::of(pair.kernel.name(), case, metric, unit, spread);
                rows.extend(series.spread().map(row));
            }
        }
        rows
    }
}
