//! What can limit a server, and what else can be wrong with it, in words.

use std::fmt;

use forebay_quantity::percent;

/// Where the answers are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nowhere: all were answered as scheduled.
    Nothing,
    /// It computes, or waits for a processor.
    Processor,
    /// One of its threads computes all the time, and processors have nothing to do.
    OneThread,
    /// Its control groups allow it no more processor time.
    Quota,
    /// It waits for caches.
    Cache,
    /// Memory delivers no more.
    MainMemory,
    /// It gives memory back and asks for it again: page faults, and the lock of its address space.
    NewMemory,
    /// It waits for pages that memory had no room for.
    VirtualMemory,
    /// It waits for files.
    Disk,
    /// What it sends is not taken as fast as it sends.
    Network,
    /// Another server answers late.
    Dependency,
    /// All that could begin with a request wait.
    Workers,
    /// More connections come than it accepts, or at a time than may wait for that.
    AcceptQueue,
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
            Self::OneThread => "one thread",
            Self::Quota => "processor quota",
            Self::Cache => "cache",
            Self::MainMemory => "main memory",
            Self::NewMemory => "new memory",
            Self::VirtualMemory => "virtual memory",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Dependency => "dependency",
            Self::Workers => "workers",
            Self::AcceptQueue => "accept queue",
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
    /// It reads or writes little at a time, many times for each request, and the kernel takes most of its processor time.
    SmallCalls {
        /// So many for each request.
        calls_per_request: f64,
        /// So much for each call.
        bytes_per_call: f64,
    },
    /// It asks the kernel for new memory again and again.
    NewMemory {
        /// Page faults for each request.
        faults_per_request: f64,
        /// The share of its processor time that they take, about.
        share: f64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Growth { bytes_per_request } => {
                write!(
                    formatter,
                    "its memory grows by {bytes_per_request:.0} B for each request and grows on at the same pace: a leak, or a \
                     cache that is not full yet, which a longer run tells"
                )
            }
            Self::SmallCalls { calls_per_request, bytes_per_call } if *bytes_per_call < 1.0 => write!(
                formatter,
                "it reads {calls_per_request:.0} times for each request and mostly finds nothing: it asks again and again, where it \
                 could wait"
            ),
            Self::SmallCalls { calls_per_request, bytes_per_call } => write!(
                formatter,
                "it reads and writes {calls_per_request:.0} times for each request, {bytes_per_call:.0} B for each call, and \
                 the kernel takes most of its processor time: its buffers are too small"
            ),
            Self::NewMemory { faults_per_request, share } => write!(
                formatter,
                "each request touches {faults_per_request:.0} pages of new memory, which takes about {} of its processor \
                 time: it gives memory back and asks for it again",
                percent(*share)
            ),
        }
    }
}
