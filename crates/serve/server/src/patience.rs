//! How much of a file is read before its client has to wait among others that wait for long.

use std::cell::Cell;
use std::fs::File;
use std::io;

use forebay_media::ReadAt;

/// Reads for a client that does not wait: what a file is, and tables in one piece. A pass over a small file takes no more.
const QUICK_READS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// For a few reads.
    Short,
    Endless,
}

/// A file that ends to be readable when patience does.
pub(crate) struct Patient<'a> {
    file: &'a File,
    /// `None` where patience has no end.
    reads_left: Option<Cell<u32>>,
}

/// What reads say then.
#[derive(Debug, thiserror::Error)]
#[error("reading takes longer than there is patience for")]
struct Impatient;

impl<'a> Patient<'a> {
    pub fn new(file: &'a File, patience: Patience) -> Self {
        let reads_left = (patience == Patience::Short).then(|| Cell::new(QUICK_READS));
        Self { file, reads_left }
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
        if let Some(left) = &self.reads_left {
            left.set(left.get().checked_sub(1).ok_or_else(|| io::Error::other(Impatient))?);
        }
        ReadAt::read_at(self.file, buffer, offset)
    }
}
