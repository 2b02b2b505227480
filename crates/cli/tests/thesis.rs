//! `forebay evaluate thesis`: files of results, the table beside what was published, and what is left out.
#![forbid(unsafe_code)]

mod parts;

use std::fs;

use forebay_results::Tier;

use parts::{forebay, here, quick};

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
fn parts_and_folders_that_cannot_be_are_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let output = forebay(&["evaluate", "thesis", "--only", "disk"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("model, web, router, misses, memory"));
    fs::write(folder.path().join("file"), "").unwrap();
    let output = forebay(&["evaluate", "thesis", "--json", "file"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write results to 'file'"), "{output:?}");
    let output = forebay(&["evaluate", "thesis", "--json", "-"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("results are several files"), "{output:?}");
    assert!(!folder.path().join("-").exists());
}
