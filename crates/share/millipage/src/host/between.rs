//! What a host has to do with other machines: its threads fault, and are served, by themselves or by the first host of the
//! machine.

use std::{
    collections::BTreeSet,
    hint::spin_loop,
    ops::{Deref, DerefMut, Range},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use forebay_coherence::{Access, Foresight, HostId, Lock, Minipage, Waiter};
use forebay_vm::layout::Array;

use super::{SPIN, Shared, calls::Calls};
use crate::{
    Error, Placement,
    board::{CUT_OFF, sleep},
    desk::Desk,
    engine::{Ended, Engine, Machine, Wait},
    interrupt::is_interrupted,
    machines::Machines,
    requests::{Request, SLOTS},
    rights::Raised,
    scheduling::{Quiet, SignalsHeld},
    stack,
    transport::{Marks, Next, Transport},
};

/// How long a thread that waits for a lock goes on between two looks whether that is interrupted.
const LOOK: Duration = Duration::from_millis(100);
/// For how long a thread whose call has ended takes what was foretold, and how long it waits for more of that: longer than a fetch.
const TAKING: Duration = Duration::from_millis(1);
const COMING: Duration = Duration::from_micros(100);

/// A host's part in the coherence of its machine with others.
pub struct Between {
    pub machines: Arc<Machines>,
    pub desk: Desk,
    /// Where this host serves its machine.
    pub service: Option<Service>,
    /// Locks that threads of this host have.
    locks: Mutex<BTreeSet<u64>>,
}

/// What the host has that serves its machine.
pub struct Service {
    engine: Mutex<Engine>,
    /// Those of the transport.
    marks: Option<&'static [Marks]>,
    /// Threads that wait in calls, and look for messages meanwhile.
    pub polling: AtomicU32,
    /// Those that have gone to sleep there.
    pub asleep: AtomicU32,
    /// The progress thread sleeps, and leaves messages to those.
    pub is_relied_on: AtomicBool,
    pub calls: Calls,
    /// Hosts take turns on the processors: a thread that looks for messages keeps others from sending them.
    pub is_crowded: bool,
}

impl Service {
    /// The engine, for a thread of the program.
    pub fn engine(&self) -> InCall<'_> {
        let held = SignalsHeld::new();
        InCall { engine: self.engine_quietly(held.quiet()), _held: held }
    }

    /// Does something with the engine, unless another thread has it. In a handler of faults too.
    fn try_engine<R>(&self, _: Quiet<'_>, act: impl FnOnce(&mut Engine) -> R) -> Option<R> {
        self.engine.try_lock().ok().map(|mut engine| act(&mut engine))
    }

    /// The engine, for a thread that takes no signals of the program meanwhile.
    pub fn engine_quietly(&self, _: Quiet<'_>) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine, while signals of the program wait.
pub struct InCall<'a> {
    engine: MutexGuard<'a, Engine>,
    /// Dropped after the engine is given back.
    _held: SignalsHeld,
}

impl Deref for InCall<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for InCall<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Between {
    /// That of host `me`, whose machine it serves if it has the transport. Hosts add minipages of these numbers alone.
    pub fn new(
        me: HostId,
        machines: Arc<Machines>,
        desk: Desk,
        transport: Option<Box<dyn Transport>>,
        here: usize,
        alone: Range<u32>,
        foresight: Foresight,
    ) -> Self {
        let service = transport.map(|transport| Service {
            marks: transport.marks(),
            engine: Mutex::new(Engine::new(me, machines.clone(), transport, alone, foresight)),
            polling: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            is_relied_on: AtomicBool::new(false),
            calls: Calls::new(),
            is_crowded: here > processors(),
        });
        Self { machines, desk, service, locks: Mutex::default() }
    }

    pub fn machine<'a>(&'a self, shared: &'a Shared) -> Machine<'a> {
        Machine { memory: &shared.memory, board: &shared.board, desk: &self.desk }
    }

    /// Adds the minipages of an array, whose homes are spread over all `hosts`. Tells which host has each at first.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(
        &self,
        shared: &Shared,
        array: &Array,
        placement: Placement,
        mut tell: impl FnMut(HostId),
    ) -> Result<(), Error> {
        for index in 0..array.minipages {
            let home = home(placement, index, array.minipages, shared.hosts);
            tell(home);
            if let Some(service) = &self.service {
                let (minipage, manager) = (Minipage(array.first + index as u32), self.machines.of(home));
                let access = service.engine().add(minipage, manager, placement == Placement::Copies);
                self.desk.rights.allow(&shared.memory, &shared.board, minipage, access, || {})?;
            }
        }
        Ok(())
    }

    /// Waits until no message about an array's minipages is left that this machine manages, where this host serves it. All hosts
    /// free the array.
    pub fn free_together(&self, shared: &Shared, array: &Array) -> Ended {
        match &self.service {
            Some(_) => {
                self.call(shared, Request::FreeTogether(Minipage(array.first), array.minipages as u32))
            }
            None => Ended::Well,
        }
    }

    /// Forgets the minipages of an array that all hosts have freed, or that not all have.
    pub fn forget(&self, array: &Array) {
        self.desk.rights.forget(array.numbers(), self.service.is_some());
        self.service.iter().for_each(|service| service.engine().forget(array.numbers()));
    }

    /// Lets the pages of an array allow what the machine may do with them at first. When all hosts have added it.
    pub fn open(&self, shared: &Shared, array: &Array) {
        if self.service.is_some() {
            return;
        }
        for index in 0..array.minipages {
            let minipage = Minipage(array.first + index as u32);
            let place =
                shared.memory.place(minipage.0).filter(|_| self.desk.rights.access(minipage) > Access::None);
            // Where it fails, threads fault.
            place.into_iter().for_each(|place| {
                let address = shared.memory.views().address(place.view, place.offset);
                self.desk.rights.raise(&shared.memory, minipage, address, Access::Read);
            });
        }
    }

    /// Takes a lock for the machine; a thread of this host has it among the hosts of the machine.
    ///
    /// # Errors
    /// The call is interrupted.
    pub fn lock(&self, shared: &Shared, lock: u64) -> Result<Ended, Error> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).insert(lock);
        let (mut look, mut forgone) = (Instant::now() + LOOK, false);
        let mut meanwhile = |waiter| {
            if !forgone && Instant::now() >= look {
                look = Instant::now() + LOOK;
                forgone = is_interrupted();
                if forgone {
                    self.tell(shared, Request::Forgo(Lock(lock), waiter));
                }
            }
            false
        };
        let ended = self.call_while(shared, Request::Lock(Lock(lock)), &mut meanwhile);
        if !forgone {
            return Ok(ended);
        }
        if ended == Ended::Well {
            self.unlock(shared, lock);
        } else {
            self.locks.lock().unwrap_or_else(PoisonError::into_inner).remove(&lock);
        }
        Err(Error::Interrupted)
    }

    /// The same if no other machine has it. Whether it is taken.
    pub fn try_lock(&self, shared: &Shared, lock: u64) -> Ended {
        let ended = self.call(shared, Request::TryLock(Lock(lock)));
        if ended == Ended::Well {
            self.locks.lock().unwrap_or_else(PoisonError::into_inner).insert(lock);
        }
        ended
    }

    /// Gives it up.
    pub fn unlock(&self, shared: &Shared, lock: u64) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).remove(&lock);
        self.tell(shared, Request::Unlock(Lock(lock)));
    }

    /// The locks that threads of this host have.
    pub fn locks(&self) -> BTreeSet<u64> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for something, and waits for it.
    pub fn call(&self, shared: &Shared, request: Request) -> Ended {
        self.call_while(shared, request, &mut |_| false)
    }

    /// The same. While it waits it does something `meanwhile`, which is told the waiter, and whether that is in vain: then it ends as
    /// if a host was lost, and nothing may be called so later.
    pub fn call_while(
        &self,
        shared: &Shared,
        request: Request,
        meanwhile: &mut dyn FnMut(Waiter) -> bool,
    ) -> Ended {
        match &self.service {
            Some(service) => {
                // A thread that has the engine, or is relied on for messages, runs no handler of the program.
                let held = SignalsHeld::new();
                let (wait, awaits_foretold) = {
                    let mut engine = service.engine_quietly(held.quiet());
                    (engine.call(self.machine(shared), request), engine.awaits_foretold())
                };
                let ended = wait.ended().filter(|_| !awaits_foretold);
                ended.unwrap_or_else(|| self.wait(shared, service, &wait, meanwhile, held))
            }
            None => {
                let slots = &self.desk.slots[shared.board.place()];
                let waiter = |slot| Waiter((shared.board.place() * SLOTS + slot) as u64);
                let is_lost = |slot| shared.board.loss().is_some() || meanwhile(waiter(slot));
                slots.call(request, &self.desk.doorbell, is_lost)
            }
        }
    }

    /// Asks for something that no thread waits for.
    pub fn tell(&self, shared: &Shared, request: Request) {
        match &self.service {
            Some(service) => service.engine().tell(self.machine(shared), request),
            None => self.desk.slots[shared.board.place()].tell(request, &self.desk.doorbell),
        }
    }

    /// Waits for the end of a call, and does what there is to do meanwhile.
    fn wait(
        &self,
        shared: &Shared,
        service: &Service,
        wait: &Wait,
        meanwhile: &mut dyn FnMut(Waiter) -> bool,
        mut held: SignalsHeld,
    ) -> Ended {
        service.calls.note_begin();
        service.polling.fetch_add(1, SeqCst);
        let ended = self.wait_meanwhile(shared, service, wait, meanwhile, &mut held);
        self.take_foretold(shared, service, held.quiet());
        service.polling.fetch_sub(1, SeqCst);
        // From now on messages are up to the progress thread, unless it waits for the next call.
        service.calls.note_end();
        if service.is_relied_on.load(SeqCst) && !service.calls.are_awaited() {
            self.desk.doorbell.ring();
        }
        ended
    }

    fn wait_meanwhile(
        &self,
        shared: &Shared,
        service: &Service,
        wait: &Wait,
        meanwhile: &mut dyn FnMut(Waiter) -> bool,
        held: &mut SignalsHeld,
    ) -> Ended {
        let spin = if service.is_crowded { Duration::ZERO } else { SPIN };
        let mut spin_until = Instant::now() + spin;
        loop {
            if let Some(ended) = wait.ended() {
                return ended;
            }
            let progress = |engine: &mut Engine| engine.progress(self.machine(shared)).served > 0;
            let progressed = service.try_engine(held.quiet(), progress) == Some(true);
            if progressed {
                spin_until = Instant::now() + spin;
            } else if Instant::now() > spin_until {
                service.asleep.fetch_add(1, SeqCst);
                service.polling.fetch_sub(1, SeqCst);
                if service.is_relied_on.load(SeqCst) {
                    self.desk.doorbell.ring();
                }
                let is_over = held.released(|| {
                    wait.sleep();
                    // This may fault, which the progress thread serves.
                    meanwhile(wait.waiter())
                });
                service.asleep.fetch_sub(1, SeqCst);
                service.polling.fetch_add(1, SeqCst);
                if is_over {
                    return wait.ended().unwrap_or(Ended::Lost);
                }
            }
        }
    }

    /// Takes what was foretold, as long as it keeps coming and for some time at most. A thread that goes on at once faults for the
    /// first of it, and then shares its processor with the progress thread, which takes the rest.
    fn take_foretold(&self, shared: &Shared, service: &Service, quiet: Quiet<'_>) {
        if service.is_crowded {
            return;
        }
        let mut spin_until = Instant::now() + COMING;
        let end = Instant::now() + TAKING;
        loop {
            let served = service.try_engine(quiet, |engine| {
                engine.awaits_foretold().then(|| engine.progress(self.machine(shared)).served)
            });
            let now = Instant::now();
            match served {
                Some(None) => return,
                Some(Some(1..)) => spin_until = end.min(now + COMING),
                _ if now > spin_until => return,
                _ => spin_loop(),
            }
        }
    }

    /// Waits until this host may do so much with the minipage at an address; `false` if it never may. In a signal handler.
    pub fn fetch(&self, shared: &Shared, minipage: Minipage, address: usize, access: Access) -> bool {
        let Desk { rights, slots, doorbell } = &self.desk;
        let raise = || rights.raise(&shared.memory, minipage, address, access);
        loop {
            // The machine may already, where another host of it or another thread has asked, or the kernel took pages away.
            let mut raised = if rights.access(minipage) >= access { raise() } else { Raised::TooMuch };
            if raised == Raised::TooMuch {
                let resume = || raised = if self.service.is_some() { Raised::Yes } else { raise() };
                let request = Request::Fault(minipage, access);
                let serve = |slot, is_served: &dyn Fn() -> bool| {
                    self.serve_own(shared, minipage, access, slot, is_served)
                };
                if !slots[shared.board.place()].fault(request, doorbell, serve, resume) {
                    return false;
                }
            }
            match raised {
                Raised::Yes => return true,
                Raised::TooMuch => {}
                Raised::Refused => {
                    // The thread cannot go on, so the process ends, which the progress or watching thread sees to.
                    shared.board.lose(shared.me, CUT_OFF);
                    if !shared.is_process {
                        return false;
                    }
                    loop {
                        sleep(&AtomicU32::new(0), 0);
                    }
                }
            }
        }
    }

    /// Serves the calling thread's own fault until that is served or takes a while, if no other thread is at work. Whether it has
    /// begun to: the rest is the progress thread's. In a signal handler.
    fn serve_own(
        &self,
        shared: &Shared,
        minipage: Minipage,
        access: Access,
        slot: usize,
        is_served: &dyn Fn() -> bool,
    ) -> bool {
        let Some(service) = self.service.as_ref().filter(|_| stack::has_room()) else { return false };
        let (machine, quiet) = (self.machine(shared), Quiet::by_nature());
        let begin = |engine: &mut Engine| engine.begin_fault(machine, minipage, access, slot);
        if service.try_engine(quiet, begin) != Some(true) {
            return false;
        }
        let mut spin_until = Instant::now() + SPIN;
        let has_arrived = || service.marks.is_none_or(|marks| marks.iter().any(Marks::are_set));
        while !is_served() && Instant::now() < spin_until {
            // Without the engine: it would not be free while this thread waits for a processor.
            if !has_arrived() {
                spin_loop();
                continue;
            }
            match service.try_engine(quiet, |engine| engine.progress_in_fault(machine)) {
                Some(Next::Taken) => spin_until = Instant::now() + SPIN,
                Some(Next::Other) => break,
                Some(Next::Nothing) | None => spin_loop(),
            }
        }
        // The progress thread is rung for what arrives from now on, and now for what is here.
        if service.try_engine(quiet, |engine| engine.transport().may_sleep()) != Some(true) {
            self.desk.doorbell.ring();
        }
        true
    }
}

/// Processors of the machine: each host may be bound to one of its own.
fn processors() -> usize {
    // SAFETY: a constant is asked for.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// The home of one of `count` minipages.
fn home(placement: Placement, index: usize, count: usize, hosts: u16) -> HostId {
    let hosts_at_all = usize::from(hosts);
    HostId(match placement {
        Placement::Blocks => (index * hosts_at_all / count) as u16,
        Placement::Cyclic | Placement::Copies => (index % hosts_at_all) as u16,
        Placement::On(host) => host.min(hosts - 1),
    })
}
