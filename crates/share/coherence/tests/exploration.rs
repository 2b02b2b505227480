//! Explores every order of messages and thread steps of a few hosts, and of machines with several threads each.

mod support;

use std::collections::HashSet;

use forebay_coherence::Access;
use support::{
    Op::{
        self, Add, AddBoth, Barrier, Break, BrokenBarrier, Foretell, Forget, Free, FreeAgain, FreeTogether,
        Leave, Lock, LockForAWhile, Prefetch, Push, Read, ReadAdded, Renew, TakeAgain, TryLock, Unlock,
        Write, WriteAdded,
    },
    World,
};

/// Goes through all worlds that can come of this one. How many there are.
fn explore(programs: &[&[Op]]) -> usize {
    explore_from(World::new(programs, 2))
}

/// The same for machines with several threads each.
fn explore_machines(machines: &[&[&[Op]]]) -> usize {
    explore_from(World::of_machines(machines, 2))
}

fn explore_from(world: World) -> usize {
    explored(world).len()
}

fn explored(world: World) -> HashSet<World> {
    let mut known = HashSet::new();
    let mut open = vec![world];
    while let Some(world) = open.pop() {
        let steps = world.steps();
        assert!(!steps.is_empty() || world.is_finished(), "nothing can happen any more: {world:#?}");
        for step in steps {
            let mut next = world.clone();
            next.take(step);
            if !known.contains(&next) {
                known.insert(next.clone());
                open.push(next);
            }
        }
    }
    known
}

#[test]
fn one_access_of_each_of_three_hosts() {
    let all = [Read(0), Read(1), Write(0), Write(1), Push(0), Push(1), Prefetch(0), Prefetch(1)];
    for a in all {
        for b in all {
            for c in all {
                explore(&[&[a], &[b], &[c]]);
            }
        }
    }
}

#[test]
fn one_host_of_three_foretells_that_it_writes() {
    let foretell = Foretell(0, Access::Write);
    let all = [Read(0), Write(0), Push(0), foretell];
    for a in all {
        for b in all {
            explore(&[&[foretell], &[a], &[b]]);
            explore(&[&[a], &[foretell], &[b]]);
        }
    }
}

#[test]
fn two_hosts_that_write_and_read_each_others() {
    explore(&[&[Write(0), Read(1), Write(0)], &[Write(1), Read(0), Write(1)]]);
    explore(&[&[Write(0), Write(0), Read(1)], &[Read(0), Write(0), Read(0)]]);
    explore(&[&[Write(0), Push(0), Write(0)], &[Read(0), Read(0), Write(0)]]);
}

#[test]
fn three_hosts_with_two_accesses_each() {
    explore(&[&[Write(0), Read(1)], &[Write(1), Read(0)], &[Read(0), Read(1)]]);
    explore(&[&[Write(0), Write(1)], &[Write(1), Write(0)], &[Write(0), Write(1)]]);
    let worlds = explore(&[&[Read(0), Write(0)], &[Read(0), Write(0)], &[Read(0), Write(0)]]);
    assert!(worlds > 1_000, "no more than {worlds} ways to take turns");
    explore(&[&[Write(0), Push(0)], &[Write(0), Push(0)], &[Prefetch(0), Read(0)]]);
    explore(&[&[Prefetch(1), Write(1)], &[Push(1), Write(1)], &[Write(1), Read(1)]]);
}

#[test]
fn locks_and_barriers_of_three_hosts() {
    let critical = [Lock(1), Write(0), Unlock(1)];
    explore(&[&critical, &critical, &[Lock(1), Unlock(1)]]);
    explore(&[&[Write(0), Barrier(0), Read(1)], &[Write(1), Barrier(0), Read(0)], &[Barrier(0)]]);
    explore(&[&[Lock(2), Unlock(2), Lock(2), Unlock(2)], &[Lock(2), Unlock(2)], &[Lock(2), Unlock(2)]]);
}

#[test]
fn a_host_that_does_not_wait_gets_a_free_lock_or_none() {
    let (tries, waits) = ([TryLock(1), Unlock(1)], [Lock(1), Unlock(1)]);
    explore(&[&tries, &tries, &tries]);
    explore(&[&tries, &waits, &[TryLock(1), Unlock(1), Lock(1), Unlock(1)]]);
    // The host's own release may be under way yet.
    explore(&[&[Lock(1), Unlock(1), TryLock(1), Unlock(1)], &waits]);
    explore_machines(&[&[&tries, &waits], &[&tries, &waits]]);
    explore(&[&[Lock(1), Leave], &[TryLock(1), Unlock(1), Leave]]);
}

#[test]
fn a_lock_that_a_thread_ceases_to_wait_for_is_had_by_others() {
    let (ceases, waits) = ([LockForAWhile(1), Unlock(1)], [Lock(1), Unlock(1)]);
    explore(&[&ceases, &ceases, &waits]);
    explore(&[&[LockForAWhile(1), Unlock(1), Lock(1), Unlock(1)], &waits]);
    explore(&[&[LockForAWhile(1), Unlock(1), TryLock(1), Unlock(1)], &waits]);
    explore_machines(&[&[&ceases, &waits], &[&ceases, &waits]]);
    explore(&[&[Lock(1), Leave], &[LockForAWhile(1), Unlock(1), Leave]]);
}

