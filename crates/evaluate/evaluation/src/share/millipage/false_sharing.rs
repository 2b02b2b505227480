//! What it costs two processes that they write to neighbouring objects of 64 bytes: all the time, or with pauses.

use forebay_results::Row;
use forebay_share_workload::{Lie, Task};

use super::{Setting, jobs::Jobs, kernels::sum};
use crate::harness::interrupt::kept;
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::harness::table::render;
use crate::{Error, Progress};
use forebay_quantity::times;

/// Each way to lie, with its name: the first is compared with the others.
const LIES: [(Lie, &str); 3] = [
    (Lie::OnePage, "neighbours, each a minipage"),
    (Lie::OwnPages, "each on a page of its own"),
    (Lie::WholePage, "neighbours, the page shared as a whole"),
];

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// See there.
    pub setting: Setting,
    /// What each process computes between two writes.
    pub pauses_us: Vec<u64>,
    /// For how long both processes write.
    pub milliseconds: u64,
}

impl Options {
    /// Without pauses, and with some.
    pub fn new(setting: Setting) -> Self {
        Self { setting, pauses_us: vec![0, 1, 10, 100], milliseconds: 300 }
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    transport: String,
    /// One entry for each pause.
    paces: Vec<Pace>,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// Two processes that write so often.
#[derive(Clone, Debug, Default)]
struct Pace {
    pause_us: u64,
    /// In the order of [`LIES`].
    sides: [Written; LIES.len()],
}

#[derive(Clone, Debug, Default)]
struct Written {
    /// Writes a second of both processes.
    rate: Series,
    /// Nanoseconds that a write takes, with a look at the clock where there are pauses.
    write_ns: Series,
    /// Faults a second of both processes.
    faults: Series,
}

/// Measures.
///
/// # Errors
///
/// The workload is not there, a process fails, or an interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let Options { setting, pauses_us, milliseconds } = options;
    let jobs = Jobs::new(setting)?;
    let mut steps = Steps::new(setting.runs * pauses_us.len() * LIES.len(), progress);
    let mut paces: Vec<Pace> =
        pauses_us.iter().map(|pause_us| Pace { pause_us: *pause_us, ..Pace::default() }).collect();
    let mut measure = || {
        for pace in (0..setting.runs).flat_map(|_| 0..pauses_us.len()) {
            let pace = &mut paces[pace];
            for (side, (lie, name)) in pace.sides.iter_mut().zip(LIES) {
                steps.begin(format!("{name}, a write each {} us", pace.pause_us));
                let task = Task::Neighbours { lie, pause_us: pace.pause_us, milliseconds: *milliseconds };
                let reports = jobs.share(2, &setting.transport, &task)?;
                side.rate.push(sum(&reports, "writes"));
                side.write_ns.push(sum(&reports, "write time") * 1e9 / reports.len() as f64);
                side.faults.push(sum(&reports, "write faults") * 1e3 / *milliseconds as f64);
            }
        }
        Ok(())
    };
    let ended = measure();
    steps.end(&ended);
    paces.retain(Pace::is_measured);
    let stopped = kept(ended, !paces.is_empty())?;
    Ok(Outcome { transport: setting.transport.clone(), paces, stopped })
}

impl Pace {
    /// Whether each side has run.
    fn is_measured(&self) -> bool {
        self.sides.iter().all(|side| !side.rate.values().is_empty())
    }

    /// How often as fast neighbours are as objects on pages of their own, and as on a page that is shared as a whole.
    fn ratios(&self) -> [Series; 2] {
        let [neighbours, others @ ..] = &self.sides;
        others.each_ref().map(|other| neighbours.rate.per_round_ratio(&other.rate))
    }

    /// How often as long a write takes where the page is shared as a whole.
    fn write_ratio(&self) -> Series {
        self.sides[2].write_ns.per_round_ratio(&self.sides[0].write_ns)
    }

    fn name(&self) -> String {
        if self.pause_us == 0 { "all the time".into() } else { format!("{} us between", self.pause_us) }
    }
}

impl Outcome {
    /// Rates and times of writes, and what neighbours have of the others'.
    pub fn table(&self) -> String {
        let lines = self.paces.iter().flat_map(|pace| {
            LIES.iter().zip(&pace.sides).map(|((_, name), side)| {
                let ratio = pace.sides[0].rate.per_round_ratio(&side.rate).median();
                vec![
                    format!("{}: {name}", pace.name()),
                    format!("{:.3}", side.rate.median() / 1e6),
                    format!("{:.0}", side.write_ns.median()),
                    format!("{:.0}", side.faults.median()),
                    times(ratio),
                ]
            })
        });
        let header = ["objects", "million writes/s", "ns a write", "faults/s", "neighbours are faster by"];
        let note =
            format!("Two processes, each writing to its own object of 64 bytes, over {}.", self.transport);
        [note, render(&header, lines)].join("\n\n")
    }

    /// Rows by the result schema: cases `TRANSPORT/PACE/SIDE`.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for pace in &self.paces {
            let mut add = |name: &str, metric: &str, unit: &str, series: &Series| {
                let case = format!("{}/{}/{name}", self.transport, pace.name());
                rows.extend(
                    series.spread().map(|spread| Row::of("false sharing", case, metric, unit, spread)),
                );
            };
            for ((_, name), side) in LIES.iter().zip(&pace.sides) {
                add(name, "writes", "1/s", &side.rate);
                add(name, "write", "ns", &side.write_ns);
                add(name, "write_faults", "1/s", &side.faults);
            }
            let [of_own, of_whole] = pace.ratios();
            add(LIES[0].1, "of_own_pages", "1", &of_own);
            add(LIES[0].1, "of_whole_page", "1", &of_whole);
            add(LIES[2].1, "write_of_neighbours", "1", &pace.write_ratio());
        }
        rows
    }
}
