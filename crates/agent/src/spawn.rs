//! Forking a speculator so that it is nobody's child.
//!
//! A direct child would show: in `wait`, in the processor time of children, as a zombie. So a short-lived process that
//! shares this one's memory (and sends no signal when it ends) forks it and ends, the speculator falls to init, and
//! the short-lived one is collected here.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use forebay_sigsafe::general as n;
use forebay_sigsafe::{call, sys};
use forebay_speculation::channel::Slot;
use forebay_speculation::log;

use crate::entry::Call;
use crate::{original, session, speculator};

/// Which side of the fork this is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spawned {
    /// The process that was there before.
    Original,
    /// The copy.
    Speculator,
}

/// Descriptors whose offsets a speculator knows.
pub const DESCRIPTORS: usize = 1024;
/// Stands for the process id of a speculator that has not said its own yet.
const STARTING: u32 = 1;
const STACK_BYTES: usize = 8192;
const PROBE_BYTES: usize = 128 << 10;

/// What the speculator must know of the original at the moment of the fork.
pub struct Snapshot {
    /// Process, thread and parent that the original is.
    pub process: u32,
    pub thread: u32,
    pub parent: u32,
    pub generation: u32,
    /// Descriptors looked at.
    pub descriptors: usize,
    /// Offset of each, or `-errno` (`-ESPIPE`: no offset).
    pub offsets: [i64; DESCRIPTORS],
}

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

struct Scratch(UnsafeCell<MaybeUninit<[u8; PROBE_BYTES]>>);

struct SnapshotCell(UnsafeCell<Snapshot>);

// SAFETY: (all three) used by the holder of the original's slow path only, or by the speculator, which has one thread.
unsafe impl Sync for Stack {}
// SAFETY: above.
unsafe impl Sync for Scratch {}
// SAFETY: above.
unsafe impl Sync for SnapshotCell {}

static STACK: Stack = Stack(UnsafeCell::new([0; STACK_BYTES]));
static SCRATCH: Scratch = Scratch(UnsafeCell::new(MaybeUninit::uninit()));
static SNAPSHOT: SnapshotCell = SnapshotCell(UnsafeCell::new(Snapshot {
    process: 0,
    thread: 0,
    parent: 0,
    generation: 0,
    descriptors: 0,
    offsets: [0; DESCRIPTORS],
}));

/// Whether a read of a regular file is about to wait for the device. If so, the device has started on it.
///
/// # Safety
/// `call` is a read of the program's, of `descriptor`.
pub unsafe fn will_stall(call: &Call, descriptor: usize) -> bool {
    let [_, _, count, position, ..] = call.arguments;
    let mut stat = MaybeUninit::<n::stat>::zeroed();
    // SAFETY: the call fills the structure; the others take no pointers; the probe reads into our own memory, at an
    // offset of its own, so that the program's offset and buffer stay as they are.
    unsafe {
        if sys!(n::__NR_fstat, descriptor, stat.as_mut_ptr()) < 0 {
            return false;
        }
        let stat = stat.assume_init();
        if stat.st_mode & n::S_IFMT != n::S_IFREG {
            return false;
        }
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
        let read = sys!(n::__NR_preadv2, descriptor, &raw const vector, 1, offset, 0, n::RWF_NOWAIT);
        read == call::EAGAIN || (read >= 0 && (read as usize) < wanted)
    }
}

unsafe extern "C" {
    /// In the speculator 0; in the original the process id of the go-between, or `-errno`. `*speculator` is the
    /// speculator's process id or `-errno`, in the original.
    fn forebay_fork(stack_top: *mut u8, flags: usize, speculator: *mut isize) -> isize;
}

core::arch::global_asm!(
    ".text",
    ".hidden forebay_fork",
    ".globl forebay_fork",
    ".type forebay_fork,@function",
    "forebay_fork:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov r12, rsp",
    "mov r13, rdx",
    "mov r14, rsi",
    "xchg rdi, rsi",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    // The go-between: on its own stack, in the original's memory.
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
    "xor edi, edi",
    "mov eax, 60",
    "syscall",
    "ud2",
    // The speculator: back on its copy of the original's stack.
    "3:",
    "mov rsp, r12",
    "xor eax, eax",
    "2:",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".size forebay_fork, . - forebay_fork",
    untraced = const (n::CLONE_UNTRACED | n::SIGCHLD),
);

/// Forks a speculator of the calling thread: which side this is, and its generation.
///
/// The speculator comes back here jailed, with its role set; all signals stay blocked in it.
pub fn fork(slot: &'static Slot) -> Option<(Spawned, u32)> {
    let header = session::header()?;
    let generation = slot.generation.load(Relaxed).wrapping_add(1).max(1);
    // SAFETY: the holder of the slow path writes the snapshot; the calls fill what they are given.
    unsafe {
        let snapshot = &mut *SNAPSHOT.0.get();
        take_snapshot(snapshot, generation);
        slot.generation.store(generation, Relaxed);
        slot.speculator_pid.store(STARTING, Relaxed);
        slot.flights.store(0, Relaxed);
        header.speculators.fetch_add(1, Relaxed);
        log::reset(slot, generation);
        let all = u64::MAX;
        let mut mask = 0u64;
        let _ = sys!(n::__NR_rt_sigprocmask, n::SIG_SETMASK, &raw const all, &raw mut mask, 8);
        let top = STACK.0.get().cast::<u8>().add(STACK_BYTES);
        let mut speculator = 0isize;
        let flags = (n::CLONE_VM | n::CLONE_VFORK | n::CLONE_UNTRACED) as usize;
        let between = forebay_fork(top, flags, &raw mut speculator);
        if between == 0 {
            speculator::begin(slot, snapshot);
            return Some((Spawned::Speculator, generation));
        }
        if between > 0 {
            while call::is(sys!(n::__NR_wait4, between, 0, n::__WALL, 0), forebay_sigsafe::errno::EINTR) {}
        }
        let _ = sys!(n::__NR_rt_sigprocmask, n::SIG_SETMASK, &raw const mask, 0, 8);
        if between < 0 || speculator <= 0 {
            slot.speculator_pid.store(0, Relaxed);
            header.speculators.fetch_sub(1, Relaxed);
            return None;
        }
    }
    Some((Spawned::Original, generation))
}

fn take_snapshot(snapshot: &mut Snapshot, generation: u32) {
    snapshot.generation = generation;
    // SAFETY: no pointers are passed, and an offset that is asked for does not change.
    unsafe {
        snapshot.process = sys!(n::__NR_getpid) as u32;
        snapshot.thread = sys!(n::__NR_gettid) as u32;
        snapshot.parent = sys!(n::__NR_getppid) as u32;
        snapshot.descriptors = original::descriptor_max().saturating_add(1).min(DESCRIPTORS);
        for (descriptor, offset) in snapshot.offsets.iter_mut().enumerate().take(snapshot.descriptors) {
            *offset = sys!(n::__NR_lseek, descriptor, 0, n::SEEK_CUR) as i64;
        }
    }
}
