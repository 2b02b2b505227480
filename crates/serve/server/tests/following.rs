//! Files that are played while their index is being made, and recordings that are played while they are written.
#![forbid(unsafe_code)]

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::{Client, Folder, H264, LIMIT, Server, frames, until};

/// What a writer puts between pieces of a recording, as often as it likes.
fn filler(name: &str) -> Vec<u8> {
    match name.rsplit('.').next() {
        // Packets without content.
        Some("ts") => [&[0x47, 0x1F, 0xFF, 0x10][..], &[0xFF; 184]].concat(),
        // A void element of a segment.
        Some("mkv") => vec![0xEC, 0x83, 0, 0, 0],
        _ => b"\0\0\0\x08free".to_vec(),
    }
}

/// How many pictures come before there are enough, or nothing comes.
fn pictures(client: &mut Client, enough: usize) -> usize {
    let mut pictures = 0;
    while pictures < enough {
        let packets = client.packets(1);
        let Some(packet) = packets.first() else { break };
        pictures += usize::from(packet[1] & 0x80 != 0);
    }
    pictures
}

/// Where the halves of a recording meet, so that the first is of whole packets, clusters or fragments.
fn middle(name: &str, whole: &[u8]) -> usize {
    let half = whole.len() / 2;
    let mark: &[u8] = match name.rsplit('.').next() {
        Some("ts") => return half / 188 * 188,
        Some("mkv") => &[0x1F, 0x43, 0xB6, 0x75],
        _ => b"moof",
    };
    let at = whole[half..].windows(4).position(|window| window == mark).expect("a part begins");
    half + at - if mark == b"moof" { 4 } else { 0 }
}

#[test]
fn who_plays_a_recording_goes_on_into_what_is_appended() {
    let Some(films) = Folder::new("who_plays_a_recording_goes_on_into_what_is_appended") else { return };
    let beside = Folder::empty();
    let fragments = format!("{H264} -g 5 -movflags frag_keyframe+empty_moov+default_base_moof");
    let live = format!("{H264} -live 1 -cluster_time_limit 400");
    for (name, options) in [("a.ts", H264), ("a.mp4", fragments.as_str()), ("a.mkv", &live)] {
        let whole = fs::read(films.encode(8, options, name)).expect("a film");
        let middle = middle(name, &whole);
        let path = beside.path(name);
        fs::write(&path, &whole[..middle]).expect("half of it");
        let server = Server::start(beside.root());
        let is_described = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = OpenOptions::new().append(true).open(&path).expect("a recording");
                let begun = Instant::now();
                while !is_described.load(Ordering::Relaxed) && begun.elapsed() < LIMIT {
                    file.write_all(&filler(name)).expect("it grows");
                    thread::sleep(Duration::from_millis(20));
                }
                for piece in whole[middle..].chunks(whole.len() / 20) {
                    file.write_all(piece).expect("it grows");
                    thread::sleep(Duration::from_millis(20));
                }
            });
            let mut client = server.connect();
            let described = client.ask("DESCRIBE", name, "");
            is_described.store(true, Ordering::Relaxed);
            assert!(described.body.contains("a=range:npt=0.000000-\r\n"), "{name}: {}", described.body);
            let session = client.set_up(name, 0, "");
            client.send("PLAY", name, &format!("Session: {session}\r\nSpeed: 4\r\n"));
            // All but those that may be waited for until the recording is known to be complete.
            assert_eq!(pictures(&mut client, 160), 160, "{name}");
        });
    }
}

#[test]
fn who_asks_for_a_recording_before_it_has_pictures_gets_all_of_its_tracks() {
    let Some(films) = Folder::new("who_asks_for_a_recording_before_it_has_pictures_gets_all_of_its_tracks")
    else {
        return;
    };
    let beside = Folder::empty();
    let server = Server::start(beside.root());
    let fragments = format!("{H264} -c:a aac -movflags frag_keyframe+empty_moov+default_base_moof");
    let sound = format!("{H264} -c:a aac");
    for (name, options) in [("a.ts", sound.as_str()), ("a.mp4", &fragments)] {
        let whole = fs::read(films.encode(2, options, name)).expect("a film");
        for begun in [0, 188, 600] {
            let name = format!("{begun}{name}");
            fs::write(beside.path(&name), &whole[..begun]).expect("its beginning");
            let mut client = server.connect();
            client.send("DESCRIBE", &name, "");
            let mut file = OpenOptions::new().append(true).open(beside.path(&name)).expect("a recording");
            file.write_all(&whole[begun..]).expect("it grows");
            let described = client.response();
            assert_eq!(described.status, 200, "{name}");
            let tracks = described.body.lines().filter(|line| line.starts_with("m=")).count();
            assert_eq!(tracks, 2, "{name}: {}", described.body);
        }
    }
}

