//! What the threads of hosts did runs again in simulated time.

use std::thread;

use forebay_coherence::trace::{Event, Trace};
use forebay_evaluation::projection::{Costs, Network, project};
use forebay_millipage::{Granularity, Host, Options, Placement, in_process};

const SMALL: Options = Options { bytes: 1 << 20, views: 16, at: None, granularity: Granularity::Fine };
const ROOM: usize = 10_000;

/// What all hosts did as each did `act`.
fn recorded(hosts: u16, act: impl Fn(&Host) + Sync) -> Trace {
    let hosts = in_process(hosts, SMALL).unwrap();
    let each = thread::scope(|scope| {
        let threads = hosts.iter().map(|host| {
            let act = &act;
            scope.spawn(move || {
                host.record(ROOM);
                act(host);
                host.trace().unwrap()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    Trace::of_hosts(each)
}

#[test]
fn what_was_recorded_runs_again_in_simulated_time() {
    let hosts = 32;
    let trace = recorded(hosts, |host| {
        let rows = host.rows::<u64>(64, 8, Placement::Blocks).unwrap();
        host.record(ROOM);
        for round in 0..5 {
            let mine = usize::from(host.rank()) * 2;
            rows.row(mine).set(0, round);
            host.barrier().unwrap();
            rows.row((mine + 2) % 64).touch();
            host.barrier().unwrap();
        }
    });
    let computed: u64 =
        trace.hosts.iter().flatten().map(|event| if let Event::Compute(ns) = event { *ns } else { 0 }).sum();
    assert!(computed > 0);
    let network = Network { latency_ns: 2_000, bytes_per_second: 1e9 };
    let projection = project(&trace, &Costs::default(), &network).unwrap();
    assert_eq!(projection.total().compute_ns, computed);
    // In each round each host reads what its neighbour wrote, and all but the first time writes what that one has read.
    assert_eq!((projection.counts.read_faults, projection.counts.write_faults), (32 * 5, 32 * 4));
    let slowest_ns = projection.shares.iter().map(|host| host.compute_ns).max().unwrap();
    assert!(projection.elapsed_ns > slowest_ns + 10 * 2 * 2_000, "{projection:?}");
}
