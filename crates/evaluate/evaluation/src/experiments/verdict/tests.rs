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
fn a_disk_that_brings_back_what_memory_had_is_too_little_memory() {
    let waiting = evidence(Threads { disk: 6.0, ..NONE });
    let again = Evidence { refaults: Some(900.0), disk_read_bytes: Some(4_096_000.0), ..waiting.clone() };
    assert_eq!(Verdict::of(&again).limit, Limit::VirtualMemory);
    let first = Evidence { refaults: Some(100.0), disk_read_bytes: Some(4_096_000.0), ..waiting };
    assert_eq!(Verdict::of(&first).limit, Limit::Disk);
}

#[test]
fn no_more_threads_wait_for_a_lock_than_requests_are_under_way() {
    let many = evidence(Threads { lock: 28.0, processor: 0.1, ..NONE });
    assert_eq!(Verdict::of(&many).limit, Limit::Lock);
    // Of streams nobody knows: what looks like a lock may be a wait for the next frame.
    assert_eq!(Verdict::of(&Evidence { in_flight: None, ..many }).limit, Limit::Undecided);
}

#[test]
fn those_that_wait_for_one_that_waits_for_memory_wait_for_memory() {
    assert_eq!(limit(Threads { lock: 7.0, fault: 0.9, processor: 0.1, ..NONE }), Limit::VirtualMemory);
    assert_eq!(limit(Threads { lock: 7.0, disk: 0.9, processor: 0.1, ..NONE }), Limit::Disk);
    assert_eq!(limit(Threads { lock: 7.0, processor: 0.9, disk: 0.1, ..NONE }), Limit::Lock);
}

#[test]
fn what_else_the_machine_does_is_no_limit_of_the_server() {
    let queued = evidence(Threads { fault: 3.0, processor: 4.0, ..NONE });
    assert_eq!(Verdict::of(&queued).limit, Limit::Processor);
    let others = Evidence { processor_s: Some(1.0), machine_processor_s: Some(20.0), ..queued };
    assert_eq!(Verdict::of(&others).limit, Limit::VirtualMemory);
}

#[test]
fn more_memory_that_makes_it_faster_shows_that_memory_limits() {
    let computing = evidence(Threads { processor: 4.0, ..NONE });
    let short = Evidence { refaults: Some(20_000.0), requests: 5_000.0, ..computing.clone() };
    let with_more = Verdict::knowing(&short, &computing);
    assert_eq!(with_more.limit, Limit::VirtualMemory, "{with_more:?}");
    let hardly_faster = Evidence { requests: 5_500.0, ..computing.clone() };
    assert_eq!(Verdict::knowing(&short, &hardly_faster).limit, Limit::Processor);
    // What does not come back has nothing to do with memory.
    let never_back = Evidence { refaults: Some(10.0), ..short };
    assert_eq!(Verdict::knowing(&never_back, &computing).limit, Limit::Processor);
    // Nobody is any number of times as fast as one that answers nothing.
    let nothing = Evidence { requests: 0.0, ..never_back };
    assert_eq!(Verdict::knowing(&nothing, &computing).limit, Limit::Undecided);
}

#[test]
fn an_estimate_is_not_believed_where_the_difference_was_measured() {
    // By the estimate bringing pages back takes all of the processor time.
    let computing = evidence(Threads { processor: 4.0, ..NONE });
    let short = Evidence {
        refaults: Some(20_000.0),
        page_back_s: Some(1e-3),
        disk_read_bytes: Some(20_000.0 * 4096.0),
        ..computing.clone()
    };
    assert_eq!(Verdict::of(&short).limit, Limit::VirtualMemory);
    assert_eq!(Verdict::knowing(&short, &computing).limit, Limit::Processor);
}

