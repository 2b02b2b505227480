//! Routes a call of the program: by this process's role, and in the original by the class of the call.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use forebay_protocol::layout::{Off, file_system};
use forebay_sigsafe::general as n;
use forebay_sigsafe::{call, errno, ticks};

use crate::call::Call;
use crate::calls::{self, Class};
use crate::{
    accesses, exec, fault_threads, fault_watch, faults, held, limits, mapped_pages, original, process,
    record_locks, residency, role, session, spawn, speculator, timing, unforked,
};

/// How often this process may yet try again to make a process or a thread that the system has refused. Threads that count at once
/// may count one for two.
static TRIES: AtomicU32 = AtomicU32::new(2000);

/// Carries out a system call of the program as its role demands.
///
/// # Safety
/// `call` holds the registers of a call that the program is making just now.
#[inline(always)]
pub unsafe fn dispatch(call: &Call) -> isize {
    // SAFETY: (all) the caller's.
    unsafe {
        match role::current() {
            role::ORIGINAL => call_of_original(call),
            role => call_of_another(role, call),
        }
    }
}

/// Carries out a call of a process that is no original. It has no frame: a debugger loses its way where compilers undo one before they
/// branch.
///
/// # Safety
/// The program is making `call`.
#[inline(never)]
unsafe fn call_of_another(role: u32, call: &Call) -> isize {
    // SAFETY: (all arms) the caller's.
    unsafe {
        match role {
            role::SPECULATOR => speculator::call(call),
            role::OFF => call_of_bystander(call),
            _ => call_of_forked_child(call),
        }
    }
}

/// Carries out a call of a process whose agent does nothing any more.
///
/// # Safety
/// The program is making `call`.
#[inline(never)]
unsafe fn call_of_bystander(call: &Call) -> isize {
    // SAFETY: (all arms) the caller's.
    unsafe {
        match calls::class(call.number) {
            Class::Fork => fork_call(call),
            Class::Limit => limits::call(call),
            Class::Execute => exec::execute_alone(call, false),
            Class::ExecuteAt => exec::execute_alone(call, true),
            _ => faults::bystander_call(call),
        }
    }
}

/// Carries out a call of the original.
///
/// # Safety
/// The program is making `call`.
#[inline(always)]
unsafe fn call_of_original(call: &Call) -> isize {
    let class = calls::class(call.number);
    // SAFETY: the caller's.
    let result = unsafe { if class == Class::Pass { call.execute() } else { classified(call, class) } };
    // SAFETY: the caller's.
    if says_in_use(result) { unsafe { on_failure(call, result) } } else { result }
}

/// Whether a call failed for something that is in use, or full of what is.
#[inline(always)]
fn says_in_use(result: isize) -> bool {
    use errno::{EBUSY, EDQUOT, ENOSPC, ENOTEMPTY};
    result < 0 && [EBUSY, ENOSPC, EDQUOT, ENOTEMPTY].into_iter().any(|code| call::is(result, code))
}

/// A call failed for something that is in use, which may be so because a copy of this process or the executor has files open: makes
/// it again when neither has, if it has done nothing.
///
/// # Safety
/// The program is making `call`.
#[cold]
#[inline(never)]
pub unsafe fn on_failure(call: &Call, result: isize) -> isize {
    // Directories that are not empty are common, and each call that is made again keeps the executor waiting.
    let may_be_ours = call::is(result, errno::EBUSY) || spawn::may_be_left() || session::has_opened_ahead();
    // Another thread may have confined this one meanwhile: the role comes first.
    if !may_be_ours || !role::is_original() || !process::is_own() || !has_done_nothing(call) {
        return result;
    }
    // SAFETY: (the call) the caller's.
    let Some(result) = original::in_quiet(|| unsafe { call.execute() }) else { return result };
    if opens(calls::class(call.number)) { held::opened(result) } else { result }
}

/// Whether a call that failed for what is in use has done nothing, and has told of what is so now. A close has closed. It and a
/// sync tell of earlier writes, each of which is told of once; and so does a write to a remote file system.
fn has_done_nothing(call: &Call) -> bool {
    let [first, _, third, ..] = call.arguments;
    match call.number as u32 {
        n::__NR_open | n::__NR_openat | n::__NR_openat2 | n::__NR_creat => true,
        n::__NR_mkdir | n::__NR_mkdirat | n::__NR_mknod | n::__NR_mknodat => true,
        n::__NR_link | n::__NR_linkat | n::__NR_symlink | n::__NR_symlinkat => true,
        n::__NR_rename | n::__NR_renameat | n::__NR_renameat2 => true,
        n::__NR_unlink | n::__NR_unlinkat | n::__NR_rmdir => true,
        n::__NR_truncate | n::__NR_ftruncate | n::__NR_fallocate => true,
        n::__NR_mount | n::__NR_umount2 | n::__NR_fcntl | n::__NR_ioctl => true,
        n::__NR_write | n::__NR_pwrite64 | n::__NR_writev | n::__NR_pwritev | n::__NR_pwritev2 => {
            is_local(first)
        }
        n::__NR_sendfile => is_local(first),
        n::__NR_copy_file_range => is_local(third),
        _ => false,
    }
}

