//! Neighbours of the files that simulated programs open.

use forebay_policy::neighbours::{Neighbours, Place};
use forebay_policy::price::{NEIGHBOUR_US, NEIGHBOUR_WAIT_US, WAITED_PART};
use proptest::prelude::*;
use std::collections::HashSet;

/// Ticks in a microsecond.
const US: u64 = 2_000;

/// A program that opens files of folders, on a device that serves `depth` requests at once in `wait` ticks each.
struct Run {
    policy: Neighbours,
    depth: u32,
    wait: u64,
    /// What a read takes of a processor.
    processor: u64,
    folders: Vec<(Place, HashSet<u32>)>,
    waited: u64,
    read: u64,
    used: u64,
}

impl Run {
    fn new(folders: usize, depth: u32, wait_us: u64) -> Self {
        Self {
            policy: Neighbours::new(US * 1_000_000),
            depth,
            wait: wait_us * US,
            processor: NEIGHBOUR_US * US,
            folders: vec![(Place::default(), HashSet::new()); folders],
            waited: 0,
            read: 0,
            used: 0,
        }
    }

    /// The program opens this file of this folder. Of its neighbours the next ones are `likely` needed.
    fn open(&mut self, folder: usize, file: u32, likely: &[u32]) {
        let (worth, ahead) = &mut self.folders[folder];
        if ahead.contains(&file) {
            self.used += 1;
            self.policy.on_used(worth, self.wait, self.depth);
        } else {
            worth.on_missed();
            self.waited += self.wait;
            self.policy.on_waits(1, self.wait, self.depth);
        }
        let room = self.policy.room(worth, self.depth) as usize;
        let next: Vec<u32> = likely.iter().filter(|next| !ahead.contains(next)).take(room).copied().collect();
        for next in next {
            if !self.policy.may_pay(1, self.depth) {
                return;
            }
            let paid = self.policy.pay(self.depth);
            self.policy.on_done(paid, self.processor, true);
            worth.on_taken();
            ahead.insert(next);
            self.read += 1;
        }
    }

    fn spent(&self) -> u64 {
        self.read * self.cost()
    }

    fn cost(&self) -> u64 {
        self.processor + self.wait / u64::from(self.depth)
    }
}

#[test]
fn a_folder_whose_files_are_all_needed_is_read_ahead() {
    for (depth, least) in [(128, 80), (32, 80), (4, 60)] {
        let mut run = Run::new(1, depth, 1_000);
        for file in 0..100 {
            let rest: Vec<u32> = (file + 1..100).collect();
            run.open(0, file, &rest);
        }
        assert!(run.used >= least, "{depth}: {}", run.used);
    }
}

#[test]
fn folders_of_which_one_file_in_four_is_needed_are_worth_it_where_the_device_has_a_queue() {
    let read = |depth| {
        let mut run = Run::new(20, depth, 1_000);
        let mut random = 1_u64;
        let mut is_needed = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.is_multiple_of(4)
        };
        for folder in 0..20 {
            for file in (0..100).filter(|_| is_needed()) {
                run.open(folder, file, &(file + 1..100).collect::<Vec<_>>());
            }
        }
        (run.used, run.read)
    };
    let (used, all) = read(64);
    assert!(used > 200 && all < 6 * used, "{used} of {all}");
    let (used, all) = read(4);
    assert!(all < 200, "{used} of {all}");
}

#[test]
fn nothing_is_read_ahead_where_the_device_serves_one_at_a_time_or_is_fast() {
    for (depth, wait_us) in [(1, 1_000), (1, 12_000), (64, NEIGHBOUR_US)] {
        let mut run = Run::new(1, depth, wait_us);
        for file in 0..1_000 {
            run.open(0, file, &(file + 1..file + 20).collect::<Vec<_>>());
        }
        assert_eq!(run.read, 0, "{depth}, {wait_us}");
    }
}

