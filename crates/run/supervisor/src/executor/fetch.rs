//! Carries out one job: looks a path up, lists a directory, reads a link, or brings a part of a file into memory.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed},
        },
    },
    time::{Duration, Instant},
};

use forebay_linux::cachestat;
use forebay_profile::Identity;
use forebay_protocol::layout::{LEASES_NONE, SLOTS};
use rustix::{
    fs::{
        Advice, AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, StatVfsMountFlags, Statx,
        StatxFlags, fadvise, fcntl_setfl, fstat, fstatvfs, makedev, open, openat2, readlinkat_raw, statx,
    },
    io::{Errno, pread},
};

use super::{
    Expected, Job, Origin, Wanted, kernel_files,
    libraries::Library,
    opened::{Open, Opened, Place},
    roots::{Root, Roots},
};
use crate::{
    channel::Channel,
    devices::{Devices, Keeping, Turn},
    ffi::{self, DeviceUse},
};

const DEVICE_UNKNOWN: u64 = u64::MAX;
/// Most of a directory that is read.
const DIRECTORY_BYTES_MAX: usize = 1 << 20;
/// The kernel cuts a longer readahead short (`read_ahead_kb`).
pub const CHUNK_BYTES: u64 = 128 << 10;
/// Of what the kernel counts reads in.
const BLOCK_BYTES: u64 = 512;
/// What is read of a file that has changed since it was expected.
const CHANGED_BYTES: u64 = 4 << 10;

/// What came of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// How long a device was waited for, if one was asked.
    pub waited: Option<Duration>,
    /// Processor time of a neighbour's job.
    pub processor: Duration,
    /// The file is another one than was expected.
    pub is_changed: bool,
    /// The path was found on a remote file system.
    pub is_remote: bool,
    /// `st_dev` of what was found.
    pub device: Option<u64>,
    /// Data that is in memory now.
    pub bytes: u64,
    /// The regular file that data was brought of.
    pub identity: Option<Identity>,
    /// What the file of a library says.
    pub library: Option<Library>,
    /// Names in a directory: of files in order, or of directories; as far as they fit.
    pub names: Option<Vec<Box<[u8]>>>,
}

/// What agents take for a stall.
fn device_wait_min(channel: &Channel) -> Duration {
    let (ticks, per_second) = (&channel.header().stall_ticks_min, &channel.header().ticks_per_second);
    Duration::from_micros(ticks.load(Relaxed).saturating_mul(1_000_000) / per_second.load(Relaxed).max(1))
}

/// Carries jobs out.
pub struct Fetcher {
    channel: Arc<Channel>,
    /// What is in memory is found sooner.
    device_wait_min: Duration,
    /// `st_dev` of what the last job of each slot found, the last step of a replay, the last piece of a stream, the last library
    /// and the last neighbour, and so probably of the next; [`DEVICE_UNKNOWN`] at first.
    last_devices: [AtomicU64; SLOTS + 4],
    roots: Roots,
    /// Where the paths of a replay begin.
    replay_root: Root,
    devices: Devices,
    opened: Opened,
}

impl Fetcher {
    /// Where `channel` has places for devices. Paths of a replay begin at `replay_root`. `depth_first` is as in [`Devices::new`]. Files
    /// that are opened ahead go to `opened`.
    pub fn new(channel: Arc<Channel>, replay_root: Root, depth_first: u32, opened: Opened) -> Self {
        Self {
            devices: Devices::new(channel.clone(), depth_first),
            device_wait_min: device_wait_min(&channel),
            last_devices: [const { AtomicU64::new(DEVICE_UNKNOWN) }; SLOTS + 4],
            roots: Roots::default(),
            replay_root,
            opened,
            channel,
        }
    }

    /// Gives up requests that are late by far, for ever.
    pub fn watch(&self) {
        self.devices.watch();
    }

    /// Whether the device is of a remote file system.
    pub fn is_remote(&self, device: u64) -> bool {
        self.devices.is_remote(device)
    }

