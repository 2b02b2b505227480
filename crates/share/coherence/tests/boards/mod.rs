//! Hosts of a machine that do the operations of its board, one atomic operation at a step. No sleep ends by itself.
#![allow(dead_code, reason = "each test uses a part")]

use forebay_coherence::{BarrierWord, HostId, LockWord};

/// What a host does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Lock,
    Unlock,
    /// The barrier, where it calls this.
    Barrier(u8),
    Leave,
}
pub use Op::{Barrier, Leave, Lock, Unlock};

/// A word that hosts sleep on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    Lock,
    Barrier,
    Leaving,
}

/// Where a host is within an operation; words are as the host saw them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Begin,
    // A lock: whether the host has slept for it.
    Look { slept: bool },
    Take { now: LockWord, slept: bool },
    Await { now: LockWord, slept: bool },
    SleepForLock { now: LockWord },
    // Its release.
    Free,
    WakeOne,
    // The barrier.
    Arrive { before: BarrierWord },
    Meet { before: BarrierWord, same: bool },
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
    // The thread that serves the machine is asked, and has not answered.
    AskedForLock,
    AskedToMeet { before: BarrierWord, same: bool },
    // Asleep at a word, until another host wakes this one; and what comes before and after that at the barrier.
    BeforeSleep { word: Word, now: u32, before: BarrierWord },
    Sleep { word: Word, now: u32, before: BarrierWord },
    Asleep { word: Word, before: BarrierWord },
    Woken { word: Word, before: BarrierWord },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub programs: Vec<Vec<Op>>,
    pub at: Vec<At>,
    /// There are other machines, with which the thread that serves this one has to do what it is asked for.
    has_others: bool,
    pub asked: Vec<(usize, Ask)>,
    lock: LockWord,
    barrier: BarrierWord,
    calls: Vec<u8>,
    arrived: usize,
    sleepers: usize,
    pub leaving: usize,
    left: Vec<bool>,
    /// Hosts between lock and unlock.
    pub inside: Vec<usize>,
    /// Barriers that each host has come to, and what it learned at each.
    pub came: Vec<usize>,
    pub learned: Vec<Vec<bool>>,
}

/// What the thread that serves a machine is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    Lock,
    Unlock,
    Meet { same: bool },
}

impl Machine {
    pub fn new(programs: &[&[Op]], has_others: bool) -> Self {
        let count = programs.len();
        Self {
            programs: programs.iter().map(|program| program.iter().rev().copied().collect()).collect(),
            at: vec![At::Begin; count],
            has_others,
            asked: vec![],
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

    pub fn is_finished(&self) -> bool {
        self.programs.iter().all(Vec::is_empty)
    }

    pub fn can_go_on(&self, host: usize) -> bool {
        let sleeps = match self.at[host] {
            At::Asleep { word: Word::Lock, .. } => !self.is_lock_left(),
            At::Asleep { .. } | At::AskedForLock | At::AskedToMeet { .. } => true,
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
        self.done(host);
    }

    /// Hosts pass no barrier before all have come there.
    pub fn check(machines: &[Self]) {
        let rounds = machines.iter().flat_map(|machine| &machine.came).min().copied().unwrap_or(0);
        for learned in machines.iter().flat_map(|machine| &machine.learned) {
            let passed = learned.iter().rposition(|agreed| *agreed).map_or(0, |last| last + 1);
            assert!(passed <= rounds, "a host passes round {passed} before all have come: {machines:?}");
        }
    }

    fn enter(&mut self, host: usize) {
        self.inside.retain(|inside| !self.left[*inside]);
        self.inside.push(host);
        assert_eq!(self.inside, [host], "several hosts have the lock");
        self.done(host);
    }

    /// The thread that serves the machine answers.
    pub fn answer(&mut self, host: usize, agreed: bool) {
        match self.at[host] {
            At::AskedForLock => self.enter(host),
            At::AskedToMeet { before, same } => self.at[host] = At::Empty { before, agreed: same && agreed },
            other => panic!("an answer for a host that has not asked: {other:?}"),
        }
    }

    /// The other machines leave too.
    pub fn others_leave(&mut self) {
        self.leaving += 1;
        self.wake_all(Word::Leaving);
    }

    /// All that can come of one step of a host.
    pub fn step(&self, host: usize) -> Vec<Self> {
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
                if !self.has_others {
                    return self.enter(host);
                }
                self.asked.push((host, Ask::Lock));
                At::AskedForLock
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
            At::Free => {
                let is_awaited = self.lock.is_awaited();
                self.lock = LockWord::FREE;
                if !is_awaited {
                    return self.done(host);
                }
                At::WakeOne
            }
            At::WakeOne => unreachable!("in `step`"),
            At::AskedForLock | At::AskedToMeet { .. } => unreachable!("it is answered"),
            At::Arrive { before } => {
                self.came[host] += 1;
                self.arrived += 1;
                let same = self.calls.iter().all(|call| *call == self.calls[host]);
                if self.arrived == self.at.len() { At::Meet { before, same } } else { At::Pass { before } }
            }
            At::Meet { before, same } if self.has_others => {
                self.asked.push((host, Ask::Meet { same }));
                At::AskedToMeet { before, same }
            }
            At::Meet { before, same } => At::Empty { before, agreed: same },
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
            At::AllLeave if self.leaving == self.at.len() + usize::from(self.has_others) => {
                return self.done(host);
            }
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
                if self.has_others {
                    self.asked.push((host, Ask::Unlock));
                }
                At::Free
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
