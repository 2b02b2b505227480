//! How the replay of an access profile goes on.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64};

use super::SLOTS;

/// The state of a replay and its figures.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Replay {
    /// [`NONE`], [`ON`], [`OVER`] or [`STOPPED`].
    pub state: AtomicU32,
    /// Steps that are being carried out.
    pub under_way: AtomicU32,
    /// Steps of it.
    pub steps: AtomicU64,
    /// Those that are done.
    pub done: AtomicU64,
    /// Those that asked a device.
    pub waited: AtomicU64,
    /// Those whose file has changed.
    pub changed: AtomicU64,
    /// Data that was brought into memory, or was found there.
    pub bytes: AtomicU64,
    /// Which process takes files that the replay opens ahead: see [`Replay::taker`].
    taker: AtomicU32,
}

/// The low bits of [`Replay::taker`]: the slot of the process plus 1, or 0 where none takes files. The others tell one from the next.
const TAKER_SLOT: u32 = 0xffff;

/// A process that takes files which a replay opens ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taker {
    /// Its slot, below [`SLOTS`].
    pub slot: usize,
    word: u32,
}

impl Replay {
    /// The process that takes files.
    #[must_use]
    pub fn taker(&self) -> Option<Taker> {
        let word = self.taker.load(Acquire);
        let slot = ((word & TAKER_SLOT) as usize).checked_sub(1).filter(|slot| *slot < SLOTS)?;
        Some(Taker { slot, word })
    }

    /// The process of this slot takes files from now on, and no other one.
    pub fn begin_taking(&self, slot: usize) {
        let slot = (slot as u32 + 1) & TAKER_SLOT;
        let next = |word: u32| Some((word & !TAKER_SLOT).wrapping_add(TAKER_SLOT + 1) | slot);
        let _ = self.taker.fetch_update(AcqRel, Relaxed, next);
    }

    /// The process of this slot takes no more files.
    pub fn end_taking(&self, slot: usize) {
        let ended = |word: u32| (word & TAKER_SLOT == slot as u32 + 1).then_some(word & !TAKER_SLOT);
        let _ = self.taker.fetch_update(AcqRel, Relaxed, ended);
    }
}

/// There is none.
pub const NONE: u32 = 0;
/// Its steps are being carried out, and no speculator is started.
pub const ON: u32 = 1;
/// All are carried out that are to be.
pub const OVER: u32 = 2;
/// The program needs other things than were foretold, or would be told of what a replay opens. It never goes on.
pub const STOPPED: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_takes_files_and_is_another_one_each_time() {
        let replay = Replay::default();
        assert_eq!(replay.taker(), None);
        replay.begin_taking(0);
        let first = replay.taker();
        assert_eq!(first.map(|taker| taker.slot), Some(0));
        replay.end_taking(1);
        assert_eq!(replay.taker(), first, "it is not that one's to end");
        replay.begin_taking(0);
        assert!(replay.taker() != first && replay.taker().is_some());
        replay.begin_taking(7);
        assert_eq!(replay.taker().map(|taker| taker.slot), Some(7));
        replay.end_taking(7);
        assert_eq!(replay.taker(), None);
    }

    #[test]
    fn any_word_names_a_process_that_has_a_slot_or_none() {
        let replay = Replay::default();
        for word in (0..=TAKER_SLOT).flat_map(|low| [low, low | !TAKER_SLOT]) {
            replay.taker.store(word, Relaxed);
            assert!(replay.taker().is_none_or(|taker| taker.slot < SLOTS), "{word:#x}");
        }
    }
}
