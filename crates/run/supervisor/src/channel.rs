//! The memory that agents and supervisor share, from the supervisor's side: it is made, filled and read here.
//!
//! What agents write there is untrusted, because a speculator that is off track can write anywhere. The supervisor clamps
//! numbers where it uses them.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    os::unix::fs::MetadataExt,
    sync::atomic::Ordering::{Relaxed, Release},
};

use forebay_linux::{features::has_strict_memory, kernel_text, limit};
use forebay_policy::price::{
    CHECKPOINT_US_MIN, FIRST_NS, MEMORY_BYTES_FIRST, PAGE_PRICE_FIRST, PRICE_ONE, STALL_US_MIN, ticks,
};
use forebay_protocol::access_log::{AccessLog, wanted};
use forebay_protocol::layout::{
    CHANNEL_BYTES, HEADER_BYTES, Header, LAYOUT, MAGIC, SLOT_BYTES, SLOT_FREE, SLOTS, Slot, slot_offset,
};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::ffi::{self, Mapping};

/// Shortest time over which the time-stamp counter is compared with the clock: either is read to some 30 ns.
const CALIBRATION_NS_MIN: u64 = 50_000;

/// The memory object and its mapping.
pub struct Channel {
    memory: OwnedFd,
    mapping: Mapping,
}

fn stall_us_min() -> u64 {
    hook("FOREBAY_STALL_US_MIN").unwrap_or(STALL_US_MIN).clamp(1, 1_000_000)
}

fn checkpoint_us_min() -> u64 {
    hook("FOREBAY_CHECKPOINT_US_MIN").unwrap_or(CHECKPOINT_US_MIN).min(1_000_000)
}

fn first_ns() -> u64 {
    hook("FOREBAY_FIRST_US").map_or(FIRST_NS, |us| us.min(1_000_000_000) * 1_000)
}

/// The threshold that a test sets instead.
fn hook(variable: &str) -> Option<u64> {
    if !cfg!(feature = "test-hooks") {
        return None;
    }
    std::env::var(variable).ok()?.parse().ok()
}

/// seccomp filters that this process runs under, as in most containers.
fn seccomp_filters() -> u32 {
    if matches!(rustix::thread::secure_computing_mode(), Ok(rustix::thread::SecureComputingMode::Disabled)) {
        return 0;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kernel_text::field(&status, "Seccomp_filters").and_then(|count| count.parse().ok()).unwrap_or(0)
}

impl Channel {
    /// Makes the memory and fills the header, except for the patch table and what [`Self::survey`] writes.
    ///
    /// # Errors
    /// The kernel refuses the memory or its mapping.
    pub fn create(enabled: bool) -> io::Result<Self> {
        let memory = create_memory()?;
        size_memory(&memory)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let channel = Self { mapping: Mapping::new(memory.as_fd())?, memory };
        let header = channel.header();
        header.layout.store(LAYOUT, Relaxed);
        header.supervisor_pid.store(std::process::id(), Relaxed);
        header.enabled.store(enabled.into(), Relaxed);
        header.seccomp_filters.store(seccomp_filters(), Relaxed);
        // As late as possible: the longer since the start of the process, the more exact.
        let ticks_per_second = ticks_per_second();
        header.ticks_per_second.store(ticks_per_second, Relaxed);
        header.stall_ticks_min.store(ticks_per_second / 1_000_000 * stall_us_min(), Relaxed);
        header.checkpoint_ticks_min.store(ticks_per_second / 1_000_000 * checkpoint_us_min(), Relaxed);
        header.first_ticks.store(ticks(first_ns(), ticks_per_second), Relaxed);
        header.savings_believed.store(PRICE_ONE, Relaxed);
        header.page_price.store(PAGE_PRICE_FIRST, Relaxed);
        header.horizon_bytes.store(MEMORY_BYTES_FIRST, Relaxed);
        header.memory_bytes_max.store(MEMORY_BYTES_FIRST, Relaxed);
        if enabled {
            // For the neighbours of files, whether a profile is recorded or not.
            let log = channel.access_log();
            log.since.store(ffi::ticks(), Relaxed);
            log.wanted.store(wanted::AFTER_WAIT, Relaxed);
        }
        header.magic.store(MAGIC, Release);
        Ok(channel)
    }

    /// Writes what agents need to know before they start a speculator, and the start of the program need not wait for. To be called in the
    /// supervisor.
    pub fn survey(&self) {
        let header = self.header();
        header.strict_memory.store(has_strict_memory().into(), Relaxed);
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_or(0, |link| link.ino());
        header.pid_namespace.store(namespace, Relaxed);
        header.is_surveyed.store(1, Release);
    }

    /// The header.
    pub fn header(&self) -> &'static Header {
        self.mapping.header()
    }

    /// What the programs of the run looked up and read.
    pub fn access_log(&self) -> &'static AccessLog {
        self.mapping.access_log()
    }

    /// Slot `index`, below [`SLOTS`].
    pub fn slot(&self, index: usize) -> &'static Slot {
        self.mapping.slot(index)
    }

    /// Indices of the slots that are in `state`.
    pub fn slots_in(&self, state: u32) -> impl Iterator<Item = usize> + use<> {
        let states = &self.header().slot_states;
        (0..SLOTS).filter(move |index| states[*index].load(std::sync::atomic::Ordering::Acquire) == state)
    }

    /// Descriptor of the memory in this process, by which agents find it.
    pub fn descriptor(&self) -> RawFd {
        self.memory.as_raw_fd()
    }

    /// Zeroes slot `index`, gives its memory back and lets another process have it.
    pub fn free_slot(&self, index: usize) {
        let punched = fallocate(
            &self.memory,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            slot_offset(index) as u64,
            SLOT_BYTES as u64,
        );
        // A slot that could not be zeroed stays out of use: its claimer would find another's log.
        if punched.is_ok() {
            self.header().slot_states[index].store(SLOT_FREE, Release);
        }
    }
}

