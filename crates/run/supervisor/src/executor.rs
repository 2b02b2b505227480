//! Carries out the hints that may block: path lookups, directories, and data of files that a speculator could only name.
//!
//! The executor is a process beside the supervisor. It starts with two threads, and another one starts while all are busy. They
//! end with the supervisor, even one that waits for a file system that does not answer.

use std::{
    collections::HashMap,
    fs,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::fs::MetadataExt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
        },
    },
    thread,
    time::Duration,
};

use forebay_linux::{
    cachestat, kernel_text,
    process::{Apart, start_apart},
};
use forebay_protocol::layout::{
    CELL_FREE, CELL_READY, CELL_TAKEN, CELL_WRITING, LEASES_NONE, LEASES_UNKNOWN, PATH_BYTES, PATH_CELLS,
    PathCell, PathHint, SLOT_CLAIMED, SLOTS,
};
use rustix::{
    fs::{
        Advice, AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, StatVfsMountFlags, StatxFlags,
        fadvise, fstatvfs, makedev, open, openat2, statx,
    },
    io::{Errno, pread},
    thread::futex,
};

use crate::{
    channel::Channel,
    devices::{Devices, Keeping, Requests, Ticket},
    ffi,
};

/// As many reads as a fast device has in flight at once.
pub const THREADS_MAX: usize = 128;
/// Threads that stay when there is nothing to do.
const THREADS_KEPT: usize = 2;
const STACK_BYTES: usize = 64 << 10;
/// A thread that has nothing to do for so long looks around, in case a wake-up was lost with its sender, and ends if it
/// is one of many.
const IDLE: Duration = Duration::from_millis(500);
const DEVICE_UNKNOWN: u64 = u64::MAX;
/// Most of a directory that is read.
const DIRECTORY_BYTES_MAX: usize = 1 << 20;
/// The kernel cuts a longer readahead short (`read_ahead_kb`).
const CHUNK_BYTES: u64 = 128 << 10;

/// The pool of threads.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

struct Shared {
    channel: Arc<Channel>,
    threads: AtomicUsize,
    busy: AtomicUsize,
    /// The number of the next job.
    next_job: AtomicU64,
    /// Where to go on looking for hints in each slot, which are filled in turn.
    cursors: [AtomicUsize; SLOTS],
    /// `st_dev` of what each slot's last hint found, and so probably of the next; [`DEVICE_UNKNOWN`] at first.
    last_devices: [AtomicU64; SLOTS],
    /// Root directories of the processes that have slots, as of their last forks.
    roots: Mutex<HashMap<Asking, Root>>,
    devices: Devices,
}

/// A process that hints are made for: its slot, its number, and its newest speculator's generation, since it may change its root
/// and its user between two.
type Asking = (usize, u32, u32);

/// The directory that a process's absolute paths start at.
#[derive(Clone)]
enum Root {
    /// The supervisor's own.
    Ours,
    /// Another, or another mount namespace's.
    Theirs(Arc<OwnedFd>),
    /// The process has not this one's rights: nothing is looked up for it.
    Barred,
}

/// A hint, taken out of its cell.
struct Job {
    slot: usize,
    kind: PathHint,
    /// In the order in which they were taken.
    number: u64,
    offset: u64,
    length: u64,
    /// Absolute, without a zero byte inside; terminated by the buffer's zeros.
    path: [u8; PATH_BYTES],
    path_len: usize,
    /// The cell to free when the job is done.
    cell: Option<usize>,
    /// What its requests are known by.
    ticket: Ticket,
}

impl Executor {
    /// A pool for `channel`, without a thread.
    pub fn new(channel: Arc<Channel>) -> Self {
        Self(Arc::new(Shared {
            devices: Devices::new(channel.clone()),
            channel,
            threads: AtomicUsize::new(0),
            next_job: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            cursors: [const { AtomicUsize::new(0) }; SLOTS],
            last_devices: [const { AtomicU64::new(DEVICE_UNKNOWN) }; SLOTS],
            roots: Mutex::default(),
        }))
    }

