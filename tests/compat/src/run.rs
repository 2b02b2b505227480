//! One run of one command, plain or under `forebay run`, and what came out of it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::tree::{self, Tree};

/// How a command is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// As the shell would.
    Without,
    /// Under `forebay run`.
    With,
}

/// What a command left behind.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Everything written to standard output.
    pub stdout: Vec<u8>,
    /// Everything written to standard error.
    pub stderr: Vec<u8>,
    /// Exit status as a shell would say it.
    pub status: i32,
    /// The scratch directory afterwards.
    pub tree: Tree,
    /// What observers saw.
    pub observed: String,
    /// Guests' `stamp` lines, taken out of standard output: when an effect began, `CLOCK_MONOTONIC` nanoseconds.
    pub stamps: Vec<u64>,
    /// The statistics that `forebay run --json` wrote; empty without it.
    pub stats: String,
    /// What the warden found wrong: a time-out, processes left.
    pub complaints: Vec<String>,
    /// How long after the end a speculator was still seen.
    pub lingered_ms: u64,
    /// Which victims of [`crate::Case::kill`] the warden has killed.
    pub killed: Vec<String>,
    /// From start to end.
    pub took: Duration,
}

impl Outcome {
    /// A figure of the whole run from the statistics, by its metric's name; 0 where there is none.
    #[must_use]
    pub fn figure(&self, metric: &str) -> f64 {
        self.totals().into_iter().find(|(name, _)| name == metric).map_or(0.0, |(_, value)| value)
    }

    /// This, if it is as wanted.
    ///
    /// # Errors
    ///
    /// Where it is not: all its figures.
    pub fn wanted(self, is_wanted: impl FnOnce(&Self) -> bool) -> Result<Self, String> {
        if is_wanted(&self) { Ok(self) } else { Err(format!("{:?}", self.totals())) }
    }

    /// All figures of the whole run that are not 0.
    #[must_use]
    pub fn totals(&self) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        let (mut case, mut metric) = ("", "");
        for line in self.stats.lines() {
            let Some((name, value)) = line.trim().trim_end_matches(',').split_once(": ") else { continue };
            match name {
                "\"case\"" => case = value.trim_matches('"'),
                "\"metric\"" => metric = value.trim_matches('"'),
                "\"value\"" if case == "total" => match value.parse() {
                    Ok(0.0) | Err(_) => {}
                    Ok(value) => found.push((metric.to_owned(), value)),
                },
                _ => {}
            }
        }
        found
    }
}

/// What to start and where.
pub struct Launch<'a> {
    /// Program and arguments.
    pub argv: &'a [OsString],
    /// Options of `forebay run` before `--`.
    pub options: &'a [&'a str],
    /// Whether `forebay run` writes its statistics. It stands above the command then instead of beside it.
    pub statistics: bool,
    /// Commands in front of the whole, as `refuse seccomp --` is.
    pub before: &'a [OsString],
    /// The member list of a control group that all of it becomes a member of.
    pub group: Option<PathBuf>,
    /// Standard input; nothing where there is none.
    pub stdin: Option<&'a [u8]>,
    /// Variables beyond the fixed ones.
    pub env: &'a [(String, String)],
    /// Working directory.
    pub cwd: &'a Path,
    /// Where this run may keep files of its own.
    pub aside: &'a Path,
    /// The command is killed after this.
    pub seconds: u64,
}

impl Launch<'_> {
    /// Runs the command to its end, or until it is killed.
    ///
    /// # Panics
    /// When the warden cannot be started or fails.
    #[must_use]
    pub fn run(&self, side: Side) -> Outcome {
        let report = self.aside.join("report");
        let stats = self.aside.join("stats.json");
        let _ = fs::remove_file(&report);
        let _ = fs::remove_file(&stats);
        let mut command = forebay_testkit::with_default_signals(warden());
        command.arg(&report).arg(self.seconds.to_string());
        if let Some(members) = &self.group {
            command.args(["sh", "-c", "echo 0 > \"$0\" && exec \"$@\""]).arg(members);
        }
        command.args(self.before);
        if side == Side::With && !crate::switch("FOREBAY_COMPAT_PLAIN") {
            command.arg(forebay()).arg("run");
            command.args(self.options);
            if self.statistics {
                command.arg("--json").arg(&stats);
            }
            command.arg("--");
        }
        command.args(self.argv).current_dir(self.cwd);
        environment(&mut command, self.aside);
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);

        let started = Instant::now();
        let mut child = command.spawn().expect("start the warden");
        let mut input = child.stdin.take();
        let mut output = child.stdout.take().expect("a pipe");
        let mut errors = child.stderr.take().expect("a pipe");
        let (stdout, stderr) = std::thread::scope(|scope| {
            scope.spawn(move || {
                if let (Some(pipe), Some(bytes)) = (input.as_mut(), self.stdin) {
                    let _ = pipe.write_all(bytes);
                }
            });
            let errors = scope.spawn(move || {
                let mut bytes = Vec::new();
                let _ = errors.read_to_end(&mut bytes);
                bytes
            });
            let mut bytes = Vec::new();
            let _ = output.read_to_end(&mut bytes);
            (bytes, errors.join().expect("the reader of standard error"))
        });
        child.wait().expect("the warden's status");
        let took = started.elapsed();

        let report = fs::read_to_string(&report).expect("the warden's report");
        let mut status = -1;
        let mut lingered_ms = 0;
        let (mut killed, mut complaints) = (Vec::new(), Vec::new());
        for line in report.lines() {
            match line.split_once(' ') {
                Some(("status", number)) => status = number.parse().expect("a number"),
                Some(("speculator-left", number)) => lingered_ms = number.parse().expect("a number"),
                Some(("killed", victim)) => killed.push(victim.to_owned()),
                _ => complaints.push(line.to_owned()),
            }
        }
        Outcome {
            stdout,
            stderr,
            status,
            tree: tree::take(self.cwd),
            observed: String::new(),
            stamps: Vec::new(),
            stats: fs::read_to_string(&stats).unwrap_or_default(),
            complaints,
            lingered_ms,
            killed,
            took,
        }
    }
}

/// The environment that both sides get: little, and the same everywhere.
fn environment(command: &mut Command, aside: &Path) {
    let path =
        std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into());
    command.env_clear();
    command
        .env("PATH", path)
        .env("HOME", aside.join("home"))
        .env("LANG", "C")
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    command.env("FOREBAY_STALL_US_MIN", crate::STALL_US_MIN).env("SOURCE_DATE_EPOCH", "1000000000");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONHASHSEED", "0");
}

/// The `forebay` program, built once for all tests of this process.
fn forebay() -> PathBuf {
    forebay_testkit::artifacts::forebay().expect("build forebay and its agent")
}

fn warden() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let build = test.parent().and_then(Path::parent).expect("tests lie two below the build directory");
    build.join("forebay-compat-warden")
}

/// Looks a program up in `PATH`, or checks a path.
#[must_use]
pub fn find_program(name: &OsStr) -> Option<PathBuf> {
    let given = Path::new(name);
    if given.components().count() > 1 {
        return given.exists().then(|| given.to_owned());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(given))
        .find(|p| p.is_file())
}
