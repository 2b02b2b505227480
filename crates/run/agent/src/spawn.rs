//! Forks a speculator that is no child of the original.
//!
//! A direct child would show in `wait`, in the processor time of children, and as a zombie. So an *intermediate process* forks
//! the speculator and ends, and the speculator is reparented to init. The intermediate process shares the original's memory,
//! sends no signal when it ends, and is reaped here.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use forebay_policy::balance::Prices;
use forebay_protocol::hint_log;
use forebay_protocol::layout::{CHECKPOINT_STARTING, EARLIER_MAX, Slot, file_system};
use forebay_sigsafe::general as n;
use forebay_sigsafe::path::PathBuffer;
use forebay_sigsafe::turn::{Held, Turn};
use forebay_sigsafe::{call, sys, ticks};

use crate::call::Call;
use crate::snapshot::{Circumstances, DESCRIPTORS, Forked, Original, Snapshot, UNKNOWN};
use crate::status::Status;
use crate::{attributes, given_up, outside, process, residency, session, speculator, trace, unforked};

/// Stands for the process id of a speculator that has not said its own yet.
const STARTING: u32 = 1;
const STACK_BYTES: usize = 16384;
const PROBE_BYTES: usize = 128 << 10;
/// Pages whose copies are timed.
const COPIED_PAGES: usize = 4;
const PAGE: usize = 4096;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: only the intermediate process runs on it, of which there is one at a time: the caller of `fork` waits for it in
// the slow path. No reference to it is ever made.
unsafe impl Sync for Stack {}

/// Where probes read to.
struct Scratch(UnsafeCell<MaybeUninit<[u8; PROBE_BYTES]>>);

// SAFETY: the kernel writes there, and the original's slow path, which one thread is in at a time. Nothing ever reads it or makes a
// reference to it.
unsafe impl Sync for Scratch {}

static STACK: Stack = Stack(UnsafeCell::new([0; STACK_BYTES]));
static SCRATCH: Scratch = Scratch(UnsafeCell::new(MaybeUninit::uninit()));
/// In use while a speculator is forked. The speculator's copy stays in use.
static SNAPSHOT: Turn<Snapshot> = Turn::new(Snapshot {
    original: Original { process: 0, thread: 0, parent: 0 },
    generation: 0,
    circumstances: Circumstances {
        stall_us: 0,
        first_checkpoint: None,
        prices: Prices { stall: 0, worth: 0, copy: 0, displaced: 0 },
        is_proven: false,
        forked: Forked::new(),
    },
    left_outside: false,
    descriptors: 0,
    known: [UNKNOWN; DESCRIPTORS],
});
/// All users of the snapshot are alike.
const FORKING: usize = 1;

/// Whether a read of a regular file is about to wait for the device. If so, the device has started on it.
///
/// # Safety
/// `call` is a read of the program's, of `descriptor`.
#[inline(never)]
pub unsafe fn will_stall(call: &Call, descriptor: usize) -> bool {
    let [_, _, count, position, ..] = call.arguments;
    let Some(stat) = attributes::of(descriptor as isize) else { return false };
    if stat.st_mode & n::S_IFMT != n::S_IFREG {
        return false;
    }
    // SAFETY: the first call takes no pointers; the probe reads into our own memory, at an offset of its own, so that the
    // program's offset and buffer stay as they are.
    unsafe {
        let offset = match call.number as u32 {
            n::__NR_pread64 | n::__NR_preadv | n::__NR_preadv2 => position as isize,
            _ => sys!(n::__NR_lseek, descriptor, 0, n::SEEK_CUR),
        };
        let wanted = match call.number as u32 {
            n::__NR_read | n::__NR_pread64 => count,
            _ => 4096,
        };
        let left = (stat.st_size as isize).saturating_sub(offset);
        if offset < 0 || left <= 0 {
            return false;
        }
        let wanted = wanted.min(left as usize).min(PROBE_BYTES);
        let vector = n::iovec { iov_base: SCRATCH.0.get().cast(), iov_len: wanted as u64 };
        let device = session::header().and_then(|header| speculator::device(header, stat.st_dev));
        if given_up::on(stat.st_dev) {
            return false;
        }
        if !residency::has(device, file_system::REFUSES_NOWAIT) {
            let read = sys!(n::__NR_preadv2, descriptor, &raw const vector, 1, offset, 0, n::RWF_NOWAIT);
            if !residency::is_refusal(read) {
                return read == call::EAGAIN || (read >= 0 && (read as usize) < wanted);
            }
            residency::note(device, file_system::REFUSES_NOWAIT);
        }
        let (file, offset, wanted) = (descriptor as isize, offset as u64, wanted as u64);
        let misses = residency::of(file, offset, wanted) == Some(false);
        if misses && !residency::has(device, file_system::ADVICE_WAITS) {
            residency::request(file, offset, wanted, device);
        }
        misses
    }
}

