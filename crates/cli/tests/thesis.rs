//! `forebay evaluate thesis`: files of results, the table beside what was published, and what is left out.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use forebay_results::{Report, Tier};
use forebay_testkit::skip;

fn forebay(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).current_dir(folder).output().unwrap()
}

/// One measurement at a time: they would take each other's processors.
static TURN: Mutex<()> = Mutex::new(());
/// Other programs can take the processors for so long that a load does not end in its time.
const ATTEMPTS_MAX: u32 = 5;

/// What a quick run of `part` gives, with what it says; nothing where this machine lacks what the part takes.
fn quick(part: &str) -> Option<(Report, String)> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (1..=ATTEMPTS_MAX).find_map(|attempt| measured(part, attempt == ATTEMPTS_MAX)).flatten()
}

/// Nothing where a part was left out, and it is not the last attempt.
fn measured(part: &str, is_last: bool) -> Option<Option<(Report, String)>> {
    let folder = tempfile::tempdir().unwrap();
    let output =
        forebay(&["evaluate", "thesis", "--quick", "--only", part, "--json", "results"], folder.path());
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let lacks = ["is not installed", "it needs", "need root", "needs root"];
    if let Some(why) = said.lines().find(|line| lacks.iter().any(|lack| line.contains(lack))) {
        skip(part, why);
        return Some(None);
    }
    if said.contains("Left out") && !is_last {
        return None;
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let wide = said.lines().find(|line| line.starts_with('|') && line.chars().count() > 80);
    assert_eq!(wide, None, "{said}");
    let file = folder.path().join("results").join(part).with_extension("json");
    Some(Some((serde_json::from_slice(&fs::read(file).unwrap()).unwrap(), said)))
}

/// The third cell of the line of the table that is about `what`.
fn here<'a>(table: &'a str, what: &str) -> &'a str {
    let line = table.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {table}"));
    line.split('|').nth(3).unwrap().trim()
}

#[test]
fn the_model_has_the_published_figures_and_a_file_with_date_and_command() {
    let (report, said) = quick("model").unwrap();
    assert_eq!((here(&said, "HTTP, Pentium 4"), here(&said, "MR 0.1, MP 10")), ("3,640", "2"));
    assert!(report.rows.iter().all(|row| row.tier == Tier::Simulated));
    assert!(!report.date.is_empty() && report.command.contains("evaluate thesis --quick"), "{report:?}");
}

#[test]
fn web_servers_answer_over_kept_and_over_new_connections() {
    let Some((report, _)) = quick("web") else { return };
    assert!(report.others_cpu.is_some(), "{report:?}");
    for connections in ["kept", "new"] {
        let case = format!("10 KiB/4 clients/{connections} connections");
        let answers = report.rows.iter().find(|row| row.case == case && row.metric == "transactions");
        assert!(answers.is_some_and(|row| row.value > 0.0), "{case}: {report:#?}");
    }
}

#[test]
fn misses_of_requests_are_simulated_and_the_kernels_share_is_told_apart() {
    let Some((report, said)) = quick("misses") else { return };
    let of = |metric: &str| {
        let row = report.rows.iter().find(|row| row.metric == metric);
        row.unwrap_or_else(|| panic!("no {metric}: {said}"))
    };
    let misses = of("cache_misses_per_request");
    assert!(misses.value > 0.0 && misses.tier == Tier::Simulated, "{misses:?}");
    let kernel = of("kernel_share");
    assert!((0.0..=100.0).contains(&kernel.value) && kernel.tier == Tier::Software, "{kernel:?}");
}

#[test]
fn the_memory_that_streams_need_is_told_for_one_medium_and_for_many() {
    let Some((report, said)) = quick("memory") else { return };
    let enough: Vec<_> = report.rows.iter().filter(|row| row.metric == "memory_enough").collect();
    assert_eq!(enough.len(), 2, "{report:#?}");
    assert!(enough.iter().all(|row| row.value > 0.0) && said.contains("are enough"), "{said}");
    assert_ne!(here(&said, "faults/s, a medium each"), "-");
}

#[test]
fn parts_and_folders_that_cannot_be_are_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let output = forebay(&["evaluate", "thesis", "--only", "disk"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("model, web, router, misses, memory"));
    fs::write(folder.path().join("file"), "").unwrap();
    let output = forebay(&["evaluate", "thesis", "--json", "file"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("file"), "{output:?}");
}
