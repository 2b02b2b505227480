//! Takes files that the executor has opened ahead of the program, in place of opens of the program's own. That is done on FUSE,
//! where the program would wait for each open.
//!
//! # When a file is taken
//!
//! * The live speculator foretold this open, with these flags, not longer ago than a remote file system's names are kept. Or a replay
//!   did, which foretells absolute paths without flags, for the first thread of the process that waited for an open.
//! * The path leads to that file now, and what the kernel knows of the file is as it was.
//! * The thread has the rights that it had at the fork, or when it waited. The executor has the same rights, or the kernel gives
//!   nothing of it away.
//! * No other thread has read or looked up files meanwhile: for a moment, two descriptors are in use that are not the program's.
//!
//! In all other cases the program opens the file itself.

use core::mem::{MaybeUninit, size_of};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use forebay_policy::price::REMOTE_KEPT_MS;
use forebay_protocol::layout::{
    Figures, Header, OPENED_FREE, OPENED_READY, OPENED_TAKEN, OpenedFile, file_system, open_key, replay,
    replayed_open_key, shown_flags,
};
use forebay_protocol::signature::Signature;
use forebay_sigsafe::general as n;
use forebay_sigsafe::{call, errno, net, sys, thread_pointer, ticks};

use super::eligibility::may_speculate;
use super::slow::Blocked;
use super::{LIVE, track};
use crate::call::Call;
use crate::{attributes, process, residency, session, signatures, speculator, timing};

/// Groups that are compared.
const GROUPS: usize = 64;

/// What the thread might open at the last fork; 0 where that is not known.
static RIGHTS: AtomicU64 = AtomicU64::new(0);

/// Whether the program has waited for an open that only a speculator might have foretold, and for none since that a replay might.
static AWAITED: AtomicBool = AtomicBool::new(false);

/// The thread that a replay opens files for; 0 while there is none.
static READER: AtomicUsize = AtomicUsize::new(0);
/// What that thread might open then.
static READERS_RIGHTS: AtomicU64 = AtomicU64::new(0);
/// Whether there has been one in this process.
static HAS_READ: AtomicBool = AtomicBool::new(false);

/// An open of the program's has stalled: this is its descriptor, if it has one.
///
/// # Safety
/// The kernel has just read the path of `call`.
#[inline(never)]
pub unsafe fn on_stall(call: &Call, result: isize) {
    let Some(shown) = call.open_flags().and_then(shown_flags) else { return };
    let device = || speculator::device(session::header()?, attributes::of(result)?.st_dev);
    if result >= 0 && residency::has(device(), file_system::FUSE) {
        // SAFETY: the caller's.
        let (_, path) = unsafe { signatures::path_of(call) };
        AWAITED.store(!(may_be_replayed(path, shown) && begin_reading()), Relaxed);
    }
}

/// Whether a replay may foretell an open by this path, which shows these flags.
fn may_be_replayed(path: &[u8], shown: u32) -> bool {
    shown == 0 && path.first() == Some(&b'/')
}

/// Has a replay that goes on open files for this thread, once in a process. Whether it does.
#[inline(never)]
fn begin_reading() -> bool {
    let Some(header) = session::header() else { return false };
    if HAS_READ.load(Relaxed) {
        let is_taker = header.replay.taker().is_some_and(|taker| taker.slot == session::slot_index());
        return is_taker && READER.load(Relaxed) == thread_pointer();
    }
    let is_on = header.replay.state.load(Relaxed) == replay::ON;
    if !is_on || !may_speculate() || !process::is_own() || HAS_READ.swap(true, Relaxed) {
        return false;
    }
    let (Some(rights), Ok(_)) = (rights(), session::claim(process::original())) else { return false };
    READERS_RIGHTS.store(rights, Relaxed);
    // The executor compares rights after this.
    header.replay.begin_taking(session::slot_index());
    READER.store(thread_pointer(), Relaxed);
    true
}

/// A replay opens no more files for this process.
#[cold]
#[inline(never)]
pub fn end_reading() {
    if READER.swap(0, Relaxed) != 0
        && let Some(header) = session::header()
    {
        header.replay.end_taking(session::slot_index());
    }
}

/// Starts in a forked child: what was opened is its parent's.
pub fn begin_process() {
    READER.store(0, Relaxed);
    HAS_READ.store(false, Relaxed);
}

