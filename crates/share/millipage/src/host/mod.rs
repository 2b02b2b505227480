//! A host: the interface that a program calls.

mod alone;
mod between;
mod calls;
mod in_process;
mod locks;
mod names;
mod options;
mod pieces;
mod progress;
mod state;
mod together;
mod watch;

use std::{
    ops::Range,
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
    time::Duration,
};

use bytemuck::Pod;
use forebay_coherence::trace::Trace;
use forebay_coherence::{Barrier, Counts, Foresight, HostId};
use forebay_vm::{
    Object, Views,
    fault::{Served, serve},
};

pub use in_process::{in_process, in_process_machines, in_process_together};
pub use options::{BYTES_MIN, Granularity, Options};
pub use state::Shared;
pub use watch::Vitals;

use crate::{
    Error, Placement,
    desk::Common,
    join::Meeting,
    machines::Machines,
    memory::Memory,
    recorder::Recorder,
    scheduling::{set_batch, without_signals},
    shared::{Row, Rows, Value},
    team::Team,
    transport::{Transport, liveness::FAILED},
    usage::Usage,
};
use between::Between;
pub use state::digest;

/// How long a thread looks for messages before it sleeps.
const SPIN: Duration = Duration::from_micros(30);
/// Exit status of a process that ends because a host is lost.
pub const EXIT_LOST: i32 = forebay_launch::job::EXIT_LOST as i32;
/// What a recorded meeting of collective calls is called; barriers of programs have the other numbers.
pub const COLLECTIVE: Barrier = Barrier(u32::MAX);

/// One host of several that share memory. They leave together ([`Host::leave`]), which dropping it does too. To touch shared
/// memory after having left is SIGBUS where there are several machines and this one has no copy.
///
/// Hosts within one process ([`in_process`]) do not wait for each other: they leave behind a barrier.
pub struct Host {
    shared: &'static Shared,
    job: u64,
    threads: Vec<JoinHandle<()>>,
    /// None within a process of several.
    meeting: Option<Meeting>,
    /// None where no access can fault.
    _served: Option<Served>,
    pub(crate) everyone: OnceLock<Team>,
}

/// What a host begins with.
pub struct Start {
    pub me: HostId,
    /// Tells the job from others.
    pub job: u64,
    pub machines: Arc<Machines>,
    pub granularity: Granularity,
    pub views: Views,
    /// What the views show, where other processes may map it too.
    pub object: Option<Object>,
    /// What it shares with the hosts of its machine.
    pub common: Common,
    /// The way to the other machines, where it serves its own.
    pub transport: Option<Box<dyn Transport>>,
    pub vitals: Vitals,
    /// Hosts that have the same processors, and memories there.
    pub here: usize,
    pub memories: usize,
    pub foresight: Foresight,
    /// Where it met the others; none within a process of several.
    pub meeting: Option<Meeting>,
}

impl Host {
    pub(crate) fn begin(start: Start) -> Result<Self, Error> {
        let Start {
            me,
            job,
            machines,
            granularity,
            views,
            object,
            common,
            transport,
            vitals,
            here,
            memories,
            foresight,
            meeting,
        } = start;
        let Common { board, heap, desk } = common;
        let hosts = machines.hosts_at_all();
        let alone = heap.extent().alone_numbers();
        let between = desk.map(|desk| Between::new(me, machines, desk, transport, here, alone, foresight));
        let memory = if between.is_some() {
            Memory::of_one_of_several(views, heap, memories)?
        } else {
            views.keep_in_children()?;
            Memory::of_one_machine(views, heap, object)?
        };
        let shared = Shared::new(me, hosts, memory, board, between, granularity, meeting.is_some())?;
        let shared: &'static Shared = Box::leak(Box::new(shared));
        let between = shared.between();
        let served =
            between.map(|_| serve(shared.memory().area(), shared.memory().signal(), shared)).transpose()?;
        let has_neighbours = shared.board().hosts().len() > 1;
        // No host can lose a thread of its own process.
        let is_watched = has_neighbours && (meeting.is_some() || between.is_some());
        let mut threads = vec![];
        let mut start = |what, act: Box<dyn FnOnce() + Send>| {
            let builder = thread::Builder::new().name(format!("{what} {}", me.0));
            without_signals(|| builder.spawn(act)).map(|thread| threads.push(thread)).map_err(Error::Wait)
        };
        if between.is_some_and(|between| between.service.is_some()) {
            start("millipage", Box::new(|| shared.make_progress()))?;
        }
        if is_watched {
            start("watch", Box::new(|| shared.watch(vitals)))?;
        }
        if between.is_some() {
            shared.tell_wrappers();
            set_batch();
        }
        Ok(Self { shared, job, threads, meeting, _served: served, everyone: OnceLock::new() })
    }

