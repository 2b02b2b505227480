//! What was measured as a table and as rows.

use forebay_results::Row;

use super::{AtSize, Cell, MIB, Measured, Outcome, Speculation};
use crate::harness::metric;
use crate::harness::statistics::Series;
use crate::harness::table::render_named_by;
use crate::run::swapping::SwappingProgram;
use forebay_quantity::{bytes, seconds};

const NOTE: &str = "\
Medians. Memory is the limit for the program, forebay and the page cache together; the number in parentheses is its share \
of the program's max RSS. The first round has 2 % less, the last 2 % more, the rounds between lie in steps, on all sides \
alike. 'Of off' is the time over the time without speculation, round by round. Stall time is elapsed time minus the processor \
time of the program and of forebay; the speculators' time is left out. A fork makes a new speculator. 'Trials: less' \
counts the trials of memory control that found less saved than was claimed; in 2003 memory control turned speculation off at \
crossings.";

/// A row of the published table, of Sphinx on machines with `memory`.
struct Published {
    memory: &'static str,
    /// Off, on, under control.
    stall_s: [f64; 3],
    /// On, under control.
    syncs: [&'static str; 2],
    crossings: &'static str,
}

/// From the least memory to the most.
const PUBLISHED: [Published; 5] = [
    Published {
        memory: "48 MB",
        stall_s: [315.0, 224.0, 218.0],
        syncs: ["18,303", "14,790"],
        crossings: "15",
    },
    Published { memory: "56 MB", stall_s: [106.0, 102.0, 101.0], syncs: ["8,356", "1,963"], crossings: "12" },
    Published { memory: "64 MB", stall_s: [43.0, 47.0, 41.0], syncs: ["3,337", "1,979"], crossings: "10" },
    Published { memory: "72 MB", stall_s: [34.0, 25.0, 23.0], syncs: ["2,282", "957"], crossings: "4" },
    Published { memory: "80 MB", stall_s: [28.0, 21.0, 20.0], syncs: ["1,955", "729"], crossings: "5" },
];

impl Published {
    fn cells(&self, side: Speculation) -> [String; 4] {
        let (syncs, crossings) = match side {
            Speculation::Off => ("-", "-"),
            Speculation::On => (self.syncs[0], "-"),
            Speculation::Controlled => (self.syncs[1], self.crossings),
        };
        let stall = format!("{:.0} s", self.stall_s[side as usize]);
        [self.memory.to_owned(), stall, syncs.to_owned(), crossings.to_owned()]
    }
}

impl Outcome {
    /// Rows by the result schema: cases `DISK/SIZE/SIDE`, such as `ssd-1ms-q128/37 MiB/control`.
    pub fn rows(&self) -> Vec<Row> {
        self.measured.iter().flat_map(|measured| measured.rows(&self.profile.to_string())).collect()
    }

    /// Whether every run that ended gave the same output, exit status and file, and memory sufficed with Forebay
    /// wherever it did without.
    pub fn identical(&self) -> bool {
        self.measured.iter().all(|measured| measured.problems().is_empty())
    }

    /// Medians by program, size and side, beside the published figures, and every difference found.
    pub fn table(&self) -> String {
        let disk = format!("swap on {}", self.profile);
        let published = self.measured.iter().any(|measured| measured.published(0).is_some());
        let mut header = vec![
            disk.as_str(),
            "memory",
            "speculation",
            "elapsed (min - max)",
            "of off (min - max)",
            "stall time",
            "forks",
            "trials: less",
            "major faults",
        ];
        if published {
            header.extend(["2003: memory", "stall time", "syncs", "crossings"]);
        }
        let columns = header.len();
        let rows = self.measured.iter().flat_map(|measured| {
            measured.sizes.iter().enumerate().flat_map(move |(number, at)| {
                at.sides.iter().map(move |(&side, cell)| {
                    let mut cells = vec![measured.program.to_string(), memory(at), side.name().to_owned()];
                    cells.extend(figures(side, cell));
                    cells.extend(measured.published(number).into_iter().flat_map(|row| row.cells(side)));
                    cells.resize(columns, String::new());
                    cells
                })
            })
        });
        let sizes = self.measured.iter().map(|measured| {
            format!(
                "The max RSS of {} is {} without a limit.",
                measured.program,
                bytes(measured.max_rss_bytes)
            )
        });
        let mut parts = vec![render_named_by(3, &header, rows), NOTE.to_owned()];
        parts.push(sizes.collect::<Vec<_>>().join(" "));
        parts.extend(self.measured.iter().flat_map(Measured::remarks));
        parts.join("\n\n")
    }
}

fn memory(at: &AtSize) -> String {
    format!("{} MiB ({:.0} %)", at.bytes / MIB, at.share * 100.0)
}

/// Elapsed time, that over the time without speculation, stall time, forks, trials that found less, major faults.
fn figures(side: Speculation, cell: &Cell) -> [String; 6] {
    let elapsed = match (cell.elapsed_s.spread(), cell.unfinished()) {
        (Some(spread), _) => {
            format!("{} ({} - {})", seconds(spread.median), seconds(spread.min), seconds(spread.max))
        }
        (None, Some(why)) => why,
        (None, None) => "-".to_owned(),
    };
    let count = |value: Option<f64>| {
        value.filter(|value| value.is_finite()).map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
    };
    let forks = cell.counters.get(metric::FORKS).map(Series::median);
    let less = cell.counters.get(metric::TRIALS_LESS).map(Series::median);
    let relative = match cell.relative.spread() {
        Some(spread) => format!("{:.2} ({:.2} - {:.2})", spread.median, spread.min, spread.max),
        None => "-".to_owned(),
    };
    [
        elapsed,
        relative,
        seconds(cell.stall_s.median()),
        count(forks.filter(|_| side != Speculation::Off)),
        count(less.filter(|_| side == Speculation::Controlled)),
        count(Some(cell.major_faults.median())),
    ]
}

impl Measured {
    /// The published row for the size with this number; only where the sizes are as many as the published ones.
    fn published(&self, number: usize) -> Option<&'static Published> {
        let comparable = self.program == SwappingProgram::Sphinx && self.sizes.len() == PUBLISHED.len();
        PUBLISHED.get(number).filter(|_| comparable)
    }

