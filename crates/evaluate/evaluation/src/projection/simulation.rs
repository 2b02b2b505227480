//! Hosts in simulated time.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use forebay_coherence::{Access, Barrier, Counts, Effects, Host, HostId, Lock, Message, Minipage, Waiter};

use crate::projection::{Costs, Error, Event, Network, Projection, Shares, Trace, costs::size_bytes};

/// Each host's one thread.
const THREAD: Waiter = Waiter(0);

/// What would come of a trace's run, with such costs on such a network.
///
/// # Errors
/// The trace is not one of a run that ended.
pub fn project(trace: &Trace, costs: &Costs, network: &Network) -> Result<Projection, Error> {
    let mut world = World::new(trace, costs, network)?;
    while let Some(Reverse(next)) = world.upcoming.pop() {
        world.now_ns = next.at_ns;
        match next.what {
            What::Run => world.run(next.host)?,
            What::Arrive(work) => world.arrive(next.host, work),
            What::Serve => world.serve(next.host),
        }
    }
    world.finish()
}

struct World<'a> {
    trace: &'a Trace,
    costs: &'a Costs,
    network: &'a Network,
    now_ns: u64,
    upcoming: BinaryHeap<Reverse<Upcoming>>,
    /// Tells what happens at the same time apart: first come, first served.
    order: u64,
    hosts: Vec<Simulated>,
    messages: u64,
    bytes: u64,
}

/// One host.
struct Simulated {
    machine: Host,
    /// Place of the thread in its events.
    next: usize,
    /// Since when it has waited, if it does.
    waiting_since_ns: Option<u64>,
    /// It waited in a fault, and is about to try again.
    resumes: bool,
    /// What the progress thread has yet to serve, and whether it is at it.
    inbox: VecDeque<Work>,
    is_serving: bool,
    shares: Shares,
    ended_at_ns: Option<u64>,
}

/// Of a progress thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Message { from: HostId, message: Message },
    Fault { minipage: Minipage, access: Access },
    Resumed { minipage: Minipage },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Upcoming {
    at_ns: u64,
    order: u64,
    host: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The thread does its next event.
    Run,
    /// Something for the progress thread.
    Arrive(Work),
    /// The progress thread is free for the next.
    Serve,
}

/// What a machine wants done.
#[derive(Default)]
struct Wanted {
    sent: Vec<(HostId, Message)>,
    protections: u64,
    wakes: bool,
}

impl Effects for Wanted {
    fn send(&mut self, to: HostId, message: Message) {
        self.sent.push((to, message));
    }

    fn protect(&mut self, _: Minipage, _: Access) {
        self.protections += 1;
    }

    fn wake(&mut self, _: Waiter) {
        self.wakes = true;
    }

    fn pass(&mut self, _: Waiter, _: bool) {
        self.wakes = true;
    }
}

impl<'a> World<'a> {
    fn new(trace: &'a Trace, costs: &'a Costs, network: &'a Network) -> Result<Self, Error> {
        let count = trace.hosts.len();
        let hosts = u16::try_from(count).ok().filter(|hosts| *hosts > 0);
        let hosts = hosts.ok_or(Error::Hosts { hosts: count, max: u16::MAX })?;
        check(trace)?;
        let simulated = |host: u16| {
            let mut machine = Host::new(HostId(host), hosts);
            for minipage in &trace.minipages {
                let home = HostId(minipage.home);
                if minipage.copies {
                    machine.add_shared(home)
                } else {
                    machine.add_owned(home)
                };
            }
            Simulated {
                machine,
                next: 0,
                waiting_since_ns: None,
                resumes: false,
                inbox: VecDeque::new(),
                is_serving: false,
                shares: Shares::default(),
                ended_at_ns: None,
            }
        };
        let mut world = Self {
            trace,
            costs,
            network,
            now_ns: 0,
            upcoming: BinaryHeap::new(),
            order: 0,
            hosts: (0..hosts).map(simulated).collect(),
            messages: 0,
            bytes: 0,
        };
        (0..count).for_each(|host| world.schedule(0, host, What::Run));
        Ok(world)
    }

