//! Semaphores.

use forebay_coherence::SemaphoreWord;

use super::Place;
use crate::{Error, Host, Row};

/// Units that threads of all hosts release and take.
#[derive(Clone, Copy)]
pub struct Semaphore(Place);

impl Semaphore {
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

    /// Waits until there is a unit, and takes it.
    ///
    /// # Errors
    /// A host is lost, or the call is interrupted.
    pub fn acquire(&self) -> Result<(), Error> {
        if self.try_acquire() {
            return Ok(());
        }
        self.0.always(|word| SemaphoreWord(word).awaited().0);
        let acquired = self
            .0
            .wait(|| self.0.change(|word| SemaphoreWord(word).taken().map(|taken| (taken.forgone().0, ()))));
        if acquired.is_err() {
            self.0.always(|word| SemaphoreWord(word).forgone().0);
        }
        acquired
    }

    /// Takes a unit if there is one. Whether there was.
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        self.0.change(|word| SemaphoreWord(word).taken().map(|taken| (taken.0, ()))).is_some()
    }

    /// Adds units.
    ///
    /// # Errors
    /// There would be more than 4,294,967,295.
    pub fn release(&self, units: u32) -> Result<(), Error> {
        let add = |word| SemaphoreWord(word).released(units).map(|more| (more.0, more.is_awaited()));
        let is_awaited = self.0.change(add).ok_or(Error::TooManyUnits)?;
        if is_awaited {
            self.0.ring();
        }
        Ok(())
    }

    /// How many units there are.
    #[must_use]
    pub fn units(&self) -> u32 {
        SemaphoreWord(self.0.word.load(std::sync::atomic::Ordering::SeqCst)).units()
    }
}
