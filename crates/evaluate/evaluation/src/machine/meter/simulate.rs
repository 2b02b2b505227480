//! A program's cache and TLB misses by simulation: the program runs under Valgrind once for each.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_counters::simulation::{Cache, CacheCounts, Caches, Shape, Translations, access};
use forebay_counters::{Reading, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::program::Ending;
use super::{Event, LOOK_INTERVAL};
use crate::harness::interrupt::Interrupt;
use crate::run::programs::is_on_path;
use crate::{Error, scratch_folder};

/// How long a program may take, which takes up to a hundred times as long there.
const RUN_LIMIT: Duration = Duration::from_secs(3600);

/// Accesses to data whose translations are simulated, if not told otherwise: half a minute's.
pub const ACCESSES_DEFAULT: u64 = 5_000_000;

/// What was simulated.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The counts.
    pub readings: Vec<Reading>,
    /// What was simulated, in sentences.
    pub notes: Vec<String>,
}

/// That Valgrind is here.
pub(super) fn check() -> Result<(), Error> {
    const VALGRIND: &str = "valgrind";
    if is_on_path(VALGRIND) { Ok(()) } else { Err(Error::Missing { program: VALGRIND, package: VALGRIND }) }
}

/// Runs `command` twice without its input and without what it prints: to its end with all that it starts for its caches, and
/// by itself, for its first so many accesses to data, for its translations.
pub(super) fn run(
    command: &[OsString],
    accesses: u64,
    interrupt: &Interrupt,
    told: &mut dyn FnMut(Event<'_>),
) -> Result<Simulation, Error> {
    told(Event::Doing("running it again under Valgrind, for its caches"));
    let (counts, note) = caches(command, interrupt)?;
    let mut simulation = Simulation { readings: counts.readings(), notes: vec![note] };
    let (shapes, source) = match Shape::of_this_machine() {
        Some(shapes) => (shapes, "as the processor says"),
        None => (Shape::ASSUMED, "assumed, as the processor does not say"),
    };
    told(Event::Doing("running it again under Valgrind, for its translations"));
    let translations = translations(command, accesses, shapes, interrupt)?;
    simulation.readings.extend(translations.readings());
    let [first, second] = shapes.map(|shape| format!("{} in {} ways", shape.entries(), shape.ways));
    let part = if translations.accesses() < accesses { "all" } else { "the first" };
    simulation.notes.push(format!(
        "translations of {part} {} accesses to data by the program itself, not by what it starts: {first}, behind them {second} \
         ({source}); pages of 4 KiB",
        translations.accesses()
    ));
    Ok(simulation)
}

fn caches(command: &[OsString], interrupt: &Interrupt) -> Result<(CacheCounts, String), Error> {
    let scratch = scratch_folder()?;
    let counted = scratch.path().join("counted");
    fs::create_dir(&counted).map_err(Error::file("create", &counted))?;
    let out = format!("--cachegrind-out-file={}/%p", counted.display());
    let options = ["--tool=cachegrind", "--cache-sim=yes", "--trace-children=yes", "--quiet", &out];
    let mut arguments = options.map(OsString::from).to_vec();
    let described = Caches::of_this_machine();
    if let Some(Caches { instructions, data, last }) = described {
        let shapes = [("--I1", instructions), ("--D1", data), ("--LL", last)];
        arguments.extend(shapes.map(|(option, cache)| format!("{option}={}", cache.simulable()).into()));
    }
    arguments.extend_from_slice(command);
    to_its_end(Traced::start("valgrind --tool=cachegrind", &arguments, Stdio::null())?, interrupt)?;

    let files = fs::read_dir(&counted).map_err(Error::file("list", &counted))?.flatten();
    let counts = files.filter_map(|file| CacheCounts::parse(&fs::read_to_string(file.path()).ok()?));
    let counts = counts.reduce(|sum, more| sum.plus(&more)).ok_or_else(|| Error::Failed {
        command: "valgrind --tool=cachegrind".to_owned(),
        status: "no result".to_owned(),
        stderr: "run it by hand to see why".to_owned(),
    })?;
    Ok((counts, describe(described)))
}

fn describe(caches: Option<Caches>) -> String {
    let Some(Caches { instructions, data, last }) = caches else {
        return "caches as Valgrind finds them: the kernel does not tell this machine's".to_owned();
    };
    let one = |cache: Cache| {
        let told = |cache: Cache| format!("{} KiB in {} ways", cache.bytes >> 10, cache.ways);
        match cache.simulable() {
            same if same == cache => told(cache),
            other => format!("{} as {} (Valgrind's sets are a power of two)", told(cache), told(other)),
        }
    };
    format!(
        "caches of the program and all that it starts: instructions {}, data {}, last level {}; none between, no prefetching",
        one(instructions),
        one(data),
        one(last)
    )
}

/// Valgrind with its descendants, which end when it is dropped.
struct Traced {
    name: &'static str,
    child: Child,
}

impl Traced {
    /// Without input and output, but for what goes to `stderr`.
    fn start(name: &'static str, arguments: &[OsString], stderr: Stdio) -> Result<Self, Error> {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
        let child = valgrind.spawn().map_err(|source| Error::Start { command: name.to_owned(), source })?;
        Ok(Self { name, child })
    }

    /// Whether it may go on.
    fn check(&self, started: Instant, interrupt: &Interrupt) -> Result<(), Error> {
        if started.elapsed() > RUN_LIMIT {
            return Err(Error::TimedOut { command: self.name.to_owned(), limit: RUN_LIMIT });
        }
        interrupt.check()
    }
}

fn to_its_end(traced: Traced, interrupt: &Interrupt) -> Result<(), Error> {
    let started = Instant::now();
    let mut ending = Ending::of(&Target::Process(traced.child.id()))?;
    while !ending.within(LOOK_INTERVAL)? {
        traced.check(started, interrupt)?;
    }
    Ok(())
}

impl Drop for Traced {
    fn drop(&mut self) {
        // It is not yet waited for, so its number, which is that of its group, cannot be another's.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn translations(
    command: &[OsString],
    accesses: u64,
    shapes: [Shape; 2],
    interrupt: &Interrupt,
) -> Result<Translations, Error> {
    let name = "valgrind --tool=lackey";
    let failed = |source| Error::Start { command: name.to_owned(), source };
    let mut arguments = ["--tool=lackey", "--trace-mem=yes", "--log-fd=2"].map(OsString::from).to_vec();
    arguments.extend_from_slice(command);
    let mut traced = Traced::start(name, &arguments, Stdio::piped())?;
    let mut trace = traced.child.stderr.take().expect("it was asked for");
    let started = Instant::now();

    let mut translations = Translations::new(shapes);
    let mut text = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    let look = Timespec::try_from(LOOK_INTERVAL).ok();
    loop {
        match poll(&mut [PollFd::new(&trace, PollFlags::IN)], look.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                let read = trace.read(&mut chunk).map_err(failed)?;
                text.extend_from_slice(&chunk[..read]);
                let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                let lines = text[..whole].split(|byte| *byte == b'\n');
                let left = accesses.saturating_sub(translations.accesses());
                let made = lines.filter_map(|line| access(str::from_utf8(line).ok()?));
                made.take(usize::try_from(left).unwrap_or(usize::MAX))
                    .for_each(|one| translations.access(&one));
                text.drain(..whole);
                if read == 0 || translations.accesses() >= accesses {
                    return Ok(translations);
                }
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        traced.check(started, interrupt)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(simulation: &Simulation, name: &str) -> f64 {
        let found = simulation.readings.iter().find(|reading| reading.counter.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).value
    }

    #[test]
    fn a_program_that_touches_more_misses_more() {
        if let Err(why) = check() {
            forebay_testkit::skip("a_program_that_touches_more_misses_more", &why);
            return;
        }
        let interrupt = Interrupt::watch();
        let command = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let run = |command: &[OsString]| super::run(command, 100_000, &interrupt, &mut |_| {}).unwrap();
        let little = run(&command(&["/bin/true"]));
        // 3 MiB in one piece, written and read again.
        let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=3M", "count=1"];
        let much = run(&command(&dd));
        assert!(value(&little, "instructions") > 1000.0);
        assert!(value(&much, "first_level_cache_loads") > value(&little, "first_level_cache_loads"));
        assert!(value(&little, "data_tlb_load_misses") >= 1.0);
        assert!(little.notes[1].starts_with("translations of all "), "{:?}", little.notes);
        assert_eq!(value(&much, "data_tlb_loads") + value(&much, "data_tlb_stores"), 100_000.0);
        assert!(much.notes[1].starts_with("translations of the first 100000 "), "{:?}", much.notes);
    }

    #[test]
    fn an_interrupt_ends_a_program_that_does_nothing_more() {
        if let Err(why) = check() {
            forebay_testkit::skip("an_interrupt_ends_a_program_that_does_nothing_more", &why);
            return;
        }
        let interrupt = Interrupt::watch();
        interrupt.raise();
        let command = ["sleep", "1000"].map(OsString::from);
        let ended = translations(&command, u64::MAX, Shape::ASSUMED, &interrupt);
        assert!(matches!(ended, Err(Error::Interrupted)));
    }
}
