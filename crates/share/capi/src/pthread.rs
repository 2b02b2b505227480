//! Mutexes and their like in shared memory. Hosts of one machine map one memory, and what POSIX threads share between processes
//! works there. Between machines no host would wake another one, so these functions refuse, where libc's would not know.
//!
//! A program that is linked with this library calls these instead of libc's.

use std::{
    ffi::{CStr, c_int, c_uint, c_void},
    mem,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};

use crate::host::host_if_joined;

/// Says that there is none at this address, if so.
fn refuses(function: &CStr, address: *const c_void) -> bool {
    let Some(host) = host_if_joined() else { return false };
    let refused = !host.has_one_memory() && host.is_shared(address as usize);
    if refused {
        let (rank, name) = (host.rank(), function.to_string_lossy());
        eprintln!(
            "forebay: host {rank} called {name}() for shared memory of several machines, where no thread of another host would be woken; use forebay_lock() and forebay_barrier()"
        );
    }
    refused
}

/// libc's function of a name, looked up once.
struct Next(&'static CStr, AtomicPtr<c_void>);

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self(name, AtomicPtr::new(std::ptr::null_mut()))
    }

    fn find(&self) -> *mut c_void {
        let mut found = self.1.load(Relaxed);
        if found.is_null() {
            // SAFETY: the name is a constant string.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.0.as_ptr()) };
            self.1.store(found, Relaxed);
        }
        found
    }
}

/// Defines a function that refuses, or calls libc's of the same name and type.
macro_rules! refusing {
    ($function:ident, $refusal:expr, $first:ident: $kind:ty $(, $more:ident: $type:ty)*) => {
        /// As in libc, but refused in shared memory of several machines.
        ///
        /// # Safety
        /// As for libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function($first: $kind $(, $more: $type)*) -> c_int {
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($function), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("no name"),
            };
            static NEXT: Next = Next::new(NAME);
            let next = NEXT.find();
            if next.is_null() || refuses(NAME, $first.cast()) {
                return $refusal;
            }
            // SAFETY: libc's function of this name, which has this type. Of its arguments the caller speaks.
            unsafe {
                let next: unsafe extern "C" fn($kind $(, $type)*) -> c_int = mem::transmute(next);
                next($first $(, $more)*)
            }
        }
    };
}

refusing!(pthread_mutex_init, libc::ENOTSUP, mutex: *mut libc::pthread_mutex_t, how: *const libc::pthread_mutexattr_t);
refusing!(pthread_cond_init, libc::ENOTSUP, condition: *mut libc::pthread_cond_t, how: *const libc::pthread_condattr_t);
refusing!(pthread_rwlock_init, libc::ENOTSUP, lock: *mut libc::pthread_rwlock_t, how: *const libc::pthread_rwlockattr_t);
refusing!(
    pthread_barrier_init,
    libc::ENOTSUP,
    barrier: *mut libc::pthread_barrier_t,
    how: *const libc::pthread_barrierattr_t,
    count: c_uint
);
refusing!(sem_init, not_supported(), semaphore: *mut libc::sem_t, is_shared: c_int, value: c_uint);

/// As functions fail that set `errno`.
fn not_supported() -> c_int {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = libc::ENOTSUP };
    -1
}
