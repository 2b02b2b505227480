//! The recorder writes the faults and calls of hosts in their order.

use std::thread;

use forebay_coherence::trace::{Event, Shared, Trace};
use forebay_millipage::{Error, Granularity, Host, Options, Placement, in_process, in_process_together};

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

fn calls(events: &[Event]) -> Vec<Event> {
    events.iter().copied().filter(|event| !matches!(event, Event::Compute(_))).collect()
}

#[test]
fn faults_and_calls_are_recorded_in_their_order() {
    let trace = recorded(2, |host| {
        let rows = host.rows::<u64>(2, 8, Placement::On(0)).unwrap();
        if host.rank() == 1 {
            rows.row(1).touch();
            rows.row(1).set(3, 1);
            host.lock(5).unwrap();
            host.unlock(5).unwrap();
            rows.row(0).prefetch();
            rows.row(1).push();
        }
        host.barrier().unwrap();
    });
    assert_eq!(trace.minipages, [Shared { bytes: 64, home: 0, copies: false }; 2]);
    let collective = Event::Barrier(u32::MAX);
    assert_eq!(calls(&trace.hosts[0]), [collective, collective, Event::Barrier(0)]);
    let of_one = [
        collective,
        collective,
        Event::Read(1),
        Event::Write(1),
        Event::Lock(5),
        Event::Unlock(5),
        Event::PrefetchRead(0),
        Event::Push(1),
        Event::Barrier(0),
    ];
    assert_eq!(calls(&trace.hosts[1]), of_one);
}

#[test]
fn a_trace_that_would_not_be_whole_is_none() {
    let host = in_process(1, SMALL).unwrap().remove(0);
    let why = |host: &Host| match host.trace().unwrap_err() {
        Error::NoTrace { why, .. } => why,
        other => panic!("{other}"),
    };
    assert!(why(&host).contains("record() first"));
    host.record(2);
    host.barrier().unwrap();
    host.barrier().unwrap();
    assert!(why(&host).contains("room for 2 events"));
    host.record(2);
    thread::scope(|scope| scope.spawn(|| host.barrier().unwrap()).join().unwrap());
    assert!(why(&host).contains("several threads"));
    host.record(2);
    assert_eq!(host.trace().unwrap().hosts.len(), 1);
}

#[test]
fn hosts_with_one_memory_have_no_trace_of_faults() {
    let host = in_process_together(2, SMALL).unwrap().remove(0);
    host.record(ROOM);
    let error = host.trace().unwrap_err().to_string();
    assert!(error.contains("start them by forebay share --separate"), "{error}");
}
