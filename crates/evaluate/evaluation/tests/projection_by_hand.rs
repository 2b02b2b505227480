//! Small traces whose times can be told by hand.

use forebay_evaluation::projection::{
    Costs, Error,
    Event::{self, Barrier, Compute, Lock, PrefetchRead, Push, Read, Unlock, Write},
    Network, Projection, Shared, Trace, project,
};

const FREE: Costs = Costs { trap_ns: 0, wake_ns: 0, protect_ns: 0, receive_ns: 0, send_ns: 0, call_ns: 0 };
const AT_ONCE: Network = Network { latency_ns: 0, bytes_per_second: f64::INFINITY };

/// Minipages of 64 bytes that their homes have, and what each host does.
fn trace(homes: &[u16], hosts: &[&[Event]]) -> Trace {
    let shared = |home: &u16| Shared { bytes: 64, home: *home, copies: false };
    Trace {
        minipages: homes.iter().map(shared).collect(),
        hosts: hosts.iter().map(|events| events.to_vec()).collect(),
    }
}

fn projected(trace: &Trace, costs: &Costs, network: &Network) -> Projection {
    let projection = project(trace, costs, network).unwrap();
    for host in &projection.shares {
        let sum =
            host.compute_ns + host.read_ns + host.write_ns + host.lock_ns + host.barrier_ns + host.ended_ns;
        assert_eq!(sum, projection.elapsed_ns, "{host:?}");
    }
    assert_eq!(project(trace, costs, network).unwrap(), projection, "once more the same");
    projection
}

#[test]
fn where_nothing_costs_anything_the_slowest_computes_all_the_time() {
    let one = &[Compute(100), Read(0), Compute(50), Barrier(0), Compute(10)][..];
    let other = &[Write(0), Compute(300), Barrier(0), Lock(3), Compute(20), Unlock(3)][..];
    let projection = projected(&trace(&[1], &[one, other]), &FREE, &AT_ONCE);
    assert_eq!(projection.elapsed_ns, 320);
    assert_eq!(projection.shares[0].compute_ns, 160);
    assert_eq!(projection.shares[0].barrier_ns, 150);
    assert_eq!(projection.shares[0].ended_ns, 10);
}

#[test]
fn a_fetch_takes_the_sum_of_its_parts() {
    let costs =
        Costs { trap_ns: 1, wake_ns: 20, protect_ns: 300, receive_ns: 4_000, send_ns: 50_000, call_ns: 0 };
    let network = Network { latency_ns: 1_000_000, bytes_per_second: 1e9 };
    let fetch = trace(&[0], &[&[], &[Read(0)]]);
    let projection = projected(&fetch, &costs, &network);
    // The fault is taken and the request sent; the owner takes it, keeps a copy to read and sends the contents; the requester
    // takes them, may read, and says that it has them. 32 bytes one way, and 96 the other.
    let request_ns = 1 + 4_000 + 50_000 + 1_000_032;
    let contents_ns = 4_000 + 300 + 50_000 + 1_000_096;
    assert_eq!(projection.elapsed_ns, request_ns + contents_ns + 4_000 + 300 + 50_000 + 20);
    assert_eq!(projection.shares[1].read_ns, projection.elapsed_ns);
    // Request, contents, done.
    assert_eq!((projection.messages, projection.bytes), (3, 32 + 96 + 32));
    assert_eq!((projection.counts.requests, projection.counts.competing_requests), (1, 0));
}

/// With nothing but 10 ns for each message or fault that is taken.
const TAKEN: Costs = Costs { receive_ns: 10, ..FREE };

#[test]
fn requests_to_one_manager_are_served_one_after_the_other() {
    let projection = projected(&trace(&[0, 0], &[&[], &[Read(0)], &[Read(1)]]), &TAKEN, &AT_ONCE);
    // Each host takes its own fault by 10; the manager the requests by 20 and 30; the hosts the contents by 30 and 40.
    assert_eq!((projection.shares[1].read_ns, projection.shares[2].read_ns), (30, 40));
    assert_eq!(projection.counts.competing_requests, 0);
}