/// Whether a file is known to be on a file system of this machine.
#[inline(never)]
fn is_local(file: usize) -> bool {
    let device = session::header().and_then(|header| speculator::device_of(header, file as isize));
    residency::has(device, file_system::KNOWN) && !residency::has(device, file_system::REMOTE)
}

/// # Safety
/// The program is making `call`.
unsafe fn classified(call: &Call, class: Class) -> isize {
    // SAFETY: (all arms) the caller's.
    unsafe {
        match class {
            Class::Pass => call.execute(),
            Class::Read => original::read(call, call.arguments[0]),
            Class::ReadSecond => original::read(call, call.arguments[1]),
            Class::Path | Class::PathAt => original::look_up(call, class),
            Class::PathOpens | Class::PathAtOpens => path_opening_call(call, class),
            Class::Opens => opening_call(call),
            Class::Seek => original::seek(call),
            Class::Folder => {
                // Its paths lead elsewhere from now on.
                if call.number as u32 == n::__NR_chroot {
                    original::end_reading();
                }
                let result = call.execute();
                if role::is_original() {
                    accesses::made(call, class, result);
                }
                result
            }
            Class::Fork => fork_call(call),
            Class::Execute => exec::execute(call, false),
            Class::ExecuteAt => exec::execute(call, true),
            Class::Exit => {
                original::leave_image();
                mapped_pages::record_at_exit();
                call.execute()
            }
            Class::Lock => lock_call(call),
            Class::Control => original::control(call),
            Class::Confine => original::confine(call),
            Class::Visibility => {
                if matches!(call.number as u32, n::__NR_unshare | n::__NR_setns) {
                    original::end_reading();
                }
                if original::shows_copies(call) {
                    if original::watches_files(call) {
                        original::stop_replay();
                    }
                    original::disable_everywhere(Off::Visible);
                }
                call.execute()
            }
            Class::Signal => faults::signal_call(call),
            Class::Memory => memory_call(call),
            Class::Thread => {
                let result = call.execute();
                fault_threads::begin_thread();
                result
            }
            Class::Limit => limits::call(call),
        }
    }
}

/// A fork. One that fails for want of a process is made again when forebay has none.
///
/// # Safety
/// The program is making `call`.
unsafe fn fork_call(call: &Call) -> isize {
    let copies = call.arguments[0] as u32 & n::CLONE_VM == 0;
    let is_counted = copies && unforked::begin_fork();
    record_locks::before(call);
    // SAFETY: the caller's.
    let mut result = unsafe { call.execute() };
    while call::is(result, errno::EAGAIN) && makes_room() {
        // SAFETY: the caller's.
        result = unsafe { call.execute() };
    }
    // A child has a count of its own.
    if is_counted && result != 0 {
        unforked::end_fork();
    }
    result
}

/// Makes room for a process or a thread of the program, where forebay has any: whether to try again.
#[cold]
pub fn makes_room() -> bool {
    let left = TRIES.load(Relaxed);
    if left == 0 {
        return false;
    }
    TRIES.store(left - 1, Relaxed);
    if !session::ask_to_leave() {
        // The kernel takes a moment to forget those that have ended.
        process::pause();
    }
    true
}

/// # Safety
/// The program is making `call`.
unsafe fn memory_call(call: &Call) -> isize {
    note_mapping(call);
    unforked::before(call);
    // SAFETY: the caller's.
    let result = unsafe { faults::memory_call(call) };
    unforked::after(call, result);
    // Before any of them is touched: none can be in a copy yet.
    if asks_for_huge_pages(call) && result > 0 {
        original::disable_everywhere(Off::HugePages);
    }
    original::on_mapping(call, result);
    result
}

/// Takes note of a mapping of a file, and of a lock of one: no copy of the program shall keep the lock.
fn note_mapping(call: &Call) {
    let [_, _, _, flags, descriptor, _] = call.arguments;
    if call.number as u32 == n::__NR_mmap && flags as u32 & n::MAP_ANONYMOUS == 0 && held::map(descriptor) {
        original::on_lock();
    }
}

