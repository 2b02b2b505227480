//! Foresight: what a machine will fetch after a barrier, from what it fetched after earlier ones.
//!
//! An *epoch* is the time between two barriers. What threads fetch in an epoch is *noted*, in signal handlers too. At the next
//! barrier the past tells how epochs [recur](pattern), and what the next one is to fetch. That is *foretold*: the machine
//! requests all of it together, by ordinary requests, and waits for none.
//!
//! A page that is there gives no fault, so the machine does not see whether a thread uses what was foretold. So of what could be
//! foretold a *sample* is left to threads. Where a thread fetches it, it was needed. What was not is forgotten. Where that is more
//! than a tenth, all of the epoch is sample from then on, until it would have been right again.
//!
//! A *section* is the time for which the machine has a lock. What it fetches in one is foretold when it next gets that lock, and
//! is no part of the epoch.

mod epoch;
mod pattern;
mod sections;

use std::{collections::VecDeque, ops::Range};

use crate::message::{Access, Lock, Minipage};
use epoch::{Epoch, Fetch, Foretold, Log, Tally};
use pattern::{EPOCHS_MAX, recurring};
use sections::Sections;

/// One of so many foretold minipages is left to threads.
const SAMPLE: u64 = 32;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Minipages that were left to threads while others like them were foretold.
    pub sampled: u64,
    /// Those of them that no thread needed, and foretold ones that other machines took away before they were of use.
    pub unneeded: u64,
}

/// One machine's foresight.
#[derive(Clone, Debug)]
pub struct Foresight {
    log: Log,
    /// Epochs that are over, the last one last.
    past: VecDeque<Epoch>,
    /// For the epoch that is under way.
    foretold: Foretold,
    sections: Sections,
    /// What chooses the sample. It is the same in each run.
    random: u64,
    figures: Figures,
    is_blind: bool,
}

impl Default for Foresight {
    fn default() -> Self {
        Self {
            log: Log::new(),
            past: VecDeque::with_capacity(EPOCHS_MAX),
            foretold: Foretold::default(),
            sections: Sections::default(),
            random: 0x9e37_79b9_7f4a_7c15,
            figures: Figures::default(),
            is_blind: false,
        }
    }
}

impl Foresight {
    /// That foretells nothing.
    #[must_use]
    pub fn blind() -> Self {
        Self { is_blind: true, ..Self::default() }
    }

    /// A thread needs a minipage that is to be fetched. Takes no memory.
    pub fn fetched(&mut self, minipage: Minipage, access: Access) {
        if !self.is_blind {
            self.log.fetched(minipage, access);
        }
    }

    /// Another machine wants a minipage, and this one has less of it now. Takes no memory.
    pub fn lost(&mut self, minipage: Minipage) {
        if !self.is_blind {
            self.log.lost(minipage);
        }
    }

    /// The machine has come to a barrier. Others may be past it, and what they want is of the next epoch.
    pub const fn arrived(&mut self) {
        self.log.arrived();
    }

    /// The machine has passed a barrier. What to request now, of what `is_absent`.
    pub fn passed(&mut self, is_absent: impl Fn(Minipage, Access) -> bool) -> Vec<Fetch> {
        if self.is_blind {
            return vec![];
        }
        self.sections.leave();
        let (epoch, verdict) = std::mem::take(&mut self.foretold).end(self.log.take());
        self.figures.unneeded += verdict.unneeded;
        if verdict.is_refuted {
            self.past.clear();
        } else if self.past.len() == EPOCHS_MAX {
            self.past.pop_front();
        }
        self.past.push_back(epoch);
        let Some((mut fetches, tally)) = recurring(&self.past) else { return vec![] };
        fetches.retain(|(minipage, access)| is_absent(*minipage, *access));
        self.foretold = self.divide(fetches, tally);
        self.foretold.requested.clone()
    }

    /// The machine has got a lock. What to request now, of what `is_absent`.
    pub fn locked(&mut self, lock: Lock, is_absent: impl Fn(Minipage, Access) -> bool) -> Vec<Fetch> {
        if self.is_blind {
            return vec![];
        }
        let Epoch { mut fetches, tally } = self.sections.last(lock);
        fetches.retain(|(minipage, access)| is_absent(*minipage, *access));
        let foretold = self.divide(fetches, tally);
        let requested = foretold.requested.clone();
        self.sections.enter(lock, self.log.len(), foretold);
        requested
    }

    /// The machine gives a lock up.
    pub fn unlocked(&mut self, lock: Lock) {
        self.figures.unneeded += self.sections.end(lock, &mut self.log);
    }

    /// Hosts have freed minipages, and others will have these numbers: what is known of them is forgotten.
    pub fn forget(&mut self, numbers: &Range<u32>) {
        let Self { log, past, foretold, sections, .. } = self;
        log.forget(numbers);
        past.iter_mut().for_each(|epoch| epoch.forget(numbers));
        foretold.forget(numbers);
        sections.forget(numbers);
    }

    /// Its figures since they were last taken.
    pub fn take_figures(&mut self) -> Figures {
        std::mem::take(&mut self.figures)
    }

    /// Chooses what is left to threads.
    fn divide(&mut self, fetches: Vec<Fetch>, tally: Tally) -> Foretold {
        let is_trusted = tally.is_good();
        let (sample, requested): (Vec<_>, Vec<_>) =
            fetches.into_iter().partition(|_| !is_trusted || self.draws());
        if is_trusted {
            self.figures.sampled += sample.len() as u64;
        }
        Foretold { requested, sample, tally, is_trusted }
    }

    /// Whether the next one is of the sample (xorshift, G. Marsaglia, 2003).
    const fn draws(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(SAMPLE)
    }
}

#[cfg(test)]
mod tests;
