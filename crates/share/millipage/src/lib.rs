//! Millipage: memory that processes share by plain loads and stores, as threads do, with coherence for parts as small
//! as a few bytes.
//!
//! Hosts are processes. Those on one machine map one memory, and fetch nothing from each other. Locks and barriers are words
//! of a *board*, which is memory too. Where a job has one machine, that is all.
//!
//! Each machine has its own copy of the memory, which its hosts map in several views ([`forebay_vm`]). [`forebay_coherence`]
//! decides which copy may be read or written. This crate joins the two: a thread that lacks the right for an access
//! faults, waits in the fault, and continues when the minipage has arrived. The *progress thread* of the machine, in its first
//! host, serves the fault. A thread of that host that waits at a barrier or for a lock does that work itself meanwhile.
//!
//! # Consistency
//!
//! Between machines memory is sequentially consistent, for all programs: a read returns the value that a thread of any
//! host wrote last. Hosts on one machine, and threads of one host, share memory with the processor's own memory order,
//! where a store may be seen after later loads of its thread. Atomic operations ([`Row::atomic`], [`Host::operate`]) are never
//! reordered so, and are atomic for all threads of all hosts.
//! A program that orders conflicting accesses is sequentially consistent everywhere. The order of two
//! unsynchronised writes to the same place is not predictable; take a [`Host::lock`], or separate them by a
//! [`Host::barrier`].
//!
//! # System calls
//!
//! Between machines, the kernel does not fault for a system call: a call whose buffer is absent fails with `EFAULT`. The library for C
//! wraps such calls. Elsewhere [`Row::touch`] fetches the buffer first; it stays until another host wants it.
//!
//! # Forks
//!
//! A child that a host forks is no host. It has the memory of a job on one machine. Elsewhere it has no shared memory, and an
//! access ends it with SIGSEGV.

mod atomics;
mod bells;
mod board;
mod desk;
mod doorbell;
mod engine;
mod extent;
mod heap;
mod host;
mod interrupt;
mod join;
mod machines;
mod memory;
mod parts;
mod process;
mod recorder;
mod requests;
mod rights;
mod scheduling;
mod shared;
mod stack;
mod sync;
mod team;
pub mod transport;
mod usage;
mod vain;
mod wanted;

