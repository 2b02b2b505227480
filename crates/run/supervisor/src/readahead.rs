//! Restores the kernel's own readahead of swap after hints have reduced it.
//!
//! The kernel reads several swapped pages at a time in a mapping while the program uses pages that it had read ahead. Hinted
//! pages do not count, so speculation shrinks the window to one page. With two streams in one mapping it stays there. A run
//! of neighbouring pages, each faulted in after the other, opens it again.

use std::{
    fs::{self, File},
    os::{fd::OwnedFd, unix::fs::FileExt},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use forebay_linux::process::{Apart, start_apart_with};
use forebay_policy::price::{ALONE_MS, SWAPPED_BYTES_MIN, SWAPPED_MAPPINGS_MAX};
use forebay_protocol::layout::{SLOT_CLAIMED, SLOTS};

use crate::channel::Channel;

/// How long no speculation goes on before a process is taken to run alone.
const ALONE: Duration = Duration::from_millis(ALONE_MS);
/// Neighbouring swapped pages that are faulted in: twice the kernel's largest window, which is 8 pages by default.
const RUN: usize = 16;
/// How far into a mapping a run is looked for.
const PAGES_MAX: u64 = 1 << 18;
/// Entries of a page map read at a time.
const ENTRIES: usize = 4096;
const ENTRY_BYTES: usize = 8;
const SWAPPED: u64 = 1 << 62;
const PAGE_BYTES: u64 = 4096;

/// What is known of the speculations of each slot's process.
pub struct Readahead {
    slots: Box<[Pages; SLOTS]>,
    /// A process that waits for the swap device in our place: that may not answer, and the end of the run waits for no device.
    worker: Option<Apart>,
}

/// The state of one process.
#[derive(Clone, Copy, Default)]
struct Came {
    /// Pages that were hinted.
    hinted: u64,
    /// Stalls.
    stalls: u64,
}

/// What is known of one process.
#[derive(Clone, Copy, Default)]
struct Pages {
    pid: u32,
    /// The same at the last look.
    seen: Came,
    /// And when readahead was last restored.
    restored: Came,
    /// Since when no more hinted pages are coming.
    alone_since: Option<Instant>,
}

impl Pages {
    /// Whether hints have displaced readahead, and the process has run without them for a while.
    ///
    /// They have where more pages came by hints than by stalls. Where they are few, as of a program that cannot be foretold,
    /// readahead is as narrow as the program had it, and opening it would drive out other pages.
    fn are_due(&mut self, pid: u32, came: Came, speculating: bool, now: Instant) -> bool {
        if self.pid != pid {
            *self = Self { pid, ..Self::default() };
        }
        let more = std::mem::replace(&mut self.seen, came).hinted != came.hinted;
        if more || speculating {
            self.alone_since = None;
            return false;
        }
        if came.hinted == self.restored.hinted {
            // What it waited for before there were hints has nothing to do with them.
            self.restored = came;
        }
        let since = *self.alone_since.get_or_insert(now);
        let displaced = came.hinted.saturating_sub(self.restored.hinted)
            > came.stalls.saturating_sub(self.restored.stalls);
        let due = displaced && now.duration_since(since) >= ALONE;
        if due {
            self.restored = came;
        }
        due
    }
}

impl Default for Readahead {
    fn default() -> Self {
        Self { slots: Box::new([Pages::default(); SLOTS]), worker: None }
    }
}

impl Readahead {
    /// Looks at all processes, and begins to restore the readahead of one whose speculation has ended.
    pub fn look(&mut self, channel: &Channel) {
        if self.worker.as_ref().is_some_and(|worker| !worker.has_ended()) {
            return;
        }
        self.worker = None;
        let now = Instant::now();
        let due = channel.slots_in(SLOT_CLAIMED).find_map(|index| {
            let slot = channel.slot(index);
            let pid = slot.pid.load(Relaxed);
            let came =
                Came { hinted: slot.pages_used.load(Relaxed), stalls: slot.counters.stalls.load(Relaxed) };
            let speculating = slot.speculator_pid.load(Relaxed) != 0;
            self.slots[index].are_due(pid, came, speculating, now).then_some(pid)
        });
        self.worker = due.and_then(|pid| start(pid).ok());
    }
}

/// Starts a process that restores the readahead of `pid`. The calling thread must be the only one.
fn start(pid: u32) -> std::io::Result<Apart> {
    // The supervisor opens the memory itself: where a process may be traced by its parents alone, the worker could not.
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    start_apart_with(memory.into(), |memory: OwnedFd| {
        // Without a name it is only harder to find.
        let _ = rustix::thread::set_name(c"forebay:swap");
        let _ = restore(&memory.into(), pid);
    })
}

/// Faults in a run of each large mapping of `pid`. Whatever cannot be read may as well stay as it is.
fn restore(memory: &File, pid: u32) -> std::io::Result<()> {
    let page_map = File::open(format!("/proc/{pid}/pagemap"))?;
    for (start, end) in large_mappings(&fs::read_to_string(format!("/proc/{pid}/maps"))?) {
        let Some(run) = swapped_run(&page_map, start, end) else { continue };
        for page in 0..RUN as u64 {
            // It may have been unmapped meanwhile.
            let _ = memory.read_at(&mut [0], run + page * PAGE_BYTES);
        }
    }
    Ok(())
}

/// Writable mappings of no file, the largest first, from the text of `/proc/<pid>/maps`.
fn large_mappings(maps: &str) -> Vec<(u64, u64)> {
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let wanted = words.next()?.starts_with("rw-p") && words.nth(2)? == "0";
        (wanted && end.saturating_sub(start) >= SWAPPED_BYTES_MIN).then_some((start, end))
    };
    let mut mappings: Vec<_> = maps.lines().filter_map(parse).collect();
    mappings.sort_by_key(|(start, end)| std::cmp::Reverse(end - start));
    mappings.truncate(SWAPPED_MAPPINGS_MAX);
    mappings
}