/// The thread makes a call: one that is not the reader ends the reading.
#[inline(always)]
pub fn on_call() {
    let reader = READER.load(Relaxed);
    if reader != 0 && reader != thread_pointer() {
        end_reading();
    }
}

/// Whether files may have been opened for this thread.
#[inline(always)]
pub fn may_take() -> bool {
    READER.load(Relaxed) != 0 || LIVE.load(Relaxed) != 0
}

/// Whether a speculator may spare the program waits that a replay cannot: it foretells opens with flags, and by relative paths.
pub fn are_awaited() -> bool {
    AWAITED.load(Relaxed) && session::slot().is_none_or(|slot| slot.takes_none.load(Relaxed) == 0)
}

/// A speculator is about to be forked.
pub fn on_fork() {
    RIGHTS.store(rights().unwrap_or(0), Relaxed);
}

/// Takes the file that an open asks for, if it is there: its descriptor, which is what the kernel would have given.
///
/// # Safety
/// The program is making `call`.
#[inline(never)]
pub unsafe fn take(call: &Call) -> Option<isize> {
    let header = session::header().filter(|header| header.opened_count.load(Relaxed) != 0)?;
    let slot = session::slot().filter(|slot| slot.takes_none.load(Relaxed) == 0)?;
    let flags = call.open_flags()?;
    let shown = shown_flags(flags)?;
    let (is_led, is_reader) =
        (LIVE.load(Relaxed) != 0 && track::is_led(), READER.load(Relaxed) == thread_pointer());
    if !is_led && !is_reader || track::is_shared() || !process::is_own() || !may_speculate() {
        return None;
    }
    let rights = rights()?;
    let is_led = is_led && rights == RIGHTS.load(Relaxed);
    let is_reader = is_reader && rights == READERS_RIGHTS.load(Relaxed);
    if !is_led && !is_reader {
        return None;
    }
    // A handler that opens files, or that jumps out, would find these descriptors.
    let _signals = Blocked::begin();
    // SAFETY: the caller's: a path that cannot be read is refused here, too.
    let named = unsafe { attributes::named(call, shown & n::O_NOFOLLOW != 0) }?;
    // SAFETY: (both) the kernel has just read the path.
    let (signature, (_, path)) = unsafe { (signatures::path(call), signatures::path_of(call)) };
    let (process, figures) = (process::original(), figures(&named));
    let speculated = || find(header, open_key(signature, shown, process, LIVE.load(Relaxed)), figures);
    let replayed = || find(header, replayed_open_key(path, process), figures);
    let file = is_led.then(speculated).flatten();
    let file = file.or_else(|| (is_reader && may_be_replayed(path, shown)).then(replayed).flatten())?;
    let received = receive(header, file, flags & n::O_CLOEXEC != 0);
    match received {
        Ok(descriptor) => {
            if file.state.compare_exchange(OPENED_TAKEN, OPENED_FREE, AcqRel, Relaxed).is_ok() {
                session::has_taken(header);
            }
            if is_as_asked(descriptor, &named, shown) {
                slot.counters.opens_taken.fetch_add(1, Relaxed);
                // It was spared a stall.
                timing::extend();
                return Some(descriptor);
            }
            close(descriptor);
            None
        }
        Err(result) => {
            // The program has no descriptor left for this, or it may take none of the executor's.
            if !call::is(result, errno::EMFILE) {
                slot.takes_none.store(1, Relaxed);
            }
            let _ = file.state.compare_exchange(OPENED_TAKEN, OPENED_READY, AcqRel, Relaxed);
            None
        }
    }
}