#[test]
fn lists_and_loops_of_large_files_begin_before_their_indices_are_complete() {
    let test = "lists_and_loops_of_large_files_begin_before_their_indices_are_complete";
    let Some(films) = Folder::new(test) else { return };
    let one = fs::read(films.encode(12, &format!("{H264} -qp 10"), "one.ts")).expect("a film");
    for name in ["long.ts", "other.ts"] {
        films.put(name, one.repeat((24 << 20) / one.len() + 1));
    }
    films.put("list.m3u", "long.ts\nother.ts\nlong.ts\n");
    let expected = frames(&format!("-t 2 -i {}", films.path("one.ts").display()));
    assert_eq!(expected.len(), 50);
    let server = Server::start(films.root());
    let described = server.connect().ask("DESCRIBE", "list.m3u", "");
    // Once all is known, it is ten times as long.
    let told = described.body.lines().find_map(|line| line.strip_prefix("a=range:npt=0.000000-"));
    let told: f64 = told.and_then(|told| told.parse().ok()).unwrap_or_else(|| panic!("{described:?}"));
    assert!((34.5..37.5).contains(&told), "{told} seconds are told by the last times");
    for url in ["list.m3u", "long.ts?loop", "list.m3u?loop"] {
        let got = frames(&format!("-rtsp_transport tcp -t 2 -i {}", server.url(url)));
        assert!(got.len() >= 48 && expected.starts_with(&got[..48]), "{url}: {} pictures", got.len());
    }
    until("all of the list is described", || {
        let described = server.connect().ask("DESCRIBE", "list.m3u", "").body;
        let told = described.lines().find_map(|line| line.strip_prefix("a=range:npt=0.000000-"));
        told.and_then(|told| told.parse::<f64>().ok()).is_some_and(|told| told > 100.0)
    });
}

#[test]
fn the_first_pictures_come_before_the_index_of_a_large_file_is_complete() {
    let test = "the_first_pictures_come_before_the_index_of_a_large_file_is_complete";
    let Some(films) = Folder::new(test) else { return };
    // Streams that were joined are longer than their first and their last time tell: only all packets do.
    let one = fs::read(films.encode(12, &format!("{H264} -qp 10"), "one.ts")).expect("a film");
    let rounds = (24 << 20) / one.len() + 1;
    fs::write(films.path("long.ts"), one.repeat(rounds)).expect("a long film");
    let server = Server::start(films.root());
    let range = |client: &mut Client| {
        let described = client.ask("DESCRIBE", "long.ts", "");
        assert_eq!(described.status, 200);
        let line = described.body.lines().find_map(|line| line.strip_prefix("a=range:npt=0.000000-"));
        line.expect("a range").parse::<f64>().expect("an end")
    };
    let [mut first, mut second] = [server.connect(), server.connect()];
    let told = range(&mut first);
    assert!((11.5..12.5).contains(&told), "{told} seconds are told by the last times");
    // Both play in the index while it grows.
    for client in [&mut first, &mut second] {
        let session = client.set_up("long.ts", 0, "");
        client.send("PLAY", "long.ts", &format!("Session: {session}\r\nSpeed: 8\r\n"));
    }
    for client in [&mut first, &mut second] {
        assert_eq!(pictures(client, 100), 100);
    }
    let all = 12.0 * rounds as f64;
    until("all of it is described", || range(&mut server.connect()) >= all - 0.5);
}

