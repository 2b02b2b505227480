//! The account of speculations, on simulated programs: what a program may lose, and how soon it gains.

mod support;

use forebay_policy::account::Account;
use forebay_policy::estimate::StallTime;
use forebay_policy::fault_signals::period;
use forebay_policy::fork::{ForkPolicy, Place, Ran, Size, Took};
use forebay_policy::price::{
    BANKED_STAKES, BESIDE_PRICE, FAILURE, FIRST_NS, PAGE_PRICE_FIRST, PAGES_STALLS, PRICE_ONE, SIGNAL_US,
    WAITED_PART,
};
use forebay_protocol::layout;
use proptest::prelude::*;
use support::Chance;

/// Ticks of the simulations: nanoseconds.
const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const US: u64 = 1_000;
/// Where memory is short, before a trial.
const SHORT: u64 = PAGE_PRICE_FIRST.unsigned_abs();

/// What a program does for a while.
#[derive(Clone, Copy, Debug)]
struct Phase {
    reads: u64,
    /// Between two reads, and for a read that is not prefetched.
    compute: u64,
    stall: u64,
    /// Reads that a speculation predicts before it is off track.
    right: u64,
    /// What the hints of a speculation delay each stall by, while it lives.
    delay: u64,
    /// Pages that the original copies for a speculation.
    copied: u64,
    /// Processor time of a speculation, while the original computes.
    ran: u64,
}

const READS: Phase =
    Phase { reads: 20_000, compute: 20 * US, stall: MS, right: 0, delay: 0, copied: 20, ran: 0 };

impl Phase {
    /// What a speculation takes, besides the original's time.
    fn took(&self) -> Took {
        Took { ran: beside(self.ran), ..pages(self.copied, 100) }
    }
}

fn pages(copied: u64, taken: u64) -> Took {
    Took { copied, taken, ..Took::default() }
}

/// Processor time of a speculation, all of it while the original ran and nothing waited for a processor.
fn beside(ticks: u64) -> Ran {
    Ran { ticks, busy: 0, beside: PRICE_ONE.unsigned_abs() }
}

/// A program, of one or more processes in turn, that computes and then needs data, again and again.
struct Program {
    account: layout::Account,
    /// Of each phase, shared by all processes.
    devices: Vec<StallTime>,
    chance: Chance,
    size: Size,
    fork: u64,
    hidden: bool,
    now: u64,
    /// When it would be now with no speculation at all.
    alone: u64,
    forks: u64,
    stalls: u64,
    crossings: u64,
}

impl Program {
    fn new(fork: u64, hidden: bool) -> Self {
        Self {
            account: layout::Account::default(),
            devices: vec![],
            chance: Chance(1),
            size: Size { pages: 1_000, fork, copy: 1_250, displaced: 0 },
            fork,
            hidden,
            now: SECOND,
            alone: SECOND,
            forks: 0,
            stalls: 0,
            crossings: 0,
        }
    }

    /// One process goes through the phases, each on a device of its own.
    fn process(&mut self, phases: &[Phase]) {
        let mut policy = ForkPolicy::new(SECOND);
        self.devices.resize(phases.len().max(self.devices.len()), StallTime::default());
        for (device, phase) in phases.iter().enumerate() {
            let mut time = self.devices[device];
            self.phase(&mut policy, phase, &mut time);
            self.devices[device] = time;
        }
        self.crossings += policy.crossings();
    }

    fn phase(&mut self, policy: &mut ForkPolicy, phase: &Phase, device: &mut StallTime) {
        let account = Account::new(&self.account, FIRST_NS);
        let (mut ahead, mut used) = (None::<u64>, 0);
        for _ in 0..phase.reads {
            let compute = phase.compute / 2 + self.chance.below(phase.compute + 1);
            let stall = phase.stall * (75 + self.chance.below(51)) / 100;
            self.now += compute;
            self.alone += compute + stall;
            if let Some(left) = ahead.as_mut().filter(|left| **left > 0) {
                *left -= 1;
                used += 1;
                continue;
            }
            policy.expect(self.size);
            // The queue of its hints outlives a speculation.
            let queue = if ahead.is_some() && used > 0 { phase.delay } else { 0 };
            let is_over = ahead.is_some() && (policy.judge_due() || policy.is_armed(&account));
            if is_over {
                ahead = None;
                policy.on_end(&account, std::mem::take(&mut used) * device.ticks(), phase.took(), false);
                self.now += phase.took().ran.cost();
            }
            let waited = stall + queue;
            let delay = if queue > 0 { device.delay(waited) } else { None };
            if ahead.is_some() {
                // It has not been forked again.
            } else if policy.is_armed(&account) {
                let place = if self.hidden { Place::Read } else { Place::Call };
                policy.on_spawn(&account, self.fork, place);
                self.forks += 1;
                ahead = Some(phase.right);
                let hidden = if self.hidden { self.fork.saturating_sub(stall) } else { self.fork };
                self.now += hidden + phase.copied * self.size.copy;
            }
            if queue == 0 {
                device.on_stall(stall);
            }
            self.now += waited;
            self.stalls += 1;
            policy.on_stall(&account, waited, true, delay);
        }
    }

