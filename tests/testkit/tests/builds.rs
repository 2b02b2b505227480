//! Tests find the programs they need, built.
#![forbid(unsafe_code)]

use std::process::Command;
use std::time::{Duration, Instant};

use forebay_testkit::{artifacts, guests};

#[test]
fn a_guest_is_compiled_once() {
    let program = guests::build("slices").unwrap();
    let made = std::fs::metadata(&program).unwrap().modified().unwrap();
    assert!(Command::new(&program).output().is_ok());
    let start = Instant::now();
    assert_eq!(guests::build("slices").unwrap(), program);
    assert!(start.elapsed() < Duration::from_millis(100));
    assert_eq!(std::fs::metadata(&program).unwrap().modified().unwrap(), made);
}

#[test]
fn a_guest_that_is_not_there_is_named() {
    let error = guests::build("no_such_guest").unwrap_err().to_string();
    assert!(error.contains("no_such_guest.c"), "{error}");
}

#[test]
fn the_agent_is_a_shared_library() {
    let agent = artifacts::agent().unwrap();
    assert_eq!(std::fs::read(&agent).unwrap()[..4], *b"\x7fELF");
    let start = Instant::now();
    assert_eq!(artifacts::agent().unwrap(), agent);
    assert!(start.elapsed() < Duration::from_millis(10));
}

#[test]
fn the_program_is_built_with_its_agent_beside_it() {
    let program = artifacts::forebay().unwrap();
    let agent = artifacts::agent().unwrap();
    assert_eq!(program.ancestors().nth(2), agent.ancestors().nth(2));
    assert!(Command::new(&program).arg("--version").output().unwrap().status.success());
}
