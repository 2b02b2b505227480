//! Explores every order of the atomic operations by which hosts of one machine take a lock, pass a barrier and leave. A host
//! here does the operations of the board, one at a step. No sleep ends by itself, so a wake-up that is lost is a deadlock.

mod boards;

use std::collections::HashSet;

use boards::{Barrier, Leave, Lock, Machine, Op, Unlock};

/// Goes through all machines that can come of these programs, and ends where all hosts have done all: what each learned at the
/// barriers.
fn explore(programs: &[&[Op]]) -> HashSet<Vec<Vec<bool>>> {
    let mut known = HashSet::new();
    let mut open = vec![Machine::new(programs, false)];
    let mut ends = HashSet::new();
    while let Some(machine) = open.pop() {
        let hosts = (0..programs.len()).filter(|host| machine.can_go_on(*host));
        let next: Vec<_> = hosts.flat_map(|host| machine.step(host)).collect();
        assert!(!next.is_empty() || machine.is_finished(), "all hosts sleep for ever: {machine:?}");
        if machine.is_finished() {
            ends.insert(machine.learned.clone());
        }
        for next in next {
            Machine::check(std::slice::from_ref(&next));
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    ends
}

#[test]
fn a_lock_is_had_by_one_host_at_a_time_and_by_all_in_the_end() {
    explore(&[&[Lock, Unlock, Lock, Unlock], &[Lock, Unlock, Lock, Unlock]]);
    explore(&[&[Lock, Unlock], &[Lock, Unlock], &[Lock, Unlock]]);
    explore(&[&[Lock, Unlock, Lock, Unlock], &[Lock, Unlock], &[Lock, Unlock]]);
}

#[test]
fn a_lock_of_a_host_that_leaves_is_free() {
    explore(&[&[Lock, Leave], &[Lock, Leave]]);
    explore(&[&[Lock, Leave], &[Lock, Unlock, Leave], &[Lock, Leave]]);
}

#[test]
fn a_barrier_is_passed_when_all_hosts_have_come() {
    let ends = explore(&[&[Barrier(1), Barrier(1), Leave], &[Barrier(1), Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![true, true]; 2]]));
    let ends = explore(&[&[Barrier(1), Leave], &[Barrier(1), Leave], &[Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![true]; 3]]));
}

#[test]
fn hosts_that_call_different_things_all_learn_it() {
    let ends = explore(&[&[Barrier(1), Barrier(3), Leave], &[Barrier(2), Barrier(3), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![false, true]; 2]]));
}

#[test]
fn a_host_that_leaves_is_not_waited_for() {
    let ends = explore(&[&[Leave], &[Barrier(1), Barrier(1), Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![], vec![false; 3]]]));
    let ends = explore(&[&[Barrier(1), Leave], &[Barrier(1), Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![true], vec![true, false]]]));
    let ends = explore(&[&[Leave], &[Barrier(1), Leave], &[Barrier(1), Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![], vec![false], vec![false; 2]]]));
}
