//! Conditions.

use forebay_coherence::ConditionWord;

use super::Place;
use crate::{Error, Host, Row, ending_at};

/// Where threads of all hosts wait, without the lock that they have, until another thread notifies them. The oldest ones go on
/// first.
#[derive(Clone, Copy)]
pub struct Condition(Place);

impl Condition {
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

    /// Gives a lock up, waits until it is notified, and takes the lock again. No notification is missed that is given after
    /// the lock was given up. Look at what is waited for again afterwards: another thread may have changed it.
    ///
    /// # Errors
    /// This thread's host does not have the lock, a host is lost, or the call is interrupted.
    pub fn wait(&self, host: &Host, lock: u32) -> Result<(), Error> {
        let mut number = 0;
        let begin = |word| {
            let (begun, number) = ConditionWord(word).awaited();
            Some((begun.0, number))
        };
        // Once the lock is free another thread may notify.
        let depth = host.give_up(lock, || number = self.0.change(begin).unwrap_or_default())?;
        let waited = self.0.wait(|| {
            let now = self.0.word.load(std::sync::atomic::Ordering::SeqCst);
            ConditionWord(now).has_released(number).then_some(())
        });
        if waited.is_err() {
            // This one would take a notification that another thread needs.
            self.notify(u32::MAX);
        }
        // The time for the notification is none for the lock.
        let locked = ending_at(None, || host.take_again(lock, depth));
        waited.and(locked)
    }

    /// Lets so many of the threads that wait go on, or all of them.
    pub fn notify(&self, threads: u32) {
        let before = self.0.always(|word| ConditionWord(word).notified(threads).0);
        if ConditionWord(before).waiting() > 0 {
            self.0.ring();
        }
    }
}
