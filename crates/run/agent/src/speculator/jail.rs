//! The jail: what the kernel enforces on a speculator, whatever code it runs.
//!
//! Only this library's own code may make system calls, and only calls without an effect outside. Every other call traps and
//! is emulated. Each allowed call is harmless even if garbage jumped to it: files are opened for reading only, mappings are
//! private, and descriptors that lead outside are closed. No offset of the original's is shared. Landlock repeats the rule for
//! files where the kernel has it.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use forebay_policy::balance::Idleness;
use forebay_policy::price::TICK_US;
use forebay_protocol::layout::{End, feature};
use forebay_sigsafe::{general as n, ioctl, landlock, prctl, sys};

use super::{State, abandoned, checkpoint, descriptors, end, hints, memory, shared};
use crate::call::Call;
use crate::snapshot::Snapshot;

/// Something of the jail cannot be had: the speculator must not run.
pub struct Refused;

const STACK_BYTES: usize = 64 << 10;

#[repr(C, align(16))]
struct Stack(core::cell::UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: used by the kernel as the speculator's signal stack only. No reference to it is ever made.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(core::cell::UnsafeCell::new([0; STACK_BYTES]));

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
        handle_signals()?;
        if sys!(n::__NR_prctl, prctl::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
            super::missing(feature::SECCOMP);
            return Err(Refused);
        }
        restrict_files();
        filter_calls()
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

/// Signals that mean that computing with predicted values went wrong: a crash.
const FATAL: [u32; 5] = [n::SIGSEGV, n::SIGBUS, n::SIGFPE, n::SIGILL, n::SIGTRAP];

/// What the kernel lays out for a handler with `SA_SIGINFO` (ucontext).
#[repr(C)]
struct Context {
    flags: u64,
    link: usize,
    stack: [u64; 3],
    r8: u64,
    r9: u64,
    r10: u64,
    r11_to_r15: [u64; 5],
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    rsp: u64,
    rip: u64,
}

core::arch::global_asm!(
    ".text",
    ".hidden forebay_restore",
    ".globl forebay_restore",
    ".type forebay_restore,@function",
    // Just these bytes, and no unwind information here nor a byte before: so unwinders know a signal's frame.
    "nop",
    "forebay_restore:",
    "mov rax, 15",
    "syscall",
    ".size forebay_restore, . - forebay_restore",
);

unsafe extern "C" {
    fn forebay_restore();
}

/// Address of what a handler returns to.
pub fn restorer() -> usize {
    forebay_restore as *const () as usize
}

/// What `rt_sigaction` takes.
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// The restorer's flag, which the kernel's headers leave out.
pub const SA_RESTORER: u64 = 0x0400_0000;

/// # Safety
/// In the speculator.
unsafe fn handle_signals() -> Result<(), Refused> {
    let stack = [STACK.0.get() as usize, 0, STACK_BYTES];
    let flags = u64::from(n::SA_SIGINFO | n::SA_ONSTACK) | SA_RESTORER;
    let set = |signal: u32, handler: extern "C" fn(i32, *const u8, *mut Context)| {
        // A tick may take longer than one; the others come while calls of the program are carried out in them.
        let nests = if signal == n::SIGPROF { 0 } else { u64::from(n::SA_NODEFER) };
        let action = Action {
            handler: handler as *const () as usize,
            flags: flags | nests,
            restorer: forebay_restore as *const () as usize,
            mask: 0,
        };
        // SAFETY: the structure is as the kernel wants it, and the handler is of this library.
        unsafe { sys!(n::__NR_rt_sigaction, signal, &raw const action, 0, 8) }
    };
    // SAFETY: the calls read locals; the stack is a static.
    unsafe {
        // Refused within a handler; then the frame that it returns through has the stack (see `adopt_frame`).
        let _ = sys!(n::__NR_sigaltstack, &raw const stack, 0);
        let mut result = 0;
        for signal in FATAL {
            result |= set(signal, on_fatal);
        }
        result |= set(n::SIGSYS, on_call);
        result |= set(n::SIGPROF, on_tick);
        let blocked = blocked();
        result |= sys!(n::__NR_rt_sigprocmask, n::SIG_SETMASK, &raw const blocked, 0, 8);
        if result < 0 || !start_timer() { Err(Refused) } else { Ok(()) }
    }
}

fn start_timer() -> bool {
    let tick = n::__kernel_old_timeval { tv_sec: 0, tv_usec: TICK_US as i64 };
    let timer = [tick, tick];
    // SAFETY: the call reads a local.
    unsafe { sys!(n::__NR_setitimer, n::ITIMER_PROF, &raw const timer, 0) == 0 }
}

/// In a copy of a speculator, which has its jail but not its timer: starts that.
pub fn start_ticking(state: &mut State) -> bool {
    was_busy_otherwise(state);
    super::TOLD_US.store(0, Relaxed);
    start_timer()
}

/// What was spent so far was not the program's.
pub fn was_busy_otherwise(state: &mut State) {
    TICKS_MISSED.store(0, Relaxed);
    state.idleness.restart(state.hints.issued, super::usage().ru_minflt as u64);
}

/// Signals that are none of a speculator's.
fn blocked() -> u64 {
    FATAL
        .into_iter()
        .chain([n::SIGSYS, n::SIGPROF])
        .fold(u64::MAX, |blocked, signal| blocked & !(1 << (signal - 1)))
}

/// Where the kernel keeps the blocked signals in what it lays out for a handler.
const CONTEXT_MASK: usize = 296;
const CONTEXT_STACK: usize = 16;

/// Lets a speculator that was forked in a handler of the original's return from it with its own signal stack and
/// blocked signals.
///
/// # Safety
/// `context` is what the kernel passed to the handler.
pub unsafe fn adopt_frame(context: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        context.add(CONTEXT_MASK).cast::<u64>().write(blocked());
        context.add(CONTEXT_STACK).cast::<[usize; 3]>().write([STACK.0.get() as usize, 0, STACK_BYTES]);
    }
}

