//! Simulated machines, with a memory and one or several threads each, and a network that delivers messages in any order. To
//! the protocol a machine is a host, whichever processes its threads are of.

use std::collections::BTreeSet;

use forebay_coherence::{
    Access, Barrier, Effects, Host, HostId, Lock, Message, Minipage, Neighbours, Waiter,
};

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Read(u32),
    Write(u32),
    Push(u32),
    Prefetch(u32),
    /// A minipage that the host foretells, which may be free, or one that it does not know yet.
    Foretell(u32, Access),
    Lock(u32),
    /// A lock that the thread does not wait for; if it does not get it, it leaves out what comes next.
    TryLock(u32),
    /// A lock that the thread may cease to wait for at any time; then it leaves out what comes next.
    LockForAWhile(u32),
    Unlock(u32),
    Barrier(u32),
    /// A barrier that another host has left instead of coming to.
    BrokenBarrier(u32),
    /// A minipage that this host adds alone, which is taken from then on.
    Add(u32),
    /// The same of this and the next one, which are neighbours.
    AddBoth(u32),
    /// One that some host has added: another thread has told this one.
    ReadAdded(u32),
    WriteAdded(u32),
    Free(u32),
    /// To free what is not taken.
    FreeAgain(u32),
    /// The host that has added a minipage, which is free, lets it be used again.
    TakeAgain(u32),
    /// All hosts free this one, which all have added.
    FreeTogether(u32),
    /// They forget it, when that is over on all.
    Forget(u32),
    /// They add another one of the same number, which this host manages.
    Renew(u32, u16),
    /// One of the processes that are this machine leaves.
    Break,
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    Ready,
    /// Has faulted, or waits for a lock or a barrier.
    Waiting,
    /// Is about to try again, or to go on.
    Woken {
        agreed: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct InFlight {
    from: HostId,
    to: HostId,
    message: Message,
    /// Of each minipage that comes with it.
    contents: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    hosts: Vec<Host>,
    threads: Vec<Thread>,
    /// The host of each thread.
    host_of: Vec<usize>,
    /// What each thread has yet to do, the next thing last.
    programs: Vec<Vec<Op>>,
    memories: Vec<Vec<u8>>,
    /// What was last written to each minipage.
    latest: Vec<u8>,
    /// Sorted, so that equal worlds are equal.
    network: Vec<InFlight>,
    /// Threads between lock and unlock.
    inside: BTreeSet<(u32, usize)>,
    /// Minipages of which threads know that a host has added them.
    added: BTreeSet<u32>,
    /// Those of them that are not free.
    taken: BTreeSet<u32>,
    /// The first of two that were added together.
    both: Option<u32>,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Deliver(usize),
    Run(usize),
}

/// What one host's machine wants done.
struct Wanted<'a> {
    me: HostId,
    memory: &'a [u8],
    /// The first of two neighbours.
    both: Option<u32>,
    taken: &'a mut BTreeSet<u32>,
    sent: Vec<InFlight>,
    woken: Vec<(Waiter, bool)>,
}

impl Effects for Wanted<'_> {
    fn send(&mut self, to: HostId, message: Message) {
        let contents = match message {
            Message::Contents { minipage, more, .. } => {
                self.memory[minipage.index()..][..1 + usize::from(more)].to_vec()
            }
            _ => vec![],
        };
        self.sent.push(InFlight { from: self.me, to, message, contents });
    }

    fn protect(&mut self, _: Minipage, _: Access) {}

    fn wake(&mut self, waiter: Waiter) {
        self.woken.push((waiter, true));
    }

    fn pass(&mut self, waiter: Waiter, agreed: bool) {
        self.woken.push((waiter, agreed));
    }

    fn add(&mut self, first: Minipage, what: u32) {
        self.taken.extend(first.0..first.0 + what);
    }

    fn neighbours(&self, minipage: Minipage) -> Option<Neighbours> {
        let first = self.both.filter(|first| (*first..*first + 2).contains(&minipage.0))?;
        let is_taken = |minipage| u64::from(self.taken.contains(&minipage));
        let used = is_taken(first) | is_taken(first + 1) << 1;
        Some(Neighbours { first: Minipage(first), used: [used, 0, 0, 0], kind: 2 })
    }

    fn free(&mut self, minipage: Minipage) -> bool {
        self.taken.remove(&minipage.0)
    }
}

