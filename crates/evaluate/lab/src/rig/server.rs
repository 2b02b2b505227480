//! Serves a disk image in memory as a FUSE file whose requests take a device's time.
//!
//! The FUSE mount is never attached to the tree of directories. The holder of the opened file, the loop device, keeps the
//! mount, and the mount goes with the file. The server's threads have their own table of descriptors, and only they hold
//! `/dev/fuse`. So SIGKILL closes it even while another thread of the process sleeps in the kernel, waiting for an answer.
//! With the shared table that thread would keep it open, and both would wait for ever.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, Session, SessionACL, WriteFlags,
};
use rustix::fs::{FallocateFlags, Mode, OFlags};

use super::device::{Answer, Device};
use super::memory::{Memory, detached_mount};
use crate::{Error, sys};

const IMAGE: INodeNo = INodeNo(2);
/// The kernel may keep what it knows of the image: nothing about it ever changes.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);
/// Above the 128 requests that a loop device has at a time, so that FUSE never holds one back.
const BACKGROUND_REQUESTS_MAX: u16 = 512;
/// The largest request that FUSE makes (256 pages).
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// A running server. The image can be opened until [`release`](Self::release); the threads end when the last user of
/// the opened image has closed it.
#[derive(Debug)]
pub(crate) struct Server {
    image: PathBuf,
    release: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves an image of `size_bytes` zeros on `device`'s terms.
    pub(crate) fn start(device: Arc<Device>, size_bytes: u64) -> Result<Self, Error> {
        let (started, has_started) = channel();
        let (release, released) = channel();
        let thread = std::thread::Builder::new()
            .name("image-server".into())
            .spawn(move || serve(device, size_bytes, &started, &released))
            .map_err(|error| Error::io("start a thread", error))?;
        let image =
            has_started.recv().unwrap_or_else(|_| Err(Error::Cleanup("the server is gone".into())))?;
        Ok(Self { image, release: Some(release), thread: Some(thread) })
    }

    /// Opens the image past every cache. Only before [`release`](Self::release).
    pub(crate) fn open_image(&self) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        rustix::fs::open(&self.image, flags, Mode::empty())
            .map_err(|error| Error::io("open the image", error))
    }

    /// Lets go of the FUSE mount, so that it lives as long as what [`open_image`](Self::open_image) returned.
    pub(crate) fn release(&mut self) {
        self.release = None;
    }

    /// Whether the last user of the image is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

/// The server thread: sets up, says where the image can be opened, and serves until nobody holds it.
fn serve(
    device: Arc<Device>,
    size_bytes: u64,
    started: &Sender<Result<PathBuf, Error>>,
    released: &Receiver<()>,
) {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    // Programs that make file systems take loop devices over files of one name for the same (mkfs.btrfs).
    let name = format!("image-{thread}");
    let (memory, mount, session) = match mount_image(Arc::clone(&device), size_bytes, &name) {
        Ok(all) => all,
        Err(error) => {
            // Nobody listens only when the process is on its way out.
            let _ = started.send(Err(error));
            return;
        }
    };
    let answering = Arc::clone(&device);
    let answers =
        std::thread::Builder::new().name("completions".into()).spawn(move || answering.complete(&memory));
    let serving = session.spawn();
    let (Ok(answers), Ok(serving)) = (answers, serving) else {
        let _ = started.send(Err(Error::Cleanup("no thread could be started".into())));
        return;
    };
    // Seen from the process's other threads, whose descriptors are not ours.
    let image = format!("/proc/self/task/{thread}/fd/{}/{name}", mount.as_raw_fd());
    let _ = started.send(Ok(PathBuf::from(image)));
    // Also returns when the other end is dropped, which is how it is told.
    let _ = released.recv();
    drop(mount);
    let _ = serving.join();
    device.close();
    let _ = answers.join();
}

fn mount_image(
    device: Arc<Device>,
    size_bytes: u64,
    name: &str,
) -> Result<(Arc<Memory>, OwnedFd, Session<ImageFolder>), Error> {
    sys::unshare_descriptors().map_err(|error| Error::io("get a table of descriptors", error))?;
    sys::become_prompt();
    let memory = Arc::new(Memory::new(size_bytes)?);
    let fuse = rustix::fs::open(Path::new("/dev/fuse"), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Error::io("open /dev/fuse", error))?;
    let mount = detached_mount(
        "fuse",
        &[
            ("source", "forebay-slow-disk"),
            ("fd", &fuse.as_raw_fd().to_string()),
            ("rootmode", "40000"),
            ("user_id", "0"),
            ("group_id", "0"),
        ],
    )
    .map_err(|error| Error::io("mount a FUSE file system", error))?;
    let folder = ImageFolder { device, memory: Arc::clone(&memory), size_bytes, name: name.into() };
    let session = Session::from_fd(folder, fuse, SessionACL::All, Config::default())
        .map_err(|error| Error::io("speak FUSE with the kernel", error))?;
    Ok((memory, mount, session))
}

/// The file system: a folder with one file.
struct ImageFolder {
    device: Arc<Device>,
    memory: Arc<Memory>,
    size_bytes: u64,
    name: OsString,
}

impl ImageFolder {
    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            IMAGE => (FileType::RegularFile, 0o600, self.size_bytes),
            _ => return None,
        };
        let then = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: then,
            mtime: then,
            ctime: then,
            crtime: then,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for ImageFolder {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| io::Error::new(io::ErrorKind::Unsupported, "no asynchronous direct I/O in FUSE"))?;
        // Each of these can only refuse a zero or a value above the kernel's own bound, which it then uses.
        let _ = config.set_max_background(BACKGROUND_REQUESTS_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_REQUESTS_MAX);
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(IMAGE) {
            Some(found) if parent == INodeNo::ROOT && name == self.name => {
                reply.entry(&FOR_EVER, &found, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(found) => reply.attr(&FOR_EVER, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.device.admit(Answer::Read { reply, offset, size: size as usize }, &self.memory);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The data is there at once, since its buffer is the next request's; when it is answered for is another matter.
        match self.memory.write(data, offset) {
            Ok(()) => self.device.admit(Answer::Write { reply, size: data.len() }, &self.memory),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.device.admit(Answer::Flush { reply }, &self.memory);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        // What a loop device asks for to discard blocks or to write zeros: both give the memory back here.
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        if !mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        match self.memory.discard(offset, length) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }
}
