//! Repeatable random numbers, and a deadline for tests that hang.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    hint::spin_loop,
    ops::Range,
    process::abort,
    ptr,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

/// Chance (xorshift64).
pub struct Dice(u64);

impl Dice {
    /// Those of one thread.
    pub fn new(seed: u64, thread: usize) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (thread as u64 + 1) << 32 | 1);
        (0..8).for_each(|_| {
            dice.roll();
        });
        dice
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn within(&mut self, range: Range<usize>) -> usize {
        range.start + (self.roll() >> 8) as usize % range.len()
    }

    /// Waits for nothing, or for as long as a fault may take, with all in between.
    pub fn wait(&mut self) {
        let chance = self.roll();
        if chance & 1 == 0 {
            return;
        }
        let wait = Duration::from_nanos((chance >> 32 & 0x1_ffff) >> (chance >> 8 & 15));
        let start = Instant::now();
        while start.elapsed() < wait {
            spin_loop();
        }
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