/// Writes to pages of the scratch memory: after a fork each is copied. What the shortest write took, in ticks, because a longer one
/// was interrupted.
#[inline(never)]
pub fn time_of_a_copy() -> u64 {
    let start = SCRATCH.0.get().cast::<u8>();
    let mut least = u64::MAX;
    for page in 1..=COPIED_PAGES {
        let before = ticks();
        // SAFETY: within the memory, which holds nothing.
        unsafe { start.add(page * PAGE).write_volatile(1) };
        least = least.min(ticks().saturating_sub(before));
    }
    least
}

unsafe extern "C" {
    /// In the speculator 0; in the original the process id of the intermediate process, or `-errno`. `*speculator` is the
    /// speculator's process id or `-errno`, in the original. The snapshot is the intermediate process's meanwhile.
    fn forebay_fork(stack_top: *mut u8, flags: usize, speculator: *mut isize, snapshot: *mut c_void)
    -> isize;
}

core::arch::global_asm!(
    ".text",
    ".hidden forebay_fork",
    ".globl forebay_fork",
    ".type forebay_fork,@function",
    "forebay_fork:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "push rbp",
    ".cfi_def_cfa_offset 24",
    ".cfi_offset rbp, -24",
    "push r12",
    ".cfi_def_cfa_offset 32",
    ".cfi_offset r12, -32",
    "push r13",
    ".cfi_def_cfa_offset 40",
    ".cfi_offset r13, -40",
    "push r14",
    ".cfi_def_cfa_offset 48",
    ".cfi_offset r14, -48",
    "push r15",
    ".cfi_def_cfa_offset 56",
    ".cfi_offset r15, -56",
    "mov r12, rsp",
    ".cfi_def_cfa r12, 56",
    "mov r13, rdx",
    "mov r14, rsi",
    "mov r15, rcx",
    "xchg rdi, rsi",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    // The intermediate process: on its own stack, in the original's memory.
    "mov rdi, r15",
    "call {leave_outside}",
    "mov edi, {untraced}",
    "xor esi, esi",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jz 3f",
    "mov [r13], rax",
    // A process group of its own, before the original goes on. Not a session: each session has an equal share of the
    // processors, where the kernel groups tasks by session.
    "mov edi, eax",
    "mov esi, eax",
    "mov eax, 109",
    "syscall",
    "xor edi, edi",
    "mov eax, 60",
    "syscall",
    "ud2",
    // The speculator: back on its copy of the original's stack.
    "3:",
    "mov rsp, r12",
    "xor eax, eax",
    "2:",
    ".cfi_def_cfa rsp, 56",
    "pop r15",
    ".cfi_def_cfa_offset 48",
    "pop r14",
    ".cfi_def_cfa_offset 40",
    "pop r13",
    ".cfi_def_cfa_offset 32",
    "pop r12",
    ".cfi_def_cfa_offset 24",
    "pop rbp",
    ".cfi_def_cfa_offset 16",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size forebay_fork, . - forebay_fork",
    untraced = const (n::CLONE_UNTRACED | n::SIGCHLD),
    leave_outside = sym outside::leave_outside,
);

