//! Which programs get an agent.
//!
//! [`ProgramRecord`] saves executables that never stall the loading of an agent. The first [`STARTS_FIRST`] starts get one,
//! then every 2nd, 4th ... up to every [`STARTS_APART_MAX`]th as long as no stall is reported. After a stall the next
//! [`STARTS_TRUSTED`] starts get one. [`program_index`] is the order in which the shared table of programs is probed.

use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::{PROGRAMS, Program};

/// Starts of an executable that get an agent before anything is known of it.
pub const STARTS_FIRST: u64 = 4;
/// Starts that get an agent after a stall was reported.
pub const STARTS_TRUSTED: u64 = 64;
/// Every how manieth start of an executable that never stalls gets an agent, in the end.
pub const STARTS_APART_MAX: u64 = 64;

/// What is known of an executable, packed in one word; 0 is nothing.
///
/// Bits 0..8: starts yet to get an agent whatever happens; 8..16: starts to pass over before the next one that
/// does; 16..24: starts from one that does to the next; bit 63: not new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRecord {
    sure: u64,
    pass_over: u64,
    apart: u64,
}

impl ProgramRecord {
    const KNOWN: u64 = 1 << 63;

    fn unpack(word: u64) -> Self {
        if word & Self::KNOWN == 0 {
            return Self { sure: STARTS_FIRST, pass_over: 0, apart: 1 };
        }
        Self {
            sure: (word & 0xff).min(STARTS_TRUSTED),
            pass_over: (word >> 8 & 0xff).min(STARTS_APART_MAX),
            apart: (word >> 16 & 0xff).clamp(1, STARTS_APART_MAX),
        }
    }

    fn pack(self) -> u64 {
        Self::KNOWN | self.sure | self.pass_over << 8 | self.apart << 16
    }

    /// Whether the start of this executable at hand gets an agent, and the record with that start in it.
    #[must_use]
    pub fn decide(word: u64) -> (u64, bool) {
        let mut record = Self::unpack(word);
        let inject = record.sure > 0 || record.pass_over == 0;
        if record.sure > 0 {
            record.sure -= 1;
        } else if record.pass_over > 0 {
            record.pass_over -= 1;
        } else {
            record.apart = (record.apart * 2).min(STARTS_APART_MAX);
            record.pass_over = record.apart - 1;
        }
        (record.pack(), inject)
    }

    /// The record after a process of this executable stalled.
    #[must_use]
    pub fn on_stall(_word: u64) -> u64 {
        Self { sure: STARTS_TRUSTED, pass_over: 0, apart: 1 }.pack()
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