    /// Time taken against the time without speculation.
    fn ratio(&self) -> f64 {
        (self.now - SECOND) as f64 / (self.alone - SECOND) as f64
    }
}

fn program(fork: u64, hidden: bool, phases: &[Phase]) -> Program {
    let mut program = Program::new(fork, hidden);
    program.process(phases);
    program
}

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
fn forks_are_expected_to_take_what_they_took() {
    let words = layout::Account::default();
    let account = Account::new(&words, FIRST_NS);
    let size = |fork| Size { pages: 1_000, fork, copy: 0, displaced: 0 };
    let expected = |took: u64, times: u64| {
        let mut policy = ForkPolicy::new(SECOND);
        for _ in 0..times {
            policy.expect(size(4 * MS));
            policy.on_spawn(&account, took, Place::Call);
        }
        policy.expect(size(4 * MS));
        policy.size().fork
    };
    for took in [MS, 4 * MS, 12 * MS] {
        assert!(expected(took, 40).abs_diff(took) < took / 8, "{} for {took}", expected(took, 40));
    }
    assert!(expected(SECOND, 1) < 8 * MS, "one that waited for something else says little");
}

#[test]
fn copies_are_expected_to_take_what_they_took() {
    let copy = |seen: &[u64]| {
        let mut policy = ForkPolicy::new(SECOND);
        policy.expect(Size { pages: 1_000, fork: 0, copy: 1_250, displaced: 0 });
        seen.iter().for_each(|took| policy.on_copy(*took));
        policy.size().copy
    };
    assert_eq!(copy(&[]), 1_250, "until one was seen");
    assert_eq!(copy(&[2_150]), 2_150);
    assert!(copy(&[2_150, SECOND]) < 2 * 2_150, "one that was interrupted says little");
    assert!(copy(&[SECOND]) <= 10_000 && copy(&[0]) > 100);
}

#[test]
fn what_the_first_speculation_cost_after_its_end_is_expected_of_the_next() {
    let words = layout::Account::default();
    let account = Account::new(&words, FIRST_NS);
    let mut policy = ForkPolicy::new(SECOND);
    let mut speculate = |copied, later| {
        policy.expect(Size { pages: 1_000, fork: 0, copy: 1_200, displaced: 0 });
        policy.on_spawn(&account, 100 * US, Place::Call);
        policy.on_end(&account, 0, pages(copied, 0), false);
        policy.on_first_writes(&account, later);
        policy.stake(&account)
    };
    assert_eq!(speculate(100, 1_000), 100 * US + 120 * US + 400 * US);
    let one_in_eight = speculate(100, 2_000);
    assert!((600 * US..750 * US).contains(&one_in_eight), "{one_in_eight}");
}

#[test]
fn lessons_come_often_and_cost_little() {
    let words = layout::Account::default();
    let account = Account::new(&words, FIRST_NS);
    let mut policy = ForkPolicy::new(SECOND);
    let (mut stalls, mut forks) = (0u64, 0);
    while forks < 14 {
        if policy.is_armed(&account) {
            policy.on_spawn(&account, 75 * US, Place::Read);
            policy.on_end(&account, 0, pages(20, 0), true);
            forks += 1;
        }
        stalls += 1;
        policy.on_stall(&account, MS, true, None);
    }
    assert!(stalls < 250, "{stalls}");
}

#[test]
fn a_system_that_refuses_forks_is_asked_ever_more_seldom() {
    let words = layout::Account::default();
    let account = Account::new(&words, FIRST_NS);
    let mut policy = ForkPolicy::new(SECOND);
    let mut asked = 0;
    for _ in 0..60_000 {
        policy.on_stall(&account, MS, true, None);
        if policy.is_armed(&account) {
            asked += 1;
            policy.on_refusal(&account, 100 * US);
        }
    }
    assert!((5..=150).contains(&asked), "{asked}");
    assert_eq!(policy.crossings(), 0);
}

