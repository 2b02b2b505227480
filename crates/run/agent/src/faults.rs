//! Signals at page faults of the original that waited for a device.
//!
//! After each such fault the kernel sends the main thread a signal, from an event that the supervisor opens (its `faults.rs`)
//! once there are some. A program with less than [`BYTES_MIN`] of memory gets no event.
//!
//! The signal is SIGURG, which the kernel ignores where its handler is gone. A program that handles SIGURG itself gets it, and
//! faults go unnoticed. The program sees neither the agent's handler nor the stack of that handler.
//!
//! A blocked signal would be pending: `sigpending`, `sigtimedwait`, a signalfd and calls that open the mask would show it. So
//! there is no event of a thread that has blocked SIGURG once: its mask of that moment may return in many ways.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use forebay_protocol::layout::{Header, WISH_NEVER};
use forebay_sigsafe::{general as n, sys};

use crate::call::Call;
use crate::snapshot::Spawned;
use crate::{environment, fault_watch, original, process, role, session, speculator};

const SIGNAL: u32 = n::SIGURG;
/// What the kernel says of a signal that a descriptor caused (siginfo's `si_code`).
const POLL_IN: i32 = 1;
const STACK_BYTES: usize = 32 << 10;
/// What the program's alternate stack must have, so that our signal fits besides a handler of the program's that runs
/// there (each has a frame of 3 KiB and more), and so that it fits where only handlers do that end the program.
const ROOM_BYTES_MIN: usize = 24 << 10;
const ROOM_ALONE_BYTES_MIN: usize = 8 << 10;
const SIGNALS: u32 = 64;
const SS_DISABLE: i32 = 2;
const SIG_IGNORE: usize = 1;
const ARCH_GET_FS: u32 = 0x1003;
/// How long the supervisor gets to take its event back.
const CLOSE_PAUSES_MAX: u32 = 10_000;
/// Memory that is worth the trouble.
const BYTES_MIN: usize = 16 << 20;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: used by the kernel as the main thread's signal stack only. No reference to it is ever made.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(UnsafeCell::new([0; STACK_BYTES]));
/// Memory that the program has, mapped or in its heap, until it is enough.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// End of the heap, as the program knows it.
static HEAP_END: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the main thread's alternate stack.
static ROOM: AtomicUsize = AtomicUsize::new(0);
/// Of the main thread.
static THREAD_POINTER: AtomicUsize = AtomicUsize::new(0);

/// What `rt_sigaction` takes.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

const NO_ACTION: Action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };

/// What `sigaltstack` takes.
#[repr(C)]
struct SignalStack {
    address: usize,
    flags: i32,
    size: usize,
}

/// `mmap`, `mremap` and `brk` of the program.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn memory_call(call: &Call) -> isize {
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    if MAPPED.load(Ordering::Relaxed) < BYTES_MIN && result > 0 {
        let [_, length, third, ..] = call.arguments;
        let bytes = match call.number as u32 {
            n::__NR_mmap if third as u32 & (n::PROT_READ | n::PROT_EXEC) == n::PROT_READ => length,
            n::__NR_mremap => third.saturating_sub(length),
            n::__NR_brk => {
                let before = HEAP_END.swap(result as usize, Ordering::Relaxed);
                if before == 0 { 0 } else { (result as usize).saturating_sub(before) }
            }
            _ => 0,
        };
        // SAFETY: the caller's.
        unsafe { begin_if_large(bytes) };
    }
    result
}

/// There will be no signals: calls of the program on them would not be seen.
pub fn rule_out() {
    MAPPED.store(BYTES_MIN, Ordering::Relaxed);
}

/// Begins when the program has `more` memory, and enough with that.
///
/// # Safety
/// A thread of the program calls.
pub unsafe fn begin_if_large(more: usize) {
    let bytes = MAPPED.load(Ordering::Relaxed).saturating_add(more);
    if bytes >= BYTES_MIN {
        let Some(header) = session::header() else { return };
        if !original::may_ever_speculate(header) {
            return;
        }
        // SAFETY: no arguments.
        let (process, thread) = unsafe { (sys!(n::__NR_getpid), sys!(n::__NR_gettid)) };
        if process != thread || process::is_vfork_child() {
            // The main thread will come by.
            return;
        }
        // SAFETY: this is it.
        unsafe { begin(header, process as u32) };
    }
    MAPPED.store(bytes, Ordering::Relaxed);
}

