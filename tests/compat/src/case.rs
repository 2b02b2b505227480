//! A case: one command, run without and with `forebay run`, and compared.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use forebay_lab::MemoryLimit;

use crate::run::{Launch, Outcome, Side, find_program};
use crate::scratch::{self, Scratch};
use crate::{memory, root, skip, switch, tree};

/// Runs of a side until the kernel kills nothing of it: where much is swapped it gives up on a group now and then,
/// although there is swap left, whatever runs in it.
const RUNS_MAX: u32 = 5;
/// Runs with forebay until one waits for pages, of a case that is about that.
const TRIES: u32 = 5;

/// A user without rights.
pub const NOBODY: u32 = 65_534;

/// The variable that says for which processes speculators make checkpoints.
const CHECKPOINT_US_MIN: &str = "FOREBAY_CHECKPOINT_US_MIN";
/// What speculations may cost before the program has waited. The cases set it high, so that speculators are forked soon and often.
const FIRST_US: &str = "FOREBAY_FIRST_US";
/// How many times as long a command may take where tests beside it wait for the same slow disk.
const SLOW_DISK_FACTOR: u64 = 6;

/// Ends an observer that was started before a run: gets the outcome, says what it saw.
pub type Finish = Box<dyn FnOnce(&mut Outcome) -> String>;
type Setup = Box<dyn Fn(&Scratch)>;
type Observer = Box<dyn Fn(&Scratch) -> Finish>;

/// One command line and what it needs. Built up, then [`Case::check`]ed.
pub struct Case {
    name: String,
    argv: Vec<OsString>,
    before: Vec<OsString>,
    without_root: bool,
    options: Vec<&'static str>,
    statistics: bool,
    stdin: Option<Vec<u8>>,
    env: Vec<(String, String)>,
    needs: Vec<&'static str>,
    setups: Vec<Setup>,
    observers: Vec<Observer>,
    normalise: Option<fn(&mut Outcome)>,
    cold_names: bool,
    memory_limit_mib: Option<u64>,
    faults: bool,
    seconds: u64,
}

impl Case {
    /// A case that runs `argv` in the scratch directory.
    pub fn new<I: IntoIterator<Item = S>, S: Into<OsString>>(name: &str, argv: I) -> Self {
        Self {
            name: name.to_owned(),
            argv: argv.into_iter().map(Into::into).collect(),
            before: Vec::new(),
            without_root: false,
            options: Vec::new(),
            statistics: true,
            stdin: None,
            env: Vec::new(),
            needs: Vec::new(),
            setups: Vec::new(),
            observers: Vec::new(),
            normalise: None,
            cold_names: false,
            memory_limit_mib: None,
            faults: false,
            seconds: 30,
        }
    }

    /// `forebay run` writes no statistics, so it becomes the command instead of being its parent.
    #[must_use]
    pub fn without_statistics(mut self) -> Self {
        self.statistics = false;
        self
    }

    /// `forebay run` writes its statistics, so it is the command's parent.
    #[must_use]
    pub fn with_statistics(mut self) -> Self {
        self.statistics = true;
        self
    }

    /// Another name, where one guest serves several cases.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Fills the scratch directory; called once before each side.
    #[must_use]
    pub fn setup(mut self, fill: impl Fn(&Scratch) + 'static) -> Self {
        self.setups.push(Box::new(fill));
        self
    }

