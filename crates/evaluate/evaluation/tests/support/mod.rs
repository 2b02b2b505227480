//! Runs of servers with a planted cause, and what is said of them.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod late;

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_evaluation::servers::server::{self, Limit, Options, Outcome, Told, Verdict};
use forebay_testkit::skip;

/// One server at a time: they would take each other's processors.
static TURN: Mutex<()> = Mutex::new(());

pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server with a cause that is known.
pub struct Planted<'a> {
    pub name: &'a str,
    /// Its command line, with `{port}` in it.
    pub server: &'a [&'a str],
    pub settings: &'a [&'a str],
    pub simulate: bool,
}

impl Planted<'_> {
    /// What is said of it under a load of eight clients, and the table.
    pub fn run(&self, attempt: u32) -> (Verdict, String) {
        let any = format!("server = {:?}\nurl = \"http://127.0.0.1:{{port}}/\"\n", self.server);
        let settings: Vec<String> = self.settings.iter().map(|setting| (*setting).to_owned()).collect();
        said(self.name, &any, &settings, self.simulate, attempt)
    }

    /// The same of a server that runs already.
    pub fn attached(name: &str, process: &str, url: &str, attempt: u32) -> (Verdict, String) {
        said(name, &format!("pid = {process}\nurl = {url:?}\n"), &[], false, attempt)
    }
}

fn said(name: &str, any: &str, settings: &[String], simulate: bool, attempt: u32) -> (Verdict, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("experiment.toml");
    // Where other programs leave few of the processors, a server takes longer until the cause is all that it does.
    let (mut seconds, begun) = (attempt, Instant::now());
    loop {
        let warm_up = f64::from(seconds) * 0.3;
        let description = format!(
            "title = \"{name}\"\nruns = 1\nseconds = {seconds}\nwarm_up = {warm_up}\n[any]\nname = \"{name}\"\n{any}"
        );
        fs::write(&path, description).unwrap();
        let options = Options { simulate, ..Options::read(&path, settings).unwrap() };
        let outcome: Outcome = match server::run(&options, &mut |_| ()) {
            // And until it answers anything, and the machine goes on meanwhile.
            Err(error) if begun.elapsed() < PATIENCE && has_no_time(&error.to_string()) => {
                seconds *= 2;
                continue;
            }
            outcome => outcome.unwrap(),
        };
        let table = outcome.table();
        return (outcome.verdicts().remove(0).0, table);
    }
}

fn has_no_time(error: &str) -> bool {
    ["answered no request", "stood still"].iter().any(|what| error.contains(what))
}

/// Runs that may miss a cause on a machine without other work: other programs can hold a server up unseen.
const ATTEMPTS_MAX: u32 = 10;
/// How long a cause is looked for while other programs take the processors.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures until the verdict is this one.
#[track_caller]
pub fn assert_named(
    limit: Limit,
    diagnose: impl Fn(u32) -> (Verdict, String),
    besides: impl Fn(&Verdict) -> bool,
) {
    assert_told(&format!("{limit:?}"), diagnose, |verdict| verdict.limit == limit && besides(verdict));
}

/// Measures until `what` is told. A run in which other programs took the processors says nothing of the server.
#[track_caller]
pub fn assert_told(
    what: &str,
    diagnose: impl Fn(u32) -> (Verdict, String),
    is_told: impl Fn(&Verdict) -> bool,
) {
    let (mut said, begun) = (vec![], Instant::now());
    for attempt in 1.. {
        let (verdict, table) = diagnose(attempt.min(ATTEMPTS_MAX));
        if is_told(&verdict) {
            return list(&verdict);
        }
        let says_little = matches!(verdict.limit, Limit::Processor | Limit::Undecided);
        if says_little && is_crowded(&verdict) {
            if begun.elapsed() > PATIENCE {
                return skip(&format!("{what} is named"), "other programs take the processors all the time");
            }
            continue;
        }
        said.push(format!("{verdict:?}\n{table}"));
        eprintln!("attempt {attempt}: {verdict:?}");
        assert!(said.len() < ATTEMPTS_MAX as usize, "{what} was not found: {}", said.join("\n"));
    }
}

/// A line of the list of causes: that of the test, and what was said.
fn list(verdict: &Verdict) {
    let thread = thread::current();
    let planted = thread.name().unwrap_or_default().replace('_', " ");
    println!("planted: {planted}; said: {}", verdict.limit_in_words());
}

/// Other programs that take so much of the processors are what limits.
const CROWDED_PERCENT: f64 = 40.0;

/// Whether other programs may be what limits.
pub fn is_crowded(verdict: &Verdict) -> bool {
    others_percent(verdict) >= CROWDED_PERCENT
}

/// What other programs took of the machine's processors, by the verdict's evidence.
fn others_percent(verdict: &Verdict) -> f64 {
    let told = verdict.evidence.iter().find_map(|sentence| sentence.split_once(", others "));
    told.and_then(|(_, share)| share.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}
