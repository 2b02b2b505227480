//! The library that `forebay run` preloads into a program.
//!
//! In the program itself (role *original*) it lets every system call through verbatim, exactly once, and notices
//! the ones that wait for a device. At such a stall it forks a *speculator*, a copy that carries on without the
//! data inside a jail, and whose reads and look-ups become prefetches. See ARCHITECTURE.md for the whole.
//!
//! Rules of this crate: no libc, no allocation, no panic. All code can run in a signal handler, in a vfork child or in a
//! freshly forked process. So no code waits for a lock without a limit: where the state is in use, the slow path is skipped.
#![no_std]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod accesses;
mod attributes;
mod call;
mod calls;
mod cold_program;
mod dispatch;
mod entry;
mod environment;
mod exec;
mod fault_signal;
mod fault_threads;
mod fault_watch;
mod faults;
mod given_up;
mod held;
mod interpose;
mod intrinsics;
mod limits;
mod mapped_pages;
mod mounts;
mod objects;
mod original;
mod outside;
mod patch;
mod process;
mod record_locks;
mod residency;
mod role;
mod session;
mod signatures;
mod snapshot;
mod spawn;
mod speculator;
mod start;
mod status;
mod timing;
mod trace;
mod unforked;
mod usage;

/// Nothing here panics: the symbol below exists nowhere, so that a panic path that slips in shows up in the list of
/// symbols that the library takes from the process, which a test compares with the allowed ones.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn forebay_agent_has_a_panic_path() -> !;
    }
    // SAFETY: never reached; see above.
    unsafe { forebay_agent_has_a_panic_path() }
}
