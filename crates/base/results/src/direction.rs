//! Whether more of a quantity is better, by its metric and unit.

/// Whether more of a quantity is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As of a throughput.
    MoreIsBetter,
    /// As of a time.
    LessIsBetter,
}

/// What is spared of a cost.
const SPARED: [&str; 2] = ["saved", "removed"];

/// Words of metrics of which less is better, whatever else the metric says.
const LESS: [&str; 40] = [
    "latency",
    "lateness",
    "jitter",
    "elapsed",
    "cost",
    "overhead",
    "extra",
    "fault",
    "faults",
    "misses",
    "switches",
    "interrupts",
    "lost",
    "failed",
    "late",
    "wrong",
    "unused",
    "dropped",
    "crashes",
    "stall",
    "stalls",
    "wait",
    "waits",
    "rss",
    "resident",
    "reclaims",
    "reclaimed",
    "scanned",
    "refaults",
    "refaulted",
    "pressure",
    "cpu",
    "error",
    "swapped",
    "walks",
    "price",
    "killed",
    "need",
    "enough",
    "missed",
];

/// Words of metrics that tell how much went on, or how much there was.
const NEITHER: [&str; 3] = ["disk", "network", "memory"];

/// Words of metrics of which more is better, where the metric says nothing else.
const MORE: [&str; 10] = [
    "throughput",
    "transactions",
    "bandwidth",
    "speedup",
    "rate",
    "writes",
    "iops",
    "used",
    "hits",
    "streams",
];

/// What stands behind these only says of what, where or when.
const PREPOSITIONS: [&str; 11] =
    ["per", "of", "in", "at", "for", "over", "after", "before", "beyond", "beside", "through"];

/// Units of times.
const TIMES: [&str; 4] = ["s", "ms", "us", "ns"];

impl Direction {
    /// That of a metric; none where neither more nor less is better by itself, as of a number of requests.
    ///
    /// A rate has the direction of what it is a rate of, and a member of a family, behind `/`, that of the family.
    #[must_use]
    pub fn of(metric: &str, unit: &str) -> Option<Self> {
        let family = metric.split_once('/').map_or(metric, |(family, _)| family);
        let mut words: Vec<&str> = family.split(['_', ' ']).collect();
        if let Some(place) = words.iter().position(|word| PREPOSITIONS.contains(word)) {
            words.truncate(place);
        }
        if let [_, .., "rate"] = words[..] {
            words.pop();
        }
        let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
        if has(&SPARED) {
            return Some(Self::MoreIsBetter);
        }
        if has(&["idle"]) {
            return None;
        }
        // Memory that is used is a cost, as a hint that is used is a merit.
        if has(&LESS) || (has(&["memory"]) && has(&["used"])) {
            return Some(Self::LessIsBetter);
        }
        if has(&NEITHER) {
            return None;
        }
        if has(&MORE) {
            return Some(Self::MoreIsBetter);
        }
        (TIMES.contains(&unit) || has(&["time"])).then_some(Self::LessIsBetter)
    }

