mod busy_waiting;
mod elsewhere;
mod memory;

use forebay_results::Tier;

use super::*;
use crate::experiments::{Ceilings, Clients, Dependency, DiskQueue, Generator, Misses, Throttled, Timeouts};

/// Eight clients, ten seconds, two processors; the rest is what the server's threads do.
fn evidence(threads: Threads) -> Evidence {
    Evidence {
        seconds: 10.0,
        processors: 2.0,
        requests: 10_000.0,
        bytes: 1e8,
        in_flight: Some(8.0),
        generator: Some(Generator { threads: 1.0, processor_s: 2.0, queued_s: 0.0 }),
        threads: Some(threads),
        processor_s: Some(10.0 * threads.processor.clamp(0.1, 1.0)),
        system_s: Some(1.0),
        major_faults: Some(0.0),
        ..Evidence::default()
    }
}

fn limit(threads: Threads) -> Limit {
    Verdict::of(&evidence(threads)).limit
}

/// Eight threads, all of them idle.
const NONE: Threads = Threads {
    processor: 0.0,
    fault: 0.0,
    disk: 0.0,
    lock: 0.0,
    address_space: 0.0,
    parked: 0.0,
    send: 0.0,
    asleep: 0.0,
    other: 0.0,
    idle: 8.0,
};

#[test]
fn what_most_threads_wait_for_is_the_limit() {
    assert_eq!(limit(Threads { processor: 4.0, ..NONE }), Limit::Processor);
    assert_eq!(limit(Threads { fault: 6.0, processor: 1.0, ..NONE }), Limit::VirtualMemory);
    assert_eq!(limit(Threads { disk: 6.0, processor: 1.0, ..NONE }), Limit::Disk);
    assert_eq!(limit(Threads { lock: 7.0, asleep: 1.0, ..NONE }), Limit::Lock);
    assert_eq!(limit(Threads { send: 6.0, ..NONE }), Limit::Network);
    assert_eq!(limit(Threads { asleep: 6.0, ..NONE }), Limit::Sleep);
}

#[test]
fn an_idle_server_with_requests_under_way_is_held_up_elsewhere() {
    let idle = evidence(Threads { processor: 0.2, ..NONE });
    assert_eq!(Verdict::of(&idle).limit, Limit::Undecided);
    assert!(Verdict::of(&idle).undecided[0].starts_with("it waits, for what is not known"));
    let busy = Some(Generator { threads: 1.0, processor_s: 6.0, queued_s: 3.0 });
    assert_eq!(Verdict::of(&Evidence { generator: busy, ..idle.clone() }).limit, Limit::LoadGenerator);
    let (machine_processor_s, processor_s) = (Some(19.0), Some(8.0));
    let full = Evidence { generator: busy, machine_processor_s, processor_s, ..idle.clone() };
    assert_eq!(Verdict::of(&full).limit, Limit::Processor);
    let verdict = Verdict::of(&Evidence { generator: None, ..idle });
    assert_eq!((verdict.limit, verdict.undecided.len()), (Limit::Undecided, 1));
}

#[test]
fn threads_of_a_pool_that_wait_for_work_wait_for_no_lock() {
    let threads = Threads { lock: 48.0, processor: 2.0, ..NONE };
    let threads_at_rest = Threads { lock: 50.0, ..NONE };
    let evidence = Evidence { threads_at_rest, ..evidence(threads) };
    assert_eq!(Verdict::of(&evidence).limit, Limit::Processor);
}

#[test]
fn threads_that_share_processors_without_time_left_wait_for_them_first() {
    let threads = Threads { lock: 5.0, processor: 2.0, ..NONE };
    assert_eq!(limit(threads), Limit::Lock);
    let full = Evidence { processor_s: Some(17.0), ..evidence(threads) };
    assert_eq!(Verdict::of(&full).limit, Limit::Processor);
}

#[test]
fn no_more_threads_wait_for_a_lock_than_requests_are_under_way() {
    let many = evidence(Threads { lock: 28.0, processor: 0.1, ..NONE });
    assert_eq!(Verdict::of(&many).limit, Limit::Lock);
    // Of streams nobody knows: what looks like a lock may be a wait for the next frame.
    assert_eq!(Verdict::of(&Evidence { in_flight: None, ..many }).limit, Limit::Undecided);
}

#[test]
fn what_else_the_machine_does_is_no_limit_of_the_server() {
    let queued = evidence(Threads { fault: 3.0, processor: 4.0, ..NONE });
    assert_eq!(Verdict::of(&queued).limit, Limit::Processor);
    let others = Evidence { processor_s: Some(1.0), machine_processor_s: Some(20.0), ..queued };
    assert_eq!(Verdict::of(&others).limit, Limit::VirtualMemory);
}

#[test]
fn a_schedule_that_is_kept_has_no_limit() {
    let kept = Evidence { intended: Some(10_050.0), ..evidence(Threads { processor: 4.0, ..NONE }) };
    assert_eq!(Verdict::of(&kept).limit, Limit::Nothing);
    assert_ne!(Verdict::of(&Evidence { intended: Some(20_000.0), ..kept }).limit, Limit::Nothing);
}

