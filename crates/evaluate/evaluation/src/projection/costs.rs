//! What things take.

use forebay_coherence::Message;

/// Of a message without contents, and beside contents.
const HEADER_BYTES: u64 = 32;

/// What a host needs for its part, in nanoseconds. Measured where the program will run, or nearly so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// From a thread's touch of what it may not until the progress thread is told.
    pub trap_ns: u64,
    /// From the end of a wait until the thread that waited goes on.
    pub wake_ns: u64,
    /// To change what may be done with a minipage.
    pub protect_ns: u64,
    /// To take a message, or a fault.
    pub receive_ns: u64,
    /// To send a message.
    pub send_ns: u64,
    /// To call anything.
    pub call_ns: u64,
}

/// What is between hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Of the smallest message, one way, without what hosts do for it.
    pub latency_ns: u64,
    /// That one host can send to another.
    pub bytes_per_second: f64,
}

impl Network {
    /// How long a message of so many bytes is on its way.
    pub(crate) fn travel_ns(&self, bytes: u64) -> u64 {
        self.latency_ns + (bytes as f64 / self.bytes_per_second * 1e9) as u64
    }
}

/// Size of a message, with the contents of a minipage of so many bytes where those go with it.
pub(crate) const fn size_bytes(message: Message, minipage_bytes: u64) -> u64 {
    match message {
        Message::Contents { .. } => HEADER_BYTES + minipage_bytes,
        _ => HEADER_BYTES,
    }
}
