//! Events of the kernel that tell which pages a program and its children wait for (perf_event_open(2)).
//!
//! # Safety
//! Each function here is safe to call: it takes owned descriptors, and a ring is read within its mapping.
#![allow(unsafe_code, reason = "a mapping that the kernel writes to, and sysconf(3)")]

use std::{
    ffi::{c_int, c_void},
    fs, io,
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release},
};

use super::events::{Counted, Event, Faults, bit};

const SAMPLE_TID_TIME_ADDRESS: u64 = 1 << 1 | 1 << 2 | 1 << 3;

/// Each process has an event for each processor, which a fork copies and a switch looks at: beyond so many, forks would take
/// too long.
const PROCESSORS_MAX: i64 = 64;

/// Events of threads beside the first one, at most: each keeps a descriptor open. Threads that those of a process start later are
/// watched without one.
const OTHERS_MAX: usize = 64;
/// Has an event write its records where another one does (`linux/perf_event.h`).
const SET_OUTPUT: libc::c_ulong = 0x2405;

/// Events of the faults of a process, and of its children's.
pub struct FaultEvents {
    /// One for each processor.
    by_processor: Vec<OwnedFd>,
    /// The same of further threads.
    others: Vec<Vec<OwnedFd>>,
}

impl FaultEvents {
    /// Opens them, of a process and others. The kernel takes some 20 ms to open the first event of a second.
    ///
    /// # Errors
    /// The kernel has no such events or forbids them, there are too many processors, or the process is gone.
    pub fn open(processes: impl Iterator<Item = u32>) -> io::Result<Self> {
        let mut threads = processes.flat_map(threads);
        let first = threads.next().ok_or(io::ErrorKind::NotFound)?;
        Self::open_of(first, threads)
    }

    fn open_of(first: u32, others: impl Iterator<Item = u32>) -> io::Result<Self> {
        // SAFETY: the call takes a number.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        if processors > PROCESSORS_MAX {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let all = |thread, without| -> io::Result<Vec<OwnedFd>> {
            let events =
                (0..processors as c_int).filter_map(|processor| match open(thread, processor, without) {
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => None,
                    opened => Some(opened),
                });
            events.collect()
        };
        // Those in the kernel, as it copies to a mapped file, take a right.
        let (mut without, wanted) = (bit::EXCLUDE_HYPERVISOR, all(first, bit::EXCLUDE_HYPERVISOR));
        let by_processor = wanted.or_else(|_| {
            without |= bit::EXCLUDE_KERNEL;
            all(first, without)
        })?;
        let count = OTHERS_MAX / by_processor.len().max(1);
        // One may have ended.
        let others = others.take(count).filter_map(|thread| all(thread, without).ok());
        let others = others.filter(|events| events.len() == by_processor.len()).collect();
        Ok(Self { by_processor, others })
    }

    /// All descriptors, and the number of processors.
    #[must_use]
    pub fn into_parts(self) -> (Vec<OwnedFd>, u8) {
        let processors = self.by_processor.len() as u8;
        (self.by_processor.into_iter().chain(self.others.into_iter().flatten()).collect(), processors)
    }

    /// From what [`FaultEvents::into_parts`] gave; `None` where descriptors are missing.
    #[must_use]
    pub fn from_parts(descriptors: Vec<OwnedFd>, processors: u8) -> Option<Self> {
        let processors = usize::from(processors);
        let is_whole = !descriptors.is_empty() && descriptors.len().is_multiple_of(processors);
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.by_ref().take(processors).collect::<Vec<_>>();
        let by_processor = Some(next()).filter(|_| is_whole)?;
        let others = std::iter::from_fn(|| Some(next()).filter(|events| !events.is_empty())).collect();
        Some(Self { by_processor, others })
    }

    /// A ring for each processor, to which the events of all threads write, and the events that must stay open for that.
    ///
    /// # Errors
    /// The kernel refuses the memory.
    pub fn into_rings(self) -> io::Result<(Vec<Ring>, Vec<OwnedFd>)> {
        let rings = self.by_processor.iter().map(Ring::new).collect::<Result<_, _>>()?;
        let joins = |(event, first): &(OwnedFd, &OwnedFd)| {
            // SAFETY: the call takes numbers.
            unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, first.as_raw_fd()) == 0 }
        };
        let others = self.others.into_iter();
        let joined = others.flat_map(|events| events.into_iter().zip(&self.by_processor).filter(joins));
        Ok((rings, joined.map(|(event, _)| event).collect()))
    }
}

