//! What one process shares with its speculators and the supervisor.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use super::{Account, CALL_SITES, Counters, LOG_ENTRIES, LOGS, LogEntry, Mappings, PATH_CELLS, PathCell};

/// Unconsumed page hints that an ended speculator tells.
pub const UNCONSUMED_MAX: usize = 64;
/// Stands for the process id of a checkpoint in the making.
pub const CHECKPOINT_STARTING: u32 = 1;

/// Processes that may be left of earlier forks, beside that of the newest one.
pub const EARLIER_MAX: usize = 8;

/// One process.
#[repr(C)]
pub struct Slot {
    /// Process id of the original.
    pub pid: AtomicU32,
    /// Generation of the newest speculator; a speculator of an older generation ends itself.
    pub generation: AtomicU32,
    /// Generation of a speculator that a child of the original wants gone before it becomes another program.
    pub dismissed: AtomicU32,
    /// Process id of the newest speculator, 0 when it has ended of its own accord.
    pub speculator_pid: AtomicU32,
    /// Process id of the newest speculator that was forked, also before it has run and after it said its end; 0 for none.
    pub forked: AtomicU32,
    /// Process ids of what may be left of earlier forks: at idle priority it may take long to go.
    pub earlier: [AtomicU32; EARLIER_MAX],
    /// Name of the program (`argv[0]`'s last part), zero padded.
    pub name: [AtomicU8; 64],
    /// Figures, written by the original and its speculators, read by the supervisor.
    pub counters: Counters,
    /// The account of its program, where the header's table of programs is full.
    pub account: Account,
    /// 1 where a speculator could not be, because of how much shared memory the program has.
    pub shares_too_much: AtomicU32,
    /// Prefetches that the newest speculator has under way.
    pub flights: AtomicU32,
    /// Pages that speculators hinted and the original has reached.
    pub pages_used: AtomicU64,
    /// Pages that they skipped, to get ahead of the original, and that it has reached.
    pub pages_skipped: AtomicU64,
    /// Pages that the newest generation hinted: how many in the low 32 bits, generation in the high 32.
    pub pages_hinted: AtomicU64,
    /// As many of them, from the first on, is the original past; in the same way.
    pub pages_passed: AtomicU64,
    /// Pages that the original had copied when the newest generation ended with its checkpoint, if it has told; in the same
    /// way.
    pub pages_copied: AtomicU64,
    /// Pages that the newest generation hinted and that the original had not reached when it ended: how many of
    /// [`Slot::unconsumed`], in the same way.
    pub unconsumed_count: AtomicU64,
    /// Those of them that would each be waited for by itself, in the order of the hints, the first of many.
    pub unconsumed: [AtomicU64; UNCONSUMED_MAX],
    /// What the original has mapped while there was a speculation.
    pub mapped: Mappings,
    /// The newest speculator as it was before a value that it predicted.
    pub checkpoint: Checkpoint,
    /// Entries that the original has consumed of each log.
    pub tails: [AtomicU64; LOGS],
    /// Entries that the speculator has written to each log.
    pub heads: [AtomicU64; LOGS],
    /// Hint logs.
    pub logs: [[LogEntry; LOG_ENTRIES]; LOGS],
    /// Index of the next path cell to write, modulo [`PATH_CELLS`].
    pub path_next: AtomicU32,
    /// Hints for the executor.
    pub paths: [PathCell; PATH_CELLS],
    /// The executor keeps nothing open ahead for the process before this time, in ticks: something waits until nothing is.
    pub quiet_until: AtomicU64,
    /// 1 once the process has found that it can take no file that the executor has opened.
    pub takes_none: AtomicU32,
    /// The last predicted value of each generation, or the last that was waited for where none was: site index + 1 in the low
    /// 32 bits, the log position in the high 32.
    pub last_predicted: [AtomicU64; LOGS],
    /// Where each site first predicted a value, or waited so, in the newest generation that it did: log position in the low 32 bits,
    /// generation in the high 32.
    pub first_predicted: [AtomicU64; CALL_SITES],
    /// Pages that were hinted in that generation before.
    pub pages_before: [AtomicU32; CALL_SITES],
}

/// A stopped copy of a speculator, which carries on in its place when that is off track.
#[repr(C)]
pub struct Checkpoint {
    /// Futex that the copy sleeps on: its number, with the low half of the speculator's generation in the high half. It
    /// ends when it finds another one there. 0 for none.
    pub number: AtomicU32,
    /// Process id of the copy, [`CHECKPOINT_STARTING`] while it has none yet, 0 for none.
    pub pid: AtomicU32,
    /// The generation as which the copy shall carry on, once the slot has that generation.
    pub call: AtomicU32,
    /// Entries of the log that were written before the copy was made.
    pub position: AtomicU64,
    /// Entries that the original must have consumed, so that it has reached the value.
    pub needed: AtomicU64,
}
