//! What the policy of forks makes of single events: what it expects of the next speculation, and what it pays for.

use forebay_policy::account::Account;
use forebay_policy::fault_signals::period;
use forebay_policy::fork::{ForkPolicy, Place, Ran, Size, Took};
use forebay_policy::price::{
    BANKED_STAKES, BESIDE_PRICE, FAILURE, FIRST_NS, PAGES_STALLS, PRICE_ONE, SIGNAL_US, WAITED_PART,
};
use forebay_protocol::layout;
use proptest::prelude::*;

/// Ticks of the tests: nanoseconds.
const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const US: u64 = 1_000;

fn pages(copied: u64, taken: u64) -> Took {
    Took { copied, taken, ..Took::default() }
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