/// Wishes for signals, if the program's main thread can handle them.
///
/// # Safety
/// The main thread calls.
unsafe fn begin(header: &Header, process: u32) {
    // SAFETY: (all) the calls read and fill locals, and the stack is a static.
    unsafe {
        let mut action = MaybeUninit::<Action>::zeroed();
        if sys!(n::__NR_rt_sigaction, SIGNAL, 0, action.as_mut_ptr(), 8) < 0
            || ![0, handler()].contains(&action.assume_init().handler)
            || is_blocked()
        {
            return;
        }
        if !offer_stack() {
            return;
        }
        let Some((index, entry)) = fault_watch::claim(header, process) else { return };
        let action = Action {
            handler: handler(),
            flags: u64::from(n::SA_SIGINFO | n::SA_ONSTACK | n::SA_RESTART) | speculator::SA_RESTORER,
            restorer: speculator::restorer(),
            mask: u64::MAX,
        };
        if sys!(n::__NR_rt_sigaction, SIGNAL, &raw const action, 0, 8) == 0 {
            THREAD_POINTER.store(forebay_sigsafe::thread_pointer(), Ordering::Relaxed);
            fault_watch::begin(index, entry);
        }
    }
}

/// Sees to it that there is a stack for the signal: ours, where the program has none of its own. Whether it has room
/// enough.
///
/// # Safety
/// The main thread calls.
unsafe fn offer_stack() -> bool {
    // SAFETY: (all) the calls read and fill locals, and the stack is a static.
    unsafe {
        let mut stack = MaybeUninit::<SignalStack>::zeroed();
        if sys!(n::__NR_sigaltstack, 0, stack.as_mut_ptr()) < 0 {
            return false;
        }
        let stack = stack.assume_init();
        let mut room = stack.size;
        if stack.flags & SS_DISABLE != 0 {
            let own = SignalStack { address: STACK.0.get() as usize, flags: 0, size: STACK_BYTES };
            if sys!(n::__NR_sigaltstack, &raw const own, 0) < 0 {
                return false;
            }
            room = STACK_BYTES;
        }
        ROOM.store(room, Ordering::Relaxed);
    }
    has_room()
}

/// Whether the signal fits on the main thread's alternate stack, whatever else runs there.
fn has_room() -> bool {
    let room = ROOM.load(Ordering::Relaxed);
    room >= ROOM_BYTES_MIN || (room >= ROOM_ALONE_BYTES_MIN && !handlers_return_to_stack())
}

/// Whether a handler of the program's runs on the alternate stack that may return: one of a signal that is not a fault.
fn handlers_return_to_stack() -> bool {
    (1..=SIGNALS).any(|signal| {
        let mut action = MaybeUninit::<Action>::zeroed();
        // SAFETY: the call fills a local, whose zeroes are valid too.
        let action = unsafe {
            let _ = sys!(n::__NR_rt_sigaction, signal, 0, action.as_mut_ptr(), 8);
            action.assume_init()
        };
        action.handler > SIG_IGNORE
            && action.handler != handler()
            && action.flags & u64::from(n::SA_ONSTACK) != 0
            && ![n::SIGSEGV, n::SIGBUS, n::SIGILL, n::SIGFPE].contains(&signal)
    })
}

/// A forked child has no events and needs an entry of its own, if its parent had one.
pub fn begin_forked_child(header: &Header, process: u32) {
    if !fault_watch::forget() {
        return;
    }
    // SAFETY: a forked child has one thread, which is its main one.
    unsafe {
        if original::may_ever_speculate(header) {
            begin(header, process);
        } else {
            give_signal_back();
        }
    }
}

fn handler() -> usize {
    on_signal as *const () as usize
}

/// Whether the main thread has the pointer that it began with: a program may use the register for something else meanwhile.
fn is_own_thread_pointer() -> bool {
    let mut pointer = 0usize;
    // SAFETY: the call writes to a local.
    let result = unsafe { sys!(n::__NR_arch_prctl, ARCH_GET_FS, &raw mut pointer) };
    result == 0 && pointer == THREAD_POINTER.load(Ordering::Relaxed)
}

extern "C" fn on_signal(_signal: i32, info: *const i32, context: *mut u8) {
    // SAFETY: the kernel passes the reason in the third word of the information, and the interrupted registers.
    unsafe {
        if info.add(2).read() == POLL_IN
            && is_own_thread_pointer()
            && role::is_original()
            && original::on_fault() == Some(Spawned::Speculator)
        {
            speculator::adopt_frame(context);
        }
    }
}

