//! The account of speculations, on simulated programs: what a program may lose, and how soon it gains.

#[path = "support/program.rs"]
mod program;
mod support;

use forebay_policy::price::{BANKED_STAKES, PAGE_PRICE_FIRST, PAGES_STALLS, WAITED_PART};
use program::{MS, Phase, Program, READS, SECOND, US, program};
use proptest::prelude::*;

/// Where memory is short, before a trial.
const SHORT: u64 = PAGE_PRICE_FIRST.unsigned_abs();

#[test]
fn useful_speculation_goes_on() {
    for (stall, ratio) in [(70 * US, 0.4), (MS, 0.06), (12 * MS, 0.02)] {
        let program = program(75 * US, true, &[Phase { stall, right: 500, ..READS }]);
        assert!(program.ratio() < ratio, "{}", program.ratio());
        assert_eq!(program.crossings, 0);
    }
}

#[test]
fn one_right_hint_a_speculation_is_worth_a_hidden_fork() {
    let program = program(75 * US, true, &[Phase { right: 1, reads: 5_000, ..READS }]);
    assert!(program.ratio() < 0.75, "{}", program.ratio());
}

#[test]
fn useless_speculation_costs_little_and_ever_less() {
    for fork in [75 * US, 400 * US, 16 * MS] {
        for hidden in [true, false] {
            for stall in [70 * US, MS, 12 * MS] {
                let first = program(fork, hidden, &[Phase { stall, reads: 400, ..READS }]);
                let long = program(fork, hidden, &[Phase { stall, reads: 40_000, ..READS }]);
                assert!(
                    first.ratio() < 1.0 + 1.0 / WAITED_PART as f64,
                    "{fork} {hidden} {stall}: {}",
                    first.ratio()
                );
                assert!(long.ratio() < 1.03, "{fork} {hidden} {stall}: {}", long.ratio());
            }
        }
    }
}

#[test]
fn a_program_that_waits_long_enough_is_tried_again() {
    let mut tried = Program::new(75 * US, false);
    tried.process(&[Phase { reads: 200_000, ..READS }]);
    let forks = tried.forks;
    tried.process(&[Phase { reads: 20_000, ..READS }]);
    assert!(tried.forks > forks, "20 s of waiting are worth another fork");
}

#[test]
fn a_useful_phase_is_found_after_a_useless_one() {
    for start in [Phase { reads: 50, stall: 50 * US, ..READS }, Phase { reads: 1_000, ..READS }] {
        let mut useless = program(75 * US, true, &[start]);
        let stalls = useless.stalls;
        useless.process(&[Phase { reads: 3_000, right: 500, ..READS }]);
        // It waits at most about as long again as it has waited so far.
        let most = 60 + start.reads * start.stall / MS;
        assert!(useless.stalls - stalls < most, "{} stalls of {most}", useless.stalls - stalls);
    }
}

/// The start of a program is on a fast disk, its data on one that takes twenty times as long.
#[test]
fn stalls_of_a_slower_device_are_no_delay() {
    let start = Phase { reads: 100, stall: 50 * US, right: 2, ..READS };
    let data = Phase { reads: 3_000, right: 500, ..READS };
    let program = program(75 * US, true, &[start, data]);
    assert!(program.ratio() < 0.12, "{}", program.ratio());
}

#[test]
fn hints_that_delay_more_than_they_save_become_rare() {
    let phase = |delay| Phase { reads: 4_000, right: 2, delay, ..READS };
    let (undisturbed, delayed) =
        (program(75 * US, true, &[phase(0)]), program(75 * US, true, &[phase(8 * MS)]));
    assert!(undisturbed.forks > 500, "{}", undisturbed.forks);
    assert!(delayed.forks < 20 && delayed.ratio() < 1.1, "{} {}", delayed.forks, delayed.ratio());
}

#[test]
fn a_hundred_short_processes_lose_together_what_one_may_lose() {
    let phase = [Phase { reads: 30, ..READS }];
    let mut short = Program::new(100 * US, false);
    (0..100).for_each(|_| short.process(&phase));
    assert!(short.forks <= 20, "{}", short.forks);
    assert!(short.ratio() < 1.005, "{}", short.ratio());
}

#[test]
fn after_a_good_phase_a_bad_one_costs_few_forks() {
    let mut changing = Program::new(75 * US, false);
    for _ in 0..5 {
        changing.process(&[Phase { reads: 4_000, right: 200, ..READS }]);
        let forks = changing.forks;
        changing.process(&[Phase { reads: 400, ..READS }]);
        assert!(changing.forks - forks <= BANKED_STAKES + 6, "{}", changing.forks - forks);
    }
}

