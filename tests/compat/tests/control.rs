//! Memory control of a whole run: useless speculation is turned off, with a reason, unless an option forbids that.

use std::time::{Duration, Instant};

use forebay_compat::guests::build;
use forebay_compat::{Case, Outcome, skip, switch};

/// Each process may try anew what was for nothing in all others; together they would lose much.
const SCRIPT: &str = "for i in $(seq 300); do $0 data 10; done";
const FILE_BYTES: usize = 16 << 20;

fn astray(name: &str, options: &[&'static str]) -> Outcome {
    let argv = ["sh".into(), "-c".into(), SCRIPT.into(), build("astray").into_os_string()];
    let case = Case::new(name, argv).setup(|scratch| {
        scratch.noise("data", FILE_BYTES, 9);
    });
    case.options(options).seconds(120).check().expect("sh")
}

/// The figures whose names begin so.
fn family(outcome: &Outcome, prefix: &str) -> Vec<(String, f64)> {
    outcome.totals().into_iter().filter(|(metric, _)| metric.starts_with(prefix)).collect()
}

#[test]
fn speculation_that_is_for_nothing_goes_off_with_a_reason_where_that_is_wanted() {
    let without = astray("control_off", &["--memory-control", "off"]);
    if switch("FOREBAY_COMPAT_PLAIN") {
        let name = "speculation_that_is_for_nothing_goes_off_with_a_reason_where_that_is_wanted";
        return skip(name, "both sides run without forebay");
    }
    assert!(without.figure("forks") > 0.0);
    assert_eq!(family(&without, "control_crossing"), []);
    assert_eq!(
        without.figure("threshold_crossings"),
        family(&without, "fork_crossings/").iter().map(|(_, count)| count).sum::<f64>()
    );
    // Speculators run at idle priority: on a busy machine they may do too little harm.
    let patience = Instant::now() + Duration::from_secs(300);
    let with = loop {
        let with = astray("control_on", &["--memory-control", "on"]);
        if !family(&with, "control_crossings/").is_empty() {
            break with;
        }
        assert!(Instant::now() < patience, "no crossing in five minutes: {:?}", with.totals());
    };
    let (reasons, moments) = (family(&with, "control_crossings/"), family(&with, "control_crossing_at/"));
    let crossings: f64 = reasons.iter().map(|(_, count)| count).sum();
    assert_eq!(crossings, moments.len() as f64, "{reasons:?}, {moments:?}");
    for (metric, at) in &moments {
        assert!(*at > 0.0 && *at < with.figure("elapsed"), "{metric} is {at}");
        let (_, numbered) = metric.split_once('/').expect("a family");
        let (_, reason) = numbered.split_once('_').expect("a number and a reason");
        assert!(with.figure(&format!("control_crossings/{reason}")) > 0.0, "{metric} in {reasons:?}");
    }
}