/// Address of the first of [`RUN`] neighbouring swapped pages.
fn swapped_run(page_map: &File, start: u64, end: u64) -> Option<u64> {
    let end = end.min(start + PAGES_MAX * PAGE_BYTES);
    let mut buffer = [0; ENTRIES * ENTRY_BYTES];
    let (mut page, mut run) = (start / PAGE_BYTES, 0);
    while page < end / PAGE_BYTES {
        let entries = (end / PAGE_BYTES - page).min(ENTRIES as u64) as usize;
        let bytes = &mut buffer[..entries * ENTRY_BYTES];
        page_map.read_exact_at(bytes, page * ENTRY_BYTES as u64).ok()?;
        for entry in bytes.chunks_exact(ENTRY_BYTES) {
            page += 1;
            let entry = entry.try_into().map_or(0, u64::from_ne_bytes);
            run = if entry & SWAPPED != 0 { run + 1 } else { 0 };
            if run == RUN {
                return Some((page - RUN as u64) * PAGE_BYTES);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_speculation_that_was_of_use_is_seen_once() {
        let start = Instant::now();
        let mut pages = Pages::default();
        let mut look = |pid, hinted, speculating, at: u32| {
            pages.are_due(pid, Came { hinted, stalls: 20 }, speculating, start + at * ALONE)
        };
        assert!(!look(7, 0, false, 0), "nothing was hinted");
        assert!(!look(7, 0, false, 2), "nothing was hinted");
        assert!(!look(7, 100, true, 3), "it goes on");
        assert!(!look(7, 100, false, 4), "it may begin again any time");
        assert!(look(7, 100, false, 5));
        assert!(!look(7, 100, false, 6), "it was seen");
        assert!(!look(7, 130, true, 7), "another goes on");
        assert!(!look(7, 130, false, 8), "it may begin again any time");
        assert!(!look(7, 140, false, 9), "some were still on their way");
        assert!(!look(8, 140, false, 10), "another process");
        assert!(!look(8, 140, false, 11), "it has just been seen");
        assert!(look(8, 140, false, 12));
    }

    #[test]
    fn few_hints_among_many_stalls_displace_nothing() {
        let start = Instant::now();
        let mut pages = Pages::default();
        let mut look =
            |hinted, stalls, at: u32| pages.are_due(7, Came { hinted, stalls }, false, start + at * ALONE);
        assert!(!look(100, 2_000, 0) && !look(100, 2_001, 1) && !look(100, 2_001, 2));
        assert!(!look(2_200, 2_100, 3), "some more have just come");
        assert!(!look(2_200, 2_100, 4) && look(2_200, 2_100, 5));
        assert!(!look(2_300, 2_250, 6) && !look(2_300, 2_250, 7), "fewer than the stalls since then");
        assert!(!look(2_300, 2_250, 8), "fewer than the stalls since then");
    }

    #[test]
    fn stalls_before_the_first_hints_do_not_count() {
        let start = Instant::now();
        let mut pages = Pages::default();
        let mut look =
            |hinted, stalls, at: u32| pages.are_due(7, Came { hinted, stalls }, false, start + at * ALONE);
        assert!(!look(0, 20_000, 0) && !look(0, 30_000, 1));
        assert!(!look(10_000, 30_100, 2), "they have just come");
        assert!(!look(10_000, 30_100, 3) && look(10_000, 30_100, 4));
    }

    #[test]
    fn only_large_private_memory_is_looked_at() {
        let maps = "\
            00400000-00600000 rw-p 00000000 08:01 1234 /bin/program\n\
            01000000-01001000 rw-p 00000000 00:00 0 [heap]\n\
            20000000-20100000 rw-p 00000000 00:00 0 \n\
            30000000-30200000 rw-p 00000000 00:00 0 \n\
            40000000-40200000 r--p 00000000 00:00 0 \n\
            50000000-50200000 rw-s 00000000 00:01 77 /dev/zero (deleted)\n";
        assert_eq!(large_mappings(maps), [(0x3000_0000, 0x3020_0000), (0x2000_0000, 0x2010_0000)]);
    }

    #[test]
    fn a_run_of_swapped_pages_is_found_across_pieces() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let file = path.as_file();
        let swapped = ENTRIES as u64 - 5..ENTRIES as u64 + RUN as u64 - 5;
        let last = swapped.end;
        for page in 0..2 * ENTRIES as u64 {
            let entry = if swapped.contains(&page) || page % 3 == 0 { SWAPPED } else { 1 << 63 };
            file.write_all_at(&entry.to_ne_bytes(), page * ENTRY_BYTES as u64).unwrap();
        }
        let found = swapped_run(file, 0, 2 * ENTRIES as u64 * PAGE_BYTES).unwrap() / PAGE_BYTES;
        assert!((swapped.start - 1..=swapped.start).contains(&found), "{found}");
        assert_eq!(swapped_run(file, last * PAGE_BYTES, 2 * ENTRIES as u64 * PAGE_BYTES), None);
    }

    #[test]
    fn a_process_that_is_gone_is_left_alone() {
        assert!(start(u32::MAX).is_err());
        assert!(restore(&File::open("/proc/self/mem").unwrap(), u32::MAX).is_err());
    }
}