/// Process id of the newest speculator that was forked of this process, and of the process group of all that come of it.
static NEWEST: AtomicU32 = AtomicU32::new(0);

/// What came of earlier forks and was not gone at the next one: each a process group, and a process of it. At idle priority it may
/// take long to go.
static EARLIER: [AtomicU64; EARLIER_MAX] = [const { AtomicU64::new(0) }; EARLIER_MAX];

/// A forked child has no speculator; that of its parent is nothing to wait for.
pub fn forget() {
    NEWEST.store(0, Relaxed);
    EARLIER.iter().for_each(|earlier| earlier.store(0, Relaxed));
}

/// Whether there may be something left of a fork of this process.
#[inline(always)]
pub fn may_be_left() -> bool {
    NEWEST.load(Relaxed) != 0
}

/// Remembers what is left of the newest fork, as another is about to be made or a checkpoint to take over; `false` where too much
/// is left for that.
#[inline(never)]
pub fn supersede(slot: &Slot) -> bool {
    let newest = NEWEST.load(Relaxed);
    let is_starting = slot.checkpoint.pid.load(SeqCst) == CHECKPOINT_STARTING;
    if is_starting
        && [newest, slot.speculator_pid.load(Relaxed)].into_iter().any(|maker| is_left(newest, maker))
    {
        return false;
    }
    // In this order: a checkpoint that takes over says its number as speculator first, and then is no checkpoint.
    let checkpoint = slot.checkpoint.pid.load(SeqCst);
    let line = [newest, checkpoint, slot.speculator_pid.load(SeqCst)];
    for process in line.into_iter().filter(|&process| is_left(newest, process)) {
        let remembered = u64::from(newest) << 32 | u64::from(process);
        if EARLIER.iter().any(|earlier| earlier.load(Relaxed) == remembered) {
            continue;
        }
        let mut places = EARLIER.iter().zip(&slot.earlier);
        let place = places.find(|(earlier, _)| {
            let (group, process) = unpacked(earlier.load(Relaxed));
            !is_left(group, process)
        });
        let Some((place, told)) = place else { return false };
        place.store(remembered, Relaxed);
        told.store(process, Relaxed);
    }
    true
}

const fn unpacked(earlier: u64) -> (u32, u32) {
    ((earlier >> 32) as u32, earlier as u32)
}

/// A checkpoint is about to take the place of the speculator, as this generation.
pub fn hand_over(slot: &Slot, generation: u32) {
    slot.speculator_pid.store(STARTING, Relaxed);
    slot.flights.store(0, Relaxed);
    trace::tell(b"handed over", &[generation.into()]);
}

/// Waits until all that came of the forks, which have been abandoned, is gone with all that it holds. A newest speculator
/// that does not go by itself is killed.
#[inline(never)]
pub fn wait_for_end(slot: &Slot) {
    let newest = NEWEST.swap(0, Relaxed);
    // One that has not said its number yet, or has taken it back, is about to go.
    wait_for_line(slot, newest, |process| {
        slot.speculator_pid.load(Relaxed) == process
            && slot.checkpoint.pid.load(SeqCst) != CHECKPOINT_STARTING
    });
}

/// In a child of the original, which is about to become a program that may want to unmount what the speculator holds:
/// ends the speculator, which cannot follow the original beyond the fork, and waits until it is gone.
#[inline(never)]
pub fn end_that_of_parent() {
    let newest = NEWEST.load(Relaxed);
    let Some(slot) = session::slot().filter(|_| newest != 0) else { return };
    slot.dismissed.store(slot.generation.load(Relaxed), Relaxed);
    wait_for_line(slot, newest, |_| false);
}

