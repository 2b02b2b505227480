//! Words of shared memory at which threads of any host wait: a semaphore, a condition, a lock for readers and writers. A thread
//! changes such a word by one atomic operation. Words of zeros are free, and no thread waits at them.

/// A semaphore: units that threads take, and how many threads wait for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SemaphoreWord(pub u64);

/// A condition: how many threads have begun to wait, and how many of those may go on. The oldest ones go on first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConditionWord(pub u64);

/// A lock that several threads have for reading or one has for writing. Readers let writers that wait go first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReadWriteWord(pub u64);

/// Half of a word.
const HALF: u32 = 32;
const ONE_ABOVE: u64 = 1 << HALF;

impl SemaphoreWord {
    /// That with so many units, for which no thread waits.
    #[must_use]
    pub const fn of(units: u32) -> Self {
        Self(units as u64)
    }

    /// Units that are there.
    #[must_use]
    pub const fn units(self) -> u32 {
        self.0 as u32
    }

    /// Whether threads wait.
    #[must_use]
    pub const fn is_awaited(self) -> bool {
        self.0 >= ONE_ABOVE
    }

    /// That without one of its units; `None` if there is none.
    #[must_use]
    pub const fn taken(self) -> Option<Self> {
        if self.units() == 0 { None } else { Some(Self(self.0 - 1)) }
    }

    /// That with more units; `None` if there would be too many.
    #[must_use]
    pub fn released(self, units: u32) -> Option<Self> {
        self.units().checked_add(units).map(|_| Self(self.0 + u64::from(units)))
    }

    /// That with one more thread that waits.
    #[must_use]
    pub const fn awaited(self) -> Self {
        Self(self.0.wrapping_add(ONE_ABOVE))
    }

    /// That with one less.
    #[must_use]
    pub const fn forgone(self) -> Self {
        Self(self.0.wrapping_sub(ONE_ABOVE))
    }
}

impl ConditionWord {
    const fn begun(self) -> u32 {
        self.0 as u32
    }

    const fn released(self) -> u32 {
        (self.0 >> HALF) as u32
    }

    const fn with(begun: u32, released: u32) -> Self {
        Self((released as u64) << HALF | begun as u64)
    }

    /// That with one more thread that waits, and the number of that thread.
    #[must_use]
    pub const fn awaited(self) -> (Self, u32) {
        (Self::with(self.begun().wrapping_add(1), self.released()), self.begun())
    }

    /// Threads that wait.
    #[must_use]
    pub const fn waiting(self) -> u32 {
        self.begun().wrapping_sub(self.released())
    }

    /// That where so many more threads may go on, or all that wait.
    #[must_use]
    pub fn notified(self, threads: u32) -> Self {
        Self::with(self.begun(), self.released().wrapping_add(threads.min(self.waiting())))
    }

    /// Whether the thread of this number may go on.
    #[must_use]
    pub const fn has_released(self, number: u32) -> bool {
        self.released().wrapping_sub(number).cast_signed() > 0
    }
}

/// In the place of readers, where a writer has the lock.
const WRITER: u32 = u32::MAX;
const ONE_READER_WAITS: u64 = 1 << HALF;
const ONE_WRITER_WAITS: u64 = 1 << 48;

impl ReadWriteWord {
    const fn holders(self) -> u32 {
        self.0 as u32
    }

    const fn with(self, holders: u32) -> Self {
        Self(self.0 & !(WRITER as u64) | holders as u64)
    }

    /// Whether threads wait.
    #[must_use]
    pub const fn is_awaited(self) -> bool {
        self.0 >= ONE_READER_WAITS
    }

    /// That with one more reader; `None` if a writer has it or waits for it.
    #[must_use]
    pub const fn read(self) -> Option<Self> {
        let is_free = self.0 < ONE_WRITER_WAITS && self.holders() < WRITER - 1;
        if is_free { Some(self.with(self.holders() + 1)) } else { None }
    }

    /// That with a writer; `None` if another thread has it.
    #[must_use]
    pub const fn written(self) -> Option<Self> {
        if self.holders() == 0 { Some(self.with(WRITER)) } else { None }
    }

    /// That with one reader less, or without its writer; `None` if no thread has it.
    #[must_use]
    pub const fn unlocked(self) -> Option<Self> {
        match self.holders() {
            0 => None,
            WRITER => Some(self.with(0)),
            readers => Some(self.with(readers - 1)),
        }
    }

    /// Whether no thread has it.
    #[must_use]
    pub const fn is_free(self) -> bool {
        self.holders() == 0
    }

    /// That with one more thread that waits, to write or to read.
    #[must_use]
    pub const fn awaited(self, to_write: bool) -> Self {
        Self(self.0.wrapping_add(if to_write { ONE_WRITER_WAITS } else { ONE_READER_WAITS }))
    }

    /// That with one less.
    #[must_use]
    pub const fn forgone(self, to_write: bool) -> Self {
        Self(self.0.wrapping_sub(if to_write { ONE_WRITER_WAITS } else { ONE_READER_WAITS }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_a_semaphore_are_taken_as_often_as_there_are() {
        let two = SemaphoreWord::of(2).awaited();
        let none = two.taken().and_then(SemaphoreWord::taken).unwrap();
        assert_eq!((none.units(), none.taken(), none.is_awaited()), (0, None, true));
        assert_eq!(none.released(3).unwrap().units(), 3);
        assert_eq!(SemaphoreWord::of(5).released(u32::MAX), None);
        assert!(!none.forgone().is_awaited());
    }

    #[test]
    fn the_oldest_threads_at_a_condition_go_on_first() {
        // Numbers begin anew after the last one.
        let mut word = ConditionWord::with(u32::MAX - 1, u32::MAX - 1);
        let numbers = [(); 4].map(|()| {
            let (next, number) = word.awaited();
            word = next;
            number
        });
        let released = |word: ConditionWord| numbers.map(|number| word.has_released(number));
        assert_eq!((word.waiting(), released(word)), (4, [false; 4]));
        assert_eq!(released(word.notified(1)), [true, false, false, false]);
        assert_eq!(released(word.notified(3)), [true, true, true, false]);
        assert_eq!(released(word.notified(u32::MAX)), [true; 4]);
        assert_eq!(word.notified(9).notified(1).waiting(), 0);
    }

    #[test]
    fn a_writer_excludes_readers_and_goes_before_those_that_come_later() {
        let free = ReadWriteWord::default();
        let read = free.read().and_then(ReadWriteWord::read).unwrap();
        assert_eq!(read.written(), None);
        let awaited = read.awaited(true);
        assert_eq!((awaited.read(), awaited.is_awaited()), (None, true));
        let left = awaited.unlocked().and_then(ReadWriteWord::unlocked).unwrap();
        assert!(left.is_free());
        let written = left.written().unwrap().forgone(true);
        assert_eq!((written.read(), written.written(), written.is_awaited()), (None, None, false));
        assert_eq!(written.unlocked(), Some(free));
        assert_eq!(free.unlocked(), None);
        assert!(read.awaited(false).read().is_some());
    }
}
