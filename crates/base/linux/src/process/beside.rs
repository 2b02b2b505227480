//! A process beside this one: no child of it, in no session of its parent's, without anything that it has open.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::apart::check_alone;
use super::signals::{SignalsBlocked, receive};

const STACK_BYTES: usize = 1 << 20;

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
/// descriptors `kept`, which are above the standard ones. Returns the copy's process id when all others are closed there.
///
/// A process between the two forks the copy and ends, so that the kernel gives the copy another parent. It borrows the memory of
/// this process meanwhile, and its end sends no signal. This process must have one thread.
///
/// # Errors
/// There is another thread, or the system refuses a process or a descriptor.
pub fn start_beside<F: FnOnce(Neighbour)>(kept: &[RawFd], work: F) -> io::Result<i32> {
    check_alone()?;
    let pid = getpid();
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let neighbour = Neighbour { pid: pid.as_raw_nonzero().get(), handle };
    let mut between = Between { kept, work: Some((neighbour, work)), copy: Err(io::ErrorKind::Other.into()) };
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    // SAFETY: the process between runs `fork_copy` on a stack of its own, aligned and large enough for the copy's work, too;
    // CLONE_VFORK keeps this thread, and so `between` and `stack`, in place until it has ended.
    let started = unsafe {
        libc::clone(
            fork_copy::<F>,
            stack.as_mut_ptr_range().end.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK,
            (&raw mut between).cast(),
        )
    };
    if started < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call takes no pointer that it writes to.
    while unsafe { libc::waitpid(started, ptr::null_mut(), libc::__WALL) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    between.copy
}

/// What the process between needs, and what it leaves.
struct Between<'a, F> {
    kept: &'a [RawFd],
    work: Option<(Neighbour, F)>,
    copy: io::Result<i32>,
}

extern "C" fn fork_copy<F: FnOnce(Neighbour)>(between: *mut c_void) -> c_int {
    // SAFETY: the process that waits passes this, which stays until this one has ended.
    let between = unsafe { &mut *between.cast::<Between<'_, F>>() };
    let Some((neighbour, work)) = between.work.take() else { return 1 };
    let kept = between.kept.iter().copied().chain([neighbour.handle.as_raw_fd()]);
    between.copy = leave_everything(kept).and_then(|()| {
        // SAFETY: the process that waits has one thread, which stands still, so the copy finds no lock held.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            copy => Ok(copy),
        }
    });
    if matches!(between.copy, Ok(0)) {
        work(neighbour);
    } else {
        // Its descriptor of the handle goes; that of the waiting process stays until that executes another program.
        drop((neighbour, work));
    }
    // SAFETY: ends the process. What is done at the exit of a program is not for its copies.
    unsafe { libc::_exit(0) }
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
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Woken::ByChild,
            // A sandbox refuses the call: signals of children are heard late.
            // SAFETY: the structure is a local.
            _ => match unsafe { libc::poll(&mut wanted, 1, timeout.as_millis().try_into().unwrap_or(-1)) } {
                0 => Woken::Late,
                _ => Woken::Ended,
            },
        }
    }
}
