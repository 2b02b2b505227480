//! Forking a speculator: at a read that is about to stall, or after a stall.

use core::mem;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use forebay_policy::account::Account;
use forebay_policy::checkpoint::first_price;
use forebay_policy::fork::Place;
use forebay_policy::price::WEIGHED_US;
use forebay_protocol::layout::{Header, LEASES_SOME, Off, Slot, replay};
use forebay_sigsafe::{thread_pointer, ticks};

use super::eligibility::{count_off, disable, may_speculate, turn_off};
use super::outcome::{excused_ends, is_off_track, settle_first_writes};
use super::size::{page_faults, processor_ticks};
use super::slow::{self, Private};
use super::stall::repair_or_finish;
use super::{LIVE, OWNER, PROBES, fault, opened, size, visibility};
use crate::call::Call;
use crate::snapshot::{Circumstances, Forked, Spawned};
use crate::spawn::{self, Side};
use crate::{fault_watch, held, process, session, speculator, timing, trace};

/// Finds out whether a read is about to stall, starting the device on it; if so, a speculator is forked.
///
/// # Safety
/// `call` is a read of the program's, of `descriptor`.
#[cold]
pub unsafe fn probe(call: &Call, descriptor: usize) -> Option<Spawned> {
    // Threads that count at once may count one for two.
    PROBES.store(PROBES.load(Relaxed).saturating_sub(1), Relaxed);
    // SAFETY: the caller's.
    if !unsafe { spawn::will_stall(call, descriptor) } {
        return None;
    }
    let mut private = slow::enter()?;
    if let Some(slot) = session::slot().filter(|slot| is_off_track(slot, &private)) {
        repair_or_finish(slot, &mut private);
    }
    let is_armed = session::account().is_some_and(|account| private.forks.is_armed(&account));
    let forks = LIVE.load(Relaxed) == 0 && is_armed;
    let spawned = if forks { fork(&mut private, Place::Read) } else { None };
    slow::leave(private, spawned)
}

/// Why the original is not forked.
enum Refusal {
    NotNow,
    /// The agent is of no use in this process.
    Off(Off),
    /// The program does what rules copies of it out.
    Unsafe(Off),
}

/// Forks a speculator, where that is safe and pays.
#[inline(never)]
pub fn fork(private: &mut Private, place: Place) -> Option<Spawned> {
    PROBES.store(0, Relaxed);
    let before = ticks();
    match decide(private) {
        Ok((header, slot, account)) => {
            let circumstances = begin_speculation(private, header, slot, &account);
            carry_out(private, slot, &account, &circumstances, Begun { before, place })
        }
        Err(Refusal::NotNow) => None,
        Err(Refusal::Off(reason)) => {
            turn_off(reason);
            None
        }
        Err(Refusal::Unsafe(reason)) => {
            disable(reason, Some(private));
            None
        }
    }
}

/// What takes longest to find out comes last.
fn decide(private: &mut Private) -> Result<(&'static Header, &'static Slot, Account<'static>), Refusal> {
    let (header, slot) = permit()?;
    let _ = size::weigh(private, WEIGHED_US);
    if private.size.has_huge_pages {
        return Err(Refusal::Unsafe(Off::HugePages));
    }
    let account = session::account().ok_or(Refusal::NotNow)?;
    settle_first_writes(slot, private, &account);
    if !private.forks.is_armed(&account) {
        return Err(Refusal::NotNow);
    }
    if visibility::shows_on_stack() {
        return Err(Refusal::Unsafe(Off::Unsafe));
    }
    if !spawn::supersede(slot) {
        return Err(Refusal::NotNow);
    }
    private.faults.on_fork(ticks());
    Ok((header, slot, account))
}

