//! Checkpoints: stopped copies of the speculator, from before a value that it predicts ([`forebay_policy::checkpoint`]).
//!
//! The copy is the speculator's child. It sleeps until the original calls for it, and ends when it cannot be called for. Once
//! called, it is the speculator of the next generation: it waits for the value, and repeats the calls that the original has
//! made meanwhile.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use forebay_policy::checkpoint::Plan;
use forebay_protocol::hint_log::Producer;
use forebay_protocol::layout::{CHECKPOINT_STARTING, End, LOGS};
use forebay_sigsafe::{general as n, sys, ticks};

use super::{State, abandoned, end, hints, kernel, memory, open_own, signals};
use crate::{role, trace};

/// How long a checkpoint sleeps between looks at whether it is still wanted, and where the original's memory is short.
const SLEEP_NS: i64 = 10_000_000;
const SLEEP_SHORT_NS: i64 = 2_500_000;
/// Pauses that a dismissed checkpoint has to be gone.
const GONE_PAUSES_MAX: u32 = 200;
const GONE_PAUSE_US: i64 = 100;

/// The checkpoints of this speculator.
pub struct Checkpoints {
    /// Whether a fork of the original is dear enough for them.
    wanted: bool,
    first_price: u64,
    plan: Plan,
    serial: u32,
    /// Process id of the present one; 0 for none.
    copy: isize,
    /// The page that it was made for; 0 where it was made for a call.
    page: usize,
}

impl Checkpoints {
    /// None yet. The first is taken to cost `first_price`; without that, none are wanted.
    pub fn new(first_price: Option<u64>) -> Self {
        let (wanted, first_price) = (first_price.is_some(), first_price.unwrap_or(0));
        Self { wanted, first_price, plan: Plan::new(ticks(), first_price), serial: 0, copy: 0, page: 0 }
    }
}

/// A value is about to be predicted for `site`: of the page, or of the call at hand. Makes a checkpoint if one is due;
/// `true` in that one, when it carries on: the value must be waited for.
pub fn before(state: &mut State, site: Option<u32>, page: Option<usize>) -> bool {
    if !state.checkpoints.wanted {
        return false;
    }
    let first = site.is_some_and(|site| !has_made_up(state, site));
    let before = ticks();
    if !state.checkpoints.plan.is_due(before, first) || !is_passed(state) || !dismiss(state) {
        return false;
    }
    let carries_on = make(state, page);
    if !carries_on {
        let spent = ticks().wrapping_sub(before);
        state.checkpoints.plan.on_made(spent);
        signals::was_busy_otherwise(state);
        state.slot.counters.checkpoints.fetch_add(1, Relaxed);
        state.slot.counters.checkpoint_ticks.fetch_add(spent, Relaxed);
        trace::tell(b"  ahead: checkpoint, ticks", &[state.generation.into(), spent]);
    }
    carries_on
}

/// Whether a value was predicted for the site in this speculation.
fn has_made_up(state: &State, site: u32) -> bool {
    let first = state.slot.first_predicted.get(site as usize).map_or(0, |first| first.load(Relaxed));
    (first >> 32) as u32 == state.generation
}

/// Whether the original has reached the value that the present checkpoint was made for.
fn is_passed(state: &State) -> bool {
    let Checkpoints { copy, page, .. } = state.checkpoints;
    let tail = state.slot.tails.get(state.generation as usize % LOGS).map_or(0, |tail| tail.load(Relaxed));
    copy == 0
        || (tail >= state.slot.checkpoint.needed.load(Relaxed)
            && (page == 0 || memory::original_has(state, page)))
}

/// Whether there is one that could carry on.
pub fn waits(state: &State) -> bool {
    state.checkpoints.copy != 0 && state.slot.checkpoint.number.load(Relaxed) != 0
}

/// Ends the present checkpoint; `false` where it does not go.
pub fn dismiss(state: &mut State) -> bool {
    let checkpoint = &state.slot.checkpoint;
    if state.checkpoints.copy == 0 {
        return true;
    }
    checkpoint.number.store(0, Release);
    // SAFETY: the word is in the slot.
    let _ = unsafe { sys!(n::__NR_futex, &raw const checkpoint.number, n::FUTEX_WAKE, 1) };
    for _ in 0..GONE_PAUSES_MAX {
        // SAFETY: nothing is written.
        if unsafe { sys!(n::__NR_wait4, state.checkpoints.copy, 0, n::WNOHANG, 0) } != 0 {
            state.checkpoints.copy = 0;
            memory::private_pages::unshare(state);
            checkpoint.pid.store(0, Relaxed);
            return true;
        }
        kernel::pause(GONE_PAUSE_US);
    }
    false
}

unsafe extern "C" {
    /// A copy of this process: 0 there, here its process id or `-errno`.
    fn forebay_copy() -> isize;
    /// The one instruction that the jail lets make one.
    static forebay_copied: u8;
}

