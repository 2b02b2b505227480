//! The slow disk: a FUSE file with a latency, a loop device over it, a file system or swap on that. A remote file system: FUSE with a
//! latency. And less memory: a control group with a limit.
//!
//! The slow disk is a real block device to everything above, so that what depends on one (RWF_NOWAIT, readahead, swap) works as
//! on any other; only its requests take long. The parts live in a [cleanup](crate::cleanup) process.

mod device;
pub(crate) mod file_system;
mod formatter;
pub(crate) mod loop_device;
mod memory;
pub(crate) mod memory_group;
mod memory_limit;
pub(crate) mod mounts;
mod queue;
pub(crate) mod remote;
mod schedule;
pub(crate) mod server;
mod slow_device;
mod slow_disk;
mod slow_swap;
pub(crate) mod swap;

pub(crate) use device::Device;
pub use file_system::FileSystem;
pub use memory_limit::MemoryLimit;
pub use remote::Opens;
pub use slow_device::SlowDevice;
pub use slow_disk::SlowDisk;
pub use slow_swap::SlowSwap;

/// What a slow device, or a remote file system, has served since its start or the last reset, with and without latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Look-ups of names. A device has none.
    pub look_ups: u64,
    /// Requests for attributes, or to change them. A device has none.
    pub attributes: u64,
    /// Opens of files and folders. A device has none.
    pub opens: u64,
    /// Requests for names of a folder. A device has none.
    pub listings: u64,
    /// Listings that began elsewhere than at the start of a folder. Some file systems cannot answer these.
    pub listings_astray: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests; of a remote file system all that change something, too.
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
        self.look_ups + self.attributes + self.opens + self.listings + self.reads + self.writes + self.flushes
    }

    /// The numbers in the order in which [`of_numbers`](Self::of_numbers) takes them.
    pub(crate) fn numbers(&self) -> [u64; 11] {
        [
            self.look_ups,
            self.attributes,
            self.opens,
            self.listings,
            self.listings_astray,
            self.reads,
            self.writes,
            self.flushes,
            self.bytes_read,
            self.bytes_written,
            self.in_flight_max,
        ]
    }

    pub(crate) fn of_numbers(numbers: [u64; 11]) -> Self {
        let [
            look_ups,
            attributes,
            opens,
            listings,
            listings_astray,
            reads,
            writes,
            flushes,
            bytes_read,
            bytes_written,
            in_flight_max,
        ] = numbers;
        Self {
            look_ups,
            attributes,
            opens,
            listings,
            listings_astray,
            reads,
            writes,
            flushes,
            bytes_read,
            bytes_written,
            in_flight_max,
        }
    }
}
