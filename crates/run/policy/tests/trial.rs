//! Trials and the account together, on simulated programs: what harm may cost that shows in nothing but the waiting.

mod support;

use forebay_policy::account::Account;
use forebay_policy::fork::{ForkPolicy, Place, Size, Took};
use forebay_policy::price::{FAULT_US, FIRST_NS, PAGE_PRICE_FIRST, PRICE_ONE};
use forebay_policy::trial::{Change, Sample, Trial, Verdict};
use forebay_protocol::layout;
use proptest::prelude::*;
use support::Chance;

/// Ticks of the simulations: nanoseconds.
const SECOND: u64 = 1_000_000_000;
const US: u64 = 1_000;
const STEP_US: u64 = 100_000;
/// The same in a pause.
const STEP_PAUSE_US: u64 = 40_000;
const FORK_US: u64 = 200;

/// A program that needs `demand` pages for each millisecond of processor time. Speculation spares it `covered` parts of 100, at the
/// price of `more` per cent of demand.
#[derive(Clone, Copy, Debug)]
struct Program {
    demand: u64,
    covered: u64,
    more: u64,
    stall_us: u64,
    /// Steps that a speculation lives.
    life: u64,
}

const EFFECTIVE: Program = Program { demand: 20, covered: 90, more: 5, stall_us: 100, life: 10 };
const HARMFUL: Program = Program { demand: 20, covered: 10, more: 60, stall_us: 100, life: 10 };
/// Speculators drive out what they then bring back: the hints look useful.
const HARMFUL_AND_CLEVER: Program = Program { demand: 2, covered: 60, more: 250, stall_us: 100, life: 1_000 };
const CALM: Program = Program { demand: 0, covered: 0, more: 0, stall_us: 100, life: 1 };

impl Program {
    /// Microseconds for a millisecond of processor time.
    fn us_per_ms(&self, speculating: bool) -> u64 {
        let (more, covered) = if speculating { (self.more, self.covered) } else { (0, 0) };
        1_000 + self.demand * (100 + more) * (100 - covered) * self.stall_us / 10_000
    }
}

struct Simulation {
    trial: Trial,
    words: layout::Account,
    policy: ForkPolicy,
    /// What the live speculation claims to have saved, and its steps.
    live: Option<(u64, u64)>,
    time_us: u64,
    /// The time that the same work takes alone.
    alone_us: u64,
    speculating_us: u64,
    verdicts: Vec<Verdict>,
}

impl Simulation {
    fn new() -> Self {
        let mut policy = ForkPolicy::new(SECOND);
        policy.expect(Size {
            pages: 1_000,
            fork: FORK_US * US,
            copy: 0,
            displaced: PAGE_PRICE_FIRST.unsigned_abs(),
        });
        Self {
            trial: Trial::default(),
            words: layout::Account::default(),
            policy,
            live: None,
            time_us: 0,
            alone_us: 0,
            speculating_us: 0,
            verdicts: vec![],
        }
    }

    fn step(&mut self, program: &Program) {
        let account = Account::new(&self.words, FIRST_NS).believing(self.trial.believed());
        let is_pausing = self.trial.is_pausing();
        if self.live.is_none() && !is_pausing && self.policy.is_armed(&account) {
            self.policy.on_spawn(&account, FORK_US * US, Place::Call);
            self.time_us += FORK_US;
            self.live = Some((0, 0));
        }
        let speculating = self.live.is_some() && !is_pausing;
        let step_us = if is_pausing { STEP_PAUSE_US } else { STEP_US };
        let cpu_us = step_us * 1_000 / program.us_per_ms(speculating);
        let more = if speculating { program.more } else { 0 };
        let demand = program.demand * (100 + more) * cpu_us / 100_000;
        let used = if speculating { demand * program.covered / 100 } else { 0 };
        let stalls = demand - used;
        self.time_us += step_us;
        self.alone_us += cpu_us * program.us_per_ms(false) / 1_000;
        self.speculating_us += if speculating { step_us } else { 0 };
        if stalls > 0 {
            self.policy.on_faults(&account, stalls, program.stall_us * US, 0);
        }
        if let Some((claimed, steps)) = &mut self.live
            && speculating
        {
            *claimed += used * program.stall_us * US;
            *steps += 1;
            // One whose hints are never used is off track.
            if used == 0 || *steps >= program.life || self.policy.is_harmful(&account, *claimed) {
                self.policy.on_end(
                    &account,
                    *claimed,
                    Took { copied: 10, taken: 10, ..Took::default() },
                    false,
                );
                self.live = None;
            }
        }
        let sample = Sample {
            elapsed_us: step_us,
            cpu_us: cpu_us + stalls * FAULT_US,
            stalls,
            waited_us: stalls * program.stall_us,
            used,
            stall_us: program.stall_us,
            delayed_us: 0,
            displaced: 0,
            speculating,
            memory_is_short: true,
        };
        if let Some(Change::Resume(verdict)) = self.trial.on_sample(&sample) {
            self.verdicts.push(verdict);
        }
    }