    /// Jobs are advice: whatever fails, the program finds out itself.
    pub fn carry_out(&self, job: &Job) -> Done {
        let mut done = Done::default();
        let begun = matches!(job.origin, Origin::Neighbour { .. }).then(ffi::processor_time);
        let _ = self.try_carry_out(job, &mut done);
        done.processor = begun.map_or(Duration::ZERO, |begun| ffi::processor_time().saturating_sub(begun));
        done
    }

    fn try_carry_out(&self, job: &Job, done: &mut Done) -> Result<(), Errno> {
        let (found, status) = self.find(job, done)?;
        let device = makedev(status.stx_dev_major, status.stx_dev_minor);
        done.is_remote = self.devices.is_remote(device);
        done.device = Some(device);
        if matches!(job.origin, Origin::Replay { .. } | Origin::Neighbour { .. })
            && kernel_files::are_in(&found)
        {
            return Ok(());
        }
        match (&job.wanted, FileType::from_raw_mode(status.stx_mode.into())) {
            // The kernel keeps no names of a remote file system that a listing gave to another descriptor.
            (Wanted::Directory, FileType::Directory) if !self.devices.is_remote(device) => {
                let mut turn = self.devices.turn(device, &job.ticket).ok_or(Errno::TIMEDOUT)?;
                let list = || read_directory(&reopen(&found, OFlags::DIRECTORY)?);
                self.timed_step(job, device, done, &mut turn, list)
            }
            (Wanted::Names | Wanted::Folders, FileType::Directory) if !self.devices.is_remote(device) => {
                let mut turn = self.devices.turn(device, &job.ticket).ok_or(Errno::TIMEDOUT)?;
                let names = if job.wanted == Wanted::Names { files } else { folders };
                let list = || names(&reopen(&found, OFlags::DIRECTORY)?);
                done.names = Some(self.timed_step(job, device, done, &mut turn, list)?);
                Ok(())
            }
            (Wanted::Link, FileType::Symlink) => {
                let read = || {
                    let mut target = [MaybeUninit::<u8>::uninit(); 4096];
                    readlinkat_raw(&found, c"", &mut target[..]).map(drop)
                };
                self.step(job, device, done, read).0
            }
            (Wanted::Data { .. }, FileType::RegularFile)
                if self.channel.header().leases.load(Acquire) == LEASES_NONE =>
            {
                self.bring(job, &found, device, &status, done)
            }
            // An open of a remote file may make the kernel forget its data.
            (Wanted::Library, FileType::RegularFile)
                if self.channel.header().leases.load(Acquire) == LEASES_NONE
                    && !self.devices.is_remote(device) =>
            {
                self.examine_library(job, &found, device, done)
            }
            _ => Ok(()),
        }
    }

