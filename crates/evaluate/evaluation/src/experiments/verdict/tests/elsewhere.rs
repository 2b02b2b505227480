//! Servers that are idle, because what they wait for is elsewhere.

use super::*;

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
    let over = |round_trip_s| {
        let asked = Dependency { round_trip_s, ..asked(7.5, 8.0).remove(0) };
        let verdict = Verdict::of(&idle(|evidence| evidence.dependencies = vec![asked]));
        verdict.evidence.iter().any(|reason| reason.contains("the link to it takes"))
    };
    assert_eq!((over(0.007), over(50e-6)), (true, false));
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
fn requests_that_wait_for_several_servers_are_named_after_all_of_them() {
    let back_ends = |each: &[(f64, f64)]| {
        let named = each.iter().zip(1..).map(|(&(waiting, connections), number)| Dependency {
            name: format!("10.0.0.{number}:80"),
            ..asked(waiting, connections).remove(0)
        });
        Verdict::of(&idle(|evidence| evidence.dependencies = named.collect())).limit_with_name()
    };
    assert_eq!(back_ends(&[(3.8, 4.0), (3.9, 4.0)]), "dependency 10.0.0.2:80 and 10.0.0.1:80");
    assert_eq!(
        back_ends(&[(1.9, 2.0); 4]),
        "dependency 10.0.0.1:80, 10.0.0.2:80, 10.0.0.3:80 and 10.0.0.4:80"
    );
    assert_eq!(back_ends(&[(0.9, 1.0); 8]), "dependency 10.0.0.1:80, 10.0.0.2:80, 10.0.0.3:80 and 5 others");
    // One that has most of the requests is named alone, and of several those that are late.
    assert_eq!(back_ends(&[(5.0, 8.0), (2.0, 8.0)]), "dependency 10.0.0.1:80");
    assert_eq!(back_ends(&[(3.5, 8.0), (3.0, 8.0), (0.1, 8.0)]), "dependency 10.0.0.1:80 and 10.0.0.2:80");
    // A pool of two beside requests that are with another server, and two pools.
    assert_eq!(back_ends(&[(1.95, 2.0), (1.0, 4.0)]), "workers that ask 10.0.0.1:80");
    assert_eq!(back_ends(&[(1.9, 2.0), (1.9, 2.0)]), "workers that ask 10.0.0.1:80 and 10.0.0.2:80");
    assert_eq!(back_ends(&[(1.9, 2.0), (1.9, 6.0)]), "workers that ask 10.0.0.1:80");
    assert_eq!(back_ends(&[(2.9, 3.0), (0.9, 2.0), (0.1, 2.0)]), "workers that ask 10.0.0.1:80");
    assert_eq!(back_ends(&[(1.95, 3.0), (1.5, 4.0)]), "not decidable");
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
    // What the part waits for says more: a timer, or another server.
    let asks_itself = idle(|evidence| {
        evidence.dependencies = vec![Dependency { own: true, ..asked(8.0, 8.0).remove(0) }];
    });
    let verdict = Verdict::of(&asks_itself);
    assert_eq!(verdict.limit_with_name(), "dependency 127.0.0.1:5432, which is its own");
    let timed = Evidence { timeouts: within_10_ms(0.9), ..asks_itself.clone() };
    assert_eq!(Verdict::of(&timed).limit, Limit::Sleep);
    let mut behind = asks_itself;
    behind
        .dependencies
        .extend(asked(7.0, 8.0).into_iter().map(|one| Dependency { name: "db".into(), ..one }));
    assert_eq!(Verdict::of(&behind).limit_with_name(), "dependency db");
}

