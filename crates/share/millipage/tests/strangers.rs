//! Strangers on the ports of a job, while it begins and while it runs.

mod support;

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    process::Command,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_launch::environment::{INTERFACE, SEPARATE, TRANSPORT};
use support::{Job, LIMIT, Port, ports};

/// For how long at most a job is bothered that runs.
const BOTHER: Duration = Duration::from_secs(5);

fn garbage(number: usize) -> Vec<u8> {
    let noise = |byte: usize| (byte.wrapping_mul(2_654_435_761).wrapping_add(number * 97) >> 11) as u8;
    match number % 4 {
        0 => (0..300).map(noise).collect(),
        1 => [&b"forebay\x01\x01\0\0\0"[..], &(0..200).map(noise).collect::<Vec<_>>()].concat(),
        2 => vec![0xff; 100_000],
        _ => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    }
}

/// Sends garbage to a port; whether it was open.
fn bother(port: Port, number: usize, calls: &mut Vec<TcpStream>) -> bool {
    let Ok(mut call) = TcpStream::connect_timeout(&port.address, Duration::from_millis(200)) else {
        return false;
    };
    // It may be refused at any byte.
    let _ = call.set_write_timeout(Some(Duration::from_millis(50)));
    let _ = call.write_all(&garbage(number));
    match number % 3 {
        0 => drop(call.shutdown(Shutdown::Both)),
        _ => calls.push(call),
    }
    true
}

/// A way to the table on which `act` is done before anything is heard from there.
fn slow(table: UnixStream, act: impl Fn() + Send + 'static) -> UnixStream {
    let (ours, hosts) = UnixStream::pair().unwrap();
    let both = (ours.try_clone().unwrap(), table.try_clone().unwrap());
    thread::spawn(move || {
        let (mut from, mut to) = both;
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    thread::spawn(move || {
        let (mut from, mut to, mut room) = (table, ours, [0; 1 << 16]);
        while let Ok(got) = from.read(&mut room)
            && got > 0
        {
            act();
            if to.write_all(&room[..got]).is_err() {
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    hosts
}

#[test]
fn garbage_on_every_port_of_a_job_changes_nothing() {
    let pids = Arc::new(OnceLock::<Vec<u32>>::new());
    let calls = Arc::new(Mutex::new(vec![]));
    let in_time = Arc::new(AtomicUsize::new(0));
    let commands = (0..3).map(|_| Command::new(support::example("sharing"))).collect();
    // Hosts 0 and 1 know all addresses, and listen until host 2 knows them.
    let mut job = Job::through(
        commands,
        |_, command| {
            command.args(["check", "1"]).env(SEPARATE, "1").env(TRANSPORT, "tcp");
        },
        |rank, socket| {
            let (pids, calls, in_time) = (pids.clone(), calls.clone(), in_time.clone());
            let act = move || {
                for port in ports(pids.wait()).into_iter().filter(|port| port.listens) {
                    for number in 0..20 {
                        in_time.fetch_add(bother(port, number, &mut calls.lock().unwrap()).into(), SeqCst);
                    }
                }
            };
            if rank == 2 { slow(socket, act) } else { socket }
        },
    );
    pids.set(job.pids().unwrap()).unwrap();
    let (mut running, deadline) = (0, Instant::now() + BOTHER);
    while job.pids().is_some() && Instant::now() < deadline {
        for (number, port) in ports(pids.wait()).into_iter().filter(|port| !port.listens).enumerate() {
            bother(port, number, &mut calls.lock().unwrap());
            running += 1;
        }
    }
    job.end_well();
    assert!(in_time.load(SeqCst) >= 60 && running > 0, "{in_time:?} in time, {running} later");
}

#[test]
fn no_port_is_open_once_hosts_are_connected() {
    let mut job = Job::start(3, &["wait", "fault"], |_, command| {
        command.env(SEPARATE, "1").env(TRANSPORT, "tcp");
    });
    job.told(2);
    let found = ports(&job.pids().unwrap());
    assert!(found.len() >= 6, "{found:?}");
    assert!(found.iter().all(|port| !port.listens && port.address.ip().is_loopback()), "{found:?}");
}

#[test]
fn a_job_on_one_machine_has_no_port_unless_it_is_asked_for() {
    for (separate, transport) in [("0", "auto"), ("0", "tcp"), ("1", "auto"), ("1", "shm")] {
        let mut job = Job::start(3, &["wait", "fault"], |_, command| {
            command.env(SEPARATE, separate).env(TRANSPORT, transport);
        });
        job.told(2);
        let found = ports(&job.pids().unwrap());
        assert!(found.is_empty(), "{separate} {transport}: {found:?}");
    }
}

#[test]
fn the_interface_is_chosen_and_one_that_is_not_there_is_an_error_on_all_hosts() {
    let start = |interface: &'static str| {
        Job::start(2, &["check", "1"], move |_, command| {
            command.env(SEPARATE, "1").env(TRANSPORT, "tcp").env(INTERFACE, interface);
        })
    };
    start("127.0.0.0/8").end_well();
    start("lo").end_well();
    for (interface, says) in [
        (
            "nosuch0",
            "join() cannot listen for the other hosts (nosuch0 is no network interface that is up and has an address)",
        ),
        (
            "10.0.0.0/99",
            "FOREBAY_SHARE_INTERFACE is '10.0.0.0/99', and should be the name of a network interface",
        ),
    ] {
        let (begun, mut job) = (Instant::now(), start(interface));
        for host in 0..2 {
            let (status, _, stderr) = job.end(host);
            assert_eq!(status, Some(1), "{stderr}");
            assert!(stderr.contains(says), "{stderr}");
        }
        assert!(begun.elapsed() < LIMIT);
    }
}
