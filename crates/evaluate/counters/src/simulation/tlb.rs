//! Translation buffers, simulated exactly: sets of a given number of ways, of which the least recently used is replaced.

use crate::readings::Reading;

use super::{Access, reading};

/// Bytes of a page. Huge pages are not known from the accesses.
const PAGE_BYTES: u64 = 4096;

/// How many translations a buffer holds, and in how many ways a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sets.
    pub sets: usize,
    /// Translations of a set.
    pub ways: usize,
}

impl Shape {
    /// What processors of today have, taken where this one does not tell: 64 entries in 4 ways, and behind them 1,536 in 12.
    pub const ASSUMED: [Self; 2] = [Self { sets: 16, ways: 4 }, Self { sets: 128, ways: 12 }];

    /// Translations that it holds.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.sets * self.ways
    }

    /// The two buffers for data that this processor says it has; `None` where it does not say.
    #[cfg(target_arch = "x86_64")]
    #[must_use]
    pub fn of_this_machine() -> Option<[Self; 2]> {
        use raw_cpuid::Associativity;
        use raw_cpuid::DatType::{DataTLB, LoadOnly, UnifiedTLB};

        let cpuid = raw_cpuid::CpuId::new();
        let intel = || {
            let all: Vec<_> = cpuid.get_deterministic_address_translation_info()?.collect();
            let of_level = |level| {
                let mut fitting = all.iter().filter(|one| one.cache_level() == level && one.has_4k_entries());
                let one = fitting.find(|one| matches!(one.cache_type(), DataTLB | LoadOnly | UnifiedTLB))?;
                Self::some(one.sets() as usize, one.ways().into())
            };
            Some([of_level(1)?, of_level(2)?])
        };
        let amd = || {
            let first = cpuid.get_l1_cache_and_tlb_info()?;
            let second = cpuid.get_l2_l3_cache_and_tlb_info()?;
            let shape = |entries: u16, ways| {
                let ways = match ways {
                    Associativity::NWay(ways) => ways.into(),
                    Associativity::DirectMapped => 1,
                    // All of it is one set, or nothing is said.
                    _ => entries,
                };
                Self::some(usize::from(entries.checked_div(ways)?), ways.into())
            };
            Some([
                shape(first.dtlb_4k_size().into(), first.dtlb_4k_associativity())?,
                shape(second.dtlb_4k_size(), second.dtlb_4k_associativity())?,
            ])
        };
        intel().or_else(amd)
    }

    /// Other processors do not say.
    #[cfg(not(target_arch = "x86_64"))]
    #[must_use]
    pub fn of_this_machine() -> Option<[Self; 2]> {
        None
    }

    #[cfg(target_arch = "x86_64")]
    fn some(sets: usize, ways: usize) -> Option<Self> {
        (sets > 0 && ways > 0).then_some(Self { sets, ways })
    }
}

/// One buffer.
#[derive(Clone, Debug)]
pub struct Tlb {
    shape: Shape,
    /// Pages, set by set, each from the most recently used to the least; 0 is none, page n is n + 1.
    pages: Vec<u64>,
}

impl Tlb {
    /// An empty one.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self { shape, pages: vec![0; shape.entries()] }
    }

    /// Looks a page up, puts it in if it is not there, and tells whether it was.
    pub fn look_up(&mut self, page: u64) -> bool {
        let Shape { sets, ways } = self.shape;
        let set = (page % sets as u64) as usize;
        let set = &mut self.pages[set * ways..(set + 1) * ways];
        let place = set.iter().position(|known| *known == page + 1);
        set[..=place.unwrap_or(ways - 1)].rotate_right(1);
        set[0] = page + 1;
        place.is_some()
    }
}

/// Two buffers, the second asked where the first misses.
#[derive(Clone, Debug)]
pub struct Translations {
    buffers: [Tlb; 2],
    loads: u64,
    stores: u64,
    /// Of loads, and of stores.
    first_misses: [u64; 2],
    second_misses: u64,
}

impl Translations {
    /// Empty buffers.
    #[must_use]
    pub fn new(shapes: [Shape; 2]) -> Self {
        Self { buffers: shapes.map(Tlb::new), loads: 0, stores: 0, first_misses: [0; 2], second_misses: 0 }
    }

    /// Makes an access. Whatever spans two pages needs both translations.
    pub fn access(&mut self, access: &Access) {
        *(if access.is_store { &mut self.stores } else { &mut self.loads }) += 1;
        let last = access.address.saturating_add(access.bytes.max(1) - 1);
        for page in access.address / PAGE_BYTES..=last / PAGE_BYTES {
            let [first, second] = &mut self.buffers;
            if !first.look_up(page) {
                self.first_misses[usize::from(access.is_store)] += 1;
                self.second_misses += u64::from(!second.look_up(page));
            }
        }
    }

    /// Accesses so far.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores
    }

    /// What was counted. A miss of the second buffer is a walk through the page tables.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        let [loads, stores] = self.first_misses;
        vec![
            reading("data_tlb_loads", self.loads),
            reading("data_tlb_load_misses", loads),
            reading("data_tlb_stores", self.stores),
            reading("data_tlb_store_misses", stores),
            reading("data_tlb_walks", self.second_misses),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn load(address: u64, bytes: u64) -> Access {
        Access { address, bytes, is_store: false }
    }

    fn count(translations: &Translations, name: &str) -> f64 {
        translations.readings().iter().find(|one| one.counter.name == name).unwrap().value
    }

    #[test]
    fn more_pages_than_there_are_ways_in_turn_always_miss_and_as_many_never() {
        for (pages, expected) in [(4, 4.0), (5, 500.0)] {
            let mut translations =
                Translations::new([Shape { sets: 2, ways: 4 }, Shape { sets: 16, ways: 8 }]);
            for turn in 0..500 {
                // All of one set of the first buffer.
                translations.access(&load(turn % pages * 2 * PAGE_BYTES, 8));
            }
            assert_eq!(count(&translations, "data_tlb_load_misses"), expected, "{pages}");
            assert_eq!(count(&translations, "data_tlb_walks"), pages as f64);
        }
    }

    #[test]
    fn an_access_over_the_end_of_a_page_needs_two() {
        let mut translations = Translations::new(Shape::ASSUMED);
        translations.access(&load(PAGE_BYTES - 4, 8));
        translations.access(&load(PAGE_BYTES - 4, 4));
        translations.access(&load(u64::MAX, 8));
        assert_eq!((translations.accesses(), count(&translations, "data_tlb_load_misses")), (3, 3.0));
    }

    #[test]
    fn this_processor_tells_sensible_buffers_or_none() {
        if let Some([first, second]) = Shape::of_this_machine() {
            assert!((8..4096).contains(&first.entries()), "{first:?}");
            assert!(second.entries() >= first.entries(), "{second:?}");
        }
    }

    proptest! {
        #[test]
        fn a_set_holds_what_was_used_last(pages in prop::collection::vec(0..40u64, 0..400), sets in 1..4usize, ways in 1..6usize) {
            let mut tlb = Tlb::new(Shape { sets, ways });
            let mut model = vec![VecDeque::new(); sets];
            for page in pages {
                let set = &mut model[page as usize % sets];
                let known = set.iter().position(|other| *other == page);
                if let Some(place) = known {
                    set.remove(place);
                }
                set.push_front(page);
                set.truncate(ways);
                prop_assert_eq!(tlb.look_up(page), known.is_some());
            }
        }
    }
}