/// How many minipages hosts can add alone. What is said of some is how many they are.
const ROOM: u32 = 4;

impl World {
    /// Hosts with one thread each, and so many minipages that all add. Even minipages are owned by their managers, odd ones are shared at first.
    pub fn new(programs: &[&[Op]], minipages: u32) -> Self {
        let each: Vec<_> = programs.iter().map(std::slice::from_ref).collect();
        Self::of_machines(&each, minipages)
    }

    /// Hosts with so many threads each.
    pub fn of_machines(machines: &[&[&[Op]]], minipages: u32) -> Self {
        let count = machines.len();
        let mut hosts: Vec<_> = (0..count).map(|host| Host::new(HostId(host as u16), count as u16)).collect();
        for host in &mut hosts {
            host.make_room(minipages..minipages + ROOM);
            for minipage in 0..minipages {
                let home = HostId((minipage as usize % count) as u16);
                if minipage % 2 == 0 {
                    host.add_owned(home)
                } else {
                    host.add_shared(home)
                };
            }
        }
        let threads = machines.iter().enumerate();
        let threads =
            threads.flat_map(|(host, programs)| programs.iter().map(move |program| (host, program)));
        let (host_of, programs): (Vec<_>, Vec<Vec<Op>>) =
            threads.map(|(host, program)| (host, program.iter().rev().copied().collect())).unzip();
        Self {
            hosts,
            threads: vec![Thread::Ready; programs.len()],
            host_of,
            programs,
            memories: vec![vec![0; (minipages + ROOM) as usize]; count],
            latest: vec![0; (minipages + ROOM) as usize],
            network: vec![],
            inside: BTreeSet::new(),
            added: BTreeSet::new(),
            taken: BTreeSet::new(),
            both: None,
        }
    }

    /// All that can happen.
    pub fn steps(&self) -> Vec<Step> {
        let runs = (0..self.threads.len()).filter(|thread| self.can_run(*thread)).map(Step::Run);
        (0..self.network.len()).map(Step::Deliver).chain(runs).collect()
    }

    fn can_run(&self, thread: usize) -> bool {
        let is_told = match self.programs[thread].last() {
            Some(Op::ReadAdded(minipage) | Op::WriteAdded(minipage) | Op::Free(minipage)) => {
                self.added.contains(minipage)
            }
            Some(Op::FreeAgain(minipage) | Op::TakeAgain(minipage)) => {
                self.added.contains(minipage) && !self.taken.contains(minipage)
            }
            next => next.is_some(),
        };
        let may_cease = matches!(self.programs[thread].last(), Some(Op::LockForAWhile(_)));
        (may_cease || self.threads[thread] != Thread::Waiting) && is_told
    }

    /// Whether all threads have done all that they had to.
    pub fn is_finished(&self) -> bool {
        self.programs.iter().all(Vec::is_empty)
            && self.network.is_empty()
            && self.hosts.iter().all(Host::is_calm)
    }

    /// Whether contents of neighbours are under way together.
    #[allow(dead_code, reason = "each test uses a part")]
    pub fn has_company(&self) -> bool {
        self.network.iter().any(|in_flight| in_flight.contents.len() > 1)
    }

    /// Lets it happen, and looks whether all is as it should be.
    pub fn take(&mut self, step: Step) {
        match step {
            Step::Deliver(index) => self.deliver(index),
            Step::Run(thread) => self.run(thread),
        }
        for host in &mut self.hosts {
            host.take_counts();
        }
        self.check();
    }

    fn deliver(&mut self, index: usize) {
        let InFlight { from, to, message, contents } = self.network.remove(index);
        for (single, contents) in message.singles().zip(contents) {
            let Message::Contents { minipage, .. } = single else {
                unreachable!("no contents go with {single:?}")
            };
            assert_ne!(
                self.hosts[to.index()].access(minipage),
                Access::Write,
                "contents over a written copy"
            );
            self.memories[to.index()][minipage.index()] = contents;
        }
        self.with(to.index(), |host, effects| host.receive(from, message, effects));
    }