    /// What the path names, and what is known of it.
    fn find(&self, job: &Job, done: &mut Done) -> Result<(OwnedFd, Statx), Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        let last = &self.last_devices[match job.origin {
            Origin::Slot(slot) => slot,
            Origin::Replay { .. } => SLOTS,
            Origin::Stream { .. } => SLOTS + 1,
            Origin::Library { .. } => SLOTS + 2,
            Origin::Neighbour { .. } => SLOTS + 3,
        }];
        let device = last.load(Relaxed);
        let mut turn = self.devices.turn(device, &job.ticket).ok_or(Errno::TIMEDOUT)?;
        let (found, status) = self.timed_step(job, device, done, &mut turn, || {
            let found = self.look_up(job)?;
            let status = statx(&found, c"", flags, StatxFlags::BASIC_STATS)?;
            Ok((found, status))
        })?;
        last.store(makedev(status.stx_dev_major, status.stx_dev_minor), Relaxed);
        Ok((found, status))
    }

    /// As [`Self::step`]. Where the device has read for it, the time of the turn is taken.
    fn timed_step<T>(
        &self,
        job: &Job,
        device: u64,
        done: &mut Done,
        turn: &mut Turn,
        act: impl FnOnce() -> T,
    ) -> T {
        let (result, asked) = self.step(job, device, done, act);
        if asked.blocks != 0 {
            turn.take_time(asked.waits);
        }
        result
    }

    /// Carries a step of the job out, and takes note whether the device had to read for it. Also what it was asked for. A
    /// request to a remote file system, and to a device that is not known yet, is told by its time alone.
    fn step<T>(&self, job: &Job, device: u64, done: &mut Done, act: impl FnOnce() -> T) -> (T, DeviceUse) {
        let (started, before) = (Instant::now(), ffi::device_use());
        let result = act();
        let asked = ffi::device_use().since(before);
        let may_be_remote = device == DEVICE_UNKNOWN || self.devices.is_remote(device);
        let is_slow = || started.elapsed() >= self.device_wait_min;
        let has_read = asked.blocks != 0 || may_be_remote && is_slow();
        if let Origin::Slot(slot) = job.origin {
            let counters = &self.channel.slot(slot).counters;
            counters.steps_read.fetch_add(has_read.into(), Relaxed);
            counters.steps.fetch_add(1, Relaxed);
        }
        if has_read {
            done.waited = Some(done.waited.unwrap_or_default() + started.elapsed());
        }
        (result, asked)
    }

    /// Finds what the path names, as the program would, without opening it: O_PATH has no effect on a device or FIFO.
    fn look_up(&self, job: &Job) -> Result<OwnedFd, Errno> {
        let mut flags = OFlags::PATH;
        if matches!(job.wanted, Wanted::LookUp { follow: false } | Wanted::Link) {
            flags |= OFlags::NOFOLLOW;
        }
        self.open(job, flags)
    }

    /// Opens the path in the program's root directory.
    fn open(&self, job: &Job, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (path, flags) = (&job.path[..], flags | OFlags::CLOEXEC);
        // Links like /proc/self/cwd would lead into this process instead of the program's.
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let root = match job.origin {
            Origin::Slot(slot) => self.roots.of(&self.channel, slot),
            Origin::Replay { .. } | Origin::Library { process: 0, .. } => self.replay_root.clone(),
            Origin::Neighbour { slot: Some(slot), .. } => self.roots.of_waiting(&self.channel, slot),
            // Others are not looked at.
            Origin::Neighbour { slot: None, .. } => Root::Ours,
            Origin::Stream { process, .. } | Origin::Library { process, .. } => {
                self.roots.of_process(process)
            }
        };
        match (root, job.origin) {
            (Root::Ours, _) => openat2(CWD, path, flags, Mode::empty(), resolve),
            (Root::Theirs(root), _) => {
                openat2(root, path, flags, Mode::empty(), resolve | ResolveFlags::IN_ROOT)
            }
            (Root::Barred, Origin::Slot(slot)) => {
                self.channel.slot(slot).counters.hints_dropped.fetch_add(1, Relaxed);
                Err(Errno::PERM)
            }
            (Root::Barred, _) => Err(Errno::PERM),
        }
    }

    /// Brings a part of a regular file into memory.
    fn bring(
        &self,
        job: &Job,
        found: &OwnedFd,
        device: u64,
        status: &Statx,
        done: &mut Done,
    ) -> Result<(), Errno> {
        let Wanted::Data { offset, length, expected } = &job.wanted else { return Ok(()) };
        if let Origin::Stream { inode, .. } = job.origin {
            if inode != status.stx_ino {
                return Ok(());
            }
            self.channel.header().stream.device.store(device.wrapping_add(1), Relaxed);
        }
        done.identity = Some(identity_of(status));
        let changed = expected.filter(|expected| !expected.identity.is_unchanged(&identity_of(status)));
        done.is_changed = changed.is_some();
        let (offset, length) = match changed {
            None => (*offset, *length),
            Some(Expected { beginning_if_changed: true, .. }) => (0, CHANGED_BYTES),
            Some(_) => return Ok(()),
        };
        let end = offset.saturating_add(length).min(status.stx_size);
        let horizon = self.channel.header().horizon_bytes.load(Relaxed);
        let part = Part { device, offset, end: end.min(offset.saturating_add(horizon)) };
        if self.devices.is_remote(device) {
            return self.bring_from_remote(job, found, status, &part, done);
        }
        let block_bytes = || fstatvfs(found).map_or(0, |system| system.f_bsize);
        let _share = self.devices.share(device, job.number, status.stx_size, block_bytes);
        let file = self.reopen_in_turn(job, found, device)?;
        self.read_ahead(file.as_fd(), &part, job, done)
    }

    /// Reads what the file of a program or library says to the loader.
    fn examine_library(&self, job: &Job, found: &OwnedFd, device: u64, done: &mut Done) -> Result<(), Errno> {
        let file = self.reopen_in_turn(job, found, device)?;
        let mut turn = self.devices.turn(device, &job.ticket).ok_or(Errno::TIMEDOUT)?;
        done.library =
            self.timed_step(job, device, done, &mut turn, || Library::read(&job.path, file.as_fd()));
        Ok(())
    }

    fn bring_from_remote(
        &self,
        job: &Job,
        found: &OwnedFd,
        status: &Statx,
        part: &Part,
        done: &mut Done,
    ) -> Result<(), Errno> {
        let device = part.device;
        if let Some(open) = job.open.filter(|open| !done.is_changed && self.may_open(open))
            && self.devices.is_fuse(device)
            && let Some(place) = self.opened.reserve(open)
        {
            return self.open_ahead(job, Ahead { open, place, found: status }, part, done);
        }
        let probe = match self.devices.keeps_data(device).ok_or(Errno::TIMEDOUT)? {
            Keeping::Forgets => return Ok(()),
            Keeping::Keeps => None,
            Keeping::Unknown(probe) => Some(probe),
        };
        let file = self.reopen_in_turn(job, found, device)?;
        self.read_ahead(file.as_fd(), part, job, done)?;
        if let Some(probe) = probe.filter(|_| part.offset < part.end) {
            let is_cached = |file: &OwnedFd| cachestat(file).map_or(true, |cached| cached.cached > 0);
            // Where the next open empties the cache, and that may have been the program's, no other one will find anything there.
            let is_kept = is_cached(&file) && is_cached(&self.reopen_in_turn(job, found, device)?);
            probe.tell(is_kept);
        }
        self.ask_again(job, &file, device).map(drop)
    }

    /// Whether the program has this one's rights, and its paths begin where those of the job do. A speculator's jobs tell by themselves.
    fn may_open(&self, open: &Open) -> bool {
        let Some(taker) = open.taker else { return true };
        matches!((self.roots.of_taker(&self.channel, taker), &self.replay_root), (Root::Ours, Root::Ours))
    }

    /// Opens a file for the program to take, and brings the part of it into memory.
    fn open_ahead(&self, job: &Job, ahead: Ahead<'_>, part: &Part, done: &mut Done) -> Result<(), Errno> {
        let Ahead { open, place, found } = ahead;
        let flags = OFlags::from_bits_retain(open.flags);
        // It may be a FIFO by now, and is not waited for.
        let as_asked = flags | OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK;
        let (file, took) = {
            let _turn = self.devices.turn(part.device, &job.ticket).ok_or(Errno::TIMEDOUT)?;
            let begun = Instant::now();
            (self.open(job, as_asked)?, begun.elapsed())
        };
        let opened = fstat(&file)?;
        if (opened.st_dev, opened.st_ino) != (part.device, found.stx_ino)
            || FileType::from_raw_mode(opened.st_mode) != FileType::RegularFile
        {
            return Ok(());
        }
        self.read_ahead(file.as_fd(), part, job, done)?;
        let known = self.ask_again(job, &file, part.device)?;
        // An open that asks nothing of the other end costs the program less than to take the file.
        if took < self.device_wait_min && self.devices.has_kept_data(part.device) {
            return Ok(());
        }
        if !flags.contains(OFlags::NONBLOCK) {
            fcntl_setfl(&file, OFlags::empty())?;
        }
        place.fill(file, &known)
    }

    /// A read makes the kernel forget the times of a remote file, which a program asks for after it has opened one.
    fn ask_again(&self, job: &Job, file: &OwnedFd, device: u64) -> Result<Statx, Errno> {
        let _turn = self.devices.turn(device, &job.ticket).ok_or(Errno::TIMEDOUT)?;
        statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS)
    }

    fn reopen_in_turn(&self, job: &Job, found: &OwnedFd, device: u64) -> Result<OwnedFd, Errno> {
        let _turn = self.devices.turn(device, &job.ticket).ok_or(Errno::TIMEDOUT)?;
        reopen(found, OFlags::empty())
    }

    /// Reads a part of a file, in pieces that the kernel takes whole.
    fn read_ahead(&self, file: BorrowedFd<'_>, part: &Part, job: &Job, done: &mut Done) -> Result<(), Errno> {
        let mut start = part.offset;
        while start < part.end {
            let length = CHUNK_BYTES.min(part.end - start);
            let mut turn = self.devices.turn(part.device, &job.ticket).ok_or(Errno::TIMEDOUT)?;
            let (read, asked) = self.step(job, part.device, done, || {
                fadvise(file, start, length.try_into().ok(), Advice::WillNeed)?;
                // Waits for the piece, so that its time is known and no more of them are under way than the device likes.
                let _ = pread(file, &mut [0u8; 1], start + length - 1);
                Ok::<(), Errno>(())
            });
            read?;
            // Its end may have been in memory, and was not waited for.
            if asked.blocks >= (length / BLOCK_BYTES).cast_signed() {
                turn.take_time(asked.waits);
            }
            start += length;
            done.bytes += length;
        }
        Ok(())
    }
}

