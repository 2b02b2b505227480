//! A server that lacks something that it needs of the system.
#![forbid(unsafe_code)]

mod process;
mod support;

use std::thread;
use std::time::{Duration, Instant};

use forebay_server::Settings;
use process::{LIMIT, Process};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use support::{Folder, Server};

#[test]
fn without_descriptors_clients_wait_and_the_server_says_so_and_does_not_spin() {
    let (films, beside) = (Folder::empty(), Folder::empty());
    let server = Process::start(films.root(), &beside, LIMIT);
    let mut first = server.connect();
    assert_eq!(first.ask("OPTIONS", "*", "").status, 200);
    let allow = |descriptors| {
        let limit = Rlimit { current: Some(descriptors), ..getrlimit(Resource::Nofile) };
        prlimit(Some(server.pid()), Resource::Nofile, limit).expect("a limit")
    };
    let before = allow(server.footprint().descriptors as u64);
    let mut second = server.connect();
    let busy = server.busy();
    thread::sleep(Duration::from_secs(2));
    let busy = server.busy() - busy;
    assert!(busy < Duration::from_millis(500), "{busy:?}");
    // Who is there already is served, and who goes makes room.
    assert_eq!(first.ask("OPTIONS", "*", "").status, 200);
    drop(first);
    assert_eq!(second.ask("OPTIONS", "*", "").status, 200);
    allow(before.current.expect("a limit"));
    assert_eq!(server.connect().ask("OPTIONS", "*", "").status, 200);
    server.signal(Signal::TERM);
    let (status, said) = server.end();
    assert!(status.success(), "{said}");
    assert!(said.contains("nobody can be let in: Too many open files"), "{said}");
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
    let value = |name: &str| {
        let metrics = server.metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("{name}: {metrics}"))
    };
    // Each of them has more than its part, and had something left out for it.
    let begun = Instant::now();
    while value("forebay_samples_dropped_total") < 100 * CLIENTS as u64 {
        assert!(begun.elapsed() < LIMIT, "nothing is left out");
        thread::sleep(Duration::from_millis(50));
    }
    let frames = CLIENTS as u64 * 50_000;
    let backlog_bytes = value("forebay_backlog_bytes");
    assert!((MEMORY / 8..MEMORY / 4 + frames).contains(&backlog_bytes), "{backlog_bytes} bytes");
    drop(clients);
    while value("forebay_backlog_bytes") > 0 {
        assert!(begun.elapsed() < LIMIT, "a backlog stays");
        thread::sleep(Duration::from_millis(50));
    }
}
