//! Explores every order of steps by which hosts of machines access minipages. Machines exchange messages, threads let the pages
//! of their hosts allow more, and hosts forbid theirs where the machine is to do less. A step is one atomic operation, or one
//! change of pages, which may come between any two of others.

use std::collections::{HashSet, VecDeque};

use forebay_coherence::{Access, Effects, Host, HostId, Message, Minipage, Neighbours, PagesWord, Waiter};

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Op {
    Read(usize),
    Write(usize),
    Push(usize),
    Prefetch(usize),
    /// To write, before a thread wants to.
    Foretell(usize),
}
use Op::{Foretell, Prefetch, Push, Read, Write};

/// Where a thread is within an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Ready,
    Faulted,
    /// Has asked the machine.
    Waiting,
    Woken,
    /// Is counted, and about to look at what the machine may do.
    Begun {
        asked: bool,
    },
    /// About to change pages.
    Looked {
        may: Access,
        asked: bool,
    },
    /// About to be counted no longer.
    Changed {
        allowed: Access,
        asked: bool,
    },
    /// About to say that it tries again.
    Resuming,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct InFlight {
    from: HostId,
    to: HostId,
    message: Message,
    /// Of each minipage that comes with it.
    contents: Vec<u8>,
}

/// What the serving thread of a machine has yet to do, before it takes another message or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Due {
    Send(HostId, Message),
    Protect(Minipage, Access),
    /// The host at this place is to allow no more.
    Forbid(usize, Minipage, Access),
    /// It has been found to allow more.
    ForbidNow(usize, Minipage, Access),
    Wake(usize),
}

/// A machine: to the protocol, one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Machine {
    protocol: Host,
    /// What it may do with each minipage.
    may: Vec<Access>,
    /// For each host and minipage, its word and what its pages allow.
    words: Vec<Vec<PagesWord>>,
    pages: Vec<Vec<Access>>,
    memory: Vec<u8>,
    due: VecDeque<Due>,
    /// Whether minipages travel in company.
    in_company: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    machines: Vec<Machine>,
    /// Of each thread: its machine, its host there, where it is, and what it has yet to do, the next thing last.
    threads: Vec<(usize, usize, At, Vec<Op>)>,
    latest: Vec<u8>,
    /// Sorted, so that equal worlds are equal.
    network: Vec<InFlight>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Deliver(usize),
    Serve(usize),
    Run(usize),
}

struct Wanted<'a> {
    due: &'a mut VecDeque<Due>,
    in_company: bool,
}

impl Effects for Wanted<'_> {
    fn send(&mut self, to: HostId, message: Message) {
        self.due.push_back(Due::Send(to, message));
    }

    fn protect(&mut self, minipage: Minipage, access: Access) {
        self.due.push_back(Due::Protect(minipage, access));
    }

    fn wake(&mut self, waiter: Waiter) {
        self.due.push_back(Due::Wake(waiter.0 as usize));
    }

    fn pass(&mut self, _: Waiter, _: bool) {
        unreachable!("no thread is at a barrier");
    }

    fn neighbours(&self, _: Minipage) -> Option<Neighbours> {
        self.in_company.then_some(Neighbours { first: Minipage(0), used: [!0, 0, 0, 0], kind: 2 })
    }
}

