//! Runs the five programs on one to four hosts, in all granularities, against their sequential forms. The checks of the
//! results are independent of both forms.

use std::thread;

use forebay_millipage::{Error, Granularity, Host, Options, in_process};
use forebay_share_workload::kernels::{is, lu, sor, tsp, water};

/// What each host's part of a program returns.
fn run<R: Send>(
    hosts: u16,
    granularity: Granularity,
    part: impl Fn(&Host) -> Result<R, Error> + Sync,
) -> Vec<R> {
    let options = Options { bytes: 4 << 20, views: 16, at: None, granularity };
    let hosts = in_process(hosts, options).unwrap();
    thread::scope(|scope| {
        let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(|| part(host).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn each(mut check: impl FnMut(u16, Granularity)) {
    for granularity in [Granularity::Fine, Granularity::Page] {
        (1..=4).for_each(|hosts| check(hosts, granularity));
    }
}

#[test]
fn sor_is_the_same_to_the_last_bit() {
    let parameters = sor::Parameters { rows: 61, columns: 20, iterations: 12 };
    let alone = sor::sequential(&parameters);
    let fewer = sor::sequential(&sor::Parameters { iterations: 11, ..parameters });
    assert_ne!(alone, fewer, "the checksum tells iterations apart");
    each(|hosts, granularity| {
        let outcomes = run(hosts, granularity, |host| sor::parallel(host, &parameters));
        assert!(outcomes.iter().all(|outcome| *outcome == alone), "{hosts}, {granularity:?}: {outcomes:?}");
    });
}

/// Where the edge is all that is not even, the inside becomes even.
#[test]
fn sor_of_few_rows_leaves_hosts_without_work() {
    let parameters = sor::Parameters { rows: 1, columns: 2, iterations: 3 };
    let alone = sor::sequential(&parameters);
    assert!(
        run(4, Granularity::Fine, |host| sor::parallel(host, &parameters)).iter().all(|one| *one == alone)
    );
}

#[test]
fn is_passes_the_verification_of_nas() {
    for class in [is::Class::S, is::Class::W] {
        let outcome = is::sequential(&is::Parameters::of(class));
        assert_eq!((outcome.verified, outcome.verifiable), (50, 50), "{class:?}");
    }
    let parameters = is::Parameters::of(is::Class::S);
    let alone = is::sequential(&parameters);
    each(|hosts, granularity| {
        let outcomes = run(hosts, granularity, |host| is::parallel(host, &parameters));
        assert!(outcomes.iter().all(|outcome| *outcome == alone), "{hosts}, {granularity:?}: {outcomes:?}");
    });
}

#[test]
fn is_of_class_a_passes_too() {
    let parameters = is::Parameters::of(is::Class::A);
    let outcomes = run(2, Granularity::Fine, |host| is::parallel(host, &parameters));
    assert!(
        outcomes.iter().all(|outcome| (outcome.verified, outcome.verifiable) == (50, 50)),
        "{outcomes:?}"
    );
}

#[test]
fn water_keeps_its_energy() {
    for chunk in [1, 5] {
        let parameters = water::Parameters { side: 4, steps: 20, chunk };
        let alone = water::sequential(&parameters);
        assert!(alone.kinetic > 1.0, "molecules move: {alone:?}");
        // What a step as long as this one costs; a wrong force costs much more.
        assert!((alone.energy - alone.energy_before).abs() < 1e-3 * alone.kinetic, "{alone:?}");
        each(|hosts, granularity| {
            let outcomes = run(hosts, granularity, |host| water::parallel(host, &parameters));
            for outcome in outcomes {
                // Sums in another order.
                assert!(
                    (outcome.energy - alone.energy).abs() < 1e-7 * alone.energy.abs(),
                    "{outcome:?} {alone:?}"
                );
                assert!(
                    (outcome.kinetic - alone.kinetic).abs() < 1e-7 * alone.kinetic,
                    "{outcome:?} {alone:?}"
                );
            }
        });
    }
}

#[test]
fn lu_solves_a_system() {
    let parameters = lu::Parameters { blocks: 7, block: 12 };
    let alone = lu::sequential(&parameters).check();
    assert!(alone.error < 1e-12, "{alone:?}");
    each(|hosts, granularity| {
        let outcomes = run(hosts, granularity, |host| {
            let outcome = lu::parallel(host, &parameters)?.check();
            // No host leaves while others read.
            host.barrier()?;
            Ok(outcome)
        });
        assert!(outcomes.iter().all(|outcome| *outcome == alone), "{hosts}, {granularity:?}: {outcomes:?}");
    });
}

#[test]
fn tsp_finds_what_dynamic_programming_finds() {
    for seed in 1..6 {
        let parameters = tsp::Parameters { cities: 11, level: 4, seed };
        let shortest = tsp::held_karp(&parameters);
        assert_eq!(tsp::sequential(&parameters).length, shortest, "{seed}");
        each(|hosts, granularity| {
            let outcomes = run(hosts, granularity, |host| tsp::parallel(host, &parameters));
            assert!(
                outcomes.iter().all(|outcome| outcome.length == shortest),
                "{hosts}, {granularity:?}: {outcomes:?}"
            );
            assert!(outcomes.iter().any(|outcome| outcome.taken > 0));
        });
    }
}
