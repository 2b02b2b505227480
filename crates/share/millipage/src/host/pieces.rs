//! The memory of a host as languages without types see it: pieces of it by address and size.

use std::ops::Range;

use forebay_coherence::Access;
use forebay_vm::PAGE_BYTES;
use libloading::os::unix::Library;

use super::{Host, Shared};
use crate::{Error, shared::Row};

/// A function that takes the first address and the end of an area. A library that is loaded before libc and wraps system
/// calls has it.
const AREA: &[u8] = b"__forebay_memory_area\0";

impl Host {
    /// Where all views are, one behind the other.
    #[must_use]
    pub fn area(&self) -> Range<usize> {
        self.shared.memory().area()
    }

    /// What other processes of this user open the memory by, where hosts have one: process, descriptor, inode and size.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn memory_name(&self) -> Result<Option<String>, Error> {
        let object = self.shared.memory().object();
        Ok(object.map(|object| object.name()).transpose()?.map(|name| name.to_string()))
    }

    /// How many bytes of the memory any allocation of all hosts can have.
    #[must_use]
    pub fn left(&self) -> usize {
        self.shared.memory().left()
    }

    /// Asks for these pieces of memory, each an address and a size, to read or write them soon. Does not wait. Pages in a piece
    /// that no allocation uses are left out.
    ///
    /// # Errors
    /// A piece does not begin and end in allocated memory.
    pub fn prefetch_pieces(&self, pieces: &[(usize, usize)], access: Access) -> Result<(), Error> {
        self.each_minipage(pieces, |minipage| self.shared.prefetch(minipage, access))
    }

    /// Sends these pieces of memory to all hosts.
    ///
    /// # Errors
    /// As for [`Host::prefetch_pieces`].
    pub fn push_pieces(&self, pieces: &[(usize, usize)]) -> Result<(), Error> {
        self.each_minipage(pieces, |minipage| self.shared.push(minipage))
    }

    /// Asks for all these pieces of memory together, and waits until this host may read or write them.
    ///
    /// # Errors
    /// As for [`Host::prefetch_pieces`].
    pub fn touch_pieces(&self, pieces: &[(usize, usize)], access: Access) -> Result<(), Error> {
        self.prefetch_pieces(pieces, access)?;
        self.each_page(pieces, |address| {
            let byte = Row::new(self.shared, address as *mut u8, 1);
            if access == Access::Write { byte.touch_for_writing() } else { byte.touch() }
        })
    }

    /// Copies rows of equal size, each by the address of its first byte, to `to`, one behind the other. Asks for all of them
    /// together.
    ///
    /// # Errors
    /// There are no such rows.
    pub fn gather(&self, rows: &[usize], to: &mut [u8]) -> Result<(), Error> {
        let rows = self.ask_for(rows, to.len(), Access::Read)?;
        let bytes = rows.first().map_or(1, Row::len);
        rows.iter().zip(to.chunks_exact_mut(bytes)).for_each(|(row, to)| row.read(0, to));
        Ok(())
    }

    /// Copies `from` to rows of equal size, likewise.
    ///
    /// # Errors
    /// As for [`Host::gather`].
    pub fn scatter(&self, rows: &[usize], from: &[u8]) -> Result<(), Error> {
        let rows = self.ask_for(rows, from.len(), Access::Write)?;
        let bytes = rows.first().map_or(1, Row::len);
        rows.iter().zip(from.chunks_exact(bytes)).for_each(|(row, from)| row.write(0, from));
        Ok(())
    }

    /// Rows that take so many bytes together, which are asked for.
    fn ask_for(&self, rows: &[usize], bytes: usize, access: Access) -> Result<Vec<Row<u8>>, Error> {
        if rows.is_empty() && bytes == 0 {
            return Ok(vec![]);
        }
        let each = bytes.checked_div(rows.len()).filter(|each| *each > 0 && each * rows.len() == bytes);
        let each = each.ok_or(Error::NoRows { bytes, rows: rows.len() })?;
        let found: Vec<_> = rows.iter().map(|row| self.bytes_at(*row, each)).collect::<Result<_, _>>()?;
        self.prefetch_pieces(&rows.iter().map(|row| (*row, each)).collect::<Vec<_>>(), access)?;
        Ok(found)
    }

    fn each_minipage(&self, pieces: &[(usize, usize)], mut act: impl FnMut(u32)) -> Result<(), Error> {
        let mut last = None;
        self.each_page(pieces, |address| {
            let minipage = self.shared.memory().minipage(address);
            if let Some(minipage) = minipage.filter(|_| last != minipage) {
                act(minipage);
            }
            last = minipage;
        })
    }

    /// Calls `act` with an address in each page of the pieces that an allocation uses, where there is something to fetch.
    fn each_page(&self, pieces: &[(usize, usize)], mut act: impl FnMut(usize)) -> Result<(), Error> {
        let is_used = |address| self.shared.memory().minipage(address).is_some();
        let foreign = pieces.iter().find(|(address, bytes)| {
            *bytes == 0 || !is_used(*address) || !is_used(address.saturating_add(bytes - 1))
        });
        if let Some((address, bytes)) = foreign {
            return Err(Error::Foreign { address: *address, bytes: *bytes });
        }
        if self.has_one_memory() {
            return Ok(());
        }
        for (address, bytes) in pieces {
            let next = (address / PAGE_BYTES + 1) * PAGE_BYTES;
            let pages = std::iter::once(*address).chain((next..address + bytes).step_by(PAGE_BYTES));
            pages.filter(|address| is_used(*address)).for_each(&mut act);
        }
        Ok(())
    }
}

impl Shared {
    /// Tells wrappers of system calls, where the process has them, what memory the kernel may find absent.
    pub(super) fn tell_wrappers(&self) {
        type Tell = unsafe extern "C" fn(usize, usize);
        let area = self.memory().area();
        // SAFETY: the function has this type wherever it is, and keeps the two numbers.
        unsafe {
            if let Ok(tell) = Library::this().get::<Tell>(AREA) {
                tell(area.start, area.end);
            }
        }
    }
}
