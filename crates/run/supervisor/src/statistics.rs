//! What a run did: figures per process and in total, and their rows in the result schema.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use forebay_protocol::layout::{Counters, End, Header, Off, Unassisted, feature};
use forebay_results::Row;

use crate::{MemoryEnd, StreamFigures, Trials, profiles::ProfileFigures};

/// Statistics of one run.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Name of the program that was run.
    pub program: String,
    /// From the program's start to its end.
    pub elapsed: Duration,
    /// Its exit status; 128 + n where signal n killed it.
    pub exit_status: u8,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// What came of its memory.
    pub memory: MemoryEnd,
    /// All processes together.
    pub total: Figures,
    /// The busiest processes, the busiest first.
    pub rows: Vec<ProcessRow>,
    /// Processes that an agent was loaded into.
    pub assisted: u64,
    /// Programs started without an agent, by [`Unassisted`].
    pub unassisted: [u64; Unassisted::COUNT],
    /// Agents that went to Off, by [`Off`].
    pub agents_off: [u64; Off::COUNT],
    /// What memory control's trials found.
    pub trials: Trials,
    /// What profiles did; `None` where none were used or taught.
    pub profile: Option<ProfileFigures>,
    /// Libraries that were not in memory and read ahead of the program's loader.
    pub library_files: u64,
    /// Bytes that devices read for them.
    pub library_bytes: u64,
    /// Files and blocks that were not in memory and read ahead because the program needed others beside them.
    pub neighbour_reads: u64,
    /// Those that it needed later.
    pub neighbour_reads_used: u64,
    /// Bytes that devices read for them.
    pub neighbour_bytes: u64,
    /// What streams did of files that the program faulted through.
    pub streams: StreamFigures,
    /// Bits of [`feature`]: what was found missing.
    pub missing: u32,
    /// What the kernel says of the program and of the processes that it waited for. Asked only where no agent measured.
    pub usage: Option<MemoryUse>,
    /// Ticks in a second, for the times in [`Figures`].
    pub ticks_per_second: u64,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRow {
    /// Name of its program.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// Its figures.
    pub figures: Figures,
}

/// Memory and page faults of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The largest resident set of one of them; `None` where it was not measured.
    pub max_rss_bytes: Option<u64>,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults that waited for input.
    pub major_faults: u64,
}

/// Why a program ran without an agent, for people, by [`Unassisted`].
pub const UNASSISTED_NAMES: [&str; Unassisted::COUNT] = [
    "static",
    "privileged",
    "other architecture",
    "other C library",
    "agent unreachable",
    "no gain",
    "not examined",
    "address sanitizer",
    "limited",
    "rights given up",
];
/// Why an agent went to Off, for people, by [`Off`].
pub const OFF_NAMES: [&str; Off::COUNT] = [
    "no channel",
    "no slot",
    "no jail",
    "no fork",
    "unsafe",
    "disabled",
    "confined",
    "shared memory",
    "mapped lock",
    "System V memory",
    "huge pages",
    "copies visible",
    "strict memory",
    "O_DIRECT",
];
/// What trials found, for people, by [`Trials::found`].
pub const TRIAL_NAMES: [&str; 4] = ["as claimed", "less", "more", "undecided"];
/// Why the policy of a process disabled speculation, for people; see [`Figures::fork_crossings`].
pub const FORK_NAMES: [&str; 2] = ["useless", "less than it costs"];
/// How speculators ended, for people, by [`End`].
pub const END_NAMES: [&str; End::COUNT] = [
    "abandoned",
    "finished",
    "call not emulated",
    "signal",
    "processor time",
    "memory",
    "lifetime",
    "no jail",
    "wait for a thread",
];