    fn rows(&self, disk: &str) -> Vec<Row> {
        let subject = self.program.name();
        let mut rows = vec![Row::once(
            subject,
            format!("{disk}/unlimited/off"),
            metric::MAX_RSS,
            "B",
            self.max_rss_bytes,
        )];
        for at in &self.sizes {
            let size = format!("{disk}/{} MiB", at.bytes / MIB);
            rows.push(Row::once(subject, &size, "memory", "B", at.bytes as f64));
            rows.push(Row::once(subject, &size, "share_of_footprint", "1", at.share));
            for (side, cell) in &at.sides {
                let case = format!("{size}/{}", side.name());
                let mut push = |metric: &str, unit: &str, series: &Series| {
                    rows.extend(series.spread().map(|spread| Row::of(subject, &case, metric, unit, spread)));
                };
                push(metric::ELAPSED, "s", &cell.elapsed_s);
                push("relative_time", "1", &cell.relative);
                push(metric::STALL_TIME, "s", &cell.stall_s);
                push(metric::MAJOR_FAULTS, "1", &cell.major_faults);
                rows.extend(cell.counters.rows(subject, &case));
                rows.push(Row::once(subject, &case, "runs_ended", "1", cell.ended() as f64));
                if cell.killed > 0 {
                    rows.push(Row::once(subject, &case, "runs_killed", "1", cell.killed as f64));
                }
            }
        }
        let identical = f64::from(u8::from(self.problems().is_empty()));
        rows.push(Row::once(subject, disk, "output_identical", "1", identical));
        rows
    }

    /// What must not be: a sentence each.
    fn problems(&self) -> Vec<String> {
        let worse = self.sizes.iter().flat_map(|at| {
            let alone = at.sides.get(&Speculation::Off).is_some_and(|cell| cell.unfinished().is_none());
            at.sides.iter().filter(move |_| alone).filter_map(move |(side, cell)| {
                let why = cell.unfinished()?;
                let size = at.bytes / MIB;
                Some(format!(
                    "with {size} MiB the program comes to its end alone, but on the side {} it {why}",
                    side.name()
                ))
            })
        });
        self.differences.iter().cloned().chain(worse).collect()
    }

    /// What a reader of the figures must know: a sentence each.
    fn remarks(&self) -> Vec<String> {
        let program = self.program;
        let problems = self.problems().into_iter().map(|problem| format!("{program}: {problem}."));
        let alone = self.sizes.iter().filter_map(|at| {
            let why = at.sides.get(&Speculation::Off)?.unfinished()?;
            Some(format!("{program}: with {} MiB the program itself {why}.", at.bytes / MIB))
        });
        let not_cold = (self.files_not_cold > 0).then(|| {
            let files = self.files_not_cold;
            format!("{program}: up to {files} files could not be made cold, so runs may be too fast.")
        });
        problems.chain(alone).chain(not_cold).collect()
    }
}

#[cfg(test)]
mod tests {
    use forebay_lab::Profile;

    use super::*;

