//! Value prediction by call site, on simulated programs.

mod support;

use std::sync::atomic::Ordering::Relaxed;

use forebay_policy::price::TIMES_APART;
use forebay_policy::site::{Kind, LastFabricated, Strategy, lookup, outcome};
use forebay_protocol::layout::{CALL_SITES, CallSite};
use proptest::prelude::{Strategy as Values, *};
use support::Chance;

const KINDS: [Kind; 4] = [Kind::Read, Kind::Open, Kind::Stat, Kind::Directory];

/// Judges `times` speculations that end at one site, each with the payoff that the program makes of the
/// strategy; returns the strategies used.
fn speculate(
    sites: &[CallSite; CALL_SITES],
    kind: Kind,
    times: usize,
    mut payoff: impl FnMut(Strategy) -> u32,
) -> Vec<Strategy> {
    (0..times)
        .map(|_| {
            let (index, strategy) = lookup(sites, 42, kind);
            outcome(sites, index, payoff(strategy));
            strategy
        })
        .collect()
}

fn count(used: &[Strategy], wanted: Strategy) -> usize {
    used.iter().filter(|&&strategy| strategy == wanted).count()
}

#[test]
fn every_kind_but_directories_starts_with_hope_and_ends_with_waiting() {
    let sites = support::sites();
    for kind in KINDS {
        let first = kind.ladder()[0];
        assert_eq!(lookup(&sites, 1, kind).1, first);
        // What a directory holds decides all that follows: see the module.
        let waits_first = kind == Kind::Directory;
        assert_eq!(first == Strategy::Wait, waits_first);
        assert_eq!(kind.ladder().last() == Some(&Strategy::Wait), !waits_first);
    }
}

#[test]
fn where_text_is_searched_the_buffer_stays_unchanged() {
    let sites = support::sites();
    let mut chance = Chance(1);
    // Most speculations go on for long; one in ten ends early for reasons of its own.
    let used = speculate(&sites, Kind::Read, 1_000, |strategy| match strategy {
        Strategy::Unchanged if chance.below(10) == 0 => 0,
        Strategy::Unchanged => 200 + chance.below(1_000) as u32,
        _ => 2,
    });
    assert!(count(&used, Strategy::Unchanged) >= 950, "{}", count(&used, Strategy::Unchanged));
}

#[test]
fn where_the_contents_decide_an_early_end_of_file_can_earn_more() {
    let sites = support::sites();
    let used = speculate(&sites, Kind::Read, 500, |strategy| match strategy {
        Strategy::Unchanged | Strategy::Blank => 0,
        Strategy::EndOfFile => 40,
        _ => 6,
    });
    assert_eq!(used[..2], [Strategy::Unchanged, Strategy::EndOfFile]);
    assert!(count(&used, Strategy::EndOfFile) >= 490, "{}", count(&used, Strategy::EndOfFile));
}

#[test]
fn where_every_made_up_value_is_fatal_the_speculator_waits() {
    let sites = support::sites();
    let used = speculate(&sites, Kind::Read, 650, |strategy| if strategy == Strategy::Wait { 6 } else { 1 });
    assert!(used[..10].contains(&Strategy::Wait), "{:?}", &used[..10]);
    assert!(count(&used, Strategy::Wait) >= 600, "{}", count(&used, Strategy::Wait));
    assert!(count(&used, Strategy::Wait) < 650 - 8, "others are looked at now and then");
}

#[test]
fn when_nothing_breaks_even_the_best_is_kept() {
    let sites = support::sites();
    for (kind, best) in [(Kind::Stat, Strategy::Missing), (Kind::Open, Strategy::Placeholder)] {
        let used = speculate(&sites, kind, 300, |strategy| u32::from(strategy == best) * 2);
        assert!(count(&used, best) > 250, "{kind:?} {}", count(&used, best));
    }
}

#[test]
fn one_bad_end_does_not_condemn_and_three_do() {
    for payoff in [20, 500, u32::MAX] {
        let sites = support::sites();
        let (index, _) = lookup(&sites, 42, Kind::Open);
        let strategy = || lookup(&sites, 42, Kind::Open).1;
        for _ in 0..20 {
            outcome(&sites, index, payoff);
        }
        assert_eq!(strategy(), Strategy::Placeholder);
        outcome(&sites, index, 0);
        assert_eq!(strategy(), Strategy::Placeholder);
        outcome(&sites, index, 0);
        outcome(&sites, index, 0);
        assert_eq!(strategy(), Strategy::Wait, "after {payoff}");
    }
}