/// Apache with documents of 10 KiB to 16 clients, of which 24 and 16 MiB of memory have room for a part.
#[test]
fn every_run_of_a_server_that_thrashes_on_a_fast_disk_lacks_memory() {
    let run = |requests, processor_s, read_bytes, page_back_us, threads: Threads| Evidence {
        seconds: 3.0,
        processors: 2.0,
        requests,
        bytes: requests * 10_240.0,
        in_flight: Some(15.8),
        generator: Some(Generator { threads: 1.0, processor_s: 0.4, queued_s: 2.2 }),
        threads: Some(threads),
        threads_at_rest: Threads { lock: 64.0, idle: 5.0, ..NONE },
        processor_s: Some(processor_s),
        machine_processor_s: Some(5.95),
        refaults: Some(requests * 0.3),
        disk_read_bytes: Some(read_bytes * requests),
        served_of_bytes: Some(67_112_960.0),
        page_back_s: Some(page_back_us * 1e-6),
        ..Evidence::default()
    };
    let on_processors = |processor, disk| Threads { processor, disk, lock: 54.0, idle: 4.5, ..NONE };
    let with_all = Evidence { page_back_s: None, ..run(66_066.0, 3.6, 1.0, 0.0, on_processors(6.0, 0.0)) };
    let short = [
        run(33_465.0, 3.73, 9_369.0, 9.6, on_processors(6.5, 1.5)),
        run(36_834.0, 3.68, 9_339.0, 7.5, on_processors(8.0, 0.75)),
        run(39_558.0, 3.85, 9_356.0, 12.7, on_processors(6.0, 0.0)),
        run(38_832.0, 3.50, 9_393.0, 7.6, on_processors(22.0, 0.0)),
        run(30_981.0, 3.02, 10_697.0, 10.0, on_processors(7.33, 5.33)),
        run(27_198.0, 2.81, 10_551.0, 8.3, on_processors(11.0, 0.5)),
    ];
    let by_themselves = short.iter().filter(|run| Verdict::of(run).limit == Limit::VirtualMemory).count();
    assert!(by_themselves < short.len(), "an estimate would do");
    for run in &short {
        let verdict = Verdict::knowing(run, &with_all);
        assert_eq!(verdict.limit, Limit::VirtualMemory, "{verdict:?}");
        assert!(verdict.evidence[0].starts_with("with more memory it answers"), "{verdict:?}");
    }
    assert_eq!(Verdict::of(&with_all).limit, Limit::Processor);
}

#[test]
fn a_processor_that_is_busy_bringing_pages_back_lacks_memory() {
    let computing = evidence(Threads { processor: 4.0, ..NONE });
    // 20,000 pages at 100 us are 2 of the 10 seconds: without them it would be 1.25 times as fast.
    let short = Evidence {
        refaults: Some(20_000.0),
        page_back_s: Some(100e-6),
        disk_read_bytes: Some(20_000.0 * 4096.0),
        ..computing
    };
    assert_eq!(Verdict::of(&short).limit, Limit::VirtualMemory, "{:?}", Verdict::of(&short));
    let others = [
        // Faster by 1.11 only.
        Evidence { page_back_s: Some(50e-6), ..short.clone() },
        Evidence { page_back_s: None, ..short.clone() },
        // Most was never in memory: more memory would change little.
        Evidence { disk_read_bytes: Some(60_000.0 * 4096.0), ..short.clone() },
        Evidence { refaults: Some(900.0), ..short },
    ];
    for other in others {
        assert_eq!(Verdict::of(&other).limit, Limit::Processor, "{other:?}");
    }
}

#[test]
fn pages_of_files_that_memory_never_had_are_the_disks() {
    let faults = evidence(Threads { fault: 6.0, ..NONE });
    let first = Evidence {
        refaults: Some(0.0),
        major_faults: Some(1_000.0),
        disk_read_bytes: Some(4_096_000.0),
        ..faults
    };
    assert_eq!(Verdict::of(&first).limit, Limit::Disk);
}

