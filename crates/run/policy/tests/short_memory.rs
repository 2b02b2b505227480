//! The resync policy where memory is short: what copies cost, and who dares to be forked.

use forebay_policy::credit::TAKEN_FREE;
use forebay_policy::resync::{Place, Policy, Size};

/// Ticks of the simulations: nanoseconds.
const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// A process of 40 MB that memory is short for, whose speculators have nothing to copy.
const LARGE_WHERE_SHORT: Size = Size {
    pages: 10_000,
    fork: 600 * US,
    copy: US,
    displaces: true,
    detour: 0,
    risk_stalls: 256,
    lacks: 10_000,
};

/// The kernel has the first fork wait for 100 ms until something is written: the next need not wait until that is earned.
#[test]
fn where_memory_is_short_one_slow_fork_is_excused() {
    let forks = |slow: usize| {
        let (mut policy, mut now, mut forks) = (Policy::new(SECOND), SECOND, vec![]);
        let mut told = now;
        policy.begin(now);
        policy.expect_cost(LARGE_WHERE_SHORT);
        while now < 4 * SECOND {
            now += MS;
            if policy.judge_due() {
                policy.on_copies(100, 500);
                policy.on_end(now, 50, 0);
            }
            // With what it did while it was forked, which is nothing.
            policy.on_work(told, now, MS / 100);
            told = now;
            policy.on_stall(now, MS, false);
            if policy.armed(now) && !policy.judge_due() && policy.dares(now, Place::Fault) {
                let cost = if forks.len() < slow { 100 * MS } else { 2 * MS };
                forks.push(now);
                now += cost;
                policy.on_spawn(now, cost, Place::Fault);
            }
        }
        forks
    };
    let second = |slow: usize| (forks(slow)[1] - SECOND) / MS;
    assert!(second(0) < 100, "{}", second(0));
    assert!(second(1) < 300, "{}", second(1));
    assert!(forks(2).len() < 4, "that they are slow is known by the second: {:?}", forks(2));
}

/// Forks that hint a few pages and have 1,000 copied: worth it where there is memory for the copies.
#[test]
fn where_memory_is_short_copies_cost_stalls() {
    let forks = |displaces: bool| {
        let (mut policy, mut now, mut forks) = (Policy::new(SECOND), SECOND, 0);
        policy.begin(now);
        policy.expect_cost(Size { displaces, ..LARGE_WHERE_SHORT });
        for _ in 0..60_000 {
            now += MS;
            if policy.judge_due() && policy.armed(now) {
                policy.on_copies(1_000, 1_000);
                policy.on_end(now, 20, 0);
            }
            policy.on_stall(now, MS, false);
            if policy.armed(now) && !policy.judge_due() {
                forks += 1;
                policy.on_spawn(now, 600 * US, Place::Fault);
            }
        }
        forks
    };
    let (enough, short) = (forks(false), forks(true));
    assert!(enough > 100 && short < 30, "{enough} where there is enough, {short} where not");
}

/// A program that works with the memory that it has, and waits for some: a fork could have it wait for more.
#[test]
fn where_memory_is_short_only_who_waits_most_of_the_time_dares() {
    let dares = |displaces: bool, compute: u64| {
        let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
        policy.begin(now);
        policy.expect_cost(Size { displaces, ..LARGE_WHERE_SHORT });
        for _ in 0..1_000 {
            now += compute + MS;
            policy.on_stall(now, MS, false);
        }
        assert!(policy.armed(now));
        policy.dares(now, Place::Fault)
    };
    assert!(dares(true, MS / 20) && !dares(true, MS / 2));
    assert!(dares(false, MS / 20) && dares(false, MS / 2));
}

/// Where stalls are short, what the kernel does for a fault takes as long: that is no work that would be lost.
#[test]
fn where_memory_is_short_who_hardly_works_has_nothing_to_lose() {
    let dares = |work: u64, told: bool| {
        let mut policy = Policy::new(SECOND);
        let mut now = SECOND;
        policy.begin(now);
        policy.expect_cost(LARGE_WHERE_SHORT);
        for _ in 0..2_000 {
            let before = now;
            now += 100 * US;
            if told {
                policy.on_work(before, now, work);
            }
            policy.on_stall(now, 60 * US, false);
        }
        policy.dares(now, Place::Fault)
    };
    assert!(dares(5 * US, true));
    assert!(!dares(20 * US, true));
    assert!(!dares(0, false), "of reads nobody tells it");
    let mut policy = Policy::new(SECOND);
    policy.begin(SECOND);
    policy.expect_cost(LARGE_WHERE_SHORT);
    policy.on_stall(SECOND + 400 * MS, 40 * MS, false);
    policy.on_work(SECOND, SECOND + 400 * MS, MS);
    assert!(policy.dares(SECOND + 401 * MS, Place::Fault));
    assert!(!policy.dares(SECOND + 900 * MS, Place::Fault), "nobody has told it since");
}

