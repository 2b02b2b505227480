//! Words in the memory of one machine: a lock, a barrier, and a minipage of each of its hosts are one word each. A host changes a word by one
//! atomic operation, and sleeps while the word stays as it is.

use crate::message::{Access, HostId};

/// The word of a lock: its holder, and whether hosts sleep until it is free. It is 0 at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockWord(pub u32);

/// One more than the holder's rank; 0 for none.
const HOLDER: u32 = (1 << 17) - 1;
const AWAITED: u32 = 1 << 31;

impl LockWord {
    /// That of a lock which no host has.
    pub const FREE: Self = Self(0);

    /// That of a lock which a host has, and for which others may sleep.
    #[must_use]
    pub const fn held(by: HostId, is_awaited: bool) -> Self {
        Self((by.0 as u32 + 1) | if is_awaited { AWAITED } else { 0 })
    }

    /// The host that has it.
    #[must_use]
    pub const fn holder(self) -> Option<HostId> {
        match self.0 & HOLDER {
            0 => None,
            holder => Some(HostId((holder - 1) as u16)),
        }
    }

    /// The same, and hosts sleep until it is free.
    #[must_use]
    pub const fn awaited(self) -> Self {
        Self(self.0 | AWAITED)
    }

    /// Whether hosts may sleep until it is free.
    #[must_use]
    pub const fn is_awaited(self) -> bool {
        self.0 & AWAITED != 0
    }
}

/// The word of a barrier: how often all hosts have passed it, whether they agreed the last time, and whether a host has left
/// the job. It is 0 at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BarrierWord(pub u32);

const LEFT: u32 = 1 << 0;
const DISAGREED: u32 = 1 << 1;
const ROUND: u32 = 1 << 2;
const ROUNDS: u32 = !(LEFT | DISAGREED);

impl BarrierWord {
    /// That after one more round, at which all hosts have arrived.
    #[must_use]
    pub const fn passed(self, agreed: bool) -> Self {
        let round = (self.0 & ROUNDS).wrapping_add(ROUND);
        Self(round | self.0 & LEFT | if agreed { 0 } else { DISAGREED })
    }

    /// 1 in every other round, else 0.
    #[must_use]
    pub const fn parity(self) -> usize {
        (self.0 / ROUND % 2) as usize
    }

    /// That after a host has left: not all hosts arrive at any later round.
    #[must_use]
    pub const fn left(self) -> Self {
        Self(self.0 | LEFT)
    }

    /// Whether all hosts agreed in the round that began at `before`, if that has ended.
    #[must_use]
    pub const fn ended(self, before: Self) -> Option<bool> {
        if self.0 & ROUNDS != before.0 & ROUNDS {
            Some(self.0 & DISAGREED == 0)
        } else if self.0 & LEFT != 0 {
            Some(false)
        } else {
            None
        }
    }
}

/// The word of a minipage on one host of a machine: what the host's pages may allow, and how many of its threads are about to
/// let them allow more. It is 0 at first. Another word says what the machine may do with the minipage.
///
/// A thread counts itself here first and looks at the machine's word then. Whoever lowers the machine's word does that first and
/// looks here then. So either the thread sees the lower word, or the thread is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PagesWord(pub u32);

const ALLOWED: u32 = 3;
const PAGES_AWAITED: u32 = 1 << 2;
const RAISING: u32 = 1 << 3;

impl PagesWord {
    /// What the pages may allow.
    #[must_use]
    pub const fn allowed(self) -> Access {
        Access::from_number(self.0 & ALLOWED)
    }

    /// Whether threads are about to let the pages allow more.
    #[must_use]
    pub const fn is_raising(self) -> bool {
        self.0 >= RAISING
    }

    /// Whether a thread may sleep until none is.
    #[must_use]
    pub const fn is_awaited(self) -> bool {
        self.0 & PAGES_AWAITED != 0
    }

    /// That with one more such thread.
    #[must_use]
    pub const fn begun(self) -> Self {
        Self(self.0 + RAISING)
    }

    /// That with one less, which has let the pages allow this.
    #[must_use]
    pub fn ended(self, access: Access) -> Self {
        Self((self.0 - RAISING) & !ALLOWED | self.allowed().max(access) as u32)
    }

    /// The same, and a thread sleeps until no other one is about to raise it.
    #[must_use]
    pub const fn awaited(self) -> Self {
        Self(self.0 | PAGES_AWAITED)
    }

    /// That of pages which allow no more than this, and for which no thread sleeps.
    #[must_use]
    pub const fn lowered(self, access: Access) -> Self {
        Self(self.0 & !(ALLOWED | PAGES_AWAITED) | access as u32)
    }
}