    fn run(&mut self, program: &Program, seconds: u64) {
        let end = self.time_us + seconds * 1_000_000;
        while self.time_us < end {
            self.step(program);
        }
    }

    fn has_found_harm(&self) -> bool {
        self.verdicts.iter().filter(|verdict| **verdict == Verdict::Less).count() > 1
    }

    /// By which part the program took longer than alone.
    fn slowdown(&self) -> f64 {
        self.time_us as f64 / self.alone_us as f64 - 1.0
    }
}

fn simulated(program: &Program, seconds: u64) -> Simulation {
    let mut simulation = Simulation::new();
    simulation.run(program, seconds);
    simulation
}

#[test]
fn a_gain_is_believed_and_trials_cost_little_of_it() {
    for seconds in [1, 3, 10, 60, 600] {
        for covered in [50, 70, 90, 99] {
            let program = Program { demand: 50, covered, more: 0, stall_us: 100, life: 10 };
            let mut simulation = Simulation::new();
            while simulation.live.is_none() {
                simulation.step(&program);
            }
            (simulation.time_us, simulation.alone_us) = (0, 0);
            simulation.run(&program, seconds);
            assert_eq!(simulation.trial.believed(), PRICE_ONE);
            let possible = program.us_per_ms(false) as f64 / program.us_per_ms(true) as f64;
            let reached = 1.0 / (1.0 + simulation.slowdown());
            assert!(reached > 0.9 * possible, "{seconds} s at {covered} %: {reached:.2} of {possible:.2}");
        }
    }
}

#[test]
fn a_gain_on_a_slow_device_is_kept() {
    for stall_us in [1_000, 12_000] {
        let program = Program { demand: 10, covered: 90, more: 0, stall_us, life: 10 };
        let simulation = simulated(&program, 60);
        assert_eq!(simulation.trial.believed(), PRICE_ONE, "{:?}", simulation.verdicts);
        let possible = program.us_per_ms(false) as f64 / program.us_per_ms(true) as f64;
        let reached = 1.0 / (1.0 + simulation.slowdown());
        assert!(reached > 0.8 * possible, "{stall_us} us: {reached:.2} of {possible:.2}");
    }
}

#[test]
fn harm_costs_less_than_two_per_cent_of_a_minute() {
    for program in [HARMFUL, HARMFUL_AND_CLEVER] {
        let simulation = simulated(&program, 60);
        assert!(simulation.slowdown() < 0.02, "{program:?}: {}", simulation.slowdown());
        assert!(simulation.has_found_harm(), "{:?}", simulation.verdicts);
    }
}

#[test]
fn harm_costs_ever_less() {
    let (minute, hour) = (simulated(&HARMFUL, 60), simulated(&HARMFUL, 3_600));
    assert!(hour.slowdown() < minute.slowdown() / 4.0, "{} {}", minute.slowdown(), hour.slowdown());
}