    pub(crate) const fn shared(&self) -> &'static Shared {
        self.shared
    }

    /// Which host this is, from 0.
    #[must_use]
    pub const fn rank(&self) -> u16 {
        self.shared.me().0
    }

    /// What all hosts of the job know it by: a number that other jobs hardly have.
    #[must_use]
    pub const fn job(&self) -> u64 {
        self.job
    }

    /// How many hosts the job has.
    #[must_use]
    pub const fn hosts(&self) -> u16 {
        self.shared.hosts()
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
        self.rows_called(&call, rows, columns, chunk, placement)
    }

    /// The same for another call of a program, which all hosts have to make with the same words.
    ///
    /// # Errors
    /// As for [`Host::rows`].
    pub fn rows_called<T: Pod>(
        &self,
        call: &str,
        rows: usize,
        columns: usize,
        chunk: usize,
        placement: Placement,
    ) -> Result<Rows<T>, Error> {
        let bytes = columns.saturating_mul(size_of::<T>());
        // Nothing is allocated before all agree, so that their tables stay the same.
        self.shared.meet(COLLECTIVE, digest(&call), call)?;
        let allocated = self.shared.allocate(rows, bytes, chunk, placement);
        let why = if allocated.is_ok() { "" } else { ", for which it has no room" };
        // No host goes on before all know the minipages; all call this, whether there was room or not.
        let met = self.shared.meet(COLLECTIVE, digest(&(call, allocated.is_ok())), &format!("{call}{why}"));
        let array = self.shared.allocated_alike(allocated, met)?;
        self.shared.open(&array);
        Ok(Rows::new(self.shared, array, columns))
    }

    /// A value, zero at first, in a minipage of its own. All hosts call this.
    ///
    /// # Errors
    /// As for [`Host::rows`].
    pub fn value<T: Pod>(&self, placement: Placement) -> Result<Value<T>, Error> {
        Ok(Value::new(self.rows(1, 1, placement)?.row(0)))
    }

    /// Whether all hosts of the job map one memory, as hosts of one machine do: what processes of one machine can share is
    /// shared there, such as mutexes.
    #[must_use]
    pub const fn has_one_memory(&self) -> bool {
        self.shared.is_together()
    }

    /// Whether an address is one of shared memory.
    #[must_use]
    pub fn is_shared(&self, address: usize) -> bool {
        self.shared.memory().views().locate(address).is_some()
    }

    /// Bytes of a row, of part of one, or of several in one chunk, by the address of the first.
    ///
    /// # Errors
    /// There are none, or they are not all allocated there.
    pub fn bytes_at(&self, address: usize, bytes: usize) -> Result<Row<u8>, Error> {
        self.row_at(address, bytes)
    }

    /// The same of elements: a row, or part of one, by the address of its first element.
    ///
    /// # Errors
    /// As for [`Host::bytes_at`], or the address is none of such an element.
    pub fn row_at<T: Pod>(&self, address: usize, columns: usize) -> Result<Row<T>, Error> {
        let bytes = columns.saturating_mul(size_of::<T>());
        let is_there =
            address.is_multiple_of(align_of::<T>()) && self.shared.memory().is_allocated(address, bytes);
        is_there
            .then(|| Row::new(self.shared, address as *mut T, columns))
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

    /// Records, from now on, what this thread does, for a projection: up to `events_max` faults and calls, and what it computed
    /// between them. Called before anything is allocated, and once more, where that is to be left out, before anybody comes
    /// to what was. Nothing is [foretold](Foresight) from then on, so that all that the program needs is in the trace.
    pub fn record(&self, events_max: usize) {
        if let Some((_, service)) = self.shared.service() {
            service.engine().be_blind();
        }
        self.shared.recorder.get_or_init(|| Recorder::new(events_max)).begin();
    }

    /// What this thread, the only one at work on this host, has done since.
    ///
    /// # Errors
    /// It was not the only one, there was more than there was room for, or nothing was to be recorded.
    pub fn trace(&self) -> Result<Trace, Error> {
        let recorder = self.shared.recorder.get().ok_or_else(|| "call record() first".to_owned());
        let has_faults = |recorder| match self.shared.board().hosts().len() {
            1 => Ok(recorder),
            _ => Err("hosts with one memory do not fault; start them by forebay share --separate".into()),
        };
        let trace = recorder.and_then(has_faults).and_then(Recorder::trace);
        trace.map_err(|why| Error::NoTrace { host: self.rank(), why })
    }

    /// What this host did, and where its time went, since that was last asked for. Where several hosts share a machine, what its
    /// first host did is what the machine did.
    #[must_use]
    pub fn take_usage(&self) -> Usage {
        self.shared.take_usage()
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

    /// This host goes without the others, since its program has failed: their waits end with [`Error::Lost`], which names it.
    /// Dropping the host waits for none of them then.
    pub fn fail(&self) {
        self.shared.board().lose(self.shared.me(), FAILED);
        // Other machines are told.
        let _ = self.shared.lost();
    }

    fn leave_together(&mut self) -> Result<(), Error> {
        let Some(meeting) = self.meeting.take() else { return Ok(()) };
        self.shared.leave()?;
        meeting.leave(&self.shared.all_usage());
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
        self.shared.board().end();
        let service = self.shared.service();
        if let Some((between, _)) = service {
            between.desk.doorbell.ring();
        }
        for thread in self.threads.drain(..) {
            // It tells of its failures itself.
            let _ = thread.join();
        }
        if let Some((_, service)) = service {
            service.engine().close();
        }
        self.shared.close();
    }
}
