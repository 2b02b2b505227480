//! A projection: how long a program that shares memory would take with more hosts than there are processors here, on a
//! network that is not here. Recorded traces run on the real protocol ([`forebay_coherence`]), in simulated time; no clock
//! is read, and the same input gives the same output.
//!
//! # Model
//!
//! Each host has a thread that computes and a progress thread, on a processor each.
//!
//! * The thread does what its [`Trace`] says. A fault takes it [`Costs::trap_ns`] before the progress thread knows, and
//!   [`Costs::wake_ns`] after it was served. A call takes [`Costs::call_ns`]; one that waited, the same time to wake.
//! * The progress thread serves messages and faults in the order of arrival. Each takes [`Costs::receive_ns`], each change
//!   of a minipage's protection [`Costs::protect_ns`], and each message that it sends [`Costs::send_ns`].
//! * A message takes [`Network::latency_ns`] and its bytes over [`Network::bytes_per_second`]. Messages do not stand in each
//!   other's way between hosts.
//!
//! # What this leaves out
//!
//! A trace has the faults of the run that was recorded, and they stand for its accesses. With other
//! times a program may fault elsewhere: another host may take a minipage between two accesses. The projection does not see
//! that. Nor does it see that work is distributed in another way. A trace of one number of hosts says nothing of another: each number is
//! recorded by itself. Caches that hosts of a recording share make computing slower there than on hosts of their own.

mod costs;
mod outcome;
mod simulation;

pub use costs::{Costs, Network};
pub use forebay_coherence::trace::{Event, Shared, Trace};
pub use outcome::{Projection, Shares};
pub use simulation::project;

/// Why a trace cannot be projected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No hosts, or more than a host has a number for.
    #[error("a trace has 1 to {max} hosts, not {hosts}; record it again")]
    Hosts {
        /// In the trace.
        hosts: usize,
        /// That there can be.
        max: u16,
    },
    /// It names a minipage, or a home, that it does not describe.
    #[error(
        "the trace names minipage {minipage}, which it does not describe well; record from the first allocation on"
    )]
    Minipage {
        /// Which.
        minipage: u32,
    },
    /// It gives up a lock that it does not have.
    #[error(
        "host {host} gives up lock {lock} at its event {event} without having it; record from the beginning"
    )]
    Unlocked {
        /// Which.
        lock: u32,
        /// The host.
        host: u16,
        /// Its place in the host's events.
        event: usize,
    },
    /// It waits for what never comes.
    #[error("host {host} waits for ever at its event {event}; record all hosts up to their end")]
    Stuck {
        /// The host.
        host: u16,
        /// Its place in the host's events.
        event: usize,
    },
}