    fn run(&mut self, thread: usize) {
        let host = self.host_of[thread];
        let op = *self.programs[thread].last().unwrap();
        if let Thread::Woken { agreed } = self.threads[thread] {
            self.threads[thread] = Thread::Ready;
            match op {
                Op::TryLock(_) | Op::LockForAWhile(_) if !agreed => _ = self.programs[thread].pop(),
                _ => assert_eq!(agreed, !matches!(op, Op::BrokenBarrier(_) | Op::FreeAgain(_)), "{op:?}"),
            }
            match op {
                Op::Add(first) | Op::AddBoth(first) => {
                    for minipage in first..=first + u32::from(matches!(op, Op::AddBoth(_))) {
                        let known = |host: &Host| host.knows(Minipage(minipage));
                        assert!(self.hosts.iter().all(known), "minipage {minipage} is not known to all");
                        self.added.insert(minipage);
                    }
                }
                Op::Read(minipage)
                | Op::Write(minipage)
                | Op::ReadAdded(minipage)
                | Op::WriteAdded(minipage) => {
                    self.with(host, |machine, effects| machine.resumed(Minipage(minipage), effects));
                    return;
                }
                Op::Lock(lock) | Op::TryLock(lock) | Op::LockForAWhile(lock) if agreed => {
                    let others = self.inside.iter().filter(|(inside, _)| *inside == lock).count();
                    assert_eq!(others, 0, "two threads have lock {lock}");
                    self.inside.insert((lock, thread));
                }
                _ => {}
            }
            self.programs[thread].pop();
            return;
        }
        let waiter = Waiter(thread as u64);
        match op {
            Op::Read(minipage) | Op::Write(minipage) | Op::ReadAdded(minipage) | Op::WriteAdded(minipage) => {
                let access =
                    if matches!(op, Op::Write(_) | Op::WriteAdded(_)) { Access::Write } else { Access::Read };
                if self.hosts[host].access(Minipage(minipage)) >= access {
                    return self.touch(thread, minipage as usize, access);
                }
                self.wait(thread, |machine, effects| {
                    machine.fault(Minipage(minipage), access, waiter, effects)
                });
            }
            Op::Add(minipage) => self.wait(thread, |machine, effects| {
                machine.add_alone(Minipage(minipage), 1, 1, waiter, effects);
            }),
            Op::AddBoth(minipage) => {
                self.both = Some(minipage);
                for new in minipage..minipage + 2 {
                    (self.memories[host][new as usize], self.latest[new as usize]) = (0, 0);
                }
                self.wait(thread, |machine, effects| {
                    machine.add_alone(Minipage(minipage), 2, 2, waiter, effects)
                });
            }
            Op::Free(minipage) | Op::FreeAgain(minipage) => self.wait(thread, |machine, effects| {
                machine.free(Minipage(minipage), waiter, effects);
            }),
            Op::FreeTogether(minipage) => self.wait(thread, |machine, effects| {
                machine.free_together(minipage..minipage + 1, waiter, effects);
            }),
            Op::Forget(minipage) => {
                self.programs[thread].pop();
                self.hosts[host].forget(minipage..minipage + 1);
                let number = Some(Minipage(minipage));
                let is_about =
                    |flying: &InFlight| flying.message.singles().any(|single| single.minipage() == number);
                assert!(!self.network.iter().any(is_about), "a message about minipage {minipage} is left");
            }
            Op::Renew(minipage, home) => {
                self.programs[thread].pop();
                self.hosts[host].add_as(Minipage(minipage), HostId(home), minipage % 2 == 1);
                (self.memories[host][minipage as usize], self.latest[minipage as usize]) = (0, 0);
            }
            Op::LockForAWhile(lock) if self.threads[thread] == Thread::Waiting => {
                self.with(host, |machine, effects| machine.forgo(Lock(lock.into()), waiter, effects));
            }
            Op::Lock(lock) | Op::LockForAWhile(lock) => {
                self.wait(thread, |machine, effects| machine.lock(Lock(lock.into()), waiter, effects))
            }
            Op::TryLock(lock) => {
                self.wait(thread, |machine, effects| machine.try_lock(Lock(lock.into()), waiter, effects));
            }
            Op::Barrier(barrier) | Op::BrokenBarrier(barrier) => self.wait(thread, |machine, effects| {
                assert!(machine.arrive(Barrier(barrier), 5, waiter, effects));
            }),
            Op::Leave => {
                self.inside.retain(|(_, inside)| self.host_of[*inside] != host);
                self.wait(thread, |machine, effects| machine.leave(waiter, effects));
            }
            Op::Break => {
                self.programs[thread].pop();
                self.with(host, |machine, effects| machine.break_barriers(effects));
            }
            Op::Unlock(lock) => {
                self.programs[thread].pop();
                assert!(self.inside.remove(&(lock, thread)));
                self.with(host, |machine, effects| assert!(machine.unlock(Lock(lock.into()), effects)));
            }
            Op::Push(minipage) => {
                self.programs[thread].pop();
                self.with(host, |machine, effects| machine.push(Minipage(minipage), effects));
            }
            Op::Prefetch(minipage) => {
                self.programs[thread].pop();
                self.with(host, |machine, effects| {
                    machine.prefetch(Minipage(minipage), Access::Read, effects)
                });
            }
            Op::Foretell(minipage, access) => {
                self.programs[thread].pop();
                self.with(host, |machine, effects| machine.foretell(Minipage(minipage), access, effects));
            }
            Op::TakeAgain(minipage) => {
                self.programs[thread].pop();
                assert!(self.taken.insert(minipage));
                self.with(host, |machine, effects| machine.renew(Minipage(minipage), effects));
            }
        }
    }

