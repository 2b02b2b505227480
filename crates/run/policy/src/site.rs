//! Predicts results that are not there yet, learned by call site.
//!
//! # Model
//!
//! A call of the speculator that would have to wait for its result gets a predicted one, by a [`Strategy`] of
//! its [`Kind`]. Some results do not matter (text that is searched), some decide all that follows (a header).
//! Which it is depends on the place in the program that makes the call, its *site*, named by a hash.
//!
//! What follows decides about a prediction. When a speculation ends or goes off track, the site of its last predicted
//! value gets the *payoff*: the hints of that speculation that the original used. So a site that a speculation passed
//! 500 times before it ended gets 500.
//!
//! Each strategy of a site has a value `v`, an exponentially weighted mean with weight 1/2 of
//!
//! ```text
//!     log2(1 + payoff)      at most 12, a payoff of 4,095
//! ```
//!
//! that starts at 3, a payoff of 7. A strategy breaks even at a payoff of 3, `v = 2`. Because
//! of the logarithm one bad end never condemns a site that earned 15 hints or more, and three in a row always do.
//! For 500 hints these are `v = 9`, then 4.5, 2.2, 1.1. A first use that pays nothing condemns at once.
//!
//! # Ladder
//!
//! The strategies of a kind are tried in the order of [`Kind::ladder`]. While the present one breaks even it
//! stays. When it does not, the next that was never tried takes over; when all were, the one with the greatest
//! value (the earlier of equals). Programs change phase, and a good strategy can have a run of bad
//! luck. So every [`TIMES_APART`] outcomes of a site another strategy is tried for one outcome. That is four times as
//! often while the present one pays less than 7, eight times while it does not break even, never while it pays 63.
//!
//! # Memory
//!
//! A [`SiteTable`] lies in memory that all processes of a run share. So many short processes of one executable learn as one long
//! process does. They update it without locks; updates that race may lose an outcome. Nothing read from the table is trusted: any
//! word is some valid state. Where the table is full, a site takes the place of another one, which is new again later.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::{CALL_SITES, CallSite, LOG_ENTRIES};

use crate::price::{PAYOFF_CONTENT, PAYOFF_FIRST, PAYOFF_WORTH, TIMES_APART};

/// The call sites of a run.
pub type SiteTable = [CallSite; CALL_SITES];

/// Entries of the table that are looked at for one key.
const PROBES: usize = 8;

const _: () = assert!(CALL_SITES.is_power_of_two());

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of a file.
    Read,
    /// A descriptor for a path.
    Open,
    /// The attributes of a path.
    Stat,
    /// The entries of a directory.
    Directory,
    /// A page of memory.
    Fault,
}

/// What the speculator makes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Leave the buffer as it is and return the whole count.
    Unchanged,
    /// Return 0, the end of the file.
    EndOfFile,
    /// Fill the buffer with newlines and return the whole count.
    Blank,
    /// Return a descriptor of a regular file that cannot be read yet.
    Placeholder,
    /// Describe a regular file.
    Regular,
    /// Say that there is no such file.
    Missing,
    /// Return no entry.
    Empty,
    /// Make nothing up: wait for the true result.
    Wait,
}

impl Kind {
    /// The strategies for this kind of call, most hopeful first.
    #[must_use]
    pub const fn ladder(self) -> &'static [Strategy] {
        match self {
            Self::Read => &[Strategy::Unchanged, Strategy::EndOfFile, Strategy::Blank, Strategy::Wait],
            Self::Open => &[Strategy::Placeholder, Strategy::Wait],
            Self::Stat => &[Strategy::Regular, Strategy::Missing, Strategy::Wait],
            // What a directory holds decides all that follows, and the wait is short: the directories below one that is
            // read are hinted with it.
            Self::Directory => &[Strategy::Wait, Strategy::Empty],
            Self::Fault => &[Strategy::Unchanged, Strategy::Wait],
        }
    }

    const fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Read),
            2 => Some(Self::Open),
            3 => Some(Self::Stat),
            4 => Some(Self::Directory),
            5 => Some(Self::Fault),
            _ => None,
        }
    }

    const fn number(self) -> u64 {
        match self {
            Self::Read => 1,
            Self::Open => 2,
            Self::Stat => 3,
            Self::Directory => 4,
            Self::Fault => 5,
        }
    }
}