extern "C" fn on_fatal(signal: i32, info: *const u8, context: *mut Context) {
    let Some(mut taken) = super::enter() else { super::crash() };
    let state = &mut *taken;
    if signal == n::SIGBUS as i32 {
        // SAFETY: the kernel passes what it knows of the fault, with the address behind three words and padding, and the
        // interrupted registers.
        let (address, place) = unsafe { (info.add(16).cast::<usize>().read(), (*context).rip) };
        if memory::fill(state, address, place as usize) {
            catch_up(state);
            return;
        }
    }
    end(state, End::Signal);
}

/// A call that came from elsewhere than a patched site, or from one that leaves the call to its stub.
extern "C" fn on_call(_signal: i32, _info: *const u8, context: *mut Context) {
    // SAFETY: the kernel passes the interrupted registers.
    unsafe {
        let context = &mut *context;
        let arguments = [context.rdi, context.rsi, context.rdx, context.r10, context.r8, context.r9];
        let call = Call::new(context.rax as usize, arguments.map(|word| word as usize), context.rip as usize);
        context.rax = super::call(&call) as u64;
    }
}

/// Ticks that came while an entry had the state.
static TICKS_MISSED: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_tick(_signal: i32, _info: *const u8, _context: *mut Context) {
    match super::enter() {
        Some(mut state) => tick(&mut state),
        None => {
            TICKS_MISSED.fetch_add(1, Relaxed);
        }
    }
}

/// An entry is through: the ticks that came meanwhile are its.
pub fn catch_up(state: &mut State) {
    while TICKS_MISSED.load(Relaxed) > 0 {
        TICKS_MISSED.fetch_sub(1, Relaxed);
        tick(state);
    }
}

