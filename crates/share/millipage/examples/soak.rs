//! Hosts that share at random for a while, and check every value that they read; for tests.
//!
//! `soak SECONDS SEED`. Each host has two threads. A thread adds to counters, rewrites rows under locks, leaves
//! messages for the other hosts and reads theirs, and requests and pushes rows without need. After some hundreds of
//! steps all hosts meet at a barrier, and compare. At the end each host prints its number of rounds, and its memory and
//! descriptors early and late.

use std::{
    env,
    error::Error,
    fs,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use forebay_millipage::{Host, Options, Placement, Rows, Value, join};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const THREADS: usize = 2;
/// Of a thread, between two meetings.
const STEPS: usize = 400;
const COUNTERS: usize = 24;
/// Elements of guarded rows, and how many of them are one after the other in a minipage.
const GUARDED: [(usize, usize); 4] = [(1, 3), (40, 1), (600, 1), (3_000, 1)];
/// Guarded rows of each size.
const EACH: usize = 4;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The phases of a run.
const BEGINNING: u64 = 0;
const EARLY: u64 = 1;
const OVER: u64 = 2;

fn run() -> Outcome {
    let arguments = env::args().skip(1).map(|argument| argument.parse()).collect::<Result<Vec<u64>, _>>()?;
    let [seconds, seed] = arguments[..] else { return Err("say for how many seconds, and a seed".into()) };
    let host = join(Options { bytes: 4 << 20, ..Options::default() })?;
    let shared = Shared::new(&host)?;
    let (begun, time) = (Instant::now(), Duration::from_secs(seconds));
    let mut early = None;
    for meeting in 1u64.. {
        let place = |thread| meeting << 24 | u64::from(host.rank()) << 8 | thread as u64;
        let work = |thread| shared.work(thread, Rng::with_seed(seed << 40 ^ place(thread)));
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
        })?;
        host.barrier()?;
        shared.compare()?;
        // Each phase has one meeting at least, so all hosts see all phases however slow the machine is.
        if host.rank() == 0 {
            shared.phase.set(match shared.phase.get() {
                BEGINNING if begun.elapsed() > time / 4 => EARLY,
                EARLY if begun.elapsed() > time => OVER,
                phase => phase,
            });
        }
        host.barrier()?;
        let phase = shared.phase.get();
        if early.is_none() && phase == EARLY {
            early = Some(footprint()?);
        }
        if phase == OVER {
            let ((early_kib, early_files), (kib, files)) =
                (early.ok_or("no host said that it was early")?, footprint()?);
            println!("{meeting} {early_kib} {early_files} {kib} {files}");
            return Ok(host.leave()?);
        }
        host.barrier()?;
    }
    Ok(())
}

/// What hosts share.
struct Shared<'a> {
    host: &'a Host,
    phase: Value<u64>,
    /// Anybody adds to these at any time.
    counters: Rows<u64>,
    /// What each host has added to them.
    added: Rows<u64>,
    /// Under a lock each, all elements of a row are the same.
    guarded: Vec<Rows<u64>>,
    /// How often each was rewritten, under the same lock.
    rewritten: Rows<u64>,
    /// Of each thread: what it has last said, and what came before that.
    said: Rows<u64>,
    before: Rows<u64>,
    own: [AtomicU64; COUNTERS],
    last_said: [AtomicU64; THREADS],
}

