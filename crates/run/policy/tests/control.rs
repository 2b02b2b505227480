//! The controller against simulated programs: speculation that helps, that is useless, that harms, and changes of mind.

use forebay_policy::control::{Change, Controller, HALF_LIFE_US, Sample};
use forebay_protocol::reasons::Reason;

const STEP_US: u64 = 100_000;
/// The same while a check goes on.
const STEP_CHECK_US: u64 = 40_000;
const STALL_US: u64 = 100;

/// A program that needs `demand` pages for each millisecond of processor time, of which speculation spares `covered`
/// parts of 100, at the price of `more` per cent of demand and `unused` hints for 100 used.
#[derive(Clone, Copy)]
struct Program {
    demand: u64,
    covered: u64,
    more: u64,
    unused: u64,
    forks_us: u64,
}

const USELESS: Program = Program { demand: 5, covered: 0, more: 0, unused: 0, forks_us: 1_500 };
const EFFECTIVE: Program = Program { demand: 20, covered: 90, more: 5, unused: 5, forks_us: 500 };
/// Gains too little for checks to be put off.
const EFFECTIVE_BUT_SHORT: Program = Program { demand: 20, covered: 60, more: 0, unused: 0, forks_us: 0 };
const HARMFUL: Program = Program { demand: 20, covered: 10, more: 60, unused: 0, forks_us: 200 };
const WASTEFUL: Program = Program { demand: 20, covered: 5, more: 0, unused: 4_000, forks_us: 100 };

struct Simulation {
    controller: Controller,
    time_us: u64,
    /// Time with the controller's choices, and without any speculation, for the same work.
    taken_us: u64,
    alone_us: u64,
    changes: Vec<(u64, Change)>,
}

impl Simulation {
    fn new() -> Self {
        let mut simulation =
            Self { controller: Controller::default(), time_us: 0, taken_us: 0, alone_us: 0, changes: vec![] };
        // Before the first speculator the program runs alone for a moment.
        simulation.step(&Program { covered: 0, ..EFFECTIVE }, false);
        simulation.taken_us = 0;
        simulation.alone_us = 0;
        simulation
    }

    fn step(&mut self, program: &Program, allowed: bool) {
        let step_us = if self.controller.is_checking() { STEP_CHECK_US } else { STEP_US };
        let speculating = allowed && self.controller.is_on();
        // In a step of 100 ms: processor time c, stalls for the rest.
        let per_ms = |demand_percent: u64, covered: u64| {
            program.demand * demand_percent * (100 - covered) / 10_000 * STALL_US + 1_000
        };
        let (more, covered) = if speculating { (100 + program.more, program.covered) } else { (100, 0) };
        let forks_us = if speculating { program.forks_us } else { 0 };
        let cpu_us = (step_us - forks_us) * 1_000 / per_ms(more, covered);
        let demand = program.demand * cpu_us * more / 100_000;
        let used = demand * covered / 100;
        let sample = Sample {
            elapsed_us: step_us,
            cpu_us,
            stalls: demand - used,
            used,
            unused: if speculating { used * program.unused / 100 } else { 0 },
            stall_us: STALL_US,
            forks_us,
            speculating,
            memory_is_short: true,
        };
        self.time_us += step_us;
        self.taken_us += step_us;
        self.alone_us += cpu_us * per_ms(100, 0) / 1_000;
        if let Some(change) = self.controller.on_sample(&sample) {
            self.changes.push((self.time_us, change));
        }
    }

    fn run(&mut self, program: &Program, seconds: u64) {
        let end = self.time_us + seconds * 1_000_000;
        while self.time_us < end {
            self.step(program, true);
        }
    }

    fn slowdown(&self) -> f64 {
        self.taken_us as f64 / self.alone_us as f64 - 1.0
    }

    fn offs(&self) -> Vec<(u64, Reason)> {
        let off = |change: &(u64, Change)| match change.1 {
            Change::Off(reason) => Some((change.0, reason)),
            _ => None,
        };
        self.changes.iter().filter_map(off).collect()
    }

    fn crossings(&self) -> u64 {
        self.controller.crossings()
    }
}

