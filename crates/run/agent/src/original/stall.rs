//! What the original does after a call that waited for a device.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::estimate::StallTime;
use forebay_policy::fork::Place;
use forebay_policy::inflight::InflightLimit;
use forebay_policy::price::{BESIDE_STALL_MIN, FIRST_STALL_TIMES, PROBES_MAX};
use forebay_protocol::layout::{Off, Slot};
use forebay_sigsafe::general as n;
use forebay_sigsafe::ticks;

use super::eligibility::{is_held, may_speculate, turn_off};
use super::fork::fork;
use super::outcome::{finish_if_due, has_strayed, is_left, is_off_track, is_settling};
use super::slow::{self, Private};
use super::track::{self, Match, is_led, repair, used};
use super::{LIVE, PROBES};
use crate::snapshot::Spawned;
use crate::timing::{self, Period};
use crate::{accesses, attributes, fault_threads, given_up, process, session, speculator, trace, usage};

/// Device of a regular file or directory; none for other descriptors, which wait for something else than a device.
#[inline(never)]
pub fn file_device(descriptor: usize) -> Option<u64> {
    let stat = attributes::of(descriptor as isize)?;
    matches!(stat.st_mode & n::S_IFMT, n::S_IFREG | n::S_IFDIR).then_some(stat.st_dev)
}

/// How often threads had given their processors up when they were last looked at: each with its thread.
pub struct Waits([(usize, i64); 16]);

impl Waits {
    pub const fn new() -> Self {
        Self([(0, 0); 16])
    }

    /// Whether this thread has given its processor up since it was last looked at: a slow call that did not was busy or
    /// preempted, not stalled.
    ///
    /// Of a thread that was not looked at before nothing is known; only a long call of it counts.
    #[inline(never)]
    fn has_waited(&mut self, duration: u64) -> bool {
        let count = usage::of(n::RUSAGE_THREAD as i32).ru_nvcsw;
        let thread = forebay_sigsafe::thread_pointer();
        let Some(entry) = self.0.get_mut((thread >> 12) % 16) else { return false };
        let long = duration / FIRST_STALL_TIMES > timing::stall_ticks_min();
        let waited = if entry.0 == thread { entry.1 != count } else { long };
        *entry = (thread, count);
        waited
    }
}

/// Takes note of a stall that is over; one that was not timed is taken for one of mean length.
#[cold]
#[inline(never)]
pub fn stalled(period: Option<Period>, matched: Match, device: Option<u64>, late_fork: bool) {
    let Some(mut private) = slow::enter() else { return };
    let period = period.unwrap_or_else(|| {
        let (after, mean) = (ticks(), private.forks.stall_mean());
        Period { before: after.saturating_sub(mean.max(timing::stall_ticks_min())), after }
    });
    note(&mut private, period, matched, device);
    let forks = late_fork && PROBES.load(Relaxed) != 0 && LIVE.load(Relaxed) == 0;
    let spawned = if forks { fork(&mut private, Place::Call) } else { None };
    if slow::leave(private, spawned) != Some(Spawned::Speculator) {
        fault_threads::join();
    }
}

#[inline(never)]
fn note(private: &mut Private, Period { before, after }: Period, matched: Match, device: Option<u64>) {
    if !private.waits.has_waited(after.wrapping_sub(before)) || !process::is_own() {
        if let Match::Hinted(stall) = matched {
            used(stall);
        }
        return;
    }
    let duration = after.wrapping_sub(before);
    timing::on_stall();
    let Ok(slot) = session::claim(process::original()) else {
        turn_off(Off::NoSlot);
        return;
    };
    let Some(account) = session::account() else { return };
    let counters = &slot.counters;
    if let Match::Hinted(stall) = matched {
        let stall = if stall == 0 { private.forks.stall_mean() } else { stall };
        private.live.on_late(duration, stall);
        counters.hints_late.fetch_add(1, Relaxed);
        counters.late_ticks.fetch_add(duration, Relaxed);
        private.forks.on_stall(&account, duration, false, None);
        return;
    }
    if session::tell_of_wait(duration) {
        accesses::on_wait();
    }
    counters.stalls.fetch_add(1, Relaxed);
    counters.stall_ticks.fetch_add(duration, Relaxed);
    trace::tell(
        b"stalled: matched, ticks, armed, alive",
        &[
            matched.number(),
            duration,
            private.forks.is_armed(&account).into(),
            slot.speculator_pid.load(Relaxed).into(),
        ],
    );
    let delay = device.and_then(|device| learn_device(slot, device, duration, matched));
    match matched {
        Match::Mismatch if !is_held() => private.live.misses += 1,
        Match::Pending => track::pending_stalled(),
        _ => {}
    }
    if is_over(slot, private, after) {
        repair_or_finish(slot, private);
    }
    private.forks.on_stall(&account, duration, true, delay);
    let may = may_speculate() && LIVE.load(Relaxed) == 0;
    if may && private.forks.is_armed(&account) {
        PROBES.store(PROBES_MAX, Relaxed);
    }
}

/// Counts a stall that was not prevented. Whether the live speculation is off track or of no use with that: what it predicts
/// may be right and too late.
fn is_over(slot: &Slot, private: &mut Private, now: u64) -> bool {
    if is_led() {
        return is_off_track(slot, private) || is_of_no_use(slot, private, now);
    }
    let counts = LIVE.load(Relaxed) != 0 && !is_held() && !is_settling(private, now);
    if counts {
        private.live.on_stalls(now, 1, 0);
    }
    is_left(slot, private, now)
}

/// Whether a speculation is live, and the led thread stalls as if there were none.
fn is_of_no_use(slot: &Slot, private: &mut Private, now: u64) -> bool {
    if LIVE.load(Relaxed) == 0 || is_held() {
        return false;
    }
    private.live.on_stalls(now, 1, 0);
    let account = session::account();
    account.is_some_and(|account| private.forks.is_harmful(&account, private.live.saved))
        || has_strayed(slot, private, now)
}

/// The live speculation is off track.
pub fn repair_or_finish(slot: &Slot, private: &mut Private) {
    if !may_speculate() || !repair(slot, private, false) {
        finish_if_due(slot, private);
    }
}

/// Adds a stall to what is known of the device; how much longer than alone it took beside hints, if that is known. Only the
/// original's own waits tell that: speculators wait for processors too.
#[inline(never)]
fn learn_device(slot: &Slot, device: u64, duration: u64, matched: Match) -> Option<i64> {
    let entry = speculator::device(session::header()?, device)?;
    let mut limit = InflightLimit::load(&entry.limit);
    let others = slot.flights.load(Relaxed).saturating_add(entry.executing.load(Relaxed));
    let undisturbed = others == 0 || (limit.base_ticks() == 0 && others < BESIDE_STALL_MIN);
    if matches!(matched, Match::NoSpeculator | Match::Pending) && undisturbed {
        limit.on_stall(duration);
    } else if others >= BESIDE_STALL_MIN && duration >= limit.base_ticks() {
        // A shorter one waited for a prefetch that was under way.
        limit.on_completion(duration, others.saturating_add(1));
    }
    limit.store(&entry.limit);
    trace::tell(b"device: others, limit, base", &[others.into(), limit.limit().into(), limit.base_ticks()]);
    let mut time = StallTime::load(&entry.stall);
    if others > 0 {
        return time.delay(duration);
    }
    if !given_up::is_timed_alone(entry) {
        time.on_stall(duration);
        time.store(&entry.stall);
    }
    None
}
