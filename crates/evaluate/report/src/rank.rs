//! Which questions are asked first: what came of it, then rates and times, then what explains them.

use forebay_results::Direction;

/// Metrics that tell by themselves what came of it.
const OUTCOMES: [&str; 10] = [
    "speedup",
    "overhead",
    "ratio",
    "relative_time",
    "of_mpi",
    "of_whole_page",
    "clients_held",
    "elasticity",
    "knee",
    "needed",
];
/// What users wait for, or get.
const SERVICE: [&str; 12] = [
    "transactions",
    "throughput",
    "lateness_p99",
    "latency_p99",
    "latency",
    "late_streams",
    "elapsed",
    "time",
    "cost",
    "packet_cost",
    "round_trip",
    "barrier",
];

/// Whether a metric is an outcome, or what users wait for or get.
pub(crate) fn is_asked_first(metric: &str) -> bool {
    OUTCOMES.contains(&metric) || SERVICE.contains(&metric)
}

/// The place of a metric among others: less is asked earlier.
pub(crate) fn of(metric: &str, unit: &str) -> usize {
    let place = |known: &[&str]| known.iter().position(|one| *one == metric);
    if let Some(place) = place(&OUTCOMES) {
        return place;
    }
    if let Some(place) = place(&SERVICE) {
        return OUTCOMES.len() + place;
    }
    let directed = Direction::of(metric, unit).is_some();
    OUTCOMES.len() + SERVICE.len() + usize::from(!directed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_before_rates_and_these_before_what_explains_them() {
        let order = [
            ("speedup", "1"),
            ("throughput", "MB/s"),
            ("elapsed", "s"),
            ("major_faults", "1/s"),
            ("requests", "1"),
        ];
        let places: Vec<usize> = order.iter().map(|(metric, unit)| of(metric, unit)).collect();
        assert!(places.is_sorted() && places[0] < places[1] && places[3] < places[4], "{places:?}");
    }
}
