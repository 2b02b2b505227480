//! Transports: how messages travel from machine to machine, between the hosts that serve them.

pub(crate) mod liveness;
mod rings;
mod said;
mod stream;
mod ucx;
mod watched;

use std::{fmt, os::fd::BorrowedFd, str::FromStr};

use forebay_coherence::{HostId, Message};

use crate::Error;
pub use rings::Marks;
pub(crate) use rings::{End, Offer, Rings};
pub(crate) use stream::{Interface, Listening, Reach, Streams};
pub use ucx::ping_pong;
pub(crate) use ucx::{Ucx, Worker};
pub(crate) use watched::{Watched, Way};

/// What messages between processes go over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Rings in shared memory where all hosts are on one machine and can open each other's, else authenticated connections.
    #[default]
    Auto,
    /// Rings in shared memory, within one machine.
    SharedMemory,
    /// Authenticated connections over TCP.
    Tcp,
    /// What UCX thinks best, for each pair of hosts. UCX authenticates nothing.
    Ucx,
}

impl Wire {
    /// What a variable or an option can say.
    pub const NAMES: &str = "shm, tcp, auto or ucx";

    const NAMED: [(Self, &'static str); 4] =
        [(Self::Auto, "auto"), (Self::SharedMemory, "shm"), (Self::Tcp, "tcp"), (Self::Ucx, "ucx")];

    /// UCX's names of what it compares with, as in its variable `UCX_TLS`.
    #[must_use]
    pub const fn transports(self) -> Option<&'static str> {
        match self {
            Self::Ucx => None,
            Self::Auto | Self::SharedMemory => Some("posix,cma"),
            Self::Tcp => Some("tcp"),
        }
    }
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::NAMED.iter().find(|(_, known)| *known == name);
        named.map(|(wire, _)| *wire).ok_or_else(|| format!("it is {}", Self::NAMES))
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Self::NAMED.iter().filter(|(wire, _)| wire == self).try_for_each(|(_, name)| f.write_str(name))
    }
}

/// Memory that contents come from or go to, in the privileged view. Only the receiver writes there meanwhile.
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

/// What has arrived next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// A message, which the sink has.
    Taken,
    /// What is left to [`Transport::receive`].
    Other,
}

/// One host's way to the others. Messages arrive once each, in any order.
pub trait Transport: Send {
    /// Sends a message, and what `contents` hold, which stays as it is until the receiver has it.
    ///
    /// # Errors
    /// The host cannot be reached.
    fn send(&mut self, to: HostId, message: Message, contents: Option<Contents>) -> Result<(), Error>;

    /// Takes what has arrived. How many messages that were.
    ///
    /// # Errors
    /// A host is lost.
    fn receive(&mut self, sink: &mut dyn Sink) -> Result<usize, Error>;

    /// Shows the others that this host is there, while it takes nothing.
    fn keep_alive(&mut self) {}

    /// What tells without the transport whether something has arrived, where there is such a thing.
    fn marks(&self) -> Option<&'static [Marks]> {
        None
    }

    /// In a signal handler: whether the calling thread may use this until [`Transport::may_sleep`], instead of a thread that sleeps.
    /// Then nothing is rung for what arrives, and one message to each host takes no memory.
    fn take_over(&mut self) -> bool {
        false
    }

    /// Takes one message that is wanted, after [`Transport::take_over`]. In a signal handler.
    fn take_one(&mut self, _sink: &mut dyn Sink, _is_wanted: &dyn Fn(Message) -> bool) -> Next {
        Next::Other
    }

    /// Tells the others that a host is lost, so that all name the same one.
    fn tell_lost(&mut self, _host: HostId) {}

    /// Readable when something arrives, after [`Transport::may_sleep`] said so; without one, the machine's doorbell is rung.
    fn event(&self) -> Option<BorrowedFd<'_>>;

    /// Whether nothing has arrived, so that the event can be waited for.
    fn may_sleep(&mut self) -> bool;
}

/// The way of a host that has left: nothing is sent, and nothing comes.
pub(crate) struct Closed;

impl Transport for Closed {
    fn send(&mut self, _: HostId, _: Message, _: Option<Contents>) -> Result<(), Error> {
        Ok(())
    }

    fn receive(&mut self, _: &mut dyn Sink) -> Result<usize, Error> {
        Ok(0)
    }

    fn event(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn may_sleep(&mut self) -> bool {
        true
    }
}