#[test]
fn a_huge_process_forks_only_for_what_pays_it() {
    // 16 ms and copies against stalls of 70 us: 500 right hints are needed to earn twice the cost.
    let phase = |right| Phase { reads: 60_000, stall: 70 * US, right, copied: 256, ..READS };
    let loss = program(16 * MS, false, &[phase(50)]);
    assert!(loss.ratio() < 1.03 && loss.forks <= 5, "{} {}", loss.ratio(), loss.forks);
    let gain = program(16 * MS, false, &[phase(5_000)]);
    assert!(gain.ratio() < 0.6, "{}", gain.ratio());
}

#[test]
fn where_memory_is_short_a_fork_must_be_worth_what_it_displaces() {
    let waited_before_the_first = |displaced: u64, stall: u64| {
        let mut program = Program::new(600 * US, false);
        program.size.displaced = displaced;
        while program.forks == 0 {
            program.process(&[Phase { reads: 5, stall, ..READS }]);
        }
        program.now - SECOND
    };
    for stall in [70 * US, MS] {
        let (ample, short) = (waited_before_the_first(0, stall), waited_before_the_first(SHORT, stall));
        // Where stalls are short, copies cost more than a useless speculation may anyway.
        assert!(short >= ample && (stall < MS || short > 2 * ample), "{ample} {short}");
        let useless = WAITED_PART * PAGES_STALLS * stall;
        assert!(
            short <= ample + useless * 5 / 4,
            "no more than one may take that saves nothing: {ample} {short}"
        );
    }
}

#[test]
fn a_speculation_that_computes_beside_the_program_must_be_worth_that() {
    let phase = |ran| Phase { reads: 4_000, copied: 0, ran, ..READS };
    let (idle, busy) = (program(75 * US, true, &[phase(0)]), program(75 * US, true, &[phase(20 * MS)]));
    assert!(busy.forks < idle.forks && busy.ratio() < 1.02, "{} {} {}", busy.forks, idle.forks, busy.ratio());
    let useful = program(75 * US, true, &[Phase { right: 500, ..phase(20 * MS) }]);
    assert!(useful.ratio() < 0.1, "{}", useful.ratio());
}

#[test]
fn a_speculation_that_gained_for_long_does_not_put_the_next_one_off() {
    let (short, long) = [MS, 80 * MS]
        .map(|ran| Phase { reads: 4_000, right: 200, ran, ..READS })
        .map(|phase| {
            let mut useful = program(75 * US, true, &[phase]);
            let forks = useful.forks;
            useful.process(&[Phase { right: 0, reads: 400, ..phase }]);
            (forks, useful.forks - forks)
        })
        .into();
    assert_eq!(short.0, long.0);
    assert!(long.1 <= BANKED_STAKES + 6, "{}", long.1);
}

fn phase() -> impl Strategy<Value = Phase> {
    let stall = prop_oneof![10 * US..200 * US, 200 * US..15 * MS];
    let right = prop_oneof![3 => Just(0u64), 1 => 0..5u64, 1 => 0..500u64];
    (1..2_000u64, 0..2 * MS, stall, right, 0..3 * MS, 0..600u64, 0..20 * MS).prop_map(
        |(reads, compute, stall, right, delay, copied, ran)| Phase {
            reads,
            compute,
            stall,
            right,
            delay,
            copied,
            ran,
        },
    )
}

proptest! {
    /// Whatever the devices, phases, number and length of its processes: a program loses a small part of its waiting.
    #[test]
    fn no_program_loses_more_than_a_part_of_its_waiting(
        phases in prop::collection::vec(phase(), 1..6),
        processes in 1..12u64,
        fork in prop_oneof![50 * US..500 * US, MS..20 * MS],
        hidden in any::<bool>(),
    ) {
        let mut program = Program::new(fork, hidden);
        (0..processes).for_each(|_| program.process(&phases));
        let waited: u64 = phases.iter().map(|phase| phase.reads * phase.stall).sum::<u64>() * processes;
        let lost = program.now.saturating_sub(program.alone);
        // One speculation may take more than its stake: its fork, its copies, its processor time, and a few delayed stalls.
        let taken = |phase: &Phase| 4 * phase.delay + phase.copied * 1_250 + phase.took().ran.cost();
        let overrun = phases.iter().map(taken).max().unwrap_or(0) + fork;
        // The stalls of the simulation scatter by a quarter.
        let bound = waited / WAITED_PART * 5 / 4 + MS / 4 + (BANKED_STAKES + 2) * overrun;
        prop_assert!(lost <= bound, "{lost} of {waited}, bound {bound}");
    }
}
