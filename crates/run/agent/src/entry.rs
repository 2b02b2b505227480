//! Where a patched system-call site arrives: a stub for each site, one common entry, and the way back.
//!
//! A site was `syscall; cmp rax, imm` or `mov eax, number; syscall`, and is now a jump to its stub. The stub leaves
//! everything as the replaced instructions would:
//!
//! * all registers but rax, rcx and r11, the vector registers too: the kernel keeps them, so the code around relies on it;
//! * the red zone below rsp;
//! * the flags of the comparison, at sites that had one.
//!
//! One site is different: the child that `clone3` starts goes on there on a stack of its own. Its stub keeps nothing on the stack and
//! has the way back in memory.
//!
//! Then the program goes on behind the site. The stubs carry unwind information that makes them look like a call from the
//! site. Thread cancellation, debuggers and profilers unwind through them.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use forebay_protocol::layout::{CLONE3, Displaced, PATCH_SITES};
use forebay_sigsafe::errno;

use crate::call::Call;
use crate::calls::{self, Class};
use crate::{dispatch, original, role, timing};

/// What the stub of a site has to know.
#[repr(C)]
struct Site {
    /// Where to go on.
    origin: AtomicUsize,
    /// What to repeat: a [`Displaced`].
    displaced: AtomicU32,
    /// The call's number, where that is what the site has loaded.
    number: AtomicU32,
}

static SITES: [Site; PATCH_SITES] =
    [const { Site { origin: AtomicUsize::new(0), displaced: AtomicU32::new(0), number: AtomicU32::new(0) } };
        PATCH_SITES];

unsafe extern "C" {
    /// The first stub; the others follow at [`STUB_BYTES`] each.
    fn forebay_stubs();
    fn forebay_clone3();
}

const STUB_BYTES: usize = 32;
/// The instruction with which a stub begins, for sites that have loaded the call's number.
const LOAD_BYTES: usize = 6;

/// Where the child of `clone3` goes on, and its parent.
static CLONE3_ORIGIN: AtomicUsize = AtomicUsize::new(0);

/// Connects the site of `clone3`, and gives its stub; `None` where another site has it.
pub fn clone3_stub(origin: usize) -> Option<usize> {
    use core::sync::atomic::Ordering::Relaxed;
    let is_first = CLONE3_ORIGIN.compare_exchange(0, origin, Relaxed, Relaxed).is_ok();
    is_first.then_some(forebay_clone3 as *const () as usize)
}

/// Where the site `index` goes to.
pub fn stub(index: usize, displaced: Displaced) -> usize {
    let start = forebay_stubs as *const () as usize + index * STUB_BYTES;
    if displaced == Displaced::MovEaxNumber { start } else { start + LOAD_BYTES }
}

/// Says where the stub of site `index` returns and what it repeats.
pub fn connect(index: usize, origin: usize, displaced: Displaced, number: u16) {
    use core::sync::atomic::Ordering::Relaxed;
    if let Some(site) = SITES.get(index) {
        site.origin.store(origin, Relaxed);
        site.displaced.store(displaced as u32, Relaxed);
        site.number.store(number.into(), Relaxed);
    }
}

/// A call of the program's that has not been made.
extern "C" fn make(call: &Call, _: isize) -> isize {
    // SAFETY: the registers are those of a system call that the program is making.
    unsafe { dispatch::dispatch(call) }
}

/// A call that was made and failed.
extern "C" fn failed(call: &Call, result: isize) -> isize {
    // SAFETY: the registers are those of a system call that the program has made.
    unsafe { dispatch::on_failure(call, result) }
}

/// `clone3` failed for want of a process or a thread: whether to make it again.
extern "C" fn clone3_failed() -> bool {
    dispatch::makes_room()
}

/// A read that was made, with this result, and during which the thread left its processor.
extern "C" fn made(call: &Call, result: isize) -> isize {
    // SAFETY: the registers are those of a system call that the program has just made.
    unsafe { original::on_untimed_read(call, call.arguments[0], result) };
    result
}

