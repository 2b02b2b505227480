//! The threads that read: some open files, the others fill the most urgent buffer first.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use forebay_rtsp::server::QuestionId;
use forebay_streaming::buffer::Buffer;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, ReadWriteFlags};

use crate::cameras::Guess;
use crate::catalog::{Catalog, Failure, Opened};
use crate::clock;
use crate::error::{Result, to};
use crate::http::lookups::{self, Looked, Lookup, LookupQueue};
use crate::openers::{self, Answered, Openers, Opening};
use crate::queue::Queue;
use crate::sessions::Key;

/// How long a filled buffer may wait to be handed over with others.
const HELD_NS_MAX: u64 = 200_000;

/// For whom a buffer is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Session(Key),
    /// A segment that is sent over HTTP, by its number.
    Download(u64),
}

/// A buffer to fill, and after that a buffer that was filled.
pub(crate) struct Filling {
    pub destination: Destination,
    pub buffer: Buffer,
    pub opened: Arc<Opened>,
    pub deadline_ns: u64,
    /// What it took, or why it could not be done, as a sentence.
    pub result: Result<Reading, String>,
}

/// What has been done.
pub(crate) enum Done {
    Opened(QuestionId, Result<Arc<Opened>, Failure>),
    Filled(Box<Filling>),
    Lookup(Looked),
    /// A client of ONVIF had a wrong password.
    Guessed(Guess),
}

/// Where other threads leave what they have done.
#[derive(Clone)]
pub(crate) struct Mailbox(Weak<Shared>);

impl Mailbox {
    /// Wakes the event loop, if there still is one.
    pub fn post(&self, done: Done) {
        if let Some(shared) = self.0.upgrade() {
            shared.finish(&mut vec![done]);
        }
    }
}

/// What reading took of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub reads: u64,
    pub bytes: u64,
    /// Without reads that found all in memory, however long the thread was kept from its processor.
    pub elapsed_ns: u64,
}

/// The threads.
pub(crate) struct Readers {
    shared: Arc<Shared>,
}

struct Shared {
    openers: Openers,
    lookups: LookupQueue,
    fillings: Queue<Urgent>,
    done: Mutex<Vec<Done>>,
    bell: OwnedFd,
    catalog: Arc<Catalog>,
}

/// The one that is wanted first is the greatest.
struct Urgent(Box<Filling>);

impl Readers {
    pub fn start(catalog: Arc<Catalog>, count: usize) -> Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(to("eventfd"))?;
        let count = count.max(1);
        let shared = Arc::new(Shared {
            openers: Openers::default(),
            lookups: LookupQueue::default(),
            fillings: Queue::new(count),
            done: Mutex::default(),
            bell,
            catalog,
        });
        let start = |name: &str, work: fn(&Shared)| {
            let shared = shared.clone();
            let thread = thread::Builder::new().name(name.to_owned());
            thread.spawn(move || work(&shared)).map_err(to("a thread cannot be started"))
        };
        for _ in 0..openers::QUICK {
            start("opener", |shared| {
                shared.openers.open_quick(&shared.catalog, |all| shared.finish_opened(all))
            })?;
        }
        for _ in 0..openers::LONG {
            start("indexer", |shared| {
                shared.openers.open_long(&shared.catalog, |all| shared.finish_opened(all))
            })?;
        }
        for _ in 0..lookups::THREADS {
            start("lookup", |shared| {
                shared.lookups.run(
                    |lookup| lookups::look(&shared.catalog, lookup),
                    |done| shared.finish(&mut vec![Done::Lookup(done)]),
                )
            })?;
        }
        for _ in 0..count {
            start("reader", |shared| Reader::new(shared).fill_all())?;
        }
        Ok(Self { shared })
    }

    /// For threads that are not of these.
    pub fn mailbox(&self) -> Mailbox {
        Mailbox(Arc::downgrade(&self.shared))
    }

    /// The files that can be opened.
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// `false` if there is too much to do already.
    pub fn open(&self, opening: Opening) -> bool {
        self.shared.openers.open(opening)
    }

    /// Has another thread look something up.
    pub fn look_up(&self, lookup: Lookup) {
        self.shared.lookups.push(lookup);
    }

    /// Queues all of them to be filled. A thread is woken once for many.
    pub fn fill(&self, fillings: &mut Vec<Filling>) {
        if !fillings.is_empty() {
            self.shared.fillings.push(fillings.drain(..).map(|filling| Urgent(Box::new(filling))));
        }
    }

    /// Readable when something is done.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Moves all that is done to the end of `done`.
    pub fn take_done(&self, done: &mut Vec<Done>) {
        // A thread that rings after this is not missed: what is done is taken after this, too.
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        done.append(&mut lock(&self.shared.done));
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.openers.end();
        self.shared.lookups.end();
        self.shared.fillings.end();
    }
}