/// A program that does nothing but wait, for which no fork is of use: after a few it is left alone for long.
#[test]
fn where_memory_is_short_forks_in_vain_end() {
    let forks = |used: u64| {
        let (mut policy, mut now, mut forks) = (Policy::new(SECOND), SECOND, 0);
        policy.begin(now);
        policy.expect_cost(LARGE_WHERE_SHORT);
        for _ in 0..5_000 {
            let before = now;
            now += MS;
            policy.on_work(before, now, MS / 100);
            policy.on_stall(now, MS, false);
            if policy.dares(now, Place::Fault) {
                forks += 1;
                policy.on_spawn(now, 3 * MS, Place::Fault);
                policy.on_end(now, used, 0);
            }
        }
        forks
    };
    // Five seconds do not earn what four forks risk.
    assert_eq!(forks(4), 4);
    assert_eq!(forks(3), 1, "next to nothing");
    assert!(forks(100) > 1_000);
}

/// What a fork drove out makes the program wait, too: it is looked at again when that is over.
#[test]
fn where_memory_is_short_who_was_forked_in_vain_rests() {
    let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
    policy.begin(now);
    policy.expect_cost(LARGE_WHERE_SHORT);
    let mut forks = Vec::new();
    while now < 4 * SECOND {
        now += MS;
        policy.on_work(now - MS, now, MS / 100);
        policy.on_stall(now, MS, false);
        if policy.dares(now, Place::Fault) {
            forks.push(now);
            policy.on_spawn(now, 3 * MS, Place::Fault);
            policy.on_end(now, 4, 0);
        }
    }
    let rests: Vec<u64> = forks.windows(2).map(|pair| (pair[1] - pair[0]) / MS).collect();
    assert_eq!(rests, [256, 512, 1024]);
}

/// What is driven out is waited for later, when no hints are in the queue.
#[test]
fn where_memory_is_short_stalls_behind_hints_make_copies_no_dearer() {
    let spent = |behind_hints: u64| {
        let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
        policy.begin(now);
        policy.expect_cost(LARGE_WHERE_SHORT);
        for _ in 0..20 {
            for _ in 0..10 {
                now += 2 * MS;
                policy.on_stall(now, MS, false);
            }
            policy.on_spawn(now, 600 * US, Place::Fault);
            for stall in 0..20 {
                now += behind_hints;
                // The one that shows that a speculation has strayed is told of when that has been judged.
                if stall == 19 {
                    policy.on_copies(1_000, 1_000);
                    policy.on_end(now, 100, 0);
                }
                policy.on_stall(now, behind_hints, false);
            }
        }
        policy.spent() as f64
    };
    let ratio = spent(4 * MS) / spent(MS);
    assert!((0.99..1.2).contains(&ratio), "{ratio}");
}

/// Of ten pages that the original touches it waits for one; the speculator would have to copy nine.
#[test]
fn where_memory_is_short_whoever_a_speculator_cannot_keep_up_with_does_not_dare() {
    let dares = |displaces: bool, stall: u64| {
        let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
        policy.begin(now);
        policy.expect_cost(Size { pages: 9_000, displaces, detour: 9 * 35 * US, ..LARGE_WHERE_SHORT });
        for _ in 0..1_000 {
            let before = now;
            now += stall;
            policy.on_work(before, now, stall / 100);
            policy.on_stall(now, stall, false);
        }
        let at_faults = (policy.keeps_up(), policy.dares(now, Place::Fault));
        // After a second without a fault it reads: what it has swapped says nothing of that.
        let begun = now + SECOND;
        for stall in 1..=100 {
            policy.on_stall(begun + stall * MS, MS, false);
        }
        (at_faults, policy.dares(begun + 100 * MS, Place::Fault))
    };
    assert_eq!(dares(true, MS), ((true, true), true));
    assert_eq!(dares(true, MS / 10), ((false, false), true));
    assert_eq!(dares(false, MS / 10), ((true, true), true));
}

/// Both have the kernel make room for pages in one group: the original waits for that as long as for a disk that fast.
#[test]
fn where_memory_is_short_hints_are_worth_no_waits_that_are_as_short() {
    let dares = |displaces: bool, stall: u64| {
        let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
        policy.begin(now);
        policy.expect_cost(Size { displaces, ..LARGE_WHERE_SHORT });
        for _ in 0..20_000 {
            let before = now;
            now += stall;
            policy.on_work(before, now, 0);
            policy.on_stall(now, stall, false);
        }
        [policy.page_hints_pay(), policy.dares(now, Place::Fault), policy.dares(now, Place::Read)]
    };
    assert_eq!(dares(true, 70 * US), [true, true, true]);
    assert_eq!(dares(true, 35 * US), [false, false, true], "reads are no pages");
    assert_eq!(dares(false, 35 * US), [true, true, true]);
}

/// A fork of no use may cost 256 stalls: that is little for a program that runs for long, but only once in a while.
#[test]
fn where_memory_is_short_a_long_run_may_risk_a_fork_now_and_then() {
    let (mut policy, mut now, mut forks) = (Policy::new(SECOND), SECOND, 0);
    policy.begin(now);
    policy.expect_cost(LARGE_WHERE_SHORT);
    for _ in 0..50_000 {
        now += 2 * MS;
        policy.on_stall(now, MS, false);
        if policy.dares(now, Place::Fault) {
            forks += 1;
            policy.on_spawn(now, 600 * US, Place::Fault);
            policy.on_end(now, 0, 0);
        }
    }
    // 100 s, of which each may risk 1/64 for 256 ms.
    assert!((5..=7).contains(&forks), "{forks}");
}

