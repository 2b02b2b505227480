//! Why memory control turned speculation off: what the supervisor counts and the statistics name.

/// Why speculation went off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// The program waited for longer than it does alone: speculators take its memory.
    MemoryTaken = 0,
    /// Too many hints were of no use.
    HintsUnused,
    /// Forks, and the copies that they cause, took too long.
    Forks,
}

impl Reason {
    /// Number of reasons.
    pub const COUNT: usize = 3;
    /// Each of them.
    pub const ALL: [Self; Self::COUNT] = [Self::MemoryTaken, Self::HintsUnused, Self::Forks];
}