impl Machine {
    fn act(&mut self, act: impl FnOnce(&mut Host, &mut Wanted<'_>)) {
        act(&mut self.protocol, &mut Wanted { due: &mut self.due, in_company: self.in_company });
        self.protocol.take_counts();
    }

    fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// Whether the serving thread can do the next thing: it waits for threads that change pages.
    fn can_serve(&self) -> bool {
        match self.due.front() {
            None => false,
            Some(Due::ForbidNow(host, minipage, _)) => !self.words[*host][minipage.index()].is_raising(),
            Some(_) => true,
        }
    }

    /// Sets what pages of a host allow, as the host itself does.
    fn set(&mut self, host: usize, minipage: Minipage, access: Access) {
        self.pages[host][minipage.index()] = access;
        let word = &mut self.words[host][minipage.index()];
        *word = word.lowered(access);
    }

    fn protect(&mut self, minipage: Minipage, access: Access) {
        let before = std::mem::replace(&mut self.may[minipage.index()], access);
        let hosts = if access > before { 0..1 } else { 0..self.pages.len() };
        let forbid = |host| match host {
            0 => Due::ForbidNow(0, minipage, access),
            _ => Due::Forbid(host, minipage, access),
        };
        hosts.rev().for_each(|host| self.due.push_front(forbid(host)));
    }
}

impl World {
    /// Machines with hosts with one thread each. The first minipage is owned by the first machine, the others are shared at first; or
    /// all are owned by the first machine, and travel in company.
    fn new(machines: &[&[&[Op]]], minipages: usize, in_company: bool) -> Self {
        let count = machines.len() as u16;
        let machine = |(machine, hosts): (usize, &&[&[Op]])| {
            let mut protocol = Host::new(HostId(machine as u16), count);
            let mut add = |minipage| match minipage {
                _ if minipage == 0 || in_company => protocol.add_owned(HostId(0)),
                _ => protocol.add_shared(HostId(minipage as u16 % count)),
            };
            let _: Vec<Minipage> = (0..minipages).map(&mut add).collect();
            let may: Vec<_> = (0..minipages).map(|index| protocol.access(Minipage(index as u32))).collect();
            let words = vec![vec![PagesWord::default(); minipages]; hosts.len()];
            let pages = vec![vec![Access::None; minipages]; hosts.len()];
            let mut machine = Machine {
                protocol,
                may: may.clone(),
                words,
                pages,
                memory: vec![0; minipages],
                due: VecDeque::new(),
                in_company,
            };
            for (minipage, access) in may.into_iter().enumerate() {
                machine.set(0, Minipage(minipage as u32), access);
            }
            machine
        };
        let thread = |machine: usize, host: usize, program: &[Op]| {
            (machine, host, At::Ready, program.iter().rev().copied().collect())
        };
        let of_machine = |(machine, hosts): (usize, &&[&[Op]])| -> Vec<_> {
            hosts.iter().enumerate().map(|(host, program)| thread(machine, host, program)).collect()
        };
        Self {
            machines: machines.iter().enumerate().map(machine).collect(),
            threads: machines.iter().enumerate().flat_map(of_machine).collect(),
            latest: vec![0; minipages],
            network: vec![],
        }
    }

    fn steps(&self) -> Vec<Step> {
        let can_take = |index: &usize| self.machines[self.network[*index].to.index()].is_idle();
        let deliver = (0..self.network.len()).filter(can_take).map(Step::Deliver);
        let serve =
            (0..self.machines.len()).filter(|machine| self.machines[*machine].can_serve()).map(Step::Serve);
        let run = (0..self.threads.len()).filter(|thread| self.can_run(*thread)).map(Step::Run);
        deliver.chain(serve).chain(run).collect()
    }

    fn can_run(&self, thread: usize) -> bool {
        let (machine, _, at, program) = &self.threads[thread];
        let Some(op) = program.last() else { return false };
        let machine = &self.machines[*machine];
        match at {
            At::Waiting => false,
            At::Resuming => machine.is_idle(),
            At::Ready if matches!(op, Push(_) | Prefetch(_) | Foretell(_)) => machine.is_idle(),
            At::Faulted => {
                let (minipage, access) = wanted(*op);
                machine.may[minipage] >= access || machine.is_idle()
            }
            _ => true,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Deliver(index) => {
                let InFlight { from, to, message, contents } = self.network.remove(index);
                let machine = &mut self.machines[to.index()];
                for (single, contents) in message.singles().zip(contents) {
                    let Message::Contents { minipage, .. } = single else {
                        unreachable!("no contents go with {single:?}")
                    };
                    let written = machine.pages.iter().any(|pages| pages[minipage.index()] == Access::Write);
                    assert!(!written, "contents over a written copy");
                    machine.memory[minipage.index()] = contents;
                }
                machine.act(|protocol, effects| protocol.receive(from, message, effects));
            }
            Step::Serve(machine) => self.serve(machine),
            Step::Run(thread) => self.run(thread),
        }
        self.check();
    }

