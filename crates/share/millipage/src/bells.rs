//! The bells of a machine: where threads sleep until a word of shared memory changes. A bell is a word on the board, and serves
//! many words.
//!
//! A thread hears its bell, looks at the word, and sleeps while the bell has not rung since. A host that changes a word for which
//! threads wait rings the bell. A write of another machine first takes away this machine's copy of the word, and that rings the bell
//! here. So no message is sent for it: a thread that looked at the word had a copy.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::{
    board::{sleep_for, wake},
    parts::{Parts, Words},
};

/// Words that have nothing to do with each other should have different ones.
const BELLS: usize = 256;

/// The bells of all hosts of the machine.
pub struct Bells(&'static [Bell]);

#[repr(C, align(64))]
struct Bell {
    /// How often it has rung.
    rung: AtomicU32,
    /// Threads that may sleep there.
    sleepers: AtomicU32,
}

// SAFETY: atomic words, and space between them.
unsafe impl Words for Bell {}

/// What a thread has heard.
#[derive(Clone, Copy)]
pub struct Heard(u32);

impl Bells {
    /// What they take.
    pub const fn bytes() -> usize {
        Parts::bytes::<Bell>(BELLS)
    }

    pub fn new(memory: &mut Parts) -> Self {
        Self(memory.take(BELLS))
    }

    /// How often the bell of a key has rung.
    pub fn hear(&self, key: usize) -> Heard {
        Heard(self.of(key).rung.load(SeqCst))
    }

    /// Sleeps, for so long at most, unless the bell has rung since it was heard.
    pub fn sleep(&self, key: usize, Heard(rung): Heard, longest_ns: i64) {
        let bell = self.of(key);
        bell.sleepers.fetch_add(1, SeqCst);
        sleep_for(&bell.rung, rung, longest_ns);
        bell.sleepers.fetch_sub(1, SeqCst);
    }

    /// Wakes the threads that wait for words of this key.
    pub fn ring(&self, key: usize) {
        let bell = self.of(key);
        bell.rung.fetch_add(1, SeqCst);
        if bell.sleepers.load(SeqCst) > 0 {
            wake(&bell.rung, i32::MAX as u32);
        }
    }

    fn of(&self, key: usize) -> &'static Bell {
        &self.0[key % BELLS]
    }
}