#[test]
fn caches_and_memory_are_told_from_the_processor_by_misses_only() {
    let computing = evidence(Threads { processor: 4.0, ..NONE });
    assert_eq!(Verdict::of(&computing).undecided.len(), 1);
    let ceilings = Some(Ceilings { cache_s: 10e-9, memory_s: 100e-9, memory_bytes_per_s: 10e9 });
    let with = |first, last, requests| {
        let misses = Some(Misses { first, last, tier: Tier::Simulated });
        Verdict::of(&Evidence { misses, ceilings, requests, ..computing.clone() })
    };
    // A request takes 1 ms of processor time; 5,000 misses of memory are half of that.
    assert_eq!(with(5_000.0, 5_000.0, 10_000.0).limit, Limit::Cache);
    assert_eq!(with(5_000.0, 0.0, 10_000.0).limit, Limit::Processor);
    assert!(with(5_000.0, 0.0, 10_000.0).undecided.is_empty());
    // A hundred thousand lines for each of ten thousand requests in ten seconds are 6.4 GB/s.
    assert_eq!(with(100_000.0, 100_000.0, 10_000.0).limit, Limit::MainMemory);
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
    assert!(found[0].to_string().contains("4194 B"), "{}", found[0]);
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
    vec![Dependency { name: "127.0.0.1:5432".into(), connections, waiting, own: false }]
}

fn within_10_ms(threads: f64) -> Timeouts {
    let mut timeouts = Timeouts::default();
    timeouts.add(0.008, threads);
    timeouts
}

#[test]
fn requests_that_wait_for_another_server_are_named_after_it() {
    let verdict = Verdict::of(&idle(|evidence| evidence.dependencies = asked(7.5, 8.0)));
    assert_eq!(
        (verdict.limit, verdict.limit_with_name().as_str()),
        (Limit::Dependency, "dependency 127.0.0.1:5432")
    );
    assert!(verdict.undecided.is_empty(), "{verdict:?}");
    // A proxy computes a little for each answer, which is not what holds it up.
    let proxy = idle(|evidence| {
        evidence.threads = Some(Threads { processor: 0.55, idle: 0.45, ..NONE });
        evidence.dependencies = asked(6.0, 8.0);
    });
    assert_eq!(Verdict::of(&proxy).limit, Limit::Dependency);
    let computing = idle(|evidence| {
        evidence.threads = Some(Threads { processor: 0.95, idle: 0.05, ..NONE });
        evidence.dependencies = asked(2.0, 8.0);
    });
    assert_eq!(Verdict::of(&computing).limit, Limit::Processor);
}

#[test]
fn a_pool_whose_members_all_wait_is_the_workers() {
    let pool = idle(|evidence| {
        evidence.dependencies = asked(1.95, 2.0);
        evidence.clients = Some(Clients { connections: 8.0, unread: 6.0, ..Clients::default() });
    });
    let verdict = Verdict::of(&pool);
    assert_eq!(verdict.limit, Limit::Workers, "{verdict:?}");
    assert!(verdict.evidence.iter().any(|reason| reason.contains("127.0.0.1:5432")), "{verdict:?}");
    let half_used = idle(|evidence| evidence.dependencies = asked(1.0, 4.0));
    assert_eq!(Verdict::of(&half_used).limit, Limit::Undecided);
    let one_of_two = idle(|evidence| evidence.dependencies = asked(1.9, 4.0));
    assert_eq!(Verdict::of(&one_of_two).limit, Limit::Undecided);
}

#[test]
fn a_server_that_asks_itself_is_what_its_threads_do() {
    let own = |threads| {
        Verdict::of(&idle(|evidence| {
            evidence.dependencies = vec![Dependency { own: true, ..asked(8.0, 8.0).remove(0) }];
            evidence.threads = Some(threads);
            evidence.threads_at_work = Some(9.0);
        }))
        .limit
    };
    assert_eq!(own(Threads { asleep: 7.0, ..NONE }), Limit::Sleep);
    assert_eq!(own(NONE), Limit::Dependency);
}