    /// Starts a pool in a process of its own, which ends with this one; none where the system refuses a process.
    pub fn start_apart(channel: &Arc<Channel>) -> Option<Apart> {
        let work = || {
            // Without a name it is only harder to find.
            let _ = rustix::thread::set_name(c"forebay:hints");
            let executor = Self::new(channel.clone());
            executor.start();
            executor.0.devices.watch();
        };
        start_apart(work).ok()
    }

    /// Starts the first thread; it starts the others as they are needed.
    pub fn start(&self) {
        if self.0.threads.load(Relaxed) == 0 {
            grow(&self.0);
        }
    }
}

/// Adds a thread; without one more the hints only wait longer.
fn grow(shared: &Arc<Shared>) {
    if shared.threads.fetch_add(1, AcqRel) >= THREADS_MAX {
        shared.threads.fetch_sub(1, AcqRel);
        return;
    }
    let theirs = shared.clone();
    let builder = thread::Builder::new().name("forebay:hints".into()).stack_size(STACK_BYTES);
    if builder.spawn(move || work(&theirs)).is_err() {
        shared.threads.fetch_sub(1, AcqRel);
    }
}

fn work(shared: &Arc<Shared>) {
    let header = shared.channel.header();
    let timeout = futex::Timespec { tv_sec: 0, tv_nsec: IDLE.subsec_nanos().into() };
    loop {
        let rung = header.doorbell.load(Acquire);
        while let Some(job) = shared.take() {
            let busy = shared.busy.fetch_add(1, AcqRel) + 1;
            if busy == shared.threads.load(Acquire) && shared.has_ready() {
                grow(shared);
            }
            shared.carry_out(&job);
            shared.busy.fetch_sub(1, AcqRel);
        }
        header.sleepers.fetch_add(1, SeqCst);
        let woken = futex::wait(&header.doorbell, futex::Flags::empty(), rung, Some(&timeout));
        header.sleepers.fetch_sub(1, SeqCst);
        let spare = |threads| (threads > THREADS_KEPT).then(|| threads - 1);
        if woken == Err(Errno::TIMEDOUT) && shared.threads.fetch_update(AcqRel, Acquire, spare).is_ok() {
            return;
        }
    }
}

impl Shared {
    /// The next hint of any slot.
    fn take(&self) -> Option<Job> {
        self.channel.slots_in(SLOT_CLAIMED).find_map(|slot| self.take_from(slot))
    }

    fn take_from(&self, slot: usize) -> Option<Job> {
        let cells = &self.channel.slot(slot).paths;
        let cursor = self.cursors[slot].load(Relaxed);
        let may_open_files = self.channel.header().leases.load(Acquire) != LEASES_UNKNOWN;
        for step in 0..PATH_CELLS {
            let index = (cursor + step) % PATH_CELLS;
            let cell = &cells[index];
            if !may_open_files && cell.kind.load(Relaxed) == PathHint::Data as u32 {
                continue;
            }
            if cell.state.load(Relaxed) == CELL_READY && self.begin(slot, cell) {
                self.cursors[slot].store(index + 1, Relaxed);
                let number = self.next_job.fetch_add(1, Relaxed);
                let job = read_cell(&self.channel, slot, number, cell);
                // Free as soon as it is copied: the queue is for hints that no thread has yet. A directory's cell is
                // free when the directory is read, which its speculator waits for.
                match job {
                    Some(mut job) if job.kind == PathHint::Directory => {
                        job.cell = Some(index);
                        let channel = self.channel.clone();
                        job.ticket = Ticket::new(move || finish(&channel, slot, Some(index)));
                        return Some(job);
                    }
                    _ => cell.state.store(CELL_FREE, Release),
                }
                if job.is_some() {
                    return job;
                }
                finish(&self.channel, slot, None);
            }
        }
        None
    }

    /// Takes a cell, unless another thread has or the process is about to end: it waits for the job then.
    fn begin(&self, slot: usize, cell: &PathCell) -> bool {
        self.channel.header().jobs[slot].fetch_add(1, SeqCst);
        let taken = self.channel.header().slot_states[slot].load(SeqCst) == SLOT_CLAIMED
            && cell.state.compare_exchange(CELL_READY, CELL_TAKEN, Acquire, Relaxed).is_ok();
        if !taken {
            finish(&self.channel, slot, None);
        }
        taken
    }

