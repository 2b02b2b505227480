//! What one sample holds, and the contract of those that fill it.

use std::borrow::Cow;

use forebay_results::Tier;

use crate::error::Refused;
use crate::readings::{Counter, Kind};

/// Something that counts.
pub(crate) trait Source: Send {
    /// Enters what its counters stand at now.
    fn sample(&mut self, sheet: &mut Sheet);
}

/// A sample in the making. A source enters the same counters in the same order each time; one without a value could
/// not be had.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    entries: Vec<Entry>,
    place: &'static str,
    remedy: &'static str,
}

/// A counter and what it stands at, since whenever, or why it cannot be had.
#[derive(Debug)]
struct Entry {
    counter: Counter,
    value: Result<f64, Why>,
}

#[derive(Debug)]
struct Why {
    place: &'static str,
    remedy: &'static str,
}

impl Sheet {
    /// What is entered from here on comes from `place`, and could be had by `remedy` if it cannot.
    pub(crate) fn from(&mut self, place: &'static str, remedy: &'static str) {
        (self.place, self.remedy) = (place, remedy);
    }

    /// Enters a count that only grows.
    pub(crate) fn total(&mut self, name: &'static str, unit: &'static str, value: Option<f64>) {
        self.software(name, unit, Kind::Total, value);
    }

    /// Enters a level.
    pub(crate) fn level(&mut self, name: &'static str, unit: &'static str, value: Option<f64>) {
        self.software(name, unit, Kind::Level, value);
    }

    /// Enters a counter that was found to be there when it was set up; NaN is no value for now.
    pub(crate) fn found(&mut self, counter: Counter, value: f64) {
        self.entries.push(Entry { counter, value: Ok(value) });
    }

    fn software(&mut self, name: &'static str, unit: &'static str, kind: Kind, value: Option<f64>) {
        let counter = Counter { name: Cow::Borrowed(name), unit, tier: Tier::Software, kind };
        let why = Why { place: self.place, remedy: self.remedy };
        self.entries.push(Entry { counter, value: value.ok_or(why) });
    }

    /// The values in order, NaN where there is none, and the sheet blank again.
    pub(crate) fn take(&mut self) -> Vec<f64> {
        self.entries.drain(..).map(|entry| entry.value.unwrap_or(f64::NAN)).collect()
    }

    /// The counters that have a value with their places on the sheet, and the others.
    pub(crate) fn survey(&self) -> (Vec<(usize, Counter)>, Vec<Refused>) {
        let mut had = Vec::new();
        let mut refused = Vec::new();
        for (index, Entry { counter, value }) in self.entries.iter().enumerate() {
            match value {
                Ok(_) => had.push((index, counter.clone())),
                Err(why) => refused.push(Refused {
                    counter: counter.name.to_string(),
                    tier: counter.tier,
                    why: format!("{} does not tell it", why.place),
                    remedy: why.remedy.to_owned(),
                }),
            }
        }
        (had, refused)
    }
}
