//! Predictions beside what an experiment measured.

use std::collections::BTreeSet;

use crate::experiments::{Load, RtspServer, Server, WebServer};
use forebay_results::{Row, Tier, median};

use super::measure::WAKE_UP;
use super::streaming::FRAMES_PER_SECOND;
use super::{Cell, Outcome};
use crate::harness::prediction::{Observed, Prediction, TCPU_FROM, Way, predictions};
use crate::harness::table::render;

impl Cell {
    fn observed(&self) -> Option<Observed> {
        let transactions_s = self.median("transactions").filter(|number| *number > 0.0)?;
        let each = |metric: &str| self.median(&format!("{metric}_per_request"));
        let clients = self
            .runs
            .iter()
            .filter_map(|run| Some(run.evidence.generator?.processor_s * 1e6 / run.evidence.requests));
        let calls = self.runs.iter().filter_map(|run| Some(run.evidence.calls? / run.evidence.requests));
        Some(Observed {
            bytes: self.median("throughput")? * 1e6 / 8.0 / transactions_s,
            us: each("cpu_time").filter(|seconds| *seconds > 0.0)? * 1e6,
            together: match self.trial.load {
                Load::Media { clients, .. } => {
                    (transactions_s / (f64::from(clients) * FRAMES_PER_SECOND)).max(1.0)
                }
                _ => 1.0,
            },
            transactions_s,
            clients_us: median(&clients.collect::<Vec<_>>()),
            wake_up_us: self.median(WAKE_UP).map(|seconds| seconds * 1e6),
            counts: [
                median(&calls.collect::<Vec<_>>()),
                each("context_switches"),
                each("minor_faults"),
                each("major_faults"),
            ],
        })
    }
}

impl Outcome {
    /// The cells that something is predicted for, by server, each with its prediction.
    fn predicted(&self) -> Vec<(&Cell, Prediction)> {
        let Some(costs) = &self.costs else { return Vec::new() };
        let subjects: BTreeSet<&str> = self.cells.iter().map(|cell| cell.trial.subject.as_str()).collect();
        let of_server = |subject: &str| {
            // With little memory it is no processor time that the server waits for.
            let own = self
                .cells
                .iter()
                .filter(|cell| cell.trial.subject == subject && cell.trial.memory_bytes.is_none());
            let way = |cell: &Cell| match cell.trial.load {
                Load::Documents { .. } if cell.trial.server == Server::Web(WebServer::Apache) => {
                    Some(Way::DocumentsAtOnce)
                }
                Load::Documents { .. } => Some(Way::Documents),
                Load::Media { .. } if cell.trial.server == Server::Rtsp(RtspServer::Forebay) => {
                    Some(Way::Segments)
                }
                Load::Media { .. } => Some(Way::Datagrams),
                Load::Address { .. } | Load::Messages { .. } | Load::Command { .. } => None,
            };
            let own: Vec<(&Cell, Way, Observed)> =
                own.filter_map(|cell| Some((cell, way(cell)?, cell.observed()?))).collect();
            let Some(&(_, way, _)) = own.first() else { return Vec::new() };
            let observed: Vec<Observed> = own.iter().map(|(.., observed)| *observed).collect();
            own.iter().map(|(cell, ..)| *cell).zip(predictions(&observed, costs, way)).collect::<Vec<_>>()
        };
        subjects.into_iter().flat_map(of_server).collect()
    }

    /// A table of what was predicted; nothing where nothing was.
    pub(super) fn predictions(&self) -> String {
        let all = self.predicted();
        if all.is_empty() {
            return String::new();
        }
        let head = ["server", "condition", "CPU/transaction", "predicted", "error", "missing"];
        let table = render(
            &head,
            all.iter().map(|(cell, prediction)| {
                [cell.trial.subject.clone(), cell.trial.case()].into_iter().chain(prediction.line()).collect()
            }),
        );
        format!("\nBy the model, from this host's costs ({TCPU_FROM}):\n\n{table}\n")
    }

    /// What was predicted, as rows.
    pub(super) fn predicted_rows(&self) -> Vec<Row> {
        let rows = self.predicted().into_iter().flat_map(|(cell, prediction)| {
            let row = |metric, unit, value| {
                Row::once(&cell.trial.subject, cell.trial.case(), metric, unit, value)
                    .with_tier(Tier::Simulated)
            };
            [
                row("predicted_cpu_time_per_request", "s", prediction.predicted_us / 1e6),
                row("prediction_error", "%", prediction.error() * 100.0),
            ]
        });
        rows.collect()
    }
}
