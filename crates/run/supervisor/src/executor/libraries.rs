//! The libraries that a program's dynamic loader is about to need. The loader goes from one to the next, and waits for each.
//! The executor examines many at a time, and reads ahead what the loader and the first instructions touch.

mod elf;
mod loaded;
mod search;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    env,
    os::fd::BorrowedFd,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::Ordering::{Acquire, Relaxed, Release},
    },
};

use forebay_policy::{
    price::{CODE_USED_ONE_IN, IN_FLIGHT_FIRST, LIBRARIES_IN_MEMORY_MAX},
    storm::Prices,
};
use forebay_protocol::layout::{
    CELL_FREE, CELL_READY, GO, LEASES_UNKNOWN, MEMORY_SHORT, PATH_BYTES, ProgramCell, replay,
};
use rustix::io::pread;

use self::{
    elf::Code,
    loaded::Loaded,
    search::{Search, Searched},
};
use super::{Done, Fetch, Job, Origin, Wanted, fetch::CHUNK_BYTES, replay::in_chunks, wake};
use crate::{
    channel::Channel,
    devices::{Ticket, limit_of, reads_far_ahead},
    examine::program_file,
};

/// Jobs for libraries come after all hints.
const NUMBER_FIRST: u64 = 1 << 62;
/// The library whose code every program uses, in many places.
const C_LIBRARY: &[u8] = b"/libc.so.6";
/// What is read of the rest of code on a device of which nothing is known, and which tells: so many pieces.
const REST_FIRST_BYTES: u64 = 2 * IN_FLIGHT_FIRST as u64 * CHUNK_BYTES;
/// Libraries of a run, at most.
const LIBRARIES_MAX: usize = 4096;
/// Processes whose libraries are remembered, most of which have ended when there are so many.
const PROCESSES_MAX: usize = 256;

/// What an ELF file needs of the loader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Library {
    /// What of it is touched when it is mapped, as offsets and lengths.
    mapped: Vec<(u64, u64)>,
    /// What is touched when all libraries are mapped, until the program begins, and at its end.
    started: Vec<(u64, u64)>,
    /// What of it is touched later, if at all.
    rest: Vec<(u64, u64)>,
    /// The names of the libraries that it needs.
    needed: Vec<Box<[u8]>>,
    /// Where the loader looks for these first.
    searched: Searched,
}

impl Library {
    /// What the file at `path` says; `None` of one that the loader would not take.
    pub fn read(path: &[u8], file: BorrowedFd<'_>) -> Option<Self> {
        let code = if path.ends_with(C_LIBRARY) { Code::Whole } else { Code::Ends };
        elf::read(code, |offset, buffer| pread(file, buffer, offset).unwrap_or(0))
    }

    /// The same, of which no part is read: the kernel reads far around each page fault.
    fn without_parts(self) -> Self {
        Self { mapped: Vec::new(), started: Vec::new(), rest: Vec::new(), ..self }
    }
}

/// The libraries of programs, handed out as jobs.
pub struct Libraries {
    channel: Arc<Channel>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    search: Search,
    is_begun: bool,
    /// By processes, what came of the libraries that they have looked up.
    loaded: HashMap<u32, Loaded>,
    /// Programs, and what they need.
    files: Vec<File>,
    /// Paths of the programs, and names of the libraries.
    names: HashSet<Box<[u8]>>,
    /// Files that are to be examined, in the order of the loader.
    ready: VecDeque<usize>,
    /// Parts of files that have been examined: what the loader touches before it goes to the next, and after.
    mapped: VecDeque<(u32, Fetch)>,
    started: VecDeque<(u32, Fetch)>,
    /// The rest of files of which no part is known to have been read by a device, by their paths, and of all others.
    rest: HashMap<Arc<[u8]>, Vec<(u32, Fetch)>>,
    rest_of_cold: VecDeque<(u32, Fetch)>,
    rest_bytes: u64,
    /// The device of the last file.
    device: u64,
    /// Files in a row that were in memory.
    in_memory: u32,
    jobs: u64,
}

struct File {
    /// Where it may lie, in the order of the loader.
    paths: VecDeque<Arc<[u8]>>,
    /// Where the libraries that it needs are searched first, whatever itself says.
    inherited: Searched,
    /// The process whose root its paths begin at; 0 for this one's.
    process: u32,
}

