//! Repeatable random numbers, and a deadline for tests that hang.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    hint::spin_loop,
    process::abort,
    ptr,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;

/// That of one thread.
pub fn of_thread(seed: u64, thread: usize) -> Rng {
    Rng::with_seed(seed ^ (thread as u64) << 32)
}

/// Waits for nothing, or for as long as a fault may take, with all in between.
pub fn wait(dice: &mut Rng) {
    if dice.bool() {
        return;
    }
    let wait = Duration::from_nanos(dice.u64(..1 << 17) >> dice.u8(..16));
    let start = Instant::now();
    while start.elapsed() < wait {
        spin_loop();
    }
}

/// Has faults of the calling thread handled on its own stack, which has room for more than an alternate one.
pub fn leave_alternate_stack() {
    let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: the call reads a local.
    assert_eq!(unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) }, 0);
}

/// While it lives, the test has so much time: then the process is aborted, since its threads cannot be.
pub struct Deadline(Option<Sender<()>>);

impl Deadline {
    pub fn new(what: impl Into<String>, time: Duration) -> Self {
        let (sender, receiver) = channel();
        let what = what.into();
        thread::spawn(move || {
            if receiver.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{what} has not ended within {time:?}");
                abort();
            }
        });
        Self(Some(sender))
    }
}
