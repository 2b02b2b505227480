//! The published table of side effects: memory, page faults and crashes of a program as it is, with Forebay, and with
//! hints written by hand.
//!
//! F. Chang and G. Gibson, "Automatic I/O Hint Generation through Speculative Execution", OSDI 1999, Table 6.

use crate::harness::statistics::Series;
use crate::harness::table::render;
use crate::run::comparison::{Measured, Side};
use crate::run::programs::Program;
use crate::run::speculation::{Options, Outcome, measure};
use crate::{Error, Progress, harness::metric};
use forebay_quantity::bytes;

/// In the order of the published rows.
const SIDES: [Side; 3] = [Side::Original, Side::Forebay, Side::Hinted];

/// Metrics of `forebay run` that add up the speculators of all processes.
const SPECULATOR: &str = "speculator_";
const CRASHES: &str = "speculator_crashes";

const NOTE: &str = "\
Medians. With forebay: program + speculators. Max RSS is that of the largest process; a speculator shares with its original \
the pages that neither has written since the fork. A minor fault reads nothing, a major fault waits for a device. A crash is \
a signal that ended a speculator; without speculators there is none.";

/// A row of the published table.
struct Published {
    max_rss: &'static str,
    minor_faults: &'static str,
    major_faults: &'static str,
    signals: &'static str,
}

fn published(program: Program, side: Side) -> Option<Published> {
    let [max_rss, minor_faults, major_faults, signals] = match (program, side) {
        (Program::Grep, Side::Original) => ["160 KB", "39", "4", "0"],
        (Program::Grep, Side::Forebay) => ["704 KB", "134", "16", "0"],
        (Program::Grep, Side::Hinted) => ["152 KB", "39", "4", "0"],
        (Program::Ld, Side::Original) => ["10.1 MB", "1,341", "12", "0"],
        (Program::Ld, Side::Forebay) => ["14.2 MB", "1,974", "52", "39"],
        (Program::Ld, Side::Hinted) => ["10.5 MB", "1,389", "14", "0"],
        (Program::RandomReads, Side::Original) => ["62.0 MB", "8,105", "61", "0"],
        (Program::RandomReads, Side::Forebay) => ["62.5 MB", "8,202", "93", "2"],
        (Program::RandomReads, Side::Hinted) => ["62.1 MB", "8,104", "60", "0"],
        _ => return None,
    };
    Some(Published { max_rss, minor_faults, major_faults, signals })
}

/// Runs the programs. Nothing is left behind, however it ends.
///
/// # Errors
///
/// As [`speculation::run`](crate::run::speculation::run).
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    measure(options, &SIDES, true, progress)
}

/// Medians beside the published figures, and every difference found.
pub fn table(outcome: &Outcome) -> String {
    let disk = format!("on {}", outcome.disk());
    let header = [
        disk.as_str(),
        "max RSS",
        "minor faults",
        "major faults",
        "crashes",
        "1999: max RSS",
        "minor",
        "major",
        "crashes",
    ];
    let rows = outcome.measured.iter().flat_map(|measured| SIDES.map(|side| row(measured, side)));
    let mut parts = vec![render(&header, rows), NOTE.to_owned()];
    parts.extend(outcome.measured.iter().flat_map(Measured::remarks));
    parts.join("\n\n")
}

fn row(measured: &Measured, side: Side) -> Vec<String> {
    let mut cells = vec![format!("{}, {}", measured.program, side.name())];
    cells.extend(if side == Side::Forebay { assisted(measured) } else { unassisted(measured, side) });
    cells.extend(published(measured.program, side).into_iter().flat_map(|published| {
        [published.max_rss, published.minor_faults, published.major_faults, published.signals]
            .map(str::to_owned)
    }));
    cells
}

fn unassisted(measured: &Measured, side: Side) -> [String; 4] {
    let Some(accounts) = measured.accounts.get(&side) else { return ["-", "-", "-", "-"].map(str::to_owned) };
    [
        bytes(accounts.max_rss_bytes.median()),
        count(accounts.minor_faults.median()),
        count(accounts.major_faults.median()),
        "0".to_owned(),
    ]
}

fn assisted(measured: &Measured) -> [String; 4] {
    let median = |metric: &str| measured.counters.get(metric).map_or(f64::NAN, Series::median);
    let both = |name: &str, shown: fn(f64) -> String| {
        let (original, copies) = (median(name), median(&format!("{SPECULATOR}{name}")));
        format!("{} + {}", shown(original), shown(copies))
    };
    [
        both(metric::MAX_RSS, bytes),
        both(metric::MINOR_FAULTS, count),
        both(metric::MAJOR_FAULTS, count),
        count(median(CRASHES)),
    ]
}

fn count(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use forebay_lab::{FileSystem, Profile};

    use super::*;
    use crate::run::comparison::Accounts;

    #[test]
    fn every_side_stands_beside_its_published_figures() {
        let mut measured = Measured::new(Program::Ld);
        let accounts = Accounts {
            max_rss_bytes: [(10 << 20) as f64].into_iter().collect(),
            minor_faults: [900.0, 1000.0, 1100.0].into_iter().collect(),
            major_faults: [2.0].into_iter().collect(),
        };
        measured.accounts.insert(Side::Original, accounts);
        for (name, unit, value) in [
            ("max_rss", "B", 11.0 * 1048576.0),
            ("speculator_max_rss", "B", 12.5 * 1048576.0),
            ("minor_faults", "1", 1200.0),
            ("speculator_minor_faults", "1", 800.0),
            ("speculator_crashes", "1", 3.0),
        ] {
            measured.counters.push(name, unit, value);
        }
        let mut outcome = Outcome {
            profile: Profile::Ssd1Ms,
            file_system: FileSystem::Ext4,
            measured: vec![measured],
            stopped: None,
        };
        let table = table(&outcome);
        let line = |side: &str| {
            let lines = table.lines().filter(|line| line.starts_with('|') && line.contains(side));
            // A table that is too wide goes on in others, which begin with the name again.
            let parts = lines.enumerate().flat_map(|(part, line)| {
                let cells = line.split('|').map(str::trim).filter(|cell| !cell.is_empty());
                cells.skip(if part > 0 { 1 } else { 0 })
            });
            parts.collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(line("original"), "ld, original | 10 MiB | 1000 | 2 | 0 | 10.1 MB | 1,341 | 12 | 0");
        assert_eq!(
            line("ld, forebay"),
            "ld, forebay | 11 MiB + 12.5 MiB | 1200 + 800 | - + - | 3 | 14.2 MB | 1,974 | 52 | 39"
        );
        assert_eq!(line("hinted"), "ld, hinted | - | - | - | - | 10.5 MB | 1,389 | 14 | 0");
        let rows = outcome.rows();
        let minor =
            rows.iter().find(|row| row.case == "ssd-1ms-q128/original" && row.metric == "minor_faults");
        assert!(minor.is_some_and(|row| (row.value, row.min, row.max) == (1000.0, 900.0, 1100.0)));
        outcome.file_system = FileSystem::Xfs;
        assert!(outcome.rows().iter().any(|row| row.case == "ssd-1ms-q128/xfs/original"));
    }

    #[test]
    fn the_published_table_has_every_program() {
        for (program, side) in
            Program::PUBLISHED.into_iter().flat_map(|program| SIDES.map(|side| (program, side)))
        {
            assert!(published(program, side).is_some());
        }
    }
}
