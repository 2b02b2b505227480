//! A process of this program that works for it and may be left behind: one whose end nothing waits for.

use std::{io, ptr, time::Duration};

/// A process started by [`start_apart`]. It is killed when this is dropped.
#[derive(Debug)]
pub struct Apart {
    pid: i32,
}

/// What the kernel gets to end a process that waits for nothing.
const DEATH: Duration = Duration::from_millis(100);

/// Starts a process that does `work` and is killed when this one ends. The calling thread must be the only one.
///
/// The process has a session of its own, the root directory as its working directory, and none of this one's descriptors:
/// so it holds nothing of the caller's should it not be able to end.
///
/// # Errors
/// The system refuses a process.
pub fn start_apart(work: impl FnOnce()) -> io::Result<Apart> {
    // SAFETY: the calls take numbers and terminated paths. There is one thread, so the child finds no lock held. Nothing that
    // the caller owns is dropped there: the child ends without unwinding.
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
                libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
                for _ in 0..=libc::STDERR_FILENO {
                    libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                }
                let _ = libc::chdir(c"/".as_ptr());
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                libc::_exit(0)
            }
            pid if pid > 0 => Ok(Apart { pid }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // SAFETY: the calls take numbers. The process is this one's child, and waited for here alone or by those who reap all.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            let give_up = std::time::Instant::now() + DEATH;
            // One that waits in a file system which does not answer ends later, and is nobody's then.
            while libc::waitpid(self.pid, ptr::null_mut(), libc::WNOHANG) == 0
                && std::time::Instant::now() < give_up
            {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}
