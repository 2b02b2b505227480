//! A stand-in for `forebay`, which only runs the program.

use std::path::PathBuf;

use tempfile::TempDir;

/// Takes the options of `forebay run`, leaves statistics, and then does `last`.
pub fn stand_in(last: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forebay");
    let script = r#"#!/bin/sh
options=$*
while [ "$1" != -- ]; do
    if [ "$1" = --json ]; then statistics=$2; fi
    shift
done
shift
if [ -n "$statistics" ]; then
    host='{"kernel": "k", "cpu": "c", "cores": 1, "memory_bytes": 1}'
    row='"subject": "run", "case": "total", "metric": "stalls_before", "unit": "1"'
    row="{$row, \"value\": 7, \"min\": 7, \"max\": 7, \"runs\": 1, \"tier\": \"software\"}"
    echo "{\"schema\": 1, \"revision\": \"r\", \"command\": \"c\", \"host\": $host, \"rows\": [$row]}" > "$statistics"
fi
"#;
    forebay_testkit::script(&path, &format!("{script}{last}\n"));
    (folder, path)
}
