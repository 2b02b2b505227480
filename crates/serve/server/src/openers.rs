//! The threads that open files. A file that takes a few reads is opened at once. Files that have to be read from end to end are read
//! in turns. Their clients are answered as soon as there is something to play: those of a list, once each of its files has begun. Some
//! files have no turns: one thread is left for others.
//!
//! ```text
//!   openings --> quick: a few reads ------------------------------> opened
//!                  | more                                             ^
//!                  v                                                  | as soon as it plays
//!                long: each file once for all who ask, turn by turn --+
//!                  ^                                                  |
//!                  +------- to its end, and on while it grows --------+
//! ```

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_media::Streams;
use forebay_rtsp::address::neighbourhood;
use forebay_rtsp::server::QuestionId;

use crate::catalog::{Begun, Catalog, Extent, Failure, Lacking, NotOpened, Opened};
use crate::indexed::Indexed;
use crate::options::Options;
use crate::pass::{self, Pass};
use crate::patience::Patience;

/// Threads for files that take a few reads, and for those that take many. More of these would only make the disk go to and fro.
pub(crate) const QUICK: usize = 2;
pub(crate) const LONG: usize = 2;
/// How many of the latter may read files without turns at the same time.
const WHOLE_MAX: usize = LONG - 1;
/// The longest that a thread waits for the time of a turn.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Files that wait to be opened; more is a flood.
const OPENINGS_MAX: usize = 1000;
/// How many of those may be of one address.
const OPENINGS_PER_ADDRESS: usize = 200;

/// A file to open.
#[derive(Debug)]
pub(crate) struct Opening {
    pub question: QuestionId,
    pub client: IpAddr,
    pub path: String,
    pub query: String,
    pub extent: Extent,
}

/// What is read of a file, and so is the same for all who ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    path: String,
    streams: Streams,
}

/// Who waits for a file that takes many reads.
struct Asker {
    opening: Opening,
    lacking: Lacking,
}

impl Asker {
    fn reading(&self) -> Reading {
        // A query that is wrong is answered before anything is read.
        let options = Options::parse(&self.opening.query);
        let streams = options.map_or_else(|_| Streams::default(), |options| options.streams);
        Reading { path: self.lacking.path.clone(), streams }
    }
}

/// What a thread has opened for whom.
pub(crate) type Answered = (QuestionId, Result<Arc<Opened>, Failure>);

#[derive(Default)]
pub(crate) struct Openers {
    state: Mutex<State>,
    has_quick: Condvar,
    has_long: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    quick: VecDeque<Opening>,
    /// In the order in which they were asked for.
    long: Vec<Long>,
}

/// A file that takes many reads, and all who have asked for it.
struct Long {
    reading: Reading,
    askers: Vec<Asker>,
    is_running: bool,
    /// Whether it is known to be read without turns.
    is_whole: bool,
    /// How far it has been read, between its turns; how many there were, and when the next one is due.
    pass: Option<Box<Pass>>,
    turns: u64,
    due: Instant,
}

/// A turn of a file: what is to be read, and how far it has been read.
struct Turn {
    reading: Reading,
    pass: Option<Box<Pass>>,
}

/// What a turn has led to.
enum Step {
    Again(Box<Pass>, Duration),
    /// All of the file is known.
    Known(Arc<Indexed>),
}

impl Long {
    fn is_of(&self, client: IpAddr) -> bool {
        let first = self.askers.first();
        first.is_some_and(|asker| neighbourhood(asker.opening.client) == neighbourhood(client))
    }
}

impl State {
    fn waiting(&self) -> impl Iterator<Item = &Opening> {
        let askers = self.long.iter().flat_map(|long| &long.askers);
        self.quick.iter().chain(askers.map(|asker| &asker.opening))
    }

    /// Another one asks for a file that takes long.
    fn add_long(&mut self, asker: Asker) {
        let reading = asker.reading();
        match self.long.iter_mut().find(|long| long.reading == reading) {
            Some(long) => long.askers.push(asker),
            None => {
                let (askers, due) = (vec![asker], Instant::now());
                let (is_running, is_whole) = (false, false);
                self.long.push(Long { reading, askers, is_running, is_whole, pass: None, turns: 0, due });
            }
        }
    }

