//! What a packet is predicted to take a server's processor, beside what it took.

use std::collections::BTreeMap;

use forebay_results::{Row, Tier, median};

use super::films::FRAMES_PER_SECOND;
use super::trial::Run;
use super::{Cell, Outcome, Subject, Transport};
use crate::harness::prediction::{Observed, Prediction, TCPU_FROM, Way, predictions};
use crate::harness::table::render;

impl Outcome {
    /// The cells that something is predicted for, by server and transport, each with its prediction.
    fn predicted(&self) -> Vec<(&Cell, Prediction)> {
        let Some(costs) = &self.costs else { return Vec::new() };
        let mut groups: BTreeMap<(String, bool), Vec<(&Cell, Observed)>> = BTreeMap::new();
        // With little memory, or a disk, it is no processor time that the server waits for.
        for cell in self.cells.iter().filter(|_| self.options.memory_bytes.is_none()) {
            let is_udp = cell.transport == Transport::Udp;
            if let Some(observed) = self.observed(cell) {
                groups.entry((cell.subject.to_string(), is_udp)).or_default().push((cell, observed));
            }
        }
        let of_group = |group: Vec<(&'_ Cell, Observed)>| -> Vec<Prediction> {
            let observed: Vec<Observed> = group.iter().map(|(_, observed)| *observed).collect();
            predictions(&observed, costs, group.first().map_or(Way::Datagrams, |(cell, _)| way(cell)))
        };
        let all = groups.into_values().flat_map(|group| {
            let cells: Vec<&Cell> = group.iter().map(|(cell, _)| *cell).collect();
            cells.into_iter().zip(of_group(group))
        });
        all.collect()
    }

    fn observed(&self, cell: &Cell) -> Option<Observed> {
        let of = |value: &dyn Fn(&Run) -> Option<f64>| {
            median(&cell.runs.iter().filter_map(value).collect::<Vec<_>>())
        };
        let packets = |run: &Run| Some(run.seen.packets as f64).filter(|packets| *packets > 0.0);
        let each = |run: &Run, total: Option<f64>| Some(total? / packets(run)?);
        let frames =
            |run: &Run| f64::from(FRAMES_PER_SECOND) * run.seen.seconds * f64::from(run.seen.playing);
        Some(Observed {
            bytes: of(&|run| each(run, Some(run.seen.bytes as f64)))?,
            // Of what was sent, of which some may be lost.
            together: of(&|run| {
                Some(run.seen.expected as f64 / frames(run)).filter(|number| number.is_finite())
            })?
            .max(1.0),
            us: of(&|run| each(run, run.processor_s))? * 1e6,
            transactions_s: of(&|run| Some(packets(run)? / run.seen.seconds))?,
            // They take what comes, and are measured as a process of their own.
            clients_us: None,
            wake_up_us: None,
            counts: [None, of(&|run| each(run, run.switches)), of(&|run| each(run, run.minor_faults)), None],
        })
    }

    /// A table of what was predicted; none where nothing was.
    pub(super) fn predictions(&self) -> Option<String> {
        let all = self.predicted();
        let lines = all.iter().map(|(cell, prediction)| {
            let name = format!("{}, {}", cell.subject, self.case(cell));
            std::iter::once(name).chain(prediction.line()).collect()
        });
        (!all.is_empty()).then(|| {
            format!(
                "By the model, from this host's costs ({TCPU_FROM}):\n\n{}",
                render(&["server, load", "CPU/packet", "predicted", "error", "missing"], lines)
            )
        })
    }

    pub(super) fn predicted_rows(&self) -> Vec<Row> {
        let rows = self.predicted().into_iter().flat_map(|(cell, prediction)| {
            let row = |metric, unit, value| {
                Row::once(cell.subject.to_string(), self.case(cell), metric, unit, value)
                    .with_tier(Tier::Simulated)
            };
            [
                row("predicted_cpu_time_per_packet", "s", prediction.predicted_us / 1e6),
                row("prediction_error", "%", prediction.error() * 100.0),
            ]
        });
        rows.collect()
    }
}

/// Forebay sends frames; what others do is theirs, and one packet after the other the plainest.
fn way(cell: &Cell) -> Way {
    match (cell.subject, cell.transport) {
        (Subject::Forebay { .. } | Subject::Cameras, Transport::Udp) => Way::Segments,
        (_, Transport::Udp) => Way::Datagrams,
        (_, Transport::Tcp) => Way::Writes,
    }
}