/// Waits for what is left of earlier forks, for the speculator that was forked, the one that carries on from its checkpoint, and
/// the checkpoint. The shared memory says which the latter are, and may be wrong: their process group decides. Processes that do
/// not end by themselves are killed if they are `to_kill`.
#[inline(never)]
fn wait_for_line(slot: &Slot, newest: u32, to_kill: impl Fn(u32) -> bool) {
    if newest == 0 {
        return;
    }
    for (group, process) in EARLIER.iter().map(|earlier| unpacked(earlier.load(Relaxed))) {
        if is_of(group, process) {
            wait_for(process, &|_| false);
        }
    }
    wait_for(newest, &to_kill);
    // As in `supersede`: one that is about to take over is the checkpoint still.
    let checkpoint = slot.checkpoint.pid.load(SeqCst);
    let speculator = slot.speculator_pid.load(SeqCst);
    if is_of(newest, checkpoint) {
        // SAFETY: the word is in the slot.
        let _ = unsafe { sys!(n::__NR_futex, &raw const slot.checkpoint.number, n::FUTEX_WAKE, 1) };
        wait_for(checkpoint, &|_| false);
    }
    if speculator != newest && is_of(newest, speculator) {
        wait_for(speculator, &to_kill);
    }
    // No process is left that could make another one.
    for _ in 0..STARTING_PAUSES_MAX {
        let checkpoint = slot.checkpoint.pid.load(Relaxed);
        if checkpoint != CHECKPOINT_STARTING {
            if is_of(newest, checkpoint) {
                // SAFETY: the word is in the slot.
                let _ = unsafe { sys!(n::__NR_futex, &raw const slot.checkpoint.number, n::FUTEX_WAKE, 1) };
                wait_for(checkpoint, &|_| false);
            }
            return;
        }
        process::pause();
    }
}

/// Whether the process is of the group that began with a speculator.
fn is_of(newest: u32, process: u32) -> bool {
    // SAFETY: no pointers.
    process > STARTING && unsafe { sys!(n::__NR_getpgid, process) } == newest as isize
}

/// Whether the process is of that group and still has what it had: one that has ended may wait for long to be reaped.
fn is_left(group: u32, process: u32) -> bool {
    if !is_of(group, process) {
        return false;
    }
    // SAFETY: the calls take numbers. The descriptor is closed again before other code can see it.
    unsafe {
        let handle = sys!(n::__NR_pidfd_open, process, 0);
        let is_left = handle >= 0 && !ended(handle, 0);
        let _ = handle >= 0 && sys!(n::__NR_close, handle) == 0;
        is_left
    }
}

fn wait_for(process: u32, to_kill: &impl Fn(u32) -> bool) {
    // SAFETY: the calls take numbers and locals. The descriptor is closed again before other code can see it.
    unsafe {
        let handle = sys!(n::__NR_pidfd_open, process, 0);
        if handle < 0 {
            return;
        }
        if !ended(handle, GRACE_MS) {
            // To end it needs a processor, which at idle priority it may not get for long; to give it one takes a right.
            let _ = sys!(n::__NR_sched_setscheduler, process, n::SCHED_NORMAL, &raw const NO_PRIORITY);
            if !ended(handle, SOON_MS) && to_kill(process) {
                let _ = sys!(n::__NR_pidfd_send_signal, handle, n::SIGKILL, 0, 0);
            }
            // One that waits for a file system which does not answer ends when that does.
            if !ended(handle, END_MS) && !waits_for_device(process) {
                let _ = ended(handle, END_MS_MAX);
            }
        }
        let _ = sys!(n::__NR_close, handle);
    }
}

/// # Safety
/// `handle` is a pidfd.
unsafe fn ended(handle: isize, milliseconds: u32) -> bool {
    let mut wanted = n::pollfd { fd: handle as i32, events: n::POLLIN as i16, revents: 0 };
    // SAFETY: the caller's.
    unsafe { sys!(n::__NR_poll, &raw mut wanted, 1, milliseconds) > 0 }
}

