//! Threads of the original that can be told of their page faults: each has a stack for the signal.
//!
//! A thread *joins* when it starts, or at a later call that the agent looks at. From then on the supervisor may cause signals.
//! A thread whose mask has the signal does not join, and one that asks to block it leaves for good.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use forebay_protocol::layout::{WATCHED_THREADS, WatchedThread};
use forebay_sigsafe::{general as n, sys, thread_pointer};

use crate::call::Call;
use crate::fault_signal::{self, Blocked};
use crate::{fault_watch, process, role};

/// Handlers of the program's that ask for an alternate stack run here, too, in a thread that has none of its own: report that it
/// crashes, for example, and look up symbols for it.
const STACK_BYTES: usize = 256 << 10;
/// Below each stack. What overflows faults there, as it would at the end of the program's stack.
const GUARD_BYTES: usize = 4096;
const EACH_BYTES: usize = GUARD_BYTES + STACK_BYTES;
const SS_DISABLE: i32 = 2;
/// Places that a thread may have.
const PROBES: usize = 4;

/// What a thread has that is told of its faults.
struct Place {
    /// Its id; 0 for a free place.
    thread: AtomicU32,
    /// Its thread pointer, which tells it from the others of the process.
    pointer: AtomicUsize,
}

static PLACES: [Place; WATCHED_THREADS] =
    [const { Place { thread: AtomicU32::new(0), pointer: AtomicUsize::new(0) } }; WATCHED_THREADS];

/// Thread pointers of some that did not join: there is no need to find out again why.
static REFUSED: [AtomicUsize; WATCHED_THREADS] = [const { AtomicUsize::new(0) }; WATCHED_THREADS];

/// Tells users of a place apart.
static JOINED: AtomicU32 = AtomicU32::new(0);
/// Where the first place's stack and its guard are; 0 where there is no room for stacks.
static STACKS: AtomicUsize = AtomicUsize::new(0);
/// The places whose stacks may be used, a bit each.
static USABLE: AtomicU32 = AtomicU32::new(0);
/// No more stacks may be used than these.
static ARE_STACKS_FIXED: AtomicBool = AtomicBool::new(false);
/// Bytes of the smallest stack that the signal may come on.
static ROOM: AtomicUsize = AtomicUsize::new(usize::MAX);

/// What `sigaltstack` takes.
#[repr(C)]
struct SignalStack {
    address: usize,
    flags: i32,
    size: usize,
}

/// Bytes of the smallest stack that the signal may come on.
pub fn smallest_room() -> usize {
    ROOM.load(Ordering::Relaxed)
}

/// Reserves addresses for stacks. The image begins: later the program may count on what is free between its mappings.
pub fn reserve() {
    let flags = n::MAP_PRIVATE | n::MAP_ANONYMOUS | n::MAP_NORESERVE;
    // SAFETY: the mapping is new, and no reference to it is ever made.
    let stacks =
        unsafe { sys!(n::__NR_mmap, 0, WATCHED_THREADS * EACH_BYTES, n::PROT_NONE, flags, usize::MAX, 0) };
    STACKS.store(stacks.max(0) as usize, Ordering::Relaxed);
}

/// Bytes of addresses that are reserved for stacks.
pub fn reserved_bytes() -> usize {
    if STACKS.load(Ordering::Relaxed) == 0 { 0 } else { WATCHED_THREADS * EACH_BYTES }
}

/// Bytes of the stacks that may be used: no more than these from now on.
pub fn fix_bytes() -> usize {
    ARE_STACKS_FIXED.store(true, Ordering::Relaxed);
    USABLE.load(Ordering::Relaxed).count_ones() as usize * STACK_BYTES
}

/// More stacks may be used, after all.
pub fn free_bytes() {
    ARE_STACKS_FIXED.store(false, Ordering::Relaxed);
}

