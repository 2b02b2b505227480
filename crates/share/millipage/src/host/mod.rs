//! A host: the interface that a program calls.

mod calls;
mod progress;
mod watch;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
    process,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{
            AtomicBool, AtomicU32,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use bytemuck::Pod;
use calls::Calls;
use forebay_coherence::trace::{Event, Trace};
use forebay_coherence::{Access, Barrier, Counts, HostId, Lock, Minipage};
use forebay_sigsafe::{general as n, sys};
use forebay_vm::{
    Allowed, Mapping, Mprotect, Object, PAGE_BYTES, Protection, Views,
    fault::{Fault, Serve, Served, serve},
    layout::{Array, Grain, Layout, Vpages},
    protection,
};

pub use watch::Vitals;

use crate::{
    Error, Placement,
    board::Board,
    doorbell::Doorbell,
    engine::{Ended, Engine, Memory, Wait},
    fault_slots::FaultSlots,
    join::Meeting,
    recorder::Recorder,
    scheduling::{set_batch, without_signals},
    shared::{Row, Rows, Value},
    transport::{Closed, Transport, local},
    usage::{Activity, Clock, Usage},
};

/// How long a thread looks for messages before it sleeps.
const SPIN: Duration = Duration::from_micros(30);
/// Exit status of a process that ends because a host is lost.
pub const EXIT_LOST: i32 = 70;
/// What a recorded meeting of collective calls is called; barriers of programs have the other numbers.
const COLLECTIVE: Barrier = Barrier(u32::MAX);
/// Where all hosts meet, whatever they call: so hosts that make calls of different kinds meet too, and learn it.
const MEETING: Barrier = Barrier(0);

/// How much is shared, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of the shared memory.
    pub bytes: usize,
    /// Minipages that can share a page.
    pub views: usize,
    /// Where it is mapped: at the same address on all hosts, if pointers into it are shared.
    pub at: Option<usize>,
    /// What is shared at a time.
    pub granularity: Granularity,
}

/// What is shared at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// What the program says: a row, or a chunk of rows.
    #[default]
    Fine,
    /// A page, whatever is on it, in one view: as without MultiView, to see what that is good for.
    Page,
}