#[test]
fn a_change_of_phase_is_noticed() {
    let sites = support::sites();
    let fatal = |strategy| if strategy == Strategy::Wait { 8 } else { 0 };
    let used = speculate(&sites, Kind::Open, 100, fatal);
    assert_eq!(used[99], Strategy::Wait);
    let used =
        speculate(&sites, Kind::Open, 200, |strategy| if strategy == Strategy::Wait { 8 } else { 300 });
    assert!(count(&used, Strategy::Placeholder) > 200 - TIMES_APART as usize - 2);
    let used = speculate(&sites, Kind::Open, 200, fatal);
    assert!(count(&used, Strategy::Wait) > 190);
}

#[test]
fn kinds_at_one_place_are_sites_of_their_own() {
    let sites = support::sites();
    let mut indices: Vec<u32> = KINDS.iter().map(|&kind| lookup(&sites, 9, kind).0).collect();
    for (&index, kind) in indices.iter().zip(KINDS) {
        assert_eq!(lookup(&sites, 9, kind).0, index);
    }
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), 4);
}

#[test]
fn where_there_is_no_room_a_site_takes_the_place_of_another_one() {
    let sites = support::sites();
    let mut chance = Chance(3);
    for key in (0..4 * CALL_SITES).map(|_| chance.bits()) {
        let placed = lookup(&sites, key, Kind::Read);
        assert_eq!(placed.1, Kind::Read.ladder()[0], "nothing is known of it");
        assert_eq!(lookup(&sites, key, Kind::Read), placed);
        outcome(&sites, placed.0, 0);
        assert_ne!(lookup(&sites, key, Kind::Read).1, placed.1, "what it has learned");
    }
    let taken = sites.iter().filter(|site| site.key.load(Relaxed) != 0).count();
    assert!(taken >= CALL_SITES * 9 / 10, "{taken}");
}

#[test]
fn a_program_of_many_short_processes_keeps_its_sites_beside_others() {
    let sites = support::sites();
    let mut chance = Chance(4);
    // Twenty sites each of forty programs.
    let keys: Vec<u64> = (0..800).map(|_| chance.bits()).collect();
    for &key in &keys {
        outcome(&sites, lookup(&sites, key, Kind::Read).0, 0);
    }
    let known = keys.iter().filter(|&&key| lookup(&sites, key, Kind::Read).1 != Kind::Read.ladder()[0]);
    assert!(known.count() > 700);
}

#[test]
fn the_last_fabricated_value_survives_packing() {
    assert_eq!(LastFabricated::unpack(0), None);
    for last in [LastFabricated { site: 0, position: 0 }, LastFabricated { site: 255, position: u32::MAX }] {
        assert_eq!(LastFabricated::unpack(last.pack()), Some(last));
    }
}

fn kind() -> impl Values<Value = Kind> {
    prop::sample::select(&KINDS[..])
}

proptest! {
    #[test]
    fn garbage_in_the_table_is_some_valid_state(
        words in prop::collection::vec(any::<(u64, u64)>(), CALL_SITES), keys in prop::collection::vec(any::<u64>(), 1..20),
        kind in kind(), payoffs in prop::collection::vec(any::<u32>(), 1..100), stray in any::<u32>(),
    ) {
        let sites = support::sites();
        for (site, (key, state)) in sites.iter().zip(&words) {
            site.key.store(if key % 4 == 0 { 0 } else { *key }, Relaxed);
            site.state.store(*state, Relaxed);
        }
        outcome(&sites, stray, 7);
        for key in keys {
            for &payoff in &payoffs {
                let (index, strategy) = lookup(&sites, key, kind);
                prop_assert!((index as usize) < CALL_SITES);
                prop_assert!(kind.ladder().contains(&strategy));
                outcome(&sites, index, payoff);
            }
        }
        for index in 0..CALL_SITES as u32 {
            outcome(&sites, index, 0);
        }
    }

    #[test]
    fn from_any_state_a_site_comes_to_wait_where_only_that_pays(state in any::<u64>(), kind in kind()) {
        let sites = support::sites();
        let (index, _) = lookup(&sites, 42, kind);
        sites[index as usize].state.store(state, Relaxed);
        let used = speculate(&sites, kind, 300, |strategy| if strategy == Strategy::Wait { 30 } else { 0 });
        prop_assert!(count(&used[200..], Strategy::Wait) >= 95, "{used:?}");
    }
}