    fn has_ready(&self) -> bool {
        let ready = |slot| {
            let cells = &self.channel.slot(slot).paths;
            let waits = |cell: &PathCell| {
                cell.kind.load(Relaxed) == PathHint::Data as u32
                    && self.channel.header().leases.load(Relaxed) == LEASES_UNKNOWN
            };
            cells.iter().any(|cell| cell.state.load(Relaxed) == CELL_READY && !waits(cell))
        };
        self.channel.slots_in(SLOT_CLAIMED).any(ready)
    }

    /// Hints are advice: whatever fails, the program finds out itself.
    fn carry_out(&self, job: &Job) {
        let _ = self.try_carry_out(job);
        job.ticket.finish();
    }

    fn try_carry_out(&self, job: &Job) -> Result<(), Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        let (found, status) = {
            let device = self.last_devices[job.slot].load(Relaxed);
            let _turn = self.devices.turn(device, &job.ticket, Requests::Some).ok_or(Errno::TIMEDOUT)?;
            let found = self.step(job, device, || self.look_up(job))?;
            let status = statx(&found, c"", flags, StatxFlags::BASIC_STATS)?;
            (found, status)
        };
        let device = makedev(status.stx_dev_major, status.stx_dev_minor);
        self.last_devices[job.slot].store(device, Relaxed);
        match (job.kind, FileType::from_raw_mode(status.stx_mode.into())) {
            // The kernel keeps no names of a remote file system that a listing gave to another descriptor.
            (PathHint::Directory, FileType::Directory) if !self.devices.is_remote(device) => {
                let turn = self.devices.turn(device, &job.ticket, Requests::Some);
                let _turn = turn.ok_or(Errno::TIMEDOUT)?;
                self.step(job, device, || read_directory(&reopen(&found, OFlags::DIRECTORY)?))
            }
            (PathHint::Data, FileType::RegularFile)
                if self.channel.header().leases.load(Acquire) == LEASES_NONE =>
            {
                self.step(job, device, || self.bring(job, &found, device, status.stx_size))
            }
            _ => Ok(()),
        }
    }

    /// Carries a step of the job out, and counts whether the device had to read for it. A remote file system always has to, and a
    /// device that is not known yet counts as one.
    fn step<T>(&self, job: &Job, device: u64, act: impl FnOnce() -> T) -> T {
        let counters = &self.channel.slot(job.slot).counters;
        let before = ffi::blocks_read();
        let result = act();
        let may_be_remote = device == DEVICE_UNKNOWN || self.devices.is_remote(device);
        let has_read = may_be_remote || ffi::blocks_read() != before;
        counters.steps_read.fetch_add(has_read.into(), Relaxed);
        counters.steps.fetch_add(1, Relaxed);
        result
    }

    /// Brings a part of a regular file of `size` bytes into memory.
    fn bring(&self, job: &Job, found: &OwnedFd, device: u64, size: u64) -> Result<(), Errno> {
        if self.devices.is_remote(device) {
            return self.bring_from_remote(job, found, device, size);
        }
        let block_bytes = || fstatvfs(found).map_or(0, |system| system.f_bsize);
        let _share = self.devices.share(device, job.number, size, block_bytes);
        let file = self.reopen_in_turn(job, found, device)?;
        self.read_ahead(file.as_fd(), device, job, size)
    }

    fn bring_from_remote(&self, job: &Job, found: &OwnedFd, device: u64, size: u64) -> Result<(), Errno> {
        let probe = match self.devices.keeps_data(device).ok_or(Errno::TIMEDOUT)? {
            Keeping::Forgets => return Ok(()),
            Keeping::Keeps => None,
            Keeping::Unknown(probe) => Some(probe),
        };
        let file = self.reopen_in_turn(job, found, device)?;
        self.read_ahead(file.as_fd(), device, job, size)?;
        if let Some(probe) = probe.filter(|_| job.offset < size) {
            let is_cached = |file: &OwnedFd| cachestat(file).map_or(true, |cached| cached.cached > 0);
            // Where the next open empties the cache, and that may have been the program's, no other one will find anything there.
            let is_kept = is_cached(&file) && is_cached(&self.reopen_in_turn(job, found, device)?);
            probe.tell(is_kept);
        }
        // A read makes the kernel forget the times of a remote file, which a program asks for after it has opened one.
        let _turn = self.devices.turn(device, &job.ticket, Requests::Some).ok_or(Errno::TIMEDOUT)?;
        statx(&file, c"", AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS).map(drop)
    }

    fn reopen_in_turn(&self, job: &Job, found: &OwnedFd, device: u64) -> Result<OwnedFd, Errno> {
        let turn = self.devices.turn(device, &job.ticket, Requests::Some);
        let _turn = turn.ok_or(Errno::TIMEDOUT)?;
        reopen(found, OFlags::empty())
    }

    /// Finds what the path names, as the program would, without opening it: O_PATH has no effect on a device or FIFO.
    fn look_up(&self, job: &Job) -> Result<OwnedFd, Errno> {
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        if job.kind == PathHint::LookupNoFollow {
            flags |= OFlags::NOFOLLOW;
        }
        let path = &job.path[..job.path_len];
        // Links like /proc/self/cwd would lead into this process instead of the program's.
        let resolve = ResolveFlags::NO_MAGICLINKS;
        match self.root_of(job.slot) {
            Root::Ours => openat2(CWD, path, flags, Mode::empty(), resolve),
            Root::Barred => {
                self.channel.slot(job.slot).counters.hints_dropped.fetch_add(1, Relaxed);
                Err(Errno::PERM)
            }
            Root::Theirs(root) => openat2(root, path, flags, Mode::empty(), resolve | ResolveFlags::IN_ROOT),
        }
    }

    fn root_of(&self, slot: usize) -> Root {
        let asking = |slot: usize| {
            let of = self.channel.slot(slot);
            (slot, of.pid.load(Relaxed), of.generation.load(Relaxed))
        };
        let asks = asking(slot);
        if let Some(root) = lock(&self.roots).get(&asks) {
            return root.clone();
        }
        let root = find_root(asks.1);
        let mut roots = lock(&self.roots);
        // Nothing is kept of what was before.
        roots.retain(|known, _| asking(known.0) == *known);
        roots.insert(asks, root.clone());
        root
    }

    /// Reads what the job names of a file of `size` bytes, at most the horizon, in pieces that the kernel takes whole.
    fn read_ahead(&self, file: BorrowedFd<'_>, device: u64, job: &Job, size: u64) -> Result<(), Errno> {
        let offset = job.offset;
        let end = offset.saturating_add(job.length).min(size);
        let horizon = self.channel.header().horizon_bytes.load(Relaxed);
        let end = end.min(offset.saturating_add(horizon));
        let mut start = offset;
        while start < end {
            let length = CHUNK_BYTES.min(end - start);
            let turn = self.devices.turn(device, &job.ticket, Requests::One);
            let _turn = turn.ok_or(Errno::TIMEDOUT)?;
            fadvise(file, start, length.try_into().ok(), Advice::WillNeed)?;
            // Waits for the piece, so that its time is known and no more of them are under way than the device likes.
            let _ = pread(file, &mut [0u8; 1], start + length - 1);
            start += length;
        }
        Ok(())
    }
}