impl Granularity {
    /// Views that are mapped where so many are wanted.
    pub(crate) fn views(self, wanted: usize) -> usize {
        match self {
            Self::Fine => wanted.max(1),
            Self::Page => 1,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { bytes: 64 << 20, views: 16, at: None, granularity: Granularity::Fine }
    }
}

/// One host of several that share memory. They leave together ([`Host::leave`]), which dropping it does too. To touch shared
/// memory after having left is SIGBUS where hosts have memories of their own and this one has no copy.
///
/// Hosts within one process ([`in_process`]) do not wait for each other: they leave behind a barrier.
pub struct Host {
    shared: &'static Shared,
    progress: Option<JoinHandle<()>>,
    /// None within a process of several.
    meeting: Option<Meeting>,
    /// None where no access can fault.
    _served: Option<Served>,
}

/// How a host is joined to the others.
pub enum Bond {
    /// All hosts are on one machine, and map one memory.
    Board(Board, Vitals),
    /// Each host has a memory of its own. Messages keep those equal.
    Transport(Box<dyn Transport>),
}

/// What a host begins with.
pub struct Start {
    pub me: HostId,
    pub hosts: u16,
    pub granularity: Granularity,
    pub views: Views,
    pub bond: Bond,
    pub doorbell: Arc<Doorbell>,
    /// Where it met the others; none within a process of several.
    pub meeting: Option<Meeting>,
}

/// What all threads of a host know. Lives as long as the process: a signal handler may be looking at it.
pub struct Shared {
    me: HostId,
    hosts: u16,
    memory: Memory,
    /// Where all hosts map one memory.
    board: Option<Board>,
    vpages: Arc<Vpages>,
    granularity: Granularity,
    fault_slots: FaultSlots,
    doorbell: Arc<Doorbell>,
    engine: Mutex<Engine>,
    clock: Clock,
    leaving: AtomicBool,
    /// Threads that wait in calls, and look for messages meanwhile.
    polling: AtomicU32,
    /// Those that have gone to sleep there.
    asleep: AtomicU32,
    /// The progress thread sleeps, and leaves messages to those.
    is_relied_on: AtomicBool,
    calls: Calls,
    /// Whether the process ends with this host.
    is_process: bool,
    /// Its id.
    process: isize,
    /// The program was told that a host is lost.
    told: AtomicBool,
    /// Where that was asked for.
    recorder: OnceLock<Recorder>,
}

/// Hosts in this process, with a network between them, for tests: pointers into their memories differ.
///
/// # Errors
/// There is not enough memory, or address space.
pub fn in_process(hosts: u16, options: Options) -> Result<Vec<Host>, Error> {
    let doorbells = (0..hosts).map(|_| Doorbell::new().map(Arc::new)).collect::<Result<Vec<_>, _>>();
    let doorbells = doorbells.map_err(|errno| Error::Wait(errno.into()))?;
    let ends = local(&doorbells).into_iter().zip(doorbells).enumerate();
    ends.map(|(host, (end, doorbell))| {
        let object = Object::new(options.bytes)?;
        let views = Views::map(&object, options.granularity.views(options.views), options.at)?;
        let me = HostId(host as u16);
        let (granularity, bond) = (options.granularity, Bond::Transport(Box::new(end)));
        Host::begin(Start { me, hosts, granularity, views, bond, doorbell, meeting: None })
    })
    .collect()
}

/// The same, but hosts as they are on one machine, with one memory.
///
/// # Errors
/// As for [`in_process`].
pub fn in_process_together(hosts: u16, options: Options) -> Result<Vec<Host>, Error> {
    let object = Object::new(options.bytes)?;
    let board = Mapping::new(&Object::sparse(Board::bytes(hosts))?)?;
    let host = |me| {
        let views = Views::map(&object, options.granularity.views(options.views), None)?;
        let doorbell = Doorbell::new().map_err(|errno| Error::Wait(errno.into()))?;
        let bond = Bond::Board(Board::new(board, me, hosts), Vitals::none());
        let (granularity, doorbell) = (options.granularity, Arc::new(doorbell));
        Host::begin(Start { me, hosts, granularity, views, bond, doorbell, meeting: None })
    };
    (0..hosts).map(HostId).map(host).collect()
}

impl Host {
    pub(crate) fn begin(start: Start) -> Result<Self, Error> {
        let Start { me, hosts, granularity, views, bond, doorbell, meeting } = start;
        let (board, vitals, transport) = match bond {
            Bond::Board(board, vitals) => (Some(board), Some(vitals), Box::new(Closed) as Box<dyn Transport>),
            Bond::Transport(transport) => (None, None, transport),
        };
        let protection: Box<dyn Protection> =
            if board.is_some() { Box::new(Mprotect::new(&views)?) } else { protection(&views)? };
        let layout = Layout::new(views.bytes() / PAGE_BYTES, views.count());
        let (area, signal) =
            (views.base()..views.base() + views.count() * views.bytes(), protection.signal());
        let vpages = layout.vpages();
        let engine = Engine::new(forebay_coherence::Host::new(me, hosts), layout, transport);
        let shared: &'static Shared = Box::leak(Box::new(Shared {
            me,
            hosts,
            memory: Memory { views, protection },
            board,
            vpages,
            granularity,
            fault_slots: FaultSlots::new(),
            doorbell,
            engine: Mutex::new(engine),
            clock: Clock::new(),
            leaving: AtomicBool::new(false),
            polling: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            is_relied_on: AtomicBool::new(false),
            calls: Calls::new(),
            is_process: meeting.is_some(),
            process: process::id() as isize,
            told: AtomicBool::new(false),
            recorder: OnceLock::new(),
        }));
        let builder = thread::Builder::new().name(format!("millipage {}", me.0));
        let (served, progress) = match vitals {
            // No host can lose a thread of its own process.
            Some(_) if hosts == 1 || meeting.is_none() => (None, None),
            Some(vitals) => (None, Some(without_signals(|| builder.spawn(move || shared.watch(vitals))))),
            None => {
                let served = serve(area, signal, shared)?;
                (Some(served), Some(without_signals(|| builder.spawn(move || shared.make_progress()))))
            }
        };
        if served.is_some() {
            set_batch();
        }
        let progress = progress.transpose().map_err(Error::Wait)?;
        Ok(Self { shared, progress, meeting, _served: served })
    }

    /// Which host this is, from 0.
    #[must_use]
    pub const fn rank(&self) -> u16 {
        self.shared.me.0
    }

    /// How many hosts the job has.
    #[must_use]
    pub const fn hosts(&self) -> u16 {
        self.shared.hosts
    }

    /// `rows` of `columns` elements each, all zero; each row a minipage of its own. All hosts call this, in the same order
    /// and with the same arguments, and go on when all have.
    ///
    /// # Errors
    /// There is no room, or another host called something else.
    pub fn rows<T: Pod>(&self, rows: usize, columns: usize, placement: Placement) -> Result<Rows<T>, Error> {
        self.rows_in_chunks(rows, columns, 1, placement)
    }

    /// The same, but `chunk` neighbouring rows share a minipage: for rows that are read and written together.
    ///
    /// # Errors
    /// As for [`Host::rows`].
    pub fn rows_in_chunks<T: Pod>(
        &self,
        rows: usize,
        columns: usize,
        chunk: usize,
        placement: Placement,
    ) -> Result<Rows<T>, Error> {
        let size = size_of::<T>();
        let call = format!("rows_in_chunks({rows}, {columns}, {chunk}, {placement:?}) of {size} bytes each");
        // Nothing is allocated before all agree, so that their tables stay the same.
        self.shared.meet(COLLECTIVE, digest(&call), &call)?;
        let allocated = self.shared.allocate(rows, columns.saturating_mul(size), chunk, placement);
        // No host goes on before all know the minipages; all call this, whether there was room or not.
        self.shared.meet(COLLECTIVE, digest(&(&call, allocated.is_ok())), &call)?;
        Ok(Rows::new(self.shared, allocated?, columns))
    }

    /// A value, zero at first, in a minipage of its own. All hosts call this.
    ///
    /// # Errors
    /// As for [`Host::rows`].
    pub fn value<T: Pod>(&self, placement: Placement) -> Result<Value<T>, Error> {
        Ok(Value::new(self.rows(1, 1, placement)?.row(0)))
    }

    /// Bytes of a row, of part of one, or of several in one chunk, by the address of the first.
    ///
    /// # Errors
    /// There are none, or they are not all allocated there.
    pub fn bytes_at(&self, address: usize, bytes: usize) -> Result<Row<u8>, Error> {
        self.shared
            .is_allocated(address, bytes)
            .then(|| Row::new(self.shared, address as *mut u8, bytes))
            .ok_or(Error::Foreign { address, bytes })
    }

    /// This host's share of `count` things, next to each other: the rows that begin here where so many are placed in
    /// [`Placement::Blocks`].
    #[must_use]
    pub fn block(&self, count: usize) -> Range<usize> {
        self.block_of(self.rank(), count)
    }

    /// Another host's such share.
    #[must_use]
    pub fn block_of(&self, host: u16, count: usize) -> Range<usize> {
        let (host, hosts) = (usize::from(host), usize::from(self.hosts()));
        (host * count).div_ceil(hosts)..((host + 1) * count).div_ceil(hosts)
    }

    /// Waits until all hosts have come here.
    ///
    /// # Errors
    /// Another thread of this host waits here, or a host is lost.
    pub fn barrier(&self) -> Result<(), Error> {
        self.shared.meet(Barrier(0), 0, "barrier()")
    }

    /// Waits until no other thread of any host has the lock, and takes it.
    ///
    /// # Errors
    /// A host is lost.
    pub fn lock(&self, lock: u32) -> Result<(), Error> {
        let shared = self.shared;
        shared.recorded(Event::Lock(lock), || {
            if let Some(board) = &shared.board {
                return shared.outcome(board.lock(lock)?, "lock()");
            }
            let wait = {
                let mut engine = shared.engine();
                let (waiter, wait) = engine.begin_call();
                engine.act(&shared.memory, &shared.fault_slots, |machine, acts| {
                    machine.lock(Lock(lock), waiter, acts)
                });
                wait
            };
            shared.wait(&wait, "lock()")
        })
    }

    /// Gives a lock up.
    ///
    /// # Errors
    /// No thread of this host has it.
    pub fn unlock(&self, lock: u32) -> Result<(), Error> {
        let shared = self.shared;
        let had = shared.recorded(Event::Unlock(lock), || {
            if let Some(board) = &shared.board {
                return board.unlock(lock);
            }
            shared
                .engine()
                .act(&shared.memory, &shared.fault_slots, |machine, acts| machine.unlock(Lock(lock), acts))
        });
        if had { Ok(()) } else { Err(Error::NotLocked(lock)) }
    }

    /// Records, from now on, what this thread does, for a projection: up to `events_max` faults and calls, and what it computed
    /// between them. Called before anything is allocated, and once more, where that is to be left out, before anybody comes
    /// to what was.
    pub fn record(&self, events_max: usize) {
        self.shared.recorder.get_or_init(|| Recorder::new(events_max)).begin();
    }

    /// What this thread, the only one at work on this host, has done since.
    ///
    /// # Errors
    /// It was not the only one, there was more than there was room for, or nothing was to be recorded.
    pub fn trace(&self) -> Result<Trace, Error> {
        let recorder = self.shared.recorder.get().ok_or_else(|| "call record() first".to_owned());
        let has_faults = |recorder| match self.shared.board {
            Some(_) => {
                Err("hosts with one memory do not fault; start them by forebay share --separate".into())
            }
            None => Ok(recorder),
        };
        let trace = recorder.and_then(has_faults).and_then(Recorder::trace);
        trace.map_err(|why| Error::NoTrace { host: self.rank(), why })
    }

    /// What this host did, and where its time went, since that was last asked for.
    #[must_use]
    pub fn take_usage(&self) -> Usage {
        self.shared.engine().take_usage(&self.shared.clock)
    }

    /// [`Host::take_usage`], without traffic and times.
    #[must_use]
    pub fn take_counts(&self) -> Counts {
        self.take_usage().counts
    }

    /// Waits until all hosts leave, and serves them meanwhile. What locks this host has it gives up. A host that waits for it
    /// at a barrier gets [`Error::Disagreement`].
    ///
    /// # Errors
    /// A host is lost.
    pub fn leave(mut self) -> Result<(), Error> {
        self.leave_together()
    }

    fn leave_together(&mut self) -> Result<(), Error> {
        let Some(meeting) = self.meeting.take() else { return Ok(()) };
        let shared = self.shared;
        if let Some(board) = &shared.board {
            shared.outcome(board.leave(), "leave()")?;
            meeting.leave(&shared.engine().all_usage(&shared.clock));
            return Ok(());
        }
        let wait = {
            let mut engine = shared.engine();
            let (waiter, wait) = engine.begin_call();
            // Who goes because of a loss does not say so: at a barrier, others would take it for one that disagrees.
            if engine.failure().is_none() {
                engine.act(&shared.memory, &shared.fault_slots, |machine, acts| machine.leave(waiter, acts));
            }
            wait
        };
        shared.wait(&wait, "leave()")?;
        meeting.leave(&shared.engine().all_usage(&shared.clock));
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A thread that panics does not wait for the others, which would wait for it: they lose this host.
        if !thread::panicking() {
            // Who wants to know calls `leave`.
            let _ = self.leave_together();
        }
        self.shared.leaving.store(true, Relaxed);
        self.shared.doorbell.ring();
        if let Some(progress) = self.progress.take() {
            // It tells of its failures itself.
            let _ = progress.join();
        }
        self.shared.engine().close();
        self.shared.fault_slots.close();
    }
}