#[test]
fn effective_speculation_is_left_alone() {
    let mut simulation = Simulation::new();
    simulation.run(&EFFECTIVE, 600);
    assert_eq!(simulation.crossings(), 0);
    assert!(simulation.slowdown() < -0.4, "{}", simulation.slowdown());
}

#[test]
fn speculation_that_takes_memory_goes_off_for_that_reason() {
    let mut simulation = Simulation::new();
    simulation.run(&HARMFUL, 60);
    assert_eq!(simulation.offs()[0].1, Reason::MemoryTaken);
    assert!(simulation.offs()[0].0 < 3_000_000, "{:?}", simulation.changes);
}

#[test]
fn harm_costs_less_than_two_per_cent_of_a_minute() {
    for program in [HARMFUL, USELESS, WASTEFUL] {
        let mut simulation = Simulation::new();
        simulation.run(&program, 60);
        assert!(simulation.crossings() > 0);
        assert!(simulation.slowdown() < 0.02, "{}", simulation.slowdown());
    }
}

#[test]
fn useless_forks_and_wasted_hints_have_their_own_reasons() {
    let reason_of = |program| {
        let mut simulation = Simulation::new();
        simulation.run(&program, 60);
        simulation.offs()[0].1
    };
    assert_eq!(reason_of(USELESS), Reason::Forks);
    assert_eq!(reason_of(WASTEFUL), Reason::HintsUnused);
}

#[test]
fn harm_that_comes_back_is_tried_ever_more_seldom() {
    let mut simulation = Simulation::new();
    simulation.run(&HARMFUL, 3_600);
    let offs: Vec<u64> = simulation.offs().into_iter().map(|off| off.0).collect();
    assert!(offs[1] - offs[0] > 2 * HALF_LIFE_US);
    assert!(offs[3] - offs[2] > offs[1] - offs[0]);
    assert!(offs.len() < 40, "{}", offs.len());
    assert!(simulation.slowdown() < 0.005, "{}", simulation.slowdown());
}

#[test]
fn a_good_phase_after_a_bad_one_is_found() {
    let mut simulation = Simulation::new();
    simulation.run(&HARMFUL, 20);
    assert!(!simulation.controller.is_on());
    simulation.run(&EFFECTIVE, 120);
    assert!(simulation.controller.is_on());
    let before = simulation.crossings();
    simulation.run(&EFFECTIVE, 600);
    assert_eq!(simulation.crossings(), before);
}

#[test]
fn a_good_hour_does_not_pay_for_a_bad_minute() {
    let mut simulation = Simulation::new();
    simulation.run(&EFFECTIVE, 3_600);
    let end = simulation.time_us;
    simulation.run(&HARMFUL, 60);
    assert!(simulation.offs()[0].0 < end + 20_000_000, "{:?}", simulation.changes);
}

#[test]
fn memory_that_shrinks_under_it_turns_speculation_off() {
    let mut simulation = Simulation::new();
    for taken in 0..30 {
        let program = Program { more: taken * 5, covered: 90 - taken * 3, ..EFFECTIVE };
        simulation.run(&program, 5);
    }
    assert_eq!(simulation.offs()[0].1, Reason::MemoryTaken);
}

#[test]
fn programs_that_change_faster_than_the_controller_lose_little() {
    let mut simulation = Simulation::new();
    for _ in 0..200 {
        simulation.run(&EFFECTIVE, 2);
        simulation.run(&HARMFUL, 2);
    }
    assert!(simulation.slowdown() < 0.02, "{}", simulation.slowdown());
}

#[test]
fn without_a_baseline_stalls_are_no_cost() {
    let mut controller = Controller::default();
    let sample = Sample {
        elapsed_us: STEP_US,
        cpu_us: 10_000,
        stalls: 1_000_000,
        stall_us: STALL_US,
        speculating: true,
        ..Sample::default()
    };
    for _ in 0..4 {
        assert_eq!(controller.on_sample(&sample), None);
    }
    assert_eq!(controller.net_overhead_us(), 0);
}