    /// Whether a thread may take a file that takes long, once it is due.
    fn may_run(&self, long: &Long) -> bool {
        let wholes = self.long.iter().filter(|one| one.is_running && one.is_whole).count();
        !long.is_running && (!long.is_whole || wholes < WHOLE_MAX)
    }

    /// The next file that takes long: one that clients wait for before others, of an address that has the fewest running. Of
    /// several, it is the one with the fewest turns, and the first that was asked for.
    fn next_long(&self, now: Instant) -> Option<usize> {
        let running = |client| self.long.iter().filter(|long| long.is_running && long.is_of(client)).count();
        let waiting = self.long.iter().enumerate().filter(|(_, long)| long.due <= now && self.may_run(long));
        let order = |(_, long): &(usize, &Long)| {
            let asker = long.askers.first();
            (asker.is_none(), asker.map_or(0, |asker| running(asker.opening.client)), long.turns)
        };
        waiting.min_by_key(order).map(|(number, _)| number)
    }

    fn long_of(&mut self, reading: &Reading) -> Option<&mut Long> {
        self.long.iter_mut().find(|long| long.reading == *reading)
    }
}

impl Openers {
    /// `false` if there is too much to do already.
    pub fn open(&self, opening: Opening) -> bool {
        let mut state = self.lock();
        let of_client = |one: &&Opening| neighbourhood(one.client) == neighbourhood(opening.client);
        let has_room = state.waiting().count() < OPENINGS_MAX
            && state.waiting().filter(of_client).count() < OPENINGS_PER_ADDRESS;
        if has_room {
            state.quick.push_back(opening);
            self.has_quick.notify_one();
        }
        has_room
    }

