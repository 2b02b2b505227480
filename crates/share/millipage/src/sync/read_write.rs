//! Locks for readers and writers.

use forebay_coherence::ReadWriteWord;

use super::Place;
use crate::{Error, Host, Row};

/// A lock that several threads of all hosts have for reading, or one has for writing. A thread that wants to write goes before
/// those that want to read and come later. A thread that has it and wants it again may wait for ever.
#[derive(Clone, Copy)]
pub struct ReadWrite(Place);

impl ReadWrite {
    /// The one that an element of a row is.
    ///
    /// # Panics
    /// There are not so many elements.
    #[must_use]
    pub fn of(row: &Row<u64>, column: usize) -> Self {
        Self(Place::of(row, column))
    }

    /// The one at an address of shared memory.
    ///
    /// # Errors
    /// There is no such word.
    pub fn at(host: &Host, address: usize) -> Result<Self, Error> {
        Place::at(host, address).map(Self)
    }

    /// Waits until no thread has it for writing, or wants to, and takes it for reading.
    ///
    /// # Errors
    /// A host is lost, or the call is interrupted.
    pub fn read(&self) -> Result<(), Error> {
        self.take(false)
    }

    /// Waits until no other thread has it, and takes it for writing.
    ///
    /// # Errors
    /// As for [`ReadWrite::read`].
    pub fn write(&self) -> Result<(), Error> {
        self.take(true)
    }

    /// As [`ReadWrite::read`] where that does not wait. Whether it is taken.
    #[must_use]
    pub fn try_read(&self) -> bool {
        self.try_take(false)
    }

    /// As [`ReadWrite::write`] where that does not wait. Whether it is taken.
    #[must_use]
    pub fn try_write(&self) -> bool {
        self.try_take(true)
    }

    /// Gives it up, whichever way it was taken.
    ///
    /// # Errors
    /// No thread has it.
    pub fn unlock(&self) -> Result<(), Error> {
        let unlocked = self.0.change(|word| ReadWriteWord(word).unlocked().map(|free| (free.0, free)));
        let now = unlocked.ok_or(Error::NotTaken)?;
        if now.is_free() && now.is_awaited() {
            self.0.ring();
        }
        Ok(())
    }

    fn try_take(&self, to_write: bool) -> bool {
        self.0.change(|word| taken(ReadWriteWord(word), to_write).map(|taken| (taken.0, ()))).is_some()
    }

    fn take(&self, to_write: bool) -> Result<(), Error> {
        if self.try_take(to_write) {
            return Ok(());
        }
        self.0.always(|word| ReadWriteWord(word).awaited(to_write).0);
        let attempt = |word| taken(ReadWriteWord(word), to_write).map(|taken| (taken.forgone(to_write), ()));
        let done = self.0.wait(|| self.0.change(|word| attempt(word).map(|(taken, ())| (taken.0, taken))));
        let word = match &done {
            Ok(word) => *word,
            Err(_) => ReadWriteWord(self.0.always(|word| ReadWriteWord(word).forgone(to_write).0)),
        };
        // Readers may have waited for a writer that does not wait any more.
        if done.is_err() && word.is_awaited() {
            self.0.ring();
        }
        done.map(|_| ())
    }
}

/// That with one more thread that has it.
const fn taken(word: ReadWriteWord, to_write: bool) -> Option<ReadWriteWord> {
    if to_write { word.written() } else { word.read() }
}