/// A file that is to be opened ahead of a program.
struct Ahead<'a> {
    open: Open,
    place: Place,
    /// What its path was found to name.
    found: &'a Statx,
}

/// What is to be read of a file.
struct Part {
    device: u64,
    offset: u64,
    end: u64,
}

/// What tells this file from another one, and from what it was.
fn identity_of(status: &Statx) -> Identity {
    let mtime = &status.stx_mtime;
    Identity {
        dev: makedev(status.stx_dev_major, status.stx_dev_minor),
        ino: status.stx_ino,
        size: status.stx_size,
        mtime_ns: mtime.tv_sec.saturating_mul(1_000_000_000).saturating_add(mtime.tv_nsec.into()),
    }
}

/// Opens a regular file or directory for reading: without blocking, and where allowed without a trace in its times.
fn reopen(found: &OwnedFd, extra: OFlags) -> Result<OwnedFd, Errno> {
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
    entries(directory, |_, _| {})
}

/// Names of the files of a directory, and of what may be one, in order.
fn files(directory: &OwnedFd) -> Result<Vec<Box<[u8]>>, Errno> {
    let mut names = Vec::new();
    entries(directory, |name, kind| {
        if matches!(kind, FileType::RegularFile | FileType::Unknown) {
            names.push(name.into());
        }
    })?;
    names.sort_unstable();
    Ok(names)
}

/// Names of the directories of a directory, as the kernel has them.
fn folders(directory: &OwnedFd) -> Result<Vec<Box<[u8]>>, Errno> {
    let mut names = Vec::new();
    entries(directory, |name, kind| {
        if kind == FileType::Directory && name != b"." && name != b".." {
            names.push(name.into());
        }
    })?;
    Ok(names)
}

fn entries(directory: &OwnedFd, mut each: impl FnMut(&[u8], FileType)) -> Result<(), Errno> {
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut bytes = 0;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        each(entry.file_name().to_bytes(), entry.file_type());
        bytes += entry.file_name().count_bytes();
        if bytes > DIRECTORY_BYTES_MAX {
            break;
        }
    }
    Ok(())
}
