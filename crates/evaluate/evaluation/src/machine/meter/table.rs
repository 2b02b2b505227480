//! What was counted, for people.

use forebay_counters::{Counter, Interval, Kind, Reading, Refused};
use forebay_results::Tier;

use super::{MaxRss, Outcome};
use crate::harness::table::render_within;
use forebay_quantity::{bytes, number, percent, seconds};

/// Below this width there is no place for the extremes.
const WIDTH_WITH_EXTREMES: usize = 84;

/// The table, no line longer than `width` (at least 72) characters: by tier all that happened, then what did not, what could
/// not be counted, and what the counting took.
pub fn table(outcome: &Outcome, width: usize) -> String {
    let width = width.max(72);
    let readings = &outcome.readings;
    let mut text = format!("{} for {}\n", outcome.subject, seconds(readings.seconds));
    let simulated = outcome.simulation.iter().flat_map(|simulation| &simulation.readings);
    let all: Vec<&Reading> = readings.readings.iter().chain(simulated).collect();
    for tier in Tier::ALL {
        let (still, moved): (Vec<&Reading>, Vec<&Reading>) = all
            .iter()
            .filter(|reading| reading.counter.tier == tier && !reading.value.is_nan())
            .partition(|reading| reading.value == 0.0 && reading.max <= 0.0);
        if moved.is_empty() && still.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{}\n", of_tier(tier, &moved, readings.seconds, width)));
        if !still.is_empty() {
            let names: Vec<&str> = still.iter().map(|reading| reading.counter.name.as_ref()).collect();
            wrap(&mut text, &format!("none of: {}", names.join(", ")), width);
        }
    }
    for note in outcome.simulation.iter().flat_map(|simulation| &simulation.notes) {
        wrap(&mut text, &format!("simulated: {note}"), width);
    }
    if let Some(max_rss) = outcome.max_rss {
        let largest = match max_rss {
            MaxRss::Bytes(largest) => bytes(largest as f64),
            MaxRss::AtMost(largest) => format!("no more than {}", bytes(largest as f64)),
        };
        wrap(&mut text, &format!("max_rss: the largest process had {largest} in memory at its peak"), width);
    }
    write_refused(&mut text, &outcome.refused, width);
    let own = readings.own_share() * 100.0;
    let taken = seconds(readings.own_cpu_seconds);
    wrap(&mut text, &format!("\nThe counting took {taken} of a processor's time, {own:.2} % of one."), width);
    text.trim_end().to_owned()
}

fn of_tier(tier: Tier, readings: &[&Reading], seconds: f64, width: usize) -> String {
    let heading = tier.to_string();
    let header = [heading.as_str(), "in all", "a second, or mean", "least to most"];
    let columns = match tier {
        Tier::Simulated => 2,
        Tier::Hardware | Tier::Software if width < WIDTH_WITH_EXTREMES => 3,
        Tier::Hardware | Tier::Software => 4,
    };
    let rows = readings.iter().map(|reading| {
        let Reading { counter, value, min, max } = reading;
        let (total, rate) = match counter.kind {
            // The time that a simulation takes is nobody's.
            _ if tier == Tier::Simulated => (amount(*value, counter.unit), f64::NAN),
            Kind::Total if seconds > 0.0 => (amount(*value, counter.unit), *value / seconds),
            Kind::Total => (amount(*value, counter.unit), f64::NAN),
            Kind::Level => (String::new(), *value),
        };
        let unit = if counter.unit == "s" { "share" } else { counter.unit };
        let extremes = format!("{} to {}", amount(*min, unit), amount(*max, unit));
        let mut cells = vec![counter.name.to_string(), total, amount(rate, unit), extremes];
        cells.truncate(columns);
        cells
    });
    render_within(width, 1, &header[..columns], rows.collect())
}

/// Why what could not be counted could not: each reason once.
fn write_refused(text: &mut String, refused: &[Refused], width: usize) {
    let mut reasons: Vec<(&Refused, Vec<&str>)> = Vec::new();
    for one in refused {
        let same = |(known, _): &&mut (&Refused, _)| {
            (known.tier, &known.why, &known.remedy) == (one.tier, &one.why, &one.remedy)
        };
        match reasons.iter_mut().find(same) {
            Some((_, names)) => names.push(&one.counter),
            None => reasons.push((one, vec![&one.counter])),
        }
    }
    for (Refused { tier, why, remedy, .. }, names) in reasons {
        wrap(text, &format!("\nnot counted ({tier}): {}: {why}; {remedy}", names.join(", ")), width);
    }
}

/// Appends `sentence` in lines of at most `width` characters.
fn wrap(text: &mut String, sentence: &str, width: usize) {
    let mut length = 0;
    for (index, word) in sentence.split(' ').enumerate() {
        if index > 0 && length + 1 + word.len() > width {
            text.push_str("\n  ");
            length = 2;
        } else if index > 0 {
            text.push(' ');
            length += 1;
        }
        text.push_str(word);
        length += word.trim_start_matches('\n').len();
    }
    text.push('\n');
}

/// A value in the unit that suits it; the unit of counts is in the heading.
fn amount(value: f64, unit: &str) -> String {
    match unit {
        "s" => seconds(value),
        "share" => percent(value),
        "B" => bytes(value),
        // More digits than a column is wide.
        _ if value >= 1e10 => format!("{}e9", number(value / 1e9)),
        _ => number(value),
    }
}

