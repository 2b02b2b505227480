//! `--stats`: statistics as a table, fitted to the width of the terminal.

use std::env;
use std::fmt::Write;

use forebay_quantity::{bytes, seconds, thousands};

use crate::profiles::ProfileFigures;
use crate::statistics::{
    END_NAMES, FORK_NAMES, Figures, MemoryUse, OFF_NAMES, Statistics, TRIAL_NAMES, UNASSISTED_NAMES,
};

const WIDTH_DEFAULT: usize = 80;
const WIDTH_MIN: usize = 40;
/// Processes listed; the JSON has more.
const ROWS_MAX: usize = 16;
const NAME_WIDTH: usize = 22;
const GAP: &str = "  ";

/// What a figure that was not measured reads as.
const NOT_MEASURED: &str = "not measured";

/// A line of the table of processes.
struct Line<'a> {
    name: String,
    figures: &'a Figures,
    memory: Option<MemoryUse>,
}

/// A column of the table of processes: its two heading lines, and its cells.
struct Column {
    headings: [&'static str; 2],
    cell: fn(&Statistics, &Line<'_>) -> String,
}

/// In order of importance: a narrow terminal shows the first ones.
const COLUMNS: [Column; 11] = [
    Column { headings: ["stalls", "before"], cell: |_, line| thousands(line.figures.stalls_before()) },
    Column { headings: ["stalls", "after"], cell: |_, line| thousands(line.figures.stalls_after()) },
    Column { headings: ["stall", "time"], cell: |all, line| seconds(all.seconds(line.figures.wait_ticks())) },
    Column { headings: ["hints", "used"], cell: |_, line| thousands(line.figures.hints_used) },
    Column { headings: ["hints", "late"], cell: |_, line| thousands(line.figures.hints_late) },
    Column { headings: ["hints", "unused"], cell: |_, line| thousands(line.figures.hints_unused()) },
    Column { headings: ["hints", "wrong"], cell: |_, line| thousands(line.figures.hints_wrong) },
    Column { headings: ["", "forks"], cell: |_, line| thousands(line.figures.resyncs) },
    Column { headings: ["fork", "time"], cell: |all, line| seconds(all.seconds(line.figures.resync_ticks)) },
    Column { headings: ["hints", "dropped"], cell: |_, line| thousands(line.figures.hints_dropped) },
    Column {
        headings: ["major", "faults"],
        cell: |_, line| line.memory.map_or("-".into(), |memory| thousands(memory.major_faults)),
    },
];

/// Width of the terminal on standard error; 80 where there is none that tells.
#[must_use]
pub fn terminal_width() -> usize {
    let told = rustix::termios::tcgetwinsize(std::io::stderr()).map(|size| usize::from(size.ws_col));
    let columns = || env::var("COLUMNS").ok()?.parse().ok();
    told.ok().filter(|width| *width > 0).or_else(columns).unwrap_or(WIDTH_DEFAULT)
}

impl Statistics {
    /// The table, no line longer than `width` (at least 40) characters.
    #[must_use]
    pub fn table(&self, width: usize) -> String {
        let width = width.max(WIDTH_MIN);
        let mut text = String::new();
        let (program, elapsed) = (clip(&self.program, width - 30), seconds(self.elapsed.as_secs_f64()));
        let ended = match self.signal {
            None => format!("{program} ran for {elapsed}"),
            Some(signal) => format!("{program} was ended by signal {} after {elapsed}", named(signal)),
        };
        write_wrapped(&mut text, "forebay:", 0, &(ended + &self.want_of_memory()), width);
        self.write_processes(&mut text, width);
        for (label, value) in self.details() {
            write_wrapped(&mut text, label, LABEL_WIDTH, &value, width);
        }
        text
    }

    /// Which memory did not suffice, where the kernel killed a process for want of it.
    fn want_of_memory(&self) -> String {
        let whose = if self.memory.limited { "its control group's memory" } else { "the machine's memory" };
        match (self.memory.kills, self.signal) {
            (0, _) => String::new(),
            (1, Some(KILL)) if self.total.resyncs == 0 => format!(": {whose} did not suffice"),
            // The kernel kills the copies that run ahead first.
            (kills, _) if self.total.resyncs > 0 => format!(
                "; the kernel killed {} processes of its control group, of which some may have been copies that ran ahead: \
                 {whose} did not suffice",
                thousands(kills)
            ),
            (kills, _) => format!(
                "; the kernel killed {} of its control group's processes: {whose} did not suffice",
                thousands(kills)
            ),
        }
    }

    fn write_processes(&self, text: &mut String, width: usize) {
        let listed = &self.rows[..self.rows.len().min(ROWS_MAX)];
        let total = Line { name: "total".into(), figures: &self.total, memory: self.memory_use() };
        let of_process = listed.iter().map(|row| Line {
            name: format!("{} {}", row.name, row.pid),
            figures: &row.figures,
            memory: row.figures.memory(),
        });
        let of_table: Vec<Line<'_>> = of_process.chain([total]).collect();
        let cells = COLUMNS.iter().map(|column| {
            let body = of_table.iter().map(|line| (column.cell)(self, line));
            column.headings.iter().map(|heading| (*heading).to_owned()).chain(body).collect::<Vec<_>>()
        });
        let names: Vec<&str> =
            ["", "process"].into_iter().chain(of_table.iter().map(|line| line.name.as_str())).collect();
        let name_width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(NAME_WIDTH);
        let mut lines: Vec<String> =
            names.iter().map(|name| format!("{:name_width$}", clip(name, name_width))).collect();
        let mut used = name_width;
        for column in cells {
            let column_width = column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            used += GAP.len() + column_width;
            if used > width {
                break;
            }
            for (line, cell) in lines.iter_mut().zip(&column) {
                let _ = write!(line, "{GAP}{cell:>column_width$}");
            }
        }
        for line in lines {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }

    /// What has no column: labels and values, only those that say something.
    fn details(&self) -> Vec<(&'static str, String)> {
        let total = &self.total;
        let unassisted: u64 = self.unassisted.iter().sum();
        let mut processes = format!("{} assisted, {unassisted} not", self.assisted);
        append_reasons(&mut processes, &UNASSISTED_NAMES, &self.unassisted);
        if self.rows.len() > ROWS_MAX {
            let _ = write!(processes, "; the {ROWS_MAX} with the most stalls are listed");
        }
        let hints = format!(
            "{} for data ({}), {} for paths, {} dropped",
            thousands(total.hints_data),
            bytes(total.bytes_hinted as f64),
            thousands(total.hints_path),
            thousands(total.hints_dropped)
        );
        let mut forks =
            format!("{} in {}", thousands(total.resyncs), seconds(self.seconds(total.resync_ticks)));
        if total.checkpoints > 0 {
            let _ = write!(
                forks,
                ", {} more from {} checkpoints (made in {} of the speculators' time)",
                thousands(total.repairs),
                thousands(total.checkpoints),
                seconds(self.seconds(total.checkpoint_ticks))
            );
        }
        let mut speculators = format!(
            "{} results predicted, {} crashes, {} threshold crossings, {} of processor time",
            thousands(total.fabricated),
            thousands(total.crashes()),
            thousands(total.crossings),
            seconds(total.speculator_cpu_us as f64 / 1e6)
        );
        if total.ends.iter().any(|ends| *ends > 0) {
            speculators.push_str("; ended");
            append_reasons(&mut speculators, &END_NAMES, &total.ends);
        }
        let mut details = vec![
            ("processes", processes),
            ("hints", hints),
            ("forks", forks),
            ("speculators", speculators),
            ("program", memory(self.memory_use())),
        ];
        if let Some(profile) = &self.profile {
            details.push(("profile", told_of(profile)));
        }
        if self.library_files > 0 {
            let libraries = format!(
                "{} not in memory, {} read for them",
                thousands(self.library_files),
                bytes(self.library_bytes as f64)
            );
            details.push(("libraries", libraries));
        }
        if self.neighbour_reads > 0 {
            let neighbours = format!(
                "{} read ahead, {} of them needed, {}",
                thousands(self.neighbour_reads),
                thousands(self.neighbour_reads_used),
                bytes(self.neighbour_bytes as f64)
            );
            details.push(("neighbours", neighbours));
        }
        if self.streams.files > 0 {
            let streams = format!(
                "{} of large mapped files, {} read, about {} of them used",
                thousands(self.streams.files),
                bytes(self.streams.bytes as f64),
                bytes(self.streams.bytes_used as f64)
            );
            details.push(("streams", streams));
        }
        if total.resyncs > 0 {
            details.push(("copies", memory(total.speculator_memory())));
            let break_even = format!(
                "{} for forks, {} for {} pages copied after them, {} of delays by hints and {} of processor time, against \
                 about {} of stalls saved",
                seconds(self.seconds(total.resync_ticks)),
                seconds(self.seconds(total.copy_ticks)),
                thousands(total.copies),
                seconds(self.seconds(total.delay_ticks)),
                seconds(total.speculator_cpu_us as f64 / 1e6),
                seconds(self.seconds(total.saved_ticks))
            );
            details.push(("break-even", break_even));
        }
        if total.crossings > 0 {
            let mut crossings = thousands(total.crossings);
            append_reasons(&mut crossings, &FORK_NAMES, &total.fork_crossings());
            details.push(("crossings", crossings));
        }
        if self.trials.found.iter().any(|found| *found > 0) {
            details.push(("trials", self.trials()));
        }
        if self.agents_off.iter().any(|off| *off > 0) {
            let mut off = thousands(self.agents_off.iter().sum());
            append_reasons(&mut off, &OFF_NAMES, &self.agents_off);
            details.push(("agents off", off));
        }
        if self.missing != 0 {
            details.push(("missing here", self.missing_names().collect::<Vec<_>>().join(", ")));
        }
        details
    }
}

impl Statistics {
    /// What trials found of the gain, and what is believed since.
    fn trials(&self) -> String {
        let mut trials = thousands(self.trials.found.iter().sum());
        append_reasons(&mut trials, &TRIAL_NAMES, &self.trials.found);
        let _ = write!(
            trials,
            "; {:.0} % of the savings are believed, a displaced page costs {:.2} stalls",
            100.0 * self.trials.savings_believed(),
            self.trials.page_price()
        );
        trials
    }
}

/// What a profile was worth.
fn told_of(profile: &ProfileFigures) -> String {
    let needs = format!("{} of {} needs foretold", thousands(profile.foretold), thousands(profile.needs));
    if profile.steps == 0 {
        return needs;
    }
    let stopped = if profile.is_stopped { ", stopped" } else { "" };
    format!(
        "{needs}; {} of {} steps replayed{stopped}, {} of them waited; {} ahead of the program, {} of them unused, {} of \
         changed files",
        thousands(profile.done),
        thousands(profile.steps),
        thousands(profile.waited),
        bytes(profile.bytes as f64),
        bytes(profile.bytes_unused as f64),
        thousands(profile.changed)
    )
}

/// Appends ` (reason: count, ...)` for the counts that are not 0.
fn append_reasons(text: &mut String, names: &[&str], counts: &[u64]) {
    let reasons: Vec<String> = names
        .iter()
        .zip(counts)
        .filter(|(_, count)| **count > 0)
        .map(|(name, number)| format!("{name}: {}", thousands(*number)))
        .collect();
    if !reasons.is_empty() {
        let _ = write!(text, " ({})", reasons.join(", "));
    }
}

const LABEL_WIDTH: usize = 12;

fn write_wrapped(text: &mut String, label: &str, label_width: usize, value: &str, width: usize) {
    let mut line = format!("{label:label_width$} ");
    let mut empty = true;
    for word in value.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > width {
            let _ = writeln!(text, "{line}");
            line = " ".repeat(LABEL_WIDTH + 1);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(text, "{line}");
}

fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(2)).chain("..".chars()).collect()
}

/// SIGKILL.
const KILL: i32 = 9;

/// Number and name of a signal (signal(7)).
fn named(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(signal - 1).ok().and_then(|index| NAMES.get(index));
    name.map_or_else(|| signal.to_string(), |name| format!("{signal} (SIG{name})"))
}

fn memory(memory: Option<MemoryUse>) -> String {
    let Some(memory) = memory else { return NOT_MEASURED.into() };
    let max_rss = memory.max_rss_bytes.map_or(NOT_MEASURED.into(), |number| bytes(number as f64));
    let (minor, major) = (faults(memory.minor_faults, "minor"), faults(memory.major_faults, "major"));
    format!("max RSS {max_rss}, {minor}, {major}")
}

fn faults(count: u64, kind: &str) -> String {
    let noun = if count == 1 { "fault" } else { "faults" };
    format!("{} {kind} {noun}", thousands(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryEnd, Trials, statistics::ProcessRow};

    fn busy() -> Statistics {
        let figures = Figures {
            stalls: 1_234_567,
            hints_used: 7_654_321,
            resyncs: 12,
            ends: [1; END_NAMES.len()],
            crossings: 5,
            crossings_futile: 3,
            footprint_bytes: 3 << 30,
            ..Figures::default()
        };
        let row = |pid| ProcessRow { name: "a-program-with-a-very-long-name".into(), pid, figures };
        Statistics {
            program: "x".repeat(300),
            total: figures,
            rows: vec![row(1), row(2)],
            unassisted: [1; UNASSISTED_NAMES.len()],
            agents_off: [2; OFF_NAMES.len()],
            missing: 0xff,
            signal: Some(9),
            memory: MemoryEnd { kills: 12, limited: true, ..MemoryEnd::default() },
            trials: Trials { found: [4; TRIAL_NAMES.len()], believed: 768, page_price: 256 },
            ticks_per_second: 1,
            ..Statistics::default()
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [0, 40, 57, 80, 100, 200] {
            let table = busy().table(width);
            let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width.max(40), "{widest} in {width}:\n{table}");
            assert!(table.contains("before"), "{table}");
        }
        assert!(busy().table(200).contains("dropped"));
    }

    #[test]
    fn everything_that_was_off_is_named() {
        let table = busy().table(400);
        let crossings = TRIAL_NAMES.iter().chain(&FORK_NAMES);
        for name in OFF_NAMES.iter().chain(&UNASSISTED_NAMES).chain(&END_NAMES).chain(crossings) {
            assert!(table.contains(&format!("{name}: ")), "{name} in\n{table}");
        }
        assert!(table.contains("missing here patching of libc, seccomp"), "{table}");
    }

    #[test]
    fn crossings_and_trials_are_told_where_there_were_some() {
        let table = busy().table(400);
        assert!(table.contains("5 threshold crossings"), "{table}");
        assert!(table.contains("\ncrossings    5 (useless: 3, less than it costs: 2)\n"), "{table}");
        assert!(table.contains("\ntrials       16 (as claimed: 4, less: 4, "), "{table}");
        assert!(
            table.contains("; 75 % of the savings are believed, a displaced page costs 0.25 stalls"),
            "{table}"
        );
        let quiet = Statistics::default().table(400);
        assert!(quiet.contains("0 threshold crossings") && !quiet.contains("\ncrossings"), "{quiet}");
        assert!(!quiet.contains("\ntrials"), "{quiet}");
    }

    #[test]
    fn how_the_program_ended_is_said_first() {
        let first = |statistics: Statistics| statistics.table(400).lines().next().unwrap().to_owned();
        let program = || "gather".to_owned();
        let killed = |kills, limited| Statistics {
            program: program(),
            signal: Some(9),
            memory: MemoryEnd { kills, limited, ..MemoryEnd::default() },
            ..Statistics::default()
        };
        assert_eq!(
            first(Statistics { program: program(), ..Statistics::default() }),
            "forebay: gather ran for 0 s"
        );
        let ended = "forebay: gather was ended by signal 9 (SIGKILL) after 0 s";
        assert_eq!(first(killed(0, true)), ended);
        assert_eq!(first(killed(1, true)), format!("{ended}: its control group's memory did not suffice"));
        assert_eq!(first(killed(1, false)), format!("{ended}: the machine's memory did not suffice"));
        let shell = Statistics { signal: None, exit_status: 137, ..killed(1, true) };
        let said = "forebay: gather ran for 0 s; the kernel killed 1 of its control group's processes: its control \
                    group's memory did not suffice";
        assert_eq!(first(shell), said);
        let other = Statistics { signal: Some(64), ..killed(0, true) };
        assert_eq!(first(other), "forebay: gather was ended by signal 64 after 0 s");
    }

    #[test]
    fn many_processes_are_not_all_listed() {
        let row = |pid| ProcessRow { name: "p".into(), pid, figures: Figures::default() };
        let statistics = Statistics { rows: (0..60).map(row).collect(), ..Statistics::default() };
        let table = statistics.table(80);
        assert_eq!(table.lines().filter(|line| line.starts_with("p ")).count(), ROWS_MAX, "{table}");
        assert!(table.contains("with the most stalls are listed"), "{table}");
    }

    #[test]
    fn what_was_not_measured_is_said_to_be_so() {
        let line = |statistics: Statistics| {
            let table = statistics.table(400);
            table.lines().find_map(|line| line.strip_prefix("program ")).unwrap().trim().to_owned()
        };
        assert_eq!(line(Statistics::default()), "not measured");
        let usage = |max_rss_bytes| Some(MemoryUse { max_rss_bytes, minor_faults: 1, major_faults: 1_234 });
        let told = |max_rss_bytes| line(Statistics { usage: usage(max_rss_bytes), ..Statistics::default() });
        assert_eq!(told(None), "max RSS not measured, 1 minor fault, 1,234 major faults");
        assert_eq!(told(Some(3 << 20)), "max RSS 3 MiB, 1 minor fault, 1,234 major faults");
        let killed = Figures { resyncs: 1, ..Figures::default() };
        let table = Statistics { total: killed, ..Statistics::default() }.table(400);
        assert!(table.contains("\ncopies       not measured\n"), "{table}");
    }
}
