//! Reads the kernel's list of locks in a process of its own.
//!
//! # Safety
//! Each function here is safe to call: it takes the header, which is never unmapped, and numbers.
#![allow(unsafe_code, reason = "a process without a program of its own, and its system calls")]

use std::{io, ptr, sync::atomic::Ordering};

use forebay_protocol::layout::{Header, LEASES_NONE, LEASES_SOME};

/// Starts a process that tells the header whether a process holds a lease. Returns its process id.
///
/// The kernel lets its list of locks be read only after a grace period of all processors, in which the reader can
/// neither be interrupted nor killed. The supervisor does not wait for this process.
///
/// # Errors
/// The system refuses a process.
pub fn start_looking_for_leases(header: &Header) -> io::Result<i32> {
    // SAFETY: without flags the call is a fork whose end sends no signal. The child uses its own stack and calls
    // that are allowed after a fork of a process with threads, and ends.
    match unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } {
        0 => look_for_leases(header),
        pid if pid > 0 => Ok(pid as i32),
        _ => Err(io::Error::last_os_error()),
    }
}

fn look_for_leases(header: &Header) -> ! {
    let mut list = [0u8; 4096];
    // SAFETY: the calls take numbers, a terminated path and a buffer of the length they are told.
    unsafe {
        // It may outlive the supervisor, and holds no file system.
        let _ = libc::chdir(c"/".as_ptr());
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        libc::setsid();
        let file = libc::open(c"/proc/locks".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = usize::try_from(libc::read(file, list.as_mut_ptr().cast(), list.len())).unwrap_or(0);
        let some = length == list.len() || list[..length].windows(5).any(|word| word == b"LEASE");
        header.leases.store(if some { LEASES_SOME } else { LEASES_NONE }, Ordering::Release);
        // Hints may have waited for that.
        header.doorbell.fetch_add(1, Ordering::SeqCst);
        libc::syscall(libc::SYS_futex, &raw const header.doorbell, libc::FUTEX_WAKE, 1);
        libc::_exit(0)
    }
}

/// Removes the remains of a process started by [`start_looking_for_leases`]; whether it has ended.
pub fn has_looked(pid: i32) -> bool {
    // SAFETY: the call takes no pointer that it writes to.
    unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL | libc::WNOHANG) != 0 }
}
