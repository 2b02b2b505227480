//! What lies beside what the program needs, handed out as jobs while the program waits. That is files of the folders in which it opens
//! others, and blocks of large files that it reads in many places. Which places are worth that says `forebay_policy::neighbours`.
//! The program's opens and reads are taken from the access log.

mod opens;
mod place;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::Ordering::{Acquire, Relaxed, SeqCst},
    },
};

use forebay_policy::{neighbours::Neighbours as Policy, price::AT_ONCE_HOPED};
use forebay_profile::Kind;
use forebay_protocol::{
    access_log::{AccessLog, TIME_SHIFT},
    layout::{GO, Header, LEASES_NONE, MEMORY_SHORT, NO_SLOT, SLOT_CLAIMED, replay},
};

use super::{Done, Job, Origin, Wanted};
use crate::{
    channel::Channel,
    devices::{Ticket, limit_of},
    ffi,
    profiles::access::{Entry, LogReader},
};
use opens::Opens;
use place::{BLOCK_BYTES, Member, Next, Place};

/// Jobs for neighbours come after those for libraries.
const NUMBER_FIRST: u64 = 3 << 61;
/// Places and their members that are remembered, at most.
const PLACES_MAX: usize = 1 << 13;
const MEMBERS_MAX: usize = 1 << 17;

/// The neighbours of what a program needs.
pub struct Neighbours {
    channel: Arc<Channel>,
    state: Mutex<State>,
}

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To list the folder of this place.
    List(usize),
    /// To read this one of those that are taken.
    Read(usize),
}

struct State {
    policy: Policy,
    log: LogReader,
    /// Words of the log, and waits of the program, that have been looked at.
    head: u64,
    waits: u64,
    wait_ticks: u64,
    /// Waits that no need is known to have caused yet.
    unexplained: u64,
    /// Requests that the device of the last file serves at once.
    depth: u32,
    /// Folders that programs without an agent open files in.
    opens: Opens,
    places: Vec<Place>,
    /// Where they are, by the paths of folders and files.
    by_path: HashMap<Arc<[u8]>, usize>,
    taken: Vec<Taken>,
    by_member: HashMap<Member, usize>,
    ready: VecDeque<Step>,
    jobs: u64,
}

/// What is read ahead. Times are those of the access log.
struct Taken {
    member: Member,
    place: usize,
    begun: u32,
    /// How often it was opened since, as the kernel tells. The first time by the job.
    opens: u32,
    /// How long a device was waited for, in ticks; `None` while the job is under way, and where none was asked.
    waited: Option<u64>,
    /// When the program needed it.
    needed: Option<u32>,
}

impl Neighbours {
    /// Of a program that has needed nothing yet.
    pub fn new(channel: Arc<Channel>) -> Self {
        let policy = Policy::new(channel.header().ticks_per_second.load(Relaxed));
        Self { channel, state: Mutex::new(State::new(policy)) }
    }