#[test]
fn answers_that_are_not_taken_are_the_networks_or_the_loads() {
    let clients = |sending, client_full, untaken| {
        let clients = Clients { connections: 8.0, sending, client_full, untaken, ..Clients::default() };
        Verdict::of(&idle(|evidence| evidence.clients = Some(clients)))
    };
    assert_eq!(clients(7.0, 0.0, 0.0).limit, Limit::Network);
    let full = clients(7.0, 6.0, 0.0);
    assert!(full.evidence.iter().any(|reason| reason.contains("without room")), "{full:?}");
    assert_eq!(clients(0.0, 0.0, 7.0).limit, Limit::LoadGenerator);
    assert_eq!(clients(2.0, 0.0, 1.0).limit, Limit::Undecided);
}

#[test]
fn a_disk_that_no_thread_waits_for_is_the_disks_where_its_bytes_are_the_servers() {
    let disk = |read: f64, refaults: f64| {
        Verdict::of(&idle(|evidence| {
            let (name, bytes) = ("loop0".into(), 4_096_000.0);
            evidence.disk = Some(DiskQueue { name, under_way: 7.0, busy: 0.99, bytes });
            evidence.disk_read_bytes = Some(read);
            evidence.refaults = Some(refaults);
        }))
    };
    let verdict = disk(4_096_000.0, 0.0);
    assert_eq!((verdict.limit, verdict.name.as_deref()), (Limit::Disk, Some("loop0")));
    assert_eq!(disk(4_096_000.0, 900.0).limit, Limit::VirtualMemory);
    assert_eq!(disk(40_960.0, 0.0).limit, Limit::Undecided);
}

#[test]
fn timers_as_long_as_a_request_are_a_sleep_or_a_lock_by_what_fewer_clients_get() {
    // Ten thousand requests in ten seconds, eight at a time: 8 ms each.
    let timed = idle(|evidence| evidence.timeouts = within_10_ms(0.9));
    let fewer = |requests| Evidence { requests, in_flight: Some(4.0), ..timed.clone() };
    let verdict = Verdict::of(&timed);
    assert_eq!(verdict.limit, Limit::Sleep, "{verdict:?}");
    let knowing = |requests| verdict.clone().knowing_fewer_clients(&timed, &fewer(requests)).limit;
    assert_eq!(knowing(9_900.0), Limit::Lock);
    assert_eq!(knowing(5_000.0), Limit::Sleep);
    assert_eq!(knowing(7_200.0), Limit::Undecided);
    // A longer one paces nothing, and one that a server has at rest paces no requests.
    let slow = Evidence { requests: 1_000_000.0, ..timed.clone() };
    assert_eq!(Verdict::of(&slow).limit, Limit::Undecided);
    let at_rest = Evidence { timeouts_at_rest: within_10_ms(0.9), ..timed.clone() };
    assert_eq!(Verdict::of(&at_rest).limit, Limit::Undecided);
}

#[test]
fn what_waits_for_an_unknown_thing_is_not_guessed_but_told_from_a_lock() {
    let unknown = idle(|evidence| evidence.leads = vec!["2 connections to /run/db".into()]);
    let verdict = Verdict::of(&unknown);
    assert_eq!(verdict.limit, Limit::Undecided);
    assert!(verdict.undecided[0].contains("/run/db"), "{verdict:?}");
    let fewer = |requests| Evidence { requests, in_flight: Some(4.0), ..unknown.clone() };
    assert_eq!(verdict.clone().knowing_fewer_clients(&unknown, &fewer(10_000.0)).limit, Limit::Lock);
    assert_eq!(verdict.knowing_fewer_clients(&unknown, &fewer(5_000.0)).limit, Limit::Undecided);
}

#[test]
fn fewer_clients_tell_nothing_of_a_server_that_computes() {
    let computing = idle(|evidence| {
        evidence.threads = Some(Threads { processor: 0.6, idle: 1.4, ..NONE });
        evidence.threads_at_work = Some(2.0);
    });
    let fewer = Evidence { in_flight: Some(4.0), ..computing.clone() };
    let verdict = Verdict::of(&computing);
    assert_eq!(verdict.limit, Limit::Undecided);
    assert_eq!(verdict.knowing_fewer_clients(&computing, &fewer).limit, Limit::Undecided);
}

