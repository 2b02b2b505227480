//! Runs one command, adopts the processes that it leaves behind, and writes a report.
//!
//! `forebay-compat-warden REPORT SECONDS COMMAND [ARG...]`. The warden is a subreaper: processes that the command orphans,
//! such as a daemon or a speculator, become children of the warden. The report has one fact a line:
//!
//! - `status N`: how the command ended, as a shell would say it (128 + signal);
//! - `timeout`: the warden killed the command after SECONDS;
//! - `speculator-left MS`: a process of forebay's was last seen MS after the end of the command;
//! - `speculator-stays`: the warden had to kill that process.
//!
//! The warden kills what is left before it ends, so no process outlives a test.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// How long a speculator may take to notice that its original is gone.
const SPECULATOR_GRACE: Duration = Duration::from_secs(2);

/// Names of a speculator, and of the supervisor.
const OURS: [&str; 2] = ["forebay:spec", "forebay"];

fn main() {
    let mut arguments = env::args_os().skip(1);
    let report = arguments.next().expect("REPORT");
    let seconds: u64 = arguments.next().and_then(|s| s.to_str()?.parse().ok()).expect("SECONDS");
    let program = arguments.next().expect("COMMAND");
    nix::sys::prctl::set_child_subreaper(true).expect("become a subreaper");

    let started = Instant::now();
    let mut text = String::new();
    match Command::new(&program).args(arguments).spawn() {
        Err(error) => {
            let _ = writeln!(text, "status 127\nunstarted {error}");
        }
        Ok(child) => {
            let main = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
            let mut ended = None;
            while ended.is_none() {
                if started.elapsed() > Duration::from_secs(seconds) {
                    text.push_str("timeout\n");
                    describe_all(&mut text);
                    break;
                }
                ended = reap(Some(main));
                if ended.is_none() {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            let _ = writeln!(text, "status {}", ended.unwrap_or(137));
            speculators_left(&mut text);
        }
    }
    kill_all();
    fs::write(report, text).expect("write the report");
}

/// Collects ended children; the status of `main` when it is among them.
fn reap(main: Option<Pid>) -> Option<i32> {
    let mut found = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if Some(pid) == main => found = Some(code),
            Ok(WaitStatus::Signaled(pid, signal, _)) if Some(pid) == main => {
                found = Some(128 + signal as i32)
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return found,
            Ok(_) => {}
        }
    }
}

fn speculators_left(text: &mut String) {
    let ended = Instant::now();
    let mut last_seen = None;
    while ended.elapsed() < SPECULATOR_GRACE {
        reap(None);
        if !descendants().iter().any(|&pid| OURS.contains(&name_of(pid).as_str())) {
            break;
        }
        last_seen = Some(ended.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    if let Some(after) = last_seen {
        let _ = writeln!(text, "speculator-left {}", after.as_millis());
        if after + Duration::from_millis(50) > SPECULATOR_GRACE {
            text.push_str("speculator-stays\n");
        }
    }
}

fn describe_all(text: &mut String) {
    for pid in descendants() {
        let wait = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let _ = writeln!(text, "alive {} pid {pid} in {wait} call {}", name_of(pid), call.trim());
    }
}

fn kill_all() {
    for _ in 0..200 {
        let alive = descendants();
        if alive.is_empty() {
            return;
        }
        for pid in alive {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        thread::sleep(Duration::from_millis(2));
        reap(None);
    }
}

/// Every process below this one.
fn descendants() -> BTreeSet<i32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|s| s.parse::<i32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some((_, tail)) = stat.rsplit_once(") ") else { continue };
        let mut fields = tail.split(' ');
        if fields.next() == Some("Z") {
            continue;
        }
        if let Some(parent) = fields.next().and_then(|s| s.parse::<i32>().ok()) {
            parents.push((pid, parent));
        }
    }
    let own = nix::unistd::getpid().as_raw();
    let mut below = BTreeSet::from([own]);
    loop {
        let before = below.len();
        below.extend(
            parents
                .iter()
                .filter(|(_, parent)| below.contains(parent))
                .map(|&(pid, _)| pid)
                .collect::<Vec<_>>(),
        );
        if below.len() == before {
            break;
        }
    }
    below.remove(&own);
    below
}

fn name_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}
