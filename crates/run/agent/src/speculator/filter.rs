//! The calls that the kernel lets a speculator make: a filter (seccomp) of the calls of this library's own code. All others trap.

use forebay_protocol::layout::feature;
use forebay_sigsafe::{general as n, ioctl, sys};

use super::checkpoint;
use super::jail::Refused;

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
const SECCOMP_SET_MODE_FILTER: u32 = 1;
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
    /// The first byte behind its text.
    static etext: u8;
}

/// # Safety
/// In the speculator.
pub unsafe fn restrict_calls() -> Result<(), Refused> {
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
