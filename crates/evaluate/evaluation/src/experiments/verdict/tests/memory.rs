//! Memory that a server lacks, that is new to it, or that is far from its processor.

use super::*;

#[test]
fn a_disk_that_brings_back_what_memory_had_is_too_little_memory() {
    let waiting = evidence(Threads { disk: 6.0, ..NONE });
    let again = Evidence { refaults: Some(900.0), disk_read_bytes: Some(4_096_000.0), ..waiting.clone() };
    assert_eq!(Verdict::of(&again).limit, Limit::VirtualMemory);
    let first = Evidence { refaults: Some(100.0), disk_read_bytes: Some(4_096_000.0), ..waiting };
    assert_eq!(Verdict::of(&first).limit, Limit::Disk);
}

#[test]
fn those_that_wait_for_one_that_waits_for_memory_wait_for_memory() {
    assert_eq!(limit(Threads { lock: 7.0, fault: 0.9, processor: 0.1, ..NONE }), Limit::VirtualMemory);
    assert_eq!(limit(Threads { lock: 7.0, disk: 0.9, processor: 0.1, ..NONE }), Limit::Disk);
    assert_eq!(limit(Threads { lock: 7.0, processor: 0.9, disk: 0.1, ..NONE }), Limit::Lock);
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
