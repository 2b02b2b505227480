//! Perf events (perf_event_open(2)): the processor's counters, and those of the kernel's that are counted in the same way.
//!
//! Each is opened by itself: events in a group cannot be inherited by the threads that come. Where there are more of them than
//! the processor has counters they take turns, and each is scaled by its own share of the time.

mod event;
mod linux;
mod uncore;

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::Duration;

use forebay_results::{Tier, reason};
use rustix::io::Errno;

use crate::error::Refused;
use crate::readings::{Counter, Kind};
use crate::sheet::{Sheet, Source};
use event::{Event, Part, Quantity};

pub(crate) use event::{hardware, software};
pub(crate) use linux::{Linux, Place, places};
pub(crate) use uncore::{DEVICES, memory_traffic};

/// Whoever opens events: Linux, or a test.
pub(crate) trait Opener {
    /// Opens an event, which counts from then on.
    fn open(&self, event: &Event, place: &Place) -> io::Result<Box<dyn Opened>>;
}

/// An event that is counted.
pub(crate) trait Opened: Send {
    fn read(&mut self) -> io::Result<Count>;
}

/// What an event came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Count {
    pub(crate) value: u64,
    /// How long it was wanted.
    pub(crate) enabled: Duration,
    /// How long it had a counter.
    pub(crate) running: Duration,
}

impl Count {
    /// What it would have come to with a counter all the time; `None` where it had none although it was wanted.
    fn scaled(&self) -> Option<f64> {
        let (enabled, running) = (self.enabled.as_secs_f64(), self.running.as_secs_f64());
        match self.value as f64 {
            value if running > 0.0 => Some(value * enabled / running),
            _ if enabled > 0.0 => None,
            value => Some(value),
        }
    }
}

/// Perf events of all quantities that could be had.
pub(crate) struct PerfEvents {
    open: Vec<Open>,
}

struct Open {
    counter: Counter,
    scale: f64,
    parts: Vec<Box<dyn Opened>>,
}

impl PerfEvents {
    /// Opens of each quantity the first alternative that can be had, and adds those with none to `refused`.
    pub(crate) fn open(opener: &dyn Opener, quantities: Vec<Quantity>, refused: &mut Vec<Refused>) -> Self {
        let mut open = Vec::new();
        for quantity in quantities {
            let mut errors = Vec::new();
            let mut tried = quantity.alternatives.iter().map(|parts| open_all(opener, parts));
            match tried.find_map(|parts| parts.map_err(|error| errors.push(error)).ok()) {
                Some(parts) => open.push(Open { counter: quantity.counter, scale: quantity.scale, parts }),
                None => {
                    let (why, remedy) = explain(errors.first());
                    refused.push(quantity.refused(&why, remedy));
                }
            }
        }
        Self { open }
    }
}

/// Whether the processor's counters can be had, for a program of this user's.
#[must_use]
pub fn has_hardware_counters() -> bool {
    opens_here(&Event::Hardware(event::CYCLES))
}

/// Whether what the kernel counts as perf events can be had, for a program of this user's.
#[must_use]
pub fn has_kernel_events() -> bool {
    opens_here(&Event::Software(event::SWITCHES))
}

fn opens_here(event: &Event) -> bool {
    let own = Place::Thread { thread: std::process::id(), children: false };
    Linux.open(event, &own).is_ok()
}

/// Whether the memory's controllers tell this user what goes through them.
#[must_use]
pub fn has_memory_counters() -> bool {
    let quantities = memory_traffic(Path::new(DEVICES));
    let parts = quantities.iter().flat_map(|one| one.alternatives.iter().flatten());
    parts.map(|part| Linux.open(&part.event, &part.place)).next().is_some_and(|opened| opened.is_ok())
}

/// Opens all parts but those of threads that have ended.
fn open_all(opener: &dyn Opener, parts: &[Part]) -> io::Result<Vec<Box<dyn Opened>>> {
    let opened = parts.iter().map(|part| opener.open(&part.event, &part.place));
    let gone = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::SRCH);
    let opened: Vec<_> = opened.filter(|one| !one.as_ref().is_err_and(gone)).collect::<io::Result<_>>()?;
    if opened.is_empty() { Err(Errno::NOENT.into()) } else { Ok(opened) }
}

/// Why an event could not be opened, and what to do.
fn explain(error: Option<&io::Error>) -> (String, &'static str) {
    let absent = "this processor, or virtual machine, does not have it";
    let elsewhere = "count where the processor's counters can be seen, or have them simulated";
    match error.map(|error| (Errno::from_io_error(error), reason(error))) {
        None | Some((Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV), _)) => {
            (absent.to_owned(), elsewhere)
        }
        Some((Some(Errno::ACCESS | Errno::PERM), _)) => (
            "this user may not count it".to_owned(),
            "run as root, or allow it with: sysctl kernel.perf_event_paranoid=-1",
        ),
        Some((Some(Errno::NOSYS), _)) => {
            ("this kernel has no perf events".to_owned(), "run a kernel built with CONFIG_PERF_EVENTS")
        }
        Some((Some(Errno::MFILE), _)) => (
            "it would take more open files than are allowed".to_owned(),
            "raise the limit with: ulimit -n 65536",
        ),
        Some((_, reason)) => (format!("the kernel refuses it ({reason})"), elsewhere),
    }
}

