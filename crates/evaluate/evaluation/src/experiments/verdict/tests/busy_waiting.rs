//! Servers whose processors are full: of work, or of waiting.

use super::*;

/// Eight requests under way, and both processors in use for ten seconds.
fn full(known: impl Fn(&mut Evidence)) -> Evidence {
    let mut full = Evidence {
        processor_s: Some(19.0),
        machine_processor_s: Some(20.0),
        threads_at_work: Some(8.0),
        ..evidence(Threads { processor: 8.0, idle: 0.0, ..NONE })
    };
    known(&mut full);
    full
}

/// The same with one client.
fn alone(all: &Evidence, requests: f64, processor_s: f64) -> Evidence {
    Evidence { requests, processor_s: Some(processor_s), in_flight: Some(1.0), ..all.clone() }
}

fn said(all: &Evidence, one: &Evidence) -> Verdict {
    let verdict = Verdict::of(all);
    assert_eq!(verdict.asks_for, Some(Fewer::One), "{verdict:?}");
    verdict.knowing_fewer_clients(all, one)
}

#[test]
fn requests_that_cost_a_fraction_with_one_client_waited_for_each_other() {
    let all = full(|_| ());
    let spun = said(&all, &alone(&all, 9_000.0, 0.3));
    assert_eq!((spun.limit, spun.limit_with_name().as_str()), (Limit::Lock, "lock (busy waiting)"));
    assert!(spun.evidence[0].contains("answers 90 % as many") && spun.undecided.is_empty(), "{spun:?}");
    // Two at a time sleep, and six spin.
    assert_eq!(said(&all, &alone(&all, 5_000.0, 0.2)).limit, Limit::Lock);
    // What the lock protects is work, and eight threads on two processors leave it a quarter of one.
    assert_eq!(said(&all, &alone(&all, 40_000.0, 9.5)).limit, Limit::Lock);
}

#[test]
fn work_costs_the_same_for_each_request() {
    let all = full(|_| ());
    for (requests, processor_s) in [(5_000.0, 9.5), (4_000.0, 9.5), (6_600.0, 9.5)] {
        let work = said(&all, &alone(&all, requests, processor_s));
        assert_eq!((work.limit, work.name.as_deref()), (Limit::Processor, None), "{work:?}");
    }
    // Memory that many processors share makes requests dearer, and leaves more answers.
    let shared = full(|evidence| {
        (evidence.processors, evidence.processor_s) = (8.0, Some(79.0));
        evidence.machine_processor_s = Some(80.0);
    });
    let shared = said(&shared, &alone(&shared, 5_000.0, 9.5));
    assert_eq!((shared.limit, shared.undecided.is_empty()), (Limit::Processor, false), "{shared:?}");
}

#[test]
fn threads_that_seem_to_sleep_because_others_have_the_processors_are_asked_about() {
    // Few threads spin for many requests, and one of those sleeps.
    let crowded = full(|evidence| {
        evidence.processor_s = Some(0.6);
        evidence.threads = Some(Threads { processor: 2.7, asleep: 1.0, idle: 4.3, ..NONE });
        evidence.threads_at_work = Some(4.0);
    });
    assert_eq!(Verdict::of(&crowded).limit, Limit::Sleep);
    assert_eq!(said(&crowded, &alone(&crowded, 9_000.0, 0.05)).limit, Limit::Lock);
    let asleep =
        Evidence { threads: Some(Threads { processor: 0.3, asleep: 7.0, idle: 0.7, ..NONE }), ..crowded };
    assert_eq!(Verdict::of(&asleep).asks_for, None);
}

#[test]
fn what_may_be_waiting_is_said_with_its_share() {
    let all = full(|_| ());
    // Computations that others make void: two processors do the work of one.
    let void = said(&all, &alone(&all, 10_000.0, 9.5));
    assert_eq!(void.limit_with_name(), "processor (of which 50 % may be waiting)", "{void:?}");
    let few = said(&all, &alone(&all, 3.0, 0.001));
    assert_eq!(few.limit_with_name(), "processor", "{few:?}");
}

#[test]
fn a_server_that_computes_without_a_load_looks_for_work() {
    let all = full(|evidence| {
        (evidence.threads_at_work, evidence.processor_s) = (Some(1.0), Some(9.9));
        evidence.threads = Some(Threads { processor: 1.0, idle: 0.0, ..NONE });
        evidence.threads_at_rest = Threads { processor: 1.0, ..NONE };
        evidence.in_flight = Some(8.0);
    });
    let own_wait = said(&all, &alone(&all, 1_250.0, 9.9));
    assert_eq!(
        (own_wait.limit, own_wait.limit_in_words().as_str()),
        (Limit::Undecided, WAITS),
        "{own_wait:?}"
    );
    let either = said(&all, &alone(&all, 9_000.0, 9.9));
    assert!(either.limit_with_name().ends_with("(of which 100 % may be waiting)"), "{either:?}");
}

#[test]
fn requests_that_each_spin_until_a_time_wait_for_it() {
    let all = full(|_| ());
    let timed = said(&all, &alone(&all, 1_250.0, 9.9));
    assert_eq!((timed.limit, timed.limit_in_words().as_str()), (Limit::Undecided, WAITS), "{timed:?}");
    // Two processors work for two clients twice as fast as one for one, though that one has each request wake it up.
    let two = full(|evidence| evidence.in_flight = Some(2.0));
    assert_eq!(said(&two, &alone(&two, 5_000.0, 19.0)).limit, Limit::Processor);
}

#[test]
fn a_server_that_computes_while_its_only_request_waits_elsewhere_polls() {
    let all = full(|evidence| {
        (evidence.threads_at_work, evidence.processor_s) = (Some(1.0), Some(9.9));
        evidence.threads = Some(Threads { processor: 1.0, idle: 0.0, ..NONE });
        evidence.dependencies = asked(0.95, 1.0);
    });
    assert_eq!(Verdict::of(&all).limit, Limit::Processor);
    let polled = said(&all, &alone(&all, 9_000.0, 9.9));
    assert_eq!(polled.limit_with_name(), "dependency 127.0.0.1:5432");
    let (calls, call_bytes, system_s) = (Some(1e6), Some(1e5), Some(8.0));
    let empty = Verdict::of(&Evidence { calls, call_bytes, system_s, ..all });
    assert!(empty.findings[0].to_string().contains("mostly finds nothing"), "{empty:?}");
}
