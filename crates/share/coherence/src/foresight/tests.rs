use proptest::prelude::*;

use super::*;

const READ: Access = Access::Read;
const WRITE: Access = Access::Write;

/// A machine whose program does the same in each epoch, and the others, which take all away before each.
#[derive(Default)]
struct Machine {
    foresight: Foresight,
    requested: Vec<Fetch>,
    faults: usize,
}

impl Machine {
    /// An epoch in which threads use these, and what they wait for.
    fn epoch(&mut self, used: &[Fetch]) {
        for (minipage, access) in used {
            if !self.requested.iter().any(|(other, allowed)| other == minipage && allowed >= access) {
                self.faults += 1;
                self.foresight.fetched(*minipage, *access);
            }
        }
        self.pass();
    }

    fn pass(&mut self) {
        self.foresight.arrived();
        self.requested = self.foresight.passed(|_, _| true);
    }

    /// Faults of so many epochs of these in turn.
    fn faults(&mut self, epochs: usize, used: &[&[Fetch]]) -> usize {
        let before = self.faults;
        used.iter().cycle().take(epochs).for_each(|used| self.epoch(used));
        self.faults - before
    }
}

fn many(minipages: impl IntoIterator<Item = u32>, access: Access) -> Vec<Fetch> {
    minipages.into_iter().map(|minipage| (Minipage(minipage), access)).collect()
}

#[test]
fn what_recurs_is_fetched_by_threads_twice_and_then_now_and_then() {
    let mut machine = Machine::default();
    let (red, black) =
        ([(Minipage(1), READ), (Minipage(5), WRITE)], [(Minipage(2), READ), (Minipage(6), WRITE)]);
    assert_eq!(machine.faults(4, &[&red, &black]), 8);
    let faults = machine.faults(1_000, &[&red, &black]);
    assert!((30..120).contains(&faults), "one of 32: {faults}");
    let figures = machine.foresight.take_figures();
    assert_eq!((figures.unneeded, figures.sampled), (0, faults as u64));
}

#[test]
fn what_no_thread_needs_any_more_is_forgotten() {
    let mut machine = Machine::default();
    let (all, few) = (many(0..100, READ), many(0..95, READ));
    machine.faults(10, &[&all]);
    assert!(machine.requested.len() > 80);
    machine.faults(500, &[&few]);
    assert!(machine.requested.iter().all(|(minipage, _)| minipage.0 < 95), "{:?}", machine.requested);
    assert!(machine.requested.len() > 80);
}

#[test]
fn a_program_that_no_longer_does_what_it_did_is_left_alone_until_it_does() {
    let mut machine = Machine::default();
    let (one, other) = (many(0..200, READ), many(1_000..1_200, READ));
    machine.faults(10, &[&one]);
    machine.epoch(&other);
    machine.foresight.take_figures();
    let mut requested = 0;
    for epoch in 0..100 {
        let used = many((0..200).map(|index| (index * 7_919 + epoch * 104_729) % 100_000), READ);
        machine.epoch(&used);
        requested += machine.requested.len();
    }
    assert!(requested < 1_000, "{requested}");
    machine.faults(10, &[&one]);
    assert!(machine.requested.len() > 150, "{}", machine.requested.len());
}

#[test]
fn what_two_machines_want_in_an_epoch_is_not_fetched_for_writing() {
    let mut foresight = Foresight::default();
    let (shared, own) = (Minipage(1), Minipage(2));
    let mut requested = vec![];
    for _ in 0..40 {
        foresight.fetched(shared, READ);
        foresight.fetched(own, READ);
        foresight.fetched(own, WRITE);
        foresight.lost(shared);
        foresight.fetched(shared, WRITE);
        foresight.arrived();
        // Of the next epoch.
        foresight.lost(own);
        requested.extend(foresight.passed(|_, _| true));
    }
    assert!(requested.contains(&(own, WRITE)));
    assert!(!requested.contains(&(shared, WRITE)));
}

#[test]
fn what_is_there_is_not_requested_and_proves_nothing() {
    let mut machine = Machine::default();
    let all = many(0..50, READ);
    machine.faults(10, &[&all]);
    for (minipage, access) in all.iter().filter(|fetch| !machine.requested.contains(fetch)) {
        machine.foresight.fetched(*minipage, *access);
    }
    machine.foresight.arrived();
    assert_eq!(machine.foresight.passed(|_, _| false), vec![]);
    machine.foresight.take_figures();
    machine.pass();
    assert_eq!(machine.foresight.take_figures().unneeded, 0);
}

