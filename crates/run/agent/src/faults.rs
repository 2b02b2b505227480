//! Signals at page faults of the original that waited for a device.
//!
//! After each such fault the kernel sends the thread a signal, from an event that the supervisor opens (its `faults.rs`) once
//! there are some. A program with less than [`BYTES_MIN`] of memory gets no event. Which threads can be told of their faults:
//! [`fault_threads`].
//!
//! The signal is SIGURG, which the kernel ignores where its handler is gone. A program that handles SIGURG itself gets it, and
//! faults go unnoticed. The program sees neither the agent's handler nor the stack of that handler.
//!
//! A blocked signal would be pending: `sigpending`, `sigtimedwait`, a signalfd and calls that open the mask would show it. So
//! there is no event of a thread that has blocked SIGURG once: its mask of that moment may return in many ways. Where the main
//! thread has, there is none of the process: a signal of the program's own could be meant to wait for that thread.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use forebay_policy::price::{FAULTED_BYTES_MIN, MAPPED_FILE_BYTES_MIN};
use forebay_protocol::layout::{Header, WISH_NEVER};
use forebay_sigsafe::{general as n, sys};

use crate::call::Call;
use crate::fault_signal::{Action, Blocked, NO_ACTION, SIGNAL};
use crate::snapshot::Spawned;
use crate::{
    environment, fault_signal, fault_threads, fault_watch, original, process, role, session, speculator,
};

/// What the kernel says of a signal that a descriptor caused (siginfo's `si_code`).
const POLL_IN: i32 = 1;
const ARCH_GET_FS: u32 = 0x1003;
/// Memory of a process that is worth the trouble.
const BYTES_MIN: usize = FAULTED_BYTES_MIN as usize;

/// Memory that the program has, mapped or in its heap, until it is enough.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// End of the heap, as the program knows it.
static HEAP_END: AtomicUsize = AtomicUsize::new(0);

