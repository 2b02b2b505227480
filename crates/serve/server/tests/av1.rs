//! AV1, which the ffmpeg of distributions does not receive yet: the one in PyAV does.

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use support::{Folder, Server};

const COMPARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/av1.py");

/// Python with PyAV, which `scripts/setup test` installs.
fn python(test: &str) -> Option<PathBuf> {
    let python = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).with_file_name("python").join("bin/python");
    let has_av = Command::new(&python).args(["-c", "import av"]).output();
    if !has_av.is_ok_and(|output| output.status.success()) {
        forebay_testkit::skip(test, "PyAV is not installed: run `scripts/setup test`");
        return None;
    }
    Some(python)
}

#[test]
fn temporal_units_come_as_they_are_in_their_file() {
    let test = "temporal_units_come_as_they_are_in_their_file";
    let (Some(python), Some(folder)) = (python(test), Folder::new(test)) else { return };
    let server = Server::start(folder.root());
    let compare = |name: &str| {
        // Pictures that take several packets.
        let options = "-an -c:v libaom-av1 -usage realtime -cpu-used 8 -g 12 -b:v 900k";
        let file = folder.encode(1, options, name);
        for transport in ["tcp", "udp"] {
            let mut command = Command::new("timeout");
            command.args(["-k", "5", "60"]).arg(&python).arg(COMPARE).arg(&file);
            let output = command.args([&server.url(name), transport]).output().expect("Python runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name} over {transport}: {said}");
        }
    };
    thread::scope(|scope| {
        for name in ["av1.mp4", "av1.webm"] {
            let compare = &compare;
            scope.spawn(move || compare(name));
        }
    });
}
