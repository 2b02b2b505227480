//! Functions of libc that are replaced one by one in other objects, where libc cannot be patched.
//!
//! The agent then misses what libc calls within itself, stdio's reads above all, and what is loaded later. The original
//! goes on calling libc's own functions, so that they stay cancellation points and set `errno` themselves.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use forebay_sigsafe::general as n;
use forebay_sigsafe::sys;

use crate::call::{self, Call};
use crate::objects::{self, Object, ProgramHeaders};
use crate::{dispatch, role};

const PAGE: usize = 4096;

/// `__errno_location`.
static ERRNO: AtomicUsize = AtomicUsize::new(0);

macro_rules! functions {
    ($($number:ident: $wrapper:ident $($name:literal)+;)*) => {
        /// Functions of libc's that make one system call with their arguments as they are.
        #[repr(usize)]
        #[allow(non_camel_case_types, reason = "types have the names of the functions")]
        enum Function { $($wrapper,)* Count }

        $(
            extern "C" fn $wrapper(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
                called(Function::$wrapper, n::$number, [a, b, c, d, e, f])
            }
        )*

        /// The wrapper for a function of this name, and the function's index.
        fn wrapper(name: &[u8]) -> Option<(usize, usize)> {
            $($(
                if name == $name.to_bytes() {
                    return Some(($wrapper as *const () as usize, Function::$wrapper as usize));
                }
            )+)*
            None
        }

        const NAMES: [&CStr; Function::Count as usize] = [$(functions!(@first $($name)+),)*];
    };
    (@first $name:literal $($rest:literal)*) => { $name };
}

functions! {
    __NR_read: read c"read";
    __NR_pread64: pread c"pread64" c"pread";
    __NR_readv: readv c"readv";
    __NR_open: open c"open64" c"open";
    __NR_openat: openat c"openat64" c"openat";
    __NR_close: close c"close";
    __NR_stat: stat c"stat64" c"stat";
    __NR_lstat: lstat c"lstat64" c"lstat";
    __NR_fstat: fstat c"fstat64" c"fstat";
    __NR_newfstatat: fstatat c"fstatat64" c"fstatat";
    __NR_statx: statx c"statx";
    __NR_access: access c"access";
    __NR_readlink: readlink c"readlink";
    __NR_readlinkat: readlinkat c"readlinkat";
    __NR_lseek: lseek c"lseek64" c"lseek";
    __NR_getdents64: getdents64 c"getdents64";
    __NR_dup: dup c"dup";
    __NR_dup2: dup2 c"dup2";
    __NR_fcntl: fcntl c"fcntl64" c"fcntl";
    __NR_flock: flock c"flock";
    __NR_prctl: prctl c"prctl";
    __NR_setrlimit: setrlimit c"setrlimit64" c"setrlimit";
    __NR_getrlimit: getrlimit c"getrlimit64" c"getrlimit";
    __NR_prlimit64: prlimit c"prlimit64" c"prlimit";
    __NR_execve: execve c"execve";
    __NR_exit_group: _exit c"_exit";
}

fn called(function: Function, number: u32, arguments: [usize; 6]) -> isize {
    let call = Call::interposed(number as usize, arguments, function as usize);
    // SAFETY: the program calls the function with these arguments.
    let result = unsafe { dispatch::dispatch(&call) };
    // A speculator, and exec, have the kernel's result instead of libc's.
    let raw = role::is_speculator() || number == n::__NR_execve;
    if raw && (-4095..0).contains(&result) {
        let location = ERRNO.load(Relaxed);
        if location != 0 {
            // SAFETY: glibc's `__errno_location`, which points at this thread's own word.
            unsafe {
                let location: extern "C" fn() -> *mut i32 = core::mem::transmute(location);
                *location() = -result as i32;
            }
        }
        return -1;
    }
    result
}

/// Replaces the functions in all objects but libc and the loader.
///
/// # Safety
/// The process has one thread, and the loader's list of objects is complete.
pub unsafe fn apply(headers: ProgramHeaders) {
    // SAFETY: the caller's.
    let Some(libc) = (unsafe { objects::loaded(headers) }).find(|object| object.is_libc()) else { return };
    let Some(errno) = libc.symbol(c"__errno_location") else { return };
    for (function, name) in NAMES.iter().enumerate() {
        call::set_real(function, libc.symbol(name).unwrap_or(0));
    }
    ERRNO.store(errno, Relaxed);
    // SAFETY: the caller's.
    for object in unsafe { objects::loaded(headers) } {
        if !object.is_libc() && !object.is_loader() {
            // SAFETY: slots of an object's that hold addresses of functions.
            unsafe { replace(object, headers) };
        }
    }
}

/// # Safety
/// The object is loaded, and the headers are the program's.
unsafe fn replace(object: &Object, headers: ProgramHeaders) {
    for (name, slot) in object.imports() {
        let Some((wrapper, index)) = wrapper(name) else { continue };
        if !call::has_real(index) {
            continue;
        }
        let page = slot.addr() & !(PAGE - 1);
        // SAFETY: the slot lies in its page; read-only after relocation it is put back to that.
        unsafe {
            let Some(relro) = object.is_read_only(slot.addr(), headers) else { return };
            if relro && sys!(n::__NR_mprotect, page, PAGE, n::PROT_READ | n::PROT_WRITE) != 0 {
                continue;
            }
            slot.write(wrapper);
            if relro {
                let _ = sys!(n::__NR_mprotect, page, PAGE, n::PROT_READ);
            }
        }
    }
}