/// One that was of use shows that it can be.
#[test]
fn whose_speculation_was_of_use_dares_again() {
    let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
    policy.begin(now);
    policy.expect_cost(LARGE_WHERE_SHORT);
    let mut wait = |policy: &mut Policy| {
        for _ in 0..1_000 {
            now += 2 * MS;
            policy.on_stall(now, MS, false);
        }
        now
    };
    let now = wait(&mut policy);
    assert!(!policy.dares(now, Place::Fault));
    policy.on_spawn(now, MS, Place::Fault);
    policy.on_copies(0, 0);
    policy.on_end(now, 1_000, 0);
    let now = wait(&mut policy);
    assert!(policy.dares(now, Place::Fault));
}

/// A late speculation was of no use because it was late, as all are at first where stalls are short; and one of files says
/// nothing of pages.
#[test]
fn where_memory_is_short_only_forks_that_show_it_are_taken_for_fruitless() {
    let forks = |at_faults: bool, is_late: bool, stall: u64| {
        let (mut policy, mut now, mut forks) = (Policy::new(SECOND), SECOND, 0);
        policy.begin(now);
        policy.expect_cost(LARGE_WHERE_SHORT);
        while now < 5_000 * stall + SECOND {
            now += stall;
            if at_faults || forks > 0 {
                policy.on_work(now - stall, now, stall / 100);
            }
            policy.on_stall(now, stall, false);
            let place = if at_faults || forks > 0 { Place::Fault } else { Place::Call };
            if policy.dares(now, place) {
                forks += 1;
                policy.on_spawn(now, 600 * US, place);
                if is_late {
                    policy.excuse();
                }
                policy.on_end(now, 0, 0);
            }
        }
        forks
    };
    assert_eq!(forks(true, false, MS), 1);
    assert_eq!(forks(true, true, MS), 4);
    assert_eq!(forks(true, false, 100 * US), 4);
    assert_eq!(forks(false, false, MS), 2, "the first was at a read");
}

/// What is forked while there is memory enough is not taken for the fork that was dared before.
#[test]
fn where_memory_is_short_a_fork_while_it_was_not_says_nothing() {
    let dares = |short_meanwhile: bool| {
        let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
        policy.begin(now);
        for (displaces, used) in [(true, 4), (short_meanwhile, 0)] {
            policy.expect_cost(Size { displaces, ..LARGE_WHERE_SHORT });
            policy.on_stall(now, MS, false);
            policy.on_spawn(now, 3 * MS, Place::Fault);
            policy.on_end(now, used, 0);
        }
        policy.expect_cost(LARGE_WHERE_SHORT);
        for _ in 0..2_000 {
            now += MS;
            policy.on_work(now - MS, now, MS / 100);
            policy.on_stall(now, MS, false);
        }
        policy.dares(now, Place::Fault)
    };
    assert!(dares(false) && !dares(true));
}

/// A program that lacks little goes round through what it has: what a fork takes would make most of its misses.
#[test]
fn where_memory_is_short_who_lacks_less_than_a_fork_takes_does_not_dare() {
    let dares = |lacks: u64, faults: bool, used: u64| {
        let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
        policy.begin(now);
        policy.expect_cost(Size { lacks: 10_000, ..LARGE_WHERE_SHORT });
        policy.on_stall(now, MS, false);
        policy.on_spawn(now, 600 * US, Place::Fault);
        policy.on_end(now, used, 0);
        for _ in 0..1_000 {
            now += MS;
            if faults {
                policy.on_work(now - MS, now, MS / 100);
            }
            policy.on_stall(now, MS, false);
        }
        policy.expect_cost(Size { lacks, ..LARGE_WHERE_SHORT });
        policy.dares(now, if faults { Place::Fault } else { Place::Call })
    };
    for used in [4, 1_000] {
        assert!(dares(TAKEN_FREE, true, used));
        assert!(!dares(TAKEN_FREE - 1, true, used), "however good speculation was before");
        assert!(dares(TAKEN_FREE - 1, false, used), "what it waits for is files");
    }
}

/// Of a fast disk, one wait in sixty takes ten times as long: it is no slow one.
#[test]
fn where_memory_is_short_one_long_wait_makes_no_hint_worth_it() {
    let dares = |usual: u64| {
        let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
        policy.begin(now);
        policy.expect_cost(LARGE_WHERE_SHORT);
        (0..10_000)
            .filter(|number| {
                let before = now;
                let stall = if number % 60 == 59 { 10 * usual } else { usual };
                now += stall;
                policy.on_work(before, now, stall / 100);
                policy.on_stall(now, stall, false);
                policy.dares(now, Place::Fault)
            })
            .count()
    };
    assert_eq!(dares(40 * US), 0);
    assert!(dares(100 * US) > 1_000);
}