#[test]
fn a_good_phase_is_believed_again_when_the_program_has_waited_about_as_long_again() {
    for bad in [10, 20, 60] {
        let mut simulation = simulated(&HARMFUL, bad);
        simulation.run(&EFFECTIVE, 3 * bad + 30);
        assert!(simulation.trial.believed() > PRICE_ONE / 2, "{bad} s: {:?}", simulation.verdicts);
        let before = simulation.speculating_us;
        simulation.run(&EFFECTIVE, 100);
        assert!(simulation.speculating_us - before > 80_000_000, "{bad} s");
    }
}

#[test]
fn a_good_hour_does_not_pay_for_a_bad_minute() {
    let mut simulation = simulated(&EFFECTIVE, 3_600);
    let (time, alone) = (simulation.time_us, simulation.alone_us);
    simulation.run(&HARMFUL, 60);
    let lost = (simulation.time_us - time) as f64 / (simulation.alone_us - alone) as f64 - 1.0;
    assert!(lost < 0.15, "{lost}: {:?}", simulation.verdicts);
    assert!(simulation.has_found_harm(), "{:?}", simulation.verdicts);
}

#[test]
fn programs_that_change_faster_than_trials_see_lose_little() {
    let mut simulation = Simulation::new();
    for _ in 0..200 {
        simulation.run(&EFFECTIVE, 2);
        simulation.run(&HARMFUL, 2);
    }
    assert!(simulation.slowdown() < 0.02, "{}", simulation.slowdown());
}

#[test]
fn where_nothing_is_claimed_nothing_pauses() {
    let program = Program { covered: 0, ..HARMFUL };
    let simulation = simulated(&program, 60);
    assert_eq!(simulation.verdicts, []);
}

/// A trial may fall into a moment at which the program needs nothing of the device.
#[test]
fn a_calm_moment_in_a_trial_changes_nothing() {
    let mut simulation = Simulation::new();
    let program = Program { covered: 50, more: 0, ..EFFECTIVE };
    for _ in 0..3_000 {
        let is_every_other = simulation.verdicts.len().is_multiple_of(2);
        let is_calm = simulation.trial.is_pausing() && is_every_other;
        simulation.step(if is_calm { &CALM } else { &program });
        assert_eq!(simulation.trial.believed(), PRICE_ONE, "{:?}", simulation.verdicts);
    }
    assert!(simulation.verdicts.len() > 2, "{:?}", simulation.verdicts);
}

/// Stalls come by chance: what they do in some trials is no reason to disbelieve what helps a little.
#[test]
fn chance_changes_little() {
    let (mut chance, mut disbelieved) = (Chance(1), 0);
    for _ in 0..100 {
        let mut trial = Trial::default();
        for _ in 0..300 {
            let is_pausing = trial.is_pausing();
            let elapsed_us = if is_pausing { STEP_PAUSE_US } else { STEP_US };
            // Waiting takes nine tenths of the time, give or take a seventh.
            let demand = elapsed_us * (900 + chance.below(260) - 130) / 1_000 / 1_000;
            let used = if is_pausing { 0 } else { demand / 3 };
            let sample = Sample {
                elapsed_us,
                cpu_us: elapsed_us / 10 + (demand - used) * FAULT_US,
                stalls: demand - used,
                waited_us: (demand - used) * 1_000 * (80 + chance.below(41)) / 100,
                used,
                stall_us: 1_000,
                speculating: !is_pausing,
                memory_is_short: true,
                ..Sample::default()
            };
            let _ = trial.on_sample(&sample);
        }
        disbelieved += u32::from(trial.believed() < PRICE_ONE / 2);
    }
    assert!(disbelieved <= 2, "{disbelieved} of 100 runs of 30 s");
}

