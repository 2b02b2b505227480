//! The disks that a measurement can use, by name. A name tells the kind of disk, the time of a request and how many
//! requests the disk serves at once.

use std::time::Duration;

/// Which disk a measurement runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// This machine's own disk, as it is.
    Local,
    /// A local disk of flash memory, as clouds rent them out: 60 us a request, 6 at a time.
    Nvme,
    /// Block storage over a network, as clouds rent it out: 1 ms a request, 128 at a time.
    Ssd1Ms,
    /// An array of four rotating disks: 12 ms a request, 4 at a time.
    Raid12Ms,
    /// A saturated disk: 1 ms a request, one after the other.
    Hdd1Ms,
    /// A file system over a distance (FUSE): 5 ms for each look-up, open, listing and read, 256 at a time.
    Remote,
}

/// How a slow device serves requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// How long the device is busy with one request, whatever its size.
    pub per_request: Duration,
    /// How many requests it is busy with at the same time. More wait their turn.
    pub in_parallel: usize,
}

// Disks, the fastest first, and a file system.
forebay_names::names! { "disk profile": Profile {
    Local = "local",
    Nvme = "nvme",
    Ssd1Ms = "ssd-1ms-q128" or "cloud",
    Raid12Ms = "raid-12ms-q4" or "disk4",
    Hdd1Ms = "hdd-1ms-q1" or "saturated",
    Remote = "remote",
} }

impl Profile {
    /// What is added to each request, or `None` where nothing is.
    pub fn latency(self) -> Option<Latency> {
        let (per_request_us, in_parallel) = match self {
            Self::Local => return None,
            Self::Nvme => (60, 6),
            Self::Ssd1Ms => (1_000, 128),
            Self::Raid12Ms => (12_000, 4),
            Self::Hdd1Ms => (1_000, 1),
            Self::Remote => (5_000, 256),
        };
        Some(Latency { per_request: Duration::from_micros(per_request_us), in_parallel })
    }

    /// Whether it is a block device, which swap and file systems can lie on.
    #[must_use]
    pub fn is_device(self) -> bool {
        !matches!(self, Self::Local | Self::Remote)
    }

    /// Whether what was read once stays in memory until it is made cold. Of the remote file system the kernel forgets names
    /// within a second.
    #[must_use]
    pub fn stays_warm(self) -> bool {
        self != Self::Remote
    }
}
