//! Becomes another program, in a child or in this process.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicI32, Ordering};

use super::inherited::{sigpipe_is_ignored, standard_closed};
use super::signals::SignalsBlocked;

const CHILD_STACK_BYTES: usize = 32 << 10;

/// Variables that name the process that a service's manager has started: see sd_listen_fds(3), sd_watchdog_enabled(3) and
/// systemd.exec(5).
const OF_SERVICE: [&str; 3] = ["LISTEN_PID=", "WATCHDOG_PID=", "SYSTEMD_EXEC_PID="];
/// Digits of a process id at most.
const DIGITS_MAX: usize = 10;

/// How long a child lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As it likes. It stands in the place of this process: variables by which a service's manager names this one name the child.
    Own,
    /// No longer than the thread that starts it.
    OfParent,
}

/// Starts `path` as a child, in the state that this process was started in: signal mask, ignored signals, closed
/// standard descriptors. Returns its process id once it runs the new program.
///
/// As posix_spawn(3) does, the child borrows our memory until then: nothing is copied, whatever our size.
///
/// # Errors
/// What clone(2) or execve(2) said.
pub fn start(
    path: &CStr,
    arguments: &[CString],
    environment: &[CString],
    inherited: &SignalsBlocked,
    life: Life,
) -> io::Result<i32> {
    let (arguments, mut environment) = (pointers(arguments), pointers(environment));
    let mut named = if life == Life::Own { name_child(&mut environment) } else { vec![] };
    let birth = Birth {
        path: path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        mask: inherited.inherited,
        sigpipe_ignored: sigpipe_is_ignored(),
        sigchld_ignored: inherited.sigchld_ignored,
        standard_closed: standard_closed(),
        dies_with_parent: life == Life::OfParent,
        named: named.as_mut_ptr(),
        named_count: named.len(),
        errno: AtomicI32::new(0),
    };
    let mut stack = vec![0u128; CHILD_STACK_BYTES / size_of::<u128>()];
    // SAFETY: the child runs `become_program` on a stack of its own, aligned and larger than it needs; CLONE_VFORK
    // keeps this thread, and so `birth` and `stack`, in place until the child has called execve or _exit. All
    // signals with handlers of ours are faults, which the child does not raise.
    let pid = unsafe {
        libc::clone(
            become_program,
            stack.as_mut_ptr_range().end.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            ptr::from_ref(&birth).cast_mut().cast(),
        )
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    match birth.errno.load(Ordering::Acquire) {
        0 => Ok(pid),
        errno => {
            // SAFETY: the child has called _exit; this only removes its remains.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// An entry of the environment, with room for the child's process id where its value begins.
struct Named {
    entry: Vec<u8>,
    value: usize,
}

/// Puts entries in the place of those that name this process as a service's.
fn name_child(environment: &mut [*const c_char]) -> Vec<Named> {
    let own = std::process::id().to_string();
    let mut named = Vec::new();
    for pointer in environment.iter_mut().filter(|pointer| !pointer.is_null()) {
        // SAFETY: the caller's pointers are of terminated strings.
        let entry = unsafe { CStr::from_ptr(*pointer) }.to_bytes();
        let names_this = |name: &&&str| entry.strip_prefix(name.as_bytes()) == Some(own.as_bytes());
        if let Some(name) = OF_SERVICE.iter().find(names_this) {
            let mut entry = name.as_bytes().to_vec();
            entry.resize(name.len() + DIGITS_MAX + 1, 0);
            *pointer = entry.as_ptr().cast();
            named.push(Named { entry, value: name.len() });
        }
    }
    named
}

/// Writes the number, without its leading zeros, and nothing behind it.
fn write_decimal(mut number: u32, to: &mut [u8]) {
    let count = (1..DIGITS_MAX as u32).find(|&count| number < 10u32.pow(count)).unwrap_or(DIGITS_MAX as u32);
    for place in to.iter_mut().take(count as usize).rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The null-terminated array of these strings.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Becomes the program at `path`, with this environment and in the state that this process was started in. Returns where
/// that fails, with the reason.
pub fn become_other(path: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: all zeros is a valid sigaction; strings and array are terminated and outlive the call.
    unsafe {
        if !sigpipe_is_ignored() {
            let default: libc::sigaction = mem::zeroed();
            libc::sigaction(libc::SIGPIPE, &default, ptr::null_mut());
        }
        for fd in 0..3 {
            if standard_closed() & 1 << fd != 0 {
                // What the runtime opened there.
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
    }
    io::Error::last_os_error()
}

/// What the child needs, prepared so that it neither allocates nor locks.
struct Birth {
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    mask: libc::sigset_t,
    sigpipe_ignored: bool,
    sigchld_ignored: bool,
    standard_closed: u8,
    dies_with_parent: bool,
    named: *mut Named,
    named_count: usize,
    errno: AtomicI32,
}

extern "C" fn become_program(birth: *mut c_void) -> c_int {
    // SAFETY: the parent passes a Birth that stays until we are gone. The calls are async-signal-safe, and what they
    // change (dispositions, descriptors, mask) is the child's own: only memory is shared.
    unsafe {
        let birth = &*birth.cast::<Birth>();
        let mut action: libc::sigaction = mem::zeroed();
        if !birth.sigpipe_ignored {
            libc::sigaction(libc::SIGPIPE, &action, ptr::null_mut());
        }
        if birth.sigchld_ignored {
            action.sa_sigaction = libc::SIG_IGN;
            libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut());
        }
        for fd in 0..3 {
            if birth.standard_closed & 1 << fd != 0 {
                libc::close(fd);
            }
        }
        if birth.dies_with_parent {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        for named in slice::from_raw_parts_mut(birth.named, birth.named_count) {
            write_decimal(libc::getpid().unsigned_abs(), &mut named.entry[named.value..]);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &birth.mask, ptr::null_mut());
        libc::execve(birth.path, birth.arguments, birth.environment);
        birth.errno.store(*libc::__errno_location(), Ordering::Release);
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::{ChildEnd, ChildState, child_state, environment};
    use super::*;

    fn start_shell(script: &CStr) -> io::Result<i32> {
        let arguments = [c"sh".to_owned(), c"-c".to_owned(), script.to_owned()];
        let signals = SignalsBlocked::new();
        start(c"/bin/sh", &arguments, &environment(), &signals, Life::OfParent)
    }

    fn end_of(pid: i32) -> ChildEnd {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "it has not ended");
            match child_state(pid).unwrap() {
                Some(ChildState::Ended(end, _)) => return end,
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    #[test]
    fn a_started_program_runs_and_ends() {
        assert_eq!(end_of(start_shell(c"exit 3").unwrap()), ChildEnd::Exited(3));
    }

    #[test]
    fn variables_that_name_this_process_name_the_child() {
        let own = std::process::id();
        let entries =
            [format!("LISTEN_PID={own}"), format!("WATCHDOG_PID={own}"), "SYSTEMD_EXEC_PID=1".into()];
        let environment: Vec<CString> =
            environment().into_iter().chain(entries.map(|entry| CString::new(entry).unwrap())).collect();
        let script = c"[ $LISTEN_PID = $$ ] && [ $WATCHDOG_PID = $$ ] && exit $SYSTEMD_EXEC_PID";
        let arguments = [c"sh".to_owned(), c"-c".to_owned(), script.to_owned()];
        let pid = start(c"/bin/sh", &arguments, &environment, &SignalsBlocked::new(), Life::Own).unwrap();
        assert_eq!(end_of(pid), ChildEnd::Exited(1));
    }

    #[test]
    fn numbers_are_written_with_all_their_digits() {
        for number in [0, 7, 10, 99, 100, 4_194_304, 999_999_999, 1_000_000_000, u32::MAX] {
            let mut to = [0; DIGITS_MAX + 1];
            write_decimal(number, &mut to);
            assert_eq!(CStr::from_bytes_until_nul(&to).unwrap().to_str().unwrap(), number.to_string());
        }
    }

    #[test]
    fn what_cannot_be_executed_leaves_no_child() {
        let signals = SignalsBlocked::new();
        let error = start(c"/no/such/program", &[], &[], &signals, Life::Own).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