macro_rules! figures {
    (sums: [$($sum:ident,)*] maxima: [$($max:ident,)*]) => {
        /// A copy of [`Counters`]; see there for what each means. Times are in ticks.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Figures {
            $(#[doc = concat!("[`Counters::", stringify!($sum), "`].")] pub $sum: u64,)*
            $(#[doc = concat!("[`Counters::", stringify!($max), "`].")] pub $max: u64,)*
            /// [`Counters::ends`].
            pub ends: [u64; End::COUNT],
        }

        impl Figures {
            /// The counters as they are now.
            #[must_use]
            pub fn read(counters: &Counters) -> Self {
                Self {
                    $($sum: counters.$sum.load(Relaxed),)*
                    $($max: counters.$max.load(Relaxed),)*
                    ends: counters.ends.each_ref().map(|end| end.load(Relaxed)),
                }
            }

            /// Adds those of another process. Of sizes the larger one counts.
            pub fn add(&mut self, other: &Self) {
                $(self.$sum = self.$sum.saturating_add(other.$sum);)*
                $(self.$max = self.$max.max(other.$max);)*
                for (end, more) in self.ends.iter_mut().zip(other.ends) {
                    *end = end.saturating_add(more);
                }
            }
        }
    };
}

figures! {
    sums: [
    stalls,
    stalls_unattended,
    stall_ticks,
    hints_used,
    hints_clustered,
    hints_late,
    late_ticks,
    hints_data,
    hints_path,
    hints_dropped,
    opens_taken,
    hints_wrong,
    bytes_hinted,
    resyncs,
    resync_ticks,
    checkpoints,
    checkpoint_ticks,
    repairs,
    copies,
    copy_ticks,
    delay_ticks,
    saved_ticks,
    crossings,
    crossings_futile,
    fabricated,
    speculator_pages,
    speculator_reclaims,
    speculator_faults,
    speculator_cpu_us,
    reclaims,
    faults,
    ]
    maxima: [
    footprint_bytes,
    speculator_footprint_bytes,
    ]
}

impl Figures {
    /// Stalls that the program would have had.
    #[must_use]
    pub fn stalls_before(&self) -> u64 {
        self.stalls_after().saturating_add(self.stalls_spared())
    }

    /// Used hints that saved one stall each.
    #[must_use]
    pub fn stalls_spared(&self) -> u64 {
        self.hints_used.saturating_sub(self.hints_clustered)
    }

    /// Stalls that it had: with no hint, or with one that came too late.
    #[must_use]
    pub fn stalls_after(&self) -> u64 {
        self.stalls.saturating_add(self.hints_late)
    }

    /// Hints for data that the program did not read.
    #[must_use]
    pub fn hints_unused(&self) -> u64 {
        let issued = self.hints_data.saturating_add(self.hints_path);
        [self.hints_used, self.hints_late, self.hints_wrong].into_iter().fold(issued, u64::saturating_sub)
    }

    /// Time in [`Figures::stalls_after`], in ticks.
    #[must_use]
    pub fn wait_ticks(&self) -> u64 {
        self.stall_ticks.saturating_add(self.late_ticks)
    }

    /// How often the policy of the process disabled speculation: forks were useless several times in a row, or saved less
    /// than they cost.
    #[must_use]
    pub fn fork_crossings(&self) -> [u64; FORK_NAMES.len()] {
        [self.crossings_futile, self.crossings.saturating_sub(self.crossings_futile)]
    }

    /// Speculators that crashed because they computed with predicted results.
    #[must_use]
    pub fn crashes(&self) -> u64 {
        self.ends[End::Signal as usize]
    }

    /// What the process used itself; `None` where its agent measured nothing, as in a process that never stalled.
    #[must_use]
    pub fn memory(&self) -> Option<MemoryUse> {
        (self.footprint_bytes > 0).then_some(MemoryUse {
            max_rss_bytes: Some(self.footprint_bytes),
            minor_faults: self.reclaims,
            major_faults: self.faults,
        })
    }

    /// What its speculators used; `None` where there were some, and none of them lived to measure it.
    #[must_use]
    pub fn speculator_memory(&self) -> Option<MemoryUse> {
        let measured = self.speculator_footprint_bytes > 0;
        (measured || self.resyncs == 0).then_some(MemoryUse {
            max_rss_bytes: measured.then_some(self.speculator_footprint_bytes),
            minor_faults: self.speculator_reclaims,
            major_faults: self.speculator_faults,
        })
    }
}

impl Statistics {
    /// Takes from the header what is counted for the run as a whole.
    pub fn read_header(&mut self, header: &Header) {
        fn read<const N: usize>(counters: &[AtomicU64; N]) -> [u64; N] {
            counters.each_ref().map(|counter| counter.load(Relaxed))
        }
        self.assisted = header.processes_assisted.load(Relaxed);
        self.unassisted = read(&header.processes_unassisted);
        self.agents_off = read(&header.agents_off);
        self.missing = header.missing.load(Relaxed);
        self.library_files = header.libraries.files.load(Relaxed);
        self.library_bytes = header.libraries.bytes.load(Relaxed);
        self.neighbour_reads = header.neighbours.reads.load(Relaxed);
        self.neighbour_reads_used = header.neighbours.used.load(Relaxed);
        self.neighbour_bytes = header.neighbours.bytes.load(Relaxed);
        self.ticks_per_second = header.ticks_per_second.load(Relaxed).max(1);
    }

    /// Seconds in `ticks`.
    #[must_use]
    pub fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_second.max(1) as f64
    }

    /// Names of the features that were found missing.
    pub fn missing_names(&self) -> impl Iterator<Item = &'static str> + '_ {
        feature::NAMES
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.missing & 1 << bit != 0)
            .map(|(_, name)| *name)
    }

    /// What the program used: as its agents measured it, or else as the kernel says.
    #[must_use]
    pub fn memory_use(&self) -> Option<MemoryUse> {
        self.total.memory().or(self.usage)
    }

    /// The rows of the result schema. What was not measured has none. The program with case `total`, each process (`name[pid]`) with case `forebay`.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut run = |metric: String, unit: &str, value: f64| {
            rows.push(Row::once(self.program.as_str(), "total", metric, unit, value));
        };
        run("elapsed".into(), "s", self.elapsed.as_secs_f64());
        run("exit_status".into(), "1", f64::from(self.exit_status));
        run("ended_by_signal".into(), "1", f64::from(self.signal.unwrap_or(0)));
        run("killed_for_memory".into(), "1", self.memory.kills as f64);
        run("processes_assisted".into(), "1", self.assisted as f64);
        for (name, count) in UNASSISTED_NAMES.iter().zip(self.unassisted) {
            run(metric("processes_unassisted", name), "1", count as f64);
        }
        for (name, count) in OFF_NAMES.iter().zip(self.agents_off) {
            run(metric("agents_off", name), "1", count as f64);
        }
        for (name, count) in TRIAL_NAMES.iter().zip(self.trials.found) {
            run(metric("trials", name), "1", count as f64);
        }
        run("savings_believed".into(), "1", self.trials.savings_believed());
        run("displaced_page_price".into(), "1", self.trials.page_price());
        run("threshold_crossings".into(), "1", self.total.crossings as f64);
        for (bit, name) in feature::NAMES.iter().enumerate() {
            run(metric("missing", name), "1", f64::from(self.missing >> bit & 1));
        }
        run("library_files".into(), "1", self.library_files as f64);
        run("library_bytes".into(), "B", self.library_bytes as f64);
        run("neighbour_reads".into(), "1", self.neighbour_reads as f64);
        run("neighbour_reads_used".into(), "1", self.neighbour_reads_used as f64);
        run("neighbour_bytes".into(), "B", self.neighbour_bytes as f64);
        run("stream_files".into(), "1", self.streams.files as f64);
        run("stream_bytes".into(), "B", self.streams.bytes as f64);
        run("stream_bytes_used".into(), "B", self.streams.bytes_used as f64);
        if let Some(profile) = &self.profile {
            run("profile_needs".into(), "1", profile.needs as f64);
            run("profile_foretold".into(), "1", profile.foretold as f64);
            run("profile_steps".into(), "1", profile.steps as f64);
            run("profile_steps_done".into(), "1", profile.done as f64);
            run("profile_steps_waited".into(), "1", profile.waited as f64);
            run("profile_steps_changed".into(), "1", profile.changed as f64);
            run("profile_bytes".into(), "B", profile.bytes as f64);
            run("profile_bytes_unused".into(), "B", profile.bytes_unused as f64);
            run("profile_stopped".into(), "1", f64::from(u8::from(profile.is_stopped)));
        }
        self.push_figures(&mut rows, (&self.program, "total"), &self.total, self.memory_use());
        for process in &self.rows {
            let subject = format!("{}[{}]", process.name, process.pid);
            self.push_figures(&mut rows, (&subject, "forebay"), &process.figures, process.figures.memory());
        }
        rows
    }

    fn push_figures(
        &self,
        rows: &mut Vec<Row>,
        (subject, case): (&str, &str),
        figures: &Figures,
        memory: Option<MemoryUse>,
    ) {
        let counts = [
            ("stalls_before", figures.stalls_before()),
            ("stalls_after", figures.stalls_after()),
            ("hints_data", figures.hints_data),
            ("hints_path", figures.hints_path),
            ("hints_used", figures.hints_used),
            ("hints_late", figures.hints_late),
            ("hints_unused", figures.hints_unused()),
            ("hints_wrong", figures.hints_wrong),
            ("hints_dropped", figures.hints_dropped),
            ("opens_taken", figures.opens_taken),
            ("forks", figures.resyncs),
            ("checkpoints", figures.checkpoints),
            ("repairs", figures.repairs),
            ("copied_pages", figures.copies),
            ("predicted_results", figures.fabricated),
            ("speculator_crashes", figures.crashes()),
        ];
        let times = [
            ("stall_time", self.seconds(figures.wait_ticks())),
            ("fork_time", self.seconds(figures.resync_ticks)),
            ("checkpoint_time", self.seconds(figures.checkpoint_ticks)),
            ("copy_time", self.seconds(figures.copy_ticks)),
            ("delay_time", self.seconds(figures.delay_ticks)),
            ("stall_time_saved", self.seconds(figures.saved_ticks)),
            ("speculator_cpu", figures.speculator_cpu_us as f64 / 1e6),
        ];
        let mut push = |metric: String, unit: &str, value: f64| {
            rows.push(Row::once(subject, case, metric, unit, value));
        };
        counts.into_iter().for_each(|(name, count)| push(name.into(), "1", count as f64));
        times.into_iter().for_each(|(name, seconds)| push(name.into(), "s", seconds));
        push("bytes_hinted".into(), "B", figures.bytes_hinted as f64);
        for (whose, memory) in [("", memory), ("speculator_", figures.speculator_memory())] {
            let Some(memory) = memory else { continue };
            if let Some(bytes) = memory.max_rss_bytes {
                push(format!("{whose}max_rss"), "B", bytes as f64);
            }
            push(format!("{whose}minor_faults"), "1", memory.minor_faults as f64);
            push(format!("{whose}major_faults"), "1", memory.major_faults as f64);
        }
        for (name, count) in FORK_NAMES.iter().zip(figures.fork_crossings()) {
            push(metric("fork_crossings", name), "1", count as f64);
        }
        for (name, count) in END_NAMES.iter().zip(figures.ends) {
            push(metric("speculator_ends", name), "1", count as f64);
        }
    }
}

