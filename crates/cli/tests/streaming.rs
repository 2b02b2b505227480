//! `forebay evaluate streaming`: servers with few clients, what is told of them, and what is left when it is interrupted.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use forebay_results::{Report, Row};
use forebay_testkit::skip;
use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

fn command(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["evaluate", "streaming", "--json", "results.json"]).args(more);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// The rows of a comparison; `None`, and a word on it, where a program that it needs is missing.
fn rows(test: &str, more: &[&str]) -> Option<Vec<Row>> {
    let folder = tempfile::tempdir().unwrap();
    let output = command(folder.path(), more).output().unwrap();
    if was_skipped(test, &output) {
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(results(folder.path()).rows)
}

fn was_skipped(test: &str, output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let lack = ["is not installed", "it needs"].iter().any(|lack| said.contains(lack));
    if lack {
        skip(test, &said);
    }
    lack
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn results(folder: &Path) -> Report {
    serde_json::from_slice(&fs::read(folder.join("results.json")).unwrap()).unwrap()
}

fn value(rows: &[Row], subject: &str, case: &str, metric: &str) -> f64 {
    let is = |row: &&Row| row.subject == subject && row.case.contains(case) && row.metric == metric;
    rows.iter().find(is).unwrap_or_else(|| panic!("no {metric} of {subject}, {case}: {rows:#?}")).value
}

#[test]
fn servers_are_compared_over_both_transports() {
    let asked = [
        "--clients",
        "3",
        "--rate",
        "300k",
        "--transport",
        "udp,tcp",
        "--buffers",
        "1,2",
        "--peers",
        "--seconds",
        "1.5",
        "--warm-up",
        "0.5",
        "--runs",
        "1",
        "--late",
        "5000",
    ];
    let Some(rows) = rows("servers_are_compared_over_both_transports", &asked) else { return };
    let others = [("mediamtx", "mediamtx"), ("live555", "live555MediaServer")];
    let others = others.into_iter().filter(|(_, program)| is_on_path(program)).map(|(subject, _)| subject);
    for subject in ["forebay, 1 buffer", "forebay, 2 buffers", "gstreamer"].into_iter().chain(others) {
        for transport in ["udp", "tcp"] {
            let case = format!("300 kbit/s/{transport}/many files/cached/3 clients");
            let of = |metric| value(&rows, subject, &case, metric);
            assert_eq!((of("playing"), of("late_streams"), of("lost"), of("failed")), (3.0, 0.0, 0.0, 0.0));
            // How much of three times 0.3 Mbit/s follows from how long the machine stands still.
            assert!(of("throughput") > 0.0, "{subject}, {case}: {rows:#?}");
            // Processor time is told in hundredths of a second, of which three small streams may take none.
            assert!(of("resident") > 1e6 && of("cpu") >= 0.0, "{subject}, {case}: {rows:#?}");
        }
    }
    assert!(value(&rows, "ceiling", "300 kbit/s", "sendmmsg") > 1.0);
}

#[test]
fn each_client_watches_a_camera_of_its_own() {
    let asked =
        "--cameras --clients 5 --transport udp,tcp --link 8 --seconds 1.5 --warm-up 0.5 --runs 1 --late 5000";
    let asked: Vec<&str> = asked.split(' ').collect();
    let Some(rows) = rows("each_client_watches_a_camera_of_its_own", &asked) else { return };
    for transport in ["udp", "tcp"] {
        let case = format!("300 kbit/s/{transport}/one file/cached/link 8/5 clients");
        let of = |metric| value(&rows, "forebay, cameras", &case, metric);
        assert_eq!((of("playing"), of("late_streams"), of("failed")), (5.0, 0.0, 0.0), "{case}");
        assert!(of("throughput") > 0.0, "{case}: {rows:#?}");
    }
}

/// Two clients of each of the containers that a server reads, as films of 300 kbit/s allow.
const REAL: &str = "--films real --clients 6 --seconds 2 --warm-up 0.5 --runs 1 --late 5000";

#[test]
fn real_films_are_played_with_sound_from_each_container() {
    let test = "real_films_are_played_with_sound_from_each_container";
    let asked = format!("{REAL} --transport udp,tcp --peers --profile local");
    let asked: Vec<&str> = asked.split(' ').collect();
    let Some(rows) = rows(test, &asked) else { return };
    for subject in ["forebay, 2 buffers", "gstreamer"] {
        for transport in ["udp", "tcp"] {
            let case = format!("300 kbit/s/{transport}/many real films/local/6 clients");
            let of = |metric| value(&rows, subject, &case, metric);
            assert_eq!(
                (of("playing"), of("late_streams"), of("failed")),
                (6.0, 0.0, 0.0),
                "{subject}, {case}"
            );
            // Pictures come, and so does sound, and B-frames are not taken for late ones.
            let (pictures, whole) = (of("pictures"), of("whole_pictures"));
            assert!(pictures > 0.0 && whole == pictures, "{subject}, {case}: {whole} of {pictures}");
            assert!(of("sound_lateness_max") < 5.0 && of("picture_lateness_max") < 5.0, "{subject}, {case}");
        }
    }
}

#[test]
fn a_link_makes_packets_late_or_has_the_server_wait() {
    let asked = format!("{REAL} --transport udp,tcp --link 1.5");
    let asked: Vec<&str> = asked.split(' ').collect();
    let Some(rows) = rows("a_link_makes_packets_late_or_has_the_server_wait", &asked) else { return };
    for transport in ["udp", "tcp"] {
        let case = format!("300 kbit/s/{transport}/many real films/cached/link 1.5/6 clients");
        let of = |metric| value(&rows, "forebay, 2 buffers", &case, metric);
        assert_eq!((of("playing"), of("failed")), (6.0, 0.0), "{case}: {rows:#?}");
        // Six links of 1.5 times 0.3 Mbit/s, beside what was under way.
        assert!(of("throughput") > 0.0 && of("throughput") < 2.0 * 6.0 * 0.45, "{case}: {rows:#?}");
    }
    let is_of_datagrams = |row: &Row| row.metric != "lost_on_link" || row.case.contains("/udp/");
    assert!(rows.iter().all(is_of_datagrams), "{rows:#?}");
}

#[test]
fn the_most_clients_are_looked_for() {
    // Nobody is late who may be a minute late, so that as many are held as are asked for.
    let asked = [
        "--search",
        "--clients",
        "1,3",
        "--peers=only",
        "--seconds",
        "0.5",
        "--warm-up",
        "0.2",
        "--runs",
        "1",
        "--late",
        "60000",
        "--files",
        "one",
        "--transport",
        "tcp",
    ];
    let Some(rows) = rows("the_most_clients_are_looked_for", &asked) else { return };
    assert_eq!(value(&rows, "gstreamer", "300 kbit/s/tcp/one file/cached", "clients_held"), 3.0);
}

#[test]
fn an_interrupt_keeps_what_was_measured_and_leaves_nobody_behind() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--clients", "2", "--peers=only", "--seconds", "1", "--warm-up", "0.2", "--runs", "1000"];
    let mut command = command(folder.path(), &more);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let own = Pid::from_child(&child);
    // Some rounds, however slow the machine: the players of a round are a process below ours.
    let begun = Instant::now();
    let (mut seen, mut before) = (0, None);
    while seen < 3 && begun.elapsed() < PATIENCE && child.try_wait().unwrap().is_none() {
        let players = players_of(child.id());
        if players.is_some() && players != before {
            seen += 1;
        }
        before = players.or(before);
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = kill_process(own, Signal::INT);
    let output = child.wait_with_output().unwrap();
    if was_skipped("an_interrupt_keeps_what_was_measured_and_leaves_nobody_behind", &output) {
        return;
    }
    assert_eq!((output.status.code(), seen), (Some(1), 3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"), "{output:?}");
    assert!(value(&results(folder.path()).rows, "gstreamer", "2 clients", "throughput") > 0.0);
    let last = before.unwrap();
    assert!(!is_players(last), "players are still there");
}

fn players_of(process: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    let mut children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children.find(|child| is_players(*child))
}

fn is_players(process: u32) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    line.ends_with(b"\0evaluate\0players\0")
}

#[test]
fn nonsense_is_refused_with_what_would_do() {
    let folder = tempfile::tempdir().unwrap();
    for (nonsense, remedy) in [
        (["--rate", "9T"], "such as 300k"),
        (["--transport", "sctp"], "one of: udp, tcp"),
        (["--profile", "floppy"], "cached, local, nvme, ssd-1ms-q128"),
        (["--seconds", "0"], "from 0.1"),
        (["--films", "silent"], "one of: made, real"),
        (["--link", "0.5"], "such as 1.5"),
    ] {
        let output = command(folder.path(), &nonsense).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(remedy), "{output:?}");
    }
}

#[test]
fn those_that_disturb_are_counted_and_harm_nobody() {
    let test = "those_that_disturb_are_counted_and_harm_nobody";
    let asked =
        "--clients 3 --disturb kill,half-open,slow,flood --seconds 2 --warm-up 0.5 --runs 1 --late 5000";
    let asked: Vec<&str> = asked.split(' ').collect();
    let Some(rows) = rows(test, &asked) else { return };
    let case = "300 kbit/s/udp/many files/cached/3 clients";
    for disturbance in ["/kill", "/half-open", "/slow", "/flood"] {
        let of = |metric| value(&rows, "forebay, 2 buffers", &format!("{case}{disturbance}"), metric);
        assert_eq!((of("playing"), of("late_streams"), of("failed")), (3.0, 0.0, 0.0), "{disturbance}");
        assert!(of("disturbers") > 0.0, "{disturbance}: {rows:#?}");
    }
    assert!(!rows.iter().any(|row| row.metric == "disturbers" && row.case.ends_with(case)));
}
