//! A process beside this one: no child of it, in no session of its parent's, without anything that it has open.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::signals::{SignalsBlocked, receive};

/// The process that another one stands beside, from there.
pub struct Neighbour {
    /// Its process id.
    pub pid: i32,
    handle: OwnedFd,
}

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The neighbour has ended.
    Ended,
    /// This process got a signal of a child, or in its stead.
    ByChild,
    /// Time has passed.
    Late,
}

/// Whether a process beside this one would be a child of it all the same, because this one adopts orphans.
#[must_use]
pub fn adopts_orphans() -> bool {
    let mut is_subreaper = 0;
    // SAFETY: the call writes to a local.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) };
    is_subreaper != 0 || getpid().as_raw_nonzero().get() == 1
}

/// Starts a copy of this process beside it, which carries out `work` and ends. Of what this process has open, the copy keeps the
/// descriptors `kept`, which are above the standard ones. Returns when all others are closed there.
///
/// A process between the two forks the copy and ends, so that the kernel gives the copy another parent. Its end sends no signal.
/// This process must have one thread.
///
/// # Errors
/// The system refuses a process or a descriptor.
pub fn start_beside(kept: &[RawFd], told: impl FnOnce(i32), work: impl FnOnce(Neighbour)) -> io::Result<()> {
    let pid = getpid();
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    // SAFETY: without flags the call is a fork whose end sends no signal. This process has one thread, so its copy is whole.
    let between = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    match between {
        0 => {
            let neighbour = Neighbour { pid: pid.as_raw_nonzero().get(), handle };
            let left = leave_everything(kept.iter().copied().chain([neighbour.handle.as_raw_fd()]));
            let forked = match left {
                // SAFETY: the copy's copy is whole, too.
                Ok(()) => unsafe { libc::fork() },
                Err(_) => -1,
            };
            match forked {
                0 => work(neighbour),
                1.. => told(forked),
                _ => {}
            }
            // SAFETY: ends the process, whose handlers at exit are those of the process that it is a copy of.
            unsafe { libc::_exit(i32::from(forked < 0)) }
        }
        1.. => {
            let mut status = 0;
            // SAFETY: the call writes to a local.
            while unsafe { libc::waitpid(between as i32, &mut status, libc::__WALL) } < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            if status == 0 { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes all descriptors but these, and leaves the session and the folder.
fn leave_everything(kept: impl Iterator<Item = RawFd>) -> io::Result<()> {
    let mut kept: Vec<RawFd> = kept.collect();
    kept.sort_unstable();
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    let mut from = 3;
    // SAFETY: the calls take numbers and a terminated path. No descriptor that is closed is used again here: this process is a
    // copy that goes on with what it keeps.
    unsafe {
        for standard in 0..3 {
            if libc::dup2(nothing.as_raw_fd(), standard) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        for fd in kept.into_iter().chain([RawFd::MAX]) {
            if from < fd && libc::syscall(libc::SYS_close_range, from, fd - 1, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            from = fd.saturating_add(1);
        }
        std::mem::forget(nothing);
        libc::setsid();
        if libc::chdir(c"/".as_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

impl Neighbour {
    /// Waits until it has ended, a signal of a child has come, or time has passed. All other signals are passed over.
    #[must_use]
    pub fn wait(&self, _: &SignalsBlocked, timeout: Duration) -> Woken {
        let limit = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut wanted = libc::pollfd { fd: self.handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the structures are locals, and the mask is a valid one.
        let ready = unsafe { libc::ppoll(&mut wanted, 1, &limit, &receive(libc::SIGCHLD)) };
        match ready {
            0 => Woken::Late,
            1.. => Woken::Ended,
            _ => Woken::ByChild,
        }
    }
}
