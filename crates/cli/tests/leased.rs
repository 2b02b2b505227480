//! `forebay warm` breaks no lease. A process of its own, because a lease on any file holds up all that opens files ahead.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use forebay_testkit::skip;

const FOREBAY: &str = env!("CARGO_BIN_EXE_forebay");

/// Takes a lease on a file, says whether that went well, and at the next line whether the lease is still held.
const HOLDER: &str = "
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], 'r+')
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('leased', flush=True)
sys.stdin.readline()
print(fcntl.fcntl(file, fcntl.F_GETLEASE) == fcntl.F_WRLCK, flush=True)
";

#[test]
fn a_leased_file_is_left_alone_and_that_is_told() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().canonicalize().unwrap().join("file");
    let forebay = |arguments: &[&str]| {
        let mut command = Command::new(FOREBAY);
        command.args(arguments).arg(&file).env("HOME", folder.path()).env_remove("XDG_STATE_HOME");
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    fs::write(&file, [1; 5_000]).unwrap();
    forebay(&["run", "--stats", "--", "cat"]);

    let mut holder = Command::new("python3");
    holder.args(["-c", HOLDER]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut holder) = holder.spawn() else {
        return skip("a_leased_file_is_left_alone_and_that_is_told", "there is no python3");
    };
    let mut told = BufReader::new(holder.stdout.take().unwrap()).lines();
    if told.next().is_none() {
        let _ = holder.wait();
        return skip("a_leased_file_is_left_alone_and_that_is_told", "the file system gives no lease");
    }
    let said = forebay(&["warm", "--wait", "--", "cat"]);
    assert!(said.contains("no file was opened, because a process holds a lease"), "{said}");
    writeln!(holder.stdin.take().unwrap()).unwrap();
    assert_eq!(told.next().unwrap().unwrap(), "True");
    assert!(holder.wait().unwrap().success());
    assert!(!forebay(&["warm", "--wait", "--", "cat"]).contains("lease"));
}
