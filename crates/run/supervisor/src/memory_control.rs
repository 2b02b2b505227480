//! Gives the controller of `forebay_policy::control` samples of the run, and carries out its decisions.

use std::{
    fs,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use forebay_linux::kernel_text::Schedstat;
use forebay_policy::control::{Change, Controller, Sample};
use forebay_protocol::{
    layout::{GO, HOLD, MEMORY_ENOUGH, MEMORY_FULL, MEMORY_SHORT, SLOT_CLAIMED, STOP},
    reasons::Reason,
};

use crate::{channel::Channel, ledger::Ledger, statistics::Figures};

/// What a fork costs afterwards, in copies of pages, as a part of the fork.
const COPIES_PART: u64 = 2;

/// How long memory counts as short after it was: longer than between checks, so that a shortage that comes and goes does
/// not keep the controller from them.
const SHORT_LASTS: Duration = Duration::from_secs(20);

/// Crossings whose moments are kept; more are only counted.
const CROSSINGS_MAX: usize = 64;

/// A threshold crossing of memory control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Since the program's start.
    pub at: Duration,
    /// Why speculation went off.
    pub reason: Reason,
}

/// Memory control of one run.
pub struct MemoryControl {
    controller: Controller,
    enabled: bool,
    started: Instant,
    crossings: Vec<Crossing>,
    sampled: Instant,
    figures: Figures,
    cpu_us: u64,
    stall_us: u64,
    /// When memory was last short.
    short_at: Option<Instant>,
}

impl MemoryControl {
    /// A controller that has seen nothing; one that is not `enabled` never will.
    pub fn new(enabled: bool) -> Self {
        Self {
            controller: Controller::default(),
            enabled,
            started: Instant::now(),
            crossings: vec![],
            sampled: Instant::now(),
            figures: Figures::default(),
            cpu_us: 0,
            stall_us: 0,
            short_at: None,
        }
    }

    /// The crossings so far, the first ones of many.
    pub fn crossings(self) -> Vec<Crossing> {
        self.crossings
    }

    /// Whether samples are wanted at shorter intervals.
    pub fn is_checking(&self) -> bool {
        self.controller.is_checking()
    }

    /// Takes a sample.
    pub fn look(&mut self, channel: &Channel, ledger: &Ledger) {
        if !self.enabled {
            return;
        }
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
        let stalls = figures.stalls_after().saturating_sub(before.stalls_after());
        // Those were at some time before.
        let unattended = figures.stalls_unattended.saturating_sub(before.stalls_unattended);
        if let Some(mean) = figures.wait_ticks().saturating_sub(before.wait_ticks()).checked_div(stalls) {
            self.stall_us = mean / ticks_per_us;
        }
        let forks_us = figures.resync_ticks.saturating_sub(before.resync_ticks) / ticks_per_us;
        let sample = Sample {
            elapsed_us: self.sampled.elapsed().as_micros().try_into().unwrap_or(u64::MAX),
            cpu_us: cpu_us.saturating_sub(std::mem::replace(&mut self.cpu_us, cpu_us)),
            stalls: stalls.saturating_sub(unattended),
            used: figures.stalls_spared().saturating_sub(before.stalls_spared()),
            unused: figures.hints_wrong.saturating_sub(before.hints_wrong),
            stall_us: self.stall_us,
            forks_us: forks_us + forks_us / COPIES_PART,
            speculating: figures.resyncs > before.resyncs
                || (header.control.load(Relaxed) == GO && header.speculators.load(Relaxed) > 0),
            memory_is_short: self.is_short(header.memory.load(Relaxed)),
        };
        self.sampled = Instant::now();
        match self.controller.on_sample(&sample) {
            Some(Change::Off(reason)) => {
                header.stops.fetch_add(1, Relaxed);
                header.control.store(STOP, Relaxed);
                header.control_crossings[reason as usize].fetch_add(1, Relaxed);
                if self.crossings.len() < CROSSINGS_MAX {
                    self.crossings.push(Crossing { at: self.started.elapsed(), reason });
                }
            }
            Some(Change::Pause) => header.control.store(HOLD, Relaxed),
            Some(Change::On | Change::Resume) => header.control.store(GO, Relaxed),
            None => {}
        }
    }
}

impl MemoryControl {
    /// Whether memory is short, was lately, or may be as far as is known.
    fn is_short(&mut self, memory: u32) -> bool {
        if memory == MEMORY_SHORT {
            self.short_at = Some(Instant::now());
        }
        !matches!(memory, MEMORY_ENOUGH | MEMORY_FULL)
            || self.short_at.is_some_and(|at| at.elapsed() < SHORT_LASTS)
    }
}

/// Processor time of the main thread.
fn processor_time_us(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    Some(Schedstat::parse(&text)?.ran_ns / 1_000)
}

#[cfg(test)]
mod tests {
    use forebay_protocol::layout::MEMORY_UNKNOWN;

    use super::*;

    #[test]
    fn this_process_has_used_its_processor() {
        assert!(processor_time_us(std::process::id()).is_some_and(|time| time > 0));
        assert_eq!(processor_time_us(0), None);
    }

    #[test]
    fn forks_that_find_nothing_pause_speculation_with_a_reason() {
        let channel = Channel::create(true).unwrap();
        channel.header().slot_states[0].store(SLOT_CLAIMED, Relaxed);
        let counters = &channel.slot(0).counters;
        let mut control = MemoryControl::new(true);
        // Each look is a moment after the one before, and sees another second that forks took.
        let deadline = Instant::now() + Duration::from_secs(60);
        while channel.header().control.load(Relaxed) != STOP {
            assert!(Instant::now() < deadline, "speculation goes on");
            counters.resyncs.fetch_add(10, Relaxed);
            counters.resync_ticks.fetch_add(channel.header().ticks_per_second.load(Relaxed), Relaxed);
            std::thread::sleep(Duration::from_millis(1));
            control.look(&channel, &Ledger::default());
        }
        assert_eq!(channel.header().control_crossings[Reason::Forks as usize].load(Relaxed), 1);
        let crossings = control.crossings();
        assert_eq!(crossings.iter().map(|crossing| crossing.reason).collect::<Vec<_>>(), [Reason::Forks]);
        assert!(crossings[0].at >= Duration::from_millis(1) && crossings[0].at < Duration::from_secs(60));
    }

    #[test]
    fn a_shortage_lasts_for_a_while() {
        let mut control = MemoryControl::new(true);
        assert!(control.is_short(MEMORY_UNKNOWN), "it may be");
        assert!(!control.is_short(MEMORY_ENOUGH));
        assert!(!control.is_short(MEMORY_FULL), "no task has waited");
        assert!(control.is_short(MEMORY_SHORT));
        assert!(control.is_short(MEMORY_ENOUGH), "it may come back");
        control.short_at = Instant::now().checked_sub(SHORT_LASTS);
        assert!(!control.is_short(MEMORY_ENOUGH));
    }

    #[test]
    fn a_controller_that_is_off_pauses_nothing() {
        let channel = Channel::create(true).unwrap();
        channel.header().slot_states[0].store(SLOT_CLAIMED, Relaxed);
        let mut control = MemoryControl::new(false);
        channel.slot(0).counters.resync_ticks.store(u64::MAX / 4, Relaxed);
        control.look(&channel, &Ledger::default());
        assert_eq!(channel.header().control.load(Relaxed), GO);
    }
}
