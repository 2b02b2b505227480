//! System calls by number, without libc: results are the kernel's, `-errno` for an error.

use crate::errno;

/// Numbers of system calls, as `NR::read`.
#[allow(missing_docs, reason = "each number has the name of its system call")]
pub mod nr {
    pub use crate::general::*;
}

/// Makes system call `number`.
///
/// # Safety
/// As the call's manual page says of its arguments.
#[inline(always)]
#[must_use]
pub unsafe fn syscall(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel clobbers rcx and r11 only; what the arguments point at is the caller's concern.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// [`syscall`] with up to six arguments, the rest 0.
#[macro_export]
macro_rules! sys {
    ($nr:expr) => { $crate::syscall($nr as usize, [0; 6]) };
    ($nr:expr, $a:expr) => { $crate::syscall($nr as usize, [$a as usize, 0, 0, 0, 0, 0]) };
    ($nr:expr, $a:expr, $b:expr) => { $crate::syscall($nr as usize, [$a as usize, $b as usize, 0, 0, 0, 0]) };
    ($nr:expr, $a:expr, $b:expr, $c:expr) => {
        $crate::syscall($nr as usize, [$a as usize, $b as usize, $c as usize, 0, 0, 0])
    };
    ($nr:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        $crate::syscall($nr as usize, [$a as usize, $b as usize, $c as usize, $d as usize, 0, 0])
    };
    ($nr:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr) => {
        $crate::syscall($nr as usize, [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, 0])
    };
    ($nr:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr, $f:expr) => {
        $crate::syscall($nr as usize, [$a as usize, $b as usize, $c as usize, $d as usize, $e as usize, $f as usize])
    };
}

/// `-errno` as the kernel returns it.
#[must_use]
#[inline]
pub const fn error(code: u32) -> isize {
    -(code as isize)
}

/// Whether `result` is this error.
#[must_use]
#[inline]
pub const fn is(result: isize, code: u32) -> bool {
    result == error(code)
}

/// `-EAGAIN`.
pub const EAGAIN: isize = error(errno::EAGAIN);
/// `-EBADF`.
pub const EBADF: isize = error(errno::EBADF);
/// `-EINVAL`.
pub const EINVAL: isize = error(errno::EINVAL);
/// `-ENOSYS`.
pub const ENOSYS: isize = error(errno::ENOSYS);