#[test]
fn growth_and_small_calls_are_found_beside_the_limit() {
    let held_bytes = [10.0, 30.0, 50.0].map(|mebibytes| mebibytes * 1_048_576.0).to_vec();
    let odd = Evidence {
        held_bytes,
        system_s: Some(8.0),
        calls: Some(1e6),
        call_bytes: Some(32e6),
        ..evidence(Threads { processor: 4.0, ..NONE })
    };
    let found = Verdict::of(&odd).findings;
    assert!(matches!(found[..], [Finding::Growth { .. }, Finding::SmallCalls { .. }]), "{found:?}");
    let growth = found[0].to_string();
    assert!(growth.contains("4194 B") && growth.contains("a leak, or a cache that is not full"), "{growth}");
}

#[test]
fn nothing_is_decided_where_nothing_was_answered_or_nothing_can_be_seen() {
    let nothing = Evidence { requests: 0.0, ..evidence(NONE) };
    assert_eq!(Verdict::of(&nothing).limit, Limit::Undecided);
    let blind = Evidence { threads: None, processor_s: Some(1.0), ..evidence(NONE) };
    let verdict = Verdict::of(&blind);
    assert_eq!((verdict.limit, verdict.undecided.len()), (Limit::Undecided, 1));
    let computing = Evidence { processor_s: Some(19.0), ..blind };
    assert_eq!(Verdict::of(&computing).limit, Limit::Processor);
    let kernel = Evidence { in_kernel: true, ..computing };
    assert_eq!(Verdict::of(&kernel).limit, Limit::Processor);
    let with_time = Evidence { processor_s: Some(10.0), ..kernel };
    assert_eq!(Verdict::of(&with_time).limit, Limit::Undecided);
}

/// One thread that waits for events while eight clients wait for it, and what else is known.
fn idle(known: impl FnOnce(&mut Evidence)) -> Evidence {
    let mut evidence = evidence(Threads { processor: 0.1, idle: 0.9, ..NONE });
    evidence.threads_at_work = Some(1.0);
    evidence.processor_s = Some(1.0);
    evidence.clients = Some(Clients { connections: 8.0, ..Clients::default() });
    known(&mut evidence);
    evidence
}

fn asked(waiting: f64, connections: f64) -> Vec<Dependency> {
    vec![Dependency { name: "127.0.0.1:5432".into(), connections, waiting, ..Dependency::default() }]
}

#[test]
fn a_quota_that_runs_out_is_named_before_the_processor() {
    let limited = |share| {
        let quota = Some(Throttled { processors: 0.5, share });
        Verdict::of(&Evidence { quota, ..evidence(Threads { processor: 6.0, ..NONE }) }).limit
    };
    assert_eq!((limited(0.9), limited(0.05)), (Limit::Quota, Limit::Processor));
}

#[test]
fn one_thread_that_computes_beside_an_idle_processor_is_told_from_all_of_them() {
    let computing = |known: fn(&mut Evidence)| {
        let mut evidence = evidence(Threads { processor: 0.97, idle: 3.0, ..NONE });
        evidence.threads_at_work = Some(1.0);
        evidence.processor_s = Some(9.5);
        evidence.machine_processor_s = Some(12.0);
        evidence.busiest_thread = Some(0.97);
        evidence.one_at_a_time = Some(1.0);
        known(&mut evidence);
        Verdict::of(&evidence).limit
    };
    assert_eq!(computing(|_| {}), Limit::OneThread);
    assert_eq!(computing(|evidence| evidence.machine_processor_s = Some(19.5)), Limit::Processor);
    assert_eq!(computing(|evidence| evidence.in_flight = Some(1.0)), Limit::Processor);
    let in_turn: fn(&mut Evidence) = |evidence| {
        evidence.busiest_thread = Some(0.3);
        evidence.threads_at_work = Some(6.0);
        evidence.threads = Some(Threads { processor: 0.97, parked: 4.0, ..NONE });
    };
    assert_eq!(computing(in_turn), Limit::Lock);
}

#[test]
fn a_server_that_may_not_use_all_processors_is_told_so_where_it_fills_those() {
    let bound = |known: fn(&mut Evidence)| {
        let mut evidence = evidence(Threads { processor: 7.5, ..NONE });
        evidence.allowed_processors = Some(1.0);
        evidence.processor_s = Some(9.6);
        evidence.processor_wait_s = Some(60.0);
        evidence.machine_processor_s = Some(12.0);
        known(&mut evidence);
        Verdict::of(&evidence)
    };
    let verdict = bound(|_| {});
    assert_eq!(verdict.limit_with_name(), "processor (it may use 1 of 2)");
    assert!(verdict.evidence[0].contains("taskset"), "{verdict:?}");
    // It may use all, none is idle, it does not wait for one, or has other things to wait for.
    let name = |known: fn(&mut Evidence)| bound(known).limit_with_name();
    assert_eq!(name(|evidence| evidence.allowed_processors = Some(2.0)), "processor");
    assert_eq!(name(|evidence| evidence.machine_processor_s = Some(19.8)), "processor");
    assert_eq!(name(|evidence| evidence.processor_wait_s = Some(0.2)), "processor");
    assert_eq!(name(|evidence| evidence.processor_s = Some(4.0)), "processor");
}