/// The call site with this key and what to make up there. A site that is new claims an entry, or takes another one's. The same key
/// is another site for another kind.
#[must_use]
pub fn lookup(sites: &SiteTable, key: u64, kind: Kind) -> (u32, Strategy) {
    let key = (key ^ kind.number().wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1);
    let first = (key ^ (key >> 32)) as usize;
    let place = |probe: usize| first.wrapping_add(probe) & (CALL_SITES - 1);
    let own = (0..PROBES).map(place).find(|&index| claim(&sites[index & (CALL_SITES - 1)].key, key));
    let index = own.unwrap_or_else(|| place((key >> 48) as usize % PROBES));
    let site = &sites[index & (CALL_SITES - 1)];
    if own.is_none() {
        site.key.store(key, Relaxed);
        site.state.store(0, Relaxed);
    }
    let state = State::unpack(site.state.load(Relaxed), kind);
    if state.fresh {
        site.state.store(state.pack(), Relaxed);
    }
    (index as u32, state.strategy())
}

fn claim(entry: &AtomicU64, key: u64) -> bool {
    match entry.load(Relaxed) {
        0 => match entry.compare_exchange(0, key, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(other) => other == key,
        },
        other => other == key,
    }
}

/// A speculation is judged in which the site at `index` was the last that a value was made up for (or waited
/// for): `payoff` hints of it were used by the original. Whether the site goes on with a strategy that it has not tried yet.
pub fn outcome(sites: &[CallSite], index: u32, payoff: u32) -> bool {
    let Some(site) = sites.get(index as usize) else { return false };
    let word = site.state.load(Relaxed);
    let Some(kind) = Kind::from_number(word & 7) else { return false };
    let mut state = State::unpack(word, kind);
    state.judge(payoff);
    site.state.store(state.pack(), Relaxed);
    !state.tried[state.rung & (LADDER_MAX - 1)]
}

/// The last fabricated value of a speculation, as [`forebay_protocol::layout::Slot::last_predicted`] holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastFabricated {
    /// Index of the call site, from [`lookup`].
    pub site: u32,
    /// Position in the hint log, its low 32 bits.
    pub position: u32,
}

impl LastFabricated {
    /// One word, never 0.
    #[must_use]
    #[inline]
    pub const fn pack(self) -> u64 {
        ((self.site as u64 & 0x7fff_ffff) + 1) | ((self.position as u64) << 32)
    }

    /// `None` for a speculation in which nothing was made up.
    #[must_use]
    #[inline]
    pub const fn unpack(word: u64) -> Option<Self> {
        match word as u32 {
            0 => None,
            site => Some(Self { site: site - 1, position: (word >> 32) as u32 }),
        }
    }
}

/// Strategies of a kind at most.
const LADDER_MAX: usize = 4;
/// 1 in values: they have 6 fractional bits.
const ONE: u64 = 1 << 6;
const VALUE_FIRST: u64 = PAYOFF_FIRST * ONE;
const VALUE_BREAK_EVEN: u64 = PAYOFF_WORTH * ONE;
/// From this value on no other strategy is tried.
const VALUE_CONTENT: u64 = PAYOFF_CONTENT * ONE;
/// What all hints of a log give.
const VALUE_MAX: u64 = LOG_ENTRIES.ilog2() as u64 * ONE;

/// State of one site. Packed: bits 0..3 the kind's number, 3..5 the present rung of the ladder, 5..9 the rungs
/// tried, 9 a trial, 10..17 restlessness, 17..19 the rung of the last trial, from 20 on 10 bits for the value
/// of each rung.
struct State {
    kind: Kind,
    fresh: bool,
    rung: usize,
    tried: [bool; LADDER_MAX],
    /// The present rung is only tried for one outcome.
    trial: bool,
    /// A trial is made when this reaches [`TIMES_APART`].
    restless: u64,
    last_trial: usize,
    values: [u64; LADDER_MAX],
}