    fn schedule(&mut self, at_ns: u64, host: usize, what: What) {
        self.order += 1;
        self.upcoming.push(Reverse(Upcoming { at_ns, order: self.order, host, what }));
    }

    /// The thread's next event; or, after a wait, what it waited for.
    fn run(&mut self, host: usize) -> Result<(), Error> {
        if let Some(since_ns) = self.hosts[host].waiting_since_ns.take() {
            self.end_wait(host, since_ns);
        }
        let simulated = &mut self.hosts[host];
        let Some(event) = self.trace.hosts[host].get(simulated.next).copied() else {
            simulated.ended_at_ns = Some(self.now_ns);
            return Ok(());
        };
        match event {
            Event::Compute(nanoseconds) => self.go_on(host, nanoseconds),
            Event::Read(minipage) => self.touch(host, Minipage(minipage), Access::Read),
            Event::Write(minipage) => self.touch(host, Minipage(minipage), Access::Write),
            Event::Lock(lock) => {
                self.call(host, true, |machine, wanted| machine.lock(Lock(lock.into()), THREAD, wanted));
            }
            Event::Barrier(barrier) => {
                // With one thread a host, no other waits there.
                self.call(host, true, |machine, wanted| machine.arrive(Barrier(barrier), 0, THREAD, wanted));
            }
            Event::Unlock(lock) => {
                let event = simulated.next;
                let had = self.call(host, false, |machine, wanted| machine.unlock(Lock(lock.into()), wanted));
                if !had {
                    return Err(Error::Unlocked { lock, host: host as u16, event });
                }
            }
            Event::PrefetchRead(minipage) => self.call(host, false, |machine, wanted| {
                machine.prefetch(Minipage(minipage), Access::Read, wanted);
            }),
            Event::PrefetchWrite(minipage) => self.call(host, false, |machine, wanted| {
                machine.prefetch(Minipage(minipage), Access::Write, wanted);
            }),
            Event::Push(minipage) => {
                self.call(host, false, |machine, wanted| machine.push(Minipage(minipage), wanted));
            }
        }
        Ok(())
    }

    /// The thread is busy for so long, and then at its next event.
    fn go_on(&mut self, host: usize, nanoseconds: u64) {
        let simulated = &mut self.hosts[host];
        simulated.next += 1;
        simulated.shares.compute_ns += nanoseconds;
        self.schedule(self.now_ns + nanoseconds, host, What::Run);
    }

    fn wait(&mut self, host: usize) {
        self.hosts[host].waiting_since_ns = Some(self.now_ns);
    }

    /// Counts a wait. After one in a fault the event is still to come: it is tried again.
    fn end_wait(&mut self, host: usize, since_ns: u64) {
        let waited_ns = self.now_ns - since_ns;
        let simulated = &mut self.hosts[host];
        let shares = &mut simulated.shares;
        match self.trace.hosts[host][simulated.next] {
            Event::Read(_) => shares.read_ns += waited_ns,
            Event::Write(_) => shares.write_ns += waited_ns,
            Event::Lock(_) => shares.lock_ns += waited_ns,
            _ => shares.barrier_ns += waited_ns,
        }
        match self.trace.hosts[host][simulated.next] {
            Event::Read(_) | Event::Write(_) => simulated.resumes = true,
            _ => simulated.next += 1,
        }
    }

    /// A fault, where the host may not do so much; nothing at all where another event has already seen to it.
    fn touch(&mut self, host: usize, minipage: Minipage, access: Access) {
        let simulated = &mut self.hosts[host];
        if std::mem::take(&mut simulated.resumes) {
            self.schedule(self.now_ns, host, What::Arrive(Work::Resumed { minipage }));
        }
        if self.hosts[host].machine.access(minipage) >= access {
            return self.go_on(host, 0);
        }
        self.wait(host);
        let at_ns = self.now_ns + self.costs.trap_ns;
        self.schedule(at_ns, host, What::Arrive(Work::Fault { minipage, access }));
    }

