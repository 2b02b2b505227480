//! Streams of mapped files, in simulated programs: storms are read to their end, and look-ups cost their stake.

mod support;

use forebay_policy::inflight::InflightLimit;
use forebay_policy::price::WAITED_PART;
use forebay_policy::storm::{AREAS, BLOCK_PAGES, PAGE_BYTES, PIECE_BYTES, Prices, Seen, Storm};
use proptest::prelude::*;
use support::Chance;

/// Ticks in a second: microseconds.
const SECOND: u64 = 1_000_000;
const REQUEST: u64 = 1_000;
const LOOK: u64 = 20_000;
const MIB: u64 = 1 << 20;

/// A device that takes a millisecond for a request and serves so many at once.
fn device(channels: u64) -> Prices {
    let mut limit = InflightLimit::new();
    for round in 0..64 {
        limit.on_stall(REQUEST);
        let depth = round % limit.limit() + 1;
        limit.on_completion(REQUEST * u64::from(depth).div_ceil(channels), depth);
    }
    Prices::of(&limit, SECOND)
}

/// A program that touches pages of a file, and what the kernel has in memory of it.
struct Program {
    storm: Storm,
    in_memory: Vec<bool>,
    mapped: Vec<bool>,
    position: u64,
    streamed: usize,
    faults: u64,
}

impl Program {
    fn new(bytes: u64) -> Self {
        let pages = (bytes / PAGE_BYTES) as usize;
        let storm = Storm::new(bytes);
        Self {
            storm,
            in_memory: vec![false; pages],
            mapped: vec![false; pages],
            position: 0,
            streamed: 0,
            faults: 0,
        }
    }

    /// Touches a page; whether it waits.
    fn touch(&mut self, page: usize) -> bool {
        let waits = !self.in_memory[page];
        self.in_memory[page] = true;
        self.mapped[page] = true;
        let block = page / BLOCK_PAGES * BLOCK_PAGES;
        for near in block..(block + BLOCK_PAGES).min(self.mapped.len()) {
            self.mapped[near] |= self.in_memory[near] && !waits;
        }
        waits
    }

    fn see(&self) -> [Seen; AREAS] {
        std::array::from_fn(|area| {
            let mut seen = Seen::default();
            for (block, offset) in self.storm.sample(area).enumerate() {
                let first = (offset / PAGE_BYTES) as usize;
                let pages =
                    self.mapped.iter().skip(first).take(BLOCK_PAGES).filter(|mapped| **mapped).count() as u16;
                seen.pages += pages;
                seen.blocks |= u16::from(pages > 0) << block;
            }
            seen
        })
    }

    /// A look after so many faults. The stream reads all that is granted.
    fn look(&mut self, faults: u64, prices: Prices, areas_max: usize) {
        self.faults += faults;
        let seen = self.see();
        let _ = self.storm.see(&seen, self.position);
        let granted = self.storm.on_look(faults, self.position, prices, areas_max);
        while self.position < granted {
            let area_bytes = self.storm.area_bytes();
            let area = u64::from(self.storm.order()[(self.position / area_bytes) as usize]);
            let first = ((area * area_bytes + self.position % area_bytes) / PAGE_BYTES) as usize;
            for page in self.in_memory.iter_mut().skip(first).take((PIECE_BYTES / PAGE_BYTES) as usize) {
                self.streamed += usize::from(!*page);
                *page = true;
            }
            self.position += PIECE_BYTES;
        }
    }

    /// Threads touch these pages, and look after look passes, until all are touched. How many touches waited.
    fn run(
        &mut self,
        pages: impl Iterator<Item = usize>,
        threads: u64,
        prices: Prices,
        areas_max: usize,
    ) -> u64 {
        self.look(0, prices, areas_max);
        let (mut spent, mut faults, mut all) = (0, 0, 0);
        for page in pages {
            let waits = self.touch(page);
            faults += u64::from(waits);
            spent += if waits { REQUEST } else { 1 };
            if spent >= LOOK * threads {
                all += faults;
                self.look(faults, prices, areas_max);
                (spent, faults) = (0, 0);
            }
        }
        self.look(faults, prices, areas_max);
        all + faults
    }
}

fn shuffled(pages: usize, seed: u64) -> Vec<usize> {
    let mut chance = Chance(seed);
    let mut order: Vec<usize> = (0..pages).collect();
    (1..pages).rev().for_each(|last| order.swap(last, chance.below(last as u64 + 1) as usize));
    order
}

#[test]
fn a_storm_is_read_to_its_end_while_it_has_hardly_begun() {
    for (channels, part) in [(128, 20), (32, 10), (4, 3)] {
        let mut program = Program::new(256 * MIB);
        let pages = program.mapped.len();
        let waits = program.run(shuffled(pages, channels).into_iter(), 32, device(channels), AREAS);
        assert_eq!(program.position, 256 * MIB, "{channels}");
        assert!(waits < (pages / part) as u64, "{channels}: {waits} of {pages}");
        assert!(program.storm.pays(device(channels)), "{channels}");
    }
}

