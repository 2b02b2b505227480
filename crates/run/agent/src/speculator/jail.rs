//! The jail: what the kernel enforces on a speculator, whatever code it runs.
//!
//! Only this library's own code may make system calls, and only calls without an effect outside. Every other call traps and
//! is emulated. Each allowed call is harmless even if garbage jumped to it: files are opened for reading only, mappings are
//! private, and descriptors that lead outside are closed. No offset of the original's is shared. Landlock repeats the rule for
//! files where the kernel has it.

use forebay_policy::balance::Idleness;
use forebay_protocol::layout::feature;
use forebay_sigsafe::{general as n, landlock, prctl, sys};

use super::{State, descriptors, filter, memory, shared, signals};
use crate::snapshot::Snapshot;

/// Something of the jail cannot be had: the speculator must not run.
pub struct Refused;

/// Of `linux/ioprio.h`.
const IOPRIO_WHO_PROCESS: u32 = 1;
const IOPRIO_CLASS_SHIFT: u32 = 13;
const IOPRIO_CLASS_NONE: isize = 0;
const IOPRIO_CLASS_BE: isize = 2;
/// Of `linux/sched.h`.
const SCHED_RESET_ON_FORK: isize = 0x4000_0000;

/// Builds the jail around this process.
pub fn enter(state: &mut State, snapshot: &Snapshot) -> Result<(), Refused> {
    // SAFETY: the calls take numbers and terminated strings.
    unsafe {
        // The process that forked this one does so too, but a checkpoint may be made before.
        let _ = sys!(n::__NR_setpgid, 0, 0);
        lower_priority();
        set_limits();
        if !snapshot.left_outside {
            return Err(Refused);
        }
        if !super::open_own(state) {
            return Err(Refused);
        }
        state.idleness = Idleness::new(snapshot.circumstances.stall_us);
        descriptors::inherit(state, snapshot);
        shared::make_private(state)?;
        memory::prepare(state, &snapshot.circumstances);
        signals::handle()?;
        if sys!(n::__NR_prctl, prctl::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
            super::missing(feature::SECCOMP);
            return Err(Refused);
        }
        restrict_files();
        filter::restrict_calls()
    }
}

/// # Safety
/// In the speculator.
unsafe fn lower_priority() {
    let priority = 0i32;
    keep_io_priority();
    // SAFETY: the calls read locals and terminated strings.
    unsafe {
        if sys!(n::__NR_sched_setscheduler, 0, n::SCHED_IDLE, &raw const priority) < 0 {
            super::missing(feature::SCHED_IDLE);
            let _ = sys!(n::__NR_setpriority, n::PRIO_PROCESS, 0, 19);
        }
        let fd = sys!(
            n::__NR_openat,
            n::AT_FDCWD,
            c"/proc/self/oom_score_adj".as_ptr(),
            n::O_WRONLY | n::O_CLOEXEC
        );
        if fd >= 0 {
            let _ = sys!(n::__NR_write, fd, c"1000".as_ptr(), 4);
            let _ = sys!(n::__NR_close, fd);
        }
    }
}

/// I/O schedulers that know priorities serve an idle process last. But the original is about to wait for what this process
/// reads. So it reads at the original's priority, or at the normal one where that is a real-time priority.
fn keep_io_priority() {
    // SAFETY: the calls take numbers.
    unsafe {
        let mut own = sys!(n::__NR_ioprio_get, IOPRIO_WHO_PROCESS, 0);
        // Some kernels say what was set, others what follows from the priority.
        if own >= 0 && own >> IOPRIO_CLASS_SHIFT == IOPRIO_CLASS_NONE {
            if sys!(n::__NR_sched_getscheduler, 0) & !SCHED_RESET_ON_FORK == n::SCHED_IDLE as isize {
                return;
            }
            // 20 - nice, of which the kernel makes the level where none was set.
            let priority = sys!(n::__NR_getpriority, n::PRIO_PROCESS, 0);
            own = IOPRIO_CLASS_BE << IOPRIO_CLASS_SHIFT | ((40 - priority.clamp(1, 40)) / 5);
        }
        let _ = sys!(n::__NR_ioprio_set, IOPRIO_WHO_PROCESS, 0, own);
    }
}

/// # Safety
/// In the speculator.
unsafe fn set_limits() {
    let mut files = n::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the calls read and fill locals.
    unsafe {
        if sys!(n::__NR_prlimit64, 0, n::RLIMIT_NOFILE, 0, &raw mut files) == 0 {
            files.rlim_cur = files.rlim_max;
            let _ = sys!(n::__NR_prlimit64, 0, n::RLIMIT_NOFILE, &raw const files, 0);
        }
    }
}

/// # Safety
/// In the speculator.
unsafe fn restrict_files() {
    // SAFETY: the calls read locals.
    unsafe {
        let version = sys!(n::__NR_landlock_create_ruleset, 0, 0, landlock::LANDLOCK_CREATE_RULESET_VERSION);
        if version <= 0 {
            super::missing(feature::LANDLOCK);
            return;
        }
        let mut rights = landlock::LANDLOCK_ACCESS_FS_WRITE_FILE
            | landlock::LANDLOCK_ACCESS_FS_REMOVE_DIR
            | landlock::LANDLOCK_ACCESS_FS_REMOVE_FILE
            | landlock::LANDLOCK_ACCESS_FS_MAKE_CHAR
            | landlock::LANDLOCK_ACCESS_FS_MAKE_DIR
            | landlock::LANDLOCK_ACCESS_FS_MAKE_REG
            | landlock::LANDLOCK_ACCESS_FS_MAKE_SOCK
            | landlock::LANDLOCK_ACCESS_FS_MAKE_FIFO
            | landlock::LANDLOCK_ACCESS_FS_MAKE_BLOCK
            | landlock::LANDLOCK_ACCESS_FS_MAKE_SYM;
        if version >= 2 {
            rights |= landlock::LANDLOCK_ACCESS_FS_REFER;
        }
        if version >= 3 {
            rights |= landlock::LANDLOCK_ACCESS_FS_TRUNCATE;
        }
        let handled = u64::from(rights);
        let ruleset = sys!(n::__NR_landlock_create_ruleset, &raw const handled, 8, 0);
        if ruleset < 0 || sys!(n::__NR_landlock_restrict_self, ruleset, 0) < 0 {
            super::missing(feature::LANDLOCK);
        }
        if ruleset >= 0 {
            let _ = sys!(n::__NR_close, ruleset);
        }
    }
}
