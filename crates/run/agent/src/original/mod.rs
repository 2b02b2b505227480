//! The original: its calls go through verbatim, and those that wait for a device are noticed.
//!
//! The fast path is a class look-up and a word that tells whether the thread left its processor. All else happens only
//! for some calls after a stall (they are timed), or while a speculator lives (its log is compared), or while the
//! resync policy is armed (the next read is probed, so that the speculator can be forked while the device works).
//!
//! The program may have called on a stack of a page. So what runs rarely is not inlined: its frame is there only while it
//! is needed.

mod exposure;
mod fault;
mod left;
mod permission;
mod resync;
mod size;
mod slow;
mod stall;
mod track;
mod verdict;

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use forebay_policy::copies::Faults;
use forebay_protocol::layout::{Header, LEASES_SOME, Off, Slot};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{call, errno, prctl, sys, ticks};

pub use self::fault::on_fault;
use self::permission::bar_for_all;
pub use self::permission::{count_off, is_confined, may_ever_speculate, turn_off};
use self::resync::probe;
use self::slow::{Private, alone};
use self::stall::{file_device, stalled};
use self::track::{Standing, compare, used};
use self::verdict::{abandon, judge};
use crate::calls::{self, Class};
use crate::entry::Call;
use crate::spawn::{self, Spawned};
use crate::{attention, exec, faults, role, session, signatures, speculator};

/// Process that the state below is of; another one running this code is a vfork child, which only passes through.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Highest descriptor seen.
static DESCRIPTOR_MAX: AtomicU32 = AtomicU32::new(15);
/// Generation of the speculator whose log is compared; 0 for none.
static LIVE: AtomicU32 = AtomicU32::new(0);
/// Thread that the speculator is a copy of.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Probes left: while there are any, reads are probed for a coming stall.
static PROBES: AtomicU32 = AtomicU32::new(0);

/// Reads probed after the policy was armed before the probing stops again for want of stalls.
const PROBES_MAX: u32 = 64;
/// Starts as the original; `false` where the slow path is in use, as in a copy of a process that was in it.
pub fn begin(header: &Header) -> bool {
    let Some(mut private) = slow::enter() else { return false };
    attention::begin(header.stall_ticks_min.load(Relaxed));
    private.begin(header.ticks_per_second.load(Relaxed));
    PROCESS.store(process_id(), Relaxed);
    true
}

/// Carries out a call of a process that the program forked and that has not stalled yet: the state here is still that
/// of its parent.
///
/// # Safety
/// The program is making `call`.
pub unsafe fn call_of_forked_child(call: &Call) -> isize {
    let class = calls::class(call.number);
    // SAFETY: (all arms) the caller's.
    unsafe {
        match class {
            Class::Execute => return exec::execute(call, false),
            Class::ExecuteAt => return exec::execute(call, true),
            Class::Lock | Class::Control | Class::Confine => return classified_in_forked_child(call, class),
            Class::Expose if exposure::comes_of(call) => return classified_in_forked_child(call, class),
            Class::Signal if faults::are_told() => return classified_in_forked_child(call, class),
            Class::Memory if asks_for_huge_pages(call) => return classified_in_forked_child(call, class),
            _ => {}
        }
        let before = ticks();
        let result = call.execute();
        let slow = ticks().wrapping_sub(before) > attention::stall_ticks_min();
        if slow && class != Class::Pass && class != Class::Exit {
            let _ = begin_forked_child();
        }
        if result > DESCRIPTOR_MAX.load(Relaxed) as isize && opens(class) { opened(result) } else { result }
    }
}

/// # Safety
/// The program is making `call`.
unsafe fn classified_in_forked_child(call: &Call, class: Class) -> isize {
    // SAFETY: the caller's.
    unsafe { if begin_forked_child() { classified(call, class) } else { call.execute() } }
}

fn opens(class: Class) -> bool {
    matches!(class, Class::Opens | Class::PathOpens | Class::PathAtOpens)
}