impl Serve for Shared {
    fn serve(&self, fault: Fault) -> bool {
        // In a child that was forked no thread could serve it.
        // SAFETY: no arguments.
        if unsafe { sys!(n::__NR_getpid) } != self.process {
            return false;
        }
        // What was never allocated, or is free, is the program's mistake.
        self.minipage(fault.address).is_some_and(|minipage| {
            let event = if fault.is_write { Event::Write(minipage) } else { Event::Read(minipage) };
            self.recorded(event, || self.fault_slots.post(minipage, fault.is_write, &self.doorbell))
        })
    }
}

impl Shared {
    pub fn views(&self) -> &Views {
        &self.memory.views
    }

    /// The minipage that is used at an address.
    pub fn minipage(&self, address: usize) -> Option<u32> {
        let (view, offset) = self.memory.views.locate(address)?;
        self.vpages.at(view, offset)
    }

    /// Whether all these bytes are in minipages that are used in the view that the address is in.
    fn is_allocated(&self, address: usize, bytes: usize) -> bool {
        let Some((view, mut offset)) = self.views().locate(address) else { return false };
        let Some(end) = offset.checked_add(bytes) else { return false };
        let engine = self.engine();
        let place = |offset| engine.layout.place(self.vpages.at(view, offset)?);
        while offset < end {
            match place(offset).map(|place| place.offset..place.offset + place.bytes) {
                Some(range) if range.contains(&offset) => offset = range.end,
                _ => return false,
            }
        }
        bytes > 0
    }