    /// The thread itself has the machine act, and waits until it is woken or goes on.
    fn call<R>(&mut self, host: usize, waits: bool, act: impl FnOnce(&mut Host, &mut Wanted) -> R) -> R {
        let mut wanted = Wanted::default();
        let result = act(&mut self.hosts[host].machine, &mut wanted);
        let wakes = wanted.wakes;
        let done_ns = self.carry_out(host, wanted, self.costs.call_ns);
        if !waits {
            self.go_on(host, done_ns - self.now_ns);
            return result;
        }
        self.wait(host);
        if wakes {
            // It never slept.
            self.schedule(done_ns, host, What::Run);
        }
        result
    }

    fn arrive(&mut self, host: usize, work: Work) {
        let simulated = &mut self.hosts[host];
        simulated.inbox.push_back(work);
        if !std::mem::replace(&mut simulated.is_serving, true) {
            self.serve(host);
        }
    }

    /// The progress thread takes the next, if there is one.
    fn serve(&mut self, host: usize) {
        let simulated = &mut self.hosts[host];
        let Some(work) = simulated.inbox.pop_front() else {
            simulated.is_serving = false;
            return;
        };
        let (machine, mut wanted) = (&mut simulated.machine, Wanted::default());
        match work {
            Work::Message { from, message } => machine.receive(from, message, &mut wanted),
            Work::Fault { minipage, access } => machine.fault(minipage, access, THREAD, &mut wanted),
            Work::Resumed { minipage } => machine.resumed(minipage, &mut wanted),
        }
        let wakes = wanted.wakes;
        let end_ns = self.carry_out(host, wanted, self.costs.receive_ns);
        if wakes {
            self.schedule(end_ns + self.costs.wake_ns, host, What::Run);
        }
        self.hosts[host].shares.service_ns += end_ns - self.now_ns;
        self.schedule(end_ns, host, What::Serve);
    }

    /// Protects and sends what the machine wants, after `begin_ns`, one thing after the other. When all is done.
    fn carry_out(&mut self, host: usize, wanted: Wanted, begin_ns: u64) -> u64 {
        let mut done_ns = self.now_ns + begin_ns + wanted.protections * self.costs.protect_ns;
        for (to, message) in wanted.sent {
            done_ns += self.costs.send_ns;
            let minipage_bytes = match message {
                Message::Contents { minipage, .. } => self.trace.minipages[minipage.index()].bytes.into(),
                _ => 0,
            };
            let bytes = size_bytes(message, minipage_bytes);
            self.messages += 1;
            self.bytes += bytes;
            let work = Work::Message { from: HostId(host as u16), message };
            self.schedule(done_ns + self.network.travel_ns(bytes), to.index(), What::Arrive(work));
        }
        done_ns
    }

    fn finish(self) -> Result<Projection, Error> {
        let stuck = self.hosts.iter().position(|host| host.ended_at_ns.is_none());
        if let Some(host) = stuck {
            return Err(Error::Stuck { host: host as u16, event: self.hosts[host].next });
        }
        let elapsed_ns = self.hosts.iter().filter_map(|host| host.ended_at_ns).max().unwrap_or(0);
        let mut counts = Counts::default();
        let mut shares = Vec::new();
        for mut host in self.hosts {
            counts += host.machine.take_counts();
            let ended_ns = elapsed_ns - host.ended_at_ns.unwrap_or(elapsed_ns);
            shares.push(Shares { ended_ns, ..host.shares });
        }
        Ok(Projection { elapsed_ns, shares, messages: self.messages, bytes: self.bytes, counts })
    }
}

/// Whether the trace describes what it names.
fn check(trace: &Trace) -> Result<(), Error> {
    let homeless =
        trace.minipages.iter().position(|minipage| usize::from(minipage.home) >= trace.hosts.len());
    let named = trace.hosts.iter().flatten().filter_map(|event| event.minipage());
    let unknown = named.filter(|minipage| *minipage as usize >= trace.minipages.len()).max();
    match homeless.map(|minipage| minipage as u32).or(unknown) {
        Some(minipage) => Err(Error::Minipage { minipage }),
        None => Ok(()),
    }
}