/// A forked child becomes an original of its own: whether it is one now. It does not where a thread was in the slow path at
/// the fork: what that had begun is not finished here.
fn begin_forked_child() -> bool {
    if !role::claim_forked_child() {
        return role::is_original();
    }
    let Some(header) = session::header().filter(|header| begin(header)) else {
        role::give_up_forked_child();
        return false;
    };
    LIVE.store(0, Relaxed);
    PROBES.store(0, Relaxed);
    session::forget_slot();
    spawn::forget();
    faults::begin_forked_child(header, process_id());
    role::begin_forked_child();
    true
}

/// The highest descriptor that the program is known to have had.
pub fn descriptor_max() -> usize {
    DESCRIPTOR_MAX.load(Relaxed) as usize
}

/// Whether this process shares the memory of the original's, and is another.
pub fn is_vfork_child() -> bool {
    role::is_original() && process_id() != PROCESS.load(Relaxed)
}

/// This process's id.
pub fn process_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { sys!(n::__NR_getpid) as u32 }
}

/// Carries out a call of the original.
///
/// # Safety
/// The program is making `call`.
#[inline(always)]
pub unsafe fn call(call: &Call) -> isize {
    let class = calls::class(call.number);
    // SAFETY: the caller's.
    let result = unsafe { if class == Class::Pass { call.execute() } else { classified(call, class) } };
    // SAFETY: the caller's.
    if says_in_use(result) { unsafe { on_failure(call, result) } } else { result }
}

/// Whether a call failed for something that is in use, or full of what is: it has done nothing.
#[inline(always)]
fn says_in_use(result: isize) -> bool {
    use errno::{EBUSY, EDQUOT, ENOSPC, ENOTEMPTY};
    result < 0 && [EBUSY, ENOSPC, EDQUOT, ENOTEMPTY].into_iter().any(|code| call::is(result, code))
}

/// A call failed for something that is in use, which may be so because a copy of this process has files open: makes it again when
/// there is none.
///
/// # Safety
/// The program is making `call`.
#[cold]
#[inline(never)]
pub unsafe fn on_failure(call: &Call, result: isize) -> isize {
    if !spawn::may_be_left() || process_id() != PROCESS.load(Relaxed) {
        return result;
    }
    alone(|mut private| {
        if let Some(private) = private.as_deref_mut().filter(|_| LIVE.load(Relaxed) != 0) {
            // That little has come of it says nothing of others.
            private.policy.excuse();
        }
        dismiss(private);
    });
    spawn::wait_for_hints();
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    if opens(calls::class(call.number)) { opened(result) } else { result }
}

unsafe fn classified(call: &Call, class: Class) -> isize {
    // SAFETY: (all arms) the caller's.
    unsafe {
        match class {
            Class::Pass => call.execute(),
            Class::Read => read(call, call.arguments[0]),
            Class::ReadSecond => read(call, call.arguments[1]),
            Class::Path | Class::PathAt => look_up(call, class),
            Class::PathOpens | Class::PathAtOpens => opened(look_up(call, class)),
            Class::Opens => opened(call.execute()),
            Class::Seek => seek(call),
            Class::Execute => exec::execute(call, false),
            Class::ExecuteAt => exec::execute(call, true),
            Class::Exit => {
                if leave_image() {
                    spawn::wait_for_hints();
                }
                call.execute()
            }
            Class::Lock => {
                bar_for_all(Off::Unsafe);
                call.execute()
            }
            Class::Control => control(call),
            Class::Confine => confine(call),
            Class::Expose => {
                if exposure::comes_of(call) {
                    bar_for_all(Off::Unsafe);
                }
                call.execute()
            }
            Class::Signal => faults::signal_call(call),
            Class::Memory => memory_call(call),
        }
    }
}

