//! Calls of the program that the original looks at: they may wait for a device, or matter to a speculation.
//!
//! While a thread waits in a call, another one may confine all threads (seccomp's `TSYNC`), and so turn the agent off. From then on a
//! call of the agent's own may end the program. So the role is looked at again after each call that may wait.

use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::{LEASES_SOME, Off};
use forebay_sigsafe::general as n;
use forebay_sigsafe::prctl;

use super::eligibility::{disable_everywhere, turn_off};
use super::end::{dismiss, give_back};
use super::fork::probe;
use super::stall::{file_device, stalled};
use super::track::{Match, compare, used};
use super::{LIVE, PROBES, opened, slow, visibility};
use crate::call::Call;
use crate::calls::Class;
use crate::snapshot::Spawned;
use crate::timing::Period;
use crate::{
    accesses, cold_program, given_up, held, limits, process, record_locks, role, session, signatures,
    speculator, timing,
};

/// # Safety
/// `call` is a read of the program's, of `descriptor`.
#[inline(always)]
pub unsafe fn read(call: &Call, descriptor: usize) -> isize {
    if timing::is_on() {
        // SAFETY: the caller's.
        return unsafe { read_timed(call, descriptor) };
    }
    // SAFETY: the caller's.
    let (result, left) = unsafe { timing::execute(call) };
    if left {
        // SAFETY: the call has just been made.
        unsafe { on_untimed_read(call, descriptor, result) };
    } else {
        // SAFETY: above.
        unsafe { accesses::read(call, result) };
    }
    result
}

/// A read was not timed, and the thread left its processor.
///
/// # Safety
/// The call has just been made, with this result.
#[cold]
pub unsafe fn on_untimed_read(call: &Call, descriptor: usize, result: isize) {
    if !role::is_original() {
        return;
    }
    // SAFETY: the caller's.
    unsafe { accesses::read(call, result) };
    if let Some(device) = file_device(descriptor) {
        let is_given_up = given_up::on(device);
        if !passes_over(None, is_given_up) {
            stalled(None, Match::NoSpeculator, Some(device), is_directory_read(call) && !is_given_up);
        }
    }
}

/// # Safety
/// As [`read`].
#[inline(never)]
unsafe fn read_timed(call: &Call, descriptor: usize) -> isize {
    let mut matched = Match::NoSpeculator;
    if LIVE.load(Relaxed) == 0 {
        opened::on_call();
        timing::count_down();
    } else {
        matched = compare(signatures::read(call));
    }
    if PROBES.load(Relaxed) != 0 && matches!(matched, Match::NoSpeculator | Match::Mismatch) {
        // SAFETY: the caller's.
        match unsafe { probe(call, descriptor) } {
            // SAFETY: the caller's.
            Some(Spawned::Speculator) => return unsafe { speculator::first_call(call) },
            Some(Spawned::Original) => matched = Match::Pending,
            None => {}
        }
    }
    // SAFETY: the caller's.
    let (result, slow) = unsafe { timing::execute_timed(call) };
    if !role::is_original() {
        return result;
    }
    // SAFETY: the call has just been made.
    unsafe { accesses::read(call, result) };
    if slow.is_some()
        && let Some(device) = file_device(descriptor)
    {
        let is_given_up = given_up::after_wait(device, alone(slow));
        if !passes_over(slow, is_given_up) {
            stalled(slow, matched, Some(device), is_directory_read(call) && !is_given_up);
        }
    } else if let Match::Hinted(stall) = matched {
        used(stall);
    }
    result
}

/// The period of a call, unless a speculation is live.
fn alone(period: Option<Period>) -> Option<Period> {
    period.filter(|_| LIVE.load(Relaxed) == 0)
}

/// Whether a stall is counted, and nothing else: where hints have been given up, and no speculation is live.
fn passes_over(period: Option<Period>, is_given_up: bool) -> bool {
    let passes = is_given_up && LIVE.load(Relaxed) == 0;
    if passes {
        // The times of the next calls tell whether hints pay again.
        timing::on_stall();
    }
    if passes && let (Some(slot), Some(Period { before, after })) = (session::slot(), period) {
        slot.counters.stalls.fetch_add(1, Relaxed);
        slot.counters.stall_ticks.fetch_add(after.wrapping_sub(before), Relaxed);
    }
    passes
}

/// A stalled directory read cannot be probed, so its speculator is forked after it.
fn is_directory_read(call: &Call) -> bool {
    matches!(call.number as u32, n::__NR_getdents | n::__NR_getdents64)
}

/// # Safety
/// `call` is the program's and takes a path.
#[inline(always)]
pub unsafe fn look_up(call: &Call, class: Class) -> isize {
    if timing::is_on() {
        // SAFETY: the caller's.
        return unsafe { look_up_timed(call, class) };
    }
    // SAFETY: the caller's.
    let (result, left) = unsafe { timing::execute(call) };
    if !role::is_original() {
        return result;
    }
    // SAFETY: the call has just been made.
    unsafe { accesses::looked_up(call, class, result) };
    if left {
        // SAFETY: the call has just been made.
        unsafe { tell_of_library(call, result) };
        // SAFETY: above.
        let is_given_up = unsafe { given_up::after_look_up(call, class, result, None) };
        if !passes_over(None, is_given_up) {
            stalled(None, Match::NoSpeculator, None, !is_given_up);
        }
    }
    result
}

/// What was found may be a library, which may not be in memory: while the program waits for devices.
///
/// # Safety
/// `call` has just been made, with this result.
unsafe fn tell_of_library(call: &Call, result: isize) {
    if result >= 0 {
        // SAFETY: the kernel has just read the path.
        cold_program::found(unsafe { signatures::path_of(call) }.1);
    }
}