/// `mmap`, `mremap` and `brk` of the program.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn memory_call(call: &Call) -> isize {
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    if MAPPED.load(Ordering::Relaxed) < BYTES_MIN && result > 0 {
        let [_, length, third, flags, ..] = call.arguments;
        let bytes = match call.number as u32 {
            n::__NR_mmap if third as u32 & (n::PROT_READ | n::PROT_EXEC) != n::PROT_READ => 0,
            n::__NR_mmap if flags as u32 & n::MAP_ANONYMOUS != 0 => length,
            n::__NR_mmap => length.max(MAPPED_FILE_BYTES_MIN),
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
    fault_threads::join();
    result
}

/// There will be no signals: calls of the program on them would not be seen.
pub fn rule_out() {
    MAPPED.store(BYTES_MIN, Ordering::Relaxed);
}

/// The program starts, with so much memory.
///
/// # Safety
/// The program's only thread calls.
pub unsafe fn begin_program(bytes: usize) {
    fault_signal::note_blocked(Blocked::now() != Blocked::No);
    fault_threads::reserve();
    // SAFETY: the caller's.
    unsafe { begin_if_large(bytes) };
}

/// Begins when the program has `more` memory, and enough with that.
///
/// # Safety
/// A thread of the program calls.
unsafe fn begin_if_large(more: usize) {
    let bytes = MAPPED.load(Ordering::Relaxed).saturating_add(more);
    if bytes >= BYTES_MIN {
        let Some(header) = session::header() else { return };
        if !original::may_ever_speculate(header) || process::is_vfork_child() {
            return;
        }
        if fault_signal::was_ever_blocked() && !process::is_main_thread() {
            // The main thread, which alone knows its mask, will come by.
            return;
        }
        if MAPPED.swap(bytes, Ordering::Relaxed) >= BYTES_MIN {
            // Another thread has begun just now.
            return;
        }
        // SAFETY: the caller's.
        unsafe { begin(header, process::id()) };
    }
    MAPPED.store(bytes, Ordering::Relaxed);
}

/// Wishes for signals, if the program can do without them.
///
/// # Safety
/// A thread of the program calls: the main one, or none has ever blocked the signal.
unsafe fn begin(header: &Header, process: u32) {
    // SAFETY: (all) the calls read and fill locals.
    unsafe {
        let mut action = MaybeUninit::<Action>::zeroed();
        if sys!(n::__NR_rt_sigaction, SIGNAL, 0, action.as_mut_ptr(), 8) < 0
            || ![0, handler()].contains(&action.assume_init().handler)
            || Blocked::now() != Blocked::No
        {
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
            fault_watch::begin(header, index, entry);
            let _ = fault_threads::join_anew();
        }
    }
}

/// A forked child has no events and needs an entry of its own, if its parent had one.
pub fn begin_forked_child(header: &Header, process: u32) {
    if !fault_watch::forget() {
        return;
    }
    fault_threads::begin_forked_child();
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

/// Whether the thread has the pointer that it joined with: a program may use the register for something else meanwhile.
fn is_own_thread_pointer() -> bool {
    let mut pointer = 0usize;
    // SAFETY: the call writes to a local.
    let result = unsafe { sys!(n::__NR_arch_prctl, ARCH_GET_FS, &raw mut pointer) };
    result == 0 && fault_threads::has(pointer)
}

extern "C" fn on_signal(_signal: i32, info: *const i32, context: *mut u8) {
    // SAFETY: the kernel passes the reason in the third word of the information, and the interrupted registers.
    unsafe {
        if info.add(2).read() == POLL_IN
            && role::is_original()
            && is_own_thread_pointer()
            && original::on_fault() == Some(Spawned::Speculator)
        {
            speculator::adopt_frame(context);
        }
    }
}

/// Calls of the program on its signals: it shall not see what we did to them.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn signal_call(call: &Call) -> isize {
    // SAFETY: (all arms) the caller's.
    unsafe {
        match call.number as u32 {
            n::__NR_sigaltstack => fault_threads::stack_call(call),
            n::__NR_rt_sigprocmask => mask_call(call),
            _ if !fault_watch::is_on() => call.execute(),
            _ => action_call(call),
        }
    }
}

/// # Safety
/// The program is making `call`, an `rt_sigprocmask`.
unsafe fn mask_call(call: &Call) -> isize {
    let [how, new, old, ..] = call.arguments;
    let may_block = new != 0 && how as u32 != n::SIG_UNBLOCK;
    if !fault_watch::is_on() {
        // SAFETY: the caller's.
        let result = unsafe { call.execute() };
        // SAFETY: what the kernel has just read can be read.
        let set = || unsafe { (new as *const u64).read_unaligned() };
        if may_block && result == 0 && (new == old || Blocked::by(set()) == Blocked::ByProgram) {
            fault_signal::note_blocked(true);
        }
        return result;
    }
    // While the signal is not pending yet.
    if may_block && asks_to_block(new) && !process::is_vfork_child() {
        fault_signal::note_blocked(true);
        if process::is_main_thread() {
            // SAFETY: the caller's.
            unsafe { withdraw() };
        } else {
            fault_threads::leave();
        }
    }
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    fault_threads::join();
    result
}

/// Whether the signal is in a set of the program's.
fn asks_to_block(set: usize) -> bool {
    let mut bytes = [0u8; 8];
    environment::peek(set, &mut bytes) == Some(bytes.len())
        && Blocked::by(u64::from_ne_bytes(bytes)) == Blocked::ByProgram
}

/// # Safety
/// The program is making `call`, an `rt_sigaction`.
unsafe fn action_call(call: &Call) -> isize {
    let [signal, new, ..] = call.arguments;
    // SAFETY: (all) the caller's.
    unsafe {
        if signal as u32 != SIGNAL {
            let result = call.execute();
            // A vfork child has handlers of its own.
            let fits = || fault_signal::has_room(fault_threads::smallest_room());
            if result == 0 && new != 0 && !fits() && !process::is_vfork_child() {
                withdraw();
            }
            return result;
        }
        if new != 0 && !process::is_vfork_child() {
            withdraw();
        }
        executed_action_call(call)
    }
}

/// Makes an `rt_sigaction`, and shows the program no handler of the agent's.
///
/// # Safety
/// The program is making `call`.
unsafe fn executed_action_call(call: &Call) -> isize {
    let [signal, _, old, ..] = call.arguments;
    // SAFETY: (all) the caller's; what the kernel has written can be written again.
    unsafe {
        let result = call.execute();
        let shows = || (old as *const Action).read().handler == handler();
        if signal as u32 == SIGNAL && result == 0 && old != 0 && shows() {
            (old as *mut Action).write(NO_ACTION);
        }
        result
    }
}

/// A call of a process on its signals that is told of no faults, and may have a handler and a stack from one that is: itself
/// earlier, or its parent.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn bystander_call(call: &Call) -> isize {
    // SAFETY: (all arms) the caller's.
    unsafe {
        match call.number as u32 {
            n::__NR_sigaltstack => fault_threads::stack_call(call),
            n::__NR_rt_sigaction => executed_action_call(call),
            _ => call.execute(),
        }
    }
}

/// Gives the signal back to the program, when the supervisor causes none.
unsafe fn withdraw() {
    let Some(entry) = fault_watch::entry() else { return };
    entry.wish.store(WISH_NEVER, Ordering::SeqCst);
    fault_watch::wait_until(|| entry.open.load(Ordering::SeqCst) == 0);
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