#[test]
fn a_file_whose_blocks_are_needed_in_no_order_is_read_ahead() {
    let mut run = Run::new(1, 32, 1_000);
    let mut random = 1_u64;
    for _ in 0..1_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let block = (random % 200) as u32;
        run.open(0, block, &(0..200).map(|distance| (block + distance) % 200).collect::<Vec<_>>());
    }
    assert!(run.used > 700, "{}", run.used);
}

#[test]
fn one_folder_that_tells_nothing_hides_no_other_that_does() {
    let mut run = Run::new(2, 32, 1_000);
    for file in 0..40 {
        run.open(0, file, &(1_000 + 20 * file..1_020 + 20 * file).collect::<Vec<_>>());
    }
    for file in 0..100 {
        run.open(1, file, &(file + 1..100).collect::<Vec<_>>());
    }
    assert!(run.used >= 70, "{}", run.used);
}

proptest! {
    #[test]
    fn what_is_never_needed_costs_a_sixteenth_of_the_waiting_at_most(
        depth in 1..256_u32,
        wait_us in NEIGHBOUR_WAIT_US..20_000,
        processor_us in 1..500_u64,
        opens in prop::collection::vec(0..40_usize, 1..800),
    ) {
        let mut run = Run::new(40, depth, wait_us);
        run.processor = processor_us * US;
        let mut next = 0;
        for folder in opens {
            run.open(folder, next, &(1_000_000 + next..1_000_100 + next).collect::<Vec<_>>());
            next += 100;
            // What a read takes is known after the first one.
            prop_assert!(run.spent() <= run.waited / WAITED_PART + NEIGHBOUR_US * US + run.cost());
        }
    }

    #[test]
    fn savings_pay_for_all_that_is_read(
        depth in 1..256_u32,
        wait_us in NEIGHBOUR_WAIT_US..20_000,
        needed in prop::collection::vec((0..10_usize, any::<bool>()), 1..2_000),
    ) {
        let mut run = Run::new(10, depth, wait_us);
        for (at, (folder, _)) in needed.iter().enumerate().filter(|(_, (_, is_needed))| *is_needed) {
            let later: Vec<u32> =
                (at + 1..needed.len()).filter(|later| needed[*later].0 == *folder).map(|later| later as u32).collect();
            run.open(*folder, at as u32, &later);
        }
        let paid = run.waited / WAITED_PART + run.used * run.wait / 4 * 3 + NEIGHBOUR_US * US;
        prop_assert!(run.spent() <= paid, "{} > {paid}", run.spent());
    }
}

/// Hints or the program are first everywhere.
#[test]
fn what_is_in_memory_costs_the_processor_alone_and_tells_nothing_of_its_place() {
    const WAIT: u64 = 1_000 * US;
    const WAITS: u64 = 1_000;
    const IDLE: u64 = 15 * US;
    let (mut policy, mut place, mut reads) = (Neighbours::new(US * 1_000_000), Place::default(), 0);
    for _ in 0..WAITS {
        policy.on_waits(1, WAIT, 32);
        for _ in 0..policy.room(&mut place, 32) {
            if !policy.may_pay(1, 32) {
                break;
            }
            let paid = policy.pay(32);
            place.on_taken();
            policy.on_done(paid, IDLE, false);
            place.on_idle();
            reads += 1;
        }
    }
    let (spent, most) = (reads * IDLE, WAITS * WAIT / WAITED_PART + NEIGHBOUR_US * US);
    assert!(spent <= most && reads >= WAITS, "{spent} of {most}, {reads}");
    assert!(policy.room(&mut place, 32) > 0, "the place is not given up");
}

#[test]
fn waiting_pays_for_four_at_once() {
    let mut policy = Neighbours::new(US * 1_000_000);
    for _ in 0..1_000 {
        policy.on_waits(1, 1_000 * US, 32);
    }
    assert!(policy.may_pay(4, 32));
    assert!(!policy.may_pay(5, 32));
}
