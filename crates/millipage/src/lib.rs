//! Millipage: memory that processes share as if they were threads, each with plain loads and stores, with coherence for
//! parts as small as a few bytes.
//!
//! Each process, a *host*, has its own copy of the memory, in several views ([`forebay_vm`]). Which of the copies may be
//! used for what is up to [`forebay_coherence`]. This crate brings the two together: a thread that touches what its host may not
//! faults, is stopped in the fault, and goes on when the minipage is there. A *progress thread* does what that takes; a
//! thread that waits at a barrier or for a lock does it itself meanwhile.
//!
//! # Consistency
//!
//! Sequential, for all programs: what any thread of any host reads is what was last written. Two threads that write to the
//! same place at the same time still do so in an order that nobody knows; take a [`Host::lock`], or part them by a
//! [`Host::barrier`].
//!
//! # System calls
//!
//! The kernel does not fault for a system call: one whose buffer is not there fails with `EFAULT`. [`Row::touch`] brings it
//! there first; it stays until another host wants it.

mod bell;
mod cells;
mod engine;
mod host;
mod shared;
pub mod transport;

pub use host::{Host, Options, in_process};
pub use shared::{Row, Rows};

/// How minipages are spread over the hosts at first. A minipage's home manages it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Neighbouring ones have the same home: of 10 and two hosts, the first 5 the first.
    Blocks,
    /// In turn.
    Cyclic,
    /// All have this one.
    On(u16),
    /// In turn, and each host begins with a copy: for what is read by all.
    Copies,
}

/// Why something could not be shared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No memory, no views, no handler.
    #[error(transparent)]
    Memory(#[from] forebay_vm::Error),
    /// No room.
    #[error(transparent)]
    Layout(#[from] forebay_vm::layout::LayoutError),
    /// Hosts called different things, or with different arguments.
    #[error(
        "host {host} of {hosts} called {call}; another host called something else, or with other arguments"
    )]
    Disagreement {
        /// This one.
        host: u16,
        /// All.
        hosts: u16,
        /// What was called here.
        call: String,
    },
    /// A thread waits at that barrier already.
    #[error("another thread of this host waits at barrier {0}: one thread of each host comes to a barrier")]
    BarrierTaken(u32),
    /// No thread of this host has the lock.
    #[error("lock {0} was not locked by this host")]
    NotLocked(u32),
    /// Another host cannot be reached.
    #[error("lost host {host}: {reason}")]
    Lost {
        /// Which.
        host: u16,
        /// Why.
        reason: String,
    },
    /// Nothing is shared any more.
    #[error("sharing has ended: {0}")]
    Over(String),
    /// The kernel does not let us wait.
    #[error("cannot wait for messages: {0}")]
    Wait(std::io::Error),
}
