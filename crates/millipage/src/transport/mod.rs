//! How messages get from host to host.

mod local;

use std::os::fd::BorrowedFd;

use forebay_coherence::{HostId, Message};

use crate::Error;
pub use local::Local;
pub(crate) use local::local;

/// Memory that contents come from or go to, in the privileged view. Nobody writes there meanwhile but the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Its first byte.
    pub address: usize,
    /// Its size.
    pub bytes: usize,
}

/// Takes what arrives.
pub trait Sink {
    /// Where the contents that come with a message belong.
    fn room(&mut self, message: Message) -> Option<Contents>;
    /// A message has arrived, and its contents are in place.
    fn take(&mut self, from: HostId, message: Message);
}

/// One host's way to the others. Messages arrive once each, in any order.
pub trait Transport: Send {
    /// Sends a message, and what `contents` hold now.
    ///
    /// # Errors
    /// The host cannot be reached.
    fn send(&mut self, to: HostId, message: Message, contents: Option<Contents>) -> Result<(), Error>;

    /// Takes what has arrived. How many messages that were.
    ///
    /// # Errors
    /// A host is lost.
    fn receive(&mut self, sink: &mut dyn Sink) -> Result<usize, Error>;

    /// Readable when something arrives, after [`Transport::may_sleep`] said so; without one, the host's bell is rung.
    fn event(&self) -> Option<BorrowedFd<'_>>;

    /// Whether nothing has arrived, so that the event can be waited for.
    fn may_sleep(&mut self) -> bool;
}