    /// The access itself: reading finds what was written last.
    fn touch(&mut self, thread: usize, minipage: usize, access: Access) {
        let host = self.host_of[thread];
        if access == Access::Write {
            let value = (thread * 32 + self.programs[thread].len()) as u8;
            self.memories[host][minipage] = value;
            self.latest[minipage] = value;
        }
        assert_eq!(
            self.memories[host][minipage], self.latest[minipage],
            "an old value of minipage {minipage}"
        );
        self.programs[thread].pop();
    }

    fn wait(&mut self, thread: usize, act: impl FnOnce(&mut Host, &mut Wanted<'_>)) {
        self.threads[thread] = Thread::Waiting;
        self.with(self.host_of[thread], act);
    }

    fn with(&mut self, host: usize, act: impl FnOnce(&mut Host, &mut Wanted<'_>)) {
        let (me, memory, taken) = (HostId(host as u16), &self.memories[host], &mut self.taken);
        let mut wanted = Wanted { me, memory, both: self.both, taken, sent: vec![], woken: vec![] };
        act(&mut self.hosts[host], &mut wanted);
        self.hosts[host].settle(&mut wanted);
        let Wanted { sent, woken, .. } = wanted;
        for (Waiter(thread), agreed) in woken {
            let state = &mut self.threads[thread as usize];
            assert_eq!(*state, Thread::Waiting, "woken without having waited");
            *state = Thread::Woken { agreed };
        }
        self.network.extend(sent);
        self.network.sort_unstable();
    }

    /// A single writer or multiple readers, and equal copies.
    fn check(&self) {
        for minipage in 0..self.latest.len() {
            let access = |host: &Host| host.access(Minipage(minipage as u32));
            let writers = self.hosts.iter().filter(|host| access(host) == Access::Write).count();
            let copies = self.hosts.iter().filter(|host| access(host) != Access::None).count();
            assert!(writers == 0 || copies == 1, "{writers} writers, {copies} copies of minipage {minipage}");
            for (host, memory) in self.hosts.iter().zip(&self.memories) {
                if access(host) != Access::None {
                    assert_eq!(memory[minipage], self.latest[minipage], "an old copy of minipage {minipage}");
                }
            }
        }
    }
}
