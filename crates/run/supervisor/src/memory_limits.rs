//! Limits the memory that prefetching and each speculator may take, and tells agents whether memory is short.
//!
//! The limit is a share of what the machine has available, or of what the program's control group allows if that is less.

use std::{
    fs::{self, File},
    io::Read,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use forebay_linux::groups;
use forebay_linux::kernel_text::{self, Pressure};
use forebay_policy::price::{
    AHEAD_BYTES_MAX, FULL_PART, MEMORY_PART, MEMORY_WAITED_PART, MISSED_A_SECOND, READ_AHEAD_PART,
    SPECULATOR_BYTES_MAX,
};
use forebay_protocol::layout::{Header, MEMORY_ENOUGH, MEMORY_FULL, MEMORY_SHORT, feature};

use crate::memory_groups::MemoryGroups;

/// Between looks: both figures change.
const INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the limits in the header up to date.
pub struct MemoryLimits {
    /// What the user said that a speculator may take.
    wanted_bytes: Option<u64>,
    groups: MemoryGroups,
    looked: Option<Instant>,
    began: Instant,
    /// How long tasks had waited for memory at the last look, as far as the kernel tells.
    waited_us: Option<u64>,
    /// The pages that had been swapped in again, if little was left.
    missed: Option<u64>,
    /// There was little left at some look.
    was_full: bool,
    /// Bits of [`feature`].
    missing: u32,
}

/// What came of the program's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEnd {
    /// Processes of its groups that the kernel killed for want of memory.
    pub kills: u64,
    /// Whether that was because its groups are limited; else it was the machine's memory.
    pub limited: bool,
    /// What of [`feature`] was missing while memory was short.
    pub missed: u32,
    /// What of it is missing for those that speculate.
    pub missing: u32,
}

impl MemoryLimits {
    /// For the control groups of process `pid`. `wanted_bytes` is what a speculator may add, if that is given.
    pub fn new(header: &Header, wanted_bytes: Option<u64>, pid: u32) -> Self {
        if let Some(bytes) = wanted_bytes {
            header.memory_bytes_max.store(bytes, Relaxed);
        }
        let mut groups = MemoryGroups::new(pid);
        // What the kernel kills before the first look counts, too.
        groups.look();
        Self {
            wanted_bytes,
            groups,
            looked: None,
            began: Instant::now(),
            waited_us: None,
            missed: None,
            was_full: false,
            missing: 0,
        }
    }

    /// Sets the limits, if it is time.
    pub fn look_if_due(&mut self, header: &Header) {
        if self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return;
        }
        if self.groups.look() {
            // Elsewhere others have waited.
            (self.waited_us, self.missed) = (None, None);
        }
        if self.groups.wait_when_full() {
            // What a speculator has, the program could wait for for ever.
            header.enabled.store(0, Relaxed);
        }
        let memory = Memory::read();
        let is_full = memory.is_some_and(|memory| memory.is_full()) || self.groups.are_full();
        self.was_full |= is_full;
        self.look_at_pressure(header, is_full);
        self.looked = Some(Instant::now());
        let available = memory.map(|memory| memory.available_bytes);
        let share =
            available.into_iter().chain(self.groups.limit_bytes()).min().map(|bytes| bytes / MEMORY_PART);
        if let Some(share) = share {
            header.horizon_bytes.store(share.min(AHEAD_BYTES_MAX), Relaxed);
        }
        if let Some(bytes) = self.wanted_bytes.or(share.map(|share| share.min(SPECULATOR_BYTES_MAX))) {
            header.memory_bytes_max.store(bytes, Relaxed);
        }
        self.missing |= if self.waited_us.is_none() { feature::PSI } else { 0 };
        self.missing |= if self.groups.have_account() { 0 } else { feature::MEMORY_GROUP };
    }

    /// Whether there was little left at some look; soon after the start, while that still changes fast, or is now in one of the
    /// groups.
    pub fn are_reached(&mut self) -> bool {
        let is_new = self.began.elapsed() < INTERVAL;
        self.was_full = self.was_full || is_new && self.groups.are_full();
        self.was_full
    }

    /// Bytes that a stream may fill, of what the machine and the program's groups have left now.
    pub fn stream_bytes(&self) -> u64 {
        let available = Memory::read().map(|memory| memory.available_bytes);
        available.into_iter().chain(self.groups.left_bytes()).min().unwrap_or(0) / READ_AHEAD_PART
    }

    /// The program has ended.
    pub fn end(&self) -> MemoryEnd {
        let kills = self.groups.kills();
        let was_short = self.was_full || kills > 0;
        let missed = if was_short && !has_swap() { feature::SWAP } else { 0 };
        // Version 1 says so of no limit too, with more than any machine has.
        let has = || Memory::read().map_or(u64::MAX, |memory| memory.total_bytes);
        let limited = || self.groups.limit_bytes().is_some_and(|bytes| bytes < has());
        MemoryEnd { kills, limited: kills > 0 && limited(), missed, missing: self.missing }
    }

    fn look_at_pressure(&mut self, header: &Header, is_full: bool) {
        let text = fs::read_to_string(self.groups.pressure()).unwrap_or_default();
        let waited = more(&mut self.waited_us, Pressure::parse(&text).some_us);
        let missed = if is_full { self.groups.missed_pages().or_else(missed_pages) } else { None };
        let missed = more(&mut self.missed, missed).unwrap_or(0);
        if let (Some(waited), Some(looked)) = (waited, self.looked) {
            let elapsed_us = looked.elapsed().as_micros();
            let is_short = u128::from(waited) * u128::from(MEMORY_WAITED_PART) > elapsed_us
                || u128::from(missed) * 1_000_000 > u128::from(MISSED_A_SECOND) * elapsed_us;
            let memory = match (is_short, is_full) {
                (true, _) => MEMORY_SHORT,
                (false, true) => MEMORY_FULL,
                (false, false) => MEMORY_ENOUGH,
            };
            header.memory.store(memory, Relaxed);
        }
    }
}

