//! Clients are authenticated: ffmpeg by Digest with MD5, libcurl by Digest with SHA-256 and by Basic. libcurl also pauses a film
//! and goes on.

mod support;

use std::process::{Command, Output};
use std::thread;

use forebay_rtsp::authentication::Secret;
use forebay_server::{Settings, User};

use support::{Folder, H264, Server, ffmpeg};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libcurl.py");

fn guarded(folder: &Folder, is_basic_allowed: bool) -> Server {
    let secret = Secret::Password("lovelace".to_owned());
    let ada = User { name: "ada".to_owned(), secret, paths: Vec::new() };
    Server::with(Settings { users: vec![ada], is_basic_allowed, ..Settings::new(folder.root().to_owned()) })
}

#[test]
fn ffmpeg_says_who_it_is_over_tcp_and_udp() {
    let Some(folder) = Folder::new("ffmpeg_says_who_it_is_over_tcp_and_udp") else { return };
    folder.encode(1, &format!("{H264} -c:a aac"), "a.mp4");
    let server = guarded(&folder, false);
    let check = |transport, who, is_known| {
        let url = format!("rtsp://{who}{}/a.mp4", server.address);
        let output = ffmpeg(&format!("-rtsp_transport {transport} -i {url} -map 0:v -c copy -f framecrc -"));
        let said = String::from_utf8_lossy(&output.stderr);
        let is_packet = |line: &&[u8]| line.starts_with(b"0,");
        let count = output.stdout.split(|byte| *byte == b'\n').filter(is_packet).count();
        assert_eq!(count, if is_known { 25 } else { 0 }, "{who} over {transport}: {said}");
        assert_eq!(said.contains("401 Unauthorized"), !is_known, "{who} over {transport}: {said}");
    };
    thread::scope(|scope| {
        for transport in ["tcp", "udp"] {
            for (who, is_known) in [("ada:lovelace@", true), ("ada:wrong@", false), ("", false)] {
                scope.spawn(move || check(transport, who, is_known));
            }
        }
    });
}

/// `None`, with a word about it, where there is no libcurl that speaks RTSP.
fn folder_for_libcurl(test: &str) -> Option<Folder> {
    let version = Command::new("curl").arg("--version").output();
    let speaks = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(" rtsp "));
    let has_library =
        Command::new("python3").args(["-c", "import ctypes; ctypes.CDLL('libcurl.so.4')"]).output();
    if !speaks || !has_library.is_ok_and(|output| output.status.success()) {
        forebay_testkit::skip(test, "curl or Python is not installed: run `scripts/setup test`");
        return None;
    }
    Folder::new(test)
}

fn watch(server: &Server, password: &str, scheme: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "30", "python3", CLIENT, &server.url("a.mp4")]);
    command.args([&format!("ada:{password}"), scheme, "20"]).output().expect("Python runs")
}

#[test]
fn libcurl_says_who_it_is_and_pauses_without_a_loss() {
    let name = "libcurl_says_who_it_is_and_pauses_without_a_loss";
    let Some(folder) = folder_for_libcurl(name) else { return };
    folder.encode(2, H264, "a.mp4");
    let server = guarded(&folder, true);
    for (scheme, proof) in [("digest", "algorithm=SHA-256"), ("basic", "Authorization: Basic ")] {
        let output = watch(&server, "lovelace", scheme);
        let (lines, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{scheme}: {said}");
        let requests: Vec<&str> = lines.lines().filter(|line| !line.starts_with("packet ")).collect();
        let all = ["DESCRIBE 200", "SETUP 200", "PLAY 200", "PAUSE 200", "PLAY 200", "TEARDOWN 200"];
        assert_eq!(requests, all, "{scheme}: {said}");
        let proofs: Vec<&str> = said.lines().filter(|line| line.starts_with("Authorization: ")).collect();
        let are_all = proofs.len() >= all.len() && proofs.iter().all(|line| line.contains(proof));
        assert!(are_all, "{scheme}: {said}");

        let packets: Vec<&str> = lines.lines().filter_map(|line| line.strip_prefix("packet ")).collect();
        let sequence = |packet: &&str| u16::from_str_radix(&packet[4..8], 16).expect("a number");
        let sequences: Vec<u16> = packets.iter().map(sequence).collect();
        assert!(sequences.windows(2).all(|two| two[1] == two[0].wrapping_add(1)), "{scheme}: {sequences:?}");
        // Markers end pictures.
        let marks = packets.iter().filter(|packet| packet[2..].starts_with(|digit| digit >= '8')).count();
        assert_eq!(marks, 50, "{scheme}");
    }
    for scheme in ["digest", "basic"] {
        let output = watch(&server, "wrong", scheme);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "DESCRIBE 401\n", "{scheme}");
    }
    // Where Basic is not asked for, it is of no use to have the password.
    let output = watch(&guarded(&folder, false), "lovelace", "basic");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "DESCRIBE 401\n");
}