#[test]
fn signals_of_faults_are_paid_from_what_forks_are_paid_from() {
    let forks = |signal: u64| {
        let words = layout::Account::default();
        let account = Account::new(&words, FIRST_NS);
        let mut policy = ForkPolicy::new(SECOND);
        let mut forks = 0;
        for _ in 0..20_000 {
            policy.on_faults(&account, 8, 20 * US, signal);
            if policy.is_armed(&account) {
                policy.on_spawn(&account, 100 * US, Place::Fault);
                policy.on_end(&account, 0, Took::default(), false);
                forks += 1;
            }
        }
        forks
    };
    assert!(forks(0) > forks(6 * US) && forks(6 * US) <= 3, "{} {}", forks(0), forks(6 * US));
}

#[test]
fn a_program_that_is_told_of_each_fault_is_tried_again() {
    for stall in [20 * US, 200 * US, MS, 12 * MS] {
        let words = layout::Account::default();
        let account = Account::new(&words, FIRST_NS);
        let mut policy = ForkPolicy::new(SECOND);
        let (mut forks, mut waited) = (0, 0);
        while waited < 5 * SECOND {
            let faults = u64::from(period(stall / US, SIGNAL_US as u32, account.failures()));
            policy.on_faults(&account, faults, stall, SIGNAL_US * US);
            waited += faults * stall;
            if policy.is_armed(&account) {
                policy.on_spawn(&account, 300 * US, Place::Fault);
                policy.on_end(&account, 0, Took::default(), false);
                forks += 1;
            }
        }
        assert!((3..=10).contains(&forks), "{forks} forks for stalls of {stall} ns");
    }
}

/// The first speculation of a program costs far more than is expected, and gains. Later ones cost as much, and are useless.
#[test]
fn savings_are_kept_for_speculations_that_cost_what_the_last_one_did() {
    let words = layout::Account::default();
    let account = Account::new(&words, FIRST_NS);
    let mut policy = ForkPolicy::new(SECOND);
    policy.on_stall(&account, 100 * MS, true, None);
    let mut useless = 0;
    policy.on_spawn(&account, 20 * MS, Place::Call);
    policy.on_end(&account, SECOND, Took::default(), false);
    while policy.is_armed(&account) {
        policy.on_spawn(&account, 20 * MS, Place::Call);
        policy.on_end(&account, 0, Took::default(), false);
        useless += 1;
    }
    assert_eq!(useless, BANKED_STAKES);
    assert_eq!(account.failures(), FAILURE, "only the last one was not paid for by savings");
}

#[test]
fn savings_count_as_far_as_they_are_believed_and_harm_is_a_cost() {
    let gained = |part| {
        let words = layout::Account::default();
        let account = Account::new(&words, FIRST_NS).believing(part);
        let mut policy = ForkPolicy::new(SECOND);
        policy.on_stall(&account, 100 * MS, true, None);
        policy.on_spawn(&account, MS, Place::Call);
        let before = account.balance();
        policy.on_end(&account, 40 * US, Took::default(), false);
        account.balance() - before
    };
    let us = US as i64;
    assert_eq!([PRICE_ONE, PRICE_ONE / 2, 0].map(gained), [30 * us, 15 * us, 0]);
    assert_eq!([-PRICE_ONE / 2, -PRICE_ONE].map(gained), [-20 * us, -40 * us]);
    assert_eq!(gained(i64::MAX), 30 * us, "any word is some belief");
}

#[test]
fn a_harmful_speculation_ends_when_it_cost_what_a_useless_one_may() {
    let words = layout::Account::default();
    let account = Account::new(&words, FIRST_NS).believing(-PRICE_ONE);
    let mut policy = ForkPolicy::new(SECOND);
    policy.on_stall(&account, MS, true, None);
    assert!(!policy.is_harmful(&account, SECOND), "there is none");
    policy.on_spawn(&account, 0, Place::Call);
    let most = PAGES_STALLS * MS;
    assert!(!policy.is_harmful(&account, most) && policy.is_harmful(&account, most + MS));
    assert!(!policy.is_harmful(&Account::new(&words, FIRST_NS), SECOND));
}