// A stub loads the call's number, where the site has done that, and the address behind the site. It moves rsp past the red
// zone, and pushes that address (136 below the site's rsp, the canonical frame address, CFA) and the stub's index.
//
// One entry of unwind information is for all stubs, as the linker makes one for a procedure linkage table: its expressions
// take the stub's start and the place in it from rip, and find the site's address as the stub does.
//
// Most calls need nothing of Rust, and so no vector registers kept: those that the original does not look at, unless they
// fail for what is in use, and untimed reads (see `timing.rs`, which does the same). The upper half of the
// index's word keeps their number meanwhile.
//
// The CFA is stated in full where it changes: the assembler does not keep count of it through remembered states.
core::arch::global_asm!(
    ".text",
    ".hidden forebay_stubs",
    ".globl forebay_stubs",
    ".type forebay_stubs,@function",
    ".p2align 5",
    "forebay_stubs:",
    ".altmacro",
    ".set forebay_index, 0",
    ".cfi_startproc",
    ".cfi_signal_frame",
    // CFA: rsp + 128 * (place >= 18) + 8 * (place >= 19) + 8 * (place >= 24), where place is rip & 31.
    ".cfi_escape 0x0f, 25, 0x77, 0, 0x80, 0, 0x4f, 0x1a",
    ".cfi_escape 0x12, 0x42, 0x2a, 0x37, 0x24, 0x16, 0x12, 0x43, 0x2a, 0x33, 0x24, 0x16, 0x48, 0x2a, 0x33, 0x24",
    ".cfi_escape 0x22, 0x22, 0x22",
    // rip: the word at start + 13 + (the four bytes at start + 9), where start is rip & -32.
    ".cfi_escape 0x16, 16, 14, 0x80, 0, 0x09, 0xe0, 0x1a, 0x12, 0x23, 9, 0x94, 4, 0x22, 0x23, 13, 0x06",
    ".rept {sites_max}",
    ".p2align 5",
    // mov eax, [rip + the number of this site]
    ".byte 0x8b, 0x05",
    ".long {sites} + 16 * forebay_index + {number} - . - 4",
    // mov rcx, [rip + the address behind this site]
    ".byte 0x48, 0x8b, 0x0d",
    ".long {sites} + 16 * forebay_index + {origin} - . - 4",
    "lea rsp, [rsp - 128]",
    "push rcx",
    ".byte 0x68",
    ".long forebay_index",
    ".byte 0xe9",
    ".long forebay_entry - . - 4",
    ".set forebay_index, forebay_index + 1",
    ".endr",
    ".cfi_endproc",
    ".size forebay_stubs, . - forebay_stubs",
    ".p2align 5",
    ".type forebay_entry,@function",
    "forebay_entry:",
    ".cfi_startproc",
    ".cfi_signal_frame",
    ".cfi_def_cfa rsp, 144",
    ".cfi_offset rip, -136",
    "cmp dword ptr [rip + {role}], {original}",
    "jne 4f",
    "cmp rax, {numbers}",
    "jae 4f",
    "lea r11, [rip + {classes}]",
    "movzx ecx, byte ptr [r11 + rax]",
    "cmp ecx, {read}",
    "je 3f",
    "ja 8f",
    // Not looked at.
    "9:",
    "mov [rsp + 4], eax",
    "syscall",
    "cmp rax, -4095",
    "jae 30f",
    // Back to the program, with the result in rax.
    "2:",
    "mov ecx, [rsp]",
    "lea r11, [rip + {sites}]",
    "shl ecx, 4",
    "mov r11d, [r11 + rcx + {displaced}]",
    "mov rcx, [rsp + 8]",
    "lea rsp, [rsp + 144]",
    ".cfi_remember_state",
    ".cfi_def_cfa rsp, 0",
    ".cfi_register rip, rcx",
    "cmp r11d, 1",
    "je 6f",
    "ja 7f",
    "cmp rax, -4096",
    "jmp rcx",
    "6:",
    "cmp rax, -4095",
    "jmp rcx",
    // Also where there was no comparison.
    "7:",
    "cmp eax, -4096",
    "jmp rcx",
    ".cfi_restore_state",
    ".cfi_def_cfa rsp, 144",
    // It failed, maybe for what is in use or full.
    "30:",
    "cmp rax, -{busy}",
    "je 31f",
    "cmp rax, -{full}",
    "je 31f",
    "cmp rax, -{not_empty}",
    "je 31f",
    "cmp rax, -{quota}",
    "jne 2b",
    "31:",
    "mov ecx, [rsp + 4]",
    "mov dword ptr [rsp + 4], 0",
    "lea r11, [rip + {failed}]",
    "jmp 5f",
    // A read.
    "3:",
    "cmp dword ptr [rip + {timed}], 0",
    "jne 4f",
    "mov r11, [rip + {sequence_offset}]",
    "test r11, r11",
    "jz 4f",
    "add r11, fs:[0]",
    "cmp dword ptr [r11 + {cpu_id}], 0",
    "jl 4f",
    "mov [rsp + 4], eax",
    "lea rcx, [rip + forebay_sequence_descriptor]",
    "mov [r11 + {current}], rcx",
    "syscall",
    "mov r11, [rip + {sequence_offset}]",
    "add r11, fs:[0]",
    "mov rcx, [r11 + {current}]",
    "mov qword ptr [r11 + {current}], 0",
    "test rcx, rcx",
    "jnz 2b",
    "mov ecx, [rsp + 4]",
    "mov dword ptr [rsp + 4], 0",
    "lea r11, [rip + {made}]",
    "jmp 5f",
    // Seeks are of interest only to a speculation, and while there is one calls are timed.
    "8:",
    "cmp ecx, {seek}",
    "jne 4f",
    "cmp dword ptr [rip + {timed}], 0",
    "je 9b",
    // All others.
    "4:",
    "mov rcx, rax",
    "lea r11, [rip + {make}]",
    // Calls the function in r11 with the registers and the result in rax; the call's number is in rcx.
    "5:",
    "push rbp",
    ".cfi_def_cfa rsp, 152",
    ".cfi_offset rbp, -152",
    "mov rbp, rsp",
    ".cfi_def_cfa rbp, 152",
    "push r9",
    "push r8",
    "push r10",
    "push rdx",
    "push rsi",
    "push rdi",
    "push rcx",
    "mov rdi, rsp",
    "mov rsi, rax",
    "sub rsp, 256",
    "and rsp, -16",
    "movups [rsp], xmm0",
    "movups [rsp + 16], xmm1",
    "movups [rsp + 32], xmm2",
    "movups [rsp + 48], xmm3",
    "movups [rsp + 64], xmm4",
    "movups [rsp + 80], xmm5",
    "movups [rsp + 96], xmm6",
    "movups [rsp + 112], xmm7",
    "movups [rsp + 128], xmm8",
    "movups [rsp + 144], xmm9",
    "movups [rsp + 160], xmm10",
    "movups [rsp + 176], xmm11",
    "movups [rsp + 192], xmm12",
    "movups [rsp + 208], xmm13",
    "movups [rsp + 224], xmm14",
    "movups [rsp + 240], xmm15",
    "call r11",
    "movups xmm0, [rsp]",
    "movups xmm1, [rsp + 16]",
    "movups xmm2, [rsp + 32]",
    "movups xmm3, [rsp + 48]",
    "movups xmm4, [rsp + 64]",
    "movups xmm5, [rsp + 80]",
    "movups xmm6, [rsp + 96]",
    "movups xmm7, [rsp + 112]",
    "movups xmm8, [rsp + 128]",
    "movups xmm9, [rsp + 144]",
    "movups xmm10, [rsp + 160]",
    "movups xmm11, [rsp + 176]",
    "movups xmm12, [rsp + 192]",
    "movups xmm13, [rsp + 208]",
    "movups xmm14, [rsp + 224]",
    "movups xmm15, [rsp + 240]",
    "lea rsp, [rbp - 48]",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop r10",
    "pop r8",
    "pop r9",
    "pop rbp",
    ".cfi_def_cfa rsp, 144",
    ".cfi_restore rbp",
    "jmp 2b",
    ".cfi_endproc",
    ".size forebay_entry, . - forebay_entry",
    sites_max = const PATCH_SITES,
    sites = sym SITES,
    displaced = const offset_of!(Site, displaced),
    number = const offset_of!(Site, number),
    origin = const offset_of!(Site, origin),
    role = sym role::PAGE,
    original = const role::ORIGINAL,
    numbers = const calls::NUMBERS,
    classes = sym calls::CLASSES,
    read = const Class::Read as u8,
    seek = const Class::Seek as u8,
    timed = sym timing::TIMED,
    sequence_offset = sym timing::SEQUENCE_OFFSET,
    cpu_id = const timing::CPU_ID,
    current = const timing::CURRENT,
    make = sym make,
    made = sym made,
    failed = sym failed,
    busy = const errno::EBUSY,
    full = const errno::ENOSPC,
    not_empty = const errno::ENOTEMPTY,
    quota = const errno::EDQUOT,
);