impl Libraries {
    /// Of programs that are not known yet.
    pub fn new(channel: Arc<Channel>) -> Self {
        Self { channel, state: Mutex::default() }
    }

    /// Begins with those of `program`, or of the interpreter that its `#!` line leads to. Until then it has no jobs.
    pub fn begin(&self, program: &Path) {
        let Some((path, _)) = program_file(program) else { return };
        let search = Search::new(env::var_os("LD_LIBRARY_PATH").as_deref());
        let mut state = self.state();
        state.search = search;
        state.is_begun = true;
        state.begin(path.into_os_string().into_encoded_bytes().into(), 0);
        drop(state);
        wake(&self.channel);
    }

    /// The next job.
    pub fn take(&self) -> Option<Job> {
        if !self.may_open() {
            return None;
        }
        let mut state = self.state();
        if state.is_begun {
            for told in self.channel.header().libraries.programs.iter().filter_map(Told::take) {
                if !told.is_library || state.may_be_loaded(&told) {
                    state.begin(told.path, told.process);
                }
            }
        }
        let next = state.next()?;
        Some(state.job(next))
    }

    /// The next job for what programs may touch of their code after they have begun. It is worth it where the device serves many
    /// requests at once, and as far as there is memory.
    pub fn take_rest(&self) -> Option<Job> {
        let mut state = self.state();
        if !self.may_take_rest(&state) {
            return None;
        }
        let (process, fetch) = state.rest_of_cold.pop_front()?;
        state.rest_bytes += CHUNK_BYTES;
        Some(state.job(Next { file: None, process, fetch }))
    }

    /// Whether there is one.
    pub fn has_rest(&self) -> bool {
        let state = self.state();
        !state.rest_of_cold.is_empty() && self.may_take_rest(&state)
    }

    fn may_take_rest(&self, state: &State) -> bool {
        let header = self.channel.header();
        let pays = || {
            let limit = limit_of(header, state.device.wrapping_add(1));
            let prices = Prices::of(&limit, header.ticks_per_second.load(Relaxed));
            match limit.serves_at_once() {
                Some(_) => prices.pay_for_one_in(CODE_USED_ONE_IN),
                None => state.rest_bytes < REST_FIRST_BYTES,
            }
        };
        self.may_open()
            && header.memory.load(Relaxed) != MEMORY_SHORT
            && state.rest_bytes < header.horizon_bytes.load(Relaxed)
            && pays()
    }

    /// Whether there is one.
    pub fn has_ready(&self) -> bool {
        if !self.may_open() {
            return false;
        }
        let state = self.state();
        let is_told = |cell: &ProgramCell| cell.state.load(Relaxed) == CELL_READY;
        state.is_begun && self.channel.header().libraries.programs.iter().any(is_told)
            || !state.ready.is_empty()
            || !state.mapped.is_empty()
            || !state.started.is_empty()
    }

    /// A job is done: of the file at this place, or for a part of one.
    pub fn on_done(&self, job: &Job, file: Option<usize>, done: Done) {
        let figures = &self.channel.header().libraries;
        match (file, done.library) {
            (Some(file), Some(library)) => {
                figures.files.fetch_add(done.waited.is_some().into(), Relaxed);
                let is_far = done.device.is_some_and(|device| reads_far_ahead(self.channel.header(), device));
                let library = if is_far { library.without_parts() } else { library };
                let mut state = self.state();
                state.on_read(file, &job.path, library, done.waited.is_some());
                if done.waited.is_some() {
                    state.on_cold(&job.path, done.device);
                }
            }
            (Some(file), None) => self.state().on_refused(file),
            (None, _) if done.waited.is_some() => {
                figures.bytes.fetch_add(done.bytes, Relaxed);
                self.state().on_cold(&job.path, done.device);
            }
            (None, _) => {}
        }
    }