/// Whether the calling thread blocks the signal.
fn is_blocked() -> bool {
    let mut mask = u64::MAX;
    // SAFETY: the call writes to a local.
    let _ = unsafe { sys!(n::__NR_rt_sigprocmask, n::SIG_BLOCK, 0, &raw mut mask, 8) };
    mask & bit(SIGNAL) != 0
}

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Calls of the program on its signals: it shall not see what we did to them.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn signal_call(call: &Call) -> isize {
    // SAFETY: (all arms) the caller's.
    unsafe {
        match call.number as u32 {
            n::__NR_sigaltstack => stack_call(call),
            _ if !fault_watch::is_on() => call.execute(),
            n::__NR_rt_sigprocmask => mask_call(call),
            _ => action_call(call),
        }
    }
}

/// Whether this is the main thread of the process that the state here is of. Other threads have stacks and masks of their own.
fn is_main() -> bool {
    process::is_main_thread() && !process::is_vfork_child()
}

/// # Safety
/// The program is making `call`, a `sigaltstack`.
unsafe fn stack_call(call: &Call) -> isize {
    let [new, old, ..] = call.arguments;
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    // SAFETY: (all) what the kernel has written can be written again.
    unsafe {
        if result == 0 && new != 0 && fault_watch::is_on() && is_main() && !offer_stack() {
            withdraw();
        }
        let old = old as *mut SignalStack;
        if result == 0 && !old.is_null() && (*old).address == STACK.0.get() as usize {
            old.write(SignalStack { address: 0, flags: SS_DISABLE, size: 0 });
        }
    }
    result
}

/// # Safety
/// The program is making `call`, an `rt_sigprocmask`.
unsafe fn mask_call(call: &Call) -> isize {
    let [how, new, ..] = call.arguments;
    // While the signal is not pending yet.
    if new != 0 && how as u32 != n::SIG_UNBLOCK && asks_to_block(new) && is_main() {
        // SAFETY: the caller's.
        unsafe { withdraw() };
    }
    // SAFETY: the caller's.
    unsafe { call.execute() }
}

/// Whether the signal is in a set of the program's. libc blocks all for itself at times, and gives the program no occasion to
/// see one: its sets have signals that no program can block through it.
fn asks_to_block(set: usize) -> bool {
    const OF_LIBC: u64 = bit(32) | bit(33);
    let mut bytes = [0u8; 8];
    if environment::peek(set, &mut bytes) != Some(bytes.len()) {
        return false;
    }
    let set = u64::from_ne_bytes(bytes);
    set & bit(SIGNAL) != 0 && set & OF_LIBC != OF_LIBC
}

/// # Safety
/// The program is making `call`, an `rt_sigaction`.
unsafe fn action_call(call: &Call) -> isize {
    let [signal, new, old, ..] = call.arguments;
    // SAFETY: (all) the caller's; what the kernel has written can be written again, and what it has read be read.
    unsafe {
        if signal as u32 != SIGNAL {
            let result = call.execute();
            // A vfork child has handlers of its own.
            if result == 0 && new != 0 && !has_room() && !process::is_vfork_child() {
                withdraw();
            }
            return result;
        }
        if new != 0 {
            if !process::is_vfork_child() {
                withdraw();
            }
            return call.execute();
        }
        let result = call.execute();
        if result == 0 && old != 0 && (old as *const Action).read().handler == handler() {
            (old as *mut Action).write(NO_ACTION);
        }
        result
    }
}

/// Gives the signal back to the program, when the supervisor causes none.
unsafe fn withdraw() {
    let Some(entry) = fault_watch::entry() else { return };
    entry.wish.store(WISH_NEVER, Ordering::SeqCst);
    for paused in 0..CLOSE_PAUSES_MAX {
        if entry.open.load(Ordering::SeqCst) == 0 {
            break;
        }
        if paused == 0 {
            let _ = session::wake_supervisor();
        }
        process::pause();
    }
    // SAFETY: the caller's.
    unsafe { give_signal_back() };
    let _ = fault_watch::forget();
}

/// The program finds the signal as it was.
unsafe fn give_signal_back() {
    let none = NO_ACTION;
    // SAFETY: the call reads a local.
    let _ = unsafe { sys!(n::__NR_rt_sigaction, SIGNAL, &raw const none, 0, 8) };
}