    fn cell(elapsed_s: f64, stall_s: f64, counted: &[(&str, f64)]) -> Cell {
        let elapsed_s = [elapsed_s - 0.5, elapsed_s, elapsed_s + 0.5].into_iter().collect();
        let mut cell = Cell { elapsed_s, ..Cell::default() };
        if !counted.is_empty() {
            cell.relative = [0.2, 0.25, 0.3].into_iter().collect();
        }
        cell.stall_s.push(stall_s);
        cell.major_faults.push(100.0 * stall_s);
        for &(name, value) in counted {
            cell.counters.push(name, "1", value);
        }
        cell
    }

    fn outcome() -> Outcome {
        let at = |number: usize| {
            let slow = 10.0 - number as f64;
            let sides = [
                (Speculation::Off, cell(slow, slow - 2.0, &[])),
                (Speculation::On, cell(slow / 2.0, 1.0, &[(metric::FORKS, 40.0)])),
                (
                    Speculation::Controlled,
                    cell(slow / 4.0, 0.5, &[(metric::FORKS, 20.0), (metric::TRIALS_LESS, 3.0)]),
                ),
            ];
            AtSize { share: 0.5, bytes: (40 + number as u64) * MIB, sides: sides.into_iter().collect() }
        };
        let measured = Measured {
            program: SwappingProgram::Sphinx,
            max_rss_bytes: 100.0 * MIB as f64,
            sizes: (0..5).map(at).collect(),
            differences: Vec::new(),
            files_not_cold: 0,
        };
        Outcome { profile: Profile::Ssd1Ms, measured: vec![measured], stopped: None }
    }

    fn line(table: &str, words: [&str; 2]) -> String {
        let lines = table.lines().filter(|line| words.iter().all(|word| line.contains(word)));
        // A table that is too wide goes on in others, which begin with the three names again.
        let parts = lines.enumerate().flat_map(|(part, line)| {
            let cells = line.split('|').map(str::trim).filter(|cell| !cell.is_empty());
            cells.skip(if part > 0 { 3 } else { 0 })
        });
        parts.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn every_side_at_every_size_stands_beside_the_published_figures() {
        let table = outcome().table();
        assert_eq!(
            line(&table, ["40 MiB", " off "]),
            "sphinx | 40 MiB (50 %) | off | 10.0 s (9.50 s - 10.5 s) | - | 8.00 s | - | - | 800 | 48 MB | 315 s | - | -"
        );
        assert_eq!(
            line(&table, ["44 MiB", " control "]),
            "sphinx | 44 MiB (50 %) | control | 1.50 s (1.00 s - 2.00 s) | 0.25 (0.20 - 0.30) | 500 ms | 20 | 3 | 50 | 80 MB | 20 s | 729 | 5"
        );
        assert!(
            table.contains("Stall time is elapsed time")
                && table.contains("The max RSS of sphinx is 100 MiB"),
            "{table}"
        );
    }

    #[test]
    fn rows_have_disk_size_and_side() {
        let rows = outcome().rows();
        let value = |case: &str, metric: &str| {
            rows.iter().find(|row| row.case == case && row.metric == metric).map(|row| row.value)
        };
        assert_eq!(value("ssd-1ms-q128/40 MiB/off", metric::STALL_TIME), Some(8.0));
        assert_eq!(value("ssd-1ms-q128/44 MiB/control", metric::FORKS), Some(20.0));
        assert_eq!(value("ssd-1ms-q128/44 MiB/control", metric::TRIALS_LESS), Some(3.0));
        assert_eq!(value("ssd-1ms-q128/44 MiB", "share_of_footprint"), Some(0.5));
        assert_eq!(value("ssd-1ms-q128", "output_identical"), Some(1.0));
        assert!(rows.iter().all(|row| row.subject == "sphinx"));
    }

    #[test]
    fn a_program_that_dies_alone_is_told_and_one_that_dies_with_forebay_only_is_a_difference() {
        let mut alone = outcome();
        let died = Cell { killed: 3, ..Cell::default() };
        alone.measured[0].sizes[0].sides.values_mut().for_each(|cell| *cell = died.clone());
        assert!(alone.identical());
        assert!(
            alone
                .table()
                .contains("with 40 MiB the program itself was killed for want of memory in 3 of 3 runs."),
            "{}",
            alone.table()
        );
        let mut worse = outcome();
        worse.measured[0].sizes[0].sides.insert(Speculation::On, died);
        assert!(!worse.identical());
        assert!(
            worse.table().contains("but on the side on it was killed for want of memory in 3 of 3 runs."),
            "{}",
            worse.table()
        );
        let overran = Cell { overran: Some(std::time::Duration::from_secs(300)), ..Cell::default() };
        worse.measured[0].sizes[1].sides.insert(Speculation::Controlled, overran);
        assert!(
            worse.table().contains("on the side control it did not end within 300 s."),
            "{}",
            worse.table()
        );
    }
}