/// Goroutines that compute in turn, where looks find threads of the runtime running that look for work.
fn counted_in_turn(known: fn(&mut Evidence)) -> Evidence {
    let mut evidence = evidence(Threads { processor: 1.6, parked: 4.0, idle: 2.0, ..NONE });
    evidence.threads_at_work = Some(7.0);
    evidence.processor_s = Some(10.1);
    evidence.processor_wait_s = Some(0.4);
    evidence.machine_processor_s = Some(12.0);
    evidence.busiest_thread = Some(0.4);
    evidence.one_at_a_time = Some(0.5);
    known(&mut evidence);
    evidence
}

#[test]
fn threads_that_use_one_processor_together_and_wait_for_no_other_compute_in_turn() {
    let told = |known: fn(&mut Evidence)| Verdict::of(&counted_in_turn(known)).limit;
    let in_turn = Verdict::of(&counted_in_turn(|_| {}));
    assert!(in_turn.limit == Limit::Lock && in_turn.evidence[0].contains("in turn"), "{in_turn:?}");
    // They wait for processors, there is none, the load has no more, or another server answers late.
    assert_eq!(told(|evidence| evidence.processor_wait_s = Some(8.0)), Limit::Processor);
    assert_eq!(told(|evidence| evidence.machine_processor_s = Some(19.0)), Limit::Processor);
    assert_eq!(told(|evidence| evidence.in_flight = Some(2.0)), Limit::Processor);
    assert_ne!(told(|evidence| evidence.dependencies = asked(6.0, 8.0)), Limit::Lock);
}

#[test]
fn fewer_clients_tell_a_turn_from_a_chance() {
    let all = counted_in_turn(|_| {});
    let fewer = |requests| Evidence { requests, in_flight: Some(4.0), ..all.clone() };
    let knowing = |requests| Verdict::of(&all).knowing_fewer_clients(&all, &fewer(requests)).limit;
    assert_eq!((knowing(9_900.0), knowing(5_000.0)), (Limit::Lock, Limit::Undecided));
}

#[test]
fn threads_behind_the_address_space_wait_for_a_lock_and_no_disk() {
    let convoy = Verdict::of(&evidence(Threads { address_space: 6.0, processor: 1.5, ..NONE }));
    assert_eq!(convoy.limit, Limit::Lock);
    assert!(convoy.evidence[0].contains("address space"), "{convoy:?}");
}

#[test]
fn one_client_takes_turns_with_its_server() {
    let turns = idle(|evidence| {
        evidence.in_flight = Some(1.0);
        evidence.threads = Some(Threads { processor: 0.45, idle: 0.55, ..NONE });
        evidence.processor_s = Some(4.5);
    });
    assert_eq!(Verdict::of(&turns).limit, Limit::LoadGenerator);
}

#[test]
fn small_answers_are_no_small_buffers() {
    let small_answers = Evidence {
        system_s: Some(8.0),
        calls: Some(20e3),
        call_bytes: Some(2e6),
        ..evidence(Threads { processor: 4.0, ..NONE })
    };
    assert!(Verdict::of(&small_answers).findings.is_empty());
}

#[test]
fn threads_that_no_look_found_at_work_are_not_all_busy() {
    let seldom = Evidence { threads_at_work: Some(0.0), processor_s: Some(1.4), ..evidence(NONE) };
    let verdict = Verdict::of(&seldom);
    assert!(verdict.limit == Limit::Undecided && verdict.asks_for == Some(Fewer::Half), "{verdict:?}");
}

#[test]
fn a_thread_that_computed_by_the_kernels_count_is_busy_however_seldom_a_look_found_it_so() {
    let seldom = Evidence {
        processor_s: Some(9.2),
        machine_processor_s: Some(16.8),
        threads_at_work: Some(1.0),
        busiest_thread: Some(0.2),
        ..evidence(Threads { processor: 0.2, ..NONE })
    };
    assert_eq!(Verdict::of(&seldom).limit, Limit::OneThread);
}

#[test]
fn a_load_that_cannot_read_because_others_have_the_processors_is_no_limit() {
    let clients = Clients { connections: 8.0, untaken: 5.0, ..Clients::default() };
    let lying = Evidence { clients: Some(clients), ..evidence(Threads { processor: 0.1, ..NONE }) };
    let of = |machine_processor_s| Verdict::of(&Evidence { machine_processor_s, ..lying.clone() }).limit;
    assert_eq!((of(Some(4.0)), of(Some(19.9))), (Limit::LoadGenerator, Limit::Undecided));
}
