//! What a replay fetches, and in which order.

mod support;

use std::ops::Range;

use forebay_profile::{Act, Identity, Kind, Plan, Profile};
use support::*;

fn learned(level: usize, runs: &[&[forebay_profile::Need]]) -> Profile {
    runs.iter().fold(empty(level), |profile, needs| profile.learn(*needs, all_of(1 << 40), 1))
}

/// The steps as words, data with their bytes.
fn steps(profile: Profile) -> Vec<String> {
    let word = |step: forebay_profile::Step| {
        let path = String::from_utf8(step.path).unwrap();
        match step.act {
            Act::LookUp => format!("look up {path}"),
            Act::List => format!("list {path}"),
            Act::ReadLink => format!("link {path}"),
            Act::Data { range, .. } => format!("data {path} {}..{}", range.start, range.end),
        }
    };
    Plan::new(profile).map(word).collect()
}

fn one(range: Range<u64>) -> Vec<Range<u64>> {
    Vec::from_iter([range])
}

fn pieces(profile: Profile) -> Vec<Range<u64>> {
    let of = |step: forebay_profile::Step| match step.act {
        Act::Data { range, .. } => Some(range),
        _ => None,
    };
    Plan::new(profile).filter_map(of).collect()
}

#[test]
fn look_ups_come_first_and_folders_before_what_is_in_them() {
    let needs = [
        read(1, "/a/b/c", 0..1),
        missing(2, "/a/b/d"),
        need(9, "/a/b", Kind::Directory, 0..0),
        look_up(9, "/a/b"),
        need(8, "/z", Kind::Link, 0..0),
        look_up(7, "/a"),
    ];
    let expected =
        ["look up /a", "link /z", "list /a/b", "look up /a/b/c", "look up /a/b/d", "data /a/b/c 0..4096"];
    assert_eq!(steps(learned(WHOLE, &[&needs])), expected);
}

#[test]
fn data_come_in_the_order_of_first_need() {
    let needs = [read(30_000, "/a", 0..1), read(0, "/b", 8192..8193), read(60_000, "/b", 0..1)];
    let plan: Vec<_> =
        Plan::new(learned(WHOLE, &[&needs])).skip(2).map(|step| (step.at_us, step.path)).collect();
    assert_eq!(plan, [(0, b"/b".to_vec()), (30_000, b"/a".to_vec()), (60_000, b"/b".to_vec())]);
}

#[test]
fn neighbours_are_joined_up_to_sixteen_mebibytes() {
    let parts: Vec<_> = (0..40).map(|at| read(at as u32 * 50_000, "/f", at * MIB..(at + 1) * MIB)).collect();
    assert_eq!(pieces(learned(WHOLE, &[&parts])), [0..16 * MIB, 16 * MIB..32 * MIB, 32 * MIB..40 * MIB]);
    let one = [read(0, "/f", 0..40 * MIB)];
    assert_eq!(pieces(learned(WHOLE, &[&one])), [0..16 * MIB, 16 * MIB..32 * MIB, 32 * MIB..40 * MIB]);
}

/// Of a part of 1 MiB and one of 4 KiB, with a hole of some size between them.
#[test]
fn small_holes_are_fetched_while_they_are_few_bytes() {
    let with_hole = |kib: u64| {
        let start = MIB + kib * KIB;
        pieces(learned(WHOLE, &[&[read(0, "/f", 0..MIB), read(1, "/f", start..start + 1)]]))
    };
    assert_eq!(with_hole(48), one(0..MIB + 52 * KIB), "a twentieth is fetched for nothing");
    assert_eq!(with_hole(56).len(), 2, "more would be fetched for nothing");
    let large = |kib: u64| {
        let start = 64 * MIB + kib * KIB;
        pieces(learned(WHOLE, &[&[read(0, "/f", 50 * MIB..64 * MIB), read(1, "/f", start..start + 1)]]))
    };
    assert_eq!((large(124).len(), large(128).len()), (1, 2), "a hole that is a read of its own");
}

#[test]
fn few_bytes_are_fetched_for_nothing_whatever_the_holes() {
    let mut chance = 7_u64;
    for pages in [1_u64, 2, 5, 11, 29] {
        let mut at = 0;
        let needs: Vec<_> = (0..500)
            .map(|number: u32| {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                at += 4 * KIB * (1 + (chance >> 40) % (3 * pages));
                let start = at;
                at += 4 * KIB * (1 + (chance >> 20) % pages);
                read(number, "/f", start..at)
            })
            .collect();
        let needed: u64 = needs.iter().map(|need| need.range.end - need.range.start).sum();
        let plan = Plan::new(learned(WHOLE, &[&needs]));
        let bytes = plan.bytes();
        assert!(bytes >= needed && bytes <= needed + needed / 10, "{bytes} fetched, {needed} needed");
        assert_eq!(
            plan.bytes(),
            pieces(learned(WHOLE, &[&needs])).iter().map(|one| one.end - one.start).sum()
        );
    }
}

#[test]
fn the_profile_of_a_whole_command_offers_what_one_of_two_runs_used() {
    let (first, second) =
        ([look_up(1, "/both"), look_up(2, "/x1")], [look_up(1, "/both"), look_up(2, "/x2")]);
    assert_eq!(steps(learned(WHOLE, &[&first, &second])), ["look up /both", "look up /x1", "look up /x2"]);
}

#[test]
fn a_general_profile_offers_what_both_of_two_runs_used() {
    let run = |own: &str| [look_up(1, "/both"), look_up(2, own), read(3, "/both", 0..1)];
    let (first, second, third) = (run("/x1"), run("/x2"), run("/x3"));
    for level in [SUBJECT, PROGRAM] {
        assert_eq!(steps(learned(level, &[&first])).len(), 3, "one run is all that is known");
        for runs in [&[&first[..], &second][..], &[&first, &second, &third]] {
            assert_eq!(steps(learned(level, runs)), ["look up /both", "data /both 0..4096"]);
        }
    }
}

#[test]
fn a_changed_file_is_worth_its_first_block_and_a_missing_one_nothing() {
    let needs = [read(9, "/f", MIB..2 * MIB), read(20_000, "/f", 8 * MIB..8 * MIB + 1)];
    let profile = empty(WHOLE).learn(&needs, all_of(8 * MIB + 100), 1);
    let acts: Vec<Act> = Plan::new(profile).map(|step| step.act).skip(1).collect();
    let usable =
        |found: Option<&Identity>| acts.iter().filter_map(|act| act.usable(found)).collect::<Vec<_>>();
    let recorded = file(8 * MIB + 100, 1);
    assert_eq!(usable(Some(&recorded)), [MIB..2 * MIB, 8 * MIB..8 * MIB + 100]);
    let first_block = 0..4096;
    assert_eq!(usable(Some(&file(8 * MIB + 100, 2))), [first_block], "changed");
    assert_eq!(usable(Some(&file(10, 1))), one(0..10), "cut off");
    assert_eq!(usable(Some(&file(0, 1))), [], "emptied");
    assert_eq!(usable(None), [], "gone");
    let elsewhere = Identity { dev: 9, ino: 9, ..recorded };
    assert_eq!(usable(Some(&elsewhere)), usable(Some(&recorded)), "a copy, or another boot");
    assert_eq!(Act::LookUp.usable(Some(&recorded)), None);
}
