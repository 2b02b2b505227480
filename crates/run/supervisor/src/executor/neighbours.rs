//! Files that lie beside those that the program opens, handed out as jobs while the program waits for one after the other. Which
//! folders are worth that says `forebay_policy::neighbours`. The program's opens are read from the access log.

use std::{
    collections::{HashMap, VecDeque, hash_map},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::Ordering::{Acquire, Relaxed, SeqCst},
    },
};

use forebay_policy::{
    inflight::InflightLimit,
    neighbours::{Folder as Worth, Neighbours as Policy},
};
use forebay_protocol::{
    access_log::{AccessLog, TIME_SHIFT},
    layout::{GO, Header, LEASES_NONE, MEMORY_SHORT, SLOT_CLAIMED, replay},
};

use super::{Done, Job, Origin, Wanted, fetch::CHUNK_BYTES};
use crate::{
    channel::Channel,
    devices::Ticket,
    ffi,
    profiles::access::{Entry, LogReader},
};

/// Jobs for neighbours come after those for libraries.
const NUMBER_FIRST: u64 = 3 << 61;
/// Folders and files that are remembered, at most.
const FOLDERS_MAX: usize = 4096;
const FILES_MAX: usize = 1 << 16;

/// The neighbours of the files that a program opens.
pub struct Neighbours {
    channel: Arc<Channel>,
    state: Mutex<State>,
}

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To list this folder.
    List(usize),
    /// To read this file.
    Read(usize),
}

struct State {
    policy: Policy,
    log: LogReader,
    /// Words of the log, and waits of the program, that have been looked at.
    head: u64,
    waits: u64,
    wait_ticks: u64,
    /// Requests that the device of the last file serves at once.
    depth: u32,
    folders: Vec<Folder>,
    places: HashMap<Arc<[u8]>, usize>,
    files: Vec<File>,
    /// Places of files by their paths.
    taken: HashMap<Arc<[u8]>, usize>,
    ready: VecDeque<Step>,
    jobs: u64,
}

struct Folder {
    path: Arc<[u8]>,
    worth: Worth,
    names: Names,
    /// The last file that was opened in it.
    last: Box<[u8]>,
}

enum Names {
    Unknown,
    /// A job for them is ready or under way.
    Asked,
    /// In order, each with whether its file was opened or read ahead.
    Known(Vec<(Box<[u8]>, bool)>),
}

/// A file that is read ahead. Times are those of the access log.
struct File {
    path: Arc<[u8]>,
    folder: usize,
    begun: u32,
    /// How long a device was waited for, in ticks; `None` while the job is under way, and where none was asked.
    waited: Option<u64>,
    /// When the program opened it.
    opened: Option<u32>,
}

impl Neighbours {
    /// Of a program that has opened nothing yet.
    pub fn new(channel: Arc<Channel>) -> Self {
        let policy = Policy::new(channel.header().ticks_per_second.load(Relaxed));
        Self { channel, state: Mutex::new(State::new(policy)) }
    }

    /// The next job.
    pub fn take(&self) -> Option<Job> {
        if !self.is_on() {
            return None;
        }
        let mut state = self.state();
        state.look(&self.channel);
        let (step, path, wanted) = state.next(now(self.channel.access_log()))?;
        let Some(slot) = self.begin() else {
            state.ready.clear();
            return None;
        };
        state.jobs += 1;
        let channel = self.channel.clone();
        let ticket = Ticket::new(move || {
            channel.header().jobs[slot].fetch_sub(1, SeqCst);
        });
        Some(Job {
            origin: Origin::Neighbour(step),
            number: NUMBER_FIRST + state.jobs,
            path,
            wanted,
            ticket,
        })
    }

    /// Whether there may be one.
    pub fn has_ready(&self) -> bool {
        if !self.is_on() {
            return false;
        }
        let state = self.state();
        !state.ready.is_empty() || state.waits != self.channel.header().neighbours.waits.load(Acquire)
    }