/// In a pause the program first reaches what was hinted before, and waits for nothing.
#[test]
fn hints_left_over_are_not_taken_for_the_program_alone() {
    let mut trial = Trial::default();
    let with = Sample {
        elapsed_us: STEP_US,
        cpu_us: 58_000,
        stalls: 400,
        waited_us: 40_000,
        used: 1_000,
        stall_us: 100,
        speculating: true,
        memory_is_short: true,
        ..Sample::default()
    };
    let left = Sample {
        stalls: 0,
        waited_us: 0,
        used: 800,
        speculating: false,
        elapsed_us: STEP_PAUSE_US,
        cpu_us: 20_000,
        ..with
    };
    let alone = Sample { stalls: 560, waited_us: 56_000, used: 0, cpu_us: 31_200, ..left };
    let mut changes = vec![];
    while !trial.is_pausing() {
        changes.extend(trial.on_sample(&with));
    }
    for sample in [left, left, left, alone, alone, alone] {
        changes.extend(trial.on_sample(&sample));
    }
    assert_eq!(changes, [Change::Pause, Change::Resume(Verdict::Confirmed)]);
    assert_eq!(trial.believed(), PRICE_ONE);
}

/// A program that displaces a hundred pages in each step, each of which costs it so many parts of a hundred of a stall.
fn page_price(cost: u64, memory_is_short: bool) -> f64 {
    let mut trial = Trial::default();
    for _ in 0..600 {
        let is_pausing = trial.is_pausing();
        let elapsed_us = if is_pausing { STEP_PAUSE_US } else { STEP_US };
        let demand = elapsed_us / 200;
        let (used, missed) = if is_pausing { (0, 0) } else { (demand / 2, cost) };
        let stalls = demand - used + missed;
        let sample = Sample {
            elapsed_us,
            cpu_us: elapsed_us / 2 + stalls * FAULT_US,
            stalls,
            waited_us: stalls * 100,
            used,
            stall_us: 100,
            displaced: if is_pausing { 0 } else { 100 },
            speculating: !is_pausing,
            memory_is_short,
            ..Sample::default()
        };
        let change = trial.on_sample(&sample);
        assert!(memory_is_short || change.is_none());
    }
    trial.page_price() as f64 / PRICE_ONE as f64
}

#[test]
fn the_price_of_a_displaced_page_is_learned_where_memory_is_short() {
    let first = PAGE_PRICE_FIRST as f64 / PRICE_ONE as f64;
    assert!((0.3..0.9).contains(&page_price(90, true)), "{}", page_price(90, true));
    assert_eq!(page_price(12, true), first, "what it is taken to be");
    assert_eq!(page_price(90, false), first, "elsewhere there are no trials");
}

/// A program that has one speculation in ten steps. That displaces a thousand pages, and hints a tenth of what the program waits for.
/// Each displaced page costs a stall in the steps after it.
#[test]
fn harm_that_shows_after_speculations_is_found() {
    let mut trial = Trial::default();
    let (mut owed, mut displaced_for_nothing) = (0, 0);
    for step in 0..300 {
        let speculating = step % 10 == 0 && !trial.is_pausing();
        let elapsed_us = if trial.is_pausing() { STEP_PAUSE_US } else { STEP_US };
        let demand = elapsed_us / 1_000;
        let used = if speculating { demand / 10 } else { 0 };
        let again = if speculating { 0 } else { owed.min(elapsed_us / 500) };
        owed -= again;
        let stalls = demand - used + again;
        let sample = Sample {
            elapsed_us,
            cpu_us: demand * 500 + stalls * FAULT_US,
            stalls,
            waited_us: stalls * 500,
            used,
            stall_us: 500,
            displaced: if speculating { 1_000 } else { 0 },
            speculating,
            memory_is_short: true,
            ..Sample::default()
        };
        owed += sample.displaced;
        let is_cheap = trial.page_price() <= PAGE_PRICE_FIRST;
        displaced_for_nothing += if is_cheap { sample.displaced } else { 0 };
        let _ = trial.on_sample(&sample);
    }
    assert!(displaced_for_nothing <= 5_000, "{displaced_for_nothing}");
}