#[test]
fn hosts_leave_together_whatever_the_others_wait_for() {
    explore(&[&[Write(0), Leave], &[Write(0), Leave], &[Read(0), Leave]]);
    explore(&[&[Barrier(0), Leave], &[Barrier(0), Leave], &[Barrier(0), Leave]]);
    explore(&[&[Barrier(0), Leave], &[Barrier(0), BrokenBarrier(0), Leave], &[Barrier(0), Leave]]);
    explore(&[&[Leave], &[BrokenBarrier(1), Leave], &[BrokenBarrier(1), BrokenBarrier(2), Leave]]);
    // A lock that no host releases.
    explore(&[&[Lock(1), Leave], &[Lock(1), Leave]]);
}

#[test]
fn machines_learn_that_a_process_of_another_one_has_left_and_are_served_until_all_have() {
    explore_machines(&[&[&[Barrier(0), Break, Write(0), Leave]], &[&[Barrier(0), BrokenBarrier(0), Leave]]]);
    explore_machines(&[
        &[&[Break, Leave]],
        &[&[BrokenBarrier(0), Write(0), BrokenBarrier(1), Leave]],
        &[&[BrokenBarrier(1), Read(1), Leave]],
    ]);
    explore_machines(&[&[&[Break, Lock(1), Unlock(1), Leave]], &[&[Break, Lock(1), Leave]]]);
}

#[test]
fn threads_of_a_machine_share_its_copy_and_its_requests() {
    for other in [Read(0), Write(0), Read(1), Write(1), Push(0), Prefetch(1)] {
        explore_machines(&[&[&[Write(0), Read(1)], &[Read(0), Write(1)]], &[&[other], &[Write(0)]]]);
    }
    let two_each: &[&[Op]] = &[&[Read(0), Write(0)], &[Write(0), Read(0)]];
    explore_machines(&[two_each, &[&[Write(0)], &[Read(0)]]]);
    explore_machines(&[&[&[Write(1)], &[Read(1)]], &[&[Write(1)], &[Write(1)]], &[&[Read(1)]]]);
}

#[test]
fn threads_of_machines_have_a_lock_one_at_a_time() {
    let critical: &[Op] = &[Lock(1), Write(0), Unlock(1)];
    explore_machines(&[&[critical, critical], &[critical]]);
    let short: &[Op] = &[Lock(0), Unlock(0)];
    explore_machines(&[&[short, short], &[short, short]]);
}

#[test]
fn a_minipage_that_one_host_adds_alone_is_used_by_all() {
    for other in [ReadAdded(2), WriteAdded(2)] {
        explore(&[&[Add(2), Write(2), Read(2)], &[other, WriteAdded(2)], &[ReadAdded(2)]]);
        explore(&[&[Add(2), Write(2), Write(0)], &[Write(0), other], &[Read(0)]]);
        explore_machines(&[&[&[Add(2), Write(2)], &[other]], &[&[other], &[WriteAdded(2)]]]);
    }
    // Two hosts add some, whatever the others do meanwhile.
    explore(&[&[Add(2), Write(2), ReadAdded(3)], &[Add(3), Write(3), ReadAdded(2)], &[Write(0)]]);
    explore(&[&[Add(2), Write(2), Leave], &[Leave], &[BrokenBarrier(0), Leave]]);
}

#[test]
fn any_host_frees_a_minipage_once() {
    explore(&[&[Add(2), Write(2)], &[WriteAdded(2), Free(2), FreeAgain(2)]]);
    explore(&[&[Add(2), FreeAgain(2)], &[Free(2)], &[ReadAdded(2), FreeAgain(2)]]);
    explore_machines(&[&[&[Add(2), FreeAgain(2)], &[Add(3)]], &[&[Free(2)], &[Free(3), FreeAgain(3)]]]);
}

/// A machine foretells by what it did before, and so at any time: before the minipage is known, while it is freed and used again.
#[test]
fn a_minipage_that_is_foretold_may_be_free_or_used_again() {
    for access in [Access::Read, Access::Write] {
        let foretell = Foretell(2, access);
        explore(&[
            &[Add(2), Write(2), Free(2), TakeAgain(2), Write(2)],
            &[foretell, foretell, WriteAdded(2)],
        ]);
        explore(&[
            &[Add(2), FreeAgain(2), TakeAgain(2), Write(2)],
            &[foretell, Free(2), foretell, ReadAdded(2)],
        ]);
        explore(&[
            &[Add(2), FreeAgain(2), foretell],
            &[WriteAdded(2), Free(2), foretell],
            &[foretell, foretell],
        ]);
        explore(&[&[Add(2), TakeAgain(2), Write(2)], &[Free(2), ReadAdded(2)], &[foretell, foretell]]);
        explore(&[&[Add(2), Free(2), foretell, Leave], &[foretell, foretell, Leave]]);
        explore_machines(&[
            &[&[Add(2), TakeAgain(2), Write(2)], &[foretell]],
            &[&[Free(2), ReadAdded(2)], &[foretell, foretell]],
        ]);
    }
}