    /// No file is opened while a lease may exist that this would break.
    fn may_open(&self) -> bool {
        let header = self.channel.header();
        header.leases.load(Acquire) != LEASES_UNKNOWN
            && header.control.load(Relaxed) == GO
            && header.files_watched.load(Relaxed) == 0
            && header.replay.state.load(Relaxed) != replay::STOPPED
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A program or library that an agent told of.
struct Told {
    path: Arc<[u8]>,
    process: u32,
    is_library: bool,
}

impl Told {
    /// Out of untrusted memory.
    fn take(cell: &ProgramCell) -> Option<Self> {
        if cell.state.load(Acquire) != CELL_READY {
            return None;
        }
        let length = usize::try_from(cell.path_len.load(Relaxed)).ok().filter(|length| *length < PATH_BYTES);
        let path: Option<Arc<[u8]>> =
            length.map(|length| cell.path[..length].iter().map(|byte| byte.load(Relaxed)).collect());
        let (process, is_library) = (cell.process.load(Relaxed), cell.is_library.load(Relaxed) != 0);
        cell.state.store(CELL_FREE, Release);
        let path = path.filter(|path| path.first() == Some(&b'/') && !path.contains(&0))?;
        Some(Self { path, process, is_library })
    }
}

/// What is to be done next.
struct Next {
    /// A file that is to be examined, or none for a part of one.
    file: Option<usize>,
    process: u32,
    fetch: Fetch,
}

impl State {
    /// A program that is executed by `process`.
    fn begin(&mut self, path: Arc<[u8]>, process: u32) {
        if self.names.insert(path[..].into()) {
            self.in_memory = 0;
            self.add([path].into(), Searched::default(), process);
        }
    }

    /// Whether the library is to be read ahead, by what its process has loaded so far.
    fn may_be_loaded(&mut self, told: &Told) -> bool {
        if self.loaded.len() >= PROCESSES_MAX {
            self.loaded.clear();
        }
        self.loaded.entry(told.process).or_default().may_add(told)
    }

    fn add(&mut self, paths: VecDeque<Arc<[u8]>>, inherited: Searched, process: u32) {
        if self.files.len() < LIBRARIES_MAX && !paths.is_empty() {
            self.ready.push_back(self.files.len());
            self.files.push(File { paths, inherited, process });
        }
    }

    /// In the order of the loader.
    fn next(&mut self) -> Option<Next> {
        let part = |(process, fetch)| Next { file: None, process, fetch };
        if let Some(mapped) = self.mapped.pop_front() {
            return Some(part(mapped));
        }
        while let Some(place) = self.ready.pop_front() {
            let Some(file) = self.files.get_mut(place) else { continue };
            if let Some(path) = file.paths.pop_front() {
                let fetch = Fetch { path, wanted: Wanted::Library, at_us: 0 };
                return Some(Next { file: Some(place), process: file.process, fetch });
            }
        }
        self.started.pop_front().map(part)
    }

    /// A file was examined that the loader takes.
    fn on_read(&mut self, file: usize, path: &Arc<[u8]>, library: Library, has_waited: bool) {
        self.in_memory = if has_waited { 0 } else { self.in_memory + 1 };
        // The first one is the program, which the kernel has just read.
        if self.in_memory > LIBRARIES_IN_MEMORY_MAX {
            self.ready.clear();
            self.mapped.clear();
            self.started.clear();
            self.rest.clear();
            self.rest_of_cold.clear();
            return;
        }
        let Some(File { inherited, process, .. }) = self.files.get(file) else { return };
        let (inherited, process) = (inherited.clone(), *process);
        let parts = |ranges: Vec<(u64, u64)>| {
            let part = |(offset, length)| Fetch {
                at_us: 0,
                path: path.clone(),
                wanted: Wanted::Data { offset, length, expected: None },
            };
            ranges.into_iter().map(part).flat_map(in_chunks).map(|fetch| (process, fetch)).collect::<Vec<_>>()
        };
        self.mapped.extend(parts(library.mapped));
        self.started.extend(parts(library.started));
        let mut rest = parts(library.rest);
        if !rest.is_empty() {
            // The kernel and the program may have read the ends by now. This piece tells of the others.
            self.started.push_back(rest.remove(rest.len() / 2));
        }
        self.rest.insert(path.clone(), rest);
        let searched = library.searched.from(path, &inherited);
        for name in library.needed {
            if self.names.insert(name.clone()) {
                let paths = self.search.paths(&name, &searched);
                self.add(paths, searched.inherited(), process);
            }
        }
    }

    /// A device was asked for a part of the file at this path.
    fn on_cold(&mut self, path: &Arc<[u8]>, device: Option<u64>) {
        self.device = device.unwrap_or(self.device);
        self.rest_of_cold.extend(self.rest.remove(path).unwrap_or_default());
    }

    fn job(&mut self, Next { file, process, fetch }: Next) -> Job {
        self.jobs += 1;
        Job {
            origin: Origin::Library { process, file },
            number: NUMBER_FIRST + self.jobs,
            path: fetch.path,
            wanted: fetch.wanted,
            open: None,
            ticket: Ticket::new(|| {}),
        }
    }

    /// Nothing that the loader takes is at the last path of a file.
    fn on_refused(&mut self, file: usize) {
        if self.files.get(file).is_some_and(|file| !file.paths.is_empty()) {
            self.ready.push_front(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_policy::inflight::InflightLimit;
    use forebay_protocol::layout::{LEASES_NONE, file_system};

    use super::*;

    fn library(needed: &[&str]) -> Library {
        let needed = needed.iter().map(|name| name.as_bytes().into()).collect();
        Library { mapped: vec![(8, 8)], started: vec![(0, 200 << 10)], needed, ..Library::default() }
    }

    fn program() -> State {
        let mut state = State::default();
        state.begin(Arc::from(&b"/bin/program"[..]), 0);
        state
    }

    fn taken(state: &mut State) -> Option<(Option<usize>, String)> {
        state.next().map(|next| (next.file, String::from_utf8(next.fetch.path.to_vec()).unwrap()))
    }

    #[test]
    fn libraries_come_in_the_order_of_the_loader_and_once_each() {
        let mut state = program();
        assert_eq!(taken(&mut state), Some((Some(0), "/bin/program".to_owned())));
        let path: Arc<[u8]> = Arc::from(&b"/bin/program"[..]);
        state.on_read(0, &path, library(&["/a.so", "/b.so"]), true);
        assert_eq!(taken(&mut state), Some((None, "/bin/program".to_owned())));
        assert_eq!(taken(&mut state), Some((Some(1), "/a.so".to_owned())));
        state.on_read(1, &Arc::from(&b"/a.so"[..]), library(&["/b.so", "/c.so"]), true);
        assert_eq!(taken(&mut state), Some((None, "/a.so".to_owned())));
        assert_eq!(taken(&mut state), Some((Some(2), "/b.so".to_owned())));
        assert_eq!(taken(&mut state), Some((Some(3), "/c.so".to_owned())));
        // 200 KiB are two pieces.
        let parts: Vec<_> = std::iter::from_fn(|| taken(&mut state)).map(|(_, path)| path).collect();
        assert_eq!(parts, ["/bin/program", "/bin/program", "/a.so", "/a.so"]);
    }

    #[test]
    fn nothing_more_is_examined_once_many_in_a_row_were_in_memory() {
        let mut state = program();
        let names: Vec<String> = (0..100).map(|number| format!("/{number}.so")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let path: Arc<[u8]> = Arc::from(&b"/bin/program"[..]);
        let _ = state.next();
        state.on_read(0, &path, library(&names), false);
        let mut examined = 0;
        while let Some(Next { file, fetch, .. }) = state.next() {
            let Some(file) = file else { continue };
            examined += 1;
            state.on_read(file, &fetch.path, library(&[]), false);
        }
        assert_eq!(examined, LIBRARIES_IN_MEMORY_MAX);
        assert!(state.started.is_empty());
    }

    #[test]
    fn what_an_agent_tells_of_is_taken_once_programs_are_read_ahead() {
        let channel = Arc::new(Channel::create(true).unwrap());
        let libraries = Libraries::new(channel.clone());
        channel.header().leases.store(LEASES_NONE, Relaxed);
        let tell = |cell: usize, path: &[u8]| {
            let cell = &channel.header().libraries.programs[cell];
            for (to, from) in cell.path.iter().zip(path) {
                to.store(*from, Relaxed);
            }
            cell.path_len.store(path.len() as u32, Relaxed);
            cell.process.store(77, Relaxed);
            cell.state.store(CELL_READY, Relaxed);
        };
        tell(0, b"/bin/true");
        assert!(!libraries.has_ready() && libraries.take().is_none());
        libraries.begin(Path::new("/bin/false"));
        for (cell, path) in
            [(1, &b"relative"[..]), (2, b"/a\0b"), (3, b"/bin/true"), (4, &[b'/'; PATH_BYTES])]
        {
            tell(cell, path);
        }
        assert!(libraries.has_ready());
        let jobs: Vec<Job> = std::iter::from_fn(|| libraries.take()).collect();
        let taken: Vec<_> = jobs.iter().map(|job| (&job.path[..], job.origin)).collect();
        let expected = [(&b"/bin/false"[..], 0, 0), (b"/bin/true", 77, 1)]
            .map(|(path, process, file)| (path, Origin::Library { process, file: Some(file) }));
        assert_eq!(taken, expected);
        assert!(channel.header().libraries.programs.iter().all(|cell| cell.state.load(Relaxed) == CELL_FREE));
    }

    #[test]
    fn the_rest_of_code_is_read_of_cold_files_where_the_device_serves_many_at_once() {
        const DEVICE: u64 = 7;
        let channel = Arc::new(Channel::create(true).unwrap());
        let libraries = Libraries::new(channel.clone());
        let header = channel.header();
        header.leases.store(LEASES_NONE, Relaxed);
        let path: Arc<[u8]> = Arc::from(&b"/bin/program"[..]);
        let rest = vec![(0, 100 * CHUNK_BYTES)];
        {
            let mut state = libraries.state();
            state.begin(path.clone(), 0);
            state.on_read(0, &path, Library { rest, ..Library::default() }, false);
            let sample = std::iter::from_fn(|| state.next()).last().map(|next| next.fetch.wanted);
            let middle = Wanted::Data { offset: 50 * CHUNK_BYTES, length: CHUNK_BYTES, expected: None };
            assert_eq!(sample, Some(middle));
        }
        assert!(!libraries.has_rest() && libraries.take_rest().is_none(), "it may be in memory");
        libraries.state().on_cold(&path, Some(DEVICE));
        let taken = || std::iter::from_fn(|| libraries.take_rest()).count() as u64;
        assert_eq!(taken() * CHUNK_BYTES, REST_FIRST_BYTES, "the device is not known");

        let device = &header.devices[0];
        device.id.store(DEVICE + 1, Relaxed);
        let ms = header.ticks_per_second.load(Relaxed) / 1_000;
        let known = |served_at_once: u32| {
            let mut limit = InflightLimit::new();
            (0..1_000).for_each(|_| {
                let depth = limit.limit();
                let taken = ms * u64::from(depth.max(served_at_once)) / u64::from(served_at_once);
                limit.on_completion(taken, depth);
            });
            limit.store(&device.limit);
        };
        known(1);
        assert!(!libraries.has_rest() && libraries.take_rest().is_none());
        known(64);
        header.horizon_bytes.store(20 * CHUNK_BYTES, Relaxed);
        assert_eq!(taken() * CHUNK_BYTES + REST_FIRST_BYTES, 20 * CHUNK_BYTES, "so much memory there is");
        header.horizon_bytes.store(u64::MAX, Relaxed);
        assert_eq!(taken(), 99 - 20);
    }

    #[test]
    fn no_part_of_a_file_is_read_where_the_kernel_reads_far_ahead() {
        const DEVICE: u64 = 7;
        let channel = Arc::new(Channel::create(true).unwrap());
        let libraries = Libraries::new(channel.clone());
        let header = channel.header();
        header.leases.store(LEASES_NONE, Relaxed);
        header.devices[0].id.store(DEVICE + 1, Relaxed);
        let parts = |bits, path: &'static [u8]| {
            header.devices[0].file_system.store(bits, Relaxed);
            libraries.state().begin(path.into(), 0);
            let job = libraries.take().unwrap();
            let Origin::Library { file, .. } = job.origin else { panic!("{:?}", job.origin) };
            let all = || vec![(0, CHUNK_BYTES)];
            let library = Library { mapped: all(), started: all(), rest: all(), ..Library::default() };
            let done = Done { library: Some(library), device: Some(DEVICE), ..Done::default() };
            libraries.on_done(&job, file, done);
            std::iter::from_fn(|| libraries.take()).count()
        };
        assert_eq!(parts(0, b"/bin/near"), 3);
        assert_eq!(parts(file_system::READS_FAR_AHEAD, b"/bin/far"), 0);
    }

    #[test]
    fn a_file_is_tried_at_each_of_its_paths() {
        let mut state = State::default();
        let paths = ["/first/a.so", "/second/a.so"].map(|path| Arc::from(path.as_bytes()));
        state.add(paths.into(), Searched::default(), 0);
        assert_eq!(taken(&mut state), Some((Some(0), "/first/a.so".to_owned())));
        state.on_refused(0);
        assert_eq!(taken(&mut state), Some((Some(0), "/second/a.so".to_owned())));
        state.on_refused(0);
        assert_eq!(taken(&mut state), None);
    }
}