#[test]
fn an_epoch_with_more_than_there_is_room_for_tells_nothing_and_makes_room() {
    let mut machine = Machine::default();
    let all = many(0..5_000, READ);
    machine.faults(2, &[&all]);
    assert_eq!(machine.requested, vec![]);
    machine.faults(4, &[&all]);
    assert!(machine.requested.len() > 4_000);
}

#[test]
fn blind_foresight_foretells_nothing() {
    let mut machine = Machine { foresight: Foresight::blind(), ..Machine::default() };
    assert_eq!(machine.faults(20, &[&many(0..10, READ)]), 200);
}

#[test]
fn what_is_fetched_with_a_lock_is_foretold_with_it() {
    let mut foresight = Foresight::default();
    let mut faults = [0; 200];
    for count in &mut faults {
        for lock in 0..10 {
            let minipage = Minipage(lock * 7);
            let requested = foresight.locked(Lock(lock.into()), |_, _| true);
            if requested.is_empty() {
                *count += 1;
                foresight.fetched(minipage, READ);
                foresight.fetched(minipage, WRITE);
            } else {
                assert_eq!(requested, [(minipage, WRITE)]);
            }
            foresight.unlocked(Lock(lock.into()));
        }
        foresight.arrived();
        assert_eq!(foresight.passed(|_, _| true), [], "it is no part of the epoch");
    }
    assert_eq!(faults[..2], [10, 10]);
    assert!((20..120).contains(&faults[2..].iter().sum::<u32>()), "{faults:?}");
    assert_eq!(foresight.take_figures().unneeded, 0);
}

#[test]
fn a_section_that_a_barrier_or_another_lock_is_in_tells_nothing_of_what_is_around_it() {
    let mut foresight = Foresight::default();
    for _ in 0..20 {
        assert_eq!(foresight.locked(Lock(1), |_, _| true), []);
        foresight.fetched(Minipage(1), READ);
        foresight.arrived();
        foresight.passed(|_, _| true);
        foresight.fetched(Minipage(2), READ);
        foresight.unlocked(Lock(1));
        assert_eq!(foresight.locked(Lock(2), |_, _| true), []);
        foresight.locked(Lock(3), |_, _| true);
        foresight.fetched(Minipage(3), READ);
        foresight.unlocked(Lock(2));
        foresight.unlocked(Lock(3));
    }
    let foretold = (0..10).find(|_| !foresight.locked(Lock(3), |_, _| true).is_empty());
    assert_eq!(foretold.map(|_| foresight.locked(Lock(3), |_, _| true)), Some(many(3..4, READ)));
}

#[test]
fn what_hosts_have_freed_is_foretold_neither_after_a_barrier_nor_with_a_lock() {
    let mut machine = Machine::default();
    machine.faults(6, &[&many(0..40, WRITE)]);
    assert!(
        machine.requested.contains(&(Minipage(39), WRITE))
            || machine.requested.contains(&(Minipage(38), WRITE))
    );
    for _ in 0..2 {
        machine.foresight.locked(Lock(1), |_, _| true);
        many([5, 50], READ)
            .into_iter()
            .for_each(|(minipage, access)| machine.foresight.fetched(minipage, access));
        machine.foresight.unlocked(Lock(1));
    }
    machine.foresight.forget(&(0..20));
    let kept = |requested: &[Fetch]| requested.iter().all(|(minipage, _)| minipage.0 >= 20);
    let sections: Vec<_> = (0..100).flat_map(|_| machine.foresight.locked(Lock(1), |_, _| true)).collect();
    assert!(kept(&sections) && sections.contains(&(Minipage(50), READ)));
    for _ in 0..4 {
        machine.epoch(&many(20..40, WRITE));
        assert!(kept(&machine.requested) && machine.requested.len() > 10, "{:?}", machine.requested);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Whatever threads do, what was foretold and not needed stays a small part once it is trusted.
    #[test]
    fn little_of_what_is_requested_is_not_used(
        epochs in prop::collection::vec(prop::collection::btree_set(0..60u32, 0..40), 1..6),
        noise in prop::collection::vec(prop::collection::btree_set(0..60u32, 0..6), 150),
    ) {
        let mut machine = Machine::default();
        let (mut requested, mut unused) = (0, 0);
        for (epoch, noise) in epochs.iter().cycle().zip(&noise) {
            let used = many(epoch.symmetric_difference(noise).copied(), READ);
            requested += machine.requested.len();
            unused += machine.requested.iter().filter(|fetch| !used.contains(fetch)).count();
            machine.epoch(&used);
        }
        prop_assert!(unused <= 200 + requested / 3, "{unused} of {requested}");
    }
}
