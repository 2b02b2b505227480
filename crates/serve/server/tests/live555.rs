//! live555's openRTSP, the client inside VLC, receives films. The tests need it on the PATH: Debian has no package of it.

mod support;

use std::fs;
use std::process::{Command, Output};
use std::thread;

use forebay_rtsp::authentication::Secret;
use forebay_server::{Settings, User};

use support::{Folder, H264, Server, payload, units};

/// What one run has written, and said.
struct Received {
    pictures: Vec<u8>,
    /// Without what it writes between frames.
    sound: Vec<u8>,
    output: Output,
}

/// `None`, with a word about it, where there is none.
fn folder(test: &str) -> Option<Folder> {
    if Command::new("openRTSP").output().is_err() {
        forebay_testkit::skip(test, "openRTSP is not on the PATH: build live555 for it");
        return None;
    }
    Folder::new(test)
}

fn receive(url: &str, options: &[&str]) -> Received {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "30", "openRTSP", "-V", "-b", "400000", "-F", "film-"]);
    let output = command.args(options).arg(url).current_dir(&folder).output().expect("openRTSP runs");
    let read = |name| fs::read(folder.path().join(name)).unwrap_or_default();
    Received {
        pictures: read("film-video-H264-1"),
        sound: out_of_adts(&read("film-audio-MPEG4-GENERIC-2")),
        output,
    }
}

/// What is in frames of AAC, behind headers of seven bytes that have the length of both (ISO 14496-3, section 1.A.2).
fn out_of_adts(mut frames: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let [_, _, _, high, middle, low, _, ..] = *frames {
        let bytes = usize::from(high & 3) << 11 | usize::from(middle) << 3 | usize::from(low >> 5);
        let (frame, rest) = frames.split_at(bytes);
        content.extend(&frame[7..]);
        frames = rest;
    }
    content
}

/// Runs the same over UDP and over TCP at once, with the option for it.
fn over_both(check: impl Fn(&[&'static str]) + Sync) {
    thread::scope(|scope| {
        scope.spawn(|| check(&[]));
        scope.spawn(|| check(&["-t"]));
    });
}

#[test]
fn live555_gets_every_sample_over_tcp_and_udp() {
    let Some(folder) = folder("live555_gets_every_sample_over_tcp_and_udp") else { return };
    let file = folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    let input = format!("-i {}", file.display());
    let (pictures, sound) = (payload(&input, "0:v"), payload(&input, "0:a"));
    let server = Server::start(folder.root());
    over_both(|transport| {
        let got = receive(&server.url("a.mp4"), transport);
        assert!(units(&got.pictures) == units(&pictures), "{transport:?}: {:?}", got.output);
        // What is there to be decoded only, before the beginning, is not sent of sound.
        let are_all = got.sound.len() + 300 >= sound.len();
        assert!(are_all && sound.ends_with(&got.sound), "{transport:?}: {:?}", got.output);
    });
}

#[test]
fn live555_seeks_to_the_key_picture_before() {
    let Some(folder) = folder("live555_seeks_to_the_key_picture_before") else { return };
    let file = folder.encode(4, &format!("{H264} -c:a aac"), "a.mp4");
    let pictures = payload(&format!("-i {}", file.display()), "0:v");
    let pictures = units(&pictures);
    let server = Server::start(folder.root());
    over_both(|transport| {
        let got = receive(&server.url("a.mp4"), &[transport, &["-s", "3"]].concat());
        // It is the 73rd of 100, at 2.88 s.
        assert!(units(&got.pictures) == pictures[pictures.len() - 28..], "{transport:?}: {:?}", got.output);
    });
}

#[test]
fn live555_says_who_it_is() {
    let Some(folder) = folder("live555_says_who_it_is") else { return };
    folder.encode(1, &format!("{H264} -c:a aac"), "a.mp4");
    let secret = Secret::Password("lovelace".to_owned());
    let ada = User { name: "ada".to_owned(), secret, paths: Vec::new() };
    let server = Server::with(Settings { users: vec![ada], ..Settings::new(folder.root().to_owned()) });
    over_both(|transport| {
        for (password, is_known) in [("lovelace", true), ("wrong", false)] {
            let got = receive(&server.url("a.mp4"), &[transport, &["-u", "ada", password]].concat());
            assert_eq!(units(&got.pictures).len() >= 25, is_known, "{transport:?}: {:?}", got.output);
            let said = String::from_utf8_lossy(&got.output.stderr);
            assert_eq!(said.contains("401 Unauthorized"), !is_known, "{transport:?}: {said}");
        }
    });
}
