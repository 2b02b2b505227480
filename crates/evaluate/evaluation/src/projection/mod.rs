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
//! * The progress thread serves one message or fault after the other, in the order of arrival: [`Costs::receive_ns`] each,
//!   [`Costs::protect_ns`] for each change of what may be done with a minipage, and [`Costs::send_ns`] for each message that
//!   it sends, after which that one is on its way.
//! * A message takes [`Network::latency_ns`] and its bytes over [`Network::bytes_per_second`]. Messages do not stand in each
//!   other's way between hosts.
//!
//! # What this leaves out
//!
//! A trace has the faults of the run that was recorded, and they stand for its accesses. Where other times would lead to other
//! faults, as another host comes in between two accesses of one minipage or no longer does, that is not seen; nor is another
//! distribution of work by what happens first. A trace of one number of hosts says nothing of another: each number is
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