/// Whether a process is in a wait that no signal ends.
fn waits_for_device(process: u32) -> bool {
    let mut path = PathBuffer::<32>::new();
    let fits = path.push(b"/proc/") && path.push_number(process.into()) && path.push(b"/status");
    // SAFETY: the path is terminated.
    let file = unsafe { sys!(n::__NR_openat, n::AT_FDCWD, path.as_ptr(), n::O_RDONLY | n::O_CLOEXEC) };
    if !fits || file < 0 {
        return false;
    }
    let waits = Status::read_from(file).is_some_and(|status| status.state() == Some(b'D'));
    // SAFETY: the descriptor is this function's.
    let _ = unsafe { sys!(n::__NR_close, file) };
    waits
}

/// Time that an abandoned speculator has to notice, and to be gone once it was killed: on a busy machine that is not at
/// once.
const GRACE_MS: u32 = 2;
/// The same at normal priority: one that is killed while it makes a checkpoint leaves a process that is not known.
const SOON_MS: u32 = 20;
/// On a busy machine a process waits as long for a lock of the kernel as for a device, and in the same state.
const END_MS: u32 = 400;
const END_MS_MAX: u32 = 600;
/// `struct sched_param` of a normal process.
static NO_PRIORITY: i32 = 0;
/// Time that a checkpoint has to get its process id.
const STARTING_PAUSES_MAX: u32 = 20;

/// Which side of a fork this is.
pub enum Side {
    /// The process that was there before, and the generation of its speculator.
    Original { generation: u32 },
    /// The copy, and what it must know. All its signals are blocked.
    Speculator { snapshot: Held<'static, Snapshot> },
}

/// Forks a speculator of the calling thread. What is left of earlier ones was remembered ([`supersede`]).
#[inline(never)]
pub fn fork(slot: &'static Slot, circumstances: &Circumstances) -> Option<Side> {
    if forebay_sigsafe::is_stepped() {
        // A trap in the copy, whose signals are blocked, would be its end, and so it would be here meanwhile.
        return None;
    }
    let header = session::header()?;
    let generation = slot.generation.load(Relaxed).wrapping_add(1).max(1);
    let mut snapshot = SNAPSHOT.enter(FORKING)?;
    snapshot.generation = generation;
    snapshot.circumstances = *circumstances;
    // So that there are pages to copy.
    let _ = time_of_a_copy();
    // SAFETY: the calls fill what they are given, and the intermediate process is gone when the function returns.
    unsafe {
        snapshot.original.process = sys!(n::__NR_getpid) as u32;
        snapshot.original.thread = sys!(n::__NR_gettid) as u32;
        snapshot.original.parent = sys!(n::__NR_getppid) as u32;
        slot.generation.store(generation, Relaxed);
        slot.speculator_pid.store(STARTING, Relaxed);
        slot.flights.store(0, Relaxed);
        header.speculators.fetch_add(1, Relaxed);
        hint_log::reset(slot, generation);
        let all = u64::MAX;
        let mut mask = 0u64;
        let _ = sys!(n::__NR_rt_sigprocmask, n::SIG_SETMASK, &raw const all, &raw mut mask, 8);
        let top = STACK.0.get().cast::<u8>().add(STACK_BYTES);
        let mut speculator = 0isize;
        let flags = (n::CLONE_VM | n::CLONE_FILES | n::CLONE_VFORK | n::CLONE_UNTRACED) as usize;
        unforked::share();
        let between = forebay_fork(top, flags, &raw mut speculator, (&raw mut *snapshot).cast());
        if between == 0 {
            return Some(Side::Speculator { snapshot });
        }
        unforked::keep_back();
        if between > 0 {
            while call::is(sys!(n::__NR_wait4, between, 0, n::__WALL, 0), forebay_sigsafe::errno::EINTR) {}
        }
        let _ = sys!(n::__NR_rt_sigprocmask, n::SIG_SETMASK, &raw const mask, 0, 8);
        NEWEST.store(speculator.max(0) as u32, Relaxed);
        slot.forked.store(speculator.max(0) as u32, Relaxed);
        if between < 0 || speculator <= 0 {
            slot.speculator_pid.store(0, Relaxed);
            header.speculators.fetch_sub(1, Relaxed);
            return None;
        }
    }
    Some(Side::Original { generation })
}
