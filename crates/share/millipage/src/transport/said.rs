//! What one host says to another, whatever carries it.

use forebay_coherence::{HostId, Message};

/// What one host says to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing: the sender is there.
    Here,
    /// The sender has lost this host.
    Lost(HostId),
    /// A message.
    Message(Message),
}
