//! How much memory prefetching, and each speculator, may take: a share of what the machine has available, or of what
//! the control group that the program runs in is allowed, if that is less; and whether memory is short there.

use std::{
    fs::{self, File},
    io::Read,
    path::PathBuf,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use forebay_groups as groups;
use forebay_speculation::channel::{Header, MEMORY_ENOUGH, MEMORY_SHORT};

/// Until it is known.
pub const BYTES_AT_FIRST: u64 = 64 << 20;
const SHARE: u64 = 8;
const HORIZON_BYTES_MAX: u64 = 256 << 20;
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// Between looks: both figures change.
const INTERVAL: Duration = Duration::from_secs(1);

/// Memory is short where tasks waited for it for more than this part of the time.
const WAITED_PART: u128 = 1_000;

/// Keeps the limits in the header up to date.
pub struct MemoryLimits {
    /// What the user said that a speculator may take.
    wanted_bytes: Option<u64>,
    groups: Vec<PathBuf>,
    looked: Option<Instant>,
    /// Where the kernel tells how long tasks waited for memory (PSI), and what it told last.
    pressure: Option<PathBuf>,
    waited_us: Option<u64>,
}

impl MemoryLimits {
    /// For this process's control group. `wanted_bytes` is what a speculator may add, if that is given.
    pub fn new(header: &Header, wanted_bytes: Option<u64>) -> Self {
        if let Some(bytes) = wanted_bytes {
            header.memory_bytes_max.store(bytes, Relaxed);
        }
        Self { wanted_bytes, groups: vec![], looked: None, pressure: None, waited_us: None }
    }

    /// Sets the limits, if it is time.
    pub fn look_if_due(&mut self, header: &Header) {
        if self.looked.is_some_and(|looked| looked.elapsed() < INTERVAL) {
            return;
        }
        if self.looked.is_none() {
            self.groups = groups::own();
            self.pressure = self.groups.first().map(|group| group.join("memory.pressure"));
            if !self.pressure.as_ref().is_some_and(|file| file.exists()) {
                self.pressure = Some("/proc/pressure/memory".into());
            }
        }
        self.look_at_pressure(header);
        self.looked = Some(Instant::now());
        let allowed = self.groups.iter().filter_map(|group| groups::limit_bytes(group)).min();
        let share = available_bytes().into_iter().chain(allowed).min().map(|bytes| bytes / SHARE);
        if let Some(share) = share {
            header.horizon_bytes.store(share.min(HORIZON_BYTES_MAX), Relaxed);
        }
        if let Some(bytes) = self.wanted_bytes.or(share.map(|share| share.min(MEMORY_BYTES_MAX))) {
            header.memory_bytes_max.store(bytes, Relaxed);
        }
    }
}

impl MemoryLimits {
    fn look_at_pressure(&mut self, header: &Header) {
        let Some(file) = &self.pressure else { return };
        let text = fs::read_to_string(file).unwrap_or_default();
        let waited_us = waited_us(&text);
        let before = std::mem::replace(&mut self.waited_us, waited_us);
        if let (Some(waited_us), Some(before), Some(looked)) = (waited_us, before, self.looked) {
            let waited = u128::from(waited_us.saturating_sub(before));
            let short = waited * WAITED_PART > looked.elapsed().as_micros();
            header.memory.store(if short { MEMORY_SHORT } else { MEMORY_ENOUGH }, Relaxed);
        }
    }
}

/// For how long some task waited for memory since the start, as the kernel tells it:
/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn waited_us(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// Whether this process is in a control group of memory.
#[must_use]
pub fn has_memory_group() -> bool {
    let controls = |group: &PathBuf| groups::LIMITS.iter().any(|name| group.join(name).exists());
    groups::own().iter().any(controls)
}

/// Memory that the machine could give to programs.
fn available_bytes() -> Option<u64> {
    // The line is the third; one read of a page has it.
    let mut page = [0; 4096];
    let length = File::open("/proc/meminfo").ok()?.read(&mut page).ok()?;
    let text = std::str::from_utf8(&page[..length]).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_read_as_the_kernel_tells_it() {
        let text = "some avg10=0.12 avg60=0.00 avg300=0.00 total=4711\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=42\n";
        assert_eq!(waited_us(text), Some(4711));
        assert_eq!(waited_us(""), None);
    }

    #[test]
    fn the_limits_are_a_share_of_what_there_is_or_what_was_asked_for() {
        let channel = crate::channel::Channel::create(true).unwrap();
        let header = channel.header();
        MemoryLimits::new(header, None).look_if_due(header);
        assert!(header.horizon_bytes.load(Relaxed) <= HORIZON_BYTES_MAX);
        assert!(header.memory_bytes_max.load(Relaxed) <= available_bytes().unwrap());
        let mut limits = MemoryLimits::new(header, Some(5 << 20));
        assert_eq!(header.memory_bytes_max.load(Relaxed), 5 << 20);
        limits.look_if_due(header);
        assert_eq!(header.memory_bytes_max.load(Relaxed), 5 << 20);
    }
}
