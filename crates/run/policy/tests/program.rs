//! The records of programs.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use forebay_policy::price::TIMES_APART;
use forebay_policy::program::{PROGRAM_PROBES, ProgramRecord, on_gain, program, program_index};
use forebay_protocol::layout::{Account, PROGRAMS, Program};
use proptest::prelude::*;

/// Which of the next `starts` starts get an agent, when none gains.
fn starts(word: &mut u64, starts: u64) -> Vec<u64> {
    (0..starts)
        .filter(|_| {
            let (next, inject) = ProgramRecord::decide(*word);
            *word = next;
            inject
        })
        .collect()
}

#[test]
fn a_program_that_gains_nothing_soon_starts_without_an_agent() {
    let mut word = 0;
    assert_eq!(starts(&mut word, 40), [0, 1, 3, 7, 15, 31]);
    let _ = starts(&mut word, 1_000);
    assert_eq!(starts(&mut word, 320).len() as u64, 320 / TIMES_APART);
}

#[test]
fn a_program_that_gains_gets_an_agent_at_its_next_start() {
    let table = programs();
    let entry = program(&table, 7).unwrap();
    for _ in 0..100 {
        let mut word = entry.record.load(Relaxed);
        assert_eq!(starts(&mut word, 2), [0, 1]);
        let _ = starts(&mut word, 1_000);
        entry.record.store(word, Relaxed);
        on_gain(&table, 7);
    }
}

#[test]
fn a_gain_is_that_of_the_programs_that_led_to_it_too() {
    let table = programs();
    let apart = |key| {
        let mut word = program(&table, key).unwrap().record.load(Relaxed);
        starts(&mut word, 2).len() < 2
    };
    for key in 1..=4 {
        let entry = program(&table, key).unwrap();
        let mut word = 0;
        let _ = starts(&mut word, 1_000);
        entry.record.store(word, Relaxed);
        // 3 executes 2, which executes 1; 4 executes 3, and the other way round.
        entry.launcher.store(if key == 4 { 3 } else { key + 1 }, Relaxed);
    }
    on_gain(&table, 2);
    assert_eq!([1, 2, 3, 4].map(apart), [true, false, false, false]);
    on_gain(&table, 0);
    on_gain(&table, u64::MAX);
}

fn programs() -> Box<[Program; PROGRAMS]> {
    Box::new(
        [const {
            Program {
                key: AtomicU64::new(0),
                record: AtomicU64::new(0),
                launcher: AtomicU64::new(0),
                account: Account {
                    balance: AtomicI64::new(0),
                    failures: AtomicU32::new(0),
                    costs: [const { AtomicU64::new(0) }; 2],
                },
            }
        }; PROGRAMS],
    )
}

#[test]
fn a_program_keeps_its_entry_until_its_places_are_taken() {
    let table = programs();
    let mut entries = HashSet::new();
    for key in 0..PROGRAM_PROBES as u64 {
        let key = 7 + key * PROGRAMS as u64;
        let entry = program(&table, key).unwrap();
        assert!(std::ptr::eq(entry, program(&table, key).unwrap()));
        assert!(entries.insert(std::ptr::from_ref(entry)));
    }
    assert!(program(&table, 7 + PROGRAM_PROBES as u64 * PROGRAMS as u64).is_none());
    assert!(program(&table, 7).is_some());
}

proptest! {
    #[test]
    fn any_record_gives_an_agent_at_least_every_so_many_starts(mut word in any::<u64>()) {
        prop_assert!(starts(&mut word, TIMES_APART + 1).len() as u64 >= 1);
        let _ = starts(&mut word, 1_000);
        prop_assert!(starts(&mut word, 320).len() as u64 == 320 / TIMES_APART);
    }

    #[test]
    fn probing_is_bounded_and_within_the_table(key in any::<u64>(), fill in any::<u64>()) {
        let probes: Vec<_> = program_index(key).collect();
        prop_assert_eq!(probes.len(), PROGRAM_PROBES);
        prop_assert!(probes.iter().all(|&index| index < PROGRAMS));
        let table = Box::new([fill; PROGRAMS].map(|key| Program { key: key.into(), record: fill.into(), launcher: fill.into(), account: Account::default() }));
        prop_assert_eq!(program(&table, key).is_some(), fill == 0 || fill == key.max(1));
    }
}
