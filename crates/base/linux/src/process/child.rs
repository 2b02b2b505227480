//! How children end, and what they used.

use std::io;
use std::mem;
use std::ptr;

/// How a child's state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// A signal stopped it, and it is stopped now.
    Stopped,
    /// It was stopped, and goes on.
    Continued,
    /// It ended. It has used this much, with those of its children that it waited for.
    Ended(ChildEnd, ChildUsage),
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// With this exit status.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

/// What a child and its waited-for children used (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildUsage {
    /// The largest resident set of one process.
    pub max_rss_bytes: u64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults that waited for input.
    pub major_faults: u64,
}

impl ChildEnd {
    /// The exit status that a shell gives: 128 + n where signal n ended the child.
    #[must_use]
    pub fn exit_status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Exited(_) => None,
            Self::Killed(signal) => Some(signal),
        }
    }
}

/// How the state of child `pid` changed, without waiting; `None` where it did not.
///
/// # Errors
/// There is no such child.
pub fn child_state(pid: i32) -> io::Result<Option<ChildState>> {
    let mut status = 0;
    let changes = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
    // SAFETY: all zeros is a valid rusage; the call fills both.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        (libc::wait4(pid, &mut status, changes, &mut usage), usage)
    };
    let end = match waited {
        0 => return Ok(None),
        -1 => return Err(io::Error::last_os_error()),
        _ if libc::WIFSTOPPED(status) => return Ok(Some(ChildState::Stopped)),
        _ if libc::WIFCONTINUED(status) => return Ok(Some(ChildState::Continued)),
        _ if libc::WIFSIGNALED(status) => ChildEnd::Killed(libc::WTERMSIG(status)),
        _ => ChildEnd::Exited(libc::WEXITSTATUS(status) as u8),
    };
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    let usage = ChildUsage {
        max_rss_bytes: count(usage.ru_maxrss).saturating_mul(1024),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
    };
    Ok(Some(ChildState::Ended(end, usage)))
}

/// Reaps ended children that this process did not start. The kernel makes it their parent when theirs ends, where it is
/// the first of its namespace or asked for that. Child `pid` is left.
pub fn reap_orphans(pid: i32) {
    loop {
        // SAFETY: all zeros is a valid siginfo_t, which the call fills; it has a process id then.
        let ended = unsafe {
            let mut info: libc::siginfo_t = mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            if libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0 { info.si_pid() } else { 0 }
        };
        if ended == 0 || ended == pid {
            return;
        }
        // SAFETY: the call takes no pointer that it writes to.
        if unsafe { libc::waitpid(ended, ptr::null_mut(), libc::WNOHANG) } != ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::process::send_signal;

    #[expect(clippy::zombie_processes, reason = "child_state reaps it")]
    fn ended(script: &str) -> (ChildEnd, ChildUsage) {
        let child = Command::new("/bin/sh").args(["-c", script]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            match child_state(child.id() as i32).unwrap() {
                Some(ChildState::Ended(end, usage)) => return (end, usage),
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("{script} has not ended");
    }

    #[test]
    fn an_end_has_the_exit_status_of_a_shell() {
        let (end, _) = ended("exit 7");
        assert_eq!((end, end.exit_status(), end.signal()), (ChildEnd::Exited(7), 7, None));
        let (end, _) = ended("kill -9 $$");
        assert_eq!((end, end.exit_status(), end.signal()), (ChildEnd::Killed(9), 137, Some(9)));
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "child_state reaps it")]
    fn a_child_that_was_stopped_is_seen_to_go_on() {
        let mut command = Command::new("/bin/sh");
        let mut child =
            command.args(["-c", "kill -STOP $$; read line"]).stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let deadline = Instant::now() + Duration::from_secs(20);
        let next = || {
            while Instant::now() < deadline {
                match child_state(pid).unwrap() {
                    Some(state) => return state,
                    None => thread::sleep(Duration::from_millis(1)),
                }
            }
            panic!("its state has not changed");
        };
        assert_eq!(next(), ChildState::Stopped);
        send_signal(pid, libc::SIGCONT, None);
        assert_eq!(next(), ChildState::Continued);
        drop(child.stdin.take());
        assert!(matches!(next(), ChildState::Ended(..)));
    }

    #[test]
    fn what_a_child_s_own_children_used_is_counted() {
        let (_, without) = ended("true");
        let (_, with) = ended("for n in 1 2 3 4 5 6 7 8; do /bin/true; done");
        assert!(without.max_rss_bytes > 100_000 && without.minor_faults > 0, "{without:?}");
        assert!(with.minor_faults > 2 * without.minor_faults, "{with:?} beside {without:?}");
    }

    #[test]
    fn a_process_that_is_no_child_is_an_error() {
        assert_eq!(child_state(1).unwrap_err().raw_os_error(), Some(libc::ECHILD));
    }
}
