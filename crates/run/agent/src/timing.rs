//! Which calls are timed: reading the time-stamp counter twice costs a tenth of a short call.
//!
//! * *Untimed*: no stall for long. A call costs two writes of a word. The kernel clears a thread's pointer to its restartable
//!   sequence (rseq(2)) whenever the thread leaves its processor. So the agent sets the pointer to a sequence that is never
//!   run, makes the call, and looks at the pointer. A call that left the processor is a stall of unknown length, and opens a
//!   timed window.
//! * *Timed*: for [`WINDOW_MIN`] calls at first and after each stall, and while there is a speculator or a read to probe.
//!   Where stalls keep coming soon after the window expired, the next one is longer.
//!
//! What an access profile learns from makes a window longer, too ([`attend`]): reads outside of windows are not looked at.
//!
//! `entry.rs` has the untimed way too, for reads. Threads without a registered sequence are always timed.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use forebay_sigsafe::{thread_pointer, ticks};

use crate::call::Call;
use crate::objects::{self, ProgramHeaders};

/// A call that takes longer may be a stall.
static STALL_TICKS_MIN: AtomicU64 = AtomicU64::new(u64::MAX);
/// Distance of a thread's `struct rseq` from its thread pointer; 0 where there is none.
pub static SEQUENCE_OFFSET: AtomicUsize = AtomicUsize::new(0);
/// Calls that will yet be timed; threads that count at once may count one for two.
pub static TIMED: AtomicU32 = AtomicU32::new(WINDOW_MIN);
/// What the above is set to by the next stall.
static WINDOW: AtomicU32 = AtomicU32::new(WINDOW_MIN);
/// Windows that have begun.
static WINDOWS: AtomicU32 = AtomicU32::new(1);

const WINDOW_MIN: u32 = 1 << 10;
const WINDOW_MAX: u32 = 1 << 20;
const WINDOW_GROWTH: u32 = 4;

/// Fields of the kernel's `struct rseq`.
pub const CPU_ID: usize = 4;
pub const CURRENT: usize = 8;

core::arch::global_asm!(
    // One instruction that is never reached, and where the kernel would go on from it, behind the C library's signature.
    ".text",
    ".p2align 4",
    "forebay_sequence:",
    "ud2",
    ".long 0x53053053",
    "forebay_sequence_abort:",
    "ud2",
    // struct rseq_cs: version, flags, start, length, abort.
    ".section .data.rel.ro.forebay_sequence,\"aw\",@progbits",
    ".hidden forebay_sequence_descriptor",
    ".globl forebay_sequence_descriptor",
    ".p2align 5",
    "forebay_sequence_descriptor:",
    ".long 0, 0",
    ".quad forebay_sequence, 2, forebay_sequence_abort",
    ".text",
);

unsafe extern "C" {
    static forebay_sequence_descriptor: u8;
}

/// When a call began and ended, in ticks.
#[derive(Clone, Copy)]
pub struct Period {
    pub before: u64,
    pub after: u64,
}

/// Takes the threshold, and attends to the first calls.
pub fn begin(stall_ticks_min: u64) {
    STALL_TICKS_MIN.store(stall_ticks_min, Relaxed);
    WINDOW.store(WINDOW_MIN, Relaxed);
    TIMED.store(WINDOW_MIN, Relaxed);
}

/// Finds the threads' sequences.
///
/// # Safety
/// The loader's list of objects is complete.
pub unsafe fn find_sequences(headers: ProgramHeaders) {
    // SAFETY: the caller's.
    let Some(loader) = (unsafe { objects::loaded(headers) }).find(|object| object.is_loader()) else {
        return;
    };
    let variable = |name: &CStr| loader.symbol(name);
    let (Some(size), Some(offset)) = (variable(c"__rseq_size"), variable(c"__rseq_offset")) else { return };
    // SAFETY: glibc's variables, an `unsigned int` and a `ptrdiff_t`; the size is 0 where the kernel refused.
    unsafe {
        if *(size as *const u32) != 0 {
            SEQUENCE_OFFSET.store(*(offset as *const usize), Relaxed);
        }
    }
}

/// Ticks above which a call may be a stall.
pub fn stall_ticks_min() -> u64 {
    STALL_TICKS_MIN.load(Relaxed)
}

/// Whether this thread's calls are looked at closely.
#[inline(always)]
pub fn is_on() -> bool {
    TIMED.load(Relaxed) != 0 || sequence().is_none()
}

/// Calls are looked at closely for another while.
pub fn extend() {
    open(TIMED.load(Relaxed), WINDOW.load(Relaxed));
}

/// The next `calls` calls are looked at closely, at least.
pub fn attend(calls: u32) {
    let left = TIMED.load(Relaxed);
    if left < calls {
        open(left, calls);
    }
}

/// The number of this window, in which no call goes by unseen; `None` outside of windows.
pub fn window() -> Option<u32> {
    (TIMED.load(Relaxed) != 0).then(|| WINDOWS.load(Relaxed))
}

/// The window has so many calls left now.
fn open(left: u32, calls: u32) {
    if left == 0 {
        WINDOWS.store(WINDOWS.load(Relaxed).wrapping_add(1), Relaxed);
    }
    TIMED.store(calls, Relaxed);
}

/// Whether so few calls are left of this window, or none.
pub fn is_about_to_lapse(calls: u32) -> bool {
    TIMED.load(Relaxed) < calls
}

/// There was a stall, attended to or not.
pub fn on_stall() {
    if TIMED.load(Relaxed) == 0 {
        WINDOW.store(WINDOW.load(Relaxed).saturating_mul(WINDOW_GROWTH).min(WINDOW_MAX), Relaxed);
    }
    extend();
}

/// One more call was looked at to no end.
#[inline(always)]
pub fn count_down() {
    let left = TIMED.load(Relaxed).saturating_sub(1);
    TIMED.store(left, Relaxed);
    if left == 0 {
        WINDOW.store((WINDOW.load(Relaxed) / 2).max(WINDOW_MIN), Relaxed);
    }
}

/// This thread's pointer to its restartable sequence.
#[inline(always)]
fn sequence() -> Option<*mut usize> {
    let offset = SEQUENCE_OFFSET.load(Relaxed);
    let sequence = thread_pointer().wrapping_add(offset);
    // SAFETY: glibc's structure of this thread.
    let registered = offset != 0 && unsafe { ((sequence + CPU_ID) as *const i32).read_volatile() } >= 0;
    registered.then_some((sequence + CURRENT) as *mut usize)
}

/// Carries the call out; also whether the thread left its processor meanwhile, as far as can be known.
///
/// # Safety
/// The program is making the call.
#[inline(always)]
pub unsafe fn execute(call: &Call) -> (isize, bool) {
    // SAFETY: (all) while a thread is in the kernel, only its signal handlers and the kernel write its pointer, and
    // clear it.
    unsafe {
        let Some(current) = sequence() else { return (call.execute(), true) };
        current.write_volatile(&raw const forebay_sequence_descriptor as usize);
        let result = call.execute();
        let left = current.read_volatile() == 0;
        current.write_volatile(0);
        (result, left)
    }
}

/// Carries the call out; also when it was, if it took so long that it may have stalled.
///
/// # Safety
/// As [`execute`].
#[inline(always)]
pub unsafe fn execute_timed(call: &Call) -> (isize, Option<Period>) {
    let before = ticks();
    // SAFETY: the caller's.
    let (result, left) = unsafe { execute(call) };
    if !left {
        return (result, None);
    }
    let after = ticks();
    (result, (after.wrapping_sub(before) > stall_ticks_min()).then_some(Period { before, after }))
}