fn tick(state: &mut State) {
    if abandoned(state) || !hints::original_lives(state) {
        end(state, End::Abandoned);
    }
    let usage = super::usage();
    super::tell_processor_time(state.slot, &usage);
    memory::keep_in_bounds(state, &usage);
    let is_catching_up = memory::is_catching_up(state);
    if state.idleness.on_tick(state.hints.issued, usage.ru_minflt as u64, is_catching_up) {
        end(state, End::Cpu);
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

/// One instruction of classic BPF.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u16,
    on_true: u8,
    on_false: u8,
    operand: u32,
}

/// A filter in the making.
struct Filter {
    instructions: [Instruction; 256],
    len: usize,
}

const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_NOT_LESS: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const TRAP: u32 = 0x0003_0000;
const KILL: u32 = 0x8000_0000;
const ERROR: u32 = 0x0005_0001;
const ARCHITECTURE_X86_64: u32 = 0xc000_003e;
const NUMBERS_X32: u32 = 0x4000_0000;
const AT_NUMBER: u32 = 0;
const AT_ARCHITECTURE: u32 = 4;
const AT_INSTRUCTION: u32 = 8;

const fn at_argument(index: u32) -> u32 {
    16 + index * 8
}

impl Filter {
    fn add(&mut self, code: u16, operand: u32, on_true: u8, on_false: u8) {
        if let Some(place) = self.instructions.get_mut(self.len) {
            *place = Instruction { code, on_true, on_false, operand };
            self.len += 1;
        }
    }

    fn load(&mut self, offset: u32) {
        self.add(LOAD, offset, 0, 0);
    }

    fn finish(&mut self, action: u32) {
        self.add(RETURN, action, 0, 0);
    }

    /// Takes `action` where the loaded word is `operand`.
    fn when(&mut self, operand: u32, action: u32) {
        self.add(JUMP_EQUAL, operand, 0, 1);
        self.finish(action);
    }

    /// Allows call `number` where the low half of argument `index` is one of `values`.
    fn allow_with(&mut self, number: u32, index: u32, values: &[u32]) {
        self.add(JUMP_EQUAL, number, 0, 2 + 2 * values.len() as u8);
        self.load(at_argument(index));
        for value in values {
            self.when(*value, ALLOW);
        }
        self.finish(ERROR);
    }

    /// Allows call `number` where its instruction ends at `behind` (its low half) and the low half of argument `index` is
    /// `value`.
    fn allow_at(&mut self, number: u32, behind: u32, index: u32, value: u32) {
        self.add(JUMP_EQUAL, number, 0, 7);
        self.load(AT_INSTRUCTION);
        self.add(JUMP_EQUAL, behind, 1, 0);
        self.finish(ERROR);
        self.load(at_argument(index));
        self.when(value, ALLOW);
        self.finish(ERROR);
    }

    /// Allows call `number` where the low half of argument `index` has none of `bits`.
    fn allow_without(&mut self, number: u32, index: u32, bits: u32) {
        self.add(JUMP_EQUAL, number, 0, 4);
        self.load(at_argument(index));
        self.add(JUMP_ANY_BIT, bits, 0, 1);
        self.finish(ERROR);
        self.finish(ALLOW);
    }

    /// Allows the calls that are harmless with some arguments only.
    fn allow_with_arguments(&mut self) {
        self.allow_without(n::__NR_openat, 2, OPEN_CHANGES);
        self.allow_without(n::__NR_mmap, 3, n::MAP_SHARED | n::MAP_HUGETLB);
        self.allow_with(
            n::__NR_madvise,
            2,
            &[
                n::MADV_NORMAL,
                n::MADV_RANDOM,
                n::MADV_SEQUENTIAL,
                n::MADV_WILLNEED,
                n::MADV_DONTNEED,
                n::MADV_FREE,
                n::MADV_HUGEPAGE,
                n::MADV_NOHUGEPAGE,
            ],
        );
        self.when(n::__NR_userfaultfd, ALLOW);
        let (copied, copy_flags) = checkpoint::copy_call();
        self.allow_at(n::__NR_clone, copied as u32, 0, copy_flags);
        self.allow_with(n::__NR_wait4, 2, &[n::WNOHANG]);
        self.allow_with(n::__NR_setitimer, 0, &[n::ITIMER_PROF]);
        self.allow_with(n::__NR_process_madvise, 3, &[n::MADV_DONTNEED]);
        self.allow_with(
            n::__NR_ioctl,
            1,
            &[
                ioctl::UFFDIO_COPY,
                ioctl::UFFDIO_ZEROPAGE,
                ioctl::UFFDIO_API,
                ioctl::UFFDIO_REGISTER,
                ioctl::PAGEMAP_SCAN,
            ],
        );
        self.allow_with(n::__NR_fcntl, 1, &[n::F_GETFL, n::F_GETFD]);
        self.allow_with(n::__NR_futex, 1, &[n::FUTEX_WAKE, n::FUTEX_WAIT]);
        self.allow_with(n::__NR_kill, 1, &[0]);
        self.allow_with(n::__NR_prlimit64, 2, &[0]);
    }
}

/// Calls that this library makes, or lets through, in the speculator: the most frequent first.
const HARMLESS: [u32; 46] = [
    n::__NR_openat2,
    n::__NR_fstat,
    n::__NR_close,
    n::__NR_pread64,
    n::__NR_newfstatat,
    n::__NR_getdents64,
    n::__NR_getdents,
    n::__NR_lseek,
    n::__NR_fadvise64,
    n::__NR_statx,
    n::__NR_munmap,
    n::__NR_mprotect,
    n::__NR_brk,
    n::__NR_mremap,
    n::__NR_nanosleep,
    n::__NR_sched_yield,
    n::__NR_rt_sigreturn,
    n::__NR_exit_group,
    n::__NR_readlinkat,
    n::__NR_faccessat2,
    n::__NR_getcwd,
    n::__NR_fchdir,
    n::__NR_fstatfs,
    n::__NR_getrusage,
    n::__NR_getpid,
    n::__NR_getuid,
    n::__NR_geteuid,
    n::__NR_getgid,
    n::__NR_getegid,
    n::__NR_getresuid,
    n::__NR_getresgid,
    n::__NR_getgroups,
    n::__NR_uname,
    n::__NR_sysinfo,
    n::__NR_times,
    n::__NR_clock_gettime,
    n::__NR_clock_getres,
    n::__NR_gettimeofday,
    n::__NR_time,
    n::__NR_getrlimit,
    n::__NR_getrandom,
    n::__NR_sched_getaffinity,
    n::__NR_getcpu,
    n::__NR_restart_syscall,
    n::__NR_cachestat,
    n::__NR_mincore,
];

/// Bits of an open's flags that would let it change something.
const OPEN_CHANGES: u32 = n::O_ACCMODE | n::O_CREAT | n::O_TRUNC | n::O_APPEND;

unsafe extern "C" {
    /// First byte of this library's text (with its headers), by the linker.
    static __ehdr_start: u8;
    /// Awaited its text.
    static etext: u8;
}

/// # Safety
/// In the speculator.
unsafe fn filter_calls() -> Result<(), Refused> {
    let (start, end) = (&raw const __ehdr_start as u64, &raw const etext as u64);
    if start >> 32 != end >> 32 || end <= start {
        return Err(Refused);
    }
    let blank = Instruction { code: 0, on_true: 0, on_false: 0, operand: 0 };
    let mut filter = Filter { instructions: [blank; 256], len: 0 };
    filter.load(AT_ARCHITECTURE);
    filter.add(JUMP_EQUAL, ARCHITECTURE_X86_64, 1, 0);
    filter.finish(KILL);
    filter.load(AT_NUMBER);
    filter.add(JUMP_NOT_LESS, NUMBERS_X32, 0, 1);
    filter.finish(KILL);
    // Whose call is it?
    filter.load(AT_INSTRUCTION + 4);
    filter.add(JUMP_EQUAL, (start >> 32) as u32, 1, 0);
    filter.finish(TRAP);
    filter.load(AT_INSTRUCTION);
    filter.add(JUMP_NOT_LESS, start as u32, 1, 0);
    filter.finish(TRAP);
    filter.add(JUMP_NOT_LESS, end as u32, 0, 1);
    filter.finish(TRAP);
    filter.load(AT_NUMBER);
    // Never at the file's own offset, never waiting.
    filter.add(JUMP_EQUAL, n::__NR_preadv2, 0, 6);
    filter.load(at_argument(3));
    filter.when(u32::MAX, ERROR);
    filter.load(at_argument(5));
    filter.when(n::RWF_NOWAIT, ALLOW);
    for number in HARMLESS {
        filter.when(number, ALLOW);
    }
    if cfg!(feature = "trace") {
        filter.when(n::__NR_write, ALLOW);
    }
    filter.allow_with_arguments();
    // The stub of this call makes it for the program.
    filter.when(n::__NR_clone3, TRAP);
    filter.finish(ERROR);

    #[repr(C)]
    struct Program {
        len: u16,
        instructions: *const Instruction,
    }
    let program = Program { len: filter.len as u16, instructions: filter.instructions.as_ptr() };
    // SAFETY: the program describes the array.
    let result = unsafe { sys!(n::__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    if result < 0 {
        super::missing(feature::SECCOMP);
        return Err(Refused);
    }
    Ok(())
}

const SECCOMP_SET_MODE_FILTER: u32 = 1;