impl<'a> Shared<'a> {
    fn new(host: &'a Host) -> Outcome<Self> {
        let hosts = usize::from(host.hosts());
        let guarded = GUARDED
            .iter()
            .map(|(elements, chunk)| host.rows_in_chunks(EACH, *elements, *chunk, Placement::Cyclic))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            host,
            phase: host.value(Placement::On(0))?,
            counters: host.rows_in_chunks(COUNTERS, 1, 2, Placement::Cyclic)?,
            added: host.rows(hosts, COUNTERS, Placement::Blocks)?,
            guarded,
            rewritten: host.rows(GUARDED.len() * EACH, 1, Placement::Copies)?,
            said: host.rows(hosts * THREADS, 1, Placement::Cyclic)?,
            before: host.rows(hosts * THREADS, 8, Placement::Copies)?,
            own: [const { AtomicU64::new(0) }; COUNTERS],
            last_said: [const { AtomicU64::new(0) }; THREADS],
        })
    }

    /// One thread's steps until hosts meet.
    fn work(&self, thread: usize, mut dice: Rng) -> Outcome {
        let mut heard = vec![0; self.said.len()];
        for _ in 0..STEPS {
            match dice.usize(..16) {
                0..4 => self.add(&mut dice),
                4..8 => self.rewrite(&mut dice)?,
                8..10 => self.say(thread),
                10..14 => self.hear(&mut dice, &mut heard)?,
                14 => self.any_row(&mut dice, |rows, row| rows.row(row).prefetch_for_writing()),
                _ if dice.usize(..4) == 0 => self.any_row(&mut dice, |rows, row| rows.row(row).push()),
                _ => self.any_row(&mut dice, |rows, row| rows.row(row).prefetch()),
            }
        }
        Ok(())
    }

    fn add(&self, dice: &mut Rng) {
        let (counter, amount) = (dice.usize(..COUNTERS), dice.u64(..100));
        self.counters.row(counter).atomic(0).fetch_add(amount, SeqCst);
        self.own[counter].fetch_add(amount, SeqCst);
    }

    fn any_row(&self, dice: &mut Rng, act: impl FnOnce(&Rows<u64>, usize)) {
        let all = [&self.counters, &self.said, &self.before, &self.guarded[1], &self.guarded[3]];
        let rows = all[dice.usize(..all.len())];
        act(rows, dice.usize(..rows.len()));
    }

    fn rewrite(&self, dice: &mut Rng) -> Outcome {
        let (size, row) = (dice.usize(..GUARDED.len()), dice.usize(..EACH));
        let guarded = size * EACH + row;
        let mut values = vec![0; GUARDED[size].0];
        self.host.lock(guarded as u32)?;
        self.guarded[size].row(row).read(0, &mut values);
        let rewritten = self.rewritten.row(guarded);
        let expected = rewritten.get(0);
        if let Some(wrong) = values.iter().position(|value| *value != expected) {
            let found = values[wrong];
            return Err(format!("element {wrong} of guarded row {guarded} is {found}, not {expected}").into());
        }
        values.fill(expected + 1);
        self.guarded[size].row(row).write(0, &values);
        rewritten.set(0, expected + 1);
        Ok(self.host.unlock(guarded as u32)?)
    }

    /// First the message, then that there is one.
    fn say(&self, thread: usize) {
        let speaker = usize::from(self.host.rank()) * THREADS + thread;
        let next = self.last_said[thread].fetch_add(1, SeqCst) + 1;
        self.before.row(speaker).write(0, &[next; 8]);
        self.said.row(speaker).set(0, next);
    }

    /// What is there cannot be older than what is said to be there, and nothing gets younger.
    fn hear(&self, dice: &mut Rng, heard: &mut [u64]) -> Outcome {
        let speaker = dice.usize(..heard.len());
        let said = self.said.row(speaker).get(0);
        let before = self.before.row(speaker);
        let message: [u64; 8] = std::array::from_fn(|column| before.get(column));
        if said < heard[speaker] || message.iter().any(|part| *part < said) {
            return Err(
                format!("{speaker} said {said} after {}, and left {message:?}", heard[speaker]).into()
            );
        }
        heard[speaker] = said;
        Ok(())
    }

    /// While no host does anything else.
    fn compare(&self) -> Outcome {
        let own: Vec<u64> = self.own.iter().map(|own| own.load(SeqCst)).collect();
        self.added.row(self.host.rank().into()).write(0, &own);
        self.host.barrier()?;
        for counter in 0..COUNTERS {
            let sum: u64 = (0..self.added.len()).map(|host| self.added.row(host).get(counter)).sum();
            let found = self.counters.row(counter).get(0);
            if sum != found {
                return Err(format!("counter {counter} is {found}, and {sum} was added").into());
            }
        }
        Ok(())
    }
}

/// KiB of memory of its own, and descriptors.
fn footprint() -> Outcome<(u64, usize)> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
    let kib = line.trim().trim_end_matches(" kB").parse()?;
    Ok((kib, fs::read_dir("/proc/self/fd")?.count()))
}
