//! The tables for people.

use forebay_probes::Probe;
use forebay_quantity::{bytes, number, percent};

use super::found::Beside;
use super::{Comparison, Measured, Outcome};
use crate::harness::table::{render, render_named_by};

/// Columns of the table of memory: subject, stride (none for blocks), heading.
const COLUMNS: [(&str, &str, &str); 8] = [
    ("memory load", "/stride 8 B", "load 8 B"),
    ("memory load", "/stride 64 B", "load 64 B"),
    ("memory store", "/stride 8 B", "store 8 B"),
    ("memory store", "/stride 64 B", "store 64 B"),
    ("memory copy", "/stride 8 B", "copy 8 B"),
    ("memory copy", "/stride 64 B", "copy 64 B"),
    ("memory block fill", "", "block fill"),
    ("memory block copy", "", "block copy"),
];

impl Outcome {
    /// The tables for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut parts = vec![self.memory(), self.levels(), self.others(), self.lines(), self.compared()];
        parts.extend(self.refused.iter().map(|why| format!("Left out: {why}")));
        if self.interrupted {
            parts.push("It was interrupted: what had been measured by then is shown.".to_owned());
        }
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n")
    }

    /// Throughput by working set, at the first and the eighth stride.
    fn memory(&self) -> String {
        let mut sets: Vec<&str> = Vec::new();
        for one in self
            .measured
            .iter()
            .filter(|one| one.subject == "memory block copy" || one.subject == "memory load")
        {
            let set = one.case.split('/').next().unwrap_or_default();
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        if sets.is_empty() {
            return String::new();
        }
        let cell = |subject: &str, case: String| {
            let one = self.measured.iter().find(|one| one.subject == subject && one.case == case);
            one.map_or_else(|| "-".to_owned(), |one| format!("{:.0}{}", one.settled.values.median, mark(one)))
        };
        let lines = sets.into_iter().map(|set| {
            let cells = COLUMNS.iter().map(|(subject, stride, _)| cell(subject, format!("{set}{stride}")));
            std::iter::once(set.to_owned()).chain(cells).collect()
        });
        let header: Vec<&str> =
            std::iter::once("working set").chain(COLUMNS.iter().map(|column| column.2)).collect();
        let table = render(&header, lines);
        let unsettled = self.measured.iter().any(|one| one.probe == Probe::Memory && !one.settled.settled);
        let note = if unsettled {
            " A share behind a value: not settled, half of its runs are so far apart."
        } else {
            ""
        };
        format!(
            "Throughput of memory in MB/s: bytes of the words that are loaded, stored, or copied (once). By word at a stride, \
             and by block as the C library does it; the other strides are in the results.{note}\n\n{table}"
        )
    }

    /// What was found, beside what the system tells.
    fn levels(&self) -> String {
        let found = &self.found;
        let kinds = [
            ("cache", "memory", &found.caches),
            ("translations", "translations beyond", &found.translations),
        ];
        let all =
            || kinds.iter().flat_map(|(what, last, levels)| levels.iter().map(move |one| (what, last, one)));
        let lines: Vec<Vec<String>> = all()
            .map(|(what, last, Beside { level, told })| {
                let behind = level.is_some_and(|level| level.capacity.is_none());
                let capacity = level.and_then(|level| level.capacity);
                vec![
                    (if behind { last } else { what }).to_string(),
                    capacity.map_or_else(|| "-".into(), bytes),
                    told.map_or_else(|| "-".into(), |told| bytes(told as f64)),
                    level.map_or_else(|| "-".into(), |level| format!("{:.1} ns", level.latency)),
                ]
            })
            .collect();
        if lines.is_empty() {
            return String::new();
        }
        let missing = all().any(|(_, _, one)| one.level.is_none());
        let note = if missing {
            "\nWhat the system tells of without a size found shows in no latency; of a cache that others use too a guest may have \
             a part only."
        } else {
            ""
        };
        format!("{}{note}", render(&["level", "found", "told by the system", "latency"], lines))
    }

    /// All that is not drawn over sizes of memory.
    fn others(&self) -> String {
        let shown = self.measured.iter().filter(|one| {
            !matches!(one.probe, Probe::Memory | Probe::Latency) || one.subject == "memory stream"
        });
        let lines: Vec<_> = shown.map(line).collect();
        if lines.is_empty() {
            String::new()
        } else {
            render_named_by(2, &["what", "case", "median", "least", "largest", "runs"], lines)
        }
    }

    fn lines(&self) -> String {
        let cost = |value: f64, digits: usize, unit: &str| {
            if value > 0.0 { format!("{value:.digits$} {unit}") } else { "nothing measurable".to_owned() }
        };
        let says = |(way, line): &(String, forebay_probes::Line)| {
            let (each, per_byte) = (cost(line.each, 2, "us"), cost(line.per_byte * 1e3, 3, "ns"));
            format!("{way}: {each} for each, and {per_byte} for each byte of it.")
        };
        self.found.packets.iter().map(says).collect::<Vec<_>>().join("\n")
    }

    fn compared(&self) -> String {
        if self.comparisons.is_empty() {
            return String::new();
        }
        let lines = self.comparisons.iter().map(Comparison::line);
        let table = render_named_by(2, &["what", "tool", "ours", "theirs", "ratio"], lines);
        let remarks: Vec<String> = self.comparisons.iter().filter_map(Comparison::remark).collect();
        std::iter::once(table).chain(remarks).collect::<Vec<_>>().join("\n")
    }
}

fn line(one: &Measured) -> Vec<String> {
    let values = &one.settled.values;
    // A cost that is the difference of two measurements may come out as nothing.
    let shown = |value: f64| match value {
        value if value <= 0.0 => "none found".to_owned(),
        value => format!("{} {}", number(value), one.unit),
    };
    let runs = if one.settled.settled {
        values.runs.to_string()
    } else {
        format!("{}, not settled: {}", values.runs, percent(one.settled.spread))
    };
    vec![
        one.subject.clone(),
        one.case.clone(),
        shown(values.median),
        shown(values.min),
        shown(values.max),
        runs,
    ]
}

fn mark(one: &Measured) -> String {
    if one.settled.settled { String::new() } else { format!(" ({})", percent(one.settled.spread)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_probes::Settled;
    use forebay_results::Spread;

    #[test]
    fn a_cost_of_nothing_or_less_is_said_in_words() {
        let cells = |values: &[f64]| {
            let settled = Settled { values: Spread::of(values).unwrap(), spread: 0.0, settled: true };
            let (subject, case) = ("context switch".to_owned(), "64 B".to_owned());
            line(&Measured { probe: Probe::Switches, subject, case, metric: "cost", unit: "us", settled })
        };
        assert_eq!(cells(&[-0.5, 0.0, 1.5])[2..5], ["none found", "none found", "1.50 us"]);
        assert!(cells(&[-0.5, -0.1])[2..5].iter().all(|cell| cell == "none found"));
    }
}
