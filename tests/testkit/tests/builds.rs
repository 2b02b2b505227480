//! Tests find the programs they need, built.
#![forbid(unsafe_code)]

use std::process::Command;

use forebay_testkit::artifacts;
use forebay_testkit::guests::{self, Kind};

#[test]
fn a_guest_is_compiled_once() {
    let program = guests::build("slices");
    let made = std::fs::metadata(&program).unwrap().modified().unwrap();
    assert!(Command::new(&program).output().is_ok());
    assert_eq!(guests::build("slices"), program);
    assert_eq!(std::fs::metadata(&program).unwrap().modified().unwrap(), made);
}

#[test]
fn a_static_guest_is_another_file_of_the_same_name() {
    let (program, is_static) =
        (guests::build("plain_reader"), guests::build_as("plain_reader", Kind::Static));
    assert_ne!(program, is_static);
    assert_eq!(program.file_name(), is_static.file_name());
}

#[test]
#[should_panic(expected = "no_such_guest.c")]
fn a_guest_that_is_not_there_is_named() {
    let _ = guests::build("no_such_guest");
}

#[test]
fn the_agent_is_a_shared_library() {
    let agent = artifacts::agent().unwrap();
    assert_eq!(std::fs::read(&agent).unwrap()[..4], *b"\x7fELF");
    assert_eq!(artifacts::agent().unwrap(), agent);
}

#[test]
fn the_program_is_built_with_its_agent_beside_it() {
    let program = artifacts::forebay().unwrap();
    let agent = artifacts::agent().unwrap();
    assert_eq!(program.ancestors().nth(2), agent.ancestors().nth(2));
    assert!(Command::new(&program).arg("--version").output().unwrap().status.success());
}