// The call is made with all registers as they were, rsp too. The child goes on behind it with a stack of which nothing is known, so
// no caller is told from there on. Only the parent sees a failure.
core::arch::global_asm!(
    ".text",
    ".p2align 5",
    ".hidden forebay_clone3",
    ".globl forebay_clone3",
    ".type forebay_clone3,@function",
    "forebay_clone3:",
    ".cfi_startproc",
    "mov eax, {number}",
    "syscall",
    ".cfi_remember_state",
    ".cfi_undefined rip",
    "cmp rax, -{again}",
    "je 3f",
    "2:",
    "jmp [rip + {origin}]",
    "3:",
    ".cfi_restore_state",
    "lea rsp, [rsp - 128]",
    ".cfi_adjust_cfa_offset 128",
    "push rbp",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_offset rbp, -144",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r8",
    "push r9",
    "push r10",
    "sub rsp, 512",
    "and rsp, -16",
    "fxsave [rsp]",
    "call {failed}",
    "fxrstor [rsp]",
    "lea rsp, [rbp - 48]",
    "pop r10",
    "pop r9",
    "pop r8",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rbp",
    ".cfi_def_cfa rsp, 136",
    ".cfi_restore rbp",
    "lea rsp, [rsp + 128]",
    ".cfi_def_cfa rsp, 8",
    "test al, al",
    "jnz forebay_clone3",
    "mov rax, -{again}",
    "jmp 2b",
    ".cfi_endproc",
    ".size forebay_clone3, . - forebay_clone3",
    number = const CLONE3,
    again = const errno::EAGAIN,
    origin = sym CLONE3_ORIGIN,
    failed = sym clone3_failed,
);