#[test]
fn a_phase_that_needs_more_of_the_device_is_no_harm() {
    let mut simulation = Simulation::new();
    simulation.run(&Program { demand: 1, covered: 0, more: 0, unused: 0, forks_us: 0 }, 10);
    simulation.run(&Program { demand: 500, ..EFFECTIVE }, 30);
    assert_eq!(simulation.offs(), []);
    assert!(simulation.slowdown() < -0.7, "{}", simulation.slowdown());
}

/// Speculators drive out what they then bring back: the hints look useful, and the program is slower.
#[test]
fn harm_behind_useful_looking_hints_shows_in_a_check() {
    let mut simulation = Simulation::new();
    let program = Program { demand: 2, covered: 60, more: 250, unused: 0, forks_us: 0 };
    simulation.run(&program, 60);
    assert!(simulation.changes.iter().any(|change| change.1 == Change::Pause), "{:?}", simulation.changes);
    assert_eq!(simulation.offs()[0].1, Reason::MemoryTaken);
    assert!(simulation.slowdown() < 0.02, "{}", simulation.slowdown());
}

#[test]
fn control_keeps_most_of_a_gain() {
    for seconds in [1, 3, 10, 60, 600] {
        for covered in [50, 70, 90, 99] {
            let program = Program { demand: 50, covered, more: 0, unused: 5, forks_us: 500 };
            let mut simulation = Simulation::new();
            simulation.run(&program, seconds);
            let per_ms = |covered: u64| (50 * (100 - covered) * STALL_US / 100 + 1_000) as f64;
            let possible = per_ms(0) / per_ms(covered) * 0.995;
            let reached = 1.0 / (1.0 + simulation.slowdown());
            assert!(reached > 0.93 * possible, "{seconds} s at {covered} %: {reached:.2} of {possible:.2}");
        }
    }
}

/// A large process: its fork takes as long as what it gives for a while.
#[test]
fn a_dear_fork_that_pays_is_left_alone() {
    for forks_us in [30_000, 90_000] {
        let mut simulation = Simulation::new();
        simulation.step(&Program { forks_us, ..EFFECTIVE }, true);
        simulation.run(&Program { forks_us: 0, ..EFFECTIVE }, 60);
        assert_eq!(simulation.crossings(), 0, "{:?}", simulation.changes);
    }
}

/// What was hinted in vain is told when a speculation is over, all at once.
#[test]
fn what_a_speculation_gained_pays_for_what_it_hinted_in_vain() {
    let mut simulation = Simulation::new();
    simulation.run(&Program { unused: 0, ..EFFECTIVE }, 10);
    let told = Sample {
        elapsed_us: STEP_US,
        unused: 20_000,
        stall_us: STALL_US,
        speculating: true,
        memory_is_short: true,
        ..Sample::default()
    };
    assert_eq!(simulation.controller.on_sample(&told), None);
    let off = Some(Change::Off(Reason::HintsUnused));
    assert_eq!(simulation.controller.on_sample(&told), off, "it pays for them once");
}

/// Stalls come by chance: what they do in one check is no reason to turn off what has no effect, nor what helps a little.
#[test]
fn chance_turns_little_off() {
    let (mut chance, mut crossings) = (1u64, 0);
    for _ in 0..50 {
        let mut controller = Controller::default();
        for _ in 0..150 {
            let step_us = if controller.is_checking() { STEP_CHECK_US } else { STEP_US };
            // Waiting takes nine tenths of the time, give or take a seventh.
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let stalls = step_us * (900 + (chance >> 33) % 260 - 130) / 1_000 / 1_000;
            let speculating = controller.is_on();
            let sample = Sample {
                elapsed_us: step_us,
                cpu_us: step_us / 10,
                stalls: if speculating { stalls * 19 / 20 } else { stalls },
                used: if speculating { stalls / 20 } else { 0 },
                stall_us: 1_000,
                speculating,
                ..Sample::default()
            };
            let _ = controller.on_sample(&sample);
        }
        crossings += controller.crossings();
    }
    assert!(crossings <= 10, "{crossings} in 50 runs of 15 s");
}

