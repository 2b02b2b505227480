//! Makes the trials of `forebay_policy::trial`: samples the run, pauses speculation, and tells agents what trials found.

use std::{
    fs,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use forebay_linux::kernel_text::Schedstat;
use forebay_policy::price::{OWN_PART, PRICE_ONE, SHORT_KEPT_S};
use forebay_policy::trial::{Change, Sample, Trial, Verdict};
use forebay_protocol::layout::{GO, HOLD, Header, MEMORY_SHORT, MEMORY_UNKNOWN, SLOT_CLAIMED};

use crate::{channel::Channel, ledger::Ledger, statistics::Figures};

/// How long memory counts as short after it was.
const SHORT_LASTS: Duration = Duration::from_secs(SHORT_KEPT_S);

/// What the trials of a run found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trials {
    /// Trials that found the gain as claimed, less, more, or that were undecided.
    pub found: [u64; 4],
    /// The part of claimed savings that was believed at last, in 1/1024.
    pub believed: i64,
    /// What a displaced page was taken to cost at last, in 1/1024 of a stall.
    pub page_price: i64,
}

impl Default for Trials {
    fn default() -> Self {
        let trial = Trial::default();
        Self { found: [0; 4], believed: trial.believed(), page_price: trial.page_price() }
    }
}

impl Trials {
    /// The part of claimed savings that was believed at last.
    #[must_use]
    pub fn savings_believed(&self) -> f64 {
        self.believed as f64 / PRICE_ONE as f64
    }

    /// What a displaced page was taken to cost at last, in stalls.
    #[must_use]
    pub fn page_price(&self) -> f64 {
        self.page_price as f64 / PRICE_ONE as f64
    }
}

/// Memory control of one run.
pub struct MemoryControl {
    trial: Trial,
    enabled: bool,
    trials: Trials,
    began: Instant,
    sampled: Instant,
    figures: Figures,
    cpu_us: u64,
    stall_us: u64,
    /// When memory was last short.
    short_at: Option<Instant>,
}

impl MemoryControl {
    /// Memory control that has seen nothing; one that is not `enabled` makes no trials.
    pub fn new(enabled: bool) -> Self {
        Self {
            trial: Trial::default(),
            enabled,
            trials: Trials::default(),
            began: Instant::now(),
            sampled: Instant::now(),
            figures: Figures::default(),
            cpu_us: 0,
            stall_us: 0,
            short_at: None,
        }
    }

    /// What the trials found.
    pub fn trials(&self) -> Trials {
        self.trials
    }

    /// Whether samples are wanted at shorter intervals.
    pub fn is_pausing(&self) -> bool {
        self.trial.is_pausing()
    }

    /// Takes a sample.
    pub fn look(&mut self, channel: &Channel, ledger: &Ledger) {
        if self.enabled {
            let sample = self.sample(channel, ledger);
            self.take(channel.header(), &sample);
        }
    }

    fn sample(&mut self, channel: &Channel, ledger: &Ledger) -> Sample {
        let header = channel.header();
        let mut figures = ledger.closed();
        let mut cpu_us = 0;
        for slot in channel.slots_in(SLOT_CLAIMED) {
            let slot = channel.slot(slot);
            figures.add(&Figures::read(&slot.counters));
            cpu_us += processor_time_us(slot.pid.load(Relaxed)).unwrap_or(0);
        }
        let ticks_per_us = (header.ticks_per_second.load(Relaxed) / 1_000_000).max(1);
        let before = std::mem::replace(&mut self.figures, figures);
        let more = |of: fn(&Figures) -> u64| of(&figures).saturating_sub(of(&before));
        let stalls = more(Figures::stalls_after);
        if let Some(mean) = more(Figures::wait_ticks).checked_div(stalls) {
            self.stall_us = mean / ticks_per_us;
        }
        // Those that no signal told of were at some time before.
        let stalls = stalls.saturating_sub(more(|figures| figures.stalls_unattended));
        let elapsed = std::mem::replace(&mut self.sampled, Instant::now()).elapsed();
        Sample {
            elapsed_us: elapsed.as_micros().try_into().unwrap_or(u64::MAX),
            cpu_us: cpu_us.saturating_sub(std::mem::replace(&mut self.cpu_us, cpu_us)),
            stalls,
            waited_us: stalls.saturating_mul(self.stall_us),
            used: more(Figures::stalls_spared),
            stall_us: self.stall_us,
            delayed_us: more(|figures| figures.delay_ticks) / ticks_per_us,
            displaced: more(|figures| figures.copies) + more(|figures| figures.speculator_pages) / OWN_PART,
            speculating: figures.resyncs > before.resyncs
                || (header.control.load(Relaxed) == GO && header.speculators.load(Relaxed) > 0),
            memory_is_short: self.is_short(header.memory.load(Relaxed)),
        }
    }