/// A lock of an open file, or System V shared memory.
///
/// # Safety
/// The program is making `call`.
unsafe fn lock_call(call: &Call) -> isize {
    if call.number as u32 == n::__NR_flock && held::lock(call.arguments[0]) {
        original::on_lock();
    }
    unforked::before(call);
    // SAFETY: the caller's.
    let result = unsafe { call.execute() };
    if process::is_vfork_child() {
        return result;
    }
    match call.number as u32 {
        n::__NR_shmat if !(-4095..0).contains(&result) => {
            held::attached();
            original::count_off(Off::SystemV);
        }
        n::__NR_shmdt if result == 0 => held::detached(),
        _ => {}
    }
    result
}

/// A call that gives a descriptor.
///
/// # Safety
/// The program is making `call`.
unsafe fn opening_call(call: &Call) -> isize {
    // SAFETY: the caller's.
    let result = held::opened(unsafe { call.execute() });
    if result >= 0 && matches!(call.number as u32, n::__NR_dup | n::__NR_dup2 | n::__NR_dup3) {
        held::duplicated(call.arguments[0], result as usize);
        accesses::duplicated(call.arguments[0], result as usize);
    } else {
        accesses::opened_other(result);
    }
    result
}

/// A call that opens a path.
///
/// # Safety
/// The program is making `call`.
unsafe fn path_opening_call(call: &Call, class: Class) -> isize {
    // SAFETY: the caller's.
    let result = held::opened(unsafe { original::look_up(call, class) });
    // SAFETY: the kernel has just made the call.
    if result >= 0 && role::is_original() && unsafe { accesses::flags_of(call) } & u64::from(n::O_DIRECT) != 0
    {
        original::disable_everywhere(Off::Direct);
    }
    result
}

/// Whether a call may open a file for direct reads. What openat2 asks for is in memory that may be none.
fn may_ask_for_direct_reads(call: &Call) -> bool {
    // SAFETY: without openat2, no memory is read.
    call.number as u32 == n::__NR_openat2 || unsafe { accesses::flags_of(call) } & u64::from(n::O_DIRECT) != 0
}

fn asks_for_huge_pages(call: &Call) -> bool {
    call.number as u32 == n::__NR_mmap && call.arguments[3] as u32 & n::MAP_HUGETLB != 0
}

/// Carries out a call of a process that the program forked and that has not stalled yet: the state here is still that
/// of its parent.
///
/// # Safety
/// The program is making `call`.
#[inline(never)]
unsafe fn call_of_forked_child(call: &Call) -> isize {
    let class = calls::class(call.number);
    // SAFETY: (all arms) the caller's.
    unsafe {
        match class {
            Class::Fork => return fork_call(call),
            Class::Execute => return exec::execute(call, false),
            Class::ExecuteAt => return exec::execute(call, true),
            Class::Limit => return limits::call(call),
            Class::Lock => return lock_call(call),
            Class::Opens => return opening_call(call),
            Class::Control if original::is_harmless(call) => return original::control(call),
            Class::Control | Class::Confine => return classified_in_forked_child(call, class),
            Class::Visibility if original::shows_copies(call) => {
                return classified_in_forked_child(call, class);
            }
            // It has no signals of faults yet, whatever it blocks.
            Class::Signal if fault_watch::is_on() && call.number as u32 != n::__NR_rt_sigprocmask => {
                return classified_in_forked_child(call, class);
            }
            Class::Signal => return faults::bystander_call(call),
            Class::Memory if asks_for_huge_pages(call) => return classified_in_forked_child(call, class),
            Class::PathOpens | Class::PathAtOpens if may_ask_for_direct_reads(call) => {
                return classified_in_forked_child(call, class);
            }
            _ => {}
        }
        note_mapping(call);
        unforked::before(call);
        let before = ticks();
        let result = call.execute();
        if role::current() == role::OFF {
            return result;
        }
        unforked::after(call, result);
        accesses::made(call, class, result);
        let slow = ticks().wrapping_sub(before) > timing::stall_ticks_min();
        if slow && class != Class::Pass && class != Class::Exit {
            let _ = begin_forked_child();
        }
        if opens(class) { held::opened(result) } else { result }
    }
}

/// # Safety
/// The program is making `call`.
unsafe fn classified_in_forked_child(call: &Call, class: Class) -> isize {
    // SAFETY: the caller's.
    unsafe { if begin_forked_child() { classified(call, class) } else { faults::bystander_call(call) } }
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
    let Some(header) = session::header().filter(|header| original::begin_forked_child(header)) else {
        role::give_up_forked_child();
        return false;
    };
    faults::begin_forked_child(header, process::id());
    role::begin_forked_child();
    true
}