#[test]
fn no_sample_breaks_the_arithmetic() {
    let extreme = [0, 1, 1_000, u64::MAX / 2, u64::MAX];
    let mut controller = Controller::default();
    for (index, &a) in extreme.iter().enumerate() {
        for &b in &extreme {
            let sample = Sample {
                elapsed_us: a,
                cpu_us: b,
                stalls: a,
                used: b,
                unused: a,
                stall_us: b,
                forks_us: a,
                speculating: index % 2 == 0,
                memory_is_short: index < 3,
            };
            let _ = controller.on_sample(&sample);
        }
    }
}

/// While a check goes on the program first comes to what was hinted before, and waits for nothing.
#[test]
fn hints_left_over_are_not_taken_for_the_program_alone() {
    let mut controller = Controller::default();
    let with = Sample {
        elapsed_us: STEP_US,
        cpu_us: 50_000,
        stalls: 400,
        used: 1_000,
        stall_us: STALL_US,
        speculating: true,
        ..Sample::default()
    };
    let with = Sample { memory_is_short: true, ..with };
    let left = Sample { stalls: 0, used: 800, speculating: false, elapsed_us: STEP_CHECK_US, ..with };
    let alone = Sample { stalls: 1_400, used: 0, speculating: false, elapsed_us: STEP_CHECK_US, ..with };
    let mut changes = vec![];
    while !controller.is_checking() {
        changes.extend(controller.on_sample(&with));
    }
    for sample in [left, left, left, alone, alone] {
        changes.extend(controller.on_sample(&sample));
    }
    assert_eq!(changes, [Change::Pause, Change::Resume]);
}

/// A check may fall into a moment at which the program needs nothing of the device.
#[test]
fn a_calm_moment_in_a_check_turns_nothing_off() {
    let mut simulation = Simulation::new();
    let calm = Program { demand: 0, covered: 0, more: 0, unused: 0, forks_us: 0 };
    let mut checks = 0;
    for _ in 0..600 {
        let is_first = checks % 2 == 0 && simulation.controller.is_checking();
        simulation.step(if is_first { &calm } else { &EFFECTIVE_BUT_SHORT }, true);
        checks =
            simulation.changes.iter().filter(|change| change.1 == Change::Pause).count().saturating_sub(1);
    }
    assert!(checks > 1, "{:?}", simulation.changes);
    assert_eq!(simulation.offs(), []);
}

/// A program that only reads, on a slow device: most of its processor time is that of its stalls.
#[test]
fn a_program_that_does_little_but_wait_is_not_taken_to_do_more_where_it_waits() {
    let mut controller = Controller::default();
    let with = Sample {
        elapsed_us: STEP_US,
        cpu_us: 500,
        stalls: 7,
        used: 26,
        stall_us: 14_000,
        speculating: true,
        ..Sample::default()
    };
    // 60 us of processor time for a read that stalls, 15 for one that hardly does.
    let alone = Sample { cpu_us: 200, stalls: 3, used: 0, stall_us: 12_300, speculating: false, ..with };
    for step in 0..600 {
        let sample = if controller.is_checking() { alone } else { with };
        controller.on_sample(&sample);
        assert_eq!(controller.crossings(), 0, "after {step} samples");
    }
}

/// A few long waits after a gain are looked into: it was not the forks.
#[test]
fn long_waits_beside_a_few_cheap_forks_are_checked_before_anything_goes_off() {
    let mut controller = Controller::default();
    let alone = Sample {
        elapsed_us: STEP_US,
        cpu_us: 6_000,
        stalls: 180,
        stall_us: 500,
        memory_is_short: true,
        ..Sample::default()
    };
    let gain = Sample { cpu_us: 17_000, stalls: 80, used: 160, forks_us: 1_500, speculating: true, ..alone };
    let waits = Sample { cpu_us: 1_000, stalls: 6, used: 0, stall_us: 15_000, ..gain };
    assert_eq!(controller.on_sample(&alone), None);
    for _ in 0..8 {
        assert_eq!(controller.on_sample(&gain), None);
    }
    let change = (0..3).find_map(|_| controller.on_sample(&waits));
    assert_eq!(change, Some(Change::Pause));
}