impl Source for PerfEvents {
    fn sample(&mut self, sheet: &mut Sheet) {
        let mut shares = Vec::new();
        for Open { counter, scale, parts } in &mut self.open {
            let mut sum = Some(0.0);
            for part in parts {
                let count = part.read().unwrap_or_default();
                sum = sum.zip(count.scaled()).map(|(sum, more)| sum + more);
                if counter.tier == Tier::Hardware && !count.enabled.is_zero() {
                    shares.push(count.running.as_secs_f64() / count.enabled.as_secs_f64());
                }
            }
            sheet.found(counter.clone(), sum.map_or(f64::NAN, |sum| sum * *scale));
        }
        if self.open.iter().any(|open| open.counter.tier == Tier::Hardware) {
            let name = Cow::Borrowed("share_of_time_counted");
            let counter = Counter { name, unit: "1", tier: Tier::Hardware, kind: Kind::Level };
            sheet.found(counter, shares.into_iter().reduce(f64::min).unwrap_or(f64::NAN));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A processor that has the instructions, and with half of the time the cycles.
    #[derive(Default)]
    struct Fake {
        opened: Mutex<Vec<String>>,
        now: Arc<Mutex<u64>>,
    }

    struct FakeEvent {
        now: Arc<Mutex<u64>>,
        share: u32,
    }

    impl Opener for Fake {
        fn open(&self, event: &Event, place: &Place) -> io::Result<Box<dyn Opened>> {
            let text = format!("{event:?} {place:?}");
            let share = match event {
                _ if text.contains("thread: 9") => return Err(Errno::SRCH.into()),
                Event::Hardware(event::INSTRUCTIONS) => 1,
                Event::Hardware(event::CYCLES) => 2,
                Event::Raw(_) => return Err(Errno::OPNOTSUPP.into()),
                Event::Cache(_) => return Err(Errno::ACCESS.into()),
                _ => return Err(Errno::NOENT.into()),
            };
            self.opened.lock().unwrap().push(text);
            Ok(Box::new(FakeEvent { now: Arc::clone(&self.now), share }))
        }
    }

    impl Opened for FakeEvent {
        fn read(&mut self) -> io::Result<Count> {
            let now = *self.now.lock().unwrap();
            let enabled = Duration::from_millis(now);
            Ok(Count { value: 30 * now, enabled, running: enabled / self.share })
        }
    }

    fn threads() -> Vec<Place> {
        [1, 2, 9].map(|thread| Place::Thread { thread, children: true }).into()
    }

    #[test]
    fn what_the_processor_has_is_added_up_and_scaled_and_the_rest_refused_with_its_reason() {
        let fake = Fake::default();
        let mut refused = Vec::new();
        let mut events = PerfEvents::open(&fake, hardware(&threads(), "AuthenticAMD"), &mut refused);
        *fake.now.lock().unwrap() = 1000;
        let mut sheet = Sheet::default();
        events.sample(&mut sheet);
        let (had, _) = sheet.survey();
        let names: Vec<&str> = had.iter().map(|(_, counter)| counter.name.as_ref()).collect();
        assert_eq!(names, ["cycles", "instructions", "share_of_time_counted"]);
        // Two threads are left of three, and the cycles were counted half of the time.
        assert_eq!(sheet.take(), [120_000.0, 60_000.0, 0.5]);

        let why = |name: &str| refused.iter().find(|one| one.counter == name).unwrap().to_string();
        assert!(why("stalled_cycles").contains("does not have it"), "{}", why("stalled_cycles"));
        assert!(why("data_tlb_load_misses").contains("sysctl kernel.perf_event_paranoid"));
        assert!(refused.iter().all(|one| one.tier == Tier::Hardware));
    }

    #[test]
    fn other_names_are_tried_where_generic_ones_lack() {
        let tried = |vendor| {
            let quantities = hardware(&threads(), vendor);
            let last = quantities.into_iter().find(|one| one.counter.name == "last_level_cache_load_misses");
            last.unwrap().alternatives.len()
        };
        assert!(tried("AuthenticAMD") > tried("GenuineIntel"));
    }

    #[test]
    fn an_event_that_never_had_a_counter_has_no_value() {
        let never = Count { value: 0, enabled: Duration::from_secs(1), running: Duration::ZERO };
        assert_eq!((never.scaled(), Count::default().scaled()), (None, Some(0.0)));
    }

    #[test]
    fn this_machine_opens_events_or_says_why_not() {
        let mut refused = Vec::new();
        let own = [Place::Thread { thread: std::process::id(), children: false }];
        let asked = hardware(&own, "").len() + software(&own).len();
        let mut quantities = hardware(&own, "");
        quantities.extend(software(&own));
        let events = PerfEvents::open(&Linux, quantities, &mut refused);
        assert_eq!(events.open.len() + refused.len(), asked);
        assert!(refused.iter().all(|one| !one.why.is_empty() && !one.remedy.is_empty()), "{refused:?}");
    }
}
