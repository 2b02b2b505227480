//! Explores every order of the atomic operations by which hosts of one machine take a lock, pass a barrier and leave. A host
//! here does the operations of the board, one at a step. No sleep ends by itself, so a wake-up that is lost is a deadlock.

use std::collections::HashSet;

use forebay_coherence::{BarrierWord, HostId, LockWord};

/// What a host does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Lock,
    Unlock,
    /// The barrier, where it calls this.
    Barrier(u8),
    Leave,
}
use Op::{Barrier, Leave, Lock, Unlock};

/// A word that hosts sleep on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Word {
    Lock,
    Barrier,
    Leaving,
}

/// Where a host is within an operation; words are as the host saw them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Begin,
    // A lock: whether the host has slept for it.
    Look { slept: bool },
    Take { now: LockWord, slept: bool },
    Await { now: LockWord, slept: bool },
    SleepForLock { now: LockWord },
    // Its release.
    WakeOne,
    // The barrier.
    Arrive { before: BarrierWord },
    Empty { before: BarrierWord, agreed: bool },
    Open { before: BarrierWord, agreed: bool },
    WakeAll { before: BarrierWord },
    Pass { before: BarrierWord },
    // Leaving.
    MarkBarrier,
    Count,
    WakeBarrier,
    WakeLeaving,
    AllLeave,
    // Asleep at a word, until another host wakes this one; and what comes before and after that at the barrier.
    BeforeSleep { word: Word, now: u32, before: BarrierWord },
    Sleep { word: Word, now: u32, before: BarrierWord },
    Asleep { word: Word, before: BarrierWord },
    Woken { word: Word, before: BarrierWord },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Machine {
    programs: Vec<Vec<Op>>,
    at: Vec<At>,
    lock: LockWord,
    barrier: BarrierWord,
    calls: Vec<u8>,
    arrived: usize,
    sleepers: usize,
    leaving: usize,
    left: Vec<bool>,
    /// Hosts between lock and unlock.
    inside: Vec<usize>,
    /// Barriers that each host has come to, and what it learned at each.
    came: Vec<usize>,
    learned: Vec<Vec<bool>>,
}

impl Machine {
    fn new(programs: &[&[Op]]) -> Self {
        let count = programs.len();
        Self {
            programs: programs.iter().map(|program| program.iter().rev().copied().collect()).collect(),
            at: vec![At::Begin; count],
            lock: LockWord::FREE,
            barrier: BarrierWord::default(),
            calls: vec![0; count],
            arrived: 0,
            sleepers: 0,
            leaving: 0,
            left: vec![false; count],
            inside: vec![],
            came: vec![0; count],
            learned: vec![vec![]; count],
        }
    }

    fn is_finished(&self) -> bool {
        self.programs.iter().all(Vec::is_empty)
    }

    fn can_go_on(&self, host: usize) -> bool {
        let sleeps = match self.at[host] {
            At::Asleep { word: Word::Lock, .. } => !self.is_lock_left(),
            At::Asleep { .. } => true,
            _ => false,
        };
        !sleeps && !self.programs[host].is_empty()
    }

    /// A sleep for a lock ends by itself where its holder has left, which wakes no other host.
    fn is_lock_left(&self) -> bool {
        self.lock.holder().is_some_and(|holder| self.left[holder.index()])
    }

    fn value(&self, word: Word) -> u32 {
        match word {
            Word::Lock => self.lock.0,
            Word::Barrier => self.barrier.0,
            Word::Leaving => self.leaving as u32,
        }
    }

    /// Hosts that sleep on a word.
    fn asleep(&self, word: Word) -> Vec<usize> {
        let sleeps = |host: &usize| matches!(self.at[*host], At::Asleep { word: on, .. } if on == word);
        (0..self.at.len()).filter(sleeps).collect()
    }

    fn wake(&mut self, host: usize) {
        if let At::Asleep { word, before } = self.at[host] {
            self.at[host] = At::Woken { word, before };
        }
    }