/// # Safety
/// As [`look_up`].
#[inline(never)]
unsafe fn look_up_timed(call: &Call, class: Class) -> isize {
    opened::on_call();
    let may_be_open = opened::may_take() && matches!(class, Class::PathOpens | Class::PathAtOpens);
    // SAFETY: the caller's.
    let taken = if may_be_open { unsafe { opened::take(call) } } else { None };
    let (result, slow) = match taken {
        Some(descriptor) => (descriptor, None),
        // SAFETY: the caller's.
        None => unsafe { timing::execute_timed(call) },
    };
    if !role::is_original() {
        return result;
    }
    // SAFETY: the call has just been made.
    unsafe { accesses::looked_up(call, class, result) };
    // SAFETY: the call has just been made.
    unsafe { tell_of_library(call, result) };
    let mut matched = Match::NoSpeculator;
    // A call on the descriptor itself is none on a path.
    let on_path =
        call.number as u32 != n::__NR_newfstatat || call.arguments[3] as u32 & n::AT_EMPTY_PATH == 0;
    if LIVE.load(Relaxed) == 0 {
        timing::count_down();
    } else if on_path && !call.may_have_faulted(result) {
        // SAFETY: the kernel has just read the path.
        let signature = unsafe { signatures::path(call) };
        matched = compare(signature);
        if let (Class::PathOpens | Class::PathAtOpens, Ok(descriptor)) = (class, usize::try_from(result)) {
            signatures::opened(descriptor, signature);
        }
    }
    if slow.is_some() {
        // SAFETY: (both) the call has just been made.
        unsafe { opened::on_stall(call, result) };
        // SAFETY: above.
        let is_given_up = unsafe { given_up::after_look_up(call, class, result, alone(slow)) };
        if !passes_over(slow, is_given_up) {
            stalled(slow, matched, None, !is_given_up);
        }
    } else if let Match::Hinted(stall) = matched {
        used(stall);
    }
    result
}

/// # Safety
/// `call` is the program's `lseek`.
pub unsafe fn seek(call: &Call) -> isize {
    if LIVE.load(Relaxed) != 0 {
        signatures::seek(call);
    }
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    accesses::sought(call, result);
    result
}

/// Takes note of a mapping that the original has made.
pub fn on_mapping(call: &Call, result: isize) {
    if LIVE.load(Relaxed) != 0
        && call.number as u32 == n::__NR_mmap
        && call.arguments[3] as u32 & n::MAP_ANONYMOUS == 0
        && result > 0
    {
        note_mapping(signatures::mapping(call), result);
    }
}

/// The original has mapped a file, while there is a speculation.
#[inline(never)]
fn note_mapping(signature: u64, address: isize) {
    let matched = compare(signature);
    if let Match::Hinted(stall) = matched {
        used(stall);
    }
    if matched != Match::NoSpeculator
        && let Some(slot) = session::slot()
    {
        slot.mapped.tell(signature, address as u64);
    }
}

/// The program is about to lock an open file that its speculator may have, or to map one that it has locked.
#[cold]
pub fn on_lock() {
    if !role::is_original() || !process::is_own() {
        return;
    }
    if held::maps_locked_file() {
        disable_everywhere(Off::MappedLock);
    } else {
        give_back();
    }
}

/// Whether an `fcntl` says nothing that its process must become an original for.
pub fn is_harmless(call: &Call) -> bool {
    !matches!(call.arguments[1] as u32, n::F_SETLEASE | n::F_NOTIFY) && !begins_direct_reads(call)
}

/// Whether an `fcntl` has reads of an open file go around the page cache.
fn begins_direct_reads(call: &Call) -> bool {
    call.arguments[1] as u32 == n::F_SETFL && call.arguments[2] as u32 & n::O_DIRECT != 0
}

/// # Safety
/// `call` is the program's `fcntl`.
pub unsafe fn control(call: &Call) -> isize {
    let [descriptor, command, ..] = call.arguments;
    let command = command as u32;
    record_locks::before(call);
    if matches!(command, n::F_OFD_SETLK | n::F_OFD_SETLKW) && held::lock(descriptor) {
        on_lock();
    }
    if command == n::F_SETLEASE {
        disable_everywhere(Off::Unsafe);
        if let Some(header) = session::header() {
            header.leases.store(LEASES_SOME, Relaxed);
        }
    }
    if begins_direct_reads(call) {
        disable_everywhere(Off::Direct);
    }
    if command == n::F_NOTIFY && call.arguments[2] as u32 & n::DN_ACCESS != 0 {
        visibility::stop_replay();
        disable_everywhere(Off::Visible);
    }
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    if !matches!(command, n::F_DUPFD | n::F_DUPFD_CLOEXEC) {
        return result;
    }
    if result >= 0 {
        let _ = held::opened(result);
        held::duplicated(descriptor, result as usize);
        accesses::duplicated(descriptor, result as usize);
    }
    result
}

/// # Safety
/// `call` is the program's `seccomp` or `prctl`.
pub unsafe fn confine(call: &Call) -> isize {
    let command = call.arguments[0] as u32;
    let takes_clock = command == prctl::PR_SET_TSC && call.arguments[1] as u32 == prctl::PR_TSC_SIGSEGV;
    let is_confined = call.number as u32 == n::__NR_seccomp || command == prctl::PR_SET_SECCOMP;
    if is_confined {
        limits::settle();
    }
    if is_confined || takes_clock {
        // No thread begins with anything from here on, and one that has begun ends it first.
        turn_off(Off::Confined);
        slow::exclusive(dismiss);
        role::keep_in_children();
    }
    if command == prctl::PR_SET_CHILD_SUBREAPER && call.arguments[1] != 0 {
        visibility::adopts_orphans();
    }
    // SAFETY: the caller's.
    unsafe { call.execute() }
}