    /// The next job. Devices of remote file systems are left alone: each look-up, listing and open is a request there.
    pub fn take(&self, is_remote: impl Fn(u64) -> bool) -> Option<Job> {
        if !self.is_on() {
            return None;
        }
        let mut state = self.state();
        state.look(&self.channel, is_remote);
        let has_no_agent = self.channel.header().neighbours.slot.load(Relaxed) == NO_SLOT;
        let (step, path, wanted) = state.next(now(self.channel.access_log()), has_no_agent)?;
        let Some(slot) = self.begin() else {
            state.ready.clear();
            return None;
        };
        state.jobs += 1;
        let channel = self.channel.clone();
        let ticket = Ticket::new(move || {
            if let Some(slot) = slot {
                channel.header().jobs[slot].fetch_sub(1, SeqCst);
            }
        });
        Some(Job {
            origin: Origin::Neighbour { slot, step },
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
    pub fn on_done(&self, slot: Option<usize>, step: Step, done: Done) {
        let mut state = self.state();
        let header = self.channel.header();
        match step {
            Step::List(place) => {
                if let Some(folder) = state.places.get_mut(place) {
                    folder.on_listed(done.names.unwrap_or_default());
                    state.choose(place);
                }
            }
            Step::Read(taken) => {
                let Some(waited) = done.waited else {
                    // A program without an agent has no hints, and was not seen to open all that it has.
                    if slot.is_some() {
                        let depth = state.depth;
                        state.policy.on_idle(depth);
                    }
                    return;
                };
                header.neighbours.reads.fetch_add(1, Relaxed);
                header.neighbours.bytes.fetch_add(done.bytes, Relaxed);
                let ticks_per_us = header.ticks_per_second.load(Relaxed) / 1_000_000;
                if let Some(taken) = state.taken.get_mut(taken) {
                    taken.waited = Some(ticks_per_us.saturating_mul(waited.as_micros() as u64));
                }
                state.settle(header, taken);
            }
        }
    }

    /// The process that waited last waits for the job at its end, as it does for its hints: a file system with an open file is busy.
    /// One without an agent has no slot to count it in. `None` where it has come to that already.
    fn begin(&self) -> Option<Option<usize>> {
        let header = self.channel.header();
        let slot = header.neighbours.slot.load(Relaxed);
        if slot == NO_SLOT {
            return Some(None);
        }
        let slot = usize::try_from(slot).ok()?;
        let jobs = header.jobs.get(slot)?;
        jobs.fetch_add(1, SeqCst);
        let is_claimed = header.slot_states[slot].load(SeqCst) == SLOT_CLAIMED;
        if !is_claimed {
            jobs.fetch_sub(1, SeqCst);
        }
        is_claimed.then_some(Some(slot))
    }

    /// Nothing is read ahead before the program has waited, nor where memory is short or an open would show. What a profile foretells
    /// comes first.
    fn is_on(&self) -> bool {
        let header = self.channel.header();
        header.neighbours.waits.load(Relaxed) > 0
            && header.control.load(Relaxed) == GO
            && header.leases.load(Acquire) == LEASES_NONE
            && header.memory.load(Relaxed) != MEMORY_SHORT
            && header.files_watched.load(SeqCst) == 0
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
            unexplained: 0,
            depth: AT_ONCE_HOPED,
            opens: Opens::default(),
            places: Vec::new(),
            by_path: HashMap::new(),
            taken: Vec::new(),
            by_member: HashMap::new(),
            ready: VecDeque::new(),
            jobs: 0,
        }
    }

    /// Looks at what the program has waited for and needed since the last look.
    fn look(&mut self, channel: &Channel, is_remote: impl Fn(u64) -> bool) {
        let (header, log) = (channel.header(), channel.access_log());
        let waits = header.neighbours.waits.load(Acquire);
        let ticks = header.neighbours.wait_ticks.load(Relaxed);
        let (more, longer) = (waits.saturating_sub(self.waits), ticks.saturating_sub(self.wait_ticks));
        self.policy.on_waits(more, longer, self.depth);
        (self.waits, self.wait_ticks, self.unexplained) = (waits, ticks, more);
        self.look_at_opens(header, log);
        let head = log.head.load(Acquire);
        if head == self.head {
            return;
        }
        self.head = head;
        while let Some(entry) = self.log.next(log) {
            match entry {
                Entry::File { opened, path, identity } if identity.size > 0 && !is_remote(identity.dev) => {
                    self.depth = depth(header, identity.dev);
                    // A file that was opened before the log began is told when it is read.
                    if let Some(file) = Place::file(path.clone(), identity.size) {
                        self.add(&path, || file);
                    }
                    if let Some(at) = opened {
                        self.on_opened(header, at, &path);
                    }
                }
                Entry::Needed { at, path, kind: Kind::Read, range } => {
                    self.on_read(header, at, path, range.start / BLOCK_BYTES);
                }
                _ => {}
            }
        }
    }

    /// Looks at what was opened in folders that are watched.
    fn look_at_opens(&mut self, header: &Header, log: &AccessLog) {
        let at = now(log);
        for (place, name) in self.opens.take() {
            let Some(folder) = self.places.get_mut(place) else { continue };
            let path = [folder.path(), &b"/"[..], &name].concat().into();
            let Some(number) = self.by_member.get(&Member { path, block: 0 }).copied() else {
                folder.on_opened(&name);
                continue;
            };
            let taken = &mut self.taken[number];
            taken.opens += 1;
            if taken.opens > u32::from(taken.begun > 0) {
                let _ = taken.needed.get_or_insert(at);
                self.settle(header, number);
                self.choose(place);
            }
        }
    }

    /// What to do next, as it is begun at this time, for a process with or without an agent.
    fn next(&mut self, begun: u32, has_no_agent: bool) -> Option<(Step, Arc<[u8]>, Wanted)> {
        loop {
            let step = self.ready.pop_front()?;
            match step {
                Step::List(place) => {
                    let path = self.places.get(place)?.path().clone();
                    if has_no_agent {
                        self.opens.watch(place, &path);
                    }
                    return Some((step, path, Wanted::Names));
                }
                Step::Read(taken) => {
                    let taken = self.taken.get_mut(taken)?;
                    // The program may have been first.
                    if taken.needed.is_none() {
                        taken.begun = begun;
                        let Member { path, block } = taken.member.clone();
                        let offset = block.saturating_mul(BLOCK_BYTES);
                        return Some((
                            step,
                            path,
                            Wanted::Data { offset, length: BLOCK_BYTES, expected: None },
                        ));
                    }
                }
            }
        }
    }

    /// The program opened this file for the first time.
    fn on_opened(&mut self, header: &Header, at: u32, path: &Arc<[u8]>) {
        let Some(end) = path.iter().rposition(|byte| *byte == b'/') else { return };
        let (folder, name): (Arc<[u8]>, _) = (path[..end].into(), &path[end + 1..]);
        if let Some(place) = self.add(&folder, || Place::folder(folder.clone())) {
            self.places[place].on_opened(name);
            self.on_needed(header, at, place, Member { path: path.clone(), block: 0 });
            self.choose(place);
        }
    }

    /// The program read this block of a file, not in sequence.
    fn on_read(&mut self, header: &Header, at: u32, path: Arc<[u8]>, block: u64) {
        let Some(place) = self.by_path.get(&path).copied() else { return };
        self.places[place].on_read(block);
        self.on_needed(header, at, place, Member { path, block });
        self.choose(place);
    }

    /// The program needed this of a place: it was read ahead, or the program may have waited for it.
    fn on_needed(&mut self, header: &Header, at: u32, place: usize, member: Member) {
        match self.by_member.get(&member).copied() {
            Some(taken) => {
                let _ = self.taken[taken].needed.get_or_insert(at);
                self.settle(header, taken);
            }
            None if self.unexplained > 0 => {
                self.unexplained -= 1;
                self.places[place].worth.on_missed();
            }
            None => {}
        }
    }

    /// Has what is worth it read ahead of a place.
    fn choose(&mut self, place: usize) {
        let Some(at) = self.places.get_mut(place).filter(|place| place.is_open()) else { return };
        let mut room = self.policy.room(&mut at.worth, self.depth);
        while room > 0 && self.taken.len() < MEMBERS_MAX && self.policy.may_pay(self.depth) {
            let Some(next) = at.take() else { return };
            self.policy.pay(self.depth);
            match next {
                Next::List => self.ready.push_back(Step::List(place)),
                Next::Member(member) => {
                    room -= 1;
                    at.worth.on_taken();
                    let number = self.taken.len();
                    if self.by_member.insert(member.clone(), number).is_none() {
                        self.ready.push_back(Step::Read(number));
                        self.taken.push(Taken {
                            member,
                            place,
                            begun: 0,
                            opens: 0,
                            waited: None,
                            needed: None,
                        });
                    }
                }
            }
        }
    }

    /// Pays for what was read and needed, once both are known.
    fn settle(&mut self, header: &Header, taken: usize) {
        let Some(Taken { place, begun, waited: Some(waited), needed: Some(needed), .. }) =
            self.taken.get_mut(taken)
        else {
            return;
        };
        let Some(ahead) = needed.checked_sub(*begun).filter(|ahead| *ahead > 0) else { return };
        // One is paid for once.
        let ahead = (u64::from(ahead) << TIME_SHIFT).min(std::mem::take(waited));
        if ahead > 0
            && let Some(place) = self.places.get_mut(*place)
        {
            header.neighbours.used.fetch_add(1, Relaxed);
            self.policy.on_used(&mut place.worth, ahead, self.depth);
        }
    }

    /// Where the place at this path is, if there is room for it.
    fn add(&mut self, path: &Arc<[u8]>, new: impl FnOnce() -> Place) -> Option<usize> {
        if let Some(place) = self.by_path.get(path) {
            return Some(*place);
        }
        let place = Some(self.places.len()).filter(|place| *place < PLACES_MAX)?;
        self.by_path.insert(path.clone(), place);
        self.places.push(new());
        Some(place)
    }
}

/// Requests that the device serves at once, as far as it is known.
fn depth(header: &Header, device: u64) -> u32 {
    limit_of(header, device.wrapping_add(1)).may_serve_at_once()
}

fn now(log: &AccessLog) -> u32 {
    log.time(ffi::ticks())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_policy::inflight::InflightLimit;
    use forebay_protocol::{
        access_log::{Attributes, Outcome, Use},
        layout::{SLOT_CLOSED, file_system},
    };

    use super::*;

    const SLOT: usize = 3;
    const LARGE: u64 = 100 * BLOCK_BYTES;

    /// A program that has waited ten times for a millisecond.
    fn waiting() -> (Arc<Channel>, Neighbours) {
        let channel = Arc::new(Channel::create(true).unwrap());
        let header = channel.header();
        header.leases.store(LEASES_NONE, Relaxed);
        header.slot_states[SLOT].store(SLOT_CLAIMED, Relaxed);
        header.neighbours.slot.store(SLOT as u32, Relaxed);
        wait(&channel, 10);
        let neighbours = Neighbours::new(channel.clone());
        (channel, neighbours)
    }

    fn wait(channel: &Channel, waits: u64) {
        let header = channel.header();
        let ticks = header.ticks_per_second.load(Relaxed) / 1_000;
        header.neighbours.wait_ticks.fetch_add(waits * ticks, Relaxed);
        header.neighbours.waits.fetch_add(waits, Relaxed);
    }

    /// The program opens a file. Where it is in the log.
    fn open(channel: &Channel, path: &str, size: u64) -> u32 {
        let log = channel.access_log();
        let file = log.append_path(Outcome::Found, now(log), 0, path.as_bytes()).unwrap();
        log.append_attributes(now(log), file, &Attributes { dev: 1, ino: 2, size, mtime_ns: 3 });
        file
    }

    fn taken(neighbours: &Neighbours) -> Vec<(Step, String, u64)> {
        let job = |job: Job| {
            job.ticket.finish();
            let Origin::Neighbour { step, .. } = job.origin else { panic!("{:?}", job.origin) };
            let offset = if let Wanted::Data { offset, .. } = job.wanted { offset } else { 0 };
            (step, String::from_utf8_lossy(&job.path).into_owned(), offset / BLOCK_BYTES)
        };
        std::iter::from_fn(|| neighbours.take(|_| false)).map(job).collect()
    }

    #[test]
    fn a_folder_is_listed_and_its_files_are_read() {
        let (channel, neighbours) = waiting();
        open(&channel, "/f/b.py", 10);
        let listed = taken(&neighbours);
        assert_eq!(listed, [(Step::List(0), "/f".to_owned(), 0)]);
        let names = Some(["a.py", "b.py", "b.txt", "c.py"].map(|name| name.as_bytes().into()).into());
        neighbours.on_done(Some(SLOT), listed[0].0, Done { names, ..Done::default() });
        wait(&channel, 10);
        open(&channel, "/f/a.py", 10);
        let read = taken(&neighbours);
        assert_eq!(read.first(), Some(&(Step::Read(0), "/f/c.py".to_owned(), 0)));
        neighbours.on_done(
            Some(SLOT),
            read[0].0,
            Done { waited: Some(Duration::from_millis(1)), ..Done::default() },
        );
        open(&channel, "/f/c.py", 10);
        wait(&channel, 1);
        let _ = taken(&neighbours);
        let figures = &channel.header().neighbours;
        assert_eq!((figures.reads.load(Relaxed), figures.used.load(Relaxed)), (1, 1));
        assert_eq!(channel.header().jobs[SLOT].load(Relaxed), 0);
    }

    #[test]
    fn blocks_of_a_file_that_is_read_in_many_places_are_read() {
        let (channel, neighbours) = waiting();
        let file = open(&channel, "/f/data", LARGE);
        assert_eq!(taken(&neighbours).len(), 1, "the folder's list");
        let log = channel.access_log();
        for block in [5, 70, 30, 50] {
            wait(&channel, 10);
            assert!(taken(&neighbours).is_empty());
            let at = block * BLOCK_BYTES;
            log.append_range(Use::Read, now(log), file, at, at + 10).unwrap();
        }
        wait(&channel, 10);
        assert_eq!(taken(&neighbours).first(), Some(&(Step::Read(0), "/f/data".to_owned(), 50)));
    }

    #[test]
    fn nothing_is_read_where_it_would_show_or_is_of_no_use() {
        let refusals: [fn(&Header); 6] = [
            |header| header.neighbours.waits.store(0, Relaxed),
            |header| header.leases.store(0, Relaxed),
            |header| header.memory.store(MEMORY_SHORT, Relaxed),
            |header| header.files_watched.store(1, Relaxed),
            |header| header.replay.state.store(replay::ON, Relaxed),
            |header| header.slot_states[SLOT].store(SLOT_CLOSED, Relaxed),
        ];
        for refuse in refusals {
            let (channel, neighbours) = waiting();
            open(&channel, "/f/a", 10);
            refuse(channel.header());
            assert!(taken(&neighbours).is_empty());
            assert_eq!(channel.header().jobs[SLOT].load(Relaxed), 0);
        }
        let (channel, neighbours) = waiting();
        open(&channel, "/remote/a", LARGE);
        assert!(neighbours.take(|device| device == 1).is_none());
    }

    #[test]
    fn a_device_that_serves_one_request_at_a_time_has_no_neighbours() {
        let (channel, neighbours) = waiting();
        let device = &channel.header().devices[0];
        device.file_system.store(file_system::KNOWN, Relaxed);
        let mut limit = InflightLimit::new();
        (0..64).for_each(|_| limit.on_completion(1_000_000, 1));
        (1..64).for_each(|_| limit.on_completion(4_000_000, 4));
        assert_eq!(limit.serves_at_once(), Some(1));
        limit.store(&device.limit);
        device.id.store(2, Relaxed);
        open(&channel, "/f/a", LARGE);
        assert!(taken(&neighbours).is_empty());
    }
}