/// A line for each interval, of the most telling of the counters that are had.
#[derive(Debug, Default)]
pub struct Lines {
    columns: Vec<(usize, &'static str)>,
    printed: usize,
}

/// Counters, what they are called above a narrow column, best first.
const TELLING: [(&str, &str); 16] = [
    ("instructions", "instr/s"),
    ("last_level_cache_load_misses", "LLC miss"),
    ("memory_read_bytes", "mem read"),
    ("cpu_user", "user"),
    ("cpu_system", "system"),
    ("minor_faults", "minor/s"),
    ("major_faults", "major/s"),
    ("refaulted_file_pages", "refault"),
    ("context_switches", "switch/s"),
    ("active_pages", "active"),
    ("resident_pages", "resident"),
    ("disk_read_bytes", "read/s"),
    ("disk_written_bytes", "write/s"),
    ("network_sent_bytes", "net out"),
    ("memory_pressure_some", "mem PSI"),
    ("cpu_wait", "cpu wait"),
];

/// Width of a column, with the blank before it.
const COLUMN: usize = 10;

/// Lines between two headings.
const LINES_PER_HEADING: usize = 20;

impl Lines {
    /// The line of an interval, with a heading above it now and then, no longer than `width`.
    pub fn line(&mut self, counters: &[Counter], interval: &Interval, width: usize) -> String {
        if self.columns.is_empty() {
            let had = TELLING.iter().filter_map(|(name, heading)| {
                Some((counters.iter().position(|counter| counter.name == *name)?, *heading))
            });
            self.columns = had.take((width.max(60) / COLUMN).saturating_sub(1)).collect();
        }
        let mut text = String::new();
        if self.printed.is_multiple_of(LINES_PER_HEADING) {
            text.push_str(&format!("{:>9}", "time"));
            self.columns.iter().for_each(|(_, heading)| text.push_str(&format!("{heading:>COLUMN$}")));
            text.push('\n');
        }
        self.printed += 1;
        text.push_str(&format!("{:>7.1} s", interval.end));
        for &(index, _) in &self.columns {
            let Counter { kind, unit, .. } = counters[index];
            let value = interval.values[index];
            let value = if kind == Kind::Total { value / interval.seconds } else { value };
            let unit = if unit == "s" { "share" } else { unit };
            text.push_str(&format!("{:>COLUMN$}", amount(value, unit)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use forebay_counters::Readings;

    use super::super::Simulation;

    use super::*;

    fn reading(name: &'static str, unit: &'static str, tier: Tier, kind: Kind, value: f64) -> Reading {
        let counter = Counter { name: Cow::Borrowed(name), unit, tier, kind };
        Reading { counter, value, min: value / 4.0, max: value }
    }

    fn outcome() -> Outcome {
        let refused = |counter: &str| Refused {
            counter: counter.to_owned(),
            tier: Tier::Hardware,
            why: "this processor, or virtual machine, does not have it".to_owned(),
            remedy: "count where the processor's counters can be seen, or have them simulated".to_owned(),
        };
        let readings = vec![
            reading("last_level_cache_load_misses", "1", Tier::Hardware, Kind::Total, 12_345_678_901.0),
            reading("cpu_user", "s", Tier::Software, Kind::Total, 1.5),
            reading("major_faults", "1", Tier::Software, Kind::Total, 0.0),
            reading("swapped_in_pages", "pages", Tier::Software, Kind::Total, 0.0),
            reading("resident_pages", "pages", Tier::Software, Kind::Level, 1_234_567.0),
        ];
        Outcome {
            subject: "grep".to_owned(),
            readings: Readings { seconds: 2.0, readings, intervals: vec![], own_cpu_seconds: 0.001 },
            refused: vec![refused("cycles"), refused("instructions")],
            simulation: Some(Simulation {
                readings: vec![reading("data_tlb_walks", "1", Tier::Simulated, Kind::Total, 17.0)],
                notes: vec!["pages of 4 KiB".to_owned()],
            }),
            status: None,
            max_rss: Some(MaxRss::Bytes(64 << 20)),
            interrupted: false,
        }
    }

    #[test]
    fn the_table_has_tiers_what_did_not_happen_what_was_refused_and_what_it_took() {
        let text = table(&outcome(), 100);
        for part in [
            "grep for 2.00 s",
            "| hardware ",
            "| software ",
            "| simulated ",
            "simulated: pages of 4 KiB",
            "1.50 s",
            "75 %",
            "1,234,567",
            "max_rss: the largest process had 64 MiB in memory",
            "none of: major_faults, swapped_in_pages",
            "not counted (hardware): cycles, instructions: this processor",
            "0.05 % of one",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        for width in [72, 80, 100, 160] {
            let text = table(&outcome(), width);
            let long = text.lines().find(|line| line.chars().count() > width);
            assert_eq!(long, None, "{width}");
        }
    }

    #[test]
    fn intervals_have_a_line_each_and_a_heading_now_and_then() {
        let counters: Vec<Counter> = outcome().readings.readings.into_iter().map(|one| one.counter).collect();
        let interval = Interval { end: 4.0, seconds: 2.0, values: vec![1e3, 0.5, 4.0, 0.0, f64::NAN] };
        let mut lines = Lines::default();
        let first = lines.line(&counters, &interval, 80);
        let second = lines.line(&counters, &interval, 80);
        assert_eq!(
            first.lines().collect::<Vec<_>>(),
            [
                "     time  LLC miss      user   major/s  resident",
                "    4.0 s       500      25 %         2         -",
            ]
        );
        assert_eq!(second.lines().count(), 1);
    }
}
