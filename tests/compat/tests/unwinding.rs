//! Unwinding passes through the agent: each frame leads to the next, up to main, wherever the thread is.

use forebay_compat::guests::build;
use forebay_compat::{Case, Scratch, skip};

/// Cold data, and a folder that is not empty.
fn data(scratch: &Scratch) {
    scratch.noise("data", 8 << 20, 9).file("out/file", "x");
}

/// Seconds for many thousand steps: each takes two switches of context, on a machine that may be busy.
const LONGEST_S: u64 = 300;

fn guest(name: &str, guest: &str) -> Case {
    let case = Case::new(name, [build(guest).into_os_string(), "data".into()]);
    case.setup(data).without_statistics().seconds(LONGEST_S)
}

/// By libgcc and by libunwind.
fn reaches_main_at_every_instruction(name: &str, options: &[&'static str]) {
    let outcome = guest(name, "steps_unwind").options(options).check();
    if outcome.is_some_and(|outcome| outcome.stdout.starts_with(b"without libunwind")) {
        skip(name, "libunwind.so.8 is not installed");
    }
}

#[test]
fn unwinding_reaches_main_at_every_instruction() {
    reaches_main_at_every_instruction("unwinding_reaches_main_at_every_instruction", &[]);
}

#[test]
fn unwinding_reaches_main_at_every_instruction_without_patching() {
    let name = "unwinding_reaches_main_at_every_instruction_without_patching";
    reaches_main_at_every_instruction(name, &["--no-patching"]);
}

/// Steps of a debugger take long: it lets a call go on after a few thousand.
fn stepped_by_gdb(name: &str) -> Case {
    let gdb = "gdb -q -batch -nx -x steps.py --args \"$@\" 2>&1 | grep ^steps";
    let case = guest(name, "stepped_by_gdb").setup(|scratch| {
        scratch.file("steps.py", include_str!("unwinding/steps.py"));
    });
    case.needs(&["gdb"]).before(["bash", "-c", gdb, "bash"])
}

/// Before it forks, the agent takes many steps: those calls are not seen to their ends.
#[test]
fn gdb_finds_main_at_each_of_many_instructions() {
    let case = stepped_by_gdb("gdb_finds_main_at_each_of_many_instructions").normalise(|outcome| {
        let said = String::from_utf8_lossy(&outcome.stdout).replace(", all stepped", "");
        outcome.stdout = said.into_bytes();
    });
    let _ = case.check();
}

#[test]
fn gdb_finds_main_at_every_instruction_of_calls_without_forks() {
    let name = "gdb_finds_main_at_every_instruction_of_calls_without_forks";
    let Some(outcome) = stepped_by_gdb(name).options(&["--no-speculation"]).check() else { return };
    let said = String::from_utf8_lossy(&outcome.stdout);
    for call in ["warm read", "read", "open", "cold read", "interrupted read"] {
        assert!(said.contains(&format!("steps of {call}: 0 lost, all stepped")), "{said}");
    }
    assert!(said.contains("interrupted\n"), "{said}");
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
