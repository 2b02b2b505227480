//! A file system that answers each request after a remote one's time: look-ups, opens, listings and reads.
//!
//! FUSE carries the requests to the cleanup process, where the files are in memory. The kernel may keep names and
//! attributes for a second, and data until a file is written. A file whose name begins with `held-lookup`, `held-open` or
//! `held-read` gets no answer to such a request until the latency is off. To close a file whose name begins with `full` fails:
//! there is no room for what was written.

mod tree;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;

use super::Stats;
use super::queue::Queue;
use crate::{Error, Latency, sys};
use tree::{Change, Content, Owner, Tree};

/// How long the kernel may keep what it was told of a name, as libfuse's file systems let it.
const KEPT: Duration = Duration::from_secs(1);
const HANDLE: FileHandle = FileHandle(0);
const NAME_BYTES_MAX: u32 = 255;

type Answer = Box<dyn FnOnce() + Send>;

/// What an open is to a remote file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opens {
    /// Nothing is asked of the other end: as in rclone and other mounts of object stores. Else an open takes as long as any request,
    /// as in sshfs and NFS.
    pub at_once: bool,
    /// The kernel keeps a file's data when it is opened again (`FOPEN_KEEP_CACHE`).
    pub keep_data: bool,
}

impl Default for Opens {
    fn default() -> Self {
        Self { at_once: false, keep_data: true }
    }
}

/// Shared by the threads that take requests, the one that answers them, and the one that gives orders.
#[derive(Debug)]
pub(crate) struct Remote {
    tree: Mutex<Tree>,
    queue: Queue<Answer>,
    held: Mutex<Held>,
    /// Opened folders of which no name was asked for yet.
    unread: Mutex<HashSet<u64>>,
    next_handle: AtomicU64,
    counters: Counters,
    in_parallel: u16,
    opens: Mutex<Opens>,
}

/// Requests that get no answer for now.
#[derive(Default)]
struct Held(Vec<Answer>);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&self.0.len()).finish()
    }
}

#[derive(Debug, Default)]
struct Counters {
    look_ups: AtomicU64,
    attributes: AtomicU64,
    opens: AtomicU64,
    listings: AtomicU64,
    listings_astray: AtomicU64,
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
}

impl Remote {
    /// An empty file system that answers at once until [`set_slow`](Self::set_slow).
    pub(crate) fn new(latency: Latency) -> Self {
        Self {
            tree: Mutex::new(Tree::new()),
            queue: Queue::new(latency),
            held: Mutex::default(),
            unread: Mutex::default(),
            next_handle: AtomicU64::new(1),
            counters: Counters::default(),
            in_parallel: latency.in_parallel.try_into().unwrap_or(u16::MAX),
            opens: Mutex::default(),
        }
    }

    /// What opens are from now on.
    pub(crate) fn set_opens(&self, opens: Opens) {
        *lock(&self.opens) = opens;
    }

    /// Requests that arrive from now on take the latency, or none.
    pub(crate) fn set_slow(&self, slow: bool) {
        self.queue.set_slow(slow);
        if !slow {
            // This thread has no descriptor to answer to.
            lock(&self.held).0.drain(..).for_each(|answer| self.queue.hasten(answer));
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            look_ups: read(&counters.look_ups),
            attributes: read(&counters.attributes),
            opens: read(&counters.opens),
            listings: read(&counters.listings),
            listings_astray: read(&counters.listings_astray),
            reads: read(&counters.reads),
            bytes_read: read(&counters.bytes_read),
            writes: read(&counters.writes),
            bytes_written: read(&counters.bytes_written),
            flushes: 0,
            in_flight_max: read(&counters.in_flight_max),
        }
    }

