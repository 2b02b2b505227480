//! Samples added up.

use std::collections::VecDeque;

use crate::readings::{Counter, Interval, Kind, Reading, Readings};

/// The most intervals that are kept.
const INTERVALS_MAX: usize = 10_000;

/// What came of the samples so far.
#[derive(Debug)]
pub(crate) struct Record {
    /// Rates of intervals shorter than this say little, so they are no extremes.
    seconds_min: f64,
    counters: Vec<Counter>,
    /// What each counter stood at last.
    stand: Vec<f64>,
    tallies: Vec<Tally>,
    intervals: VecDeque<Interval>,
    /// How many intervals came before those that are kept.
    dropped: usize,
    end: f64,
}

#[derive(Clone, Copy, Debug)]
struct Tally {
    /// Growth, or level times seconds.
    sum: f64,
    /// Seconds in which there was a value.
    seconds: f64,
    min: f64,
    max: f64,
}

impl Record {
    /// Begins with the first sample, at time 0. Intervals are about `seconds` long.
    pub(crate) fn new(seconds: f64, counters: Vec<Counter>, first: Vec<f64>) -> Self {
        let blank = Tally { sum: 0.0, seconds: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };
        let tallies = vec![blank; counters.len()];
        let intervals = VecDeque::new();
        Self { seconds_min: seconds / 2.0, counters, stand: first, tallies, intervals, dropped: 0, end: 0.0 }
    }

    /// Adds a sample taken `now` seconds from the start. A total that is less than before has begun anew, and has not
    /// grown.
    pub(crate) fn add(&mut self, now: f64, sample: &[f64]) {
        let seconds = now - self.end;
        if seconds <= 0.0 {
            return;
        }
        let mut values = Vec::with_capacity(sample.len());
        for (index, &value) in sample.iter().enumerate() {
            let kind = self.counters[index].kind;
            let value = match kind {
                Kind::Total => (value - self.stand[index]).max(0.0) + 0.0 * value,
                Kind::Level => value,
            };
            if value.is_finite() {
                self.stand[index] = sample[index];
                let (sum, extreme) = match kind {
                    Kind::Total => (value, value / seconds),
                    Kind::Level => (value * seconds, value),
                };
                let tally = &mut self.tallies[index];
                tally.sum += sum;
                tally.seconds += seconds;
                if kind == Kind::Level || seconds >= self.seconds_min {
                    tally.min = tally.min.min(extreme);
                    tally.max = tally.max.max(extreme);
                }
            }
            values.push(value);
        }
        self.end = now;
        if self.intervals.len() == INTERVALS_MAX {
            self.intervals.pop_front();
            self.dropped += 1;
        }
        self.intervals.push_back(Interval { end: now, seconds, values });
    }

    /// The interval of this number, counted from 0, unless it is yet to come or was dropped.
    pub(crate) fn interval(&self, number: usize) -> Option<Interval> {
        self.intervals.get(number.checked_sub(self.dropped)?).cloned()
    }

    pub(crate) fn counters(&self) -> &[Counter] {
        &self.counters
    }

    pub(crate) fn readings(&self, own_cpu_seconds: f64) -> Readings {
        let readings =
            self.counters.iter().zip(&self.tallies).zip(&self.stand).map(|((counter, tally), stand)| {
                let (value, mean) = match counter.kind {
                    Kind::Total => (tally.sum, tally.sum / tally.seconds.max(f64::MIN_POSITIVE)),
                    Kind::Level if tally.seconds > 0.0 => {
                        (tally.sum / tally.seconds, tally.sum / tally.seconds)
                    }
                    Kind::Level => (*stand, *stand),
                };
                let (min, max) = if tally.min <= tally.max { (tally.min, tally.max) } else { (mean, mean) };
                Reading { counter: counter.clone(), value, min, max }
            });
        Readings {
            seconds: self.end,
            readings: readings.collect(),
            intervals: self.intervals.iter().cloned().collect(),
            own_cpu_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_results::Tier;

    use super::*;

    fn record() -> Record {
        let counter = |name, kind| Counter {
            name: std::borrow::Cow::Borrowed(name),
            unit: "1",
            tier: Tier::Software,
            kind,
        };
        Record::new(
            1.0,
            vec![counter("faults", Kind::Total), counter("pages", Kind::Level)],
            vec![100.0, 8.0],
        )
    }

    #[test]
    fn totals_grow_and_levels_are_averaged_over_time() {
        let mut record = record();
        record.add(1.0, &[110.0, 4.0]);
        record.add(3.0, &[130.0, 1.0]);
        let readings = record.readings(0.03);
        assert_eq!(readings.get("faults"), Some(30.0));
        assert_eq!(readings.per_second("faults"), Some(10.0));
        assert_eq!(readings.get("pages"), Some(2.0));
        assert_eq!(readings.per_second("pages"), None);
        assert_eq!(readings.own_share(), 0.01);
        let extremes = readings.readings.iter().map(|reading| (reading.min, reading.max));
        assert_eq!(extremes.collect::<Vec<_>>(), [(10.0, 10.0), (1.0, 4.0)]);
    }

    #[test]
    fn the_rate_of_a_short_last_interval_is_no_extreme() {
        let mut record = record();
        record.add(1.0, &[110.0, 4.0]);
        record.add(1.001, &[111.0, 9.0]);
        let readings = record.readings(0.0).readings;
        assert_eq!((readings[0].value, readings[0].max, readings[1].max), (11.0, 10.0, 9.0));
    }

    #[test]
    fn what_cannot_be_had_for_a_while_is_neither_growth_nor_level() {
        let mut record = record();
        record.add(1.0, &[110.0, 4.0]);
        record.add(2.0, &[f64::NAN, f64::NAN]);
        record.add(3.0, &[120.0, f64::NAN]);
        let readings = record.readings(0.0);
        assert_eq!((readings.get("faults"), readings.get("pages")), (Some(20.0), Some(4.0)));
        assert!(readings.intervals[1].values.iter().all(|value| value.is_nan()));
    }

    #[test]
    fn a_total_that_begins_anew_has_not_shrunk() {
        let mut record = record();
        record.add(1.0, &[5.0, 4.0]);
        record.add(2.0, &[7.0, 4.0]);
        assert_eq!(record.readings(0.0).get("faults"), Some(2.0));
    }

    #[test]
    fn old_intervals_go_and_keep_their_numbers() {
        let mut record = record();
        for number in 0..INTERVALS_MAX + 3 {
            record.add(number as f64 + 1.0, &[100.0, 1.0]);
        }
        assert_eq!(record.interval(2), None);
        assert_eq!(record.interval(3).map(|interval| interval.end), Some(4.0));
        assert_eq!(record.interval(INTERVALS_MAX + 3), None);
        assert_eq!(record.readings(0.0).intervals.len(), INTERVALS_MAX);
    }

    #[test]
    fn rows_hold_totals_rates_and_levels() {
        let mut record = record();
        record.add(1.0, &[110.0, 4.0]);
        record.add(2.0, &[140.0, 1.0]);
        let rows = record.readings(0.0).rows("nginx", "10 KB");
        let told = rows.iter().map(|row| (row.metric.as_str(), row.unit.as_str(), row.value, row.runs));
        assert_eq!(
            told.take(3).collect::<Vec<_>>(),
            [("faults", "1", 40.0, 1), ("faults_rate", "1/s", 20.0, 2), ("pages", "1", 2.5, 2)]
        );
        assert!(rows.iter().all(|row| row.subject == "nginx" && row.case == "10 KB"));
    }
}