    /// Whether all hosts map one memory, so that there is nothing to fetch.
    pub const fn is_together(&self) -> bool {
        self.board.is_some()
    }

    /// Asks for a minipage before a thread accesses it.
    pub fn prefetch(&self, minipage: u32, access: Access) {
        let for_writing = access == Access::Write;
        let event = if for_writing { Event::PrefetchWrite(minipage) } else { Event::PrefetchRead(minipage) };
        self.recorded(event, || {
            self.engine().act(&self.memory, &self.fault_slots, |machine, acts| {
                machine.prefetch(Minipage(minipage), access, acts);
            });
        });
    }

    /// Sends what a minipage holds to all hosts.
    pub fn push(&self, minipage: u32) {
        self.recorded(Event::Push(minipage), || {
            self.engine()
                .act(&self.memory, &self.fault_slots, |machine, acts| machine.push(Minipage(minipage), acts));
        });
    }

    /// Does what a thread has come to. In a signal handler too.
    fn recorded<R>(&self, event: Event, act: impl FnOnce() -> R) -> R {
        let act = || self.clock.time(Activity::of(event), act);
        let Some(recorder) = self.recorder.get() else { return act() };
        recorder.note(event);
        let result = act();
        recorder.go_on();
        result
    }

    fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate(
        &self,
        count: usize,
        bytes: usize,
        chunk: usize,
        placement: Placement,
    ) -> Result<Array, Error> {
        let mut engine = self.engine();
        let grain = match self.granularity {
            Granularity::Fine => Grain::Parts(chunk),
            Granularity::Page => Grain::Page,
        };
        let array = engine.layout.allocate_array(count, bytes, grain)?;
        if self.board.is_some() {
            self.open(&array)?;
            return Ok(array);
        }
        for index in 0..array.minipages {
            let home = home(placement, index, array.minipages, self.hosts);
            let minipage = match placement {
                Placement::Copies => engine.machine.add_shared(home),
                _ => engine.machine.add_owned(home),
            };
            debug_assert_eq!(minipage.index(), array.first as usize + index);
            if let Some(place) = engine.layout.place(minipage.0) {
                self.memory.allow(&place, engine.machine.access(minipage))?;
            }
            if let Some(recorder) = self.recorder.get() {
                let copies = placement == Placement::Copies;
                let bytes = array.minipage_bytes as u32;
                recorder.add(forebay_coherence::trace::Shared { bytes, home: home.0, copies });
            }
        }
        Ok(array)
    }