impl State {
    fn unpack(word: u64, kind: Kind) -> Self {
        let fresh = word & 7 != kind.number();
        let word = if fresh { 0 } else { word };
        let mut state = Self {
            kind,
            fresh,
            rung: (word >> 3 & 3) as usize,
            tried: [false; LADDER_MAX],
            trial: word >> 9 & 1 == 1,
            restless: (word >> 10 & 0x7f).min(TIMES_APART),
            last_trial: (word >> 17 & 3) as usize,
            values: [VALUE_FIRST; LADDER_MAX],
        };
        state.rung = state.rung.min(state.rungs() - 1);
        let rungs = state.tried.iter_mut().zip(&mut state.values).enumerate();
        for (rung, (tried, value)) in rungs {
            *tried = word >> (5 + rung) & 1 == 1;
            if *tried {
                *value = (word >> (20 + 10 * rung) & 0x3ff).min(VALUE_MAX);
            }
        }
        state
    }

    fn pack(&self) -> u64 {
        let mut word = self.kind.number()
            | (self.rung as u64) << 3
            | u64::from(self.trial) << 9
            | self.restless << 10
            | (self.last_trial as u64) << 17;
        for (rung, (tried, value)) in self.tried.iter().zip(&self.values).enumerate() {
            word |= u64::from(*tried) << (5 + rung) | value << (20 + 10 * rung);
        }
        word
    }

    fn rungs(&self) -> usize {
        self.kind.ladder().len()
    }

    fn strategy(&self) -> Strategy {
        self.kind.ladder().get(self.rung).copied().unwrap_or(Strategy::Wait)
    }

    fn judge(&mut self, payoff: u32) {
        let value = &mut self.values[self.rung & (LADDER_MAX - 1)];
        *value = (*value + log2(u64::from(payoff) + 1).min(VALUE_MAX)) / 2;
        let value = *value;
        self.tried[self.rung & (LADDER_MAX - 1)] = true;
        self.restless = (self.restless + restlessness(value)).min(TIMES_APART);

        if self.trial {
            self.trial = false;
            self.rung = self.best();
        } else if self.restless >= TIMES_APART {
            self.try_another();
        } else if value < VALUE_BREAK_EVEN {
            self.rung = self.untried().unwrap_or_else(|| self.best());
        }
    }

    fn untried(&self) -> Option<usize> {
        self.tried.iter().take(self.rungs()).position(|&tried| !tried)
    }

    /// The rung with the greatest value, of those tried.
    fn best(&self) -> usize {
        let mut best = (0, 0);
        for (rung, (&value, &tried)) in self.values.iter().zip(&self.tried).take(self.rungs()).enumerate() {
            if tried && value > best.1 {
                best = (rung, value);
            }
        }
        best.0
    }

    fn try_another(&mut self) {
        self.restless = 0;
        let mut next = self.last_trial;
        for _ in 0..2 {
            next = if next + 1 >= self.rungs() { 0 } else { next + 1 };
            if next != self.rung {
                break;
            }
        }
        self.last_trial = next;
        self.rung = next;
        self.trial = true;
    }
}

/// What an outcome adds towards the next trial of another strategy while the present one has this value.
const fn restlessness(value: u64) -> u64 {
    match value {
        0..VALUE_BREAK_EVEN => 8,
        VALUE_BREAK_EVEN..VALUE_FIRST => 4,
        VALUE_FIRST..VALUE_CONTENT => 1,
        _ => 0,
    }
}

/// log2 with 6 fractional bits, from below by at most 0.1; 0 for 0.
fn log2(value: u64) -> u64 {
    let value = value | u64::from(value == 0);
    let zeros = value.leading_zeros();
    (u64::from(63 - zeros) << 6) | ((value << zeros) >> 57 & (ONE - 1))
}