    fn take(&mut self, header: &Header, sample: &Sample) {
        match self.trial.on_sample(sample) {
            Some(Change::Pause) => header.control.store(HOLD, Relaxed),
            Some(Change::Resume(verdict)) => {
                header.control.store(GO, Relaxed);
                self.trials.found[match verdict {
                    Verdict::Confirmed => 0,
                    Verdict::Less => 1,
                    Verdict::More => 2,
                    Verdict::Undecided => 3,
                }] += 1;
            }
            None => {}
        }
        (self.trials.believed, self.trials.page_price) = (self.trial.believed(), self.trial.page_price());
        header.savings_believed.store(self.trials.believed, Relaxed);
        header.page_price.store(self.trials.page_price, Relaxed);
    }

    /// Whether memory is short, was lately, or may be because the kernel does not tell.
    fn is_short(&mut self, memory: u32) -> bool {
        if memory == MEMORY_SHORT {
            self.short_at = Some(Instant::now());
        }
        let lasts = |since: Instant| since.elapsed() < SHORT_LASTS;
        memory == MEMORY_UNKNOWN && !lasts(self.began) || self.short_at.is_some_and(lasts)
    }
}

/// Processor time of the main thread.
fn processor_time_us(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(Schedstat::parse(&text)?.ran_ns / 1_000)
}

#[cfg(test)]
mod tests {
    use forebay_protocol::layout::{MEMORY_ENOUGH, MEMORY_FULL};

    use super::*;

    #[test]
    fn this_process_has_used_its_processor() {
        assert!(processor_time_us(std::process::id()).is_some_and(|time| time > 0));
        assert_eq!(processor_time_us(0), None);
    }

    #[test]
    fn agents_are_told_of_pauses_and_of_what_trials_found() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        let mut control = MemoryControl::new(true);
        // The program waits for half as long for the same work without speculation, which claims to save some stalls.
        let with = Sample {
            elapsed_us: 100_000,
            cpu_us: 20_000,
            stalls: 800,
            waited_us: 80_000,
            used: 100,
            stall_us: 100,
            speculating: true,
            memory_is_short: true,
            ..Sample::default()
        };
        let alone = Sample {
            elapsed_us: 40_000,
            cpu_us: 13_000,
            stalls: 260,
            waited_us: 26_000,
            used: 0,
            speculating: false,
            ..with
        };
        let mut was_held = false;
        for _ in 0..100 {
            let is_held = header.control.load(Relaxed) == HOLD;
            was_held |= is_held;
            control.take(header, if is_held { &alone } else { &with });
        }
        assert!(was_held);
        assert!(control.trials().found[1] > 1, "{:?}", control.trials());
        assert!(control.trials().savings_believed() < 0.0, "{:?}", control.trials());
        assert_eq!(header.savings_believed.load(Relaxed), control.trials().believed);
        assert_eq!(header.page_price.load(Relaxed), control.trials().page_price);
    }

    #[test]
    fn a_sample_has_what_happened_since_the_last_one() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        header.slot_states[0].store(SLOT_CLAIMED, Relaxed);
        let counters = &channel.slot(0).counters;
        let mut control = MemoryControl::new(true);
        control.sample(&channel, &Ledger::default());
        counters.stalls.store(30, Relaxed);
        counters.stalls_unattended.store(10, Relaxed);
        counters.stall_ticks.store(30 * header.ticks_per_second.load(Relaxed), Relaxed);
        counters.hints_used.store(7, Relaxed);
        counters.copies.store(5, Relaxed);
        counters.speculator_pages.store(3 * OWN_PART, Relaxed);
        counters.resyncs.store(1, Relaxed);
        let sample = control.sample(&channel, &Ledger::default());
        assert_eq!((sample.stalls, sample.used, sample.displaced), (20, 7, 8));
        assert!((19_000_000..=20_100_000).contains(&sample.waited_us), "{sample:?}");
        assert!(sample.speculating);
        let next = control.sample(&channel, &Ledger::default());
        assert_eq!((next.stalls, next.waited_us, next.used, next.displaced), (0, 0, 0, 0));
    }

    #[test]
    fn a_shortage_lasts_for_a_while() {
        let mut control = MemoryControl::new(true);
        assert!(!control.is_short(MEMORY_UNKNOWN), "the kernel may yet tell");
        assert!(!control.is_short(MEMORY_ENOUGH));
        assert!(!control.is_short(MEMORY_FULL), "no task has waited");
        assert!(control.is_short(MEMORY_SHORT));
        assert!(control.is_short(MEMORY_ENOUGH), "it may come back");
        control.short_at = Instant::now().checked_sub(SHORT_LASTS);
        assert!(!control.is_short(MEMORY_ENOUGH));
        control.began = Instant::now().checked_sub(SHORT_LASTS).unwrap();
        assert!(control.is_short(MEMORY_UNKNOWN), "it does not tell");
    }

    #[test]
    fn memory_control_that_is_off_pauses_nothing() {
        let channel = Channel::create(true).unwrap();
        channel.header().slot_states[0].store(SLOT_CLAIMED, Relaxed);
        let mut control = MemoryControl::new(false);
        channel.slot(0).counters.resync_ticks.store(u64::MAX / 4, Relaxed);
        control.look(&channel, &Ledger::default());
        assert_eq!(channel.header().control.load(Relaxed), GO);
        assert_eq!(control.trials(), Trials::default());
    }
}