/// # Safety
/// The program is making `call`.
unsafe fn memory_call(call: &Call) -> isize {
    // SAFETY: the caller's.
    let result = unsafe { faults::memory_call(call) };
    // Before any of them is touched: none can be in a copy yet.
    if asks_for_huge_pages(call) && result > 0 {
        bar_for_all(Off::Unsafe);
    }
    if LIVE.load(Relaxed) != 0
        && call.number as u32 == n::__NR_mmap
        && call.arguments[3] as u32 & n::MAP_ANONYMOUS == 0
        && result > 0
    {
        note_mapping(signatures::mapping(call), result);
    }
    result
}

/// The original has mapped a file, while there is a speculation.
#[inline(never)]
fn note_mapping(signature: u64, address: isize) {
    let standing = compare(signature);
    if standing == Standing::Hinted {
        used();
    }
    if standing != Standing::Alone
        && let Some(slot) = session::slot()
    {
        slot.mapped.tell(signature, address as u64);
    }
}

fn asks_for_huge_pages(call: &Call) -> bool {
    call.number as u32 == n::__NR_mmap && call.arguments[3] as u32 & n::MAP_HUGETLB != 0
}

/// # Safety
/// `call` is the program's `lseek`.
unsafe fn seek(call: &Call) -> isize {
    if LIVE.load(Relaxed) != 0 {
        signatures::seek(call);
    }
    // SAFETY: the caller's.
    unsafe { call.execute() }
}

fn opened(result: isize) -> isize {
    if result > DESCRIPTOR_MAX.load(Relaxed) as isize {
        DESCRIPTOR_MAX.store(result as u32, Relaxed);
    }
    result
}

/// # Safety
/// `call` is the program's `fcntl`.
unsafe fn control(call: &Call) -> isize {
    let command = call.arguments[1] as u32;
    if matches!(command, n::F_OFD_SETLK | n::F_OFD_SETLKW | n::F_SETLEASE) {
        bar_for_all(Off::Unsafe);
    }
    if command == n::F_SETLEASE
        && let Some(header) = session::header()
    {
        header.leases.store(LEASES_SOME, Relaxed);
    }
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    if matches!(command, n::F_DUPFD | n::F_DUPFD_CLOEXEC) { opened(result) } else { result }
}

/// # Safety
/// `call` is the program's `seccomp` or `prctl`.
unsafe fn confine(call: &Call) -> isize {
    let command = call.arguments[0] as u32;
    if call.number as u32 == n::__NR_seccomp || command == prctl::PR_SET_SECCOMP {
        alone(dismiss);
        turn_off(Off::Confined);
    }
    if command == prctl::PR_SET_CHILD_SUBREAPER && call.arguments[1] != 0 {
        exposure::adopts_orphans();
    }
    // SAFETY: the caller's.
    unsafe { call.execute() }
}

/// The program's image ends: by exec, or with the process. Whether it had a slot.
pub fn leave_image() -> bool {
    let Some(slot) = session::slot() else { return false };
    if process_id() != PROCESS.load(Relaxed) {
        return false;
    }
    alone(dismiss);
    settle_figures(slot);
    PROBES.store(0, Relaxed);
    session::close();
    true
}

/// Ends the speculator and waits until it is gone: it holds copies of descriptors and of the working directory. Without the
/// slow path's state, nothing is learned of what came of it.
fn dismiss(private: Option<&mut Private>) {
    let Some(slot) = session::slot() else { return };
    // Nobody will need to know what comes of them.
    slot.left_count.store(0, Relaxed);
    match private {
        Some(private) => judge(slot, private),
        None => {
            let _ = abandon(slot);
        }
    }
    spawn::wait_for_end(slot);
}

/// Page faults so far.
#[inline(never)]
fn page_faults(private: &Private) -> Faults {
    let usage = usage();
    Faults {
        minor: usage.ru_minflt as u64,
        major: usage.ru_majflt as u64,
        pages: private.anonymous_pages,
        ticks: ticks().saturating_sub(private.started),
    }
}