#[test]
fn processor_time_costs_as_much_as_processors_are_busy() {
    let cost = |busy| Ran { ticks: MS, busy, beside: 0 }.cost();
    assert_eq!([0, 512, 1_024, u32::MAX].map(cost), [0, MS / 2, MS, MS]);
    let beside = |beside| Ran { ticks: MS, busy: 0, beside }.cost();
    let whole = MS * BESIDE_PRICE / 1_024;
    assert_eq!([0, 512, 1_024, u64::MAX].map(beside), [0, whole / 2, whole, whole]);
    assert_eq!(Ran { ticks: u64::MAX, busy: u32::MAX, beside: u64::MAX }.cost(), u64::MAX);
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

#[test]
fn what_shows_after_a_speculation_is_expected_of_the_next() {
    let words = layout::Account::default();
    let account = Account::new(&words, FIRST_NS);
    let mut policy = ForkPolicy::new(SECOND);
    policy.on_stall(&account, MS, true, None);
    for _ in 0..40 {
        policy.on_spawn(&account, 100 * US, Place::Call);
        policy.on_end(&account, 0, Took::default(), false);
        policy.on_more_cost(&account, MS);
    }
    assert_eq!(policy.spent(), 40 * (MS + 100 * US));
    assert!(policy.stake(&account) > MS, "{}", policy.stake(&account));
}

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Stall(u64, bool, Option<i64>),
    Fork(u64, bool),
    End(u64, u64, u64, bool),
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![0..100 * US, 0..20 * MS, 0..2 * SECOND]
}

fn event() -> impl Strategy<Value = Event> {
    let delay = prop::option::of(-20 * MS as i64..20 * MS as i64);
    prop_oneof![
        2 => time().prop_map(Event::Pass),
        6 => (time(), any::<bool>(), delay).prop_map(|(ticks, unforeseen, delay)| Event::Stall(ticks, unforeseen, delay)),
        6 => (time(), any::<bool>()).prop_map(|(ticks, hidden)| Event::Fork(ticks, hidden)),
        4 => (time(), 0..5_000u64, 0..5_000u64, any::<bool>())
            .prop_map(|(saved, copied, taken, taught)| Event::End(saved, copied, taken, taught)),
    ]
}

fn wild() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<(u64, bool, Option<i64>)>().prop_map(|(a, b, c)| Event::Stall(a, b, c)),
        any::<(u64, bool)>().prop_map(|(ticks, hidden)| Event::Fork(ticks, hidden)),
        any::<(u64, u64, u64, bool)>().prop_map(|(a, b, c, d)| Event::End(a, b, c, d)),
        event(),
    ]
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
    /// Before each fork, all costs so far stay below what waiting and savings pay for.
    #[test]
    fn no_fork_is_made_that_is_not_paid_for(events in prop::collection::vec(event(), 0..300)) {
        let words = layout::Account::default();
        let account = Account::new(&words, FIRST_NS);
        let mut policy = ForkPolicy::new(SECOND);
        policy.expect(Size { pages: 1_000, fork: 100 * US, copy: US, displaced: 0 });
        let (mut waited, mut saved) = (0u64, 0u64);
        for event in events {
            match event {
                Event::Pass(_) => {}
                Event::Stall(ticks, unforeseen, delay) => {
                    waited += ticks;
                    policy.on_stall(&account, ticks, unforeseen, delay);
                }
                Event::Fork(cost, hidden) => {
                    if policy.is_armed(&account) {
                        let bound = waited / WAITED_PART + saved / 4 * 3 + MS / 4;
                        prop_assert!(policy.spent() + policy.stake(&account) <= bound, "{} > {bound}", policy.spent());
                        policy.on_spawn(&account, cost, if hidden { Place::Read } else { Place::Call });
                    }
                }
                Event::End(gain, copied, taken, taught) => {
                    saved += gain;
                    policy.on_end(&account, gain, pages(copied, taken), taught);
                }
            }
        }
    }

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

    #[test]
    fn no_sequence_of_events_panics(rate in any::<u64>(), balance in any::<i64>(), failures in any::<u32>(),
        events in prop::collection::vec(wild(), 0..100))
    {
        let words = layout::Account::default();
        words.balance.store(balance, std::sync::atomic::Ordering::Relaxed);
        words.failures.store(failures, std::sync::atomic::Ordering::Relaxed);
        let account = Account::new(&words, rate);
        let mut policy = ForkPolicy::new(rate);
        for event in events {
            match event {
                Event::Pass(ticks) => policy.on_faults(&account, ticks, ticks, ticks),
                Event::Stall(ticks, unforeseen, delay) => policy.on_stall(&account, ticks, unforeseen, delay),
                Event::Fork(cost, hidden) => {
                    policy.expect(Size { pages: cost, fork: cost, copy: cost, displaced: u64::from(hidden) * cost });
                    policy.on_spawn(&account, cost, if hidden { Place::Read } else { Place::Fault });
                }
                Event::End(saved, copied, taken, taught) => {
                    let _ = policy.on_end(&account, saved, pages(copied, taken), taught);
                }
            }
            let _ = (policy.is_armed(&account), policy.judge_due(), policy.crossings(), policy.saved());
        }
    }
}
