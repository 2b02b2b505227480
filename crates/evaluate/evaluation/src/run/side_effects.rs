//! The published table of what speculation does besides: memory, page faults and signals of a program as it is, with
//! Forebay, and with hints written by hand.
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

/// Of the copies that run ahead, all processes together: what `forebay run` calls these metrics.
const SPECULATOR: &str = "speculator_";
const EXTRANEOUS_SIGNALS: &str = "extraneous_signals";

const NOTE: &str = "\
Medians. With forebay: the originals + their copies. Of footprints the largest process counts; a copy has in common with \
its original what neither has written since. Page reclaims are faults that read nothing, page faults those that waited \
for a device. Extraneous signals are those that ended a copy; without a copy there are none.";

/// A row of the published table.
struct Published {
    footprint: &'static str,
    page_reclaims: &'static str,
    page_faults: &'static str,
    signals: &'static str,
}

fn published(program: Program, side: Side) -> Option<Published> {
    let [footprint, page_reclaims, page_faults, signals] = match (program, side) {
        (Program::Agrep, Side::Original) => ["160 KB", "39", "4", "0"],
        (Program::Agrep, Side::Forebay) => ["704 KB", "134", "16", "0"],
        (Program::Agrep, Side::Hinted) => ["152 KB", "39", "4", "0"],
        (Program::Gnuld, Side::Original) => ["10.1 MB", "1,341", "12", "0"],
        (Program::Gnuld, Side::Forebay) => ["14.2 MB", "1,974", "52", "39"],
        (Program::Gnuld, Side::Hinted) => ["10.5 MB", "1,389", "14", "0"],
        (Program::Xds, Side::Original) => ["62.0 MB", "8,105", "61", "0"],
        (Program::Xds, Side::Forebay) => ["62.5 MB", "8,202", "93", "2"],
        (Program::Xds, Side::Hinted) => ["62.1 MB", "8,104", "60", "0"],
        _ => return None,
    };
    Some(Published { footprint, page_reclaims, page_faults, signals })
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
    let disk = format!("on {}", outcome.profile);
    let header = [
        disk.as_str(),
        "footprint",
        "page reclaims",
        "page faults",
        "signals",
        "1999: footprint",
        "reclaims",
        "faults",
        "signals",
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
        [published.footprint, published.page_reclaims, published.page_faults, published.signals]
            .map(str::to_owned)
    }));
    cells
}

fn unassisted(measured: &Measured, side: Side) -> [String; 4] {
    let Some(accounts) = measured.accounts.get(&side) else { return ["-", "-", "-", "-"].map(str::to_owned) };
    [
        bytes(accounts.footprint_bytes.median()),
        count(accounts.page_reclaims.median()),
        count(accounts.page_faults.median()),
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
        both(metric::FOOTPRINT, bytes),
        both(metric::PAGE_RECLAIMS, count),
        both(metric::PAGE_FAULTS, count),
        count(median(EXTRANEOUS_SIGNALS)),
    ]
}

fn count(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use forebay_lab::Profile;

    use super::*;
    use crate::run::comparison::Accounts;

    #[test]
    fn every_side_stands_beside_its_published_figures() {
        let mut measured = Measured::new(Program::Gnuld);
        let accounts = Accounts {
            footprint_bytes: [(10 << 20) as f64].into_iter().collect(),
            page_reclaims: [900.0, 1000.0, 1100.0].into_iter().collect(),
            page_faults: [2.0].into_iter().collect(),
        };
        measured.accounts.insert(Side::Original, accounts);
        for (name, unit, value) in [
            ("footprint", "B", 11.0 * 1048576.0),
            ("speculator_footprint", "B", 12.5 * 1048576.0),
            ("page_reclaims", "1", 1200.0),
            ("speculator_page_reclaims", "1", 800.0),
            ("extraneous_signals", "1", 3.0),
        ] {
            measured.counters.push(name, unit, value);
        }
        let outcome = Outcome { profile: Profile::Cloud, measured: vec![measured], stopped: None };
        let table = table(&outcome);
        let line = |side: &str| {
            let line = table.lines().find(|line| line.contains(side)).unwrap_or_default();
            line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(line("original"), "gnuld, original | 10 MiB | 1000 | 2 | 0 | 10.1 MB | 1,341 | 12 | 0");
        assert_eq!(
            line("gnuld, forebay"),
            "gnuld, forebay | 11 MiB + 12.5 MiB | 1200 + 800 | - + - | 3 | 14.2 MB | 1,974 | 52 | 39"
        );
        assert_eq!(line("hinted"), "gnuld, hinted | - | - | - | - | 10.5 MB | 1,389 | 14 | 0");
        let rows = outcome.rows();
        let reclaims = rows.iter().find(|row| row.case == "cloud/original" && row.metric == "page_reclaims");
        assert!(reclaims.is_some_and(|row| (row.value, row.min, row.max) == (1000.0, 900.0, 1100.0)));
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