/// Finds the file of an open, which nobody else takes from now on.
fn find(header: &'static Header, key: u64, figures: u64) -> Option<&'static OpenedFile> {
    let kept = header.ticks_per_second.load(Relaxed) / 1_000 * REMOTE_KEPT_MS;
    let is_wanted = |file: &&OpenedFile| {
        file.key.load(Relaxed) == key
            && file.state.load(Acquire) == OPENED_READY
            && file.figures.load(Relaxed) == figures
            && ticks().wrapping_sub(file.opened_at.load(Relaxed)) < kept
            && file.state.compare_exchange(OPENED_READY, OPENED_TAKEN, AcqRel, Relaxed).is_ok()
    };
    header.opened.iter().find(is_wanted)
}

/// Takes the file out of the executor's socket: as the lowest descriptor that is free, like any that the kernel gives.
fn receive(header: &Header, file: &OpenedFile, close_on_exec: bool) -> Result<isize, isize> {
    // SAFETY: the calls take numbers. The descriptors are this function's.
    let socket = unsafe {
        let executor = sys!(n::__NR_pidfd_open, header.executor_pid.load(Relaxed), 0);
        if executor < 0 {
            return Err(executor);
        }
        let socket = sys!(n::__NR_pidfd_getfd, executor, file.socket.load(Relaxed), 0);
        close(executor);
        socket
    };
    if socket < 0 {
        return Err(socket);
    }
    let received = message(socket, close_on_exec);
    close(socket);
    received
}

/// One control message with one descriptor.
#[repr(C)]
struct Control {
    header: net::cmsghdr,
    descriptor: i32,
    _padding: u32,
}

/// The file in the message of a socket.
fn message(socket: isize, close_on_exec: bool) -> Result<isize, isize> {
    let mut byte = 0u8;
    let mut part = [(&raw mut byte).addr(), 1];
    let mut control = MaybeUninit::<Control>::zeroed();
    let mut message = net::msghdr {
        msg_name: core::ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: (&raw mut part).cast(),
        msg_iovlen: 1,
        msg_control: control.as_mut_ptr().cast(),
        msg_controllen: size_of::<Control>(),
        msg_flags: 0,
    };
    let flags = net::MSG_DONTWAIT | if close_on_exec { net::MSG_CMSG_CLOEXEC } else { 0 };
    // SAFETY: the message names locals, of these sizes.
    let result = unsafe { sys!(n::__NR_recvmsg, socket, &raw mut message, flags) };
    if result < 0 {
        return Err(result);
    }
    // SAFETY: integers, whose zeroes are valid.
    let Control { header, descriptor, .. } = unsafe { control.assume_init() };
    let has_one = header.cmsg_len == size_of::<net::cmsghdr>() + size_of::<i32>()
        && (header.cmsg_level as u32, header.cmsg_type as u32) == (net::SOL_SOCKET, net::SCM_RIGHTS);
    // Without room for the descriptor there is no control message.
    if has_one { Ok(descriptor as isize) } else { Err(call::error(errno::EMFILE)) }
}

/// Whether the descriptor is of the file that the path names, and shows the flags of the open.
fn is_as_asked(descriptor: isize, named: &n::stat, shown: u32) -> bool {
    // SAFETY: no memory is involved.
    let flags = unsafe { sys!(n::__NR_fcntl, descriptor, n::F_GETFL) };
    flags as u32 == shown | n::O_LARGEFILE
        && attributes::of(descriptor)
            .is_some_and(|stat| (stat.st_dev, stat.st_ino) == (named.st_dev, named.st_ino))
}

fn close(descriptor: isize) {
    // SAFETY: the descriptor is the caller's.
    let _ = unsafe { sys!(n::__NR_close, descriptor) };
}

fn figures(stat: &n::stat) -> u64 {
    let figures = Figures {
        device: stat.st_dev,
        inode: stat.st_ino,
        mode: stat.st_mode,
        owner: (stat.st_uid, stat.st_gid),
        size: stat.st_size as u64,
        times: [
            (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        ],
    };
    figures.value()
}

/// What the thread may open: its user and groups for files, and its capabilities; never 0. `None` where it has more groups than are
/// compared, or the kernel does not tell.
fn rights() -> Option<u64> {
    let mut groups = [0u32; GROUPS];
    let mut capabilities = [0u32; 6];
    let version = [n::_LINUX_CAPABILITY_VERSION_3, 0];
    // SAFETY: the calls fill locals that are as large as they are told. No user and no group has the number -1.
    unsafe {
        let user = sys!(n::__NR_setfsuid, u32::MAX);
        let group = sys!(n::__NR_setfsgid, u32::MAX);
        let count = sys!(n::__NR_getgroups, GROUPS, groups.as_mut_ptr());
        let told = sys!(n::__NR_capget, version.as_ptr(), capabilities.as_mut_ptr());
        if count < 0 || told < 0 {
            return None;
        }
        let words = [user, group, count].map(|word| word as u64);
        let all = words.into_iter().chain(groups.into_iter().chain(capabilities).map(u64::from));
        Some(all.fold(Signature::call(0), Signature::word).value())
    }
}
