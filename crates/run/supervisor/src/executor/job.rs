//! What the executor is to bring into memory, and the jobs that this becomes.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use forebay_profile::Identity;

use super::{neighbours, opened::Open};
use crate::{channel::Channel, devices::Ticket, ffi};

/// What is to be brought into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Absolute, without a zero byte.
    pub path: Arc<[u8]>,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// When a recorded run needed it first, in microseconds since its start; else 0.
    pub at_us: u32,
}

/// What is wanted of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// What it names, or that it names nothing.
    LookUp {
        /// Through a last link.
        follow: bool,
    },
    /// The entries of a directory.
    Directory,
    /// Where a link leads.
    Link,
    /// A part of a regular file.
    Data {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// The file that is expected. Of one that has changed nothing is wanted, or only the beginning.
        expected: Option<Expected>,
    },
    /// What the file of a program or library says to the dynamic loader.
    Library,
    /// The names of a directory's files.
    Names,
    /// The names of a directory's directories.
    Folders,
}

/// A file as it was when a run needed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// What tells it.
    pub identity: Identity,
    /// Whether the beginning is wanted if the file has changed.
    pub beginning_if_changed: bool,
}

/// A request, whichever part of forebay made it.
pub struct Job {
    /// What made it.
    pub origin: Origin,
    /// In the order in which they are to be carried out.
    pub number: u64,
    /// Absolute, without a zero byte.
    pub path: Arc<[u8]>,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// The open of the program that the data is wanted for.
    pub open: Option<Open>,
    /// What its requests are known by.
    pub ticket: Ticket,
}

/// What made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The speculator of this slot.
    Slot(usize),
    /// This step of the replay, or a look-up of its file before it.
    Replay { step: usize, is_whole: bool },
    /// The loader of a program that this process executes, or this one's for 0; the place of the file that it needs, or none for a
    /// part of one.
    Library { process: u32, file: Option<usize> },
    /// The process of this slot, or one without an agent, which waits for files one after the other.
    Neighbour { slot: Option<usize>, step: neighbours::Step },
    /// A process that faults through this file.
    Stream { process: u32, inode: u64 },
}

impl Job {
    /// The job, which counts as begun until nothing waits for it.
    pub fn counted(self, begun: Begun) -> Self {
        let Self { ticket, .. } = self;
        let ticket = Ticket::new(move || {
            ticket.finish();
            drop(begun);
        });
        Self { ticket, ..self }
    }
}

/// A job that is about to begin, counted until this is dropped.
pub struct Begun(Arc<Channel>);

impl Begun {
    /// None while a program has asked for quiet: it waits for what was begun, and then for nothing else.
    pub fn new(channel: &Arc<Channel>) -> Option<Self> {
        let header = channel.header();
        header.jobs_begun.fetch_add(1, SeqCst);
        let begun = Self(channel.clone());
        (ffi::ticks() >= header.quiet_until.load(SeqCst)).then_some(begun)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.header().jobs_begun.fetch_sub(1, SeqCst);
    }
}
