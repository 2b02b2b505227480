//! What all threads of a host know.

use std::{
    cell::RefCell,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use forebay_coherence::trace::Event;
use forebay_coherence::{Access, Barrier, Counts, HostId, Minipage};
use forebay_vm::{
    Origin,
    fault::{Fault, Serve},
    layout::Array,
};

use super::{
    Granularity,
    between::{Between, Service},
    locks::Recursive,
    names,
};
use crate::{
    Error,
    board::Board,
    engine::Ended,
    memory::Memory,
    recorder::Recorder,
    requests::Request,
    usage::{Activity, Clock, Traffic, Usage},
    vain::{ALL, Together},
};

/// What is told where it is not known which host called what.
const OTHERS: &str = "another host called something else, or with other arguments, or has left";

/// What all threads of a host know. Lives as long as the process: a signal handler may be looking at it.
pub struct Shared {
    pub(super) me: HostId,
    pub(super) hosts: u16,
    pub(super) memory: Memory,
    /// What this host shares with the others of its machine.
    pub(super) board: Board,
    pub(super) recursive: Recursive,
    /// Where there are other machines.
    between: Option<Between>,
    pub(super) granularity: Granularity,
    pub(super) clock: Clock,
    pub(super) leaving: AtomicBool,
    /// Whether the process ends with this host.
    pub(super) is_process: bool,
    origin: Origin,
    /// The program was told that a host is lost.
    pub(crate) told: AtomicBool,
    /// What was asked for already.
    usage_taken: Mutex<Usage>,
    /// Where that was asked for.
    pub(super) recorder: OnceLock<Recorder>,
    together: Together,
}

impl Serve for Shared {
    fn serve(&self, fault: Fault) -> bool {
        // In a child that was forked no thread could serve it.
        let between = self.between.as_ref().filter(|_| self.origin.is_here());
        // What was never allocated, or is free, is the program's mistake.
        let minipage = self.memory.minipage(fault.address);
        between.zip(minipage).is_some_and(|(between, number)| {
            if let Some(recorder) = self.recorder.get().filter(|_| self.memory.heap().place(number).is_some())
            {
                recorder.note_alone();
            }
            let (event, access) = if fault.is_write {
                (Event::Write(number), Access::Write)
            } else {
                (Event::Read(number), Access::Read)
            };
            self.recorded(event, || between.fetch(self, Minipage(number), fault.address, access))
        })
    }
}

impl Shared {
    pub(super) fn new(
        me: HostId,
        hosts: u16,
        memory: Memory,
        board: Board,
        between: Option<Between>,
        granularity: Granularity,
        is_process: bool,
    ) -> Result<Self, Error> {
        Ok(Self {
            me,
            hosts,
            memory,
            board,
            recursive: Recursive::default(),
            between,
            granularity,
            clock: Clock::new(),
            leaving: AtomicBool::new(false),
            is_process,
            origin: Origin::here()?,
            told: AtomicBool::new(false),
            usage_taken: Mutex::default(),
            recorder: OnceLock::new(),
            together: Together::default(),
        })
    }

    pub const fn me(&self) -> HostId {
        self.me
    }

    pub const fn hosts(&self) -> u16 {
        self.hosts
    }

    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) const fn board(&self) -> &Board {
        &self.board
    }

    pub(crate) const fn together(&self) -> &Together {
        &self.together
    }

    pub(super) const fn between(&self) -> Option<&Between> {
        self.between.as_ref()
    }

    /// What this host serves its machine with, if it does.
    pub(super) fn service(&self) -> Option<(&Between, &Service)> {
        let between = self.between()?;
        Some((between, between.service.as_ref()?))
    }

    /// Whether all hosts map one memory, so that there is nothing to fetch.
    pub const fn is_together(&self) -> bool {
        self.between.is_none()
    }

    /// Asks for a minipage before a thread accesses it.
    pub fn prefetch(&self, minipage: u32, access: Access) {
        let for_writing = access == Access::Write;
        let event = if for_writing { Event::PrefetchWrite(minipage) } else { Event::PrefetchRead(minipage) };
        self.recorded(event, || self.tell(Request::Prefetch(Minipage(minipage), access)));
    }

    /// Sends what a minipage holds to all machines.
    pub fn push(&self, minipage: u32) {
        self.recorded(Event::Push(minipage), || self.tell(Request::Push(Minipage(minipage))));
    }

    fn tell(&self, request: Request) {
        if let Some(between) = &self.between {
            between.tell(self, request);
        }
    }

    /// Does what a thread has come to. In a signal handler too.
    pub(super) fn recorded<R>(&self, event: Event, act: impl FnOnce() -> R) -> R {
        let act = || self.clock.time(Activity::of(event), act);
        let Some(recorder) = self.recorder.get() else { return act() };
        recorder.note(event);
        let result = act();
        recorder.go_on();
        result
    }

    /// All hosts have allocated an array.
    pub(super) fn open(&self, array: &Array) {
        if let Some(between) = &self.between {
            between.open(self, array);
        }
    }

    /// Waits at a barrier where all hosts should say the same.
    pub(crate) fn meet(&self, barrier: Barrier, word: u64, call: &str) -> Result<(), Error> {
        let word = names::word(digest(&(barrier.0, word)), call);
        let mut waiting = self.waiting(ALL, call)?;
        waiting.begin(self.together.next_barrier());
        // For the hosts of the machine, and then, in the last one, for the other machines.
        let waiting = RefCell::new(waiting);
        let is_in_vain = || waiting.borrow_mut().is_in_vain();
        let between = |word| match &self.between {
            Some(between) => between.call_while(self, Request::Arrive(word), &mut |_| is_in_vain()),
            None => Ended::Well,
        };
        self.recorded(Event::Barrier(barrier.0), || {
            let arrived = self.board.arrive(word, call, &is_in_vain, between);
            let (ended, other) = arrived.ok_or(Error::BarrierTaken(barrier.0))?;
            if ended == Ended::Lost
                && let Some(failure) = waiting.borrow_mut().failure()
            {
                return Err(failure);
            }
            self.together.note_passed();
            let elsewhere = || Some(names::called(self.board.differed()?, call));
            let other = other.map(|(host, call)| format!("host {} called {call}", host.0)).or_else(elsewhere);
            self.outcome(ended, call).map_err(|error| error.beside(other))
        })
    }

    /// Waits until all hosts leave.
    pub(super) fn leave(&self) -> Result<(), Error> {
        if let Some(between) = &self.between {
            for lock in between.locks() {
                between.unlock(self, lock);
                self.board.unlock(lock);
            }
        }
        self.say_leaving();
        let ended = self.board.leave(|| self.between.iter().for_each(|between| between.desk.doorbell.ring()));
        self.outcome(ended, "leave()")
    }

    pub(super) fn take_usage(&self) -> Usage {
        let figures = self.service().map(|(_, service)| service.engine().take_figures());
        let (counts, traffic): (Counts, Traffic) = figures.unwrap_or_default();
        let usage = Usage { counts, traffic, times: self.clock.take() };
        *self.usage_taken.lock().unwrap_or_else(PoisonError::into_inner) += usage;
        usage
    }

    /// What this host did since the beginning.
    pub(super) fn all_usage(&self) -> Usage {
        self.take_usage();
        *self.usage_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No request of this host is served any more.
    pub(super) fn close(&self) {
        if let Some(between) = &self.between {
            between.desk.slots[self.board.place()].close();
        }
    }

    pub(super) fn outcome(&self, ended: Ended, call: &str) -> Result<(), Error> {
        match ended {
            Ended::Well => Ok(()),
            Ended::Disagreed => Err(self.disagreement(call)),
            Ended::Lost => Err(self.lost()),
        }
    }

    pub(crate) fn disagreement(&self, call: &str) -> Error {
        let (host, hosts) = (self.me.0, self.hosts);
        Error::Disagreement { host, hosts, call: call.to_owned(), other: OTHERS.to_owned() }
    }

    pub(crate) fn lost(&self) -> Error {
        self.told.store(true, Relaxed);
        let failure = self.service().and_then(|(between, service)| {
            let mut engine = service.engine();
            // The other machines are told of a loss on this one before the process can end.
            engine.progress(between.machine(self));
            engine.failure().map(told_again)
        });
        match failure {
            Some(failure) => failure,
            None => self
                .board
                .loss()
                .map_or(Error::Left, |(host, reason)| Error::Lost { host: host.0, reason: reason.into() }),
        }
    }
}

/// A failure as a call tells it that was made later.
fn told_again(failure: &Error) -> Error {
    match failure {
        Error::Lost { host, reason } => Error::Lost { host: *host, reason: reason.clone() },
        _ => Error::Ended { failure: failure.to_string() },
    }
}

pub fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
