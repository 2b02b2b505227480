//! The projection as a table, sentences, and rows of the result schema.

use crate::projection::Projection;
use forebay_results::{Row, Tier};

use super::{Cell, MEASURED_HOSTS, Outcome, Projected};
use crate::harness::metric;
use crate::harness::statistics::Series;
use crate::harness::table::render_named_by;
use forebay_quantity::{bytes, seconds, times};

const NOTE: &str = "PROJECTED, not measured: programs recorded here with as many hosts within one process, run again in simulated time by what faults and messages take here. What one host reads or writes without \
                    a fault in the recording it is taken to have then too; a processor each for host and progress thread. \
                    Shares are of the time of all hosts; service is the progress threads', beside it.";

impl Cell {
    fn case(&self) -> String {
        format!("{} hosts/{}", self.hosts, seconds(self.latency_ns as f64 / 1e9))
    }
}

impl Projected {
    /// Projected over measured less one, of two hosts, run by run: 0.1 is ten per cent too long.
    pub fn error(&self) -> Series {
        self.projected_s.per_round_difference(&self.measured_s).per_round_ratio(&self.measured_s)
    }

    fn speedup(&self, projection: &Projection) -> f64 {
        elapsed_s(&self.alone) / elapsed_s(projection)
    }

    /// Times, speedups and where time goes; how far off the projection was where it could be checked; what was left out.
    fn table(&self) -> String {
        let header = [
            self.kernel.name(),
            "latency",
            "elapsed",
            "speedup",
            "compute",
            "read",
            "write",
            "lock",
            "barrier",
            "ended",
            "service",
            "messages",
            "sent",
            "competing",
        ];
        let alone = self.row(&["1 host".to_owned(), "-".to_owned()], &self.alone);
        let cells = self.cells.iter().map(|cell| {
            let latency = seconds(cell.latency_ns as f64 / 1e9);
            self.row(&[format!("{} hosts", cell.hosts), latency], &cell.projection)
        });
        let error = self.error();
        let (low, high) = error.middle_half();
        let checked = format!(
            "Checked with {MEASURED_HOSTS} hosts within one process, in {} runs in turn: projected {}, measured {}; an error of \
             {:+.0} % (middle half {:+.0} - {:+.0}). Hosts and progress threads share two processors there.",
            error.values().len(),
            seconds(self.projected_s.median()),
            seconds(self.measured_s.median()),
            error.median() * 100.0,
            low * 100.0,
            high * 100.0
        );
        let table = render_named_by(2, &header, [alone].into_iter().chain(cells));
        let mut parts = vec![table, checked];
        parts.extend(self.refused.iter().map(|why| format!("Left out: {why}")));
        parts.join("\n\n")
    }

    fn row(&self, head: &[String], projection: &Projection) -> Vec<String> {
        let shares = shares(projection).map(|(_, share)| format!("{:.0} %", share * 100.0));
        let figures = [seconds(elapsed_s(projection)), times(self.speedup(projection))];
        let traffic = [
            projection.messages.to_string(),
            bytes(projection.bytes as f64),
            projection.counts.competing_requests.to_string(),
        ];
        head.iter().cloned().chain(figures).chain(shares).chain(traffic).collect()
    }

    /// Rows by the result schema, those of the tier `simulated` projected, cases named `HOSTS/LATENCY`.
    fn rows(&self) -> Vec<Row> {
        let projected = |case: &str, projection: &Projection| {
            let mut figures = vec![
                (metric::ELAPSED, "s", elapsed_s(projection)),
                ("speedup", "1", self.speedup(projection)),
                ("messages", "1", projection.messages as f64),
                ("sent", "B", projection.bytes as f64),
                ("requests", "1", projection.counts.requests as f64),
                ("competing_requests", "1", projection.counts.competing_requests as f64),
            ];
            figures.extend(shares(projection).map(|(name, share)| (name, "1", share)));
            let row = |(metric, unit, value)| Row::once(self.kernel.name(), case, metric, unit, value);
            figures.into_iter().map(row).map(|row| row.with_tier(Tier::Simulated)).collect::<Vec<_>>()
        };
        let mut rows = projected("1 host", &self.alone);
        rows.extend(self.cells.iter().flat_map(|cell| projected(&cell.case(), &cell.projection)));
        let checked = format!("{MEASURED_HOSTS} hosts/in process");
        for (metric, unit, series, tier) in [
            (metric::ELAPSED, "s", &self.measured_s, Tier::Software),
            ("elapsed_projected", "s", &self.projected_s, Tier::Simulated),
            ("projection_error", "1", &self.error(), Tier::Simulated),
        ] {
            let row =
                series.spread().map(|spread| Row::of(self.kernel.name(), &checked, metric, unit, spread));
            rows.extend(row.map(|row| row.with_tier(tier)));
        }
        rows
    }
}

impl Outcome {
    /// What each program would do, and by what costs.
    pub fn table(&self) -> String {
        let nanoseconds = |nanoseconds: u64| format!("{:.1} us", nanoseconds as f64 / 1e3);
        let costs = format!(
            "Costs: trap {}, wake {}, protection {}, message taken or sent {}, call {}.",
            nanoseconds(self.costs.trap_ns),
            nanoseconds(self.costs.wake_ns),
            nanoseconds(self.costs.protect_ns),
            nanoseconds(self.costs.receive_ns),
            nanoseconds(self.costs.call_ns)
        );
        let programs = self.programs.iter().map(Projected::table);
        [NOTE.to_owned(), costs].into_iter().chain(programs).collect::<Vec<_>>().join("\n\n")
    }

    /// Rows by the result schema, subjects the programs.
    pub fn rows(&self) -> Vec<Row> {
        self.programs.iter().flat_map(Projected::rows).collect()
    }
}

pub fn elapsed_s(projection: &Projection) -> f64 {
    projection.elapsed_ns as f64 / 1e9
}

/// Where the time of all hosts went.
fn shares(projection: &Projection) -> [(&'static str, f64); 7] {
    let total = projection.total();
    let whole = (projection.elapsed_ns * projection.shares.len() as u64).max(1) as f64;
    [
        ("compute_share", total.compute_ns),
        ("read_share", total.read_ns),
        ("write_share", total.write_ns),
        ("lock_share", total.lock_ns),
        ("barrier_share", total.barrier_ns),
        ("ended_share", total.ended_ns),
        ("service_share", total.service_ns),
    ]
    .map(|(name, part_ns)| (name, part_ns as f64 / whole))
}
