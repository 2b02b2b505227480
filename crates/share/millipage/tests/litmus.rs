//! Sequential consistency between hosts with memories of their own, by the small programs that distinguish it from weaker
//! models. Each program runs many times with random delays; a result that no interleaving of its accesses explains must
//! never appear.
//!
//! Machines of several hosts are programs of hosts with one memory and of hosts with memories of their own at the same time.
//! Hosts with one memory have the processor's order: a store may wait in a buffer while later loads of its thread pass it.
//! Where stores are atomic operations, such hosts are sequentially consistent too.
//!
//! `FOREBAY_COMPAT_LONG=1` runs each a million times, a fifth of them with each way of sharing.

mod chance;
mod told;

use std::{
    collections::BTreeSet,
    hint::spin_loop,
    sync::{
        Mutex, PoisonError,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, SeqCst},
        },
    },
    thread,
    time::Duration,
};

use chance::{Deadline, leave_alternate_stack};
use fastrand::Rng;
use forebay_millipage::{
    Granularity, Host, Options, Placement, Row, in_process, in_process_machines, in_process_together,
};
use forebay_testkit::long;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use told::rows_alone;

/// An access to a variable; all variables are 0 at first.
#[derive(Clone, Copy, Debug)]
enum Op {
    Write(usize, u64),
    Read(usize),
}
use Op::{Read, Write};

/// What each thread does, in its order.
type Program = &'static [&'static [Op]];

/// What each thread read, in its order.
type Outcome = Vec<Vec<u64>>;

const STORE_BUFFERING: Program = &[&[Write(0, 1), Read(1)], &[Write(1, 1), Read(0)]];
const MESSAGE_PASSING: Program = &[&[Write(0, 1), Write(1, 1)], &[Read(1), Read(0)]];
const LOAD_BUFFERING: Program = &[&[Read(0), Write(1, 1)], &[Read(1), Write(0, 1)]];
const INDEPENDENT_READS_OF_INDEPENDENT_WRITES: Program =
    &[&[Write(0, 1)], &[Write(1, 1)], &[Read(0), Read(1)], &[Read(1), Read(0)]];
const COHERENCE_OF_READS: Program = &[&[Write(0, 1), Write(0, 2)], &[Read(0), Read(0), Read(1)]];
const COHERENCE_OF_WRITES: Program =
    &[&[Write(0, 1)], &[Write(0, 2)], &[Read(0), Read(0)], &[Read(0), Read(0)]];
const WRITES_CROSSED: Program = &[&[Write(0, 1), Write(1, 2), Read(0)], &[Write(1, 1), Write(0, 2), Read(1)]];

/// How variables lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// On one page, each in a minipage of its own.
    Apart,
    /// The same, allocated by one host alone, so that they travel in company.
    InCompany,
    /// In one minipage.
    Together,
    /// On one page, which is shared as a whole.
    OnePage,
}

/// What hosts have, and how threads store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// A memory for each host.
    Separate,
    /// One memory.
    Together,
    /// One memory, and all stores are atomic operations.
    TogetherAtomic,
    /// Two machines, each with one memory for its hosts.
    Machines,
    /// The same, and all stores are atomic operations.
    MachinesAtomic,
}

impl Sharing {
    const ALL: [Self; 5] =
        [Self::Separate, Self::Together, Self::TogetherAtomic, Self::Machines, Self::MachinesAtomic];

    fn is_atomic(self) -> bool {
        matches!(self, Self::TogetherAtomic | Self::MachinesAtomic)
    }

    /// For `hosts` threads: with two, both machines have a host that does nothing.
    fn start(self, hosts: usize, options: Options) -> Vec<Host> {
        let hosts = hosts as u16;
        let hosts = match self {
            Self::Separate => in_process(hosts, options),
            Self::Together | Self::TogetherAtomic => in_process_together(hosts, options),
            Self::Machines | Self::MachinesAtomic => {
                let second = (hosts / 2).max(2);
                in_process_machines(&[hosts.saturating_sub(second).max(2), second], options)
            }
        };
        hosts.unwrap()
    }
}

/// Adds all outcomes of interleavings.
fn interleave(rest: &[&[Op]], memory: [u64; 2], outcome: &Outcome, all: &mut BTreeSet<Outcome>) {
    if rest.iter().all(|ops| ops.is_empty()) {
        all.insert(outcome.clone());
    }
    for thread in 0..rest.len() {
        let Some((op, others)) = rest[thread].split_first() else { continue };
        let (mut rest, mut memory, mut outcome) = (rest.to_vec(), memory, outcome.clone());
        rest[thread] = others;
        match *op {
            Write(variable, value) => memory[variable] = value,
            Read(variable) => outcome[thread].push(memory[variable]),
        }
        interleave(&rest, memory, &outcome, all);
    }
}

