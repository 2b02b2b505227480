//! Locks by number: one at a time has one, among threads of all hosts.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    thread::{self, ThreadId},
};

use forebay_coherence::trace::Event;

use super::{Host, Shared};
use crate::{Error, engine::Ended};

/// Locks that threads of this host have taken recursively: which thread, and how often.
#[derive(Debug, Default)]
pub struct Recursive(Mutex<HashMap<u32, (ThreadId, u32)>>);

impl Recursive {
    /// Changes what is known of a lock.
    fn change<R>(&self, lock: u32, act: impl FnOnce(&mut Option<(ThreadId, u32)>) -> R) -> R {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = all.remove(&lock);
        let result = act(&mut held);
        held.into_iter().for_each(|held| _ = all.insert(lock, held));
        result
    }

    /// The calling thread takes a lock once more, if it has it.
    fn deepen(&self, lock: u32) -> bool {
        self.change(lock, |held| match held {
            Some((thread, depth)) if *thread == thread::current().id() => {
                *depth += 1;
                true
            }
            _ => false,
        })
    }

    /// The calling thread has taken a lock as often.
    fn begin(&self, lock: u32, depth: u32) {
        self.change(lock, |held| *held = Some((thread::current().id(), depth)));
    }

    /// The calling thread gives a lock up once. Whether another thread has the lock recursively, or this one still has it.
    fn release(&self, lock: u32) -> Result<bool, Error> {
        self.change(lock, |held| match held {
            None => Ok(false),
            Some((thread, _)) if *thread != thread::current().id() => Err(Error::NotMine(lock)),
            Some((_, depth)) if *depth > 1 => {
                *depth -= 1;
                Ok(true)
            }
            Some(_) => {
                *held = None;
                Ok(false)
            }
        })
    }

    /// The calling thread gives a lock up, however often it has taken it; 0 where it did not take it recursively.
    fn release_all(&self, lock: u32) -> Result<u32, Error> {
        self.change(lock, |held| match held {
            Some((thread, _)) if *thread != thread::current().id() => Err(Error::NotMine(lock)),
            _ => Ok(held.take().map_or(0, |(_, depth)| depth)),
        })
    }
}

/// The lock that a host has while it claims memory that hosts allocate alone. The program has none of this number.
const CLAIMS: u64 = 1 << u32::BITS;

impl Host {
    /// Waits until no other thread of any host has the lock, and takes it.
    ///
    /// # Errors
    /// A host is lost, or the job has used too many different locks.
    pub fn lock(&self, lock: u32) -> Result<(), Error> {
        self.shared.lock(lock)
    }

    /// Takes the lock if no thread of any host has it, this one included. Whether it is taken.
    ///
    /// # Errors
    /// As for [`Host::lock`].
    pub fn try_lock(&self, lock: u32) -> Result<bool, Error> {
        self.shared.try_lock(lock)
    }

    /// As [`Host::lock`], but a thread that has taken the lock so takes it once more without waiting. It unlocks as often.
    ///
    /// # Errors
    /// As for [`Host::lock`].
    pub fn lock_recursive(&self, lock: u32) -> Result<(), Error> {
        if !self.shared.recursive.deepen(lock) {
            self.shared.lock(lock)?;
            self.shared.recursive.begin(lock, 1);
        }
        Ok(())
    }

    /// Gives a lock up.
    ///
    /// # Errors
    /// No thread of this host has it, or another thread of this host has it recursively.
    pub fn unlock(&self, lock: u32) -> Result<(), Error> {
        if self.shared.recursive.release(lock)? || self.shared.unlock(lock) {
            Ok(())
        } else {
            Err(Error::NotLocked(lock))
        }
    }

    /// Gives a lock up that this thread may have taken recursively, after `first` was done, if a thread of this host has it. How
    /// often the thread had taken it.
    pub(crate) fn give_up(&self, lock: u32, first: impl FnOnce()) -> Result<u32, Error> {
        if !self.shared.board().has(lock.into()) {
            return Err(Error::NotLocked(lock));
        }
        let depth = self.shared.recursive.release_all(lock)?;
        first();
        self.shared.unlock(lock);
        Ok(depth)
    }

    /// Takes a lock again after [`Host::give_up`].
    pub(crate) fn take_again(&self, lock: u32, depth: u32) -> Result<(), Error> {
        self.shared.lock(lock)?;
        if depth > 0 {
            self.shared.recursive.begin(lock, depth);
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self, lock: u32) -> Result<(), Error> {
        self.recorded(Event::Lock(lock), || self.take_lock(lock.into()))
    }

    fn take_lock(&self, lock: u64) -> Result<(), Error> {
        // Among the hosts of the machine first, so that one of them asks for the machine.
        let locked = self.board.lock(lock)?;
        let locked = match self.between() {
            Some(between) if locked == Ended::Well => between.lock(self, lock).inspect_err(|_| {
                self.board.unlock(lock);
            })?,
            _ => locked,
        };
        self.outcome(locked, "lock()")
    }

    fn try_lock(&self, lock: u32) -> Result<bool, Error> {
        let lock = lock.into();
        if !self.board.try_lock(lock)? {
            return Ok(false);
        }
        let ended = self.between().map_or(Ended::Well, |between| between.try_lock(self, lock));
        if ended != Ended::Well {
            self.board.unlock(lock);
        }
        match ended {
            Ended::Disagreed => Ok(false),
            _ => self.outcome(ended, "try_lock()").map(|()| true),
        }
    }

    /// Whether a thread of this host had it.
    fn unlock(&self, lock: u32) -> bool {
        self.recorded(Event::Unlock(lock), || self.give_lock(lock.into()))
    }

    fn give_lock(&self, lock: u64) -> bool {
        if let Some(between) = self.between().filter(|_| self.board.has(lock)) {
            between.unlock(self, lock);
        }
        self.board.unlock(lock)
    }

    /// Does something while no other host claims memory that hosts allocate alone.
    pub(super) fn claiming<R>(&self, act: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        self.take_lock(CLAIMS)?;
        let done = act();
        self.give_lock(CLAIMS);
        done
    }
}