#[test]
fn threads_that_sleep_while_more_requests_wait_for_one_are_too_few() {
    let asleep = |threads| Verdict::of(&evidence(Threads { asleep: threads, idle: 0.0, ..NONE }));
    let told =
        |verdict: &Verdict| verdict.evidence.iter().any(|reason| reason.contains("more threads would"));
    let (few, many) = (asleep(3.0), asleep(7.0));
    assert_eq!((few.limit, told(&few), many.limit, told(&many)), (Limit::Sleep, true, Limit::Sleep, false));
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
    assert_eq!(verdict.clone().knowing_fewer_clients(&unknown, &fewer(5_000.0)).limit, Limit::Undecided);
    // What answers behind that connection may be where they wait for each other.
    let bound = verdict.knowing_fewer_clients(&unknown, &fewer(10_000.0));
    assert_eq!(bound.limit, Limit::Undecided);
    assert!(bound.undecided[1].contains("it has 2 connections to /run/db"), "{bound:?}");
    let alone = Evidence { leads: vec![], ..unknown.clone() };
    let bound = Verdict::of(&alone).knowing_fewer_clients(&alone, &fewer(10_000.0));
    assert_eq!(
        (bound.limit, bound.limit_in_words().as_str()),
        (Limit::Lock, "lock or pool or rate limiter limits")
    );
    assert!(bound.evidence[1].contains("no more than 4.0 go on at a time"), "{bound:?}");
}

#[test]
fn threads_that_wait_for_each_other_for_a_time_are_behind_a_lock_where_fewer_clients_get_as_much() {
    let behind = |timed_locks| {
        let threads = Threads { lock: 7.5, processor: 0.1, idle: 0.4, ..NONE };
        Evidence { timed_locks, in_flight: Some(8.0), ..evidence(threads) }
    };
    let said = |timed_locks, requests| {
        let all = behind(timed_locks);
        let fewer = Evidence { requests, in_flight: Some(4.0), ..all.clone() };
        Verdict::of(&all).knowing_fewer_clients(&all, &fewer).limit
    };
    let all = behind(0.0).requests;
    assert_eq!((said(7.0, all), said(7.0, all / 2.0)), (Limit::Lock, Limit::Undecided));
    assert_eq!(said(0.5, all / 2.0), Limit::Lock);
}

#[test]
fn waits_for_what_is_written_are_the_disks_whatever_pages_come_back() {
    let threads = Threads { disk: 5.0, processor: 1.0, ..NONE };
    let said = |pages: f64, written: f64| {
        let (refaults, read) = (Some(pages), Some(pages * 4096.0));
        let written = Some(written);
        let evidence =
            Evidence { refaults, disk_read_bytes: read, disk_written_bytes: written, ..evidence(threads) };
        Verdict::of(&evidence).limit
    };
    assert_eq!((said(1e6, 0.0), said(1e6, 1e12)), (Limit::VirtualMemory, Limit::Disk));
}

#[test]
fn processors_that_other_programs_have_are_said_to_be_theirs() {
    let said = |machine_s| {
        let threads = Threads { processor: 7.0, ..NONE };
        let (processor_s, machine_processor_s) = (Some(0.5), Some(machine_s));
        Verdict::of(&Evidence { processor_s, machine_processor_s, ..evidence(threads) }).limit_with_name()
    };
    let all_s = evidence(NONE).seconds * evidence(NONE).processors;
    assert_eq!(said(all_s), "processor (which other programs have)");
}

#[test]
fn requests_that_fail_cost_calls_too() {
    let evidence = Evidence {
        failed: 9_000.0,
        calls: Some(50_000.0),
        call_bytes: Some(5_000_000.0),
        processor_s: Some(10.0),
        system_s: Some(9.0),
        ..evidence(Threads { processor: 1.0, ..NONE })
    };
    let evidence = Evidence { requests: 1_000.0, ..evidence };
    let verdict = Verdict::of(&evidence);
    assert!(verdict.findings.is_empty(), "{verdict:?}");
    assert!(
        verdict.evidence.iter().any(|said| said.starts_with("90 % of the requests failed")),
        "{verdict:?}"
    );
    assert!(!Verdict::of(&Evidence { failed: 0.0, ..evidence }).findings.is_empty());
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
    let late =
        Dependency { name: "10.0.0.1:80".into(), connections: 1.0, waiting: 0.95, ..Dependency::default() };
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
    // Most of them do not even wait in its queue.
    let clients = Clients {
        connections: 8.0,
        not_accepted: 2.0,
        before_for_s: 2.0,
        turned_away: 5.0,
        queue_full: 1.0,
        ..Clients::default()
    };
    assert_eq!(Verdict::of(&Evidence { clients: Some(clients), ..serving }).limit, Limit::Workers);
}

