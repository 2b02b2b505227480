use super::*;
use forebay_linux::cachestat;
use forebay_policy::price::REPLAYED_FIRST;
use forebay_profile::Identity;
use forebay_protocol::layout::{
    CELL_FREE, CELL_READY, CELL_WRITING, LEASES_NONE, LEASES_UNKNOWN, PATH_CELLS, PathHint, SLOT_CLAIMED,
    replay as replay_state,
};
use rustix::fs::{Advice, CWD, FileType, Mode, OFlags, fadvise, open};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process,
    sync::atomic::{
        AtomicU32,
        Ordering::{Relaxed, Release},
    },
    time::Instant,
};

struct Fixture {
    channel: Arc<Channel>,
    executor: Executor,
    folder: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let folder = std::env::temp_dir().join(format!("forebay-executor-{}-{number}", process::id()));
        fs::create_dir(&folder).unwrap();
        let channel = Arc::new(Channel::create(true).unwrap());
        channel.slot(3).pid.store(process::id(), Relaxed);
        channel.header().slot_states[3].store(SLOT_CLAIMED, Relaxed);
        channel.header().leases.store(LEASES_NONE, Relaxed);
        Self { executor: Executor::new(channel.clone(), Vec::new()), channel, folder }
    }

    fn hint(&self, cell: usize, kind: PathHint, path: &Path) {
        let cell = &self.channel.slot(3).paths[cell];
        let bytes = path.as_os_str().as_bytes();
        for (to, from) in cell.path.iter().zip(bytes) {
            to.store(*from, Relaxed);
        }
        cell.path_len.store(bytes.len() as u32, Relaxed);
        cell.kind.store(kind as u32, Relaxed);
        cell.length.store(u32::MAX, Relaxed);
        cell.state.store(CELL_READY, Release);
        let header = self.channel.header();
        header.doorbell.fetch_add(1, SeqCst);
        if header.sleepers.load(SeqCst) > 0 {
            futex::wake(&header.doorbell, futex::Flags::empty(), 1).unwrap();
        }
    }

    fn wait_until_free(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let cells = &self.channel.slot(3).paths;
        while cells.iter().any(|cell| cell.state.load(Acquire) != CELL_FREE)
            || !self.executor.0.crew.is_idle()
        {
            assert!(Instant::now() < deadline, "hints are left");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn every_hint_is_taken_once() {
    let fixture = Fixture::new();
    let file = fixture.folder.join("file");
    fs::write(&file, vec![1; 300 << 10]).unwrap();
    fixture.executor.start();
    for round in 0..20 {
        for cell in 0..PATH_CELLS {
            let kinds = [PathHint::Lookup, PathHint::LookupNoFollow, PathHint::Directory, PathHint::Data];
            let path = if cell % 8 == 2 { &fixture.folder } else { &file };
            fixture.hint(cell, kinds[(cell + round) % 4], path);
        }
        fixture.wait_until_free();
    }
    assert!(fixture.executor.0.crew.threads() <= THREADS_MAX);
}

#[test]
fn neither_a_fifo_nor_a_missing_file_holds_up_a_hint() {
    let fixture = Fixture::new();
    let fifo = fixture.folder.join("fifo");
    let made = rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    made.unwrap();
    for kind in [PathHint::Lookup, PathHint::Directory, PathHint::Data] {
        fixture.hint(kind as usize, kind, &fifo);
        fixture.hint(10 + kind as usize, kind, &fixture.folder.join("missing"));
    }
    fixture.executor.start();
    fixture.wait_until_free();
    // A reader that had opened it would let a writer in.
    let opened = open(&fifo, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    assert_eq!(opened.unwrap_err(), Errno::NXIO);
}

#[test]
fn data_is_in_memory_afterwards_and_the_access_time_as_it_was() {
    let fixture = Fixture::new();
    let file = fixture.folder.join("file");
    fs::write(&file, vec![1; 1 << 20]).unwrap();
    let opened = fs::File::open(&file).unwrap();
    opened.sync_all().unwrap();
    fadvise(&opened, 0, None, Advice::DontNeed).unwrap();
    let before = fs::metadata(&file).unwrap().atime_nsec();
    fixture.hint(0, PathHint::Data, &file);
    fixture.executor.start();
    fixture.wait_until_free();
    assert_eq!(fs::metadata(&file).unwrap().atime_nsec(), before);
}

#[test]
fn cells_that_make_no_sense_are_freed() {
    let fixture = Fixture::new();
    let cells = &fixture.channel.slot(3).paths;
    fixture.hint(0, PathHint::Lookup, Path::new("relative"));
    fixture.hint(1, PathHint::Lookup, Path::new("/a\0b"));
    fixture.hint(2, PathHint::Lookup, Path::new("/"));
    cells[2].path_len.store(u32::MAX, Relaxed);
    fixture.hint(3, PathHint::Lookup, Path::new("/"));
    cells[3].kind.store(77, Relaxed);
    assert!(fixture.executor.0.take().is_none());
    assert!(cells.iter().all(|cell| cell.state.load(Relaxed) == CELL_FREE));
}

#[test]
fn hints_in_one_folder_are_held_until_one_has_opened_it() {
    let fixture = Fixture::new();
    let paths = ["a/1", "a/2", "b/1"].map(|name| fixture.folder.join(name));
    for (cell, path) in paths.iter().enumerate() {
        fixture.hint(cell, PathHint::Data, path);
    }
    let jobs = &fixture.channel.header().jobs[3];
    let taken = || {
        let job = fixture.executor.0.take()?;
        Some((PathBuf::from(OsStr::from_bytes(&job.path)), job))
    };
    let (first, second) = (taken().unwrap(), taken().unwrap());
    assert_eq!([&first.0, &second.0], [&paths[0], &paths[2]]);
    assert_eq!(first.1.wanted, Wanted::LookUp { follow: true }, "reads would keep the others waiting");
    assert!(taken().is_none() && !fixture.executor.0.has_ready());
    assert_eq!(jobs.load(Relaxed), 2, "what is held is no job yet");
    first.1.ticket.finish();
    let rest: Vec<_> = std::iter::from_fn(taken).collect();
    assert_eq!(rest.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&paths[0], &paths[1]]);
    assert!(rest.iter().all(|(_, job)| matches!(job.wanted, Wanted::Data { .. })));
    rest.iter().for_each(|(_, job)| job.ticket.finish());
    assert_eq!(jobs.load(Relaxed), 1);
    let slot = &fixture.channel.slot(3);
    slot.pid.fetch_add(1, Relaxed);
    second.1.ticket.finish();
    assert!(taken().is_none(), "another process has the slot");
    assert_eq!(jobs.load(Relaxed), 0);
}

#[test]
fn nothing_begins_while_a_program_makes_a_call_again() {
    let fixture = Fixture::new();
    let paths = ["1", "2"].map(|name| fixture.folder.join(name));
    for (cell, path) in paths.iter().enumerate() {
        fixture.hint(cell, PathHint::Data, path);
    }
    let header = fixture.channel.header();
    let begun = || header.jobs_begun.load(Relaxed);
    let first = fixture.executor.0.take().unwrap();
    assert!(fixture.executor.0.take().is_none(), "held until the folder is open");
    assert_eq!(begun(), 1);
    header.quiet_until.store(u64::MAX, Relaxed);
    first.ticket.finish();
    assert!(fixture.executor.0.take().is_none(), "held no longer, but a program waits for what was begun");
    assert_eq!((begun(), header.jobs[3].load(Relaxed)), (0, 0));
    header.quiet_until.store(0, Relaxed);
    let rest: Vec<_> = std::iter::from_fn(|| fixture.executor.0.take()).collect();
    assert_eq!((rest.len(), begun()), (2, 2));
    rest.iter().for_each(|job| job.ticket.finish());
    assert_eq!(begun(), 0);
}

fn data(path: &Path, length: u64, expected: Option<Expected>) -> Fetch {
    Fetch { path: bytes(path), wanted: Wanted::Data { offset: 0, length, expected }, at_us: 0 }
}

fn bytes(path: &Path) -> Arc<[u8]> {
    path.as_os_str().as_bytes().into()
}

/// A file that is not in memory.
fn cold_file(folder: &Path, name: &str, bytes: usize) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, vec![1; bytes]).unwrap();
    let file = fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    path
}

