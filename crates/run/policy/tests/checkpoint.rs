//! Checkpoints are made where they are of use, and never slow a speculator down by much.

use forebay_policy::balance::AHEAD_PROVEN;
use forebay_policy::checkpoint::{Plan, first_price};
use forebay_policy::price::{SPENT_PART, VALUES_MAX};

#[test]
fn the_first_value_made_up_has_one() {
    assert!(Plan::new(5, 0).is_due(5, true));
    assert!(Plan::new(5, 0).is_due(5, false));
}

#[test]
fn a_site_known_in_this_speculation_has_none_for_a_while() {
    let mut plan = Plan::new(0, 0);
    assert!(plan.is_due(0, true));
    plan.on_made(10);
    for _ in 1..VALUES_MAX {
        assert!(!plan.is_due(1_000_000, false));
    }
    assert!(plan.is_due(1_000_000, false));
}

#[test]
fn a_new_site_has_one_at_once() {
    let mut plan = Plan::new(0, 0);
    plan.on_made(10);
    assert!(plan.is_due(1_000_000, true));
    assert!(!plan.is_due(1_000_000, false));
}

#[test]
fn they_take_no_more_than_their_part_of_the_time() {
    for cost in [1, 100, 16_000, 1_000_000] {
        let (mut plan, mut now, mut spent, mut made) = (Plan::new(7, 0), 7, 0, 0u64);
        while made < 100 {
            now += 500;
            if plan.is_due(now, now % 3 == 0) {
                plan.on_made(cost);
                now += cost;
                spent += cost;
                made += 1;
                let elapsed = now - 7;
                assert!(spent <= cost + elapsed / SPENT_PART, "{spent} of {elapsed} at {cost}");
            }
        }
    }
}

#[test]
fn where_stalls_are_short_the_first_one_waits_until_it_is_no_great_part() {
    let fork = 7_000;
    assert_eq!(first_price(fork, fork / AHEAD_PROVEN + 1), 0);
    let mut plan = Plan::new(0, first_price(fork, 40));
    assert!(!plan.is_due(0, true));
    assert!(!plan.is_due(SPENT_PART * fork - 1, true));
    assert!(plan.is_due(SPENT_PART * fork, false));
}
