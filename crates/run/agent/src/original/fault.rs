//! What the original does after a page fault that waited for a device.

use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::estimate::FaultTime;
use forebay_policy::fault_signals;
use forebay_policy::fork::Place;
use forebay_policy::price::{FAULT_US, SIGNAL_US};
use forebay_policy::track::Course;
use forebay_protocol::layout::{Header, Off, Slot, WATCHED_THREADS};
use forebay_sigsafe::general as n;
use forebay_sigsafe::ticks;

use super::LIVE;
use super::eligibility::{is_held, may_speculate, turn_off};
use super::fork::fork;
use super::outcome::{costs_too_much, finish, finish_early, finish_if_due, is_due, is_left, pages_ahead};
use super::slow::{self, Private};
use super::track::{is_led, repair};
use crate::snapshot::Spawned;
use crate::{accesses, fault_threads, fault_watch, process, session, timing, trace, usage};

/// What threads had used when they were last told of a fault.
pub struct Seen {
    /// When the last of them was.
    at: u64,
    threads: [Used; WATCHED_THREADS],
    time: FaultTime,
    /// The main thread when the process began.
    began: Used,
    pages_used: u64,
    pages_skipped: u64,
}

/// What a thread had used at some moment.
#[derive(Clone, Copy)]
struct Used {
    /// Its name among the threads that are told of faults, which no other has.
    thread: u64,
    /// The moment: when it was told of a fault, or was forked before it was told of any; 0 for the beginning of the thread.
    since: u64,
    is_told: bool,
    /// Its processor time.
    cpu_us: u64,
    /// Its page faults that waited.
    faults: u64,
    /// How often it gave its processor up.
    yields: u64,
}

impl Used {
    const NOTHING: Self = Self { thread: 0, since: 0, is_told: false, cpu_us: 0, faults: 0, yields: 0 };

    /// What the calling thread, of that name, has used until now.
    fn until(now: u64, thread: u64, is_told: bool) -> Self {
        let usage = usage::of(n::RUSAGE_THREAD as i32);
        Self {
            thread,
            since: now,
            is_told,
            cpu_us: usage::processor_us(&usage),
            faults: usage.ru_majflt as u64,
            yields: usage.ru_nvcsw as u64,
        }
    }
}

impl Seen {
    pub const fn new() -> Self {
        Self {
            at: 0,
            threads: [Used::NOTHING; WATCHED_THREADS],
            time: FaultTime::new(),
            began: Used::NOTHING,
            pages_used: 0,
            pages_skipped: 0,
        }
    }

    /// Whether a thread was told of a fault in so many ticks before `now`.
    pub const fn was_told_of_one(&self, now: u64, within: u64) -> bool {
        self.at != 0 && now.saturating_sub(self.at) < within
    }

    /// The original is about to be forked in the calling thread.
    pub fn on_fork(&mut self, now: u64) {
        if let Some((place, thread)) = fault_threads::own()
            && let Some(used) = self.threads.get_mut(place)
            && !(used.is_told && used.thread == thread)
        {
            *used = Used::until(now, thread, false);
        }
    }

    /// The original has been forked in the calling thread at a fault: that is no part of the next one.
    pub fn on_forked(&mut self, now: u64) {
        if let Some((place, thread)) = fault_threads::own()
            && let Some(used) = self.threads.get_mut(place)
        {
            *used = Used::until(now, thread, true);
        }
    }

    /// The calling thread is told of a fault: what it had used at the one before, and what it has used now.
    fn on_fault(&mut self, now: u64) -> (Used, Used) {
        self.at = now;
        let (place, thread) = fault_threads::own().unwrap_or_default();
        let used = Used::until(now, thread, true);
        let place = self.threads.get_mut(place);
        let before = place.map_or(Used::NOTHING, |place| mem::replace(place, used));
        let before = match before.thread == thread {
            true => before,
            false if process::is_main_thread() => self.began,
            false => Used::NOTHING,
        };
        (before, used)
    }

    /// So many pages used are known of already.
    pub const fn take_used(&mut self, pages: u64) {
        self.pages_used += pages;
    }

    /// A process begins: what was used before is none of its own.
    pub fn begin_process(&mut self) {
        self.at = 0;
        self.threads.fill(Used::NOTHING);
        self.time = FaultTime::new();
        self.began = Used::until(0, 0, false);
        (self.pages_used, self.pages_skipped) = (0, 0);
    }
}

/// A thread waited for a page of its memory. Which side this is, if that led to a fork.
pub fn on_fault() -> Option<Spawned> {
    if !process::is_own() {
        return None;
    }
    let mut private = slow::enter()?;
    let spawned = note(&mut private);
    slow::leave(private, spawned)
}