#[test]
fn a_verdict_that_was_not_in_question_stays() {
    let late = idle(|evidence| evidence.dependencies = asked(7.5, 8.0));
    let fewer = Evidence { in_flight: Some(4.0), ..late.clone() };
    assert_eq!(Verdict::of(&late).knowing_fewer_clients(&late, &fewer), Verdict::of(&late));
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
fn new_memory_for_each_request_is_found() {
    let touching = Evidence { minor_faults: Some(20e6), ..evidence(Threads { processor: 4.0, ..NONE }) };
    let found = Verdict::of(&touching).findings;
    assert!(matches!(found[..], [Finding::NewMemory { .. }]), "{found:?}");
    let few = Evidence { minor_faults: Some(1e5), ..touching };
    assert!(Verdict::of(&few).findings.is_empty());
}

#[test]
fn what_new_memory_takes_is_what_it_takes_on_this_machine_and_no_more_than_the_kernel_took() {
    let shares = |system_s, new_page_s| {
        let threads = Threads { processor: 4.0, ..NONE };
        let touching =
            Evidence { minor_faults: Some(4e6), system_s: Some(system_s), new_page_s, ..evidence(threads) };
        assert_eq!(Verdict::asks_for_new_page(&touching), new_page_s.is_none());
        Verdict::of(&touching).findings
    };
    assert!(shares(8.0, None).is_empty());
    assert_eq!(shares(8.0, Some(1e-6)), [Finding::NewMemory { faults_per_request: 400.0, share: 0.4 }]);
    assert_eq!(shares(3.0, Some(1e-6)), [Finding::NewMemory { faults_per_request: 400.0, share: 0.3 }]);
    assert!(shares(1.0, Some(1e-6)).is_empty());
}

#[test]
fn faults_that_take_most_of_the_processor_time_are_new_memorys_with_the_lock_that_they_need() {
    let limit = |threads, new_page_s, system_s| {
        let (minor_faults, system_s) = (Some(8e6), Some(system_s));
        Verdict::of(&Evidence { minor_faults, system_s, new_page_s, ..evidence(threads) }).limit
    };
    let computing = Threads { processor: 4.0, ..NONE };
    assert_eq!(limit(computing, Some(1e-6), 9.0), Limit::NewMemory);
    // What was not measured here, or is more than the kernel took, names nothing.
    assert_eq!(limit(computing, None, 9.0), Limit::Processor);
    assert_eq!(limit(computing, Some(1e-6), 3.0), Limit::Processor);
    let convoy = Threads { processor: 3.3, fault: 0.9, address_space: 3.5, ..NONE };
    assert_eq!(limit(convoy, Some(1e-6), 9.0), Limit::NewMemory);
    assert_eq!(limit(convoy, Some(1e-8), 9.0), Limit::Undecided);
    assert_eq!(limit(Threads { processor: 1.0, lock: 5.0, ..NONE }, Some(1e-6), 9.0), Limit::Lock);
    let (minor_faults, new_page_s) = (Some(8e6), Some(1e-6));
    let system_s = Some(9.0);
    let of_new = Evidence { minor_faults, new_page_s, system_s, ..evidence(computing) };
    let of_disks = Evidence { major_faults: Some(2_000.0), ..of_new };
    assert_eq!(Verdict::of(&of_disks).limit, Limit::Processor);
}

#[test]
fn pages_that_more_memory_spares_are_memorys_whether_or_not_the_kernel_knows_them_again() {
    let computing = evidence(Threads { processor: 4.0, ..NONE });
    let short = Evidence { major_faults: Some(30_000.0), requests: 5_000.0, ..computing.clone() };
    assert_eq!(Verdict::of(&short).limit, Limit::Processor);
    assert_eq!(Verdict::knowing(&short, &computing).limit, Limit::VirtualMemory);
    // With more memory as many are missed.
    let as_many = Evidence { major_faults: Some(60_000.0), ..computing };
    assert_eq!(Verdict::knowing(&short, &as_many).limit, Limit::Processor);
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
fn a_simulation_that_sees_little_of_the_time_decides_nothing() {
    let ceilings = Some(Ceilings { cache_s: 10e-9, memory_s: 100e-9, memory_bytes_per_s: 10e9 });
    let misses = Some(Misses { first: 5_000.0, last: 5_000.0, tier: Tier::Simulated });
    let with = |system_s| {
        Verdict::of(&Evidence {
            misses,
            ceilings,
            system_s: Some(system_s),
            ..evidence(Threads { processor: 4.0, ..NONE })
        })
    };
    assert_eq!((with(1.0).limit, with(7.0).limit), (Limit::Cache, Limit::Processor));
    assert!(with(7.0).undecided[0].contains("does not see the kernel"), "{:?}", with(7.0));
}

#[test]
fn a_thread_that_sleeps_longer_than_requests_take_does_not_serve_them() {
    let asleep = |seconds: f64| {
        let mut sleeps = Timeouts::default();
        sleeps.add(seconds, 1.0);
        let mut evidence = evidence(Threads { asleep: 1.0, processor: 0.3, ..NONE });
        (evidence.in_flight, evidence.sleeps, evidence.processor_s) = (Some(1.0), Some(sleeps), Some(1.0));
        Verdict::of(&evidence).limit
    };
    // A request takes 1 ms.
    assert_eq!((asleep(0.001), asleep(0.010)), (Limit::Sleep, Limit::Undecided));
}

#[test]
fn those_that_wait_for_one_that_asks_another_server_wait_for_that() {
    let late = Dependency { name: "10.0.0.1:80".into(), connections: 1.0, waiting: 0.95, own: false };
    let threads = Threads { lock: 7.0, other: 1.0, processor: 0.1, ..NONE };
    let behind = Evidence { dependencies: vec![late.clone()], ..evidence(threads) };
    let verdict = Verdict::of(&behind);
    assert_eq!(verdict.limit_with_name(), "workers that ask 10.0.0.1:80");
    // It is not always the same one that does.
    let in_turn = Dependency { connections: 3.0, waiting: 0.7, ..late.clone() };
    let verdict = Verdict::of(&Evidence { dependencies: vec![in_turn.clone()], ..evidence(threads) });
    assert_eq!(verdict.limit_with_name(), "dependency 10.0.0.1:80");
    let loops = Evidence {
        threads_at_work: Some(1.0),
        dependencies: vec![in_turn],
        ..evidence(Threads { other: 0.7, processor: 0.1, ..NONE })
    };
    assert_eq!(Verdict::of(&loops).limit_with_name(), "dependency 10.0.0.1:80");
    let computing = evidence(Threads { lock: 6.0, processor: 1.5, other: 0.3, ..NONE });
    let seldom = Dependency { waiting: 0.3, ..late };
    let verdict = Verdict::of(&Evidence { dependencies: vec![seldom], ..computing });
    assert_eq!(verdict.limit, Limit::Lock);
}

#[test]
fn connections_that_are_never_taken_mean_that_all_workers_are() {
    let serving = evidence(Threads { processor: 0.7, ..NONE });
    let starving = |before_for_s| {
        let clients = Clients { connections: 8.0, not_accepted: 7.0, before_for_s, ..Clients::default() };
        Verdict::of(&Evidence { clients: Some(clients), ..serving.clone() }).limit
    };
    // An answer takes 8 ms.
    assert_eq!(starving(2.0), Limit::Workers);
    assert_ne!(starving(0.006), Limit::Workers);
}

#[test]
fn threads_that_no_look_found_at_work_are_not_all_busy() {
    let seldom = Evidence { threads_at_work: Some(0.0), processor_s: Some(1.4), ..evidence(NONE) };
    let verdict = Verdict::of(&seldom);
    assert!(verdict.limit == Limit::Undecided && verdict.asks_for_fewer_clients, "{verdict:?}");
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
