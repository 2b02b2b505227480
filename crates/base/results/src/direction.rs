//! Whether more of a quantity is better, by its metric and unit.

/// Whether more of a quantity is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// As of a throughput.
    MoreIsBetter,
    /// As of a time.
    LessIsBetter,
}

/// Words of metrics, between `_` and `/`, of which more is better.
const MORE: [&str; 12] = [
    "throughput",
    "transactions",
    "bandwidth",
    "speedup",
    "rate",
    "writes",
    "iops",
    "used",
    "removed",
    "saved",
    "hits",
    "streams",
];

/// Words of metrics of which less is better, whatever else the metric says.
const LESS: [&str; 29] = [
    "latency",
    "lateness",
    "jitter",
    "elapsed",
    "cost",
    "overhead",
    "extra",
    "faults",
    "misses",
    "switches",
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
    "refaulted",
    "pressure",
    "cpu",
    "error",
    "swapped",
    "walks",
];

/// Words of metrics that tell how much went on, or did not.
const NEITHER: [&str; 3] = ["disk", "network", "idle"];

/// Units of times.
const TIMES: [&str; 4] = ["s", "ms", "us", "ns"];

impl Direction {
    /// That of a metric; none where neither more nor less is better by itself, as of a number of requests.
    #[must_use]
    pub fn of(metric: &str, unit: &str) -> Option<Self> {
        let has = |known: &[&str]| metric.split(['_', '/', ' ']).any(|word| known.contains(&word));
        if has(&NEITHER) && !has(&["latency"]) {
            return None;
        }
        if has(&LESS) {
            return Some(Self::LessIsBetter);
        }
        if has(&MORE) {
            return Some(Self::MoreIsBetter);
        }
        TIMES.contains(&unit).then_some(Self::LessIsBetter)
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
    use super::*;

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
        ] {
            assert_eq!(Direction::of(metric, unit), better, "{metric} in {unit}");
        }
    }

    #[test]
    fn what_is_worse_depends_on_the_direction() {
        assert!(Direction::MoreIsBetter.is_worse(0.9) && !Direction::MoreIsBetter.is_worse(1.1));
        assert!(Direction::LessIsBetter.is_worse(1.1) && !Direction::LessIsBetter.is_worse(0.9));
    }
}