/// Whether the program, its surroundings and the supervisor permit a copy.
fn permit() -> Result<(&'static Header, &'static Slot), Refusal> {
    let header = session::header().ok_or(Refusal::NotNow)?;
    if !may_speculate() || !process::is_own() {
        return Err(Refusal::NotNow);
    }
    if header.enabled.load(Relaxed) == 0 {
        return Err(Refusal::Off(Off::Disabled));
    }
    if header.replay.state.load(Relaxed) == replay::ON && !opened::are_awaited() {
        // What is foretold is under way, and a speculator would ask for the same.
        return Err(Refusal::NotNow);
    }
    if header.is_surveyed.load(Acquire) == 0 {
        return Err(Refusal::NotNow);
    }
    if header.strict_memory.load(Relaxed) != 0 {
        return Err(Refusal::Unsafe(Off::StrictMemory));
    }
    if held::maps_locked_file() {
        return Err(Refusal::Unsafe(Off::MappedLock));
    }
    if held::has_segments() {
        return Err(Refusal::NotNow);
    }
    if header.leases.load(Relaxed) == LEASES_SOME {
        // What a speculator opens could break one.
        return Err(Refusal::Unsafe(Off::Unsafe));
    }
    let slot = session::claim(process::original()).map_err(Refusal::Off)?;
    if slot.shares_too_much.load(Relaxed) != 0 {
        return Err(Refusal::Unsafe(Off::SharedMemory));
    }
    if visibility::shows_in_surroundings(header) {
        return Err(Refusal::Unsafe(Off::Visible));
    }
    Ok((header, slot))
}

/// Takes down how things stand, for the end of the speculation, and what the speculator must know.
#[inline(never)]
fn begin_speculation(
    private: &mut Private,
    header: &Header,
    slot: &Slot,
    account: &Account<'_>,
) -> Circumstances {
    let (stall, fork) = (private.forks.stall_mean(), private.forks.size().fork);
    let makes_checkpoints = fork > header.checkpoint_ticks_min.load(Relaxed);
    let ticks_per_us = (header.ticks_per_second.load(Relaxed) / 1_000_000).max(1);
    let forked = Forked {
        faults: page_faults(private),
        processor: processor_ticks(ticks_per_us),
        hinted: slot.counters.hints_data.load(Relaxed),
        excused_ends: excused_ends(slot),
        mapped: slot.mapped.count(),
    };
    private.live.begin(forked, makes_checkpoints);
    opened::on_fork();
    Circumstances {
        stall_us: stall / ticks_per_us,
        first_checkpoint: makes_checkpoints.then(|| first_price(fork, stall)),
        prices: private.forks.prices(account),
        is_proven: account.is_proven(private.forks.size().displaces()),
        forked,
    }
}

/// Where and when the original began with a fork: to find out whether it may be made is a part of it.
#[derive(Clone, Copy)]
struct Begun {
    before: u64,
    place: Place,
}

fn carry_out(
    private: &mut Private,
    slot: &'static Slot,
    account: &Account<'_>,
    circumstances: &Circumstances,
    Begun { before, place }: Begun,
) -> Option<Spawned> {
    let side = spawn::fork(slot, circumstances);
    if let Some(Side::Speculator { snapshot }) = side {
        speculator::begin(slot, &snapshot);
        // Its copy stays in use: another one is never taken there.
        mem::forget(snapshot);
        return Some(Spawned::Speculator);
    }
    let after = ticks();
    let took = after.wrapping_sub(before);
    let Some(Side::Original { generation }) = side else {
        count_off(Off::NoFork);
        private.forks.on_refusal(account, took);
        return None;
    };
    private.forks.on_spawn(account, took, place);
    private.forks.on_copy(spawn::time_of_a_copy());
    trace::tell(b"forked: ticks, place", &[took, place as u64]);
    slot.counters.resyncs.fetch_add(1, Relaxed);
    slot.counters.resync_ticks.fetch_add(took, Relaxed);
    OWNER.store(thread_pointer(), Relaxed);
    timing::extend();
    fault_watch::wish_for_one_in(fault::period(circumstances.stall_us, 0));
    LIVE.store(generation, Relaxed);
    Some(Spawned::Original)
}
