//! Explores every order of steps by which hosts of several machines take a lock, meet and leave. On the board of each machine a
//! step is one atomic operation, and between the machines messages come in any order. A wake-up that is lost is a deadlock.

mod boards;

use std::collections::HashSet;

use boards::{Ask, Barrier, Leave, Lock, Machine, Op, Unlock};
use forebay_coherence::{self as protocol, Access, Effects, HostId, Message, Minipage, Waiter};

/// The lock and the barrier of all.
const LOCK: protocol::Lock = protocol::Lock(1);
const BARRIER: protocol::Barrier = protocol::Barrier(0);
/// The waiter of the machine itself.
const LEAVER: Waiter = Waiter(u64::MAX);
/// What all hosts say at a barrier, and what a machine says whose hosts differ.
const SAME: u64 = 7;
const DIFFERENT: u64 = 0;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    boards: Vec<Machine>,
    machines: Vec<protocol::Host>,
    /// What each has told the others: that a host has left, and that all have.
    told: Vec<(bool, bool)>,
    /// Sorted, so that equal worlds are equal.
    network: Vec<(HostId, HostId, Message)>,
}

/// What a machine wants done.
struct Wanted<'a> {
    me: HostId,
    board: &'a mut Machine,
    network: &'a mut Vec<(HostId, HostId, Message)>,
}

impl Effects for Wanted<'_> {
    fn send(&mut self, to: HostId, message: Message) {
        self.network.push((self.me, to, message));
    }

    fn protect(&mut self, _: Minipage, _: Access) {
        unreachable!("there are no minipages");
    }

    fn wake(&mut self, waiter: Waiter) {
        if waiter == LEAVER { self.board.others_leave() } else { self.board.answer(waiter.0 as usize, true) }
    }

    fn pass(&mut self, waiter: Waiter, agreed: bool) {
        self.board.answer(waiter.0 as usize, agreed);
    }
}

impl World {
    fn new(machines: &[&[&[Op]]]) -> Self {
        let count = machines.len() as u16;
        Self {
            boards: machines.iter().map(|programs| Machine::new(programs, true)).collect(),
            machines: (0..count).map(|machine| protocol::Host::new(HostId(machine), count)).collect(),
            told: vec![(false, false); machines.len()],
            network: vec![],
        }
    }

    fn is_finished(&self) -> bool {
        self.network.is_empty() && self.boards.iter().all(Machine::is_finished)
    }

    /// All worlds that can be next.
    fn next(&self) -> Vec<Self> {
        let mut all = vec![];
        for index in 0..self.network.len() {
            let mut next = self.clone();
            let (from, to, message) = next.network.remove(index);
            next.act(to.index(), |machine, effects| machine.receive(from, message, effects));
            all.push(next);
        }
        for (machine, board) in self.boards.iter().enumerate() {
            for host in (0..board.at.len()).filter(|host| board.can_go_on(*host)) {
                all.extend(board.step(host).into_iter().map(|board| {
                    let mut next = self.clone();
                    next.boards[machine] = board;
                    next
                }));
            }
            all.extend((0..board.asked.len()).map(|index| self.served(machine, index)));
            all.extend(self.looked(machine));
        }
        all
    }

    /// One of the things is done that the thread that serves a machine is asked for.
    fn served(&self, machine: usize, index: usize) -> Self {
        let mut next = self.clone();
        let (host, ask) = next.boards[machine].asked.remove(index);
        let waiter = Waiter(host as u64);
        next.act(machine, |machine, effects| match ask {
            Ask::Lock => machine.lock(LOCK, waiter, effects),
            Ask::Unlock => assert!(machine.unlock(LOCK, effects)),
            Ask::Meet { same } => {
                assert!(machine.arrive(BARRIER, if same { SAME } else { DIFFERENT }, waiter, effects));
            }
        });
        next
    }

    /// That thread looks whether hosts leave.
    fn looked(&self, machine: usize) -> Option<Self> {
        let (leaving, hosts) = (self.boards[machine].leaving, self.boards[machine].at.len());
        let now = (leaving > 0, leaving >= hosts);
        let mut next = self.clone();
        let before = std::mem::replace(&mut next.told[machine], now);
        (now != before).then(|| {
            next.act(machine, |machine, effects| {
                if now.1 { machine.leave(LEAVER, effects) } else { machine.break_barriers(effects) }
            });
            next
        })
    }

    fn act(&mut self, index: usize, act: impl FnOnce(&mut protocol::Host, &mut Wanted<'_>)) {
        let (board, network) = (&mut self.boards[index], &mut self.network);
        act(&mut self.machines[index], &mut Wanted { me: HostId(index as u16), board, network });
        self.machines[index].take_counts();
        self.network.sort_unstable();
    }

    fn check(&self) {
        let inside = self.boards.iter().map(|board| board.inside.len()).sum::<usize>();
        assert!(inside <= 1, "{inside} hosts have the lock: {self:?}");
        Machine::check(&self.boards);
    }
}

/// Goes through all worlds that can come of these programs, and ends where all hosts have done all: what each learned at the
/// barriers.
fn explore(machines: &[&[&[Op]]]) -> HashSet<Vec<Vec<bool>>> {
    let mut known = HashSet::new();
    let mut open = vec![World::new(machines)];
    let mut ends = HashSet::new();
    while let Some(world) = open.pop() {
        let next = world.next();
        assert!(!next.is_empty() || world.is_finished(), "all hosts wait for ever: {world:?}");
        if next.is_empty() {
            ends.insert(world.boards.iter().flat_map(|board| board.learned.clone()).collect());
        }
        for next in next {
            next.check();
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    ends
}

#[test]
fn one_host_of_all_machines_has_a_lock() {
    explore(&[&[&[Lock, Unlock], &[Lock, Unlock]], &[&[Lock, Unlock]]]);
    explore(&[&[&[Lock, Unlock]], &[&[Lock, Unlock]], &[&[Lock, Unlock]]]);
}

#[test]
fn all_hosts_of_all_machines_meet() {
    let ends = explore(&[&[&[Barrier(1), Leave], &[Barrier(1), Leave]], &[&[Barrier(1), Leave]]]);
    assert_eq!(ends, HashSet::from([vec![vec![true]; 3]]));
}

#[test]
fn hosts_of_all_machines_learn_that_one_calls_something_else() {
    let ends = explore(&[&[&[Barrier(1)], &[Barrier(2)]], &[&[Barrier(1)]]]);
    assert_eq!(ends, HashSet::from([vec![vec![false]; 3]]));
}

#[test]
fn hosts_of_all_machines_learn_that_one_has_left() {
    let ends = explore(&[&[&[Leave], &[Barrier(1), Leave]], &[&[Barrier(1), Leave]]]);
    assert_eq!(ends, HashSet::from([vec![vec![], vec![false], vec![false]]]));
}
