//! Files that change while they are served, and files that cannot be: who is harmed, and what the operator is told.
#![forbid(unsafe_code)]

mod process;
mod support;

use std::fs::{self, OpenOptions};
use std::io::Write;

use process::Process;
use rustix::process::Signal;
use support::{Client, Folder, H264};

/// Small ones, so that a file is read all the time while it is played.
const BUFFERS: &str = "buffer-size = \"20K\"\n";

fn start(films: &Folder, beside: &Folder) -> Process {
    Process::start_with(films.root(), beside, process::LIMIT, BUFFERS)
}

/// A client that plays the first track of a file, and has its first packets.
fn player(server: &Process, path: &str) -> Client {
    let mut client = server.connect();
    let session = client.set_up(path, 0, "");
    client.send("PLAY", path, &format!("Session: {session}\r\nSpeed: 2\r\n"));
    assert_eq!(client.packets(10).len(), 10);
    client
}

/// All that it has said by its end.
fn log(server: Process) -> String {
    server.signal(Signal::TERM);
    let (status, said) = server.end();
    assert!(status.success(), "{said}");
    said
}

#[test]
fn a_file_that_is_replaced_by_a_longer_one_ends_its_sessions_and_is_served_anew() {
    let name = "a_file_that_is_replaced_by_a_longer_one_ends_its_sessions_and_is_served_anew";
    let Some(films) = Folder::new(name) else { return };
    let beside = Folder::empty();
    let paths = ["a.mp4", "a.ts"];
    for path in paths {
        films.encode(20, H264, path);
        beside.encode(30, &format!("{H264} -qp 20"), path);
    }
    let server = start(&films, &beside);
    let clients = paths.map(|path| player(&server, path));
    for path in paths {
        let longer = fs::read(beside.path(path)).expect("a longer file");
        assert!(longer.len() as u64 > fs::metadata(films.path(path)).expect("a file").len());
        // Written over what is there, so that at no time the file is shorter.
        let mut file = OpenOptions::new().write(true).open(films.path(path)).expect("a file");
        file.write_all(&longer).expect("a longer file");
    }
    for mut client in clients {
        client.packets_to_the_end();
    }
    drop(paths.map(|path| player(&server, path)));
    let said = log(server);
    for path in paths {
        let count =
            said.lines().filter(|line| line.contains(&format!("{path}: it was changed while it was served")));
        assert_eq!(count.count(), 1, "{said}");
    }
}

#[test]
fn a_recording_that_grows_is_played_on() {
    let Some(films) = Folder::new("a_recording_that_grows_is_played_on") else { return };
    let fragments = format!("{H264} -g 5 -movflags frag_keyframe+empty_moov+default_base_moof");
    let paths = ["a.ts", "a.mkv", "a.mp4"];
    for (path, options) in paths.iter().zip([H264, H264, &fragments]) {
        films.encode(8, options, path);
    }
    let beside = Folder::empty();
    let server = start(&films, &beside);
    let clients = paths.map(|path| player(&server, path));
    for path in paths {
        let whole = fs::read(films.path(path)).expect("a file");
        let mut file = OpenOptions::new().append(true).open(films.path(path)).expect("a file");
        file.write_all(&whole[whole.len() / 2..]).expect("more of it");
    }
    let marks = clients.map(|mut client| {
        let packets = client.packets_to_the_end();
        packets.iter().filter(|packet| packet[1] & 0x80 != 0).count()
    });
    // All pictures of eight seconds but the first few.
    assert!(marks[1..].iter().all(|marks| (150..=200).contains(marks)), "{marks:?}");
    let said = log(server);
    assert!(!said.contains("changed"), "{said}");
}