    fn wake_all(&mut self, word: Word) {
        if self.sleepers > 0 {
            self.asleep(word).into_iter().for_each(|host| self.wake(host));
        }
    }

    fn done(&mut self, host: usize) {
        self.programs[host].pop();
        self.at[host] = At::Begin;
    }

    fn learn(&mut self, host: usize, agreed: bool) {
        self.learned[host].push(agreed);
        let round = self.learned[host].len();
        let all_came = self.came.iter().all(|came| *came >= round);
        assert!(!agreed || all_came, "host {host} passes round {round} before all have come: {self:?}");
        self.done(host);
    }

    /// All that can come of one step of a host.
    fn step(&self, host: usize) -> Vec<Self> {
        let mut next = self.clone();
        if self.at[host] == At::WakeOne {
            // Any one of those that sleep, or none where none sleeps.
            next.done(host);
            let sleepers = self.asleep(Word::Lock);
            let each = sleepers.iter().map(|sleeper| {
                let mut next = next.clone();
                next.wake(*sleeper);
                next
            });
            return if sleepers.is_empty() { vec![next] } else { each.collect() };
        }
        next.go_on(host);
        vec![next]
    }

    fn go_on(&mut self, host: usize) {
        let me = HostId(host as u16);
        self.at[host] = match self.at[host] {
            At::Begin => return self.begin(host),
            At::Look { slept } => {
                let now = self.lock;
                let is_free = now.holder().is_none() || self.is_lock_left();
                if is_free { At::Take { now, slept } } else { At::Await { now, slept } }
            }
            At::Take { now, slept } if now == self.lock => {
                self.lock = LockWord::held(me, slept || now.is_awaited());
                self.inside.retain(|inside| !self.left[*inside]);
                self.inside.push(host);
                assert_eq!(self.inside, [host], "several hosts have the lock");
                return self.done(host);
            }
            At::Await { now, .. } if now == self.lock => {
                self.lock = now.awaited();
                At::SleepForLock { now: now.awaited() }
            }
            At::Take { slept, .. } | At::Await { slept, .. } => At::Look { slept },
            At::SleepForLock { now } if now == self.lock => {
                At::Asleep { word: Word::Lock, before: BarrierWord::default() }
            }
            At::SleepForLock { .. } => At::Look { slept: true },
            At::Asleep { .. } => At::Look { slept: true },
            At::WakeOne => unreachable!("in `step`"),
            At::Arrive { before } => {
                self.came[host] += 1;
                self.arrived += 1;
                let agreed = self.calls.iter().all(|call| *call == self.calls[host]);
                if self.arrived == self.at.len() { At::Empty { before, agreed } } else { At::Pass { before } }
            }
            At::Empty { before, agreed } => {
                self.arrived = 0;
                At::Open { before, agreed }
            }
            At::Open { before, agreed } => {
                self.barrier = self.barrier.passed(agreed);
                At::WakeAll { before }
            }
            At::WakeAll { before } => {
                self.wake_all(Word::Barrier);
                At::Pass { before }
            }
            At::Pass { before } => match self.barrier.ended(before) {
                Some(agreed) => return self.learn(host, agreed),
                None => At::BeforeSleep { word: Word::Barrier, now: self.barrier.0, before },
            },
            At::MarkBarrier => {
                self.barrier = self.barrier.left();
                At::Count
            }
            At::Count => {
                self.leaving += 1;
                At::WakeBarrier
            }
            At::WakeBarrier => {
                self.wake_all(Word::Barrier);
                At::WakeLeaving
            }
            At::WakeLeaving => {
                self.wake_all(Word::Leaving);
                At::AllLeave
            }
            At::AllLeave if self.leaving == self.at.len() => return self.done(host),
            At::AllLeave => {
                let (now, before) = (self.leaving as u32, BarrierWord::default());
                At::BeforeSleep { word: Word::Leaving, now, before }
            }
            At::BeforeSleep { word, now, before } => {
                self.sleepers += 1;
                At::Sleep { word, now, before }
            }
            At::Sleep { word, now, before } if self.value(word) == now => At::Asleep { word, before },
            At::Sleep { word, before, .. } => At::Woken { word, before },
            At::Woken { word: Word::Lock, .. } => At::Look { slept: true },
            At::Woken { word, before } => {
                self.sleepers -= 1;
                if word == Word::Barrier { At::Pass { before } } else { At::AllLeave }
            }
        };
    }

