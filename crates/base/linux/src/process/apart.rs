//! A process of this program that works for it and may be left behind: one whose end nothing waits for.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    ptr,
};

/// A process started by [`start_apart`]. It is killed when this is dropped.
#[derive(Debug)]
pub struct Apart {
    pid: i32,
    /// Names it for sure: another process may have its number when it has ended and was waited for.
    process: OwnedFd,
    patience_ms: i32,
}

/// Where a process apart has the descriptor that it keeps.
const KEPT: i32 = 3;
/// What the kernel gets to end a process that waits for nothing.
const DEATH_MS: i32 = 100;

/// Starts a process that does `work` and is killed when this one ends. The calling thread must be the only one: a lock that another
/// one holds would stay locked in the process apart.
///
/// The process has a session of its own, the root directory as its working directory, and none of this one's descriptors:
/// so it holds nothing of the caller's should it not be able to end.
///
/// # Errors
/// There is another thread, or the system refuses a process.
pub fn start_apart(work: impl FnOnce()) -> io::Result<Apart> {
    check_alone()?;
    // SAFETY: there is one thread.
    unsafe { start(None, |_| work()) }
}

/// The same with one of this process's descriptors, which it is given.
///
/// # Errors
/// As [`start_apart`].
pub fn start_apart_with(kept: OwnedFd, work: impl FnOnce(OwnedFd)) -> io::Result<Apart> {
    check_alone()?;
    // SAFETY: there is one thread.
    unsafe { start_with(kept, work) }
}

/// Fails unless the calling thread is the only one of its process, so that a copy of the process finds no lock held.
pub(super) fn check_alone() -> io::Result<()> {
    // A folder has two links of its own and one for each folder in it, of which each thread has one.
    let is_alone = fs::metadata("/proc/self/task")?.nlink() == 3;
    if is_alone { Ok(()) } else { Err(io::Error::other("a process with threads is not copied")) }
}

/// # Safety
/// As [`start`].
unsafe fn start_with(kept: OwnedFd, work: impl FnOnce(OwnedFd)) -> io::Result<Apart> {
    let work = |kept: Option<OwnedFd>| kept.map_or((), work);
    // SAFETY: the caller's.
    unsafe { start(Some(&kept), work) }
}

/// # Safety
/// The calling thread is the only one, or `work` takes no lock that another one may hold.
unsafe fn start(kept: Option<&OwnedFd>, work: impl FnOnce(Option<OwnedFd>)) -> io::Result<Apart> {
    // SAFETY: the calls take numbers and terminated paths. The child waits for no lock, as the caller says. Nothing that the caller
    // owns is dropped there: the child ends without unwinding.
    unsafe {
        let parent = libc::getpid();
        match libc::fork() {
            0 => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The parent may have ended before.
                if libc::getppid() != parent {
                    libc::_exit(0);
                }
                libc::setsid();
                let kept = kept.filter(|kept| libc::dup2(kept.as_raw_fd(), KEPT) == KEPT);
                let others = if kept.is_some() { KEPT as u32 + 1 } else { 0 };
                libc::syscall(libc::SYS_close_range, 0, libc::STDERR_FILENO, 0);
                libc::syscall(libc::SYS_close_range, others, u32::MAX, 0);
                for _ in 0..=libc::STDERR_FILENO {
                    libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                }
                let _ = libc::chdir(c"/".as_ptr());
                let kept = kept.map(|_| OwnedFd::from_raw_fd(KEPT));
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(kept)));
                libc::_exit(0)
            }
            pid if pid > 0 => {
                let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
                if process < 0 {
                    let error = io::Error::last_os_error();
                    libc::kill(pid, libc::SIGKILL);
                    return Err(error);
                }
                Ok(Apart { pid, process: OwnedFd::from_raw_fd(process as i32), patience_ms: DEATH_MS })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Apart {
    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut ended = libc::pollfd { fd: self.process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the call takes a local.
        unsafe { libc::poll(&raw mut ended, 1, 0) > 0 }
    }

    /// Kills it without a wait for its end.
    pub fn let_go(mut self) {
        self.patience_ms = 0;
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let process = self.process.as_raw_fd();
        let mut ended = libc::pollfd { fd: process, events: libc::POLLIN, revents: 0 };
        // SAFETY: the calls take numbers and a local. The process is this one's child, and has its number until it is waited for.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, process, libc::SIGKILL, ptr::null::<u8>(), 0);
            // One that waits in a file system which does not answer ends later, and is waited for by no process of ours.
            if libc::poll(&raw mut ended, 1, self.patience_ms) > 0 {
                libc::waitpid(self.pid, ptr::null_mut(), libc::WNOHANG);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
        sync::atomic::{AtomicU32, Ordering::SeqCst},
    };

    use super::*;
    use crate::process::start_beside;

    #[test]
    fn a_process_with_threads_starts_no_copy_of_itself() {
        let others = std::thread::spawn(std::thread::park);
        assert!(start_apart(|| ()).is_err() && start_beside(&[], |_| ()).is_err());
        assert!(start_apart_with(File::open("/dev/null").unwrap().into(), drop).is_err());
        others.thread().unpark();
        others.join().unwrap();
    }

    /// The descriptor alone says that it is gone: the number may be another process's.
    #[test]
    fn a_process_apart_ends_with_its_owner() {
        static NEVER: AtomicU32 = AtomicU32::new(0);
        let ways: [fn(Apart); 2] = [drop, Apart::let_go];
        for way in ways {
            let work = |_| {
                while NEVER.load(SeqCst) == 0 {
                    std::hint::spin_loop();
                }
            };
            // SAFETY: the work takes no lock.
            let apart = unsafe { start(None, work) }.unwrap();
            let process = apart.process.try_clone().unwrap();
            assert!(!apart.has_ended());
            let mut ended = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: the call takes a local.
            assert_eq!(unsafe { libc::poll(&raw mut ended, 1, 0) }, 0);
            way(apart);
            // SAFETY: as above.
            assert_eq!(unsafe { libc::poll(&raw mut ended, 1, 10_000) }, 1);
        }
    }

    #[test]
    fn a_process_apart_has_the_descriptor_that_it_keeps_and_no_other() {
        let (mut reader, writer) = io::pipe().unwrap();
        let others = File::open("/dev/null").unwrap();
        let work = |kept| {
            // Its list has one more: that of the list itself.
            let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
            let _ = File::from(kept).write_all(&[open as u8]);
        };
        // SAFETY: the work takes no lock but that of the allocator, which fork(3) leaves free.
        let apart = unsafe { start_with(writer.into(), work) };
        let mut ready = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the call takes a local.
        assert_eq!(unsafe { libc::poll(&raw mut ready, 1, 10_000) }, 1);
        let mut said = [0];
        reader.read_exact(&mut said).unwrap();
        assert_eq!(said, [5]);
        drop((apart.unwrap(), others));
    }
}