    /// Lets this host's threads use all of an array.
    fn open(&self, array: &Array) -> Result<(), Error> {
        let Memory { views, protection } = &self.memory;
        for (view, pages) in array.areas() {
            let address = views.address(view, pages.start * PAGE_BYTES);
            protection.set(address, pages.len() * PAGE_BYTES, Allowed::Writing).map_err(|source| {
                let (count, bytes) = (views.count(), views.bytes());
                forebay_vm::Error::Views { views: count, bytes, at: Some(address), source }
            })?;
        }
        Ok(())
    }

    /// Waits at a barrier where all hosts should say the same.
    fn meet(&self, barrier: Barrier, word: u64, call: &str) -> Result<(), Error> {
        self.recorded(Event::Barrier(barrier.0), || self.arrive(barrier, word, call))
    }

    fn arrive(&self, barrier: Barrier, word: u64, call: &str) -> Result<(), Error> {
        let word = digest(&(barrier.0, word));
        if let Some(board) = &self.board {
            let ended = board.arrive(word).ok_or(Error::BarrierTaken(barrier.0))?;
            return self.outcome(ended, call);
        }
        let wait = {
            let mut engine = self.engine();
            let (waiter, wait) = engine.begin_call();
            let arrived = engine.act(&self.memory, &self.fault_slots, |machine, acts| {
                machine.arrive(MEETING, word, waiter, acts)
            });
            if !arrived {
                engine.end_call(waiter);
                return Err(Error::BarrierTaken(barrier.0));
            }
            wait
        };
        self.wait(&wait, call)
    }

