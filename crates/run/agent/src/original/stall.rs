//! What the original does after a call that waited for a device.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::inflight::InflightLimit;
use forebay_policy::program::{self, ProgramRecord};
use forebay_policy::resync::Place;
use forebay_protocol::layout::{Off, Slot};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{sys, ticks};

use super::eligibility::{is_held, may_speculate, turn_off};
use super::fork::fork;
use super::outcome::{finish_if_due, is_off_track, publish_crossings};
use super::slow::{self, Private};
use super::track::{Match, repair, used};
use super::{LIVE, OWNER, PROBES, PROBES_MAX};
use crate::timing::{self, Period};
use crate::{process, session, speculator, trace, usage};

/// How much longer than a stall at least a call must take to count when nothing is known of its thread.
const FIRST_STALL_FACTOR: u64 = 8;
/// Prefetches that must be under way for a stall to tell how many the device serves at once: one that took two reads
/// instead of one must not look like a device that serves one at a time.
const OTHERS_MIN: u32 = 3;

/// Device of a regular file or directory; none for other descriptors, which wait for something else than a device.
#[inline(never)]
pub fn file_device(descriptor: usize) -> Option<u64> {
    let mut stat = MaybeUninit::<n::stat>::zeroed();
    // SAFETY: the call fills the structure, whose zeroes are valid too.
    let stat = unsafe {
        let _ = sys!(n::__NR_fstat, descriptor, stat.as_mut_ptr());
        stat.assume_init()
    };
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
        let long = duration / FIRST_STALL_FACTOR > timing::stall_ticks_min();
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
        let (after, mean) = (ticks(), private.policy.stall_mean());
        Period { before: after.saturating_sub(mean.max(timing::stall_ticks_min())), after }
    });
    note(&mut private, period, matched, device);
    let forks = late_fork && PROBES.load(Relaxed) != 0 && LIVE.load(Relaxed) == 0;
    let spawned = if forks { fork(&mut private, Place::Call) } else { None };
    let _ = slow::leave(private, spawned);
}

#[inline(never)]
fn note(private: &mut Private, Period { before, after }: Period, matched: Match, device: Option<u64>) {
    if !private.waits.has_waited(after.wrapping_sub(before)) || !process::is_own() {
        if matched == Match::Hinted {
            used();
        }
        return;
    }
    let duration = after.wrapping_sub(before);
    timing::on_stall();
    remember_program();
    let Ok(slot) = session::claim(process::original()) else {
        turn_off(Off::NoSlot);
        return;
    };
    let counters = &slot.counters;
    if matched == Match::Hinted {
        private.live.late += 1;
        private.live.late_saved += private.policy.stall_mean().saturating_sub(duration);
        counters.hints_late.fetch_add(1, Relaxed);
        counters.late_ticks.fetch_add(duration, Relaxed);
        private.policy.on_stall(after, duration, true);
        return;
    }
    counters.stalls.fetch_add(1, Relaxed);
    counters.stall_ticks.fetch_add(duration, Relaxed);
    let orphaned =
        OWNER.load(Relaxed) != forebay_sigsafe::thread_pointer() && slot.speculator_pid.load(Relaxed) == 0;
    trace::tell(
        b"stalled: matched, ticks, armed, alive",
        &[
            matched as u64,
            duration,
            private.policy.armed(before).into(),
            slot.speculator_pid.load(Relaxed).into(),
        ],
    );
    if let Some(saturated) = device.and_then(|device| learn_device(slot, device, duration, matched)) {
        private.policy.set_saturated(saturated);
        trace::tell(b"saturated", &[saturated.into()]);
    }
    if matched == Match::Mismatch && !is_held() {
        private.live.misses += 1;
    }
    if orphaned {
        finish_if_due(slot, private, before);
    } else if is_off_track(slot, private) {
        repair_or_finish(slot, private, before);
    }
    private.policy.on_stall(after, duration, false);
    publish_crossings(slot, private);
    let may = may_speculate() && LIVE.load(Relaxed) == 0;
    if may && private.policy.armed(after) {
        PROBES.store(PROBES_MAX, Relaxed);
    }
}

/// The live speculation is off track.
pub fn repair_or_finish(slot: &Slot, private: &mut Private, now: u64) {
    if !may_speculate() || !repair(slot, private, false) {
        finish_if_due(slot, private, now);
    }
}

/// Adds a stall to what is known of the device; whether the device is saturated. Only the original's own waits tell
/// that: speculators wait for processors too.
#[inline(never)]
fn learn_device(slot: &Slot, device: u64, duration: u64, matched: Match) -> Option<bool> {
    let entry = speculator::device(session::header()?, device)?;
    let mut limit = InflightLimit::load(&entry.limit);
    let others = slot.flights.load(Relaxed).saturating_add(entry.executing.load(Relaxed));
    let undisturbed = others == 0 || (limit.base_ticks() == 0 && others < OTHERS_MIN);
    if matches!(matched, Match::NoSpeculator | Match::Pending) && undisturbed {
        limit.on_stall(duration);
    } else if others >= OTHERS_MIN && duration >= limit.base_ticks() {
        // A shorter one waited for a prefetch that was under way.
        limit.on_completion(duration, others.saturating_add(1));
    }
    limit.store(&entry.limit);
    trace::tell(b"device: others, limit, base", &[others.into(), limit.limit().into(), limit.base_ticks()]);
    Some(limit.saturated())
}

#[inline(never)]
pub fn remember_program() {
    let key = session::name().program_key;
    if key == 0 {
        return;
    }
    let program = session::header().and_then(|header| program::program(&header.programs, key));
    if let Some(program) = program {
        program.record.store(ProgramRecord::on_stall(program.record.load(Relaxed)), Relaxed);
    }
}
