//! Locks, semaphores and conditions.

use std::ffi::{c_int, c_void};

use forebay_millipage::{Condition, Error, ReadWrite, Semaphore};

use crate::{failure::attempt, host::host};

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_lock(lock: u32) -> c_int {
    attempt(|| Ok(host()?.lock(lock).map(|()| 0)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_trylock(lock: u32) -> c_int {
    attempt(|| Ok(host()?.try_lock(lock).map(c_int::from)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_lock_recursive(lock: u32) -> c_int {
    attempt(|| Ok(host()?.lock_recursive(lock).map(|()| 0)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_unlock(lock: u32) -> c_int {
    attempt(|| Ok(host()?.unlock(lock).map(|()| 0)?))
}

fn with_semaphore(word: *const c_void, act: impl FnOnce(Semaphore) -> Result<c_int, Error>) -> c_int {
    attempt(|| Ok(Semaphore::at(&*host()?, word as usize).and_then(act)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_semaphore_post(semaphore: *const c_void, units: u32) -> c_int {
    with_semaphore(semaphore, |semaphore| semaphore.release(units).map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_semaphore_wait(semaphore: *const c_void) -> c_int {
    with_semaphore(semaphore, |semaphore| semaphore.acquire().map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_semaphore_trywait(semaphore: *const c_void) -> c_int {
    with_semaphore(semaphore, |semaphore| Ok(semaphore.try_acquire().into()))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_condition_wait(condition: *const c_void, lock: u32) -> c_int {
    attempt(|| {
        let host = host()?;
        Condition::at(&host, condition as usize)?.wait(&host, lock)?;
        Ok(0)
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_condition_signal(condition: *const c_void) -> c_int {
    notify(condition, 1)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_condition_broadcast(condition: *const c_void) -> c_int {
    notify(condition, u32::MAX)
}

fn notify(condition: *const c_void, threads: u32) -> c_int {
    attempt(|| {
        Condition::at(&*host()?, condition as usize)?.notify(threads);
        Ok(0)
    })
}

fn with_lock(word: *const c_void, act: impl FnOnce(ReadWrite) -> Result<c_int, Error>) -> c_int {
    attempt(|| Ok(ReadWrite::at(&*host()?, word as usize).and_then(act)?))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_rwlock_read(lock: *const c_void) -> c_int {
    with_lock(lock, |lock| lock.read().map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_rwlock_write(lock: *const c_void) -> c_int {
    with_lock(lock, |lock| lock.write().map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_rwlock_tryread(lock: *const c_void) -> c_int {
    with_lock(lock, |lock| Ok(lock.try_read().into()))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_rwlock_trywrite(lock: *const c_void) -> c_int {
    with_lock(lock, |lock| Ok(lock.try_write().into()))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_rwlock_unlock(lock: *const c_void) -> c_int {
    with_lock(lock, |lock| lock.unlock().map(|()| 0))
}