    fn serve(&mut self, index: usize) {
        let machine = &mut self.machines[index];
        match machine.due.pop_front().unwrap() {
            Due::Send(to, message) => {
                let contents = match message {
                    Message::Contents { minipage, more, .. } => {
                        machine.memory[minipage.index()..][..1 + usize::from(more)].to_vec()
                    }
                    _ => vec![],
                };
                self.network.push(InFlight { from: HostId(index as u16), to, message, contents });
                self.network.sort_unstable();
            }
            Due::Protect(minipage, access) => machine.protect(minipage, access),
            Due::Forbid(host, minipage, access) => {
                let word = machine.words[host][minipage.index()];
                if word.is_raising() || word.allowed() > access {
                    machine.due.push_front(Due::ForbidNow(host, minipage, access));
                }
            }
            Due::ForbidNow(host, minipage, access) => machine.set(host, minipage, access),
            Due::Wake(thread) => {
                assert_eq!(self.threads[thread].2, At::Waiting, "woken without having waited");
                self.threads[thread].2 = At::Woken;
            }
        }
    }

    fn run(&mut self, thread: usize) {
        let (index, host, at, program) = &mut self.threads[thread];
        let (machine, host, op) = (&mut self.machines[*index], *host, *program.last().unwrap());
        if let (At::Ready, Push(minipage) | Prefetch(minipage) | Foretell(minipage)) = (*at, op) {
            program.pop();
            let minipage = Minipage(minipage as u32);
            return machine.act(|protocol, effects| match op {
                Push(_) => protocol.push(minipage, effects),
                Foretell(_) => protocol.foretell(minipage, Access::Write, effects),
                _ => protocol.prefetch(minipage, Access::Read, effects),
            });
        }
        let (minipage, access) = wanted(op);
        let (number, word) = (Minipage(minipage as u32), &mut machine.words[host][minipage]);
        *at = match *at {
            At::Ready if machine.pages[host][minipage] >= access => {
                if access == Access::Write {
                    machine.memory[minipage] = (thread * 16 + program.len()) as u8;
                    self.latest[minipage] = machine.memory[minipage];
                }
                assert_eq!(
                    machine.memory[minipage], self.latest[minipage],
                    "an old value of minipage {minipage}"
                );
                program.pop();
                At::Ready
            }
            At::Ready => At::Faulted,
            At::Faulted if machine.may[minipage] >= access => {
                *word = word.begun();
                At::Begun { asked: false }
            }
            At::Faulted => {
                let waiter = Waiter(thread as u64);
                machine.act(|protocol, effects| protocol.fault(number, access, waiter, effects));
                At::Waiting
            }
            // Its pages allow it already.
            At::Woken if host == 0 => At::Resuming,
            At::Woken => {
                *word = word.begun();
                At::Begun { asked: true }
            }
            At::Begun { asked } => At::Looked { may: machine.may[minipage], asked },
            At::Looked { may, asked } => {
                let allowed = if may >= access { may } else { Access::None };
                if allowed > Access::None {
                    machine.pages[host][minipage] = allowed;
                }
                At::Changed { allowed, asked }
            }
            At::Changed { allowed, asked } => {
                *word = word.ended(allowed);
                if asked { At::Resuming } else { At::Ready }
            }
            At::Resuming => {
                machine.act(|protocol, effects| protocol.resumed(number, effects));
                At::Ready
            }
            At::Waiting => unreachable!("it cannot run"),
        };
    }

    fn is_finished(&self) -> bool {
        self.threads.iter().all(|(_, _, _, program)| program.is_empty())
            && self.network.is_empty()
            && self.machines.iter().all(|machine| machine.is_idle() && machine.protocol.is_calm())
    }

