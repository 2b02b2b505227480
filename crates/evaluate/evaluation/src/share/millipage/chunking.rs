//! What it is good for to share several molecules at a time (Figure 7): WATER by chunking level.

use forebay_results::Row;
use forebay_share_workload::{Program, Task};

use super::kernels::{agrees, elapsed_s, sum};
use super::programs::FINE;
use super::{Kernel, Measured, Setting, Size, jobs::Jobs, metric};
use crate::harness::interrupt::kept;
use crate::harness::progress::Steps;
use crate::harness::table::{render, yes_no};
use crate::{Error, Progress};
use forebay_quantity::seconds;

const COUNTS: [&str; 4] = ["competing requests", "read faults", "write faults", "bytes"];
const HOSTS: u16 = 2;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// See there.
    pub setting: Setting,
    /// Molecules that are shared at a time.
    pub chunks: Vec<usize>,
    /// How much there is to do.
    pub size: Size,
}

impl Options {
    /// From single molecules on, in powers of two.
    pub fn new(setting: Setting) -> Self {
        Self { setting, chunks: (0..=9).map(|power| 1 << power).collect(), size: Size::Full }
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    transport: String,
    molecules: usize,
    levels: Vec<Level>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// A chunking level.
#[derive(Clone, Debug)]
struct Level {
    chunk: usize,
    /// `elapsed` in seconds, and counts of both processes.
    measured: Measured,
    is_right: bool,
}

/// Measures.
///
/// # Errors
///
/// The workload is not there, a process fails, or an interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let Options { setting, chunks, size } = options;
    let jobs = Jobs::new(setting)?;
    let Program::Water { side, steps: turns, chunk } = Kernel::Water.program(*size) else {
        return Err(Error::NoForm { kernel: Kernel::Water, form: "with chunks" });
    };
    let sequential = jobs.alone(&Task::Sequential(Program::Water { side, steps: turns, chunk }))?;
    let mut levels: Vec<Level> = chunks
        .iter()
        .map(|chunk| Level { chunk: *chunk, measured: Measured::default(), is_right: true })
        .collect();
    let mut steps = Steps::new(setting.runs * levels.len(), progress);
    let mut measure = || {
        for level in (0..setting.runs).flat_map(|_| 0..chunks.len()) {
            let level = &mut levels[level];
            steps.begin(format!("{} molecules at a time", level.chunk));
            let program = Program::Water { side, steps: turns, chunk: level.chunk };
            let reports = jobs.share(HOSTS, &setting.transport, &Task::Program { program, share: FINE })?;
            level.measured.push("elapsed", elapsed_s(&reports));
            COUNTS.iter().for_each(|name| level.measured.push(name, sum(&reports, name)));
            level.is_right &= agrees(&reports, &sequential);
        }
        Ok(())
    };
    let ended = measure();
    steps.end(&ended);
    levels.retain(|level| level.measured.get("elapsed").is_some());
    let stopped = kept(ended, !levels.is_empty())?;
    Ok(Outcome { transport: setting.transport.clone(), molecules: side * side * side, levels, stopped })
}

impl Outcome {
    /// Whether every run has computed what the sequential form has.
    pub fn is_right(&self) -> bool {
        self.levels.iter().all(|level| level.is_right)
    }

    /// Times, competing requests and faults by level.
    pub fn table(&self) -> String {
        let rows = self.levels.iter().map(|level| {
            let count = |name: &str| format!("{:.0}", level.measured.median(name));
            vec![
                level.chunk.to_string(),
                seconds(level.measured.median("elapsed")),
                count("competing requests"),
                count("read faults"),
                count("write faults"),
                format!("{:.1}", level.measured.median("bytes") / 1e6),
                yes_no(level.is_right),
            ]
        });
        let header = [
            "molecules at a time",
            "elapsed",
            "competing requests",
            "read faults",
            "write faults",
            "MB sent",
            "right",
        ];
        let note =
            format!("WATER with {} molecules and {HOSTS} processes over {}.", self.molecules, self.transport);
        [note, render(&header, rows)].join("\n\n")
    }

    /// Rows by the result schema: cases `TRANSPORT/N molecules`.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for level in &self.levels {
            let case = format!("{}/{} molecules", self.transport, level.chunk);
            for (name, series) in level.measured.iter() {
                let unit = match name {
                    "elapsed" => "s",
                    "bytes" => "B",
                    _ => "1",
                };
                rows.extend(
                    series.spread().map(|spread| Row::of("water", &case, metric(name), unit, spread)),
                );
            }
        }
        rows
    }
}