    pub(crate) fn reset_stats(&self) {
        let counters = &self.counters;
        for counter in [
            &counters.look_ups,
            &counters.attributes,
            &counters.opens,
            &counters.listings,
            &counters.listings_astray,
            &counters.reads,
            &counters.bytes_read,
            &counters.writes,
            &counters.bytes_written,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        counters.in_flight_max.store(counters.in_flight.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Gives an answer when its time has come.
    fn answer(self: &Arc<Self>, counter: &AtomicU64, held: bool, answer: impl FnOnce() + Send + 'static) {
        counter.fetch_add(1, Ordering::Relaxed);
        let in_flight = self.counters.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.counters.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        let remote = Arc::clone(self);
        let answer: Answer = Box::new(move || {
            remote.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
            answer();
        });
        if held && self.queue.is_slow() {
            lock(&self.held).0.push(answer);
        } else if let Some(answer) = self.queue.admit(answer) {
            answer();
        }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        lock(&self.tree)
    }
}

/// Whether the name asks for requests of this kind to stay unanswered.
fn is_held(name: &OsStr, kind: &str) -> bool {
    name.as_encoded_bytes().strip_prefix(b"held-").is_some_and(|rest| rest.starts_with(kind.as_bytes()))
}

/// A mounted [`Remote`]. Its threads end when it is unmounted.
#[derive(Debug)]
pub(crate) struct RemoteMount {
    orders: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl RemoteMount {
    /// Mounts the file system.
    pub(crate) fn start(remote: Arc<Remote>, mount_point: &Path) -> Result<Self, Error> {
        let (orders, waiting) = channel();
        let (started, has_started) = channel();
        let mount_point = mount_point.to_owned();
        let thread = std::thread::Builder::new()
            .name("remote-server".into())
            .spawn(move || serve(&remote, &mount_point, &started, &waiting))
            .map_err(|error| Error::io("start a thread", error))?;
        has_started.recv().unwrap_or_else(|_| Err(Error::Cleanup("the server is gone".into())))?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Waits for the threads. Only after the file system was unmounted.
    pub(crate) fn join(mut self) {
        let _ = self.orders.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The server thread. Only it and the threads that it starts hold `/dev/fuse`, as those of a slow disk do.
fn serve(
    remote: &Arc<Remote>,
    mount_point: &Path,
    started: &Sender<Result<(), Error>>,
    ended: &Receiver<()>,
) {
    let session = match mount(remote, mount_point) {
        Ok(session) => session,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    remote.queue.reopen();
    let completing = Arc::clone(remote);
    let answers = std::thread::Builder::new()
        .name("completions".into())
        .spawn(move || completing.queue.complete(|answer| answer()));
    let _ = started
        .send(answers.as_ref().map(drop).map_err(|_| Error::Cleanup("no thread could be started".into())));
    // Also returns when the other end is dropped.
    let _ = ended.recv();
    let _ = session.join();
    remote.queue.close();
    if let Ok(answers) = answers {
        let _ = answers.join();
    }
}

fn mount(remote: &Arc<Remote>, mount_point: &Path) -> Result<BackgroundSession, Error> {
    sys::unshare_descriptors().map_err(|error| Error::io("get a table of descriptors", error))?;
    sys::become_prompt();
    let fuse = rustix::fs::open(Path::new("/dev/fuse"), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::io("open /dev/fuse", error))?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        fuse.as_raw_fd()
    );
    let options =
        std::ffi::CString::new(options).map_err(|error| Error::io("mount", io::Error::from(error)))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("forebay-remote", mount_point, "fuse", flags, Some(options.as_c_str()))
        .map_err(|error| Error::at("mount", mount_point, error))?;
    Session::from_fd(RemoteFiles(Arc::clone(remote)), fuse, SessionACL::All, Config::default())
        .and_then(Session::spawn)
        .map_err(|error| Error::io("speak FUSE with the kernel", error))
}

/// What the kernel asks.
struct RemoteFiles(Arc<Remote>);

impl RemoteFiles {
    fn entry(&self, counter: &AtomicU64, held: bool, found: Result<FileAttr, Errno>, reply: ReplyEntry) {
        self.0.answer(counter, held, move || match found {
            Ok(found) => reply.entry(&KEPT, &found, Generation(0)),
            Err(error) => reply.error(error),
        });
    }

    fn attributes(&self, found: Result<FileAttr, Errno>, reply: ReplyAttr) {
        self.0.answer(&self.0.counters.attributes, false, move || match found {
            Ok(found) => reply.attr(&KEPT, &found),
            Err(error) => reply.error(error),
        });
    }

    fn done(&self, done: Result<(), Errno>, reply: ReplyEmpty) {
        self.0.answer(&self.0.counters.writes, false, move || match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    fn opened(&self, inode: INodeNo, handle: FileHandle, reply: ReplyOpen) {
        let held = is_held(self.0.tree().first_name(inode), "open");
        let opens = *lock(&self.0.opens);
        let flags = if opens.keep_data { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        if opens.at_once && !held {
            self.0.counters.opens.fetch_add(1, Ordering::Relaxed);
            return reply.opened(handle, flags);
        }
        self.0.answer(&self.0.counters.opens, held, move || reply.opened(handle, flags));
    }
}

impl Filesystem for RemoteFiles {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Look-ups in one folder at the same time, as libfuse's file systems have them. An older kernel has none.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        // Each of these can only refuse a zero or a value above the kernel's own bound, which it then uses.
        let _ = config.set_max_background(self.0.in_parallel);
        let _ = config.set_congestion_threshold(self.0.in_parallel);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.0.tree().look_up(parent, name);
        self.entry(&self.0.counters.look_ups, is_held(name, "lookup"), found, reply);
    }

    fn forget(&self, _: &Request, inode: INodeNo, count: u64) {
        self.0.tree().forget(inode, count);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.0.tree().attributes(inode);
        self.attributes(found, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mtime = mtime.map(|time| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        });
        let changed = self.0.tree().change(inode, Change { mode, uid, gid, size, mtime });
        self.attributes(changed, reply);
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let target = self.0.tree().read(inode, 0, 0);
        self.0.answer(&self.0.counters.reads, false, move || match target {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        });
    }

    fn mkdir(&self, asked: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let made = self.0.tree().make_folder(parent, name, owner(asked, mode));
        self.entry(&self.0.counters.writes, false, made, reply);
    }

    fn symlink(&self, asked: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let content = Content::Link(PathBuf::from(target));
        let made = self.0.tree().make(parent, name, owner(asked, 0o777), content);
        self.entry(&self.0.counters.writes, false, made, reply);
    }

    fn link(&self, _: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = self.0.tree().link(inode, parent, name);
        self.entry(&self.0.counters.writes, false, made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.0.tree().remove(parent, name, false);
        self.done(removed, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.0.tree().remove(parent, name, true);
        self.done(removed, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = if flags.is_empty() {
            self.0.tree().rename((parent, name), (new_parent, new_name))
        } else {
            Err(Errno::EINVAL)
        };
        self.done(renamed, reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.opened(inode, HANDLE, reply);
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let handle = self.0.next_handle.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.unread).insert(handle);
        self.opened(inode, FileHandle(handle), reply);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        lock(&self.0.unread).remove(&handle.0);
        reply.ok();
    }

    fn create(
        &self,
        asked: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.0.tree().make(parent, name, owner(asked, mode), Content::File(Vec::new()));
        self.0.answer(&self.0.counters.writes, false, move || match made {
            Ok(made) => reply.created(&KEPT, &made, Generation(0), HANDLE, FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        });
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (data, held) = {
            let tree = self.0.tree();
            (tree.read(inode, offset, size as usize), is_held(tree.first_name(inode), "read"))
        };
        self.0.counters.bytes_read.fetch_add(size.into(), Ordering::Relaxed);
        self.0.answer(&self.0.counters.reads, held, move || match data {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.0.tree().write(inode, offset, data);
        let bytes = data.len();
        self.0.counters.bytes_written.fetch_add(bytes as u64, Ordering::Relaxed);
        self.0.answer(&self.0.counters.writes, false, move || match written {
            Ok(()) => reply.written(bytes as u32),
            Err(error) => reply.error(error),
        });
    }

    fn flush(&self, _: &Request, inode: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        if self.0.tree().first_name(inode).as_encoded_bytes().starts_with(b"full") {
            reply.error(Errno::ENOSPC);
        } else {
            reply.ok();
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if lock(&self.0.unread).remove(&handle.0) && offset != 0 {
            self.0.counters.listings_astray.fetch_add(1, Ordering::Relaxed);
        }
        let listed = self.0.tree().list(inode, offset);
        self.0.answer(&self.0.counters.listings, false, move || match listed {
            Ok(listed) => {
                for entry in listed {
                    if reply.add(entry.inode, entry.next, entry.kind, entry.name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let room = 1 << 30;
        self.0.answer(&self.0.counters.attributes, false, move || {
            reply.statfs(room, room, room, room, room, 4096, NAME_BYTES_MAX, 4096);
        });
    }
}

fn owner(asked: &Request, mode: u32) -> Owner {
    Owner { uid: asked.uid(), gid: asked.gid(), mode }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
