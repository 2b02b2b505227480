//! What can limit a server, and what else can be wrong with it, in words.

use std::fmt;

/// Where the answers are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nowhere: all were answered as scheduled.
    Nothing,
    /// It computes, or waits for a processor.
    Processor,
    /// It waits for caches.
    Cache,
    /// Memory delivers no more.
    MainMemory,
    /// It waits for pages that memory had no room for.
    VirtualMemory,
    /// It waits for files.
    Disk,
    /// It waits for the network, or nobody does anything.
    Network,
    /// Its threads wait for each other.
    Lock,
    /// It sleeps.
    Sleep,
    /// The load could not be made faster.
    LoadGenerator,
    /// Not decidable by what was measured.
    Undecided,
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Nothing => "nothing",
            Self::Processor => "processor",
            Self::Cache => "cache",
            Self::MainMemory => "main memory",
            Self::VirtualMemory => "virtual memory",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Lock => "lock",
            Self::Sleep => "its own sleep",
            Self::LoadGenerator => "load generator",
            Self::Undecided => "not decidable",
        })
    }
}

/// What is odd besides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// The server keeps memory.
    Growth {
        /// So much for each request.
        bytes_per_request: f64,
    },
    /// It reads or writes little at a time, and the kernel takes most of its processor time.
    SmallCalls {
        /// So much for each call.
        bytes_per_call: f64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Growth { bytes_per_request } => {
                write!(
                    formatter,
                    "its memory grows by {bytes_per_request:.0} B for each request and goes on growing: a leak"
                )
            }
            Self::SmallCalls { bytes_per_call } => write!(
                formatter,
                "it reads and writes {bytes_per_call:.0} B for each call, and the kernel takes most of its processor time: \
                 its buffers are too small"
            ),
        }
    }
}