core::arch::global_asm!(
    ".text",
    ".hidden forebay_copy",
    ".globl forebay_copy",
    ".type forebay_copy,@function",
    "forebay_copy:",
    ".cfi_startproc",
    "mov edi, {sigchld}",
    "xor esi, esi",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    ".hidden forebay_copied",
    ".globl forebay_copied",
    "forebay_copied:",
    "ret",
    ".cfi_endproc",
    ".size forebay_copy, . - forebay_copy",
    sigchld = const n::SIGCHLD,
);

/// Where the one call is that makes a copy, as the jail sees it, and what it asks for.
pub fn copy_call() -> (u64, u32) {
    (&raw const forebay_copied as u64, n::SIGCHLD)
}

/// `true` in the copy, when it carries on.
fn make(state: &mut State, page: Option<usize>) -> bool {
    let checkpoint = &state.slot.checkpoint;
    let position = Producer::new(state.slot, state.generation).position();
    memory::private_pages::share(state);
    state.checkpoints.serial = state.checkpoints.serial.wrapping_add(1);
    let number = state.generation << 16 | state.checkpoints.serial.max(1) & 0xffff;
    state.checkpoints.page = page.unwrap_or(0);
    checkpoint.position.store(position, Relaxed);
    checkpoint.needed.store(position + u64::from(page.is_none()), Relaxed);
    checkpoint.pid.store(CHECKPOINT_STARTING, SeqCst);
    if state.slot.generation.load(SeqCst) != state.generation {
        // The original takes down what is left of this speculation, or has done so: nothing may be added.
        let _ = checkpoint.pid.compare_exchange(CHECKPOINT_STARTING, 0, Relaxed, Relaxed);
        end(state, End::Abandoned);
    }
    checkpoint.number.store(number, Release);
    // SAFETY: the copy has this process's memory, and sleeps.
    match unsafe { forebay_copy() } {
        0 => {
            // Every forked child finds its role wiped.
            role::begin_speculator();
            sleep(state, number);
            carry_on(state);
            true
        }
        copy if copy > 0 => {
            state.checkpoints.copy = copy;
            checkpoint.pid.store(copy as u32, Relaxed);
            false
        }
        _ => {
            memory::private_pages::unshare(state);
            checkpoint.number.store(0, Relaxed);
            checkpoint.pid.store(0, Relaxed);
            state.checkpoints.wanted = false;
            false
        }
    }
}

/// In the checkpoint: sleeps until the original calls for it, or ends.
fn sleep(state: &mut State, number: u32) {
    let checkpoint = &state.slot.checkpoint;
    let sleep_ns = if memory::is_short(state) { SLEEP_SHORT_NS } else { SLEEP_NS };
    let own = state.generation;
    let slot = state.slot;
    let is_called = || {
        let generation = slot.generation.load(Acquire);
        generation != own && checkpoint.call.load(Acquire) == generation
    };
    loop {
        let is_present = checkpoint.number.load(Acquire) == number;
        if is_present && is_called() {
            return;
        }
        let is_wanted = || is_present && !abandoned(state) && hints::original_lives(state);
        if !is_wanted() || memory::costs_too_much(state) {
            let taken_back = checkpoint.number.compare_exchange(number, 0, AcqRel, Relaxed).is_ok();
            // To find that out takes a while, in which the original may have called.
            if taken_back && is_called() {
                return;
            }
            if taken_back && slot.speculator_pid.load(Relaxed) == 0 {
                memory::tell_copied(state);
            }
            kernel::exit();
        }
        let limit = n::__kernel_timespec { tv_sec: 0, tv_nsec: sleep_ns };
        // SAFETY: the word is in the slot; the call reads a local.
        let _ = unsafe {
            sys!(n::__NR_futex, &raw const checkpoint.number, n::FUTEX_WAIT, number, &raw const limit)
        };
    }
}

/// In the checkpoint: it is the speculator now, of the generation that it was called as. What belonged to the process
/// that it is a copy of is had anew.
fn carry_on(state: &mut State) {
    let checkpoint = &state.slot.checkpoint;
    state.generation = checkpoint.call.load(Relaxed);
    // SAFETY: no arguments.
    state.slot.speculator_pid.store(unsafe { sys!(n::__NR_getpid) } as u32, SeqCst);
    state.header.speculators.fetch_add(1, Relaxed);
    checkpoint.number.store(0, Relaxed);
    checkpoint.pid.store(0, SeqCst);
    let Checkpoints { page, first_price, .. } = state.checkpoints;
    state.checkpoints = Checkpoints::new(Some(first_price));
    kernel::close(state.descriptors.folder);
    let renewed = open_own(state) && memory::renew(state) && signals::start_ticking(state);
    // A speculation that was off track before the value cannot be repaired from here.
    if !renewed || (page != 0 && !memory::original_has(state, page)) {
        end(state, End::Abandoned);
    }
    state.slot.counters.repairs.fetch_add(1, Relaxed);
    hints::renew(state);
    trace::tell(b"  ahead: carries on, page", &[state.generation.into(), page as u64]);
}
