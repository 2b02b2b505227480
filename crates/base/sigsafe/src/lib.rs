//! What a signal handler, the agent or a forked child may call: system calls, the time-stamp counter, and a few
//! helpers over raw memory. [`turn`] and [`handover`] hold state that threads share with signal handlers. No allocation, no
//! libc, no waiting for locks, no formatting, no panics.
//!
//! # Safety
//!
//! [`syscall`] passes its arguments to the kernel as they are, so the caller must justify every pointer. The wrappers
//! with typed arguments are safe where the kernel cannot write to memory through them.
#![no_std]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub use linux_raw_sys::{elf, errno, general, landlock, net, prctl, system};

pub mod ioctl;

pub mod call;
pub mod handover;
pub mod memory;
pub mod path;
pub mod text;
pub mod turn;

pub use call::syscall;

/// The time-stamp counter.
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it has no effect on memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The calling thread's pointer to its control block, which names the thread within the process.
#[must_use]
#[inline]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the x86-64 ABI keeps the thread control block's own address in its first word.
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

/// Whether each instruction of this thread traps (the processor's trap flag). So it does in what the thread forks.
#[must_use]
pub fn is_stepped() -> bool {
    const TRAP_FLAG: u64 = 1 << 8;
    forebay_flags() & TRAP_FLAG != 0
}

unsafe extern "C" {
    /// The processor's flags.
    safe fn forebay_flags() -> u64;
}

// A push within a function of the compiler's would be unknown to unwinders.
core::arch::global_asm!(
    ".text",
    ".hidden forebay_flags",
    ".globl forebay_flags",
    ".type forebay_flags,@function",
    "forebay_flags:",
    ".cfi_startproc",
    "pushfq",
    ".cfi_adjust_cfa_offset 8",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size forebay_flags, . - forebay_flags",
);
