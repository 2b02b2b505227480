//! A file as the readers of containers see it: any bytes, from any place, through one window that moves.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};

/// What can be read from any place.
pub trait ReadAt {
    /// How long it is, in bytes.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads what lies at `offset` into `buffer`, and returns how many bytes that were: 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Large enough that a scan reads a disk as fast as it goes, small enough that to skip most of a file pays.
const WINDOW_BYTES: usize = 256 << 10;

/// A file and the part of it that was read last.
pub(crate) struct Source<'a> {
    file: &'a dyn ReadAt,
    bytes: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Source<'a> {
    pub fn new(file: &'a dyn ReadAt) -> Result<Self> {
        Ok(Source { file, bytes: file.bytes()?, window: Vec::new(), window_at: 0 })
    }

    /// How long the file was when it was opened.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The `count` bytes at `at`, which are few; or as many of them as there are.
    pub fn up_to(&mut self, at: u64, count: usize) -> Result<&[u8]> {
        let left = self.bytes.saturating_sub(at);
        if left == 0 {
            return Ok(&[]);
        }
        let count = usize::try_from(left).map_or(count, |left| left.min(count));
        let is_here = at >= self.window_at && at - self.window_at + count as u64 <= self.window.len() as u64;
        if !is_here {
            self.move_window(at, count)?;
        }
        let start = (at - self.window_at) as usize;
        let end = self.window.len().min(start + count);
        Ok(&self.window[start..end])
    }

    /// All that the window has of what follows `at`: at least one byte, but for the end of the file.
    pub fn following(&mut self, at: u64) -> Result<&[u8]> {
        if self.up_to(at, 1)?.is_empty() {
            return Ok(&[]);
        }
        let start = (at - self.window_at) as usize;
        Ok(self.window.get(start..).unwrap_or_default())
    }

    /// The `N` bytes at `at`; `None` if the file ends before.
    pub fn array<const N: usize>(&mut self, at: u64) -> Result<Option<[u8; N]>> {
        Ok(self.up_to(at, N)?.try_into().ok())
    }

    /// The same of a place that may be far away, where no more is looked at: the window stays where it is.
    pub fn beyond<const N: usize>(&self, at: u64) -> Result<Option<[u8; N]>> {
        let here = at.checked_sub(self.window_at).and_then(|start| self.window.get(start as usize..));
        if let Some(bytes) = here.and_then(|here| here.first_chunk()) {
            return Ok(Some(*bytes));
        }
        let mut bytes = [0; N];
        Ok((read_all(self.file, &mut bytes, at)? == N).then_some(bytes))
    }

    /// A copy of the `count` bytes at `at`, of which the caller knows that they are not too many.
    pub fn copy(&mut self, at: u64, count: u64, missing: &'static str) -> Result<Vec<u8>> {
        let truncated = Error::Truncated { bytes: self.bytes, missing };
        if at.checked_add(count).is_none_or(|end| end > self.bytes) {
            return Err(truncated);
        }
        let mut copy = vec![0; usize::try_from(count).map_err(|_| Error::TooLarge { what: missing })?];
        if read_all(self.file, &mut copy, at)? < copy.len() {
            return Err(truncated);
        }
        Ok(copy)
    }

    fn move_window(&mut self, at: u64, count: usize) -> Result<()> {
        self.window.resize(count.max(WINDOW_BYTES), 0);
        let read = read_all(self.file, &mut self.window, at);
        self.window.truncate(*read.as_ref().unwrap_or(&0));
        self.window_at = at;
        read?;
        Ok(())
    }
}

/// Reads until `buffer` is full or the file is at its end, and returns how many bytes that were.
fn read_all(file: &dyn ReadAt, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
