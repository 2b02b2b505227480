//! Strangers on the ports of a job, while it begins and while it runs.

mod support;

use std::{
    io::Write,
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

use forebay_launch::environment::{INTERFACE, SEPARATE, TRANSPORT};
use support::{Job, LIMIT, Port, ports};

/// For how long a job at most is bothered.
const BOTHER: Duration = Duration::from_secs(20);
/// Jobs in which no stranger was in time.
const JOBS_MAX: usize = 40;

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

#[test]
fn garbage_on_every_port_of_a_job_changes_nothing() {
    let (mut in_time, mut running, mut number) = (0, 0, 0);
    for _ in 0..JOBS_MAX {
        let mut job = Job::start(3, &["check", "20"], |_, command| {
            command.env(SEPARATE, "1").env(TRANSPORT, "tcp");
        });
        let (deadline, mut calls) = (Instant::now() + BOTHER, vec![]);
        while let Some(pids) = job.pids().filter(|_| Instant::now() < deadline) {
            for port in ports(&pids) {
                number += 1;
                in_time += usize::from(bother(port, number, &mut calls) && port.listens);
                running += usize::from(!port.listens);
            }
        }
        job.end_well();
        if in_time > 0 && running > 0 {
            return;
        }
    }
    panic!("{in_time} strangers were in time, and {running} ports were bothered while jobs ran");
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
        ("nosuch0", "join() cannot listen for the other hosts (no network interface with an address is up)"),
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