/// A processor with store buffers: what each thread has yet to do and has stored, and what memory holds.
#[derive(Clone)]
struct Buffered<'a> {
    rest: Vec<&'a [Op]>,
    buffers: Vec<Vec<(usize, u64)>>,
    memory: [u64; 2],
    outcome: Outcome,
}

impl Buffered<'_> {
    /// Adds all outcomes. Stores leave each buffer in their order, at any time.
    fn interleave(&self, all: &mut BTreeSet<Outcome>) {
        if self.rest.iter().all(|ops| ops.is_empty()) {
            all.insert(self.outcome.clone());
        }
        for thread in 0..self.rest.len() {
            if !self.buffers[thread].is_empty() {
                let mut next = self.clone();
                let (variable, value) = next.buffers[thread].remove(0);
                next.memory[variable] = value;
                next.interleave(all);
            }
            let Some((op, others)) = self.rest[thread].split_first() else { continue };
            let mut next = self.clone();
            next.rest[thread] = others;
            match *op {
                Write(variable, value) => next.buffers[thread].push((variable, value)),
                Read(variable) => {
                    let own = self.buffers[thread].iter().rfind(|(stored, _)| *stored == variable);
                    next.outcome[thread].push(own.map_or(self.memory[variable], |(_, value)| *value));
                }
            }
            next.interleave(all);
        }
    }
}

fn allowed(program: Program, sharing: Sharing) -> BTreeSet<Outcome> {
    let mut all = BTreeSet::new();
    let (memory, outcome) = ([0; 2], vec![vec![]; program.len()]);
    match sharing {
        Sharing::Separate | Sharing::TogetherAtomic | Sharing::MachinesAtomic => {
            interleave(program, memory, &outcome, &mut all)
        }
        Sharing::Together | Sharing::Machines => {
            let buffers = vec![vec![]; program.len()];
            Buffered { rest: program.to_vec(), buffers, memory, outcome }.interleave(&mut all);
        }
    }
    all
}

#[test]
fn a_buffered_store_is_passed_by_later_loads_and_by_nothing_else() {
    let differs = |program| allowed(program, Sharing::Together) != allowed(program, Sharing::Separate);
    assert!(differs(STORE_BUFFERING));
    for program in [
        MESSAGE_PASSING,
        LOAD_BUFFERING,
        INDEPENDENT_READS_OF_INDEPENDENT_WRITES,
        COHERENCE_OF_READS,
        COHERENCE_OF_WRITES,
    ] {
        assert!(!differs(program), "{program:?}");
    }
}

/// Where threads meet, all at nearly the same time.
struct Meeting {
    threads: usize,
    /// How often a thread looks before it lets others have its processor.
    looks: u32,
    came: AtomicUsize,
}

impl Meeting {
    /// The `round`th time.
    fn meet(&self, round: usize) {
        self.came.fetch_add(1, SeqCst);
        let mut turns = 0;
        while self.came.load(Acquire) < self.threads * round {
            turns += 1;
            if turns % self.looks == 0 { thread::yield_now() } else { spin_loop() }
        }
    }
}

/// Each round has values of its own, so that nothing has to be made 0.
const VALUES: u64 = 4;

fn perform(ops: &[Op], rows: &[Row<u64>; 2], sharing: Sharing, round: u64, dice: &mut Rng) -> Vec<u64> {
    let mut seen = vec![];
    for op in ops {
        match *op {
            Write(variable, value) if sharing.is_atomic() => {
                rows[variable].atomic(0).swap(round * VALUES + value, SeqCst);
            }
            Write(variable, value) => rows[variable].set(0, round * VALUES + value),
            Read(variable) => {
                let value = rows[variable].get(0);
                seen.push(if value / VALUES == round { value % VALUES } else { 0 });
            }
        }
        chance::wait(dice);
    }
    seen
}

/// Rounds between which hosts and variables stay the same, and how often there are others: each host that there was keeps a few
/// descriptors, or some mappings, for as long as the process lives.
fn rounds_and_batches(sharing: Sharing) -> (u64, u64) {
    match (long(), sharing) {
        (true, Sharing::Separate | Sharing::Machines | Sharing::MachinesAtomic) => (4_000, 18),
        (true, _) => (16_000, 5),
        (false, _) => (500, 2),
    }
}