    /// Has all threads end after what they are at.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.has_quick.notify_all();
        self.has_long.notify_all();
    }

    /// What a thread for files that take a few reads does until the end.
    pub fn open_quick(&self, catalog: &Catalog, finish: impl Fn(Vec<Answered>)) {
        while let Some(opening) = self.next_quick() {
            let quick = catalog.gate.enter();
            let Opening { path, query, extent, .. } = &opening;
            let result = catalog.open_within(path, query, *extent, Patience::Short, &[]);
            drop(quick);
            finish(self.answered(opening, result).into_iter().collect());
        }
    }

    /// What a thread for the others does: a turn of one file after the other.
    pub fn open_long(&self, catalog: &Catalog, finish: impl Fn(Vec<Answered>)) {
        while let Some(Turn { reading, pass }) = self.next_long() {
            let begun = match pass {
                Some(pass) => Ok(Begun::Pass(pass)),
                None => catalog.begin_pass(&reading.path, reading.streams),
            };
            if matches!(begun, Ok(Begun::Whole)) && !self.may_read_whole(&reading) {
                continue;
            }
            let step = begun.and_then(|begun| match begun {
                Begun::Pass(mut pass) => match pass.turn(catalog)? {
                    pass::Next::Turn(pause) => Ok(Step::Again(pass, pause)),
                    pass::Next::Known(indexed) => Ok(Step::Known(indexed)),
                },
                Begun::Whole | Begun::Known => {
                    catalog.read_whole(&reading.path, reading.streams).map(Step::Known)
                }
            });
            match step {
                Ok(Step::Again(pass, pause)) => {
                    if let Some(indexed) = pass.given_out() {
                        let mut state = self.lock();
                        let long = state.long_of(&reading);
                        let askers = long.map(|long| std::mem::take(&mut long.askers)).unwrap_or_default();
                        drop(state);
                        finish(self.answer(catalog, askers, indexed));
                    }
                    self.put_back(&reading, pass, pause);
                }
                Ok(Step::Known(indexed)) => {
                    finish(self.answer(catalog, self.take_askers(&reading), &indexed));
                }
                Err(failure) => {
                    let askers = self.take_askers(&reading).into_iter();
                    finish(askers.map(|asker| (asker.opening.question, Err(failure.clone()))).collect());
                }
            }
        }
    }

    /// Answers all who can play what there is of a file; the others wait for more of it, or for another file.
    fn answer(&self, catalog: &Catalog, askers: Vec<Asker>, indexed: &Arc<Indexed>) -> Vec<Answered> {
        let answer = |Asker { opening, lacking }: Asker| {
            let Opening { path, query, extent, .. } = &opening;
            let mut held = lacking.held;
            held.push(indexed.clone());
            let result = catalog.open_within(path, query, *extent, Patience::Short, &held);
            self.answered(opening, result)
        };
        askers.into_iter().filter_map(answer).collect()
    }

    /// The answer to an opening; `None` if it has to wait.
    fn answered(&self, opening: Opening, result: Result<Arc<Opened>, NotOpened>) -> Option<Answered> {
        let result = match result {
            Ok(opened) => Ok(opened),
            Err(NotOpened::Because(failure)) => Err(failure),
            Err(NotOpened::TakesLong(lacking)) => {
                self.lock().add_long(Asker { opening, lacking });
                self.has_long.notify_one();
                return None;
            }
        };
        Some((opening.question, result))
    }

    /// Whether a file that is running may be read without turns now. If not, another thread takes it later.
    fn may_read_whole(&self, reading: &Reading) -> bool {
        let mut state = self.lock();
        if let Some(long) = state.long_of(reading) {
            long.is_whole = true;
        }
        let is_one_too_many =
            state.long.iter().filter(|one| one.is_running && one.is_whole).count() > WHOLE_MAX;
        if is_one_too_many && let Some(long) = state.long_of(reading) {
            long.is_running = false;
        }
        !is_one_too_many
    }

    /// Has another turn of a file come after a pause.
    fn put_back(&self, reading: &Reading, pass: Box<Pass>, pause: Duration) {
        let mut state = self.lock();
        if let Some(long) = state.long_of(reading) {
            (long.is_running, long.due, long.turns) = (false, Instant::now() + pause, long.turns + 1);
            long.pass = Some(pass);
        }
        drop(state);
        self.has_long.notify_one();
    }

    fn next_quick(&self) -> Option<Opening> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(opening) = state.quick.pop_front() {
                return Some(opening);
            }
            state = self.has_quick.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What to read next, which is running then.
    fn next_long(&self) -> Option<Turn> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            let now = Instant::now();
            if let Some(number) = state.next_long(now) {
                let long = &mut state.long[number];
                long.is_running = true;
                return Some(Turn { reading: long.reading.clone(), pass: long.pass.take() });
            }
            let due = state.long.iter().filter(|long| state.may_run(long)).map(|long| long.due).min();
            let pause = due.map_or(Duration::MAX, |due| due.saturating_duration_since(now));
            let waited = self.has_long.wait_timeout(state, pause.min(PAUSE_MAX));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// All who have asked for a file by now.
    fn take_askers(&self, reading: &Reading) -> Vec<Asker> {
        let mut state = self.lock();
        let number = state.long.iter().position(|long| long.reading == *reading);
        // A file without turns may have waited for this one.
        self.has_long.notify_one();
        number.map(|number| state.long.remove(number).askers).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a URL that may have a question mark.
    fn opening(question: u64, client: &str, url: &str) -> Opening {
        let client = client.parse().expect("an address");
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let (path, query, extent) = (path.to_owned(), query.to_owned(), Extent::Begun);
        Opening { question: QuestionId(question), client, path, query, extent }
    }

    /// One that waits for the file of its URL.
    fn asker(question: u64, client: &str, url: &str) -> Asker {
        let opening = opening(question, client, url);
        Asker { lacking: Lacking { path: opening.path.clone(), held: Vec::new() }, opening }
    }

    #[test]
    fn a_file_that_takes_long_is_read_once_for_all_and_addresses_take_turns() {
        let openers = Openers::default();
        let (one, other) = ("192.0.2.1", "192.0.2.2");
        for (question, client, path) in
            [(1, one, "a"), (2, one, "b"), (3, other, "c"), (4, other, "a"), (5, one, "d")]
        {
            openers.lock().add_long(asker(question, client, path));
        }
        let next = || openers.next_long().expect("a file").reading.path;
        assert_eq!([next(), next(), next()], ["a", "c", "b"]);
        let asked = |url| {
            let reading = asker(0, one, url).reading();
            openers.take_askers(&reading).iter().map(|one| one.opening.question.0).collect::<Vec<_>>()
        };
        assert_eq!([asked("a"), asked("c"), asked("b")], [vec![1, 4], vec![3], vec![2]]);
        assert_eq!(next(), "d");
        for (question, url) in [(6, "e"), (7, "e?raw"), (8, "e?loop"), (9, "e?start=1&raw")] {
            openers.lock().add_long(asker(question, one, url));
        }
        assert_eq!([next(), next()], ["e", "e"]);
        assert_eq!([asked("e"), asked("e?raw")], [vec![6, 8], vec![7, 9]]);
        openers.end();
        assert!(openers.next_long().is_none() && openers.next_quick().is_none());
    }

    #[test]
    fn who_asks_for_a_list_is_answered_when_each_of_its_files_has_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        // Too long to be opened at once.
        let frames = crate::rig::FRAME.repeat(40_000);
        for name in ["a.aac", "b.aac", "c.aac"] {
            std::fs::write(folder.path().join(name), &frames).expect("a file");
        }
        std::fs::write(folder.path().join("all.m3u"), "a.aac\nb.aac\na.aac\nc.aac\n").expect("a list");
        std::fs::write(folder.path().join("none.m3u"), "a.aac\nb.aac\nmissing.aac\n").expect("a list");
        let (catalog, openers) = (Catalog::of(folder.path(), 9), Openers::default());
        let (sender, answers) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for is_quick in [true, false] {
                let (sender, catalog, openers) = (sender.clone(), &catalog, &openers);
                let finish = move |answered: Vec<Answered>| {
                    answered.into_iter().for_each(|answered| sender.send(answered).expect("a test"));
                };
                scope.spawn(move || {
                    if is_quick {
                        openers.open_quick(catalog, finish)
                    } else {
                        openers.open_long(catalog, finish)
                    }
                });
            }
            let urls = ["all.m3u", "b.aac", "all.m3u?loop", "none.m3u", "c.aac?start=1"];
            for (question, url) in (0..).zip(urls) {
                assert!(openers.open(opening(question, "192.0.2.1", url)));
            }
            let mut files = [None; 5];
            for _ in urls {
                let (question, result) = answers.recv_timeout(Duration::from_secs(60)).expect("an answer");
                files[question.0 as usize] = Some(result.map_or(0, |opened| opened.files.len()));
            }
            openers.end();
            assert_eq!(files, [4, 1, 4, 0, 1].map(Some));
        });
    }

    #[test]
    fn files_without_turns_leave_a_thread_for_those_with_turns() {
        let openers = Openers::default();
        let openings = [(1, "192.0.2.1", "a.avi"), (2, "192.0.2.2", "b.avi"), (3, "192.0.2.3", "c.ts")];
        for (question, client, path) in openings {
            openers.lock().add_long(asker(question, client, path));
        }
        let next = || openers.next_long().expect("a file").reading;
        let [one, other] = [next(), next()];
        assert!(openers.may_read_whole(&one) && !openers.may_read_whole(&other));
        assert_eq!(next().path, "c.ts");
        assert!(openers.lock().next_long(Instant::now()).is_none(), "the other one waits for the first");
        openers.take_askers(&one);
        assert_eq!(next(), other);
        assert!(openers.may_read_whole(&other));
    }

    #[test]
    fn one_address_cannot_take_all_places() {
        let openers = Openers::default();
        let taken = (0..2000).filter(|number| openers.open(opening(*number, "192.0.2.1", "a"))).count();
        assert_eq!(taken, OPENINGS_PER_ADDRESS);
        assert!(openers.open(opening(1, "192.0.2.2", "a")));
    }
}
