//! What lies beside what the program needs, handed out as jobs while the program waits. That is files of the folders in which it opens
//! others, folders of the trees that it goes through, and blocks of large files that it reads in many places. Which places are worth
//! that says `forebay_policy::neighbours`. The program's opens, reads and listings are taken from the access log.

mod opens;
mod place;
mod siblings;
mod state;
mod taken;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use forebay_policy::{neighbours::Neighbours as Policy, price::NEIGHBOUR_WAIT_US};
use forebay_protocol::layout::{GO, LEASES_NONE, MEMORY_SHORT, NO_SLOT, SLOT_CLAIMED, replay, told};

use super::{Done, Job, Origin};
use crate::{channel::Channel, devices::Ticket};
use state::State;

/// Jobs for neighbours come after those for libraries.
const NUMBER_FIRST: u64 = 3 << 61;

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

impl Neighbours {
    /// Of a program that has needed nothing yet.
    pub fn new(channel: Arc<Channel>) -> Self {
        let policy = Policy::new(channel.header().ticks_per_second.load(Relaxed));
        Self { channel, state: Mutex::new(State::new(policy)) }
    }

    /// The next job. Devices of remote file systems are left alone: each look-up, listing and open is a request there.
    pub fn take(&self, is_remote: impl Fn(u64) -> bool) -> Option<Job> {
        let opens = &self.channel.header().neighbours.opens;
        if opens.load(Acquire) == told::WANTED {
            self.state().look_at_opens(self.channel.header(), self.channel.access_log());
            opens.store(told::NONE, Release);
        }
        if !self.is_on() {
            return None;
        }
        let mut state = self.state();
        state.look(&self.channel, is_remote);
        let (step, path, wanted) = state.next(self.channel.access_log())?;
        let Some(slot) = self.begin() else {
            state.clear();
            return None;
        };
        let channel = self.channel.clone();
        let ticket = Ticket::new(move || {
            if let Some(slot) = slot {
                channel.header().jobs[slot].fetch_sub(1, SeqCst);
            }
        });
        Some(Job {
            origin: Origin::Neighbour { slot, step },
            number: NUMBER_FIRST + state.count(),
            path,
            wanted,
            open: None,
            ticket,
        })
    }

    /// Whether there may be one.
    pub fn has_ready(&self) -> bool {
        if !self.is_on() {
            return false;
        }
        let state = self.state();
        state.has_ready(self.channel.header().neighbours.waits.load(Acquire))
    }