    /// A job is done.
    pub fn on_done(&self, step: Step, done: Done) {
        let mut state = self.state();
        let header = self.channel.header();
        match step {
            Step::List(folder) => state.on_listed(folder, done.names.unwrap_or_default()),
            Step::Read(file) => {
                let Some(waited) = done.waited else { return };
                header.neighbours.files.fetch_add(1, Relaxed);
                header.neighbours.bytes.fetch_add(done.bytes, Relaxed);
                let ticks_per_us = header.ticks_per_second.load(Relaxed) / 1_000_000;
                let waited = ticks_per_us.saturating_mul(waited.as_micros() as u64);
                if let Some(file) = state.files.get_mut(file) {
                    file.waited = Some(waited);
                }
                state.settle(header, file);
            }
        }
    }

    /// The process that waited last waits for the job at its end, as it does for its hints: a file system with an open file is busy.
    /// `None` where it has come to that already.
    fn begin(&self) -> Option<usize> {
        let header = self.channel.header();
        let slot = usize::try_from(header.neighbours.slot.load(Relaxed)).ok()?;
        let jobs = header.jobs.get(slot)?;
        jobs.fetch_add(1, SeqCst);
        let is_claimed = header.slot_states[slot].load(SeqCst) == SLOT_CLAIMED;
        if !is_claimed {
            jobs.fetch_sub(1, SeqCst);
        }
        is_claimed.then_some(slot)
    }

