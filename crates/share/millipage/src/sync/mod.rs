//! What threads of all hosts wait with, in words of shared memory: semaphores, conditions, locks for readers and writers, and any
//! word that is to satisfy a condition. Each is one word of 64 bits, at a multiple of 8 bytes, which is free when it is zero.
//!
//! A thread changes the word by an atomic operation, and sleeps at a bell of its machine ([`crate::bells`]) until the word may be as
//! it wants. It is the same on one machine and between machines.

mod condition;
mod read_write;
mod semaphore;
mod until;

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Instant,
};

use crate::{
    Error,
    host::{Host, Shared},
    interrupt::{is_interrupted, sleep_ns},
    shared::Row,
};

pub use condition::Condition;
pub use read_write::ReadWrite;
pub use semaphore::Semaphore;
pub use until::Comparison;

/// How long it sleeps before it looks for a loss, where whatever changes the word rings the bell.
const RUNG_NS: i64 = 100_000_000;

/// A word that threads wait at.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    shared: &'static Shared,
    word: &'static AtomicU64,
}

impl Place {
    /// The word of 8 bytes at an address of shared memory.
    fn at(host: &Host, address: usize) -> Result<Self, Error> {
        host.check_word(address, 8)?;
        Ok(Self::of(&Row::new(host.shared(), address as *mut u64, 1), 0))
    }

    pub(crate) fn of(row: &Row<u64>, column: usize) -> Self {
        Self { shared: row.shared(), word: row.atomic(column) }
    }

    /// The word now.
    pub(crate) fn now(self) -> u64 {
        self.word.load(SeqCst)
    }

    fn address(self) -> usize {
        self.word.as_ptr() as usize
    }

    /// Changes the word, unless there is no `next` one. What `next` tells.
    pub(crate) fn change<R>(self, next: impl Fn(u64) -> Option<(u64, R)>) -> Option<R> {
        let mut now = self.word.load(SeqCst);
        loop {
            let (changed, result) = next(now)?;
            match self.word.compare_exchange(now, changed, SeqCst, SeqCst) {
                Ok(_) => return Some(result),
                Err(other) => now = other,
            }
        }
    }

    /// Changes the word. What it was.
    fn always(self, next: impl Fn(u64) -> u64) -> u64 {
        self.change(|word| Some((next(word), word))).unwrap_or_default()
    }

    /// Tries until `attempt` succeeds.
    ///
    /// # Errors
    /// A host is lost, or the call is interrupted.
    pub(crate) fn wait<R>(self, attempt: impl FnMut() -> Option<R>) -> Result<R, Error> {
        self.shared.wait_at(self.address(), |_| RUNG_NS, attempt)
    }

    pub(crate) fn ring(self) {
        self.shared.ring(self.address());
    }
}

impl Shared {
    /// Tries until `attempt` succeeds, which depends on a word at an address. Sleeps as long between two attempts as
    /// `longest_ns` says, if no host rings meanwhile.
    pub(crate) fn wait_at<R>(
        &self,
        address: usize,
        longest_ns: impl Fn(u32) -> i64,
        mut attempt: impl FnMut() -> Option<R>,
    ) -> Result<R, Error> {
        let (bells, key) = (self.board().bells(), self.bell(address));
        let spin_until = Instant::now() + self.board().spin();
        let mut slept = 0;
        loop {
            let heard = bells.hear(key);
            if let Some(result) = attempt() {
                return Ok(result);
            }
            if self.board().loss().is_some() {
                return Err(self.lost());
            }
            if Instant::now() < spin_until {
                spin_loop();
                continue;
            }
            if is_interrupted() {
                return Err(Error::Interrupted);
            }
            bells.sleep(key, heard, sleep_ns(longest_ns(slept)));
            slept = slept.saturating_add(1);
        }
    }

    /// Wakes the threads of this machine that wait for a word.
    pub(crate) fn ring(&self, address: usize) {
        self.board().bells().ring(self.bell(address));
    }

    /// Between machines a minipage that is taken away rings its bell. Elsewhere neighbouring words have different bells.
    fn bell(&self, address: usize) -> usize {
        let offset = self.memory().views().locate(address).map_or(0, |(_, offset)| offset);
        if self.is_together() {
            offset / size_of::<u64>()
        } else {
            self.memory().minipage(address).unwrap_or(0) as usize
        }
    }
}
