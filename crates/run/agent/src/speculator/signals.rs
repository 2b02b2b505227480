//! Signals of a speculator: a crash ends it, a call of the program's code is emulated, and ticks look after it.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use forebay_policy::price::TICK_US;
use forebay_protocol::layout::End;
use forebay_sigsafe::{general as n, sys};

use super::jail::Refused;
use super::{State, abandoned, end, hints, memory};
use crate::call::Call;

const STACK_BYTES: usize = 64 << 10;

#[repr(C, align(16))]
struct Stack(core::cell::UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: used by the kernel as the speculator's signal stack only. No reference to it is ever made.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(core::cell::UnsafeCell::new([0; STACK_BYTES]));

/// Signals that mean that computing with predicted values went wrong: a crash.
const FATAL: [u32; 5] = [n::SIGSEGV, n::SIGBUS, n::SIGFPE, n::SIGILL, n::SIGTRAP];

/// What the kernel lays out for a handler with `SA_SIGINFO` (ucontext).
#[repr(C)]
struct Context {
    flags: u64,
    link: usize,
    stack: [u64; 3],
    r8: u64,
    r9: u64,
    r10: u64,
    r11_to_r15: [u64; 5],
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    rsp: u64,
    rip: u64,
}

core::arch::global_asm!(
    ".text",
    ".hidden forebay_restore",
    ".globl forebay_restore",
    ".type forebay_restore,@function",
    // Just these bytes, and no unwind information here nor a byte before: so unwinders know a signal's frame.
    "nop",
    "forebay_restore:",
    "mov rax, 15",
    "syscall",
    ".size forebay_restore, . - forebay_restore",
);

unsafe extern "C" {
    fn forebay_restore();
}

/// Address of what a handler returns to.
pub fn restorer() -> usize {
    forebay_restore as *const () as usize
}

/// What `rt_sigaction` takes.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// The restorer's flag, which the kernel's headers leave out.
pub const SA_RESTORER: u64 = 0x0400_0000;

/// # Safety
/// In the speculator.
pub unsafe fn handle() -> Result<(), Refused> {
    let stack = [STACK.0.get() as usize, 0, STACK_BYTES];
    let flags = u64::from(n::SA_SIGINFO | n::SA_ONSTACK) | SA_RESTORER;
    let set = |signal: u32, handler: extern "C" fn(i32, *const u8, *mut Context)| {
        // A tick may take longer than one; the others come while calls of the program are carried out in them.
        let nests = if signal == n::SIGPROF { 0 } else { u64::from(n::SA_NODEFER) };
        let action = Action {
            handler: handler as *const () as usize,
            flags: flags | nests,
            restorer: forebay_restore as *const () as usize,
            mask: 0,
        };
        // SAFETY: the structure is as the kernel wants it, and the handler is of this library.
        unsafe { sys!(n::__NR_rt_sigaction, signal, &raw const action, 0, 8) }
    };
    // SAFETY: the calls read locals; the stack is a static.
    unsafe {
        // Refused within a handler; then the frame that it returns through has the stack (see `adopt_frame`).
        let _ = sys!(n::__NR_sigaltstack, &raw const stack, 0);
        let mut result = 0;
        for signal in FATAL {
            result |= set(signal, on_fatal);
        }
        result |= set(n::SIGSYS, on_call);
        result |= set(n::SIGPROF, on_tick);
        let blocked = blocked();
        result |= sys!(n::__NR_rt_sigprocmask, n::SIG_SETMASK, &raw const blocked, 0, 8);
        if result < 0 || !start_timer() { Err(Refused) } else { Ok(()) }
    }
}

fn start_timer() -> bool {
    let tick = n::__kernel_old_timeval { tv_sec: 0, tv_usec: TICK_US as i64 };
    let timer = [tick, tick];
    // SAFETY: the call reads a local.
    unsafe { sys!(n::__NR_setitimer, n::ITIMER_PROF, &raw const timer, 0) == 0 }
}

/// In a copy of a speculator, which has its jail but not its timer: starts that.
pub fn start_ticking(state: &mut State) -> bool {
    was_busy_otherwise(state);
    super::TOLD_US.store(0, Relaxed);
    start_timer()
}

/// What was spent so far was not the program's.
pub fn was_busy_otherwise(state: &mut State) {
    TICKS_MISSED.store(0, Relaxed);
    state.idleness.restart(state.hints.issued, super::usage().ru_minflt as u64);
}

/// Signals that are none of a speculator's.
fn blocked() -> u64 {
    FATAL
        .into_iter()
        .chain([n::SIGSYS, n::SIGPROF])
        .fold(u64::MAX, |blocked, signal| blocked & !(1 << (signal - 1)))
}

/// Where the kernel keeps the blocked signals in what it lays out for a handler.
const CONTEXT_MASK: usize = 296;
const CONTEXT_STACK: usize = 16;

/// Lets a speculator that was forked in a handler of the original's return from it with its own signal stack and
/// blocked signals.
///
/// # Safety
/// `context` is what the kernel passed to the handler.
pub unsafe fn adopt_frame(context: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        context.add(CONTEXT_MASK).cast::<u64>().write(blocked());
        context.add(CONTEXT_STACK).cast::<[usize; 3]>().write([STACK.0.get() as usize, 0, STACK_BYTES]);
    }
}

extern "C" fn on_fatal(signal: i32, info: *const u8, context: *mut Context) {
    let Some(mut taken) = super::enter() else { super::crash() };
    let state = &mut *taken;
    if signal == n::SIGBUS as i32 {
        // SAFETY: the kernel passes what it knows of the fault, with the address behind three words and padding, and the
        // interrupted registers.
        let (address, place) = unsafe { (info.add(16).cast::<usize>().read(), (*context).rip) };
        if memory::fill(state, address, place as usize) {
            catch_up(state);
            return;
        }
    }
    end(state, End::Signal);
}

/// A call that came from elsewhere than a patched site, or from one that leaves the call to its stub.
extern "C" fn on_call(_signal: i32, _info: *const u8, context: *mut Context) {
    // SAFETY: the kernel passes the interrupted registers.
    unsafe {
        let context = &mut *context;
        let arguments = [context.rdi, context.rsi, context.rdx, context.r10, context.r8, context.r9];
        let call = Call::new(context.rax as usize, arguments.map(|word| word as usize), context.rip as usize);
        context.rax = super::call(&call) as u64;
    }
}

/// Ticks that came while an entry had the state.
static TICKS_MISSED: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_tick(_signal: i32, _info: *const u8, _context: *mut Context) {
    match super::enter() {
        Some(mut state) => tick(&mut state),
        None => {
            TICKS_MISSED.fetch_add(1, Relaxed);
        }
    }
}

/// An entry is through: the ticks that came meanwhile are its.
pub fn catch_up(state: &mut State) {
    while TICKS_MISSED.load(Relaxed) > 0 {
        TICKS_MISSED.fetch_sub(1, Relaxed);
        tick(state);
    }
}

fn tick(state: &mut State) {
    if abandoned(state) || !hints::original_lives(state) {
        end(state, End::Abandoned);
    }
    let usage = super::usage();
    super::tell_processor_time(state.slot, &usage);
    memory::keep_in_bounds(state, &usage);
    let is_catching_up = memory::is_catching_up(state);
    if state.idleness.on_tick(state.hints.issued, usage.ru_minflt as u64, is_catching_up) {
        end(state, End::Cpu);
    }
}