fn cached_pages(path: &Path) -> u64 {
    cachestat(fs::File::open(path).unwrap()).map_or(0, |cached| cached.cached)
}

/// Carries a replay out to its end.
fn replay(fixture: &Fixture, steps: Vec<Fetch>) -> Executor {
    let executor = Executor::new(fixture.channel.clone(), steps);
    executor.start();
    let state = &fixture.channel.header().replay.state;
    let deadline = Instant::now() + Duration::from_secs(60);
    while state.load(Acquire) == replay_state::ON {
        assert!(Instant::now() < deadline, "the replay goes on");
        thread::sleep(Duration::from_millis(1));
    }
    executor
}

#[test]
fn a_replay_brings_all_of_its_files_into_memory() {
    let fixture = Fixture::new();
    let files: Vec<PathBuf> =
        (0..20).map(|number| cold_file(&fixture.folder, &format!("{number}"), 300 << 10)).collect();
    let missing = Fetch {
        path: bytes(&fixture.folder.join("missing")),
        wanted: Wanted::LookUp { follow: true },
        at_us: 0,
    };
    let folder = Fetch { path: bytes(&fixture.folder), wanted: Wanted::Directory, at_us: 0 };
    let steps = [missing, folder].into_iter().chain(files.iter().map(|file| data(file, 300 << 10, None)));
    replay(&fixture, steps.collect());
    let figures = &fixture.channel.header().replay;
    assert_eq!(figures.state.load(Relaxed), replay_state::OVER);
    assert_eq!(figures.steps.load(Relaxed), 2 + 20 * 3);
    // A file system in memory makes no step wait, so that only samples of the later ones are carried out.
    for file in &files[..(REPLAYED_FIRST - 2) / 3] {
        assert_eq!(cached_pages(file), 75, "{}", file.display());
    }
}

