//! A server to which the system gives too few descriptors, or clients that take too little of what it sends.
#![forbid(unsafe_code)]

mod process;
mod support;

use std::time::{Duration, Instant};

use forebay_server::Settings;
use process::Process;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use support::{Folder, LIMIT, Server, until};

/// How long the server waits before it tries again to accept a connection.
const PAUSE: Duration = Duration::from_secs(1);

#[test]
fn without_descriptors_clients_wait_and_the_server_logs_it_and_does_not_spin() {
    let (films, beside) = (Folder::empty(), Folder::empty());
    let server = Process::start(films.root(), &beside, LIMIT);
    let mut first = server.connect();
    assert_eq!(first.ask("OPTIONS", "*", "").status, 200);
    let allow = |descriptors| {
        let limit = Rlimit { current: Some(descriptors), ..getrlimit(Resource::Nofile) };
        prlimit(Some(server.pid()), Resource::Nofile, limit).expect("a limit")
    };
    let before = allow(server.free_descriptor());
    let mut second = server.connect();
    // The server tries again once a second. A server that spins would use a processor all the time.
    let (begun, busy) = (Instant::now(), server.busy());
    until("the server was kept from accepting three times", || begun.elapsed() > 3 * PAUSE);
    let busy = server.busy() - busy;
    assert!(busy < begun.elapsed() / 4, "{busy:?} of {:?}", begun.elapsed());
    // A client that is connected is served, and makes room when it leaves.
    assert_eq!(first.ask("OPTIONS", "*", "").status, 200);
    drop(first);
    assert_eq!(second.ask("OPTIONS", "*", "").status, 200);
    allow(before.current.expect("a limit"));
    assert_eq!(server.connect().ask("OPTIONS", "*", "").status, 200);
    server.signal(Signal::TERM);
    let (status, said) = server.end();
    assert!(status.success(), "{said}");
    assert!(said.matches("no connection can be accepted: Too many open files").count() >= 3, "{said}");
}

#[test]
fn many_clients_that_do_not_read_have_little_memory_each() {
    const CLIENTS: usize = 40;
    const MEMORY: u64 = 16 << 20;
    let Some(films) = Folder::new("many_clients_that_do_not_read_have_little_memory_each") else { return };
    films.encode(4, "-map 0:v -c:v libx264 -preset ultrafast -qp 10 -g 12 -pix_fmt yuv420p", "a.mp4");
    let server = Server::with(Settings { memory_bytes: MEMORY, ..Settings::new(films.root().to_owned()) });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.connect();
            let session = client.set_up("a.mp4?loop", 0, "");
            client.send("PLAY", "a.mp4?loop", &format!("Session: {session}\r\nSpeed: 16\r\n"));
            client
        })
        .collect();
    // Each client has its part, and what is due beyond that waits.
    until("backlogs have their share", || server.metric("forebay_backlog_bytes") >= MEMORY / 8);
    let mut packets = 0;
    until("all streams wait", || {
        let before = std::mem::replace(&mut packets, server.metric("forebay_packets_total"));
        before == packets
    });
    let frames = CLIENTS as u64 * 50_000;
    let backlog_bytes = server.metric("forebay_backlog_bytes");
    assert!((MEMORY / 8..MEMORY / 4 + frames).contains(&backlog_bytes), "{backlog_bytes} bytes");
    drop(clients);
    until("backlogs are gone", || server.metric("forebay_backlog_bytes") == 0);
}