#[test]
fn one_thread_that_goes_on_is_a_storm_too() {
    let mut program = Program::new(256 * MIB);
    let pages = program.mapped.len();
    let waits = program.run(shuffled(pages, 7).into_iter(), 1, device(64), AREAS);
    assert!(waits < (pages / 4) as u64, "{waits} of {pages}");
}

#[test]
fn look_ups_in_a_large_file_have_little_of_it_read() {
    let mut program = Program::new(1 << 30);
    let pages = program.mapped.len();
    let few: Vec<usize> = shuffled(pages, 3).into_iter().take(500).collect();
    let waits = program.run(few.into_iter(), 1, device(64), AREAS);
    let bytes = program.streamed as u64 * PAGE_BYTES;
    assert!(waits > 400 && bytes < 100 * MIB, "{waits} waits, {bytes} bytes");
}

#[test]
fn what_is_read_in_sequence_is_left_to_the_kernel() {
    let mut program = Program::new(256 * MIB);
    let pages = program.mapped.len();
    program.run(0..pages, 1, device(64), AREAS);
    assert_eq!(program.position, 0);
}

#[test]
fn pages_that_were_mapped_before_the_first_look_are_no_touches() {
    let mut program = Program::new(256 * MIB);
    program.mapped.iter_mut().step_by(7).for_each(|mapped| *mapped = true);
    (0..10).for_each(|_| program.look(1_000, device(64), AREAS));
    assert_eq!(program.position, 0);
}

#[test]
fn areas_that_nothing_touches_are_not_read() {
    let mut program = Program::new(256 * MIB);
    let half = program.mapped.len() / 2;
    program.run(shuffled(half, 5).into_iter(), 32, device(128), AREAS);
    assert_eq!(program.streamed + program.faults as usize, half);
}

#[test]
fn no_more_is_read_than_memory_is_left_for() {
    let mut program = Program::new(256 * MIB);
    let pages = program.mapped.len();
    program.run(shuffled(pages, 9).into_iter(), 32, device(128), 10);
    assert_eq!(program.position, 10 * program.storm.area_bytes());
    assert!(program.storm.is_over(10));
}

proptest! {
    /// Whatever is seen, what nothing uses costs a sixteenth of the waiting, and an area is read once.
    #[test]
    fn what_is_read_for_nothing_costs_a_part_of_the_waiting(
        bytes in 1..u64::MAX / 2,
        areas_max in 0..2 * AREAS,
        looks in proptest::collection::vec((0..10_000u64, any::<u64>()), 1..60),
    ) {
        let (mut storm, prices) = (Storm::new(bytes), Prices::of(&InflightLimit::new(), SECOND));
        let (mut position, mut faults, mut touched) = (0, 0, [Seen::default(); AREAS]);
        for (more, bits) in looks {
            let mut chance = Chance(bits);
            let streamed = (position / storm.area_bytes()) as usize;
            for (area, seen) in touched.iter_mut().enumerate() {
                if !storm.order()[..streamed.min(storm.order().len())].contains(&(area as u8)) && chance.below(3) == 0 {
                    *seen = Seen { pages: chance.below(257) as u16, blocks: chance.bits() as u16 };
                }
            }
            let fresh = storm.see(&touched, position);
            prop_assert_eq!(fresh.hits, 0);
            let granted = storm.on_look(more, position, prices, areas_max);
            prop_assert!(granted >= position && granted <= storm.order().len() as u64 * storm.area_bytes());
            position = granted - chance.below(granted - position + 1) / PIECE_BYTES * PIECE_BYTES;
            faults += more;
            // A fault of an unknown device counts as 20 us, and a piece takes at least 64 us of a processor.
            let pieces = position / PIECE_BYTES;
            prop_assert!(pieces * 64 <= faults * 20 / WAITED_PART);
        }
        let mut order = storm.order().to_vec();
        order.sort_unstable();
        order.dedup();
        prop_assert_eq!(order.len(), storm.order().len());
        prop_assert!(order.len() <= areas_max);
    }

    #[test]
    fn no_numbers_panic(
        looks in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<[u16; 2]>(), any::<usize>()), 1..20),
        bytes: u64,
        request: u64,
    ) {
        let mut limit = InflightLimit::new();
        limit.on_stall(request);
        let (mut storm, prices) = (Storm::new(bytes), Prices::of(&limit, u64::MAX));
        for (faults, position, [pages, blocks], areas_max) in looks {
            let _ = storm.see(&[Seen { pages, blocks }; AREAS], position);
            let _ = storm.on_look(faults, position, prices, areas_max);
            let _ = (storm.used_bytes(), storm.pays(prices), storm.is_over(areas_max));
        }
    }
}