#[inline(always)]
fn usage() -> n::rusage {
    let mut usage = MaybeUninit::<n::rusage>::zeroed();
    // SAFETY: the call fills the structure, whose zeroes are valid too.
    unsafe {
        let _ = sys!(n::__NR_getrusage, n::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    }
}

#[inline(never)]
fn settle_figures(slot: &Slot) {
    let usage = usage();
    slot.counters.footprint_bytes.store((usage.ru_maxrss as u64) << 10, Relaxed);
    slot.counters.reclaims.store(usage.ru_minflt as u64, Relaxed);
    slot.counters.faults.store(usage.ru_majflt as u64, Relaxed);
}

/// # Safety
/// `call` is a read of the program's, of `descriptor`.
#[inline(always)]
unsafe fn read(call: &Call, descriptor: usize) -> isize {
    if attention::is_on() {
        // SAFETY: the caller's.
        return unsafe { read_attentively(call, descriptor) };
    }
    // SAFETY: the caller's.
    let (result, left) = unsafe { attention::execute(call) };
    if left {
        on_unattended_read(call, descriptor);
    }
    result
}

/// Nobody attended to a read, and the thread left its processor.
#[cold]
pub fn on_unattended_read(call: &Call, descriptor: usize) {
    if let Some(device) = file_device(descriptor) {
        stalled(None, Standing::Alone, Some(device), is_directory_read(call));
    }
}

/// # Safety
/// As [`read`].
#[inline(never)]
unsafe fn read_attentively(call: &Call, descriptor: usize) -> isize {
    let mut standing = Standing::Alone;
    if LIVE.load(Relaxed) == 0 {
        attention::tire();
    } else {
        standing = compare(signatures::read(call));
    }
    if PROBES.load(Relaxed) != 0 && matches!(standing, Standing::Alone | Standing::Unpredicted) {
        // SAFETY: the caller's.
        match unsafe { probe(call, descriptor) } {
            // SAFETY: the caller's.
            Some(Spawned::Speculator) => return unsafe { speculator::first_call(call) },
            Some(Spawned::Original) => standing = Standing::Behind,
            None => {}
        }
    }
    // SAFETY: the caller's.
    let (result, slow) = unsafe { attention::execute_timed(call) };
    if slow.is_some()
        && let Some(device) = file_device(descriptor)
    {
        stalled(slow, standing, Some(device), is_directory_read(call));
    } else if standing == Standing::Hinted {
        used();
    }
    result
}

/// A stalled directory read cannot be probed, so its speculator is forked after it.
fn is_directory_read(call: &Call) -> bool {
    matches!(call.number as u32, n::__NR_getdents | n::__NR_getdents64)
}

/// # Safety
/// `call` is the program's and takes a path.
#[inline(always)]
unsafe fn look_up(call: &Call, class: Class) -> isize {
    if attention::is_on() {
        // SAFETY: the caller's.
        return unsafe { look_up_attentively(call, class) };
    }
    // SAFETY: the caller's.
    let (result, left) = unsafe { attention::execute(call) };
    if left {
        stalled(None, Standing::Alone, None, true);
    }
    result
}

/// # Safety
/// As [`look_up`].
#[inline(never)]
unsafe fn look_up_attentively(call: &Call, class: Class) -> isize {
    // SAFETY: the caller's.
    let (result, slow) = unsafe { attention::execute_timed(call) };
    let mut standing = Standing::Alone;
    // A call on the descriptor itself is none on a path.
    let on_path =
        call.number as u32 != n::__NR_newfstatat || call.arguments[3] as u32 & n::AT_EMPTY_PATH == 0;
    if LIVE.load(Relaxed) == 0 {
        attention::tire();
    } else if on_path && !call.may_have_faulted(result) {
        // SAFETY: the kernel has just read the path.
        let signature = unsafe { signatures::path(call) };
        standing = compare(signature);
        if let (Class::PathOpens | Class::PathAtOpens, Ok(descriptor)) = (class, usize::try_from(result)) {
            signatures::opened(descriptor, signature);
        }
    }
    if slow.is_some() {
        stalled(slow, standing, None, true);
    } else if standing == Standing::Hinted {
        used();
    }
    result
}