#[test]
fn a_full_accept_queue_is_named_where_nothing_else_holds_the_requests_up() {
    let queue = |not_accepted, turned_away, queue_full, known: fn(&mut Evidence)| {
        let clients = Clients {
            connections: 8.0,
            not_accepted,
            turned_away,
            queue_full,
            queue: (2.0, 1.0),
            ..Clients::default()
        };
        Verdict::of(&idle(|evidence| {
            evidence.clients = Some(clients);
            known(evidence);
        }))
    };
    let told = |verdict: &Verdict, what: &str| verdict.evidence.iter().any(|reason| reason.contains(what));
    let slow = queue(2.0, 5.5, 0.95, |_| {});
    assert!(slow.limit == Limit::AcceptQueue && told(&slow, "it accepts too slowly"), "{slow:?}");
    assert_eq!(slow.limit_in_words(), "accept queue limits");
    let short = queue(0.5, 5.5, 0.1, |_| {});
    assert!(short.limit == Limit::AcceptQueue && told(&short, "its backlog is too short"), "{short:?}");
    // A queue with room, few that wait, and what is behind the server.
    assert_eq!(queue(6.0, 0.0, 0.0, |_| {}).limit, Limit::Undecided);
    assert_eq!(queue(2.0, 1.0, 0.9, |_| {}).limit, Limit::Undecided);
    assert_eq!(
        queue(2.0, 5.5, 0.9, |evidence| evidence.dependencies = asked(7.0, 8.0)).limit,
        Limit::Dependency
    );
    // A server that has time for nothing else is what it does.
    let clients = Clients { connections: 8.0, turned_away: 5.0, queue_full: 1.0, ..Clients::default() };
    let computing = evidence(Threads { processor: 2.0, ..NONE });
    let computing = Evidence { clients: Some(clients), processor_s: Some(19.0), ..computing };
    assert_eq!(Verdict::of(&computing).limit, Limit::Processor);
}

#[test]
fn a_link_whose_round_trip_is_most_of_a_request_is_its_latency() {
    // A request takes 8 ms.
    let link = |round_trip_s, sending| {
        let clients = Clients { connections: 8.0, round_trip_s, sending, ..Clients::default() };
        Verdict::of(&idle(|evidence| evidence.clients = Some(clients)))
    };
    let far = link(0.0075, 3.5);
    assert_eq!(far.limit_with_name(), "network (latency of the link)");
    assert!(far.evidence.iter().any(|reason| reason.contains("7.5 ms for a round trip")), "{far:?}");
    assert_eq!(
        (link(0.003, 0.0).limit, link(0.003, 7.0).limit_with_name().as_str()),
        (Limit::Undecided, "network")
    );
    // Within a machine a round trip may be most of a request, and is no link.
    let near = |requests| {
        let clients = Clients { connections: 8.0, round_trip_s: 50e-6, ..Clients::default() };
        Verdict::of(&idle(|evidence| (evidence.clients, evidence.requests) = (Some(clients), requests))).limit
    };
    assert_eq!(near(1.5e6), Limit::Undecided);
    // One thread has enough to do for as long as the requests are with it.
    let clients = Clients { connections: 8.0, round_trip_s: 0.0045, ..Clients::default() };
    let busy = idle(|evidence| {
        evidence.threads = Some(Threads { processor: 0.95, idle: 0.05, ..NONE });
        evidence.clients = Some(clients);
    });
    assert_eq!(Verdict::of(&busy).limit, Limit::Processor);
}

#[test]
fn answers_in_small_parts_that_wait_for_delayed_acknowledgements_are_named() {
    let sending = |held_back| {
        let clients = Clients { connections: 8.0, sending: 7.0, held_back, ..Clients::default() };
        Verdict::of(&idle(|evidence| evidence.clients = Some(clients)))
    };
    let held = sending(6.0);
    assert_eq!(held.limit_with_name(), "network (delayed acknowledgements)");
    assert!(held.evidence.iter().any(|sentence| sentence.contains("TCP_NODELAY")), "{held:?}");
    assert_eq!(sending(1.0).limit_with_name(), "network");
}