    /// Whether `ratio`, of after to before, is for the worse.
    #[must_use]
    pub fn is_worse(self, ratio: f64) -> bool {
        match self {
            Self::MoreIsBetter => ratio < 1.0,
            Self::LessIsBetter => ratio > 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;
    use crate::Report;

    #[test]
    fn times_and_faults_are_better_less_and_rates_more() {
        for (metric, unit, better) in [
            ("elapsed", "s", Some(Direction::LessIsBetter)),
            ("latency_p99", "s", Some(Direction::LessIsBetter)),
            ("packet_cost", "us", Some(Direction::LessIsBetter)),
            ("major_faults", "1/s", Some(Direction::LessIsBetter)),
            ("minor_faults_rate", "1/s", Some(Direction::LessIsBetter)),
            ("disk_read", "B/s", None),
            ("failed", "1/s", Some(Direction::LessIsBetter)),
            ("max_rss", "B", Some(Direction::LessIsBetter)),
            ("transactions", "1/s", Some(Direction::MoreIsBetter)),
            ("throughput", "MB/s", Some(Direction::MoreIsBetter)),
            ("hints_used", "1", Some(Direction::MoreIsBetter)),
            ("speedup", "1", Some(Direction::MoreIsBetter)),
            ("time/computing", "s", Some(Direction::LessIsBetter)),
            ("requests", "1", None),
            ("breaking_point", "1", None),
            ("need", "B", Some(Direction::LessIsBetter)),
            ("enough", "B", Some(Direction::LessIsBetter)),
            ("missed_pages", "1/s", Some(Direction::LessIsBetter)),
            ("rate_at_enough", "1", Some(Direction::MoreIsBetter)),
            ("latency_p99_at_enough", "1", Some(Direction::LessIsBetter)),
        ] {
            assert_eq!(Direction::of(metric, unit), better, "{metric} in {unit}");
        }
    }

    /// What the meter of processes and machines counts, with rates, and what comes only of some machines.
    #[test]
    fn a_rate_has_the_direction_of_what_it_is_a_rate_of() {
        for (names, unit, better) in [
            ("memory_used resident_pages max_rss", "B", LESS_IS_BETTER),
            ("scanned_pages reclaimed_pages refaulted_file_pages swapped_in_pages", "pages", LESS_IS_BETTER),
            (
                "interrupts refaults network_dropped_packets cache_misses context_switches",
                "1",
                LESS_IS_BETTER,
            ),
            ("thread_time disk_wait cpu_user memory_pressure_some disk_pressure_full", "s", LESS_IS_BETTER),
            ("network_sent_bytes disk_written_bytes memory_bytes loopback_bytes", "B", None),
            ("disk_read_time disk_busy_time cpu_idle", "s", None),
            ("processes_started memory_limit_hits disk_writes requests", "1", None),
            ("stall_time_saved", "s", MORE_IS_BETTER),
            ("stall_removed cache_hits hints_used", "1", MORE_IS_BETTER),
        ] {
            let of_time = if unit == "s" { "1".to_owned() } else { format!("{unit}/s") };
            for name in names.split(' ') {
                assert_eq!(Direction::of(name, unit), better, "{name}");
                assert_eq!(Direction::of(&format!("{name}_per_request"), unit), better, "{name}");
                assert_eq!(Direction::of(&format!("{name}_rate"), &of_time), better, "{name}_rate");
            }
        }
    }

    const LESS_IS_BETTER: Option<Direction> = Some(Direction::LessIsBetter);
    const MORE_IS_BETTER: Option<Direction> = Some(Direction::MoreIsBetter);

    /// Names of metrics that are no times, and of times of which less is not better; `*` stands for any end.
    const GROUPS: [(Option<Direction>, &str); 8] = [
        (
            MORE_IS_BETTER,
            "speedup* throughput transactions writes hints_used neighbour_reads_used stream_bytes_used \
             stall_removed stall_time_saved",
        ),
        (
            LESS_IS_BETTER,
            "late late_streams lost failed dropped_at_players hints_late hints_unused hints_wrong",
        ),
        (
            LESS_IS_BETTER,
            "cpu players_cpu cpu_time overhead relative_time prediction_error displaced_page_price",
        ),
        (
            LESS_IS_BETTER,
            "max_rss resident profile_bytes_unused speculator_max_rss speculator_crashes runs_killed",
        ),
        (
            LESS_IS_BETTER,
            "major_faults* minor_faults* read_faults write_faults speculator_m* context_switches* stalls_after \
             stalls_before refaults*",
        ),
        // How much went on, or was there.
        (
            None,
            "disk_read* active_pages memory files_in_memory proportional capacity breaking_point* bytes \
             bytes_hinted library_* neighbour_bytes neighbour_reads stream_bytes stream_files profile_bytes \
             profile_foretold profile_needs profile_steps* copied_pages hints_data hints_path forks checkpoints \
             predicted_results prefetches repairs seeks duplicates out_of_order messages packets reads requests \
             write_of_neighbours threshold_crossings",
        ),
        // Who took part, and how it ended.
        (
            None,
            "agents_off/* control_crossings/* fork_crossings/* limit/* missing/* processes_* speculator_ends/* \
             trials/* clients_held competing_requests disturbers measured playing receivers runs_ended right \
             output_identical savings_believed stalled worst_run",
        ),
        // Shares, ratios, and what methods of the machine can do.
        (
            None,
            "share_* of_* geometric_mean stalled_geometric_mean segmented segmented_frames sendmmsg tcp \
             barrier_over_messages baton_over_messages read_* remote_lock_over_messages upgrade_* write_*",
        ),
    ];

    /// The group's direction; a time that is in no group is better less.
    fn expected(metric: &str, unit: &str) -> Option<Direction> {
        let is = |name: &str| match name.strip_suffix('*') {
            Some(start) => metric.starts_with(start),
            None => metric == name,
        };
        let group = GROUPS.iter().find(|(_, names)| names.split_whitespace().any(is));
        let is_time = TIMES.contains(&unit) && metric != "stall_time_saved";
        match group {
            _ if is_time => LESS_IS_BETTER,
            Some((better, _)) => *better,
            None => panic!("{metric} in {unit} is in no group"),
        }
    }

    #[test]
    fn every_metric_of_the_published_results_has_the_direction_of_its_group() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../benches/results");
        let mut seen = BTreeSet::new();
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
                let rows = Report::read(value).unwrap().rows;
                seen.extend(rows.into_iter().map(|row| (row.metric, row.unit)));
            }
        }
        assert!(seen.len() > 200, "{}", seen.len());
        for (metric, unit) in &seen {
            assert_eq!(Direction::of(metric, unit), expected(metric, unit), "{metric} in {unit}");
        }
    }

    #[test]
    fn what_is_worse_depends_on_the_direction() {
        assert!(Direction::MoreIsBetter.is_worse(0.9) && !Direction::MoreIsBetter.is_worse(1.1));
        assert!(Direction::LessIsBetter.is_worse(1.1) && !Direction::LessIsBetter.is_worse(0.9));
    }
}
