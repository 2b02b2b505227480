//! Traces: what the threads of hosts did, as the recorder writes it and a projection reads it.

use serde::{Deserialize, Serialize};

/// One run of a program with some number of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// All minipages, in the order of their allocation.
    pub minipages: Vec<Shared>,
    /// What each host's thread did, one after the other.
    pub hosts: Vec<Vec<Event>>,
}

impl Trace {
    /// The trace of all hosts, from those of each by itself, in the order of their ranks. They have the same minipages.
    #[must_use]
    pub fn of_hosts(each: impl IntoIterator<Item = Self>) -> Self {
        each.into_iter().fold(Self::default(), |mut all, host| {
            all.minipages = host.minipages;
            all.hosts.extend(host.hosts);
            all
        })
    }
}

/// A minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// Its size.
    #[serde(rename = "b")]
    pub bytes: u32,
    /// The host that manages it.
    #[serde(rename = "h")]
    pub home: u16,
    /// Whether all hosts begin with a copy; else its home alone has it.
    #[serde(rename = "c", default, skip_serializing_if = "is_false")]
    pub copies: bool,
}

const fn is_false(value: &bool) -> bool {
    !*value
}

/// What a thread did. Minipages, locks and barriers are numbers. Names are short where it is written, since there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Computed for so many nanoseconds.
    #[serde(rename = "t")]
    Compute(u64),
    /// Faulted as it read a minipage.
    #[serde(rename = "r")]
    Read(u32),
    /// Faulted as it wrote to one.
    #[serde(rename = "w")]
    Write(u32),
    /// Asked for one, to read it later.
    #[serde(rename = "pr")]
    PrefetchRead(u32),
    /// Asked for one, to write to it later.
    #[serde(rename = "pw")]
    PrefetchWrite(u32),
    /// Had one sent to all hosts.
    #[serde(rename = "pu")]
    Push(u32),
    /// Took a lock.
    #[serde(rename = "l")]
    Lock(u32),
    /// Gave a lock up.
    #[serde(rename = "u")]
    Unlock(u32),
    /// Came to a barrier, and left it.
    #[serde(rename = "b")]
    Barrier(u32),
}

impl Event {
    /// The minipage that it is about.
    #[must_use]
    pub const fn minipage(self) -> Option<u32> {
        match self {
            Self::Read(minipage)
            | Self::Write(minipage)
            | Self::PrefetchRead(minipage)
            | Self::PrefetchWrite(minipage)
            | Self::Push(minipage) => Some(minipage),
            Self::Compute(_) | Self::Lock(_) | Self::Unlock(_) | Self::Barrier(_) => None,
        }
    }
}