/// `family/name` with the name in the form of a metric's.
fn metric(family: &str, name: &str) -> String {
    format!("{family}/{}", name.trim_start_matches('/').replace(' ', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_is_unused() {
        let figures = Figures {
            stalls: 3,
            hints_data: 10,
            hints_path: 5,
            hints_used: 8,
            hints_late: 2,
            hints_wrong: 1,
            ..Figures::default()
        };
        assert_eq!((figures.stalls_before(), figures.stalls_after(), figures.hints_unused()), (13, 5, 4));
        assert_eq!(Figures { hints_used: 9, ..Figures::default() }.hints_unused(), 0);
    }

    #[test]
    fn every_process_and_the_total_have_the_same_metrics() {
        let figures = Figures { footprint_bytes: 1, ..Figures::default() };
        let process = ProcessRow { name: "grep".into(), pid: 7, figures };
        let statistics = Statistics { total: figures, rows: vec![process], ..Statistics::default() };
        let rows = statistics.rows();
        let metrics = |case: &str| -> Vec<String> {
            rows.iter().filter(|row| row.case == case).map(|row| row.metric.clone()).collect()
        };
        let (of_total, of_process) = (metrics("total"), metrics("forebay"));
        assert!(of_total.ends_with(&of_process) && of_process.len() > 20);
    }

    #[test]
    fn what_was_not_measured_has_no_row() {
        let of_memory = |statistics: &Statistics| -> Vec<(String, f64)> {
            let rows = statistics.rows().into_iter();
            let memory =
                rows.filter(|row| row.metric.ends_with("max_rss") || row.metric.ends_with("_faults"));
            memory.map(|row| (row.metric, row.value)).collect()
        };
        let named =
            |rows: &[(&str, f64)]| rows.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let without_forks = [("speculator_minor_faults", 0.0), ("speculator_major_faults", 0.0)];
        let quiet = Statistics::default();
        let of_quiet: Vec<_> = named(&without_forks);
        assert_eq!(of_memory(&quiet), of_quiet);
        let killed = Figures { resyncs: 1, ..Figures::default() };
        assert_eq!(of_memory(&Statistics { total: killed, ..Statistics::default() }), []);
        let usage = Some(MemoryUse { max_rss_bytes: None, minor_faults: 90, major_faults: 0 });
        let told: Vec<_> =
            named(&[&[("minor_faults", 90.0), ("major_faults", 0.0)], &without_forks[..]].concat());
        assert_eq!(of_memory(&Statistics { usage, ..Statistics::default() }), told);
        let measured = Figures { footprint_bytes: 4096, reclaims: 7, ..Figures::default() };
        let statistics = Statistics { usage, total: measured, ..Statistics::default() };
        assert_eq!(of_memory(&statistics)[..2], [("max_rss".into(), 4096.0), ("minor_faults".into(), 7.0)]);
    }

    #[test]
    fn every_crossing_has_a_reason() {
        let figures = Figures { crossings: 5, crossings_futile: 2, ..Figures::default() };
        let rows = Statistics { total: figures, ..Statistics::default() }.rows();
        let value = |metric: &str| rows.iter().find(|row| row.metric == metric).unwrap().value;
        let is_reason = |row: &&Row| row.metric.starts_with("fork_crossings/");
        let reasons: f64 = rows.iter().filter(is_reason).map(|row| row.value).sum();
        assert_eq!((value("threshold_crossings"), reasons), (5.0, 5.0));
        assert_eq!(value("fork_crossings/useless"), 2.0);
    }

    #[test]
    fn what_trials_found_is_told() {
        let trials = Trials { found: [3, 2, 0, 1], believed: -512, page_price: 256 };
        let rows = Statistics { trials, ..Statistics::default() }.rows();
        let value = |metric: &str| rows.iter().find(|row| row.metric == metric).unwrap().value;
        assert_eq!(
            (value("trials/as_claimed"), value("trials/less"), value("trials/undecided")),
            (3.0, 2.0, 1.0)
        );
        assert_eq!((value("savings_believed"), value("displaced_page_price")), (-0.5, 0.25));
    }

    #[test]
    fn how_the_program_ended_is_told() {
        let value = |statistics: &Statistics, metric: &str| {
            statistics.rows().into_iter().find(|row| row.metric == metric).unwrap().value
        };
        let ended = Statistics { exit_status: 3, ..Statistics::default() };
        assert_eq!((value(&ended, "exit_status"), value(&ended, "ended_by_signal")), (3.0, 0.0));
        let memory = MemoryEnd { kills: 1, ..MemoryEnd::default() };
        let killed = Statistics { exit_status: 137, signal: Some(9), memory, ..Statistics::default() };
        assert_eq!((value(&killed, "exit_status"), value(&killed, "ended_by_signal")), (137.0, 9.0));
        assert_eq!(value(&killed, "killed_for_memory"), 1.0);
    }

    #[test]
    fn missing_features_have_names() {
        let statistics = Statistics { missing: feature::SECCOMP | feature::PROC, ..Statistics::default() };
        assert_eq!(statistics.missing_names().collect::<Vec<_>>(), ["seccomp", "/proc"]);
    }
}
