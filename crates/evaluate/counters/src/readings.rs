//! What was counted.

use std::borrow::Cow;

use forebay_results::{Row, Spread, Tier};

/// A quantity that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// In words, e.g. `major_faults`.
    pub name: Cow<'static, str>,
    /// Unit of its values: `s`, `B`, `pages`, or `1` for a number of things.
    pub unit: &'static str,
    /// Where its values come from.
    pub tier: Tier,
    /// Whether it adds up.
    pub kind: Kind,
}

/// Whether a counter adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, such as page faults: the value is how much it grew.
    Total,
    /// It goes up and down, such as resident pages: the value is what it was.
    Level,
}

/// What a counter came to in the whole time.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The quantity.
    pub counter: Counter,
    /// How much it grew, or what it was on average.
    pub value: f64,
    /// The least of any interval: growth per second, or the level at the interval's end. A last interval of less than half
    /// the length does not count for growth.
    pub min: f64,
    /// The most of any interval, likewise.
    pub max: f64,
}

/// A part of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Its end, in seconds from the start.
    pub end: f64,
    /// Its length, in seconds.
    pub seconds: f64,
    /// For each reading, in their order: how much it grew, or the level at the end; NaN where there was nothing to
    /// be counted, because a process has ended for instance.
    pub values: Vec<f64>,
}

/// All that was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// How long was counted.
    pub seconds: f64,
    /// Each counter that could be had.
    pub readings: Vec<Reading>,
    /// The parts of the time, in order; the last 10,000 of them where there are more.
    pub intervals: Vec<Interval>,
    /// Processor time that the counting itself took.
    pub own_cpu_seconds: f64,
}

impl Readings {
    /// The total growth or mean level of a counter; `None` where it could not be had.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.reading(name).map(|reading| reading.value)
    }

    /// Growth of a counter per second; `None` where it could not be had, is a level, or no time has passed.
    #[must_use]
    pub fn per_second(&self, name: &str) -> Option<f64> {
        let reading = self.reading(name).filter(|reading| reading.counter.kind == Kind::Total)?;
        (self.seconds > 0.0).then(|| reading.value / self.seconds)
    }

    /// Processor time of the counting itself, as a share of the time of one processor.
    #[must_use]
    pub fn own_share(&self) -> f64 {
        if self.seconds > 0.0 { self.own_cpu_seconds / self.seconds } else { 0.0 }
    }

    /// Rows by the result schema: for each counter its total, and its growth per second as `NAME_rate`; for each level its
    /// values. Runs of rates and levels are the intervals.
    #[must_use]
    pub fn rows(&self, subject: &str, case: &str) -> Vec<Row> {
        // The last is cut short, and its rates say little.
        let longest = self.intervals.iter().map(|interval| interval.seconds).fold(0.0, f64::max);
        let whole: Vec<&Interval> =
            self.intervals.iter().filter(|interval| interval.seconds >= longest / 2.0).collect();
        let mut rows = Vec::new();
        for (index, Reading { counter, value, .. }) in self.readings.iter().enumerate() {
            let spread = |seconds_each: fn(&Interval) -> f64| {
                let values = whole.iter().map(|interval| interval.values[index] / seconds_each(interval));
                Spread::of(&values.filter(|value| value.is_finite()).collect::<Vec<_>>())
            };
            let (name, unit) = (counter.name.as_ref(), counter.unit);
            let more = match counter.kind {
                Kind::Total => {
                    rows.push(Row::once(subject, case, name, unit, *value).with_tier(counter.tier));
                    let rate = spread(|interval| interval.seconds);
                    rate.map(|rate| Row::of(subject, case, format!("{name}_rate"), per_second(unit), rate))
                }
                Kind::Level => spread(|_| 1.0).map(|level| Row::of(subject, case, name, unit, level)),
            };
            rows.extend(more.map(|row| row.with_tier(counter.tier).of_samples(None)));
        }
        rows.push(Row::once(subject, case, "meter_cpu", "s", self.own_cpu_seconds));
        rows.push(Row::once(subject, case, "elapsed", "s", self.seconds));
        rows
    }

    fn reading(&self, name: &str) -> Option<&Reading> {
        self.readings.iter().find(|reading| reading.counter.name == name)
    }
}

/// The unit of a growth per second.
fn per_second(unit: &str) -> String {
    match unit {
        "s" => "1".to_owned(),
        unit => format!("{unit}/s"),
    }
}