/// A job is done with: nothing waits for it from now on.
fn finish(channel: &Channel, slot: usize, cell: Option<usize>) {
    if let Some(cell) = cell {
        channel.slot(slot).paths[cell].state.store(CELL_FREE, Release);
    }
    channel.header().jobs[slot].fetch_sub(1, SeqCst);
}

fn find_root(pid: u32) -> Root {
    let identity = |process: &str| {
        let root = fs::metadata(format!("/proc/{process}/root/")).ok()?;
        let mounts = fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?;
        Some((root.dev(), root.ino(), mounts))
    };
    let process = pid.to_string();
    if rights(&process) != rights("self") {
        return Root::Barred;
    }
    if identity(&process) == identity("self") {
        return Root::Ours;
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    match open(format!("/proc/{process}/root"), flags, Mode::empty()) {
        Ok(root) => Root::Theirs(Arc::new(root)),
        Err(_) => Root::Ours,
    }
}

/// What a process may look up: its users, groups and capabilities.
fn rights(process: &str) -> Option<[String; 4]> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let field = |name| kernel_text::field(&status, name).map(str::to_owned);
    // Of the first two those of file systems decide, which come last.
    Some([field("Uid")?, field("Gid")?, field("Groups")?, field("CapEff")?])
}

/// Opens a regular file or directory for reading: without blocking, and where allowed without a trace in its times.
fn reopen(found: &OwnedFd, extra: OFlags) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | extra;
    match open(&path, flags | OFlags::NOATIME, Mode::empty()) {
        // Only the owner may ask for that.
        Err(Errno::PERM) if keeps_every_access(found) => Err(Errno::PERM),
        Err(Errno::PERM) => open(&path, flags, Mode::empty()),
        opened => opened,
    }
}

