//! The web servers of the shipped experiment, as far as they are installed.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::{Duration, Instant};

use forebay_evaluation::servers::server::{Options, Told, run};
use forebay_lab::MemoryLimit;
use forebay_testkit::skip;

/// How long a busy machine may take until a measurement is long enough.
const PATIENCE: Duration = Duration::from_secs(300);

fn rows(server: &str, settings: &[&str]) -> Option<Vec<forebay_results::Row>> {
    let fixed = ["runs=1", "warm_up=0.1", "document=10K", "documents=8M", "clients=4"].map(str::to_owned);
    let begun = Instant::now();
    for seconds in [0.5, 4.0, 32.0] {
        let server_and_time = [format!("servers={server}"), format!("seconds={seconds}")];
        let own = settings.iter().map(|setting| (*setting).to_owned());
        let set: Vec<String> = fixed.iter().cloned().chain(server_and_time).chain(own).collect();
        match run(&Options::read(Path::new("web"), &set).unwrap(), &mut |_| ()) {
            Err(error) if error.to_string().contains("is not installed") => {
                skip(server, &error);
                return None;
            }
            // A busy machine may leave it no time.
            Err(error) if error.to_string().contains("answered no request") => {
                assert!(begun.elapsed() < PATIENCE, "{error}");
            }
            outcome => return Some(outcome.unwrap().rows()),
        }
    }
    panic!("{server} answers nothing");
}

fn value(rows: &[forebay_results::Row], metric: &str) -> f64 {
    let row = rows.iter().find(|row| row.metric == metric);
    row.unwrap_or_else(|| panic!("no {metric}: {rows:#?}")).value
}

#[test]
fn both_servers_serve_whole_documents_over_kept_and_new_connections() {
    for server in ["nginx", "apache"] {
        for connections in ["connections=kept", "connections=new"] {
            let Some(rows) = rows(server, &[connections]) else { continue };
            let bits_per_request = value(&rows, "throughput") * 1e6 / value(&rows, "transactions");
            assert!(
                (bits_per_request - 8.0 * 10_240.0).abs() < 1.0,
                "{server}, {connections}: {bits_per_request}"
            );
            let (latency, processor) = (value(&rows, "latency_p50"), value(&rows, "cpu_time_per_request"));
            assert!(latency > 0.0 && processor > 0.0, "{server}, {connections}: {rows:#?}");
        }
    }
}

#[test]
fn a_server_with_little_memory_reads_from_the_disk_what_it_had_before() {
    if let Err(why) = MemoryLimit::supported() {
        return skip("a_server_with_little_memory", &why);
    }
    // What a server reads once counts for much where a busy machine leaves it time for few requests.
    let begun = Instant::now();
    for seconds in [1, 4, 16, 64] {
        let time = [format!("seconds={seconds}"), format!("warm_up={seconds}"), "documents=64M".into()];
        let read = |memory: &[&str]| {
            let settings: Vec<&str> = time.iter().map(String::as_str).chain(memory.iter().copied()).collect();
            rows("nginx", &settings).map(|rows| value(&rows, "disk_read_per_request"))
        };
        let Some((limited, free)) = read(&["memory=16M"]).zip(read(&[])) else { return };
        if limited > 1024.0 && free < 100.0 {
            return;
        }
        let read =
            format!("bytes from the disk per request: {limited} with little memory, {free} with enough");
        assert!(begun.elapsed() < PATIENCE, "{read}");
        eprintln!("{seconds} s of requests are too few: {read}");
    }
    panic!("the server with little memory does not read more from the disk");
}