#[test]
fn a_large_file_without_its_beginning_plays_as_soon_as_the_index_comes_to_the_start() {
    let test = "a_large_file_without_its_beginning_plays_as_soon_as_the_index_comes_to_the_start";
    let Some(films) = Folder::new(test) else { return };
    let one = fs::read(films.encode(12, &format!("{H264} -qp 10"), "one.ts")).expect("a film");
    fs::write(films.path("long.ts"), one.repeat((24 << 20) / one.len() + 1)).expect("a long film");
    let server = Server::start(films.root());
    let mut client = server.connect();
    let described = client.ask("DESCRIBE", "long.ts?start=4", "");
    let line = described.body.lines().find_map(|line| line.strip_prefix("a=range:npt=0.000000-"));
    let told: f64 = line.expect("a range").parse().expect("an end");
    // The last time of the file is that of its first twelve seconds, and a key frame is at 3.84 s.
    assert!((7.5..8.5).contains(&told), "{told} seconds are told before all has been read");
    let session = client.set_up("long.ts?start=4", 0, "");
    client.send("PLAY", "long.ts?start=4", &format!("Session: {session}\r\nSpeed: 8\r\n"));
    let answer = client.response();
    assert!(answer.get("Range").starts_with("npt=0.000000-"), "{answer:?}");
    assert_eq!(pictures(&mut client, 100), 100);
}

#[test]
fn who_asks_for_a_place_that_the_index_has_yet_to_come_to_plays_from_there() {
    let test = "who_asks_for_a_place_that_the_index_has_yet_to_come_to_plays_from_there";
    let Some(films) = Folder::new(test) else { return };
    // Packets without content after each packet make it long.
    let one = fs::read(films.encode(8, H264, "one.ts")).expect("a film");
    let others = filler("a.ts").repeat((24 << 20) / one.len());
    let long: Vec<u8> = one.chunks(188).flat_map(|packet| [packet, &others].concat()).collect();
    fs::write(films.path("long.ts"), long).expect("a long film");
    let server = Server::start(films.root());
    let mut client = server.connect();
    let session = client.set_up("long.ts", 0, "");
    client.send("PLAY", "long.ts", &format!("Session: {session}\r\nRange: npt=7-\r\n"));
    let answer = client.response();
    let from = answer.get("Range").strip_prefix("npt=").and_then(|range| range.split('-').next());
    let from: f64 = from.and_then(|from| from.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"));
    assert!((6.0..=7.0).contains(&from), "{from}");
    assert_eq!(pictures(&mut client, 5), 5);
}

#[test]
fn who_waits_for_more_of_a_file_that_is_written_anew_hears_the_end() {
    let test = "who_waits_for_more_of_a_file_that_is_written_anew_hears_the_end";
    let Some(films) = Folder::new(test) else { return };
    let beside = Folder::empty();
    let path = beside.path("a.ts");
    fs::copy(films.encode(1, H264, "a.ts"), &path).expect("a film");
    let server = Server::start(beside.root());
    let (is_playing, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            let mut file = OpenOptions::new().append(true).open(&path).expect("a recording");
            while !is_playing.load(Ordering::Relaxed) && begun.elapsed() < LIMIT {
                file.write_all(&filler("a.ts")).expect("it grows");
                thread::sleep(Duration::from_millis(20));
            }
            // All of it is something else from now on, and is written again and again.
            let bytes = file.metadata().expect("a file").len() as usize;
            while !is_over.load(Ordering::Relaxed) {
                assert!(begun.elapsed() < LIMIT, "the client hears nothing");
                fs::write(&path, vec![0; bytes + 1]).expect("it is written anew");
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut client = server.connect();
        let session = client.set_up("a.ts", 0, "");
        client.send("PLAY", "a.ts", &format!("Session: {session}\r\n"));
        assert_eq!(pictures(&mut client, 20), 20);
        is_playing.store(true, Ordering::Relaxed);
        // The server says goodbye, and nothing comes after that.
        while pictures(&mut client, 1) > 0 {}
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn who_waits_for_more_of_a_recording_can_go_back_in_it() {
    let Some(films) = Folder::new("who_waits_for_more_of_a_recording_can_go_back_in_it") else { return };
    let path = films.encode(2, H264, "a.ts");
    let server = Server::start(films.root());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            let mut file = OpenOptions::new().append(true).open(&path).expect("a recording");
            while !is_over.load(Ordering::Relaxed) && begun.elapsed() < LIMIT {
                file.write_all(&filler("a.ts")).expect("it grows");
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut client = server.connect();
        let session = client.set_up("a.ts", 0, "");
        // All that there is has been read, and more is waited for, when most of it has been sent.
        for _ in 0..5 {
            client.send("PLAY", "a.ts", &format!("Session: {session}\r\nRange: npt=0-\r\nSpeed: 4\r\n"));
            assert_eq!(pictures(&mut client, 40), 40);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
