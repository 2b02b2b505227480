//! Useless speculation of a whole run becomes rare, with a reason; trials are made unless an option forbids them.

use forebay_compat::guests::build;
use forebay_compat::{Case, Outcome, in_some_run, skip, switch};

/// Each process may try anew what was for nothing in all others; together they would lose much.
const SCRIPT: &str = "for i in $(seq 32); do $0 data 300; done";
const FILE_BYTES: usize = 16 << 20;

fn astray(name: &str, options: &[&'static str]) -> Outcome {
    let argv = ["sh".into(), "-c".into(), SCRIPT.into(), build("astray").into_os_string()];
    let case = Case::new(name, argv).setup(|scratch| {
        scratch.noise("data", FILE_BYTES, 9);
    });
    // What a program may spend at first is as outside tests.
    case.options(options).env("FOREBAY_FIRST_US", "250").seconds(120).check().expect("sh")
}

/// The figures whose names begin so.
fn family(outcome: &Outcome, prefix: &str) -> Vec<(String, f64)> {
    outcome.totals().into_iter().filter(|(metric, _)| metric.starts_with(prefix)).collect()
}

#[test]
fn speculation_that_is_for_nothing_becomes_rare_with_a_reason_and_without_trials_where_none_are_wanted() {
    let name =
        "speculation_that_is_for_nothing_becomes_rare_with_a_reason_and_without_trials_where_none_are_wanted";
    let without = astray("control_off", &["--memory-control", "off"]);
    if switch("FOREBAY_COMPAT_PLAIN") {
        return skip(name, "both sides run without forebay");
    }
    assert!(family(&without, "trials/").iter().all(|(_, count)| *count == 0.0), "{:?}", without.totals());
    assert_eq!(without.figure("savings_believed"), 1.0);
    let with = in_some_run(|| {
        astray("control_on", &["--memory-control", "on"])
            .wanted(|with| with.figure("threshold_crossings") > 0.0)
    });
    let reasons = family(&with, "fork_crossings/");
    let crossings: f64 = reasons.iter().map(|(_, count)| count).sum();
    assert_eq!(crossings, with.figure("threshold_crossings"), "{reasons:?}");
    // All processes share what one may lose. How much that is follows from what they wait for the disk.
    let rare = (with.figure("stalls_before") / 100.0).max(16.0);
    assert!(with.figure("forks") < rare, "{:?}", with.totals());
    // Nothing else but a trial changes what is believed.
    let trials: f64 = family(&with, "trials/").iter().map(|(_, count)| count).sum();
    assert!(trials > 0.0 || with.figure("savings_believed") == 1.0, "{:?}", with.totals());
}