/// What a count is more than it was, if both are known.
fn more(known: &mut Option<u64>, now: Option<u64>) -> Option<u64> {
    let before = std::mem::replace(known, now);
    Some(now?.saturating_sub(before?))
}

/// Pages that all programs of the machine had to have swapped in again so far.
fn missed_pages() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    kernel_text::number(&text, "workingset_refault_anon")
}

/// Whether the kernel tells how long tasks waited for memory.
#[must_use]
pub fn has_pressure() -> bool {
    let mut groups = MemoryGroups::new(std::process::id());
    groups.look();
    fs::read_to_string(groups.pressure()).is_ok_and(|text| Pressure::parse(&text).some_us.is_some())
}

/// Whether this process is in a control group of memory.
#[must_use]
pub fn has_memory_group() -> bool {
    groups::has_account(&groups::own())
}

/// Whether memory can be swapped out at all.
#[must_use]
pub fn has_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|text| kernel_text::swaps(&text).next().is_some())
}

/// The machine's memory.
#[derive(Clone, Copy)]
struct Memory {
    total_bytes: u64,
    /// What could be given to programs.
    available_bytes: u64,
}

impl Memory {
    fn read() -> Option<Self> {
        // The lines are among the first three; one read of a page has them.
        let mut page = [0; 4096];
        let length = File::open("/proc/meminfo").ok()?.read(&mut page).ok()?;
        let text = std::str::from_utf8(&page[..length]).ok()?;
        let bytes = |name| kernel_text::bytes(text, name);
        Some(Self { total_bytes: bytes("MemTotal")?, available_bytes: bytes("MemAvailable")? })
    }

    fn is_full(self) -> bool {
        self.available_bytes < self.total_bytes / FULL_PART
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_a_share_of_what_there_is_or_what_was_asked_for() {
        let channel = crate::channel::Channel::create(true).unwrap();
        let header = channel.header();
        let own = std::process::id();
        MemoryLimits::new(header, None, own).look_if_due(header);
        assert!(header.horizon_bytes.load(Relaxed) <= AHEAD_BYTES_MAX);
        assert!(header.memory_bytes_max.load(Relaxed) <= Memory::read().unwrap().available_bytes);
        let mut limits = MemoryLimits::new(header, Some(5 << 20), own);
        assert_eq!(header.memory_bytes_max.load(Relaxed), 5 << 20);
        limits.look_if_due(header);
        assert_eq!(header.memory_bytes_max.load(Relaxed), 5 << 20);
    }
}
