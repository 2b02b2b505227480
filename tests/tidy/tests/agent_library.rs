//! What the agent takes from the process that it is loaded into: nothing that is not on its list.
//!
//! Any symbol that the agent resolves at load, and any library that it asks for, changes the program. A panic in it
//! would end the program. Code without unwind information would hold up exceptions and debuggers. All of it is visible in the
//! library itself.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_tidy::sources::text;
use forebay_tidy::workspace::Workspace;

/// Parts of the names of the functions that a panic goes through, in either mangling.
const PANIC_ENTRIES: &[&str] = &["panic", "rust_begin_unwind", "rust_eh_personality", "unwrap_failed"];

/// The weak symbols that the start files of gcc mention in every shared object. The loader leaves them null.
const START_FILE_SYMBOLS: &[&str] =
    &["__cxa_finalize", "__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable"];

/// Unwinders know it by its instructions.
const SIGNAL_RETURN: &str = "forebay_restore";

#[test]
fn agent_takes_only_allowed_symbols_from_the_process() {
    let workspace = Workspace::load();
    let library = build(&workspace);
    let allowed = allowed_symbols(&workspace.root.join("crates/run/agent/allowed-symbols.txt"));
    let mut broken = Vec::new();
    for line in run("nm", &["--dynamic", "--undefined-only"], &library).lines() {
        let (kind, name) = line.trim().split_once(' ').expect("nm prints a kind and a name");
        let name = name.split('@').next().unwrap_or(name);
        let start_file = matches!(kind, "w" | "v") && START_FILE_SYMBOLS.contains(&name);
        if !start_file && !allowed.iter().any(|one| one == name) {
            broken.push(format!("{kind} {name}"));
        }
    }
    assert!(broken.is_empty(), "not in crates/run/agent/allowed-symbols.txt:\n  {}", broken.join("\n  "));
}

#[test]
fn agent_brings_no_library_with_it() {
    let workspace = Workspace::load();
    let headers = run("readelf", &["--dynamic", "--wide"], &build(&workspace));
    let needed: Vec<&str> = headers.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.is_empty(), "{needed:#?}");
}

#[test]
fn agent_cannot_panic() {
    let workspace = Workspace::load();
    let symbols = run("nm", &["--defined-only"], &build(&workspace))
        + &run("nm", &["--undefined-only"], &build(&workspace));
    assert!(symbols.lines().count() > 1, "the library is stripped, so this test sees nothing");
    let found: Vec<&str> =
        symbols.lines().filter(|line| PANIC_ENTRIES.iter().any(|entry| line.contains(entry))).collect();
    assert!(found.is_empty(), "code that can panic was linked in:\n  {}", found.join("\n  "));
}

/// A thread may be interrupted, cancelled or looked at by a debugger at any instruction.
#[test]
fn all_code_of_the_agent_has_unwind_information() {
    let library = build(&Workspace::load());
    let frames = run("readelf", &["--debug-dump=frames-interp"], &library);
    let described: Vec<(u64, u64)> = frames
        .lines()
        .filter_map(|line| line.split_once(" pc=")?.1.trim().split_once(".."))
        .map(|(start, end)| (hexadecimal(start), hexadecimal(end)))
        .collect();
    let symbols = run("nm", &["--defined-only", "--print-size"], &library);
    let code = symbols.lines().filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
        [start, size, "t" | "T", name] if name != SIGNAL_RETURN => {
            Some((hexadecimal(start), hexadecimal(size), name))
        }
        _ => None,
    });
    let code: Vec<_> = code.collect();
    assert!(code.len() > 50 && !described.is_empty(), "this test sees too little: {}", code.len());
    let bare: Vec<&str> = code
        .iter()
        .filter(|(start, size, _)| !described.iter().any(|(from, to)| from <= start && start + size <= *to))
        .map(|(_, _, name)| *name)
        .collect();
    assert!(bare.is_empty(), "without unwind information:\n  {}", bare.join("\n  "));
}

fn hexadecimal(number: &str) -> u64 {
    u64::from_str_radix(number, 16).expect("binutils print addresses in hexadecimal")
}

/// Cargo decides whether the library is up to date, so the tests never judge a stale one.
fn build(workspace: &Workspace) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--package", "forebay-agent", "--profile", "agent"])
        .arg("--target-dir")
        .arg(&workspace.target_directory)
        .current_dir(&workspace.root)
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "the agent does not build:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    workspace.target_directory.join("agent/libforebay_agent.so")
}

/// One symbol a line; a hash starts a comment.
fn allowed_symbols(list: &Path) -> Vec<String> {
    let lines = text(list);
    let names = lines.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn run(tool: &str, options: &[&str], library: &Path) -> String {
    let output = Command::new(tool).args(options).arg(library).env("LC_ALL", "C").output();
    let output = output.unwrap_or_else(|error| panic!("{tool} (of binutils): {error}"));
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("symbol names are ASCII")
}