    /// Bytes for standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// A variable for the command.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Programs without which the case is skipped.
    #[must_use]
    pub fn needs(mut self, programs: &[&'static str]) -> Self {
        self.needs.extend_from_slice(programs);
        self
    }

    /// Commands in front of the command, and of `forebay run` where that is used.
    #[must_use]
    pub fn before<I: IntoIterator<Item = S>, S: Into<OsString>>(mut self, argv: I) -> Self {
        self.before = argv.into_iter().map(Into::into).collect();
        self
    }

    /// Runs the command, and `forebay run` where that is used, as a user without rights, to whom all belongs that the
    /// set-ups before this made. Where the tests themselves have none that is nothing special.
    #[must_use]
    pub fn without_root(self) -> Self {
        if !root() {
            return self;
        }
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        let before = ["setpriv", &user, &group, "--clear-groups"].map(str::to_owned);
        Self { without_root: true, ..self }.before(before).setup(|scratch| scratch.give_to(NOBODY))
    }

    /// Options for `forebay run`.
    #[must_use]
    pub fn options(mut self, options: &[&'static str]) -> Self {
        self.options = options.to_vec();
        self
    }

    /// Starts something that watches the run from outside. It begins after the set-up.
    #[must_use]
    pub fn observer(mut self, start: impl Fn(&Scratch) -> Finish + 'static) -> Self {
        self.observers.push(Box::new(start));
        self
    }

    /// Takes out of an outcome what the program itself leaves to chance.
    #[must_use]
    pub fn normalise(mut self, edit: fn(&mut Outcome)) -> Self {
        self.normalise = Some(edit);
        self
    }

    /// Drops cached names and inodes as well before each run, where the tests run as root.
    #[must_use]
    pub fn cold_names(mut self) -> Self {
        self.cold_names = true;
        self
    }

    /// Leaves the command, and `forebay run` where that is used, `mib` mebibytes of memory, and swap for the rest. Where
    /// that cannot be had, the case is skipped.
    #[must_use]
    pub fn memory_limit(mut self, mib: u64) -> Self {
        self.memory_limit_mib = Some(mib);
        self
    }

    /// The command must have waited for pages of its memory: without that the case would prove nothing.
    #[must_use]
    pub fn faults(mut self) -> Self {
        self.faults = true;
        self
    }

    /// Kills processes while the command runs: `VICTIM:MICROSECONDS`, as the warden takes it.
    #[must_use]
    pub fn kill(self, victims: &str) -> Self {
        self.env("FOREBAY_COMPAT_KILL", victims)
    }

    /// Seconds until the command counts as hung.
    #[must_use]
    pub fn seconds(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    /// Runs both sides and fails with all differences. `None` where a program is missing.
    ///
    /// # Panics
    /// When the sides differ, a side hangs, or something is left behind.
    #[track_caller]
    pub fn check(self) -> Option<Outcome> {
        let first = if self.before.is_empty() { &self.argv[0] } else { &self.before[0] };
        let missing = std::iter::once(first.as_os_str())
            .chain(self.needs.iter().map(OsStr::new))
            .find(|program| find_program(program).is_none());
        if let Some(program) = missing {
            skip(&self.name, format!("{} is not installed", program.to_string_lossy()));
            return None;
        }
        if self.without_root
            && let Some(closed) = self.argv.iter().map(Path::new).find_map(closed_to_others)
        {
            skip(&self.name, format!("{} is closed to other users", closed.display()));
            return None;
        }
        if let Some(obstacle) = self.memory_limit_mib.and_then(|_| memory::obstacle()) {
            skip(&self.name, obstacle.to_string());
            return None;
        }
        let without = self.run(Side::Without);
        let mut figures = String::new();
        // How often it waits for pages is a matter of chance where it is short.
        for _ in 0..TRIES {
            let with = self.run(Side::With);
            let totals: Vec<String> =
                with.totals().iter().map(|(name, value)| format!("{name} {value}")).collect();
            figures = totals.join(", ");
            if let Some(path) = std::env::var_os("FOREBAY_COMPAT_FIGURES") {
                let mut file =
                    File::options().append(true).create(true).open(path).expect("open the figures");
                writeln!(file, "{}: lingered_ms {}, {figures}", self.name, with.lingered_ms)
                    .expect("write the figures");
            }
            let found = compare(&without, &with);
            assert!(
                found.is_empty(),
                "{}: not the same with forebay run\n  command: {:?}\n{}\n  statistics: {figures}",
                self.name,
                self.argv,
                found.join("\n"),
            );
            if !self.faults || switch("FOREBAY_COMPAT_PLAIN") || with.figure("major_faults") > 0.0 {
                return Some(with);
            }
        }
        panic!("{}: it never waited for a page in {TRIES} runs\n  statistics: {figures}", self.name);
    }

    /// Runs one side from a fresh, cold scratch directory.
    ///
    /// # Panics
    /// When the directory or the control group cannot be made.
    #[must_use]
    pub fn run(&self, side: Side) -> Outcome {
        let Some(mib) = self.memory_limit_mib else { return self.run_in(None, side) };
        let mut runs = 0;
        loop {
            let limit = MemoryLimit::start(mib << 20)
                .unwrap_or_else(|why| panic!("{}: a limit of {mib} MiB: {why}", self.name));
            let outcome = self.run_in(Some(limit.processes_file()), side);
            runs += 1;
            if limit.kills().expect("a group that is there") == 0 || runs == RUNS_MAX {
                return outcome;
            }
        }
    }

    fn run_in(&self, group: Option<PathBuf>, side: Side) -> Outcome {
        let base = Scratch::fresh(scratch::base().join(&self.name));
        let scratch = Scratch::fresh(base.at("scratch"));
        let aside = Scratch::fresh(base.at("aside"));
        fs::create_dir_all(aside.path().join("home")).expect("make a home");
        if self.without_root {
            aside.give_to(NOBODY);
        }
        for fill in &self.setups {
            fill(&scratch);
        }
        scratch.settle(self.cold_names);
        let finishes: Vec<Finish> = self.observers.iter().map(|start| start(&scratch)).collect();
        let mut env = self.env.clone();
        if env.iter().all(|(name, _)| name != FIRST_US) {
            env.push((FIRST_US.to_owned(), "1000000".to_owned()));
        }
        if self.name.bytes().map(u32::from).sum::<u32>() % 2 == 0 {
            // Every other case has checkpoints, whatever a fork takes.
            env.push((CHECKPOINT_US_MIN.to_owned(), "0".to_owned()));
        }
        let mut outcome = Launch {
            argv: &self.argv,
            options: &self.options,
            statistics: self.statistics,
            before: &self.before,
            group,
            stdin: self.stdin.as_deref(),
            env: &env,
            cwd: scratch.path(),
            aside: aside.path(),
            seconds: self.seconds * if scratch::disk().is_some() { SLOW_DISK_FACTOR } else { 1 },
        }
        .run(side);
        take_stamps(&mut outcome);
        for finish in finishes {
            let seen = finish(&mut outcome);
            outcome.observed.push_str(&seen);
        }
        outcome.complaints.extend(left_in_shared_memory());
        // Before it executes the program the command itself writes the cache.
        if outcome.killed.iter().all(|victim| victim != "command") {
            outcome.complaints.extend(left_in_the_cache(&aside.path().join("home/.cache/forebay")));
        }
        if let Some(edit) = self.normalise {
            edit(&mut outcome);
        }
        outcome
    }
}

/// The first directory on the way to an absolute path that other users may not go through.
fn closed_to_others(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let closed = |above: &&Path| fs::metadata(above).is_ok_and(|found| found.permissions().mode() & 1 == 0);
    path.ancestors().skip(1).filter(|above| above.is_absolute()).find(closed).map(Path::to_owned)
}

fn take_stamps(outcome: &mut Outcome) {
    let mut kept = Vec::with_capacity(outcome.stdout.len());
    for line in outcome.stdout.split_inclusive(|&b| b == b'\n') {
        let stamp =
            std::str::from_utf8(line).ok().and_then(|l| l.strip_prefix("stamp ")?.trim_end().parse().ok());
        match stamp {
            Some(time) => outcome.stamps.push(time),
            None => kept.extend_from_slice(line),
        }
    }
    outcome.stdout = kept;
}

/// A program that runs leaves files there, if anything. Folders are those of measurements.
fn left_in_shared_memory() -> Vec<String> {
    fs::read_dir("/dev/shm")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter(|entry| entry.file_name().to_string_lossy().contains("forebay"))
        .map(|entry| format!("left in /dev/shm: {}", entry.file_name().to_string_lossy()))
        .collect()
}

/// Files of the cache are written under another name first, which is an extension longer.
fn left_in_the_cache(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .filter(|path| path.extension().is_some())
        .map(|path| format!("left: {}", path.display()))
        .collect()
}

/// Describes everything in which the two sides differ, and what is wrong with either.
#[must_use]
pub fn compare(without: &Outcome, with: &Outcome) -> Vec<String> {
    let mut found = Vec::new();
    for (side, outcome) in [("without", without), ("with", with)] {
        found.extend(outcome.complaints.iter().map(|complaint| format!("  {side} forebay: {complaint}")));
    }
    if without.status != with.status {
        found.push(format!("  status: {} without, {} with", without.status, with.status));
    }
    for (what, a, b) in [
        ("standard output", &without.stdout, &with.stdout),
        ("standard error", &without.stderr, &with.stderr),
    ] {
        if a != b {
            found.push(format!("  {what}:\n    without: {}\n    with:    {}", excerpt(a), excerpt(b)));
        }
    }
    if without.observed != with.observed {
        found.push(format!(
            "  seen from outside:\n    without: {}\n    with:    {}",
            without.observed, with.observed
        ));
    }
    if without.stamps.len() != with.stamps.len() {
        found.push(format!("  effects: {} without, {} with", without.stamps.len(), with.stamps.len()));
    }
    found.extend(tree::differences(&without.tree, &with.tree).into_iter().map(|line| format!("  {line}")));
    found
}

/// The text, cut where it is long.
fn excerpt(bytes: &[u8]) -> String {
    const LONGEST: usize = 3000;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into_owned();
    if bytes.len() > LONGEST { format!("{text}... ({} bytes)", bytes.len()) } else { text }
}
