//! The messages between hosts, and the names in them.

/// A host, by its rank: 0 for the first. Where several map one memory, they are one host to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u16);

impl HostId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A minipage, by its place in the minipage table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minipage(pub u32);

impl Minipage {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A thread that waits, by a number of the caller's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter(pub u64);

/// A lock, by a number: of the program's choice up to [`u32::MAX`], and of the library's behind that. 48 bits of it count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lock(pub u64);

/// A barrier, by a number of the program's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Barrier(pub u32);

/// What a host may do with a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Nothing: it has no copy.
    None,
    /// Read its copy.
    Read,
    /// Read and write the only copy.
    Write,
}

impl Access {
    /// From its number.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Read,
            _ => Self::Write,
        }
    }
}

/// What a host asks of a minipage's manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// A copy to read.
    Read,
    /// The only copy, to write.
    Write,
    /// A copy for every host.
    Push,
}

impl Want {
    /// What the requester, or each receiver of a push, may do afterwards.
    #[must_use]
    pub const fn access(self) -> Access {
        match self {
            Self::Read | Self::Push => Access::Read,
            Self::Write => Access::Write,
        }
    }
}

/// A host that did something else at a barrier than another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Other {
    /// Which.
    pub host: HostId,
    /// What it said; [`Other::LEFT`] if it has left instead of arriving.
    pub word: u64,
}

impl Other {
    /// No host says this at a barrier.
    pub const LEFT: u64 = u64::MAX;

    pub(crate) const fn left(host: HostId) -> Self {
        Self { host, word: Self::LEFT }
    }
}

/// What one host tells another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// To the manager: the sender wants something.
    Request {
        /// Of this.
        minipage: Minipage,
        /// What.
        want: Want,
    },
    /// From the manager to the owner: send the contents.
    Forward {
        /// Of this.
        minipage: Minipage,
        /// What for.
        want: Want,
        /// To whom; to all others, where that is a push.
        requester: HostId,
        /// And of so many minipages behind that one.
        more: u8,
    },
    /// From the owner: the contents of the minipage come with it.
    Contents {
        /// Of this.
        minipage: Minipage,
        /// What for.
        want: Want,
        /// And of so many minipages behind that one.
        more: u8,
    },
    /// From the manager: the copy that the receiver has will do.
    Grant {
        /// Of this.
        minipage: Minipage,
        /// What for.
        want: Want,
        /// And of so many minipages behind that one.
        more: u8,
    },
    /// From the manager: give the copy up.
    Invalidate {
        /// Of this.
        minipage: Minipage,
        /// And of so many minipages behind that one.
        more: u8,
    },
    /// To the manager: the copy is given up.
    Invalidated {
        /// Of this.
        minipage: Minipage,
        /// And of so many minipages behind that one.
        more: u8,
    },
    /// To the manager: what it granted is there. At the manager's own host, a thread has used it, too; elsewhere,
    /// what would take it away before that is deferred.
    Done {
        /// Of this.
        minipage: Minipage,
        /// And of so many minipages behind that one.
        more: u8,
    },
    /// To the lock's manager: the sender wants it.
    Acquire {
        /// Which.
        lock: Lock,
        /// Where another host has it: until that gives it up, or not at all.
        waits: bool,
    },
    /// From the lock's manager: the receiver has it, or another host does.
    Acquired {
        /// Which.
        lock: Lock,
        /// Whether it is the receiver's.
        granted: bool,
    },
    /// To the lock's manager: the sender has it no more.
    Release {
        /// Which.
        lock: Lock,
    },
    /// To the barrier's manager: the sender has arrived at it.
    Arrive {
        /// Which.
        barrier: Barrier,
        /// What all hosts should say alike.
        word: u64,
    },
    /// From the barrier's manager: all have arrived at it, or one has left instead.
    Leave {
        /// Which.
        barrier: Barrier,
        /// A host that did not say what the receiver said, if there is one.
        other: Option<Other>,
    },
    /// To every host: there are so many more minipages from `first` on, which the sender manages and alone has.
    Add {
        /// The first of them.
        first: Minipage,
        /// How many there are.
        count: u32,
        /// What the sender says of them.
        what: u32,
    },
    /// From every host: it knows them.
    Added {
        /// The first of them.
        first: Minipage,
    },
    /// To the manager: nobody needs what the minipage holds.
    Free {
        /// Of this.
        minipage: Minipage,
    },
    /// From the manager: it is free now, or was not taken.
    Freed {
        /// This one.
        minipage: Minipage,
        /// Whether it was taken.
        was_taken: bool,
    },
    /// To every host: all hosts free so many minipages from `first` on, and the sender has asked for none of them any more.
    Forget {
        /// The first of them.
        first: Minipage,
        /// How many there are.
        count: u32,
        /// Pushes of them that the sender has asked the receiver for.
        pushes: u32,
    },
    /// To every host: a process of the sender's has left, so that the sender arrives at no barrier any more.
    Incomplete,
    /// To every host: the sender's threads ask for nothing any more.
    Leaving,
}

impl Message {
    /// The minipage that it is about, or the first of them, where it is of a transaction.
    #[must_use]
    pub const fn minipage(&self) -> Option<Minipage> {
        match self {
            Self::Request { minipage, .. }
            | Self::Forward { minipage, .. }
            | Self::Contents { minipage, .. }
            | Self::Grant { minipage, .. }
            | Self::Invalidate { minipage, .. }
            | Self::Invalidated { minipage, .. }
            | Self::Done { minipage, .. } => Some(*minipage),
            _ => None,
        }
    }

    /// The minipage of which the receiver is to lose something.
    pub(crate) const fn takes_away(&self) -> Option<Minipage> {
        match self {
            Self::Forward { minipage, .. } | Self::Invalidate { minipage, .. } => Some(*minipage),
            _ => None,
        }
    }
}
