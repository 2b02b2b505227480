//! Memory for measurements: words of a mapping of its own, with pages of a known size, that fault on first use.

use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::Error;

/// Bytes of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes of a word.
const WORD_BYTES: usize = size_of::<u64>();

/// What the kernel is asked to make memory of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Of 4 KiB.
    Small,
    /// Of 2 MiB, where it has them.
    Huge,
}

/// Private memory, as words. None of its pages is there before it is used.
///
/// The words are atomic: a relaxed access of each is one instruction, which the compiler neither leaves out nor joins with others.
#[derive(Debug)]
pub struct Words {
    base: *mut AtomicU64,
    count: usize,
    mapped: (*mut std::ffi::c_void, usize),
}

// SAFETY: atomic words may be used from any thread, and the mapping belongs to the value.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Zeros, at least as many bytes, from the beginning of a huge page.
    ///
    /// # Errors
    /// There is not that much address space.
    pub fn zeroed(bytes: usize, pages: Pages) -> Result<Self, Error> {
        let bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES).max(HUGE_PAGE_BYTES);
        let length = bytes + HUGE_PAGE_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let mapped = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let mapped = mapped.map_err(|source| Error::Words { bytes, source: source.into() })?;
        let advice = match pages {
            Pages::Small => Advice::LinuxNoHugepage,
            Pages::Huge => Advice::LinuxHugepage,
        };
        // A kernel without huge pages refuses the advice; then all pages are small.
        // SAFETY: the mapping is ours, and the advice changes no contents.
        let _ = unsafe { madvise(mapped, length, advice) };
        let skip = mapped.addr().next_multiple_of(HUGE_PAGE_BYTES) - mapped.addr();
        Ok(Self {
            base: mapped.wrapping_byte_add(skip).cast(),
            count: bytes / WORD_BYTES,
            mapped: (mapped, length),
        })
    }

    /// The contents of `file`, without read-ahead. What is stored goes to copies of its pages. The file must not get
    /// shorter: to use what it no longer has ends the process.
    ///
    /// # Errors
    /// It cannot be mapped, as when it is empty.
    pub fn of_file(file: &File) -> Result<Self, Error> {
        let bytes = file.metadata().map_or(0, |metadata| metadata.len() as usize) / WORD_BYTES * WORD_BYTES;
        let mapped = map_file(file.as_fd(), bytes);
        let mapped = mapped.map_err(|source| Error::Words { bytes, source: source.into() })?;
        // SAFETY: the mapping is ours, and the advice changes no contents.
        let _ = unsafe { madvise(mapped, bytes, Advice::Random) };
        Ok(Self { base: mapped.cast(), count: bytes / WORD_BYTES, mapped: (mapped, bytes) })
    }
}

/// A ring of pointers through memory. Each load tells the address of the next one, and nothing is computed in between.
#[derive(Debug)]
pub struct Ring {
    /// Nobody else has these, so no other word is ever in the ring.
    words: Words,
    at: *const AtomicU64,
}

// SAFETY: the pointer leads into the words, which go along.
unsafe impl Send for Ring {}

impl Ring {
    /// Links the words of these numbers, in this order, and the last one to the first.
    ///
    /// # Panics
    /// There is none, or one that is not there.
    #[must_use]
    pub fn new(words: Words, order: &[u32]) -> Self {
        let address = |place: u32| (&raw const words[place as usize]).expose_provenance() as u64;
        for (place, next) in order.iter().zip(order.iter().cycle().skip(1)) {
            words[*place as usize].store(address(*next), Relaxed);
        }
        let at = &raw const words[order[0] as usize];
        Self { words, at }
    }

    /// Goes on by so many words, and tells the number of the one that it arrives at.
    pub fn follow(&mut self, loads: usize) -> usize {
        let mut at = self.at;
        for _ in 0..loads {
            // SAFETY: the first word, and each that a word in the ring leads to, is a word of the mapping: `new` linked them, and
            // nothing changes them later.
            let next = unsafe { (*at).load(Relaxed) };
            at = ptr::with_exposed_provenance(next as usize);
        }
        self.at = at;
        (at.addr() - self.words.base.addr()) / WORD_BYTES
    }
}

fn map_file(file: BorrowedFd<'_>, bytes: usize) -> rustix::io::Result<*mut std::ffi::c_void> {
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE, file, 0) }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has so many words, aligned to a page, readable and writable for as long as the value lives; any
        // bytes are a value; and other writers, such as a writer of the file, change them behind an atomic.
        unsafe { slice::from_raw_parts(self.base, self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and borrows of its words have ended.
        let _ = unsafe { munmap(self.mapped.0, self.mapped.1) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn words_are_zeros_aligned_to_huge_pages() {
        for pages in [Pages::Small, Pages::Huge] {
            let words = Words::zeroed(3 << 20, pages).unwrap();
            assert_eq!((words.len(), words.as_ptr().addr() % HUGE_PAGE_BYTES), ((4 << 20) / 8, 0));
            words[words.len() - 1].store(7, Relaxed);
            assert_eq!((words[0].load(Relaxed), words[words.len() - 1].load(Relaxed)), (0, 7));
        }
    }

    #[test]
    fn a_ring_leads_to_every_place_once_before_it_begins_again() {
        let order: Vec<u32> = (0..1000).map(|line| line * 7 % 1000 * 8).collect();
        let mut ring = Ring::new(Words::zeroed(1 << 20, Pages::Small).unwrap(), &order);
        let mut seen: Vec<usize> = (0..1000).map(|_| ring.follow(1)).collect();
        assert_eq!(seen[..2], [order[1] as usize, order[2] as usize]);
        assert_eq!((seen[999], ring.follow(2000)), (order[0] as usize, order[0] as usize));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
    }

    /// So a step is one load from where the load before it leads: no base is added, and no index is scaled.
    #[test]
    fn each_word_of_a_ring_is_the_address_of_the_next_one() {
        let order = [64, 8, 4096, 0];
        let ring = Ring::new(Words::zeroed(1 << 20, Pages::Huge).unwrap(), &order);
        for (place, next) in order.iter().zip(order.iter().cycle().skip(1)) {
            let address = (&raw const ring.words[*next as usize]).addr();
            assert_eq!(ring.words[*place as usize].load(Relaxed), address as u64);
        }
        let others = (0..ring.words.len()).filter(|place| !order.contains(&(*place as u32)));
        assert!(others.into_iter().all(|place| ring.words[place].load(Relaxed) == 0));
    }

    #[test]
    fn what_is_stored_does_not_reach_the_file() {
        let object = crate::Object::new(4096).unwrap();
        let mut file = File::from(object.as_fd().try_clone_to_owned().unwrap());
        file.write_all(&7u64.to_ne_bytes()).unwrap();
        let words = Words::of_file(&file).unwrap();
        assert_eq!((words.len(), words[0].load(Relaxed)), (512, 7));
        words[0].store(8, Relaxed);
        let mut bytes = [0; 8];
        file.rewind().unwrap();
        file.read_exact(&mut bytes).unwrap();
        assert_eq!((u64::from_ne_bytes(bytes), words[0].load(Relaxed)), (7, 8));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(
            Words::zeroed(1 << 50, Pages::Small).unwrap_err().to_string().contains("1125899906842624 bytes")
        );
        assert!(Words::of_file(&File::open("/dev/null").unwrap()).is_err());
    }
}
