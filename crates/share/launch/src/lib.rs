//! The launcher of `forebay share`, and the meeting of hosts through it.
//!
//! [`job::run`] starts the hosts. Each host inherits a socket that leads to the launcher, and finds its number in the
//! [`environment`].
//!
//! Hosts exchange data in *rounds*: each sends bytes, and receives the bytes of all hosts ([`Seat::exchange`]). The launcher
//! collects and distributes them ([`Table::serve`]) without reading them. A host that ends before the round does fails the
//! round for all hosts.
//!
//! # Frames
//!
//! A frame is a length, 32 bits little-endian, and that many bytes. The first byte is the kind of the frame.
#![forbid(unsafe_code)]

mod frame;
pub mod job;
mod seat;
mod table;

pub use seat::{Seat, SeatError};
pub use table::Table;

/// The variables that a launcher sets.
pub mod environment {
    /// Descriptor of the socket that leads to the launcher.
    pub const SOCKET: &str = "FOREBAY_SHARE_SOCKET";
    /// Number of the host, from 0.
    pub const RANK: &str = "FOREBAY_SHARE_RANK";
    /// How many hosts there are.
    pub const HOSTS: &str = "FOREBAY_SHARE_HOSTS";
    /// Minipages that can share a page, instead of what the program asks for.
    pub const VIEWS: &str = "FOREBAY_SHARE_VIEWS";
    /// Bytes of shared memory, instead of what the program asks for.
    pub const SIZE: &str = "FOREBAY_SHARE_SIZE";
    /// What messages go over: `shm`, `tcp`, `auto` or `ucx`.
    pub const TRANSPORT: &str = "FOREBAY_SHARE_TRANSPORT";
    /// Where hosts listen for hosts on other machines: the name of a network interface, an address, or a network.
    pub const INTERFACE: &str = "FOREBAY_SHARE_INTERFACE";
    /// 1 if each host has a memory of its own, also where hosts are on one machine.
    pub const SEPARATE: &str = "FOREBAY_SHARE_SEPARATE";
    /// Number of the machine that a host counts as on: hosts of one machine with different numbers share as hosts of several do.
    pub const MACHINE: &str = "FOREBAY_SHARE_MACHINE";
    /// 0 if a machine does not fetch what it will probably need after a barrier.
    pub const FORESIGHT: &str = "FOREBAY_SHARE_FORESIGHT";
    /// Those that are of one job, and mean nothing in a job that one of its hosts starts.
    pub const OF_A_JOB: [&str; 10] =
        [SOCKET, RANK, HOSTS, VIEWS, SIZE, TRANSPORT, INTERFACE, SEPARATE, MACHINE, FORESIGHT];

    /// Seconds after which a host that says nothing is lost, instead of 5. More than the longest stop in a debugger, say.
    pub const SILENCE: &str = "FOREBAY_SHARE_SILENCE";
}
