//! The shipped experiments that need more than a web server, as far as that is there.
#![forbid(unsafe_code)]

use std::path::Path;

use forebay_evaluation::servers::server::{Options, Told, run};
use forebay_results::Row;
use forebay_testkit::skip;

/// Rows of an experiment with these settings; `None`, and a word on it, where something is not installed or allowed.
fn rows(experiment: &str, settings: &[&str]) -> Option<Vec<Row>> {
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    match run(&Options::read(Path::new(experiment), &settings).unwrap(), &mut |_| ()) {
        Err(error)
            if ["is not installed", "it needs", "need root"]
                .iter()
                .any(|lack| error.to_string().contains(lack)) =>
        {
            skip(experiment, &error);
            None
        }
        outcome => Some(outcome.unwrap().rows()),
    }
}

fn value(rows: &[Row], metric: &str) -> f64 {
    let row = rows.iter().find(|row| row.metric == metric);
    row.unwrap_or_else(|| panic!("no {metric}: {rows:#?}")).value
}

#[test]
fn messages_are_forwarded_in_every_layout() {
    for layout in ["one-to-one", "full-duplex", "many-to-one"] {
        let layout = format!("layout={layout}");
        let settings = ["runs=1", "seconds=1", "warm_up=0", "message=10K", layout.as_str()];
        let Some(rows) = rows("router", &settings) else { return };
        let bits_per_message = value(&rows, "throughput") * 1e6 / value(&rows, "transactions");
        assert!((bits_per_message - 8.0 * 10_240.0).abs() < 1.0, "{layout}: {bits_per_message}");
    }
}

#[test]
fn streams_play_at_their_rate_with_lateness_and_jitter() {
    let settings =
        ["runs=1", "seconds=2", "warm_up=1", "bitrate=300K", "clients=3", "media=2", "servers=gstreamer"];
    let Some(rows) = rows("streaming", &settings) else { return };
    // Three of 0.3 Mbit/s, as near as the encoder comes, and a loaded machine.
    let megabits = value(&rows, "throughput");
    assert!((0.3..1.8).contains(&megabits), "{megabits}");
    assert!(value(&rows, "lateness_p99") < 10.0 && value(&rows, "jitter") < 10.0, "{rows:#?}");
    assert!(rows.iter().all(|row| row.subject == "gstreamer" && row.case == "300 kbit/s/2 media/3 clients"));
}