    /// Waits for the end of a call, and does what there is to do meanwhile.
    fn wait(&self, wait: &Wait, call: &str) -> Result<(), Error> {
        let ended = wait.ended().unwrap_or_else(|| {
            self.calls.note_begin();
            self.polling.fetch_add(1, SeqCst);
            let ended = self.wait_meanwhile(wait);
            self.polling.fetch_sub(1, SeqCst);
            self.hand_over();
            ended
        });
        self.outcome(ended, call)
    }

    fn outcome(&self, ended: Ended, call: &str) -> Result<(), Error> {
        match ended {
            Ended::Well => Ok(()),
            Ended::Disagreed => {
                let (host, hosts) = (self.me.0, self.hosts);
                Err(Error::Disagreement { host, hosts, call: call.to_owned() })
            }
            Ended::Lost => Err(self.lost()),
        }
    }

    fn wait_meanwhile(&self, wait: &Wait) -> Ended {
        let mut spin_until = Instant::now() + SPIN;
        loop {
            if let Some(ended) = wait.ended() {
                return ended;
            }
            let progressed = match self.engine.try_lock() {
                Ok(mut engine) => engine.progress(&self.memory, &self.fault_slots).served > 0,
                Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => false,
            };
            if progressed {
                spin_until = Instant::now() + SPIN;
            } else if Instant::now() > spin_until {
                self.polling.fetch_sub(1, SeqCst);
                if self.is_relied_on.load(SeqCst) {
                    self.doorbell.ring();
                }
                self.asleep.fetch_add(1, SeqCst);
                wait.sleep();
                self.asleep.fetch_sub(1, SeqCst);
                self.polling.fetch_add(1, SeqCst);
            }
        }
    }

    /// After a call, messages are up to the progress thread, unless it waits for the next call.
    fn hand_over(&self) {
        self.calls.note_end();
        if self.is_relied_on.load(SeqCst) && !self.calls.are_awaited() {
            self.doorbell.ring();
        }
    }

    fn lost(&self) -> Error {
        self.told.store(true, Relaxed);
        if let Some((host, reason)) = self.board.as_ref().and_then(Board::loss) {
            return Error::Lost { host: host.0, reason: reason.into() };
        }
        match self.engine().failure() {
            Some(Error::Lost { host, reason }) => Error::Lost { host: *host, reason: reason.clone() },
            Some(failure) => Error::Ended { failure: failure.to_string() },
            None => Error::Left,
        }
    }
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

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