    /// Pages of one machine allow writing, or those of several allow reading; and all that can be read is what was written last.
    fn check(&self) {
        for minipage in 0..self.latest.len() {
            let most = |machine: &Machine| machine.pages.iter().map(|pages| pages[minipage]).max();
            let writers = self.machines.iter().filter(|machine| most(machine) == Some(Access::Write)).count();
            let copies = || self.machines.iter().filter(|machine| most(machine) > Some(Access::None));
            let count = copies().count();
            assert!(writers == 0 || count == 1, "{writers} writers, {count} copies of minipage {minipage}");
            for machine in copies() {
                assert_eq!(
                    machine.memory[minipage], self.latest[minipage],
                    "an old copy of minipage {minipage}"
                );
            }
        }
    }
}

fn wanted(op: Op) -> (usize, Access) {
    match op {
        Read(minipage) | Push(minipage) | Prefetch(minipage) => (minipage, Access::Read),
        Write(minipage) | Foretell(minipage) => (minipage, Access::Write),
    }
}

/// Goes through all worlds that can come of this one. How many there are.
fn explore(machines: &[&[&[Op]]], minipages: usize) -> usize {
    explored(World::new(machines, minipages, false)).len()
}

fn explored(world: World) -> HashSet<World> {
    let mut known = HashSet::new();
    let mut open = vec![world];
    while let Some(world) = open.pop() {
        let steps = world.steps();
        assert!(!steps.is_empty() || world.is_finished(), "nothing can happen any more: {world:#?}");
        for step in steps {
            let mut next = world.clone();
            next.take(step);
            if !known.contains(&next) {
                known.insert(next.clone());
                open.push(next);
            }
        }
    }
    known
}

#[test]
fn one_access_of_each_host_of_two_machines() {
    let all = [Read(0), Write(0), Push(0), Prefetch(0)];
    for a in all {
        for b in all {
            for c in all {
                explore(&[&[&[a], &[b]], &[&[c]]], 1);
                explore(&[&[&[a]], &[&[b], &[c]]], 1);
            }
            explore(&[&[&[Foretell(0)], &[a]], &[&[b]]], 1);
        }
    }
}

#[test]
fn two_accesses_of_each_host_of_two_machines() {
    let worlds = explore(&[&[&[Write(0)], &[Read(0), Write(0)]], &[&[Write(0), Read(0)]]], 1);
    assert!(worlds > 1_000, "no more than {worlds} ways to take turns");
    explore(&[&[&[Write(0)]], &[&[Read(0), Write(0)], &[Write(0)]]], 1);
    explore(&[&[&[], &[Write(0)]], &[&[], &[Write(0)]]], 1);
    explore(&[&[&[Push(0)], &[Write(0)]], &[&[Write(0)], &[Read(0)]]], 1);
    explore(&[&[&[Foretell(0)], &[Write(0)]], &[&[Foretell(0), Write(0)]]], 1);
}

#[test]
fn hosts_of_machines_see_two_minipages_in_one_order() {
    explore(&[&[&[], &[Write(0), Read(1)]], &[&[Write(1), Read(0)]]], 2);
    explore(&[&[&[Write(1)], &[Read(1), Read(0)]], &[&[Write(0)]]], 2);
}

#[test]
fn three_machines_of_which_one_has_two_hosts() {
    explore(&[&[&[], &[Write(0)]], &[&[Write(0)]], &[&[Read(0)]]], 1);
    explore(&[&[&[Write(0)]], &[&[Read(0)], &[Read(0)]], &[&[Write(0)]]], 1);
}

#[test]
fn neighbours_in_company_of_machines_with_two_hosts() {
    let programs: [&[&[&[Op]]]; 3] = [
        &[&[&[], &[Write(0), Read(1)]], &[&[Write(1)]]],
        &[&[&[Write(1)], &[Read(0)]], &[&[Write(0)]]],
        &[&[&[Write(0)]], &[&[Read(1)], &[Write(0)]]],
    ];
    for machines in programs {
        let worlds = explored(World::new(machines, 2, true));
        let goes_along = |world: &World| world.network.iter().any(|message| message.contents.len() > 1);
        assert!(worlds.iter().any(goes_along), "no neighbour goes along");
        assert!(worlds.len() > 100, "no more than {} ways to take turns", worlds.len());
    }
}