    /// Nothing is read ahead before the program has waited, nor where memory is short or an open would show. What a profile foretells
    /// comes first.
    fn is_on(&self) -> bool {
        let header = self.channel.header();
        header.neighbours.waits.load(Relaxed) > 0
            && header.control.load(Relaxed) == GO
            && header.leases.load(Acquire) == LEASES_NONE
            && header.memory.load(Relaxed) != MEMORY_SHORT
            && !matches!(header.replay.state.load(Relaxed), replay::ON | replay::STOPPED)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(policy: Policy) -> Self {
        Self {
            policy,
            log: LogReader::default(),
            head: 0,
            waits: 0,
            wait_ticks: 0,
            depth: InflightLimit::new().limit(),
            folders: Vec::new(),
            places: HashMap::new(),
            files: Vec::new(),
            taken: HashMap::new(),
            ready: VecDeque::new(),
            jobs: 0,
        }
    }

    /// Looks at what the program has waited for and opened since the last look.
    fn look(&mut self, channel: &Channel) {
        let (header, log) = (channel.header(), channel.access_log());
        let (waits, ticks) =
            (header.neighbours.waits.load(Acquire), header.neighbours.wait_ticks.load(Relaxed));
        self.policy.on_waits(
            waits.saturating_sub(self.waits),
            ticks.saturating_sub(self.wait_ticks),
            self.depth,
        );
        (self.waits, self.wait_ticks) = (waits, ticks);
        let head = log.head.load(Acquire);
        if head == self.head {
            return;
        }
        self.head = head;
        while let Some(entry) = self.log.next(log) {
            if let Entry::File { opened: Some(at), path, identity } = entry
                && identity.size > 0
            {
                self.depth = depth(header, identity.dev);
                self.on_opened(header, at, &path);
            }
        }
    }

    /// What to do next, as it is begun at this time.
    fn next(&mut self, begun: u32) -> Option<(Step, Arc<[u8]>, Wanted)> {
        loop {
            let step = self.ready.pop_front()?;
            match step {
                Step::List(folder) => {
                    return Some((step, self.folders.get(folder)?.path.clone(), Wanted::Names));
                }
                Step::Read(file) => {
                    let file = self.files.get_mut(file)?;
                    // The program may have been first.
                    if file.opened.is_none() {
                        file.begun = begun;
                        let wanted = Wanted::Data { offset: 0, length: CHUNK_BYTES, expected: None };
                        return Some((step, file.path.clone(), wanted));
                    }
                }
            }
        }
    }

    /// The program opened this file for the first time.
    fn on_opened(&mut self, header: &Header, at: u32, path: &Arc<[u8]>) {
        let Some(place) = self.folder_of(path) else { return };
        let folder = &mut self.folders[place];
        folder.last = name_of(path).into();
        if let Some(file) = self.taken.get(path).copied() {
            self.files[file].opened = Some(at);
            self.settle(header, file);
        }
        self.choose(place);
    }

    /// The names of a folder's files are known.
    fn on_listed(&mut self, place: usize, mut names: Vec<Box<[u8]>>) {
        let Some(folder) = self.folders.get_mut(place) else { return };
        names.sort_unstable();
        folder.names = Names::Known(names.into_iter().map(|name| (name, false)).collect());
        self.choose(place);
    }

    /// Has files of the folder read ahead that are worth it: those of the same kind of name, nearest to the last one first.
    fn choose(&mut self, place: usize) {
        let Some(folder) = self.folders.get_mut(place) else { return };
        let room = self.policy.room(&mut folder.worth, self.depth);
        let names = match &mut folder.names {
            Names::Unknown => {
                if room > 0 && self.policy.pay(self.depth) {
                    folder.names = Names::Asked;
                    self.ready.push_back(Step::List(place));
                }
                return;
            }
            Names::Asked => return,
            Names::Known(names) => names,
        };
        let middle = names.binary_search_by(|(name, _)| name.cmp(&folder.last));
        if let Ok(own) = middle {
            names[own].1 = true;
        }
        let middle = middle.unwrap_or_else(|place| place);
        let kind = kind_of(&folder.last);
        let mut left = room;
        for index in outwards(middle, names.len()) {
            if left == 0 || self.files.len() >= FILES_MAX {
                return;
            }
            let (name, is_known) = &mut names[index];
            if *is_known || kind_of(name) != kind {
                continue;
            }
            if !self.policy.pay(self.depth) {
                return;
            }
            folder.worth.on_taken();
            *is_known = true;
            left -= 1;
            let path: Arc<[u8]> = [&folder.path[..], b"/", name].concat().into();
            if let hash_map::Entry::Vacant(entry) = self.taken.entry(path.clone()) {
                entry.insert(self.files.len());
                self.ready.push_back(Step::Read(self.files.len()));
                self.files.push(File { path, folder: place, begun: 0, waited: None, opened: None });
            }
        }
    }

    /// Pays for a file that was read and opened, once both are known.
    fn settle(&mut self, header: &Header, file: usize) {
        let Some(file) = self.files.get(file) else { return };
        let (Some(waited), Some(opened)) = (file.waited, file.opened) else { return };
        let Some(ahead) = opened.checked_sub(file.begun).filter(|ahead| *ahead > 0) else { return };
        let ahead = (u64::from(ahead) << TIME_SHIFT).min(waited);
        header.neighbours.files_used.fetch_add(1, Relaxed);
        if let Some(folder) = self.folders.get_mut(file.folder) {
            self.policy.on_used(&mut folder.worth, ahead, self.depth);
        }
    }

    /// Place of the folder that a path lies in.
    fn folder_of(&mut self, path: &[u8]) -> Option<usize> {
        let end = path.iter().rposition(|byte| *byte == b'/')?;
        let path = path.get(..end)?;
        if let Some(place) = self.places.get(path) {
            return Some(*place);
        }
        if self.folders.len() >= FOLDERS_MAX {
            return None;
        }
        let (place, path): (usize, Arc<[u8]>) = (self.folders.len(), path.into());
        self.places.insert(path.clone(), place);
        self.folders.push(Folder { path, worth: Worth::default(), names: Names::Unknown, last: Box::default() });
        Some(place)
    }
}

/// Requests that the device serves at once, as far as that is known.
fn depth(header: &Header, device: u64) -> u32 {
    let known = header.devices.iter().find(|entry| entry.id.load(Relaxed) == device.wrapping_add(1));
    known.map_or(InflightLimit::new(), |entry| InflightLimit::load(&entry.limit)).limit()
}

fn now(log: &AccessLog) -> u32 {
    log.time(ffi::ticks())
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// What follows the last dot of a name.
fn kind_of(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte == b'.') {
        Some(dot) if dot > 0 => &name[dot..],
        _ => b"",
    }
}

/// The places below `count`, from `middle` on, by their distance.
fn outwards(middle: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count.max(middle) + 1).flat_map(move |distance| {
        let above = middle.checked_add(distance);
        let below = (distance > 0).then(|| middle.checked_sub(distance)).flatten();
        above.into_iter().chain(below).filter(move |place| *place < count)
    })
}
