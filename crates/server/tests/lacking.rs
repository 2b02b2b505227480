//! A server that lacks something that it needs of the system.
#![forbid(unsafe_code)]

mod process;
mod support;

use std::thread;
use std::time::Duration;

use process::{LIMIT, Process};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use support::Folder;

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
