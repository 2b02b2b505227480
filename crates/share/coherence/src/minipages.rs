//! The minipages that a host knows: those that all hosts add alike, and those that a host adds alone.

use std::{collections::BTreeMap, ops::Range};

use crate::directory::Entry;
use crate::host::Effects;
use crate::message::{Access, HostId, Minipage, Want};

/// A minipage on this host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    pub access: Access,
    pub home: HostId,
    /// The request that is under way.
    pub pending: Option<Want>,
    /// Before a thread wanted it.
    pub is_foretold: bool,
    /// As its manager.
    pub entry: Option<Box<Entry>>,
}

impl Local {
    /// Whether nothing is under way that this host has asked for or manages.
    pub fn is_calm(&self) -> bool {
        self.pending.is_none() && self.entry.as_ref().is_none_or(|entry| entry.is_calm())
    }

    pub fn raise(&mut self, minipage: Minipage, access: Access, effects: &mut impl Effects) {
        if self.access < access {
            self.access = access;
            effects.protect(minipage, access);
        }
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Minipages {
    /// By their numbers, from 0. None where all hosts have freed it.
    alike: Vec<Option<Local>>,
    /// Neighbours that were added together, by the number of the first.
    alone: BTreeMap<Minipage, Vec<Local>>,
    /// Numbers that those can have.
    room: Range<u32>,
}

impl Minipages {
    /// Lets hosts add minipages of these numbers alone.
    pub fn make_room(&mut self, numbers: Range<u32>) {
        self.room = numbers;
    }

    pub fn get(&self, minipage: Minipage) -> Option<&Local> {
        self.alike.get(minipage.index()).and_then(Option::as_ref).or_else(|| {
            let (first, all) = self.alone.range(..=minipage).next_back()?;
            all.get(minipage.index() - first.index())
        })
    }

    pub fn get_mut(&mut self, minipage: Minipage) -> Option<&mut Local> {
        let Self { alike, alone, .. } = self;
        alike.get_mut(minipage.index()).and_then(Option::as_mut).or_else(|| {
            let (first, all) = alone.range_mut(..=minipage).next_back()?;
            all.get_mut(minipage.index() - first.index())
        })
    }

    /// Its directory entry, where this host is the manager.
    pub fn entry_mut(&mut self, minipage: Minipage) -> Option<&mut Entry> {
        self.get_mut(minipage)?.entry.as_deref_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Local> {
        self.alike.iter().flatten().chain(self.alone.values().flatten())
    }

    /// The number behind those of all that hosts add alike.
    pub fn next(&self) -> Minipage {
        Minipage(self.alike.len() as u32)
    }

    /// Adds one of all hosts, with a number that none has.
    pub fn add(&mut self, minipage: Minipage, local: Local) {
        let len = self.alike.len().max(minipage.index() + 1);
        self.alike.resize_with(len, || None);
        self.alike[minipage.index()] = Some(local);
    }

    /// Removes some that all hosts have added alike.
    pub fn remove(&mut self, numbers: Range<u32>) {
        for number in numbers {
            if let Some(local) = self.alike.get_mut(number as usize) {
                *local = None;
            }
        }
        while self.alike.pop_if(|local| local.is_none()).is_some() {}
    }

    /// Adds those of one host, unless there is no room for them, or another one has these numbers.
    pub fn add_alone(&mut self, first: Minipage, count: u32, local: impl Fn() -> Local) -> bool {
        let numbers = first.0..first.0.saturating_add(count);
        let before = self.alone.range(..Minipage(numbers.end)).next_back();
        let is_free = before.is_none_or(|(first, all)| first.0 + all.len() as u32 <= numbers.start);
        let fits = self.room.start.max(self.alike.len() as u32) <= numbers.start
            && numbers.end <= self.room.end
            && !numbers.is_empty();
        if fits && is_free {
            self.alone.insert(first, numbers.map(|_| local()).collect());
        }
        fits && is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> Local {
        Local { access: Access::None, home: HostId(0), pending: None, is_foretold: false, entry: None }
    }

    #[test]
    fn each_number_is_that_of_one_minipage_and_no_others_are_known() {
        let mut all = Minipages::default();
        for number in 0..2 {
            assert_eq!(all.next(), Minipage(number));
            all.add(all.next(), local());
        }
        assert!(!all.add_alone(Minipage(5), 1, local), "there is no room");
        all.make_room(4..20);
        let tried = [(3, 2, false), (6, 3, true), (5, 2, false), (8, 1, false), (9, 1, true), (4, 2, true)];
        for (first, count, is_added) in tried {
            assert_eq!(all.add_alone(Minipage(first), count, local), is_added, "{first}");
        }
        for (first, count) in [(4, 16), (10, 0), (18, 3), (20, 1), (u32::MAX, u32::MAX)] {
            assert!(!all.add_alone(Minipage(first), count, local), "{first}");
        }
        let known: Vec<u32> = (0..30).filter(|number| all.get(Minipage(*number)).is_some()).collect();
        assert_eq!(known, [0, 1, 4, 5, 6, 7, 8, 9]);
        assert!((0..30).all(|number| all.get_mut(Minipage(number)).is_some() == known.contains(&number)));
        assert_eq!(all.iter().count(), known.len());
        all.remove(0..1);
        assert!(
            all.get(Minipage(0)).is_none() && all.get(Minipage(1)).is_some() && all.next() == Minipage(2)
        );
        all.add(Minipage(0), local());
        all.remove(0..2);
        assert!(all.get(Minipage(0)).is_none() && all.next() == Minipage(0) && all.iter().count() == 6);
    }
}
