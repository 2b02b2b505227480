//! Which programs get an agent.
//!
//! [`ProgramRecord`] saves executables that gain nothing the loading of an agent. The first two starts get one,
//! then every 2nd, 4th ... up to every [`TIMES_APART`]th as long as no speculation saves more than it costs. After one
//! that does, the executable is treated as a new one, and so are those that executed it. [`program_index`] is the order in
//! which the shared table of programs is probed.

use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::{PROGRAMS, Program};

use crate::price::{LAUNCHERS_MAX, TIMES_APART};

/// What is known of an executable, packed in one word; 0 is nothing.
///
/// Bits 0..8: starts to pass over before the next one that gets an agent; 8..16: starts from one that does to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRecord {
    pass_over: u64,
    apart: u64,
}

impl ProgramRecord {
    fn unpack(word: u64) -> Self {
        Self { pass_over: (word & 0xff).min(TIMES_APART), apart: (word >> 8 & 0xff).clamp(1, TIMES_APART) }
    }

    const fn pack(self) -> u64 {
        self.pass_over | self.apart << 8
    }

    /// Whether the start of this executable at hand gets an agent, and the record with that start in it.
    #[must_use]
    pub fn decide(word: u64) -> (u64, bool) {
        let mut record = Self::unpack(word);
        let inject = record.pass_over == 0;
        if inject {
            record.pass_over = record.apart - 1;
            record.apart = (record.apart * 2).min(TIMES_APART);
        } else {
            record.pass_over -= 1;
        }
        (record.pack(), inject)
    }
}

/// A speculation in a process of this executable saved more than it cost. Only a process with an agent executes another one with
/// an agent, so the executable that executed it has gained, too.
pub fn on_gain(programs: &[Program; PROGRAMS], key: u64) {
    let mut key = key;
    for _ in 0..LAUNCHERS_MAX {
        if key == 0 {
            return;
        }
        let Some(program) = program(programs, key) else { return };
        // The record of a new one.
        program.record.store(0, Relaxed);
        key = program.launcher.load(Relaxed);
    }
}

/// Entries of the table of programs that are looked at for one key.
pub const PROGRAM_PROBES: usize = 8;

/// Indices at which the program with this key may be, in the order to look.
pub fn program_index(key: u64) -> impl Iterator<Item = usize> {
    let first = (key ^ key >> 32) as usize;
    (0..PROGRAM_PROBES).map(move |probe| first.wrapping_add(probe) & (PROGRAMS - 1))
}

const _: () = assert!(PROGRAMS.is_power_of_two());

/// The entry of the program with this key, claimed if it has none; `None` if all its places are taken.
#[must_use]
pub fn program(programs: &[Program; PROGRAMS], key: u64) -> Option<&Program> {
    let key = key.max(1);
    program_index(key).map(|index| &programs[index & (PROGRAMS - 1)]).find(|program| {
        let found = program.key.load(Relaxed);
        found == key
            || found == 0
                && match program.key.compare_exchange(0, key, Relaxed, Relaxed) {
                    Ok(_) => true,
                    Err(other) => other == key,
                }
    })
}