fn threads(process: u32) -> impl Iterator<Item = u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok())
}

fn open(thread: u32, processor: c_int, without: u64) -> io::Result<OwnedFd> {
    let event = Event {
        faults: Faults::Major,
        period: 1,
        sample_type: SAMPLE_TID_TIME_ADDRESS,
        bits: bit::INHERIT
            | without
            | bit::MMAP
            | bit::COMM
            | bit::TASK
            | bit::MMAP_DATA
            | bit::SAMPLE_ID_ALL
            | bit::MMAP2
            | bit::COMM_EXEC
            | bit::USE_CLOCK,
        wakeup_events: 0,
        clock: libc::CLOCK_MONOTONIC_RAW,
    };
    event.open(Counted::OnProcessor(thread, processor))
}

/// Where the kernel puts the records of an event. The event lives as long as this, whether its descriptor is closed or not.
pub struct Ring {
    start: *mut c_void,
    data_bytes: usize,
}

const PAGE: usize = 4096;
/// Room for records, in pages: as much as the kernel lets this user have, of these.
const DATA_PAGES: [usize; 4] = [64, 32, 16, 8];
/// Of `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

impl Ring {
    /// Maps the ring of an event.
    ///
    /// # Errors
    /// The kernel refuses the memory.
    fn new(event: &OwnedFd) -> io::Result<Self> {
        let mut refused = io::Error::from(io::ErrorKind::OutOfMemory);
        for pages in DATA_PAGES {
            let bytes = (1 + pages) * PAGE;
            // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
            let start = unsafe {
                let protection = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, event.as_raw_fd(), 0)
            };
            if start != libc::MAP_FAILED {
                return Ok(Self { start, data_bytes: pages * PAGE });
            }
            refused = io::Error::last_os_error();
        }
        Err(refused)
    }

    /// Appends to `bytes` what the kernel has written since the last time.
    pub fn take(&self, bytes: &mut Vec<u8>) {
        let (head, tail) = (self.position(HEAD).load(Acquire), self.position(TAIL).load(Relaxed));
        let length = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        let from = tail as usize % self.data_bytes;
        let first = length.min(self.data_bytes - from);
        bytes.reserve(length);
        for (from, length) in [(from, first), (0, length - first)] {
            // SAFETY: the range is within the data, which begins behind the first page; the kernel writes only behind `head`.
            let part = unsafe {
                std::slice::from_raw_parts(self.start.cast::<u8>().add(PAGE + from).cast_const(), length)
            };
            bytes.extend_from_slice(part);
        }
        self.position(TAIL).store(head, Release);
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: an aligned word of the first page, which kernel and reader change by atomic stores.
        unsafe { &*self.start.byte_add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's, and no reference into it is left.
        unsafe { libc::munmap(self.start, PAGE + self.data_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, sync::mpsc, thread};

    use super::*;

    /// Where a byte of the file's middle is mapped, once it was read.
    fn read_mapped(file: &fs::File) -> u64 {
        // SAFETY: a new mapping of a file of two pages that nobody else has, and a byte within it.
        unsafe {
            let start =
                libc::mmap(ptr::null_mut(), 2 * PAGE, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(start, libc::MAP_FAILED);
            let byte = start.byte_add(PAGE + 7);
            assert_eq!(byte.cast::<u8>().read_volatile(), 1);
            byte.addr() as u64
        }
    }

    #[test]
    fn faults_of_threads_that_were_there_before_are_sampled() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 2 * PAGE]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        if forebay_linux::cachestat(&file).is_ok_and(|cached| cached.cached > 0) {
            // A file system in memory.
            return;
        }
        let ((go, told), (tell, began)) = (mpsc::channel::<()>(), mpsc::channel::<u32>());
        let reader = thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).unwrap();
            told.recv().unwrap();
            read_mapped(&file)
        });
        let thread = began.recv().unwrap();
        assert!(threads(std::process::id()).any(|other| other == thread));
        // Where the kernel has no such events, what agents see is recorded.
        let Ok(events) = FaultEvents::open_of(std::process::id(), [thread].into_iter()) else { return };
        let (rings, kept) = events.into_rings().unwrap();
        assert!(!kept.is_empty());
        go.send(()).unwrap();
        let address = reader.join().unwrap();
        let mut bytes = Vec::new();
        rings.iter().for_each(|ring| ring.take(&mut bytes));
        assert!(bytes.chunks_exact(8).any(|word| word == address.to_ne_bytes()));
    }
}