fn note(private: &mut Private) -> Option<Spawned> {
    let header = session::header()?;
    let slot = match session::claim(process::original()) {
        Ok(slot) => slot,
        Err(Off::NoSlot) => {
            turn_off(Off::NoSlot);
            return None;
        }
        Err(_) => return None,
    };
    let Measured { now, stalls, duration } = measure(private, header);
    timing::on_stall();
    // A file that was opened may be read by its mapping.
    if session::tell_of_wait(duration) {
        accesses::on_wait();
    }
    slot.counters.stalls.fetch_add(stalls, Relaxed);
    slot.counters.stalls_unattended.fetch_add(stalls - 1, Relaxed);
    slot.counters.stall_ticks.fetch_add(duration.saturating_mul(stalls), Relaxed);
    let ticks_per_us = (header.ticks_per_second.load(Relaxed) / 1_000_000).max(1);
    let spared = duration + FAULT_US * ticks_per_us;
    settle(slot, private, now, stalls);
    trace::tell(
        b"fault: ticks, misses, used",
        &[duration, private.live.track.misses().into(), private.live.used],
    );
    if LIVE.load(Relaxed) != 0 && is_led() {
        check_track(slot, private, now);
    } else if is_left(slot, private, now) {
        finish_if_due(slot, private);
    }
    let account = session::account()?;
    private.forks.on_faults(&account, stalls, spared, u64::from(signal_us()) * ticks_per_us);
    let stall_us = private.forks.stall_mean() / ticks_per_us;
    trace::tell(
        b"account: balance, stake, failures",
        &[account.balance() as u64, private.forks.stake(&account), account.failures().into()],
    );
    if LIVE.load(Relaxed) != 0 {
        fault_watch::wish_for_one_in(period(stall_us, 0));
        return None;
    }
    let is_armed = may_speculate() && !is_held() && private.forks.is_armed(&account);
    let Some(spawned) = is_armed.then(|| fork(private, Place::Fault)).flatten() else {
        fault_watch::wish_for_one_in(period(stall_us, account.failures()));
        return None;
    };
    let after = ticks();
    if spawned == Spawned::Original {
        private.faults.on_forked(after);
    }
    private.live.on_start_abreast();
    private.live.track.on_fork_at_fault(after, after.saturating_sub(now), private.forks.stall_mean());
    Some(spawned)
}

/// What a signal takes on this machine.
fn signal_us() -> u32 {
    let measured = session::header().map_or(0, |header| header.signal_us.load(Relaxed));
    measured.max(SIGNAL_US as u32)
}

/// One fault in so many should have a signal; see there.
pub fn period(stall_us: u64, failures: u32) -> u32 {
    fault_signals::period(stall_us, signal_us(), failures)
}

/// A speculation is live, and did not spare the original this fault: repairs it, or ends it, if it is off track.
fn check_track(slot: &Slot, private: &mut Private, now: u64) {
    if is_held() {
        // It cannot be off track.
        private.live.track.forgive();
        return;
    }
    if private.live.track.is_over(now) && costs_too_much(slot, private) {
        finish_early(slot, private);
        return;
    }
    let ended = slot.speculator_pid.load(Relaxed) == 0;
    let Course::Strayed { is_late, is_lost } =
        private.live.track.course(now, ended, pages_ahead(slot, LIVE.load(Relaxed)))
    else {
        return;
    };
    if may_speculate() && repair(slot, private, is_late) {
        private.live.on_start_abreast();
        private.live.track.on_repair(now, private.forks.size().fork);
    } else if is_lost && is_due(private) {
        // No predicted value is responsible for its being late.
        if is_late {
            finish_early(slot, private);
        } else {
            finish(slot, private);
        }
    }
}

/// What has happened since the last fault told of.
struct Measured {
    now: u64,
    stalls: u64,
    /// How long each took.
    duration: u64,
}

fn measure(private: &mut Private, header: &Header) -> Measured {
    let now = ticks();
    let (before, used) = private.faults.on_fault(now);
    let stalls = used.faults.saturating_sub(before.faults).max(1);
    let ticks_per_us = (header.ticks_per_second.load(Relaxed) / 1_000_000).max(1);
    let busy = used.cpu_us.saturating_sub(before.cpu_us).saturating_mul(ticks_per_us);
    let away = now.saturating_sub(before.since).saturating_sub(busy);
    let yields = used.yields.saturating_sub(before.yields);
    let shortest = timing::stall_ticks_min();
    let longest = header.ticks_per_second.load(Relaxed) / 10;
    let known = if before.since == 0 { None } else { private.faults.time.on_faults(stalls, yields, away) };
    let duration = known.unwrap_or_else(|| private.forks.stall_mean());
    Measured { now, stalls, duration: duration.min(longest).max(shortest) }
}

/// Counts the pages that the original has reached since the last count, and the faults.
fn settle(slot: &Slot, private: &mut Private, now: u64, faults: u64) {
    let left_out = take_foreseen(slot, private);
    private.live.on_stalls(now, faults, left_out);
}

/// Counts the pages that the original has reached since the last count; how many of them were left to it.
#[inline(never)]
pub fn take_foreseen(slot: &Slot, private: &mut Private) -> u64 {
    let seen = &mut private.faults;
    let new = |count: &AtomicU64, before: &mut u64| {
        let count = count.load(Relaxed);
        count.saturating_sub(mem::replace(before, count))
    };
    let hinted = new(&slot.pages_used, &mut seen.pages_used);
    let left_out = new(&slot.pages_skipped, &mut seen.pages_skipped);
    private.live.on_pages(hinted, private.forks.stall_mean());
    left_out
}