/// What one host asks for and what goes along: while another host asks for that, has it, gives it up, or frees it.
#[test]
fn neighbours_in_company_are_used_by_all() {
    for other in [ReadAdded(2), WriteAdded(3)] {
        explore(&[&[AddBoth(2), Write(2)], &[other, WriteAdded(3)]]);
        explore(&[&[AddBoth(2)], &[other], &[WriteAdded(2)]]);
        explore(&[&[AddBoth(2), Foretell(3, Access::Write)], &[other, Foretell(2, Access::Write)]]);
    }
    explore_machines(&[&[&[AddBoth(2), Write(2)], &[ReadAdded(3)]], &[&[WriteAdded(3)]]]);
    explore(&[&[AddBoth(2), Push(2)], &[WriteAdded(3), ReadAdded(2)]]);
    explore(&[&[AddBoth(2), Write(2), Leave], &[WriteAdded(3), Leave]]);
    let both: &[&[Op]] = &[&[AddBoth(2), Write(2), Write(3)], &[WriteAdded(3), WriteAdded(2)]];
    let worlds = explored(World::new(both, 2));
    assert!(worlds.len() > 300, "no more than {} ways to take turns", worlds.len());
    assert!(worlds.iter().any(World::has_company), "no neighbour goes along");
}

#[test]
fn a_minipage_in_company_may_be_free_or_used_again() {
    explore(&[&[AddBoth(2), TakeAgain(2), Write(2), Write(3)], &[WriteAdded(3), Free(2), ReadAdded(3)]]);
    explore(&[
        &[AddBoth(2), TakeAgain(3), Write(3)],
        &[WriteAdded(2), WriteAdded(3), Free(3)],
        &[ReadAdded(2)],
    ]);
}

/// What a host does that frees a minipage together with the others, after what it did `before`, and has another one of that number.
fn renewing(before: &[Op], minipage: u32, home: u16, after: &[Op]) -> Vec<Op> {
    let foretell = Foretell(minipage, Access::Write);
    let freed =
        [Barrier(0), FreeTogether(minipage), foretell, Barrier(1), foretell, Forget(minipage), foretell];
    [before, &freed, &[Barrier(0), Renew(minipage, home), Barrier(1)], after].concat()
}

/// What no thread waits for is under way while hosts free a minipage.
#[test]
fn no_message_is_left_of_a_minipage_that_all_hosts_have_freed() {
    let all = [Write(0), Push(0), Prefetch(0), Foretell(0, Access::Read), Foretell(0, Access::Write)];
    for one in all {
        for other in all {
            for (minipage, home) in [(0, 0), (0, 1)] {
                let one = renewing(&[one], minipage, home, &[Write(minipage)]);
                let other = renewing(&[other], minipage, home, &[Read(minipage)]);
                explore(&[&one, &other]);
            }
        }
    }
    // Of which all have copies at first.
    let other = renewing(&[Write(1)], 1, 1, &[Write(1)]);
    for one in [&[Push(1)][..], &[Foretell(1, Access::Write), Push(1)], &[Push(1), Push(1)]] {
        explore(&[&renewing(one, 1, 0, &[Read(1)]), &renewing(one, 1, 0, &[Write(1)])]);
        explore(&[&renewing(one, 1, 1, &[Push(1)]), &other]);
    }
}

#[test]
fn three_hosts_free_a_minipage_and_have_another_one() {
    for (home, ops) in
        [(1, [Push(0), Push(0), Write(0)]), (2, [Write(0), Foretell(0, Access::Read), Push(0)])]
    {
        let program = |host: usize| {
            let freed =
                [Barrier(0), FreeTogether(0), Barrier(1), Forget(0), Barrier(0), Renew(0, home), Barrier(1)];
            [&[ops[host]][..], &freed, &[Write(0)]].concat()
        };
        explore(&[&program(0), &program(1), &program(2)]);
    }
}

/// Hosts forget a minipage, and one of them adds its number alone, with a neighbour.
#[test]
fn the_number_of_a_forgotten_minipage_may_be_in_company() {
    for (one, other) in [(Push(2), Write(2)), (Foretell(2, Access::Write), Push(2)), (Write(2), Read(2))] {
        let freed = [Barrier(0), FreeTogether(2), Barrier(1), Forget(2), Barrier(0)];
        let adds = [AddBoth(2), Write(3), Write(2), TakeAgain(3)];
        let one = [&[Renew(2, 1), Barrier(1), one][..], &freed, &adds].concat();
        let other =
            [&[Renew(2, 1), Barrier(1), other][..], &freed, &[WriteAdded(2), ReadAdded(3), Free(3)]].concat();
        let worlds = explored(World::new(&[&one, &other], 2));
        assert!(worlds.iter().any(World::has_company), "no neighbour goes along");
    }
}