pub use atomics::{Operation, Word, has_atomics_of_128_bits};
pub use forebay_coherence::{Access, Counts};
use forebay_vm::layout::LayoutError;
pub use host::{EXIT_LOST, Granularity, Host, Options, in_process, in_process_machines, in_process_together};
pub use interrupt::{ending_at, interruptible};
pub use join::{free_bytes, join};
pub use process::Process;
pub use shared::{Row, Rows, Value, Vectors};
pub use sync::{Comparison, Condition, ReadWrite, Semaphore};
pub use team::{Number, NumberType, Reduction, Team};
pub use usage::{Times, Traffic, Usage};

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
    #[error("{}", with_remedy(.0))]
    Layout(#[from] LayoutError),
    /// No room for what a host allocates alone.
    #[error(
        "{wanted} bytes of shared memory do not fit: {left} of {bytes} bytes that hosts allocate alone are left here, {whole} of them in one piece. Free some, or give the job more by forebay share --size or by join()"
    )]
    FullAlone {
        /// That were asked for.
        wanted: usize,
        /// On this machine: in pages of no machine, and in free parts of this one.
        left: usize,
        /// In pages of no machine.
        whole: usize,
        /// In all.
        bytes: usize,
    },
    /// Nothing to free.
    #[error("nothing that a host allocated alone begins at {address:#x}, or it is free already")]
    NotAllocated {
        /// That was to be freed.
        address: usize,
    },
    /// No array to free.
    #[error(
        "no array that all hosts allocated together begins at {address:#x}, or it is free already; what a host allocated alone is freed alone"
    )]
    NotAllocatedTogether {
        /// That was to be freed.
        address: usize,
    },
    /// Hosts called different things, or with different arguments.
    #[error("host {host} of {hosts} called {call}; {other}; all hosts make the same calls in the same order")]
    Disagreement {
        /// This one.
        host: u16,
        /// All.
        hosts: u16,
        /// What was called here.
        call: String,
        /// Another host, and what was called there.
        other: String,
    },
    /// A thread waits at that barrier already.
    #[error("another thread of this host waits at barrier {0}: one thread of each host calls a barrier")]
    BarrierTaken(u32),
    /// No thread of this host has the lock.
    #[error("lock {0} was not locked by this host")]
    NotLocked(u32),
    /// Another thread of this host has it.
    #[error(
        "lock {0} was locked by another thread of this host; the thread that locked it recursively unlocks it"
    )]
    NotMine(u32),
    /// A lock for readers and writers that is free.
    #[error("no thread has this lock for reading or writing")]
    NotTaken,
    /// More units than a semaphore counts.
    #[error("a semaphore has at most {} units", u32::MAX)]
    TooManyUnits,
    /// No host for a team, or one that it has.
    #[error("a team has each of its hosts once, and hosts are from 0 to {}; {host} is not one more", .hosts - 1)]
    NoMember {
        /// That was named.
        host: u16,
        /// How many there are.
        hosts: u16,
    },
    /// No host of the team.
    #[error("host {host} is no member of this team; only its members call it")]
    NotOfTeam {
        /// This one.
        host: u16,
    },
    /// No place in a team.
    #[error("root is {root}; it is the place of a member in the team, from 0 to {}", .members - 1)]
    NoRoot {
        /// That was given.
        root: usize,
        /// How many there are.
        members: usize,
    },
    /// A thread of this host is in a call of the team.
    #[error("another thread of this host is in a call of this team: one thread of each member calls a team")]
    TeamTaken,
    /// Floating-point numbers have no bits.
    #[error("floating-point numbers have a sum, a product, a smallest and a largest one, and no bits")]
    NoReduction,
    /// Part of a number.
    #[error("{bytes} bytes are not numbers of {size} bytes each")]
    NoNumbers {
        /// That were given.
        bytes: usize,
        /// Of a number.
        size: usize,
    },
    /// Bytes that are no equal rows.
    #[error("{bytes} bytes are not {rows} rows of equal size")]
    NoRows {
        /// That were given.
        bytes: usize,
        /// How many.
        rows: usize,
    },
    /// Not the place or the size of a word.
    #[error(
        "an atomic operation takes 1, 2, 4, 8 or 16 bytes at a multiple of their number, not {bytes} bytes at {address:#x}"
    )]
    NoWord {
        /// The first byte.
        address: usize,
        /// How many.
        bytes: usize,
    },
    /// The processor cannot do it.
    #[error("this processor has no atomic operations of 128 bits; use 64 bits, or a lock")]
    Not128Bits,
    /// A signal ends a call that waited.
    #[error("the call was interrupted while it waited")]
    Interrupted,
    /// The names of locks stay.
    #[error(
        "a job has used {limit} different locks already, which is all that there can be; use fewer numbers"
    )]
    TooManyLocks {
        /// How many there can be.
        limit: usize,
    },
    /// Another host cannot be reached.
    #[error("lost host {host} ({reason})")]
    Lost {
        /// Which.
        host: u16,
        /// Why.
        reason: String,
    },
    /// This host has left: it shares nothing now.
    #[error("sharing has ended: this host has left")]
    Left,
    /// An earlier failure ended sharing.
    #[error("sharing has ended: {failure}")]
    Ended {
        /// That failure, in words.
        failure: String,
    },
    /// UCX is missing.
    #[error(
        "join(): --transport ucx needs UCX, and {file} cannot be loaded ({reason}); install it: apt-get install libucx0, or choose --transport auto"
    )]
    NoUcx {
        /// What is loaded.
        file: &'static str,
        /// What the loader says.
        reason: String,
    },
    /// A host cannot open the memory of others.
    #[error(
        "join(): --transport shm needs hosts of one user on one machine that see each other's processes, and host {host} is none; choose --transport auto or tcp"
    )]
    Hidden {
        /// Which.
        host: u16,
    },
    /// PMIx is missing.
    #[error(
        "this process was started by a launcher with PMIx, and {file} cannot be loaded ({reason}); install it: apt-get install libpmix2"
    )]
    NoPmix {
        /// What is loaded.
        file: &'static str,
        /// What the loader says.
        reason: String,
    },
    /// No place where other hosts can reach this one.
    #[error(
        "join() cannot listen for the other hosts ({0}); choose a network interface that is up: forebay share --interface"
    )]
    Listen(String),
    /// No connection to another host.
    #[error(
        "join() has no connection with host {host} after {seconds} s ({reason}); start all hosts by one launcher, and choose a network that they have in common: forebay share --interface"
    )]
    Unreached {
        /// Which.
        host: u16,
        /// How long that was tried.
        seconds: u64,
        /// Why the last attempt failed.
        reason: String,
    },
    /// UCX refuses.
    #[error("UCX does not provide {what} ({reason}); choose another transport: shm, tcp or auto")]
    Ucx {
        /// What was asked for.
        what: &'static str,
        /// In its words.
        reason: String,
    },
    /// A host talks another language.
    #[error("another host sent what is no message; start the same version everywhere")]
    Garbled,
    /// A variable makes no sense.
    #[error("{name} is '{value}', and should be {wanted}; start the program with forebay share")]
    Variable {
        /// Its name.
        name: &'static str,
        /// What it says.
        value: String,
        /// What it could say.
        wanted: &'static str,
    },
    /// The process is a host already, or was one.
    #[error("this process has joined already; it can join once")]
    JoinedAlready,
    /// The process is none, or not any longer.
    #[error("this process is not a host: join first, and do not use shared memory after having left")]
    NoHost,
    /// The caller is a child of the host's.
    #[error(
        "this process was forked from a host, and is none itself; start it as one, or exec another program"
    )]
    Forked,
    /// Threads of this host are in calls.
    #[error("another thread of this host is in a call; leave when all have returned")]
    Busy,
    /// An address, or what follows it, is none of shared memory.
    #[error("the {bytes} bytes at {address:#x} are not all of one allocation of shared memory")]
    Foreign {
        /// The first.
        address: usize,
        /// How many.
        bytes: usize,
    },
    /// The hosts do not come together.
    #[error("cannot meet the other hosts: {0}")]
    Meeting(String),
    /// Another host has a problem.
    #[error("host {host} cannot join: {reason}")]
    Join {
        /// Which.
        host: u16,
        /// Its own error.
        reason: String,
    },
    /// Hosts were not started alike.
    #[error("join(): host {host} has {what} {theirs}, host 0 has {first}; start all hosts alike")]
    Mismatch {
        /// What differs.
        what: String,
        /// Which host.
        host: u16,
        /// What it has.
        theirs: String,
        /// What the first host has.
        first: String,
    },
    /// Too many views, or none.
    #[error("there can be 1 to {most} views, not {wanted}")]
    ViewCount {
        /// That were asked for.
        wanted: usize,
        /// That can be of use.
        most: usize,
    },
    /// Not enough memory for all.
    #[error(
        "{}: this machine, or the control group, has {free} bytes free; share less", too_much(*.memories, *.bytes)
    )]
    Full {
        /// On this machine: one, or one for each host.
        memories: usize,
        /// Of each.
        bytes: usize,
        /// What the kernel can give.
        free: u64,
    },
    /// No address suits all.
    #[error(
        "no address is free on all hosts for {bytes} bytes; the last that was tried is taken on host {host}: {reason}"
    )]
    NoAddress {
        /// That are needed.
        bytes: usize,
        /// Where it is taken.
        host: u16,
        /// What is wrong there.
        reason: String,
    },
    /// No trace of a host.
    #[error("cannot tell what host {host} did: {why}")]
    NoTrace {
        /// Which.
        host: u16,
        /// Why, and what helps.
        why: String,
    },
    /// The kernel does not let us wait.
    #[error("cannot wait for messages: {0}")]
    Wait(std::io::Error),
}

impl Error {
    /// A disagreement, with what another host called, where that is known.
    pub(crate) fn beside(self, other: Option<String>) -> Self {
        match (self, other) {
            (Self::Disagreement { host, hosts, call, .. }, Some(other)) => {
                Self::Disagreement { host, hosts, call, other }
            }
            (error, _) => error,
        }
    }
}

fn with_remedy(error: &LayoutError) -> String {
    match error {
        LayoutError::Full { .. } => {
            format!("{error}; give the job more: forebay share --size, or the size given to join()")
        }
        _ => error.to_string(),
    }
}

fn too_much(memories: usize, bytes: usize) -> String {
    match memories {
        1 => format!("{bytes} bytes of shared memory do not fit"),
        hosts => format!("{hosts} hosts with {bytes} bytes of shared memory each do not fit"),
    }
}