#[test]
fn competing_requests_for_one_minipage_wait_for_each_other() {
    let projection = projected(&trace(&[0], &[&[], &[Write(0)], &[Write(0)]]), &TAKEN, &AT_ONCE);
    assert_eq!(projection.counts.competing_requests, 1);
    // The first has it by 30, and says so; the manager hears it by 40 and asks the first, which answers by 50; the second
    // takes it by 60.
    assert_eq!((projection.shares[1].write_ns, projection.shares[2].write_ns), (30, 60));
}

#[test]
fn a_barrier_takes_time_for_each_host() {
    for hosts in [2, 8, 64, 1024] {
        let events: Vec<&[Event]> = vec![&[Barrier(0)]; hosts];
        let projection = projected(&trace(&[], &events), &TAKEN, &AT_ONCE);
        // The manager takes what all others say, one after the other; each of them its answer.
        assert_eq!(projection.elapsed_ns, 10 * (hosts as u64 - 1) + 10);
        assert_eq!(projection.messages, 2 * (hosts as u64 - 1));
    }
}

#[test]
fn a_lock_is_had_in_turn() {
    let turn = &[Lock(0), Compute(100), Unlock(0)][..];
    let network = Network { latency_ns: 7, ..AT_ONCE };
    let projection = projected(&trace(&[], &[turn, turn]), &FREE, &network);
    // The manager's own thread has it at once. The other asks at 0, is told at 107, and is done with it at 207.
    assert_eq!((projection.shares[0].lock_ns, projection.shares[1].lock_ns), (0, 107));
    assert_eq!(projection.elapsed_ns, 207);
}

#[test]
fn what_was_asked_for_in_time_is_not_waited_for() {
    let network = Network { latency_ns: 100, ..AT_ONCE };
    for (computed_ns, waited_ns) in [(500, 0), (50, 150)] {
        let asked = trace(&[0], &[&[], &[PrefetchRead(0), Compute(computed_ns), Read(0)]]);
        let projection = projected(&asked, &FREE, &network);
        assert_eq!(projection.shares[1].read_ns, waited_ns);
        assert_eq!(projection.counts.prefetches, 1);
    }
}

#[test]
fn what_was_pushed_is_there() {
    let read = &[Compute(1_000), Read(0)][..];
    let pushed = trace(&[0], &[&[Write(0), Push(0)], read, read]);
    let projection = projected(&pushed, &FREE, &Network { latency_ns: 100, ..AT_ONCE });
    assert_eq!((projection.elapsed_ns, projection.total().read_ns), (1_000, 0));
}

#[test]
fn traces_of_no_run_are_refused() {
    let refused = |trace: &Trace| project(trace, &FREE, &AT_ONCE).unwrap_err();
    assert_eq!(refused(&trace(&[], &[])), Error::Hosts { hosts: 0, max: u16::MAX });
    assert_eq!(refused(&trace(&[0], &[&[Read(1)]])), Error::Minipage { minipage: 1 });
    assert_eq!(refused(&trace(&[0, 1], &[&[]])), Error::Minipage { minipage: 1 });
    assert_eq!(
        refused(&trace(&[], &[&[Compute(1), Unlock(4)]])),
        Error::Unlocked { lock: 4, host: 0, event: 1 }
    );
    assert_eq!(refused(&trace(&[], &[&[Barrier(0)], &[Compute(9)]])), Error::Stuck { host: 0, event: 0 });
}

#[test]
fn a_trace_survives_being_written_and_takes_little_room() {
    let mut written = trace(&[0, 1], &[&[Compute(1_234), Write(1), Barrier(0)], &[Lock(7), Unlock(7)]]);
    written.minipages[1].copies = true;
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(serde_json::from_str::<Trace>(&text).unwrap(), written);
    assert!(text.contains(r#"[{"t":1234},{"w":1},{"b":0}]"#), "{text}");
}