/// Programs run one after the other: more threads than processors are no race.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a program so many `rounds`, each thread on one of `hosts` in turn. All outcomes that came.
fn run(
    program: Program,
    (lie, sharing): (Lie, Sharing),
    hosts: usize,
    seed: u64,
    rounds: u64,
) -> BTreeSet<Outcome> {
    let granularity = if lie == Lie::OnePage { Granularity::Page } else { Granularity::Fine };
    let chunk = if lie == Lie::Together { 2 } else { 1 };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let what = format!("{program:?}, {lie:?}, {sharing:?}, seed {seed}");
    let _deadline = Deadline::new(what, Duration::from_secs(300));
    let hosts = sharing.start(hosts, Options { bytes: 1 << 14, views: 2, at: None, granularity });
    let place = |host: &Host| {
        if lie == Lie::InCompany {
            let rows = rows_alone(host, 2, 1, |_| 0);
            return [rows[0], rows[1]];
        }
        let rows = host.rows_in_chunks(2, 1, chunk, Placement::Cyclic).unwrap();
        [rows.row(0), rows.row(1)]
    };
    // On its own processor a thread that spins is faster; where there are fewer, it is in the way.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let looks = if program.len() <= processors { 1 << 14 } else { 64 };
    let meeting = Meeting { threads: program.len(), looks, came: AtomicUsize::new(0) };
    let act = |thread: usize, rows: [Row<u64>; 2]| -> Vec<Vec<u64>> {
        let mut dice = chance::of_thread(seed, thread);
        let mut round = |round| {
            // Some begin with copies, some without.
            if dice.bool() {
                rows.iter().for_each(Row::touch);
            }
            meeting.meet(2 * round as usize - 1);
            chance::wait(&mut dice);
            let seen = perform(program[thread], &rows, sharing, round, &mut dice);
            meeting.meet(2 * round as usize);
            seen
        };
        (1..=rounds).map(&mut round).collect()
    };
    let seen: Vec<Vec<Vec<u64>>> = thread::scope(|scope| {
        let places: Vec<_> = hosts.iter().map(|host| scope.spawn(|| place(host))).collect();
        let places: Vec<_> = places.into_iter().map(|place| place.join().unwrap()).collect();
        let threads = (0..program.len()).map(|thread| (thread, places[thread % places.len()]));
        let threads: Vec<_> = threads
            .map(|(thread, rows)| {
                scope.spawn(move || {
                    leave_alternate_stack();
                    act(thread, rows)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (0..rounds as usize).map(|round| seen.iter().map(|thread| thread[round].clone()).collect()).collect()
}

/// None comes but those that are allowed; and of these at least so many, or the program was no race.
fn only_allowed_outcomes(program: Program, at_least: usize) {
    for sharing in Sharing::ALL {
        only_allowed(program, sharing, at_least);
    }
}

fn only_allowed(program: Program, sharing: Sharing, at_least: usize) {
    let (rounds, batches) = rounds_and_batches(sharing);
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let allowed = allowed(program, sharing);
    let mut all = BTreeSet::new();
    // On a busy machine threads may take turns for long.
    for batch in 1..=batches + 100 {
        if batch > batches && all.len() >= at_least {
            break;
        }
        for lie in [Lie::Apart, Lie::InCompany, Lie::Together, Lie::OnePage] {
            let came = run(program, (lie, sharing), program.len(), batch, rounds);
            let forbidden: Vec<_> = came.difference(&allowed).collect();
            assert!(forbidden.is_empty(), "{program:?}, {lie:?}, {sharing:?}: {forbidden:?}");
            all.extend(came);
        }
    }
    assert!(all.len() >= at_least, "{program:?}, {sharing:?}: no more than {all:?} of {allowed:?}");
}

#[test]
fn stores_are_seen_before_later_loads() {
    only_allowed_outcomes(STORE_BUFFERING, 3);
}

#[test]
fn messages_come_after_what_they_tell_of() {
    only_allowed_outcomes(MESSAGE_PASSING, 3);
}

#[test]
fn loads_do_not_see_later_stores() {
    only_allowed_outcomes(LOAD_BUFFERING, 3);
}

#[test]
fn all_hosts_see_writes_in_one_order() {
    only_allowed_outcomes(INDEPENDENT_READS_OF_INDEPENDENT_WRITES, 6);
}

#[test]
fn no_host_sees_a_variable_go_back() {
    only_allowed_outcomes(COHERENCE_OF_READS, 3);
    only_allowed_outcomes(COHERENCE_OF_WRITES, 6);
}

#[test]
fn writes_of_both_variables_are_in_one_order() {
    only_allowed_outcomes(WRITES_CROSSED, 3);
}

/// Were a store overtaken by the load after it, its program would be seen to have done so: these tests can see what they
/// look for.
#[test]
fn a_load_that_overtakes_a_store_is_caught() {
    const OVERTAKEN: Program = &[&[Read(1), Write(0, 1)], &[Read(0), Write(1, 1)]];
    let allowed = allowed(STORE_BUFFERING, Sharing::Separate);
    let way = (Lie::Apart, Sharing::Separate);
    let caught = (1..=100).any(|seed| !run(OVERTAKEN, way, 2, seed, 500).is_subset(&allowed));
    assert!(caught, "no store was overtaken by a load");
}