    fn begin(&mut self, host: usize) {
        let op = *self.programs[host].last().unwrap();
        self.at[host] = match op {
            Lock => At::Look { slept: false },
            Unlock => {
                assert_eq!(self.lock.holder(), Some(HostId(host as u16)));
                self.inside.clear();
                let is_awaited = self.lock.is_awaited();
                self.lock = LockWord::FREE;
                if !is_awaited {
                    return self.done(host);
                }
                At::WakeOne
            }
            Barrier(call) => {
                let before = self.barrier;
                if before.ended(before).is_some() {
                    return self.learn(host, false);
                }
                self.calls[host] = call;
                At::Arrive { before }
            }
            Leave => {
                self.left[host] = true;
                At::MarkBarrier
            }
        };
    }
}

/// Goes through all machines that can come of these programs, and ends where all hosts have done all: what each learned at the
/// barriers.
fn explore(programs: &[&[Op]]) -> HashSet<Vec<Vec<bool>>> {
    let mut known = HashSet::new();
    let mut open = vec![Machine::new(programs)];
    let mut ends = HashSet::new();
    while let Some(machine) = open.pop() {
        let hosts = (0..programs.len()).filter(|host| machine.can_go_on(*host));
        let next: Vec<_> = hosts.flat_map(|host| machine.step(host)).collect();
        assert!(!next.is_empty() || machine.is_finished(), "all hosts sleep for ever: {machine:?}");
        if machine.is_finished() {
            ends.insert(machine.learned.clone());
        }
        for next in next {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    ends
}

#[test]
fn a_lock_is_had_by_one_host_at_a_time_and_by_all_in_the_end() {
    explore(&[&[Lock, Unlock, Lock, Unlock], &[Lock, Unlock, Lock, Unlock]]);
    explore(&[&[Lock, Unlock], &[Lock, Unlock], &[Lock, Unlock]]);
    explore(&[&[Lock, Unlock, Lock, Unlock], &[Lock, Unlock], &[Lock, Unlock]]);
}

#[test]
fn a_lock_of_a_host_that_leaves_is_free() {
    explore(&[&[Lock, Leave], &[Lock, Leave]]);
    explore(&[&[Lock, Leave], &[Lock, Unlock, Leave], &[Lock, Leave]]);
}

#[test]
fn a_barrier_is_passed_when_all_hosts_have_come() {
    let ends = explore(&[&[Barrier(1), Barrier(1), Leave], &[Barrier(1), Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![true, true]; 2]]));
    let ends = explore(&[&[Barrier(1), Leave], &[Barrier(1), Leave], &[Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![true]; 3]]));
}

#[test]
fn hosts_that_call_different_things_all_learn_it() {
    let ends = explore(&[&[Barrier(1), Barrier(3), Leave], &[Barrier(2), Barrier(3), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![false, true]; 2]]));
}

#[test]
fn a_host_that_leaves_is_not_waited_for() {
    let ends = explore(&[&[Leave], &[Barrier(1), Barrier(1), Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![], vec![false; 3]]]));
    let ends = explore(&[&[Barrier(1), Leave], &[Barrier(1), Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![true], vec![true, false]]]));
    let ends = explore(&[&[Leave], &[Barrier(1), Leave], &[Barrier(1), Barrier(1), Leave]]);
    assert_eq!(ends, HashSet::from([vec![vec![], vec![false], vec![false; 2]]]));
}
