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
//! - `killed NAME`: the warden killed that process, as it was asked to.
//!
//! The warden kills what is left before it ends, so no process outlives a test.
//!
//! `FOREBAY_COMPAT_KILL=VICTIM:MICROSECONDS` asks for a kill that long after the start, or as soon after that as there is a victim:
//! the `command` itself, or another process of the name VICTIM. Several are separated by commas.

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
/// Name of the executor. It may wait for a file system that does not answer, so it counts only where the warden kills.
const EXECUTOR: &str = "forebay:hints";

/// What is to be killed, and when.
const KILL: &str = "FOREBAY_COMPAT_KILL";
/// The victim that is the command.
const COMMAND: &str = "command";
/// Between looks at what runs: with a kill to come, moments count.
const LOOK: Duration = Duration::from_millis(1);
const LOOK_TO_KILL: Duration = Duration::from_micros(100);

fn main() {
    let mut arguments = env::args_os().skip(1);
    let report = arguments.next().expect("REPORT");
    let seconds: u64 = arguments.next().and_then(|s| s.to_str()?.parse().ok()).expect("SECONDS");
    let program = arguments.next().expect("COMMAND");
    nix::sys::prctl::set_child_subreaper(true).expect("become a subreaper");

    let started = Instant::now();
    let mut kills = kills(started);
    let kills_at_all = !kills.is_empty();
    let mut text = String::new();
    match Command::new(&program).args(arguments).env_remove(KILL).spawn() {
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
                    kills.retain(|victim| !victim.is_killed(main, &mut text));
                    thread::sleep(if kills.is_empty() { LOOK } else { LOOK_TO_KILL });
                }
            }
            let _ = writeln!(text, "status {}", ended.unwrap_or(137));
            ours_left(&mut text, kills, kills_at_all);
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

/// A process that is to be killed.
struct Victim {
    name: String,
    due: Instant,
}

/// What the environment asks for.
fn kills(started: Instant) -> Vec<Victim> {
    let wanted = env::var(KILL).unwrap_or_default();
    let victims = wanted.split(',').filter(|victim| !victim.is_empty());
    victims
        .map(|victim| {
            let (name, after) = victim.rsplit_once(':').expect("VICTIM:MICROSECONDS");
            let after = after.parse().map(Duration::from_micros).expect("a number of microseconds");
            Victim { name: name.to_owned(), due: started + after }
        })
        .collect()
}

impl Victim {
    /// Kills it, if it is time and it is there.
    fn is_killed(&self, command: Pid, text: &mut String) -> bool {
        if Instant::now() < self.due {
            return false;
        }
        let found = if self.name == COMMAND {
            Some(command)
        } else {
            let is_victim = |pid: &i32| *pid != command.as_raw() && name_of(*pid) == self.name;
            descendants().into_iter().find(is_victim).map(Pid::from_raw)
        };
        let is_killed = found.is_some_and(|pid| kill(pid, Signal::SIGKILL).is_ok());
        if is_killed {
            let _ = writeln!(text, "killed {}", self.name);
        }
        is_killed
    }
}

/// Waits for what is forebay's to end, and kills of it what is to be killed later than the command has ended.
fn ours_left(text: &mut String, mut kills: Vec<Victim>, with_executor: bool) {
    kills.retain(|victim| victim.name != COMMAND);
    let is_ours = |name: &str| OURS.contains(&name) || with_executor && name == EXECUTOR;
    let ended = Instant::now();
    let mut last_seen = None;
    while ended.elapsed() < SPECULATOR_GRACE {
        reap(None);
        if !descendants().iter().any(|&pid| is_ours(&name_of(pid))) {
            break;
        }
        last_seen = Some(ended.elapsed());
        kills.retain(|victim| !victim.is_killed(nix::unistd::getpid(), text));
        thread::sleep(if kills.is_empty() { LOOK } else { LOOK_TO_KILL });
    }
    if let Some(after) = last_seen {
        let _ = writeln!(text, "speculator-left {}", after.as_millis());
        if after + Duration::from_millis(50) > SPECULATOR_GRACE {
            text.push_str("speculator-stays\n");
            describe_all(text);
        }
    }
}

fn describe_all(text: &mut String) {
    for pid in descendants() {
        let wait = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, tail)| tail.split(' ').next()).unwrap_or_default();
        let _ =
            writeln!(text, "alive {} pid {pid} state {state} in {wait} call {}", name_of(pid), call.trim());
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
