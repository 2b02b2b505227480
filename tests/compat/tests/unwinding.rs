//! Unwinding passes through the agent: each frame leads to the next, up to main, wherever the thread is.

use forebay_compat::guests::build;
use forebay_compat::{Case, Scratch};

/// Cold data, and a folder that is not empty.
fn data(scratch: &Scratch) {
    scratch.noise("data", 8 << 20, 9).file("out/file", "x");
}

fn guest(name: &str, guest: &str) -> Case {
    Case::new(name, [build(guest).into_os_string(), "data".into()]).setup(data).without_statistics()
}

#[test]
fn unwinding_reaches_main_at_every_instruction() {
    let _ = guest("unwinding_reaches_main_at_every_instruction", "steps_unwind").check();
}

#[test]
fn unwinding_reaches_main_at_every_instruction_without_patching() {
    let name = "unwinding_reaches_main_at_every_instruction_without_patching";
    let _ = guest(name, "steps_unwind").options(&["--no-patching"]).check();
}

#[test]
fn a_cancelled_thread_leaves_its_scopes_in_every_call() {
    let _ = guest("a_cancelled_thread_leaves_its_scopes_in_every_call", "thread_unwinds").check();
}

#[test]
fn a_cancelled_thread_leaves_its_scopes_without_patching() {
    let name = "a_cancelled_thread_leaves_its_scopes_without_patching";
    let _ = guest(name, "thread_unwinds").options(&["--no-patching"]).check();
}
