//! Runs long programs of many hosts under a random scheduler.

mod support;

use forebay_coherence::Access;
use proptest::prelude::*;
use support::{Op, World};

fn op(minipages: u32) -> impl Strategy<Value = Vec<Op>> {
    let minipage = 0..minipages;
    let (added, both) = (minipages..minipages + 2, minipages + 2..minipages + 4);
    prop_oneof![
        2 => both.clone().prop_map(|minipage| vec![Op::ReadAdded(minipage)]),
        2 => both.prop_map(|minipage| vec![Op::WriteAdded(minipage)]),
        1 => added.clone().prop_map(|minipage| vec![Op::ReadAdded(minipage)]),
        1 => added.prop_map(|minipage| vec![Op::WriteAdded(minipage)]),
        4 => minipage.clone().prop_map(|minipage| vec![Op::Read(minipage)]),
        4 => minipage.clone().prop_map(|minipage| vec![Op::Write(minipage)]),
        1 => minipage.clone().prop_map(|minipage| vec![Op::Push(minipage)]),
        1 => minipage.clone().prop_map(|minipage| vec![Op::Prefetch(minipage)]),
        // Among them those that are not known yet, are free, or never are.
        1 => (0..minipages + 5, prop_oneof![Just(Access::Read), Just(Access::Write)])
            .prop_map(|(minipage, access)| vec![Op::Foretell(minipage, access)]),
        1 => (0..3u32, minipage).prop_map(|(lock, minipage)| {
            vec![Op::Lock(lock), Op::Read(minipage), Op::Write(minipage), Op::Unlock(lock)]
        }),
        1 => (0..3u32).prop_map(|lock| vec![Op::TryLock(lock), Op::Unlock(lock)]),
        1 => (0..3u32).prop_map(|lock| vec![Op::LockForAWhile(lock), Op::Unlock(lock)]),
    ]
}

/// Programs in which the first two hosts add a minipage each, and one of them two neighbours; one frees the first one's, and that tries to once more and uses it again. They have the same number of
/// barriers on each host, but that the first host leaves where the others come to one more. Between barriers hosts free together.
fn programs() -> impl Strategy<Value = (Vec<Vec<Op>>, u32)> {
    (2..7usize, 1..5u32, 0..4usize).prop_flat_map(|(hosts, minipages, barriers)| {
        let phase = prop::collection::vec(op(minipages), 0..12);
        let program = prop::collection::vec(phase, barriers + 1).prop_map(move |phases| {
            let mut program = vec![];
            for (index, phase) in phases.into_iter().enumerate() {
                if index > 0 {
                    program.push(Op::Barrier(index as u32 % 2));
                }
                // All hosts free a minipage, and have another one instead.
                if index > 1 {
                    let (minipage, home) = (index as u32 % minipages, (index % hosts) as u16);
                    let (free, forget) = (Op::FreeTogether(minipage), Op::Forget(minipage));
                    program.extend([free, Op::Barrier(0), forget, Op::Barrier(1), Op::Renew(minipage, home)]);
                    program.push(Op::Barrier(0));
                }
                program.extend(phase.into_iter().flatten());
            }
            program
        });
        let programs = prop::collection::vec(program, hosts).prop_map(move |mut programs: Vec<Vec<Op>>| {
            programs[0].insert(0, Op::Add(minipages));
            programs[1].insert(0, Op::Add(minipages + 1));
            programs[1].insert(0, Op::AddBoth(minipages + 2));
            programs[1].push(Op::Free(minipages));
            programs.iter_mut().skip(1).for_each(|program| program.push(Op::BrokenBarrier(2)));
            let again = [Op::FreeAgain(minipages), Op::TakeAgain(minipages), Op::WriteAdded(minipages)];
            programs[0].extend([&[Op::Break][..], &again].concat());
            programs.iter_mut().for_each(|program| program.push(Op::Leave));
            programs
        });
        (programs, Just(minipages))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn all_programs_end_and_see_what_was_last_written(
        (programs, minipages) in programs(),
        choices in prop::collection::vec(any::<u32>(), 64),
        salt in any::<u32>(),
    ) {
        let programs: Vec<&[Op]> = programs.iter().map(Vec::as_slice).collect();
        let mut world = World::new(&programs, minipages);
        let mut taken = 0u32;
        loop {
            let steps = world.steps();
            if steps.is_empty() {
                break;
            }
            let choice = choices[taken as usize % choices.len()].wrapping_mul(taken | 1).rotate_left(taken) ^ salt;
            world.take(steps[choice as usize % steps.len()]);
            taken += 1;
            prop_assert!(taken < 1_000_000, "no end");
        }
        prop_assert!(world.is_finished());
    }
}