    /// A job is done.
    pub fn on_done(&self, step: Step, done: Done) {
        let (header, mut state) = (self.channel.header(), self.state());
        match step {
            Step::List(place) => state.on_listed(header, place, done.names.unwrap_or_default()),
            Step::Read(taken) => state.on_done(header, taken, done),
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

    /// Nothing is read ahead of a program whose waits are short, nor where memory is short or an open would show. What a profile
    /// foretells comes first.
    fn is_on(&self) -> bool {
        let header = self.channel.header();
        let ticks_per_us = header.ticks_per_second.load(Relaxed) / 1_000_000;
        header.neighbours.mean_wait() >= NEIGHBOUR_WAIT_US.saturating_mul(ticks_per_us).max(1)
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

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use forebay_policy::inflight::InflightLimit;
    use forebay_protocol::{
        access_log::{Attributes, Outcome, Use},
        layout::{Header, SLOT_CLOSED, file_system},
    };

    use tempfile::{TempDir, tempdir};

    use super::place::BLOCK_BYTES;
    use super::state::now;
    use super::*;
    use crate::executor::Wanted;

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
        neighbours.on_done(listed[0].0, Done { names, ..Done::default() });
        wait(&channel, 10);
        open(&channel, "/f/a.py", 10);
        let read = taken(&neighbours);
        assert_eq!(read.first(), Some(&(Step::Read(1), "/f/c.py".to_owned(), 0)), "the program was first");
        neighbours.on_done(read[0].0, Done { waited: Some(Duration::from_millis(1)), ..Done::default() });
        open(&channel, "/f/c.py", 10);
        wait(&channel, 1);
        let _ = taken(&neighbours);
        let figures = &channel.header().neighbours;
        assert_eq!((figures.reads.load(Relaxed), figures.used.load(Relaxed)), (1, 1));
        assert_eq!(channel.header().jobs[SLOT].load(Relaxed), 0);
    }

    fn at(folder: &TempDir, name: &str) -> String {
        folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The program lists a folder.
    fn list(channel: &Channel, path: &str) {
        let log = channel.access_log();
        let folder = log.append_path(Outcome::Named, now(log), 0, path.as_bytes()).unwrap();
        log.append_range(Use::Listed, now(log), folder, 0, 0).unwrap();
    }

    fn paths(taken: &[(Step, String, u64)]) -> Vec<&str> {
        taken.iter().map(|(_, path, _)| path.rsplit('/').next().unwrap()).collect()
    }

    #[test]
    fn a_program_that_goes_through_folders_finds_those_below_listed() {
        let (channel, neighbours) = waiting();
        let root = tempdir().unwrap();
        list(&channel, &at(&root, ""));
        assert!(taken(&neighbours).is_empty(), "one folder is no tree");
        list(&channel, &at(&root, "a"));
        let again = taken(&neighbours);
        let root_name = root.path().file_name().unwrap().to_str().unwrap();
        assert_eq!(paths(&again), [root_name, "a"], "what was listed is in memory");
        let done = |names: &[&str]| {
            let names = names.iter().map(|name| name.as_bytes().into()).collect();
            Done { names: Some(names), ..Done::default() }
        };
        neighbours.on_done(again[1].0, done(&["d"]));
        neighbours.on_done(again[0].0, done(&["a", "b", "c"]));
        let below = taken(&neighbours);
        assert_eq!(paths(&below), ["d", "b", "c"]);
        let waited = Some(Duration::from_millis(1));
        neighbours.on_done(below[0].0, Done { waited, ..done(&[]) });
        wait(&channel, 10);
        list(&channel, &at(&root, "a/d"));
        let _ = taken(&neighbours);
        let figures = &channel.header().neighbours;
        assert_eq!((figures.reads.load(Relaxed), figures.used.load(Relaxed)), (1, 1));
    }

    fn listed(names: &[&str]) -> Done {
        let names = names.iter().map(|name| name.as_bytes().into()).collect();
        Done { names: Some(names), waited: Some(Duration::from_millis(1)), ..Done::default() }
    }

    /// A program that has opened this in two of five folders. The jobs for the other folders.
    fn siblings(channel: &Channel, neighbours: &Neighbours, opened: [&str; 2]) -> Vec<(Step, String, u64)> {
        open(channel, opened[0], 10);
        assert_eq!(paths(&taken(neighbours)), ["b"], "one folder has none beside it");
        open(channel, opened[1], 10);
        let above = taken(neighbours);
        assert_eq!(paths(&above), ["d", "f"]);
        neighbours.on_done(above[1].0, listed(&["d", "a", "e", "c", "b"]));
        let beside = taken(neighbours);
        assert_eq!(paths(&beside), ["e"], "the next one, and waiting pays for no more yet");
        wait(channel, 10);
        beside
    }

    #[test]
    fn files_of_the_same_name_in_folders_beside_one_another_are_read() {
        let (channel, neighbours) = waiting();
        let beside = siblings(&channel, &neighbours, ["/f/b/x.json", "/f/d/x.json"]);
        let _ = taken(&neighbours);
        neighbours.on_done(beside[0].0, listed(&["a.json", "x.json", "z.js"]));
        let read = taken(&neighbours);
        let all: Vec<_> = read.iter().map(|(_, path, _)| &**path).collect();
        assert_eq!(all, ["/f/e/x.json", "/f/c", "/f/a"], "not what was opened before");
        neighbours.on_done(read[0].0, Done { waited: Some(Duration::from_millis(1)), ..Done::default() });
        open(&channel, "/f/e/x.json", 10);
        wait(&channel, 1);
        let _ = taken(&neighbours);
        let figures = &channel.header().neighbours;
        assert_eq!(
            (figures.reads.load(Relaxed), figures.used.load(Relaxed)),
            (2, 2),
            "the folder and the file"
        );
    }

    #[test]
    fn files_of_the_same_kind_in_folders_beside_one_another_are_read() {
        let (channel, neighbours) = waiting();
        let beside = siblings(&channel, &neighbours, ["/f/b/01", "/f/d/02"]);
        let _ = taken(&neighbours);
        neighbours.on_done(beside[0].0, listed(&["03", "04", "x.json"]));
        assert_eq!(paths(&taken(&neighbours)), ["03", "04", "c", "a"]);
    }

    #[test]
    fn one_file_is_looked_up_in_folders_beside_those_in_which_others_were() {
        let (channel, neighbours) = waiting();
        let root = tempdir().unwrap();
        let look_up = |name: &str| {
            let log = channel.access_log();
            log.append_path(Outcome::Found, now(log), 0, at(&root, name).as_bytes()).unwrap();
        };
        look_up("a/1.in");
        assert!(taken(&neighbours).is_empty(), "one folder has none beside it");
        look_up("b/2.in");
        let above = taken(&neighbours);
        assert_eq!(above[0].1, at(&root, "").trim_end_matches('/'));
        neighbours.on_done(above[0].0, listed(&["a", "b", "c"]));
        let beside = taken(&neighbours);
        assert_eq!(paths(&beside), ["c"]);
        neighbours.on_done(beside[0].0, listed(&["a.out", "b.in", "c.in"]));
        let job = neighbours.take(|_| false).unwrap();
        job.ticket.finish();
        assert_eq!(
            (&*job.path, job.wanted),
            (at(&root, "c/b.in").as_bytes(), Wanted::LookUp { follow: true })
        );
        let Origin::Neighbour { step, .. } = job.origin else { panic!("{:?}", job.origin) };
        neighbours.on_done(step, Done { waited: Some(Duration::from_millis(1)), ..Done::default() });
        look_up("c/b.in");
        wait(&channel, 1);
        assert!(taken(&neighbours).is_empty());
        let figures = &channel.header().neighbours;
        assert_eq!(
            (figures.reads.load(Relaxed), figures.used.load(Relaxed)),
            (2, 2),
            "the folder and the file"
        );
    }

    #[test]
    fn the_kernel_tells_what_a_program_without_an_agent_needs() {
        let (channel, neighbours) = waiting();
        channel.header().neighbours.slot.store(NO_SLOT, Relaxed);
        let folder = tempdir().unwrap();
        let _ = ["a", "b", "c"].map(|name| fs::write(at(&folder, name), "x").unwrap());
        open(&channel, &at(&folder, "a"), 1);
        let listed = taken(&neighbours);
        let names = Some(["a", "b", "c", "d"].map(|name| name.as_bytes().into()).into());
        neighbours.on_done(listed[0].0, Done { names, ..Done::default() });
        let mut read = Vec::new();
        for name in ["d", "e"] {
            wait(&channel, 10);
            open(&channel, &at(&folder, name), 1);
            read.extend(taken(&neighbours));
        }
        assert_eq!(paths(&read), ["b", "c"]);
        let figures = &channel.header().neighbours;
        for (number, used) in [(0, 0), (1, 1)] {
            let (step, path, _) = &read[number];
            fs::File::open(path).unwrap();
            neighbours.on_done(*step, Done { waited: Some(Duration::from_millis(1)), ..Done::default() });
            wait(&channel, 1);
            let _ = taken(&neighbours);
            assert_eq!(figures.used.load(Relaxed), used, "its own opens do not count");
            fs::File::open(path).unwrap();
            wait(&channel, 1);
            let _ = taken(&neighbours);
            assert_eq!(figures.used.load(Relaxed), used + 1);
        }
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
    fn blocks_behind_those_that_are_read_in_sequence_are_read() {
        let (channel, neighbours) = waiting();
        let file = open(&channel, "/f/data", LARGE);
        let log = channel.access_log();
        let record = log.append_range(Use::Read, now(log), file, 0, 10).unwrap();
        assert_eq!(taken(&neighbours).len(), 1, "the folder's list");
        log.extend(record, 5 * BLOCK_BYTES);
        wait(&channel, 10);
        let read = taken(&neighbours);
        assert_eq!(read.first(), Some(&(Step::Read(0), "/f/data".to_owned(), 6)));
        let waited = Some(Duration::from_millis(1));
        read.iter().for_each(|(step, ..)| neighbours.on_done(*step, Done { waited, ..Done::default() }));
        log.extend(record, 100 * BLOCK_BYTES);
        wait(&channel, 1);
        let _ = taken(&neighbours);
        let figures = &channel.header().neighbours;
        let count = read.len() as u64;
        assert_eq!((figures.reads.load(Relaxed), figures.used.load(Relaxed)), (count, count));
    }

    #[test]
    fn looks_that_find_nothing_come_ever_less_often() {
        let (channel, neighbours) = waiting();
        let figures = &channel.header().neighbours;
        let looked = |waits: u64| {
            wait(&channel, waits);
            let read = taken(&neighbours).len();
            (read, figures.look_at.load(Relaxed) - figures.wait_ticks.load(Relaxed))
        };
        let (first, second) = (looked(1), looked(10_000));
        assert_eq!([first.0, second.0], [0, 0]);
        let ms = channel.header().ticks_per_second.load(Relaxed) / 1_000;
        assert!(first.1 < ms && second.1 > 600 * ms, "a sixteenth of the waiting: {first:?}, {second:?}");
        open(&channel, "/f/a", 10);
        assert_eq!(looked(1).0, 1);
        assert!(looked(1).1 < ms, "something was found");
    }

    #[test]
    fn nothing_is_read_where_it_would_show_or_is_of_no_use() {
        let refusals: [fn(&Header); 7] = [
            |header| header.neighbours.waits.store(0, Relaxed),
            |header| header.neighbours.waits.store(1_000, Relaxed),
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
