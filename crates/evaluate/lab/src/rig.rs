//! The slow disk: a FUSE file with a latency, a loop device over it, ext4 or swap on that. And less memory, without a
//! device: a control group with a limit.
//!
//! It is a real block device to everything above, so that what depends on one (RWF_NOWAIT, readahead, swap) works as
//! on any other; only its requests take long. The parts live in a [cleanup](crate::cleanup) process.

mod device;
pub(crate) mod ext4;
mod formatter;
pub(crate) mod loop_device;
mod memory;
pub(crate) mod memory_group;
mod memory_limit;
mod schedule;
pub(crate) mod server;
mod slow_device;
mod slow_disk;
mod slow_swap;
pub(crate) mod swap;

pub(crate) use device::Device;
pub use memory_limit::MemoryLimit;
pub use slow_device::SlowDevice;
pub use slow_disk::SlowDisk;
pub use slow_swap::SlowSwap;

/// What a slow device has served since its start or the last reset, with and without latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Requests to put what was written in its final place.
    pub flushes: u64,
    /// Bytes of all read requests.
    pub bytes_read: u64,
    /// Bytes of all write requests.
    pub bytes_written: u64,
    /// The most requests that were under way, or waiting for a channel, at the same time.
    pub in_flight_max: u64,
}

impl Stats {
    /// Requests of every kind.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes
    }
}