#[test]
fn of_a_file_that_has_changed_only_the_beginning_is_read() {
    let fixture = Fixture::new();
    let file = cold_file(&fixture.folder, "file", 300 << 10);
    let identity = Identity { dev: 0, ino: 1, size: 2, mtime_ns: 3 };
    let other = Expected { identity, beginning_if_changed: true };
    replay(&fixture, vec![data(&file, 300 << 10, Some(other))]);
    let figures = &fixture.channel.header().replay;
    assert_eq!(figures.changed.load(Relaxed), 3);
    assert_eq!(figures.bytes.load(Relaxed), 4 << 10);
}

#[test]
fn neither_a_fifo_nor_nonsense_holds_a_replay_up() {
    let fixture = Fixture::new();
    let fifo = fixture.folder.join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let wanted = [
        Wanted::Directory,
        Wanted::Link,
        Wanted::LookUp { follow: false },
        Wanted::Data { offset: u64::MAX, length: u64::MAX, expected: None },
        Wanted::Data { offset: 0, length: 1, expected: None },
    ];
    let paths = [fifo.as_path(), Path::new("/"), Path::new("/proc/self/cwd/x"), Path::new("/dev/tty")];
    let steps = paths.iter().flat_map(|path| {
        wanted.iter().map(|wanted| Fetch { path: bytes(path), wanted: wanted.clone(), at_us: 0 })
    });
    replay(&fixture, steps.collect());
    assert_eq!(open(&fifo, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).unwrap_err(), Errno::NXIO);
}

#[test]
fn a_replay_opens_no_file_while_a_lease_may_exist_and_none_after_it_was_stopped() {
    let fixture = Fixture::new();
    let file = cold_file(&fixture.folder, "file", 4 << 10);
    let header = fixture.channel.header();
    header.leases.store(LEASES_UNKNOWN, Relaxed);
    let executor = Executor::new(fixture.channel.clone(), vec![data(&file, 4 << 10, None)]);
    let job = executor.0.take().unwrap();
    assert_eq!(job.wanted, Wanted::LookUp { follow: true });
    let _ = executor.0.fetcher.carry_out(&job);
    assert!(executor.0.take().is_none() && !executor.0.has_ready());
    assert_eq!(cached_pages(&file), 0);
    header.leases.store(LEASES_NONE, Relaxed);
    assert!(executor.0.has_ready());
    header.replay.state.store(replay_state::STOPPED, Relaxed);
    assert!(executor.0.take().is_none() && !executor.0.has_ready());
}

#[test]
fn look_ups_do_not_wait_for_what_is_known_of_leases() {
    let fixture = Fixture::new();
    let file = cold_file(&fixture.folder, "file", 4 << 10);
    let look_up = |name: &str| Fetch {
        path: bytes(&fixture.folder.join(name)),
        wanted: Wanted::LookUp { follow: true },
        at_us: 0,
    };
    let header = fixture.channel.header();
    header.leases.store(LEASES_UNKNOWN, Relaxed);
    let steps = vec![data(&file, 4 << 10, None), look_up("a/file"), look_up("b/file")];
    let executor = Executor::new(fixture.channel.clone(), steps);
    let taken = || executor.0.take().map(|job| job.origin);
    let replay = |step, is_whole| Some(Origin::Replay { step, is_whole });
    assert_eq!([taken(), taken(), taken()], [replay(0, false), replay(1, true), replay(2, true)]);
    assert!(taken().is_none() && !executor.0.has_ready());
    header.leases.store(LEASES_NONE, Relaxed);
    assert!(executor.0.has_ready());
    assert_eq!([taken(), taken()], [replay(0, true), None]);
}

#[test]
fn a_step_that_takes_too_long_is_not_waited_for() {
    let fixture = Fixture::new();
    let look_up = |name: &str| Fetch {
        path: bytes(&fixture.folder.join(name)),
        wanted: Wanted::LookUp { follow: true },
        at_us: 0,
    };
    let executor = Executor::new(fixture.channel.clone(), vec![look_up("a"), look_up("b")]);
    let job = executor.0.take().unwrap();
    assert!(executor.0.take().is_none() && !executor.0.has_ready(), "its folder is not open yet");
    let state = &fixture.channel.header().replay.state;
    job.ticket.finish();
    assert_eq!(state.load(Relaxed), replay_state::ON);
    let job = executor.0.take().unwrap();
    assert_eq!(job.origin, Origin::Replay { step: 1, is_whole: true });
    job.ticket.finish();
    assert_eq!(state.load(Relaxed), replay_state::OVER);
}

#[test]
fn a_cell_whose_writer_died_is_freed_at_the_second_sweep() {
    let fixture = Fixture::new();
    let state = &fixture.channel.slot(3).paths[9].state;
    state.store(CELL_WRITING, Relaxed);
    let mut sweep = Sweep::default();
    sweep.run(&fixture.channel);
    assert_eq!(state.load(Relaxed), CELL_WRITING);
    sweep.run(&fixture.channel);
    assert_eq!(state.load(Relaxed), CELL_FREE);
}