/// The lowest address of a place's stack, which is usable from now on.
fn stack_of(place: usize) -> Option<usize> {
    const { assert!(WATCHED_THREADS <= u32::BITS as usize) };
    let stacks = STACKS.load(Ordering::Relaxed);
    if stacks == 0 {
        return None;
    }
    let stack = stacks + place * EACH_BYTES + GUARD_BYTES;
    let bit = 1 << (place % WATCHED_THREADS);
    if USABLE.load(Ordering::Relaxed) & bit != 0 {
        return Some(stack);
    }
    if ARE_STACKS_FIXED.load(Ordering::Relaxed) {
        return None;
    }
    USABLE.fetch_or(bit, Ordering::Relaxed);
    let protection = n::PROT_READ | n::PROT_WRITE;
    // SAFETY: the addresses are reserved for that, and no reference to them is ever made.
    let is_usable = unsafe { sys!(n::__NR_mprotect, stack, STACK_BYTES, protection) == 0 };
    if !is_usable {
        USABLE.fetch_and(!bit, Ordering::Relaxed);
    }
    is_usable.then_some(stack)
}

/// Whether a stack that begins there is the agent's.
fn is_ours(address: usize) -> bool {
    let stacks = STACKS.load(Ordering::Relaxed);
    stacks != 0 && (stacks..stacks + WATCHED_THREADS * EACH_BYTES).contains(&address)
}

/// Where a thread with this pointer may have its place. Pointers lie as far apart as stacks.
fn probes(pointer: usize) -> impl Iterator<Item = usize> {
    const { assert!(WATCHED_THREADS.is_power_of_two()) };
    let mixed = (pointer >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = mixed >> (usize::BITS - WATCHED_THREADS.trailing_zeros());
    (0..PROBES).map(move |step| (first + step) % WATCHED_THREADS)
}

/// Whether a thread with this pointer has a stack for the signal.
pub fn has(pointer: usize) -> bool {
    place_of(pointer).is_some()
}

/// The place of the thread with this pointer.
fn place_of(pointer: usize) -> Option<usize> {
    let has = |place: &Place| place.pointer.load(Ordering::Relaxed) == pointer;
    probes(pointer).find(|&index| pointer != 0 && PLACES.get(index).is_some_and(has))
}

/// The place of the calling thread, and its name there, if it has joined.
pub fn own() -> Option<(usize, u64)> {
    let place = place_of(thread_pointer())?;
    let name = fault_watch::threads()?.get(place)?.ready.load(Ordering::Relaxed);
    (name != 0).then_some((place, name))
}

/// In a forked child, which has one thread: that may have one of the stacks, and needs a word of its own in the header.
pub fn begin_forked_child() {
    let own = thread_pointer();
    for place in PLACES.iter().filter(|place| place.pointer.load(Ordering::Relaxed) != own) {
        place.thread.store(0, Ordering::Relaxed);
        place.pointer.store(0, Ordering::Relaxed);
    }
    REFUSED.iter().for_each(|refused| refused.store(0, Ordering::Relaxed));
    ROOM.store(usize::MAX, Ordering::Relaxed);
}

/// The calling thread has just started, and libc blocks its signals for a moment more. Its mask will be that of the thread that
/// started it, which has the signal only where some thread has ever blocked it.
pub fn begin_thread() {
    let Some(threads) = fault_watch::threads() else { return };
    if !fault_signal::was_ever_blocked() {
        let _ = join_anew();
        return;
    }
    // A thread that has ended may have had the same pointer.
    let pointer = thread_pointer();
    set_refused(pointer, false);
    if let Some(index) = place_of(pointer)
        && let (Some(place), Some(watched)) = (PLACES.get(index), threads.get(index))
    {
        watched.ready.store(0, Ordering::SeqCst);
        place.pointer.store(0, Ordering::Relaxed);
        place.thread.store(0, Ordering::Release);
    }
}

/// The calling thread joins, unless it has done so or cannot.
#[inline(always)]
pub fn join() {
    if fault_watch::is_on() && place_of(thread_pointer()).is_none() {
        join_if_possible();
    }
}

#[cold]
#[inline(never)]
fn join_if_possible() {
    let pointer = thread_pointer();
    if is_refused(pointer) || !process::is_own() {
        return;
    }
    let is_refused = match Blocked::now() {
        Blocked::No => !join_anew(),
        Blocked::ByLibc => false,
        Blocked::ByProgram => true,
    };
    set_refused(pointer, is_refused);
}

fn refused(pointer: usize) -> Option<&'static AtomicUsize> {
    probes(pointer).next().and_then(|first| REFUSED.get(first))
}