impl Shared {
    fn finish_opened(&self, all: Vec<Answered>) {
        self.finish(&mut all.into_iter().map(|(question, result)| Done::Opened(question, result)).collect());
    }

    fn finish(&self, done: &mut Vec<Done>) {
        if done.is_empty() {
            return;
        }
        let mut all = lock(&self.done);
        let is_first = all.is_empty();
        all.append(done);
        drop(all);
        if is_first {
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One thread that fills buffers.
struct Reader<'a> {
    shared: &'a Shared,
    /// Where bytes go that are not needed.
    gaps: Vec<u8>,
    /// What it has filled and not handed over yet, and since when.
    held: Vec<Done>,
    held_ns: u64,
}

impl<'a> Reader<'a> {
    fn new(shared: &'a Shared) -> Self {
        Reader { shared, gaps: Vec::new(), held: Vec::new(), held_ns: 0 }
    }

    fn fill_all(&mut self) {
        while let Some(Urgent(mut filling)) = self.next() {
            filling.result = self.fill(&mut filling.buffer, &filling.opened);
            self.held.push(Done::Filled(filling));
            let now_ns = clock::now_ns();
            if self.held.len() == 1 {
                self.held_ns = now_ns;
            }
            if now_ns - self.held_ns > HELD_NS_MAX {
                self.hand_over();
            }
        }
    }

    fn next(&mut self) -> Option<Urgent> {
        self.shared.fillings.try_next().or_else(|| {
            self.hand_over();
            self.shared.fillings.next()
        })
    }

    fn hand_over(&mut self) {
        self.shared.finish(&mut self.held);
    }

    /// Reads what a buffer wants. The error is a sentence.
    fn fill(&mut self, buffer: &mut Buffer, opened: &Opened) -> Result<Reading, String> {
        let mut reading = Reading::default();
        let mut checked = None;
        let mut gaps = std::mem::take(&mut self.gaps);
        let result = buffer.read(&mut gaps, |file, offset, targets| {
            let Some(indexed) = opened.files.get(file) else { return Ok(()) };
            let say = |why: String| format!("{}: {why}", indexed.name);
            let begun_ns = clock::now_ns();
            if checked != Some(file) {
                let is_spoilt = indexed.is_spoilt(begun_ns);
                if is_spoilt.map_err(|error| say(format!("it cannot be read: {error}")))? {
                    return Err(say(
                        "it was changed while it was served: clients have to ask for it again".to_owned()
                    ));
                }
                checked = Some(file);
            }
            let bytes = targets.iter().map(|target| target.len() as u64).sum::<u64>();
            let mut targets: Vec<_> = targets.into_iter().map(IoSliceMut::new).collect();
            let has_waited =
                self.read(&indexed.file, &mut targets, offset).map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => {
                        say(format!("it ends before byte {}: it was cut while it was served", offset + bytes))
                    }
                    _ => say(format!("it cannot be read: {error}")),
                })?;
            reading.reads += 1;
            reading.bytes += bytes;
            if has_waited {
                reading.elapsed_ns += clock::now_ns().saturating_sub(begun_ns);
            }
            Ok(())
        });
        self.gaps = gaps;
        result.map(|()| reading)
    }

    /// Others go on while it waits for a disk; returns whether it has.
    fn read(&mut self, file: &File, mut targets: &mut [IoSliceMut], offset: u64) -> io::Result<bool> {
        // A file system that cannot tell whether it would wait is taken to wait; so is what fails, which fails again then.
        let there = rustix::io::preadv2(file, targets, offset, ReadWriteFlags::NOWAIT).unwrap_or(0);
        IoSliceMut::advance_slices(&mut targets, there);
        if targets.is_empty() {
            return Ok(false);
        }
        self.hand_over();
        self.shared.fillings.away(|| read_all(file, targets, offset + there as u64))?;
        Ok(true)
    }
}

/// Reads until all is there.
fn read_all(file: &File, mut targets: &mut [IoSliceMut], mut offset: u64) -> io::Result<()> {
    while !targets.is_empty() {
        match rustix::io::preadv(file, targets, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                offset += bytes as u64;
                IoSliceMut::advance_slices(&mut targets, bytes);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl PartialEq for Urgent {
    fn eq(&self, other: &Self) -> bool {
        self.0.deadline_ns == other.0.deadline_ns
    }
}

impl Eq for Urgent {}

impl PartialOrd for Urgent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Urgent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.0.deadline_ns.cmp(&self.0.deadline_ns)
    }
}
