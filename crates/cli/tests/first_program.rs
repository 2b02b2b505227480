//! The first program on shared memory, in Rust, with several numbers of hosts.

use std::process::Command;

use forebay_testkit::artifacts;

#[test]
fn the_first_program_computes_the_same_with_any_number_of_hosts() {
    let heat = artifacts::example("forebay-millipage", "heat").unwrap();
    for hosts in ["1", "2", "3"] {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "120", env!("CARGO_BIN_EXE_forebay"), "share", "-n", hosts, "--"]);
        let output = command.arg(&heat).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{hosts} hosts: {}: {said}", output.status);
        // What the same program in C and in Python prints, and a sequential one.
        assert_eq!(String::from_utf8_lossy(&output.stdout), "12.791648 degrees in the middle\n");
    }
}
