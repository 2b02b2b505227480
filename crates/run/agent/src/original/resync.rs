//! The original forks a speculator: at a read that is about to stall, or after a stall.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::checkpoint::first_price;
use forebay_policy::resync::Place;
use forebay_protocol::layout::{LEASES_SOME, Off};
use forebay_sigsafe::ticks;

use super::permission::{bar, count_off, may_speculate, turn_off};
use super::slow::{self, Private};
use super::stall::repair_or_judge;
use super::verdict::{is_lost, memory_ends};
use super::{LIVE, OWNER, PROBES, PROCESS, exposure, page_faults, process_id, size, track};
use crate::entry::Call;
use crate::spawn::{self, Circumstances, Forked, Spawned};
use crate::{attention, faults, session, trace};

/// Finds out whether a read is about to stall, starting the device on it; if so, a speculator is forked.
///
/// # Safety
/// `call` is a read of the program's, of `descriptor`.
#[cold]
pub unsafe fn probe(call: &Call, descriptor: usize) -> Option<Spawned> {
    PROBES.fetch_sub(1, Relaxed);
    // SAFETY: the caller's.
    if !unsafe { spawn::will_stall(call, descriptor) } {
        return None;
    }
    let mut private = slow::enter()?;
    let now = ticks();
    if let Some(slot) = session::slot().filter(|slot| is_lost(slot, &private)) {
        repair_or_judge(slot, &mut private, now);
    }
    let forks = LIVE.load(Relaxed) == 0 && private.policy.armed(now);
    let spawned = if forks { spawn(&mut private, Place::Read) } else { None };
    slow::leave(private, spawned)
}

/// Forks a speculator.
#[inline(never)]
pub fn spawn(private: &mut Private, place: Place) -> Option<Spawned> {
    PROBES.store(0, Relaxed);
    if !may_speculate() {
        return None;
    }
    let process = PROCESS.load(Relaxed);
    if process_id() != process {
        return None;
    }
    if session::header()?.enabled.load(Relaxed) == 0 {
        turn_off(Off::Disabled);
        return None;
    }
    if session::header()?.leases.load(Relaxed) == LEASES_SOME {
        // What a speculator opens could break one.
        bar(Off::Unsafe, Some(private));
        return None;
    }
    let slot = match session::claim(process) {
        Ok(slot) => slot,
        Err(reason) => {
            turn_off(reason);
            return None;
        }
    };
    if slot.shares_too_much.load(Relaxed) != 0 {
        bar(Off::SharedMemory, Some(private));
        return None;
    }
    if exposure::is_of_surroundings(session::header()?) {
        bar(Off::Unsafe, Some(private));
        return None;
    }
    private.forget_speculation();
    let ticks_per_us = (session::header()?.ticks_per_second.load(Relaxed) / 1_000_000).max(1);
    let _ = size::weigh(private, size::WEIGHED_US);
    if private.has_huge_pages {
        bar(Off::Unsafe, Some(private));
        return None;
    }
    let now = ticks();
    if !private.policy.armed(now) || !private.policy.dares(now, place) {
        return None;
    }
    if exposure::is_of_stack() {
        bar(Off::Unsafe, Some(private));
        return None;
    }
    private.faults.on_fork(now);
    private.forked = Forked {
        faults: page_faults(private),
        hinted: slot.counters.hints_data.load(Relaxed),
        fabricated: slot.counters.fabricated.load(Relaxed),
        memory_ends: memory_ends(slot),
        mapped: slot.mapped.count(),
    };
    private.stops = session::header()?.stops.load(Relaxed);
    let (stall, fork) = (private.policy.stall_mean(), private.policy.size_fork());
    let are_worth_it = fork > session::header()?.checkpoint_ticks_min.load(Relaxed);
    private.repairs = track::begin(are_worth_it);
    let circumstances = Circumstances {
        stall_us: stall / ticks_per_us,
        first_checkpoint: are_worth_it.then(|| first_price(fork, stall)),
        memory_is_short: private.policy.memory_is_short(),
        is_proven: private.policy.yields_well(),
        forked: private.forked,
    };
    let before = ticks();
    let forked = spawn::fork(slot, circumstances);
    if let Some((Spawned::Speculator, _)) = forked {
        return Some(Spawned::Speculator);
    }
    let after = ticks();
    let Some((spawned, generation)) = forked else {
        count_off(Off::NoFork);
        private.policy.on_refusal(after, after.wrapping_sub(before));
        return None;
    };
    private.policy.on_spawn(after, after.wrapping_sub(before), place);
    trace::tell(b"forked: ticks, place", &[after.wrapping_sub(before), place as u64]);
    slot.counters.resyncs.fetch_add(1, Relaxed);
    slot.counters.resync_ticks.fetch_add(after.wrapping_sub(before), Relaxed);
    OWNER.store(forebay_sigsafe::thread_pointer(), Relaxed);
    attention::renew();
    faults::end_quiet();
    LIVE.store(generation, Relaxed);
    Some(spawned)
}