const _: () = assert!(HEADER_BYTES.is_multiple_of(4096) && SLOT_BYTES.is_multiple_of(4096));

fn create_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(c"forebay", flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not know the flag.
        Err(Errno::INVAL) => Ok(memfd_create(c"forebay", flags)?),
        made => Ok(made?),
    }
}

/// Gives the object its size, also where the shell limits the size of files (`ulimit -f`): this is no file.
fn size_memory(memory: &OwnedFd) -> io::Result<()> {
    let limit = limit(Resource::Fsize).ok_or(Errno::PERM)?;
    let too_low = limit.current.is_some_and(|current| current < CHANNEL_BYTES as u64);
    if too_low {
        // Asked first: going over the limit would raise SIGXFSZ.
        if limit.maximum.is_some_and(|maximum| maximum < CHANNEL_BYTES as u64) {
            return Err(Errno::FBIG.into());
        }
        setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    let sized = ftruncate(memory, CHANNEL_BYTES as u64);
    if too_low {
        setrlimit(Resource::Fsize, limit)?;
    }
    Ok(sized?)
}

/// Rate of the time-stamp counter, from the time that has passed since this process started: start-up would be too
/// short to wait for a calibration of its own.
fn ticks_per_second() -> u64 {
    let (ticks_before, before) = ffi::simultaneous_at_start().unwrap_or_else(ffi::simultaneous);
    loop {
        let (ticks, now) = ffi::simultaneous();
        let elapsed = now.saturating_sub(before);
        if elapsed >= CALIBRATION_NS_MIN {
            let rate = u128::from(ticks.saturating_sub(ticks_before)) * 1_000_000_000 / u128::from(elapsed);
            return u64::try_from(rate).unwrap_or(u64::MAX).max(1_000_000);
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_protocol::layout::SLOT_CLAIMED;

    #[test]
    fn an_agent_would_recognise_a_new_channel() {
        let channel = Channel::create(true).unwrap();
        let header = channel.header();
        assert_eq!(header.magic.load(Relaxed), MAGIC);
        assert_eq!(header.layout.load(Relaxed), LAYOUT);
        assert_eq!(header.supervisor_pid.load(Relaxed), std::process::id());
        assert_eq!(channel.slots_in(SLOT_FREE).count(), SLOTS);
    }

    /// The test's own program runs it again, because the environment of a process with threads must not change.
    #[test]
    fn hooks_of_tests_work_in_tests_alone() {
        const SET: &str = "FOREBAY_FIRST_US";
        const NAME: &str = "channel::tests::hooks_of_tests_work_in_tests_alone";
        if std::env::var_os(SET).is_none() {
            let own = std::env::current_exe().unwrap();
            let ended =
                std::process::Command::new(own).args(["--exact", NAME]).env(SET, "7").output().unwrap();
            let said = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let expected = if cfg!(feature = "test-hooks") { 7_000 } else { FIRST_NS };
        let channel = Channel::create(true).unwrap();
        let per_second = channel.header().ticks_per_second.load(Relaxed);
        assert_eq!(channel.header().first_ticks.load(Relaxed), ticks(expected, per_second));
    }

    #[test]
    fn the_memory_cannot_change_its_size() {
        let channel = Channel::create(true).unwrap();
        assert!(ftruncate(&channel.memory, 0).is_err());
        assert!(ftruncate(&channel.memory, 2 * CHANNEL_BYTES as u64).is_err());
    }

    #[test]
    fn a_freed_slot_is_zero_again() {
        let channel = Channel::create(true).unwrap();
        let slot = channel.slot(SLOTS - 1);
        channel.header().slot_states[SLOTS - 1].store(SLOT_CLAIMED, Relaxed);
        slot.pid.store(7, Relaxed);
        slot.last_predicted[0].store(9, Relaxed);
        channel.free_slot(SLOTS - 1);
        assert_eq!((slot.pid.load(Relaxed), slot.last_predicted[0].load(Relaxed)), (0, 0));
        assert_eq!(channel.slots_in(SLOT_FREE).count(), SLOTS);
    }

    #[test]
    fn the_tick_rate_is_steady() {
        let (first, second) = (ticks_per_second() as f64, ticks_per_second() as f64);
        assert!((first / second - 1.0).abs() < 0.02, "{first} and {second}");
    }
}
