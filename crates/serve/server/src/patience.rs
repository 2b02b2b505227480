//! How much of a file is read before its client has to wait among others that wait for long, and which of both reads first.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_media::ReadAt;

/// Reads for a client that does not wait: what a file is, and tables in one piece. A pass over a small file takes no more.
const QUICK_READS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For a few reads.
    Short,
    Endless,
}

/// For how long a read of a file that takes many waits for files that take few: a flood of those is not to stop it.
const YIELD_MAX: Duration = Duration::from_millis(20);

/// Has passes through files read only while no file is opened that takes a few reads. Else each of those few would wait at the
/// disk behind what passes have asked for.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    quick: Mutex<usize>,
    is_open: Condvar,
}

/// A file that takes a few reads is being opened, for as long as this is not dropped.
pub(crate) struct Quick<'a>(&'a Gate);

impl Gate {
    pub fn enter(&self) -> Quick<'_> {
        *self.lock() += 1;
        Quick(self)
    }

    fn pass(&self) {
        let quick = self.lock();
        drop(self.is_open.wait_timeout_while(quick, YIELD_MAX, |quick| *quick > 0));
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.quick.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Quick<'_> {
    fn drop(&mut self) {
        let mut quick = self.0.lock();
        *quick -= 1;
        if *quick == 0 {
            self.0.is_open.notify_all();
        }
    }
}

/// A file that ends to be readable when patience does.
pub(crate) struct Patient<'a> {
    file: &'a File,
    gate: &'a Gate,
    /// `None` where patience has no end.
    reads_left: Option<Cell<u32>>,
}

/// What reads say then.
#[derive(Debug, thiserror::Error)]
#[error("reading takes longer than there is patience for")]
struct Impatient;

impl<'a> Patient<'a> {
    pub fn new(file: &'a File, patience: Patience, gate: &'a Gate) -> Self {
        let reads_left = (patience == Patience::Short).then(|| Cell::new(QUICK_READS));
        Self { file, gate, reads_left }
    }
}

/// Whether a read failed because patience was at its end.
pub(crate) fn is_impatient(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Impatient>())
}

impl ReadAt for Patient<'_> {
    fn bytes(&self) -> io::Result<u64> {
        ReadAt::bytes(self.file)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.reads_left {
            Some(left) => left.set(left.get().checked_sub(1).ok_or_else(|| io::Error::other(Impatient))?),
            None => self.gate.pass(),
        }
        ReadAt::read_at(self.file, buffer, offset)
    }
}
