//! A system call of the program: its registers, and how it is carried out.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use forebay_protocol::layout::PATCH_SITES;
use forebay_sigsafe::{call, errno, general as n};

/// The registers of a system call, in the order that `forebay_entry` stores them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Call {
    /// Number, rax.
    pub number: usize,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub arguments: [usize; 6],
    /// rbp of the caller; keeps the layout of the stack.
    frame: usize,
    /// Index of the site.
    pub site: usize,
    /// Address behind the site, where execution goes on: names the site.
    pub origin: usize,
}

impl Call {
    /// A call made on the agent's own account, as if by the program.
    pub const fn new(number: usize, arguments: [usize; 6], origin: usize) -> Self {
        Self { number, arguments, frame: 0, site: 0, origin }
    }

    /// A call that the program makes by calling an interposed function of libc's.
    pub const fn interposed(number: usize, arguments: [usize; 6], function: usize) -> Self {
        Self { number, arguments, frame: 0, site: PATCH_SITES + function, origin: 0 }
    }

    /// The flags of an open. Those of openat2 are in the program's memory.
    pub const fn open_flags(&self) -> Option<u32> {
        let [_, second, third, ..] = self.arguments;
        match self.number as u32 {
            n::__NR_open => Some(second as u32),
            n::__NR_openat => Some(third as u32),
            _ => None,
        }
    }

    /// Lets the kernel carry it out, or the interposed function; the result is what these return.
    ///
    /// # Safety
    /// The program asked for just this call.
    #[inline(always)]
    pub unsafe fn execute(&self) -> isize {
        if self.site >= PATCH_SITES {
            let result = execute_real(self.site - PATCH_SITES, self.arguments);
            // An int leaves the upper half of the register undefined.
            return if self.has_long_result() { result } else { result as i32 as isize };
        }
        // SAFETY: the caller's.
        unsafe { forebay_sigsafe::syscall(self.number, self.arguments) }
    }

    /// Whether libc's function for the call returns a count or an offset, and not an int.
    const fn has_long_result(&self) -> bool {
        matches!(
            self.number as u32,
            n::__NR_read
                | n::__NR_pread64
                | n::__NR_readv
                | n::__NR_readlink
                | n::__NR_readlinkat
                | n::__NR_lseek
                | n::__NR_getdents64
        )
    }

    /// Whether the call, which had this result, may have found that its pointers lead nowhere.
    pub const fn may_have_faulted(&self, result: isize) -> bool {
        result == call::error(errno::EFAULT) || (self.site >= PATCH_SITES && result < 0)
    }
}

/// Functions of libc's that can be interposed, at most.
const FUNCTIONS_MAX: usize = 64;

/// libc's own functions, by the number that `interpose` gives them; 0 where there is none.
static REAL: [AtomicUsize; FUNCTIONS_MAX] = [const { AtomicUsize::new(0) }; FUNCTIONS_MAX];

type Real = extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

/// Says where libc's own function is.
pub fn set_real(function: usize, address: usize) {
    if let Some(real) = REAL.get(function) {
        real.store(address, Relaxed);
    }
}

/// Whether libc's own function is known.
pub fn has_real(function: usize) -> bool {
    REAL.get(function).is_some_and(|real| real.load(Relaxed) != 0)
}

/// Calls libc's own function.
fn execute_real(function: usize, arguments: [usize; 6]) -> isize {
    let Some(real) = REAL.get(function).map(|real| real.load(Relaxed)).filter(|real| *real != 0) else {
        return -1;
    };
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: a function of libc's that takes at most six words; what they mean is between it and its caller.
    let real: Real = unsafe { core::mem::transmute(real) };
    real(a, b, c, d, e, f)
}