fn is_refused(pointer: usize) -> bool {
    refused(pointer).is_some_and(|refused| refused.load(Ordering::Relaxed) == pointer)
}

fn set_refused(pointer: usize, is_refused: bool) {
    if let Some(refused) = refused(pointer) {
        refused.store(if is_refused { pointer } else { 0 }, Ordering::Relaxed);
    }
}

/// The calling thread, which does not block the signal, joins, whatever had its thread pointer before. Whether there was a place.
pub fn join_anew() -> bool {
    let Some(threads) = fault_watch::threads() else { return false };
    let Some((place, thread, watched)) = take_place(threads) else { return false };
    if offer_stack(place) {
        let number = JOINED.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        watched.ready.store(u64::from(number) << 32 | u64::from(thread), Ordering::SeqCst);
    }
    true
}

/// The calling thread, whose place this is, has a stack for the signal: that of the place, where the program has none for it.
/// Whether the signal fits there, whatever else runs there.
fn offer_stack(place: usize) -> bool {
    let mut stack = MaybeUninit::<SignalStack>::zeroed();
    // SAFETY: (all) the calls read and fill locals, and the stack is the place's, and so the calling thread's.
    unsafe {
        if sys!(n::__NR_sigaltstack, 0, stack.as_mut_ptr()) < 0 {
            return false;
        }
        let mut stack = stack.assume_init();
        if stack.flags & SS_DISABLE != 0 {
            let Some(address) = stack_of(place) else { return false };
            stack = SignalStack { address, flags: 0, size: STACK_BYTES };
            if sys!(n::__NR_sigaltstack, &raw const stack, 0) < 0 {
                return false;
            }
        }
        let fits = fault_signal::has_room(stack.size);
        if fits {
            ROOM.fetch_min(stack.size, Ordering::Relaxed);
        }
        fits
    }
}

/// The program's `sigaltstack`: it shall not see a stack of the agent's.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn stack_call(call: &Call) -> isize {
    let [new, old, ..] = call.arguments;
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    if result != 0 {
        return result;
    }
    if new != 0
        && fault_watch::is_on()
        && role::is_original()
        && process::is_own()
        && place_of(thread_pointer()).is_some_and(|place| !offer_stack(place))
    {
        leave();
    }
    let old = old as *mut SignalStack;
    // SAFETY: what the kernel has written can be written again.
    unsafe {
        if !old.is_null() && is_ours((*old).address) {
            old.write(SignalStack { address: 0, flags: SS_DISABLE, size: 0 });
        }
    }
    result
}

/// A place for the calling thread: that which it has, or a free one, or one of a thread that has ended. The place, and the thread's
/// id.
fn take_place(
    threads: &'static [WatchedThread; WATCHED_THREADS],
) -> Option<(usize, u32, &'static WatchedThread)> {
    let pointer = thread_pointer();
    // SAFETY: no arguments.
    let thread = unsafe { sys!(n::__NR_gettid) as u32 };
    let own = place_of(pointer);
    for index in own.into_iter().chain(probes(pointer)) {
        let (Some(place), Some(watched)) = (PLACES.get(index), threads.get(index)) else { continue };
        let before = place.thread.load(Ordering::Relaxed);
        let is_free = before == 0 || own == Some(index) || !is_alive(before);
        if is_free
            && place.thread.compare_exchange(before, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            watched.ready.store(0, Ordering::SeqCst);
            place.pointer.store(pointer, Ordering::Relaxed);
            return Some((index, thread, watched));
        }
    }
    None
}

/// The calling thread is told of no more faults.
#[cold]
#[inline(never)]
pub fn leave() {
    let pointer = thread_pointer();
    let Some(index) = place_of(pointer) else {
        // Nor later, at another call.
        set_refused(pointer, true);
        return;
    };
    let Some(watched) = fault_watch::threads().and_then(|threads| threads.get(index)) else { return };
    if watched.ready.swap(0, Ordering::SeqCst) != 0 {
        fault_watch::wait_until(|| watched.open.load(Ordering::SeqCst) == 0);
    }
}

fn is_alive(thread: u32) -> bool {
    // SAFETY: signal 0 has no effect.
    unsafe { sys!(n::__NR_tgkill, process::original(), thread, 0) == 0 }
}