/// Whether each read of a file changes its access time, so that one of the executor's would show.
fn keeps_every_access(found: &OwnedFd) -> bool {
    let rare = StatVfsMountFlags::NOATIME | StatVfsMountFlags::RELATIME | StatVfsMountFlags::RDONLY;
    fstatvfs(found).is_ok_and(|system| !system.f_flag.intersects(rare))
}

fn read_directory(directory: &OwnedFd) -> Result<(), Errno> {
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut bytes = 0;
    while let Some(entry) = entries.next() {
        bytes += entry?.file_name().count_bytes();
        if bytes > DIRECTORY_BYTES_MAX {
            break;
        }
    }
    Ok(())
}

/// A hint out of untrusted memory; `None` where it makes no sense.
fn read_cell(channel: &Arc<Channel>, slot: usize, number: u64, cell: &PathCell) -> Option<Job> {
    let kind = PathHint::from_u32(cell.kind.load(Relaxed))?;
    let path_len = usize::try_from(cell.path_len.load(Relaxed)).ok().filter(|length| *length < PATH_BYTES)?;
    let mut path = [0; PATH_BYTES];
    for (to, from) in path[..path_len].iter_mut().zip(&cell.path) {
        *to = from.load(Relaxed);
    }
    let absolute = path[..path_len].first() == Some(&b'/') && !path[..path_len].contains(&0);
    let (offset, length) = (cell.offset.load(Relaxed), cell.length.load(Relaxed).into());
    let channel = channel.clone();
    let ticket = Ticket::new(move || finish(&channel, slot, None));
    absolute.then_some(Job { slot, kind, number, offset, length, path, path_len, cell: None, ticket })
}

/// Frees the cells that their writers died over: those that were being written at the last sweep too. Sweeps must be
/// further apart than any write takes.
#[derive(Default)]
pub struct Sweep(HashMap<usize, u128>);

const _: () = assert!(PATH_CELLS <= u128::BITS as usize);

impl Sweep {
    /// Looks at all cells.
    pub fn run(&mut self, channel: &Channel) {
        let before = std::mem::take(&mut self.0);
        for slot in channel.slots_in(SLOT_CLAIMED) {
            let old = before.get(&slot).copied().unwrap_or(0);
            let mut writing = 0u128;
            for (index, cell) in channel.slot(slot).paths.iter().enumerate() {
                if cell.state.load(Relaxed) != CELL_WRITING {
                    continue;
                }
                if old & 1 << index == 0 {
                    writing |= 1 << index;
                } else {
                    // Unless it was finished just now.
                    let _ = cell.state.compare_exchange(CELL_WRITING, CELL_FREE, Relaxed, Relaxed);
                }
            }
            if writing != 0 {
                self.0.insert(slot, writing);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        path::{Path, PathBuf},
        process,
        sync::atomic::AtomicU32,
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
            Self { executor: Executor::new(channel.clone()), channel, folder }
        }

        fn hint(&self, cell: usize, kind: PathHint, path: &Path) {
            use std::os::unix::ffi::OsStrExt;
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
                || self.executor.0.busy.load(Acquire) > 0
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
        assert!(fixture.executor.0.threads.load(Relaxed) <= THREADS_MAX);
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
}
