//! The corpus for people.

use std::path::Path;

use forebay_quantity::{percent, seconds, times};

use super::case::{Case, Need};
use super::outcome::{HARMED, HELPED, Outcome, STALLED, STALLED_HELPED, Summary};
use super::tools::{Tools, how_to_install};
use crate::harness::table::render;
use crate::run::comparison::Side;

impl Outcome {
    /// A line for each command line, the reasons where there is no help, and all of them together.
    pub fn table(&self) -> String {
        let mut parts = vec![self.times_table()];
        parts.extend(self.reasons_table());
        for measured in &self.measured {
            let name = measured.case.name;
            parts.extend(measured.differences.iter().map(|difference| format!("{name}: {difference}.")));
            if measured.files_not_cold > 0 {
                parts.push(format!(
                    "{name}: up to {} files could not be made cold, so cold runs may be too fast.",
                    measured.files_not_cold
                ));
            }
        }
        parts
            .extend(self.failed.iter().map(|failed| format!("FAILED {}: {}.", failed.case.name, failed.why)));
        parts.extend(self.left_out_sentences());
        parts.push(summary_lines(&self.summary(), ""));
        parts.extend(
            self.by_chance().map(|by_chance| summary_lines(&by_chance, "By chance, alone against alone: ")),
        );
        let harmed = self.measured.iter().filter(|measured| measured.speedup() < HARMED);
        let harmed: Vec<&str> = harmed.map(|measured| measured.case.name).collect();
        if !harmed.is_empty() {
            parts.push(format!("Harmed: {}.", harmed.join(", ")));
        }
        parts.join("\n\n")
    }

    fn times_table(&self) -> String {
        let disk = format!("on {}", self.profile);
        let header = [disk.as_str(), "alone", "with", "speedup", "worst run", "stall"];
        let rows = self.measured.iter().map(|measured| {
            let median = |side| seconds(measured.elapsed_s(side).median());
            vec![
                measured.case.name.to_owned(),
                median(Side::Original),
                median(Side::Forebay),
                times(measured.speedup()),
                times(measured.worst()),
                percent(measured.stall_share()),
            ]
        });
        render(&header, rows)
    }

    /// `None` where every command line is helped.
    fn reasons_table(&self) -> Option<String> {
        let rows: Vec<Vec<String>> = self
            .measured
            .iter()
            .filter_map(|measured| Some(vec![measured.case.name.to_owned(), measured.reason()?.to_string()]))
            .collect();
        (!rows.is_empty()).then(|| render(&["not helped", "why"], rows))
    }

    fn left_out_sentences(&self) -> Vec<String> {
        if self.left_out.is_empty() {
            return Vec::new();
        }
        let names: Vec<&str> = self.left_out.iter().map(|left| left.case.name).collect();
        let missing: Vec<Need> = self.left_out.iter().flat_map(|left| left.missing.iter().copied()).collect();
        let commands = how_to_install(&missing, &self.tools).join("\n  ");
        vec![format!("Left out: {}. Install what they need:\n  {commands}", names.join(", "))]
    }
}

fn summary_lines(summary: &Summary, head: &str) -> String {
    format!(
        "{head}{} command lines: geometric mean {}, helped (over {HELPED}x) {}, harmed (below {HARMED}x) {}, \
         worst run {} of the time alone.\n\
         {} stall for more than {} of their time: geometric mean {}, {STALLED_HELPED}x and more {}.",
        summary.measured,
        times(summary.geometric_mean),
        percent(summary.helped),
        percent(summary.harmed),
        times(summary.worst),
        summary.stalled,
        percent(STALLED),
        times(summary.stalled_geometric_mean),
        percent(summary.stalled_helped),
    )
}

/// The names of `cases` with their kinds and commands, and what has to be installed for them.
pub fn list(cases: &[&'static Case], folder: &Path) -> String {
    let tools = Tools::new(folder);
    let rows = cases.iter().map(|case| {
        let state = if tools.missing(case).is_empty() { "yes" } else { "no" };
        vec![case.name.to_owned(), case.kind.to_string(), state.to_owned()]
    });
    let mut parts = vec![render(&["command line", "kind", "installed"], rows)];
    let needs: Vec<Need> = cases.iter().flat_map(|case| case.needs.iter().copied()).collect();
    let commands = how_to_install(&needs, folder);
    if !commands.is_empty() {
        parts.push(format!("All of them need:\n  {}", commands.join("\n  ")));
    }
    parts.join("\n\n")
}
