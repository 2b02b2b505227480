//! No test waits for a fixed time in the hope that something has happened by then.
//!
//! A test polls a condition in a loop that has a deadline, or receives with a deadline. A sleep outside of a loop needs a
//! line in `FIXED` with the reason why it is none of these.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use forebay_tidy::sources::{has_extension, text, written_files};
use forebay_tidy::waits::fixed_sleeps;
use forebay_tidy::workspace::Workspace;

/// Files of tests, how many fixed sleeps each has, and why.
const FIXED: &[(&str, usize, &str)] = &[
    (
        "crates/evaluate/stream-clients/src/sockets.rs",
        1,
        "what is late must be late by this time; an iterator makes the tries",
    ),
    ("crates/run/supervisor/src/devices/mod.rs", 1, "the device takes so long"),
    ("crates/share/millipage/src/usage.rs", 3, "the activities that are timed take so long"),
    (
        "tests/compat/src/observe.rs",
        8,
        "pauses of a watch that `Watch` calls in a loop, and the time for stragglers",
    ),
];

#[test]
fn no_test_sleeps_instead_of_waiting_for_a_condition() {
    let workspace = Workspace::load();
    let mut found = BTreeMap::new();
    for path in written_files(&workspace.root) {
        let name = workspace.relative(&path);
        if !has_extension(&path, &["rs"]) || name.starts_with("fuzz/") {
            continue;
        }
        let whole_file = name.split('/').any(|folder| folder == "tests");
        let lines = fixed_sleeps(&text(&path), whole_file).unwrap_or_else(|error| panic!("{name}: {error}"));
        if !lines.is_empty() {
            found.insert(name.to_owned(), lines);
        }
    }
    for &(name, count, _) in FIXED {
        let listed = found.remove(name).unwrap_or_default();
        if listed.len() != count {
            found.insert(format!("{name} ({count} are listed)"), listed);
        }
    }
    let broken: Vec<String> =
        found.iter().map(|(name, lines)| format!("{name}: fixed sleeps on lines {lines:?}")).collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// Scripts inside of tests wait in the same way: a sleep there stands in the line of its loop, or in a loop's body.
#[test]
fn scripts_in_tests_sleep_in_loops_only() {
    let workspace = Workspace::load();
    let mut broken = Vec::new();
    for path in written_files(&workspace.root.join("tests/compat")) {
        if !has_extension(&path, &["rs"]) {
            continue;
        }
        let text = text(&path);
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            let sleeps = line.contains("time.sleep(");
            if sleeps && !line.contains("while ") && !before.trim_start().starts_with("while ") {
                broken.push(format!("{}:{}: {}", workspace.relative(&path), number + 1, line.trim()));
            }
            before = line;
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}
