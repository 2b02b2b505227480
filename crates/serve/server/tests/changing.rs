//! Files that change while they are served, and files that cannot be served: which sessions end, and what the log says.
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

#[test]
fn what_is_not_served_is_said_with_why() {
    let Some(films) = Folder::new("what_is_not_served_is_said_with_why") else { return };
    films.encode(1, "-map 0:v -c:v mpeg2video", "old.mp4");
    films.encode(1, &format!("{H264} -c:a flac -strict -2"), "half.mp4");
    let whole = films.encode(1, H264, "cut.mp4");
    let file = OpenOptions::new().write(true).open(&whole).expect("a file");
    file.set_len(fs::metadata(whole).expect("a file").len() / 2).expect("a shorter file");
    let server = start(&films, &Folder::empty());
    let describe = |path| server.connect().ask("DESCRIBE", path, "").status;
    assert_eq!(["old.mp4", "cut.mp4", "half.mp4", "half.mp4"].map(describe), [415, 415, 200, 200]);
    let said = log(server);
    for sentence in [
        "old.mp4: nothing in it can be served: ",
        "cut.mp4: it ends after ",
        "half.mp4: not all of it is served: ",
    ] {
        let count = said.lines().filter(|line| line.starts_with(&format!("forebay: {sentence}"))).count();
        assert_eq!(count, 1, "{sentence}: {said}");
    }
    assert!(said.contains("fLaC"), "{said}");
}

#[test]
fn pictures_that_are_longer_than_all_memory_are_counted() {
    let Some(films) = Folder::new("pictures_that_are_longer_than_all_memory_are_counted") else { return };
    let slides = "-map 0:v -c:v libx264 -preset ultrafast -qp 10 -r 1 -g 3 -pix_fmt yuv420p -s 320x240";
    films.encode(6, slides, "a.mp4");
    let beside = Folder::empty();
    let server = Process::start_with(films.root(), &beside, process::LIMIT, "memory = 20000\n");
    let mut client = server.connect();
    let session = client.set_up("a.mp4", 0, "");
    client.send("PLAY", "a.mp4", &format!("Session: {session}\r\nSpeed: 4\r\n"));
    client.packets_to_the_end();
    let metrics = server.http("/metrics");
    assert!(metrics.contains("forebay_samples_damaged_total 2\n"), "{metrics}");
}