/// A program that does hardly anything but wait: most of its processor time is that of its page faults.
#[test]
fn a_program_that_only_waits_is_not_taken_to_do_more_where_it_waits() {
    let mut trial = Trial::default();
    for _ in 0..600 {
        let is_pausing = trial.is_pausing();
        let (elapsed_us, covered) = if is_pausing { (STEP_PAUSE_US, 0) } else { (STEP_US, 80) };
        // 5 us of work and 5 us for the page, and a fault that waits takes 80 us, of which 20 on the processor.
        let pages = elapsed_us * 100 / (1_000 + 80 * (100 - covered));
        let used = pages * covered / 100;
        let stalls = pages - used;
        let sample = Sample {
            elapsed_us,
            cpu_us: pages * 10 + stalls * 20,
            stalls,
            waited_us: stalls * 60,
            used,
            stall_us: 60,
            speculating: !is_pausing,
            memory_is_short: true,
            ..Sample::default()
        };
        let _ = trial.on_sample(&sample);
        assert!(trial.believed() > PRICE_ONE * 3 / 4, "{}", trial.believed());
    }
}

#[test]
fn where_memory_is_ample_all_is_believed_and_a_pause_ends() {
    let mut simulation = Simulation::new();
    while !(simulation.trial.believed() < 0 && simulation.trial.is_pausing()) {
        assert!(simulation.time_us < 60_000_000, "{:?}", simulation.verdicts);
        simulation.step(&HARMFUL);
    }
    let ample = Sample { elapsed_us: STEP_US, ..Sample::default() };
    assert_eq!(simulation.trial.on_sample(&ample), Some(Change::Resume(Verdict::Undecided)));
    assert_eq!(simulation.trial.believed(), PRICE_ONE);
    simulation.trial.on_sample(&Sample { memory_is_short: true, ..ample });
    assert!(simulation.trial.believed() < 0, "what was found where it is short still holds");
}

fn program() -> impl Strategy<Value = Program> {
    (0..40u64, 0..=100u64, 0..200u64, prop_oneof![50..500u64, 1_000..3_000u64], 1..200u64)
        .prop_map(|(demand, covered, more, stall_us, life)| Program { demand, covered, more, stall_us, life })
}

fn sample() -> impl Strategy<Value = Sample> {
    let number = || prop_oneof![Just(0), 1..100_000u64, any::<u64>()];
    let numbers = (number(), number(), number(), number(), number(), number(), number(), number());
    (numbers, any::<bool>(), any::<bool>()).prop_map(
        |((elapsed_us, cpu_us, stalls, waited_us, used, stall_us, delayed_us, displaced), a, b)| Sample {
            elapsed_us,
            cpu_us,
            stalls,
            waited_us,
            used,
            stall_us,
            delayed_us,
            displaced,
            speculating: a,
            memory_is_short: b,
        },
    )
}

proptest! {
    /// Whatever speculation does to it, for minutes: a program loses an eighth of its time at most, and some seconds of harm.
    #[test]
    fn no_program_loses_more_than_a_part_of_its_time(programs in prop::collection::vec((program(), 1..120u64), 1..4)) {
        let mut simulation = Simulation::new();
        programs.iter().for_each(|(program, seconds)| simulation.run(program, *seconds));
        let worst = programs.iter().map(|(program, _)| {
            1.0 - program.us_per_ms(false) as f64 / program.us_per_ms(true) as f64
        });
        // Each phase has harm until trials of that phase alone have found it.
        let harm_us = worst.fold(0.0, |sum, harm| sum + harm.max(0.0) * 40_000_000.0);
        let bound = simulation.alone_us as f64 * (1.0 + 1.0 / 8.0) + harm_us;
        prop_assert!((simulation.time_us as f64) < bound, "{} of {bound}: {:?}", simulation.time_us, simulation.verdicts);
    }

    #[test]
    fn no_samples_leave_the_range(samples in prop::collection::vec(sample(), 0..200)) {
        let mut trial = Trial::default();
        for sample in samples {
            let _ = trial.on_sample(&sample);
            prop_assert!((-PRICE_ONE..=PRICE_ONE).contains(&trial.believed()));
            prop_assert!((0..=PRICE_ONE).contains(&trial.page_price()));
        }
    }
}
