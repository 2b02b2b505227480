//! What the kernel tells of a process in `/proc/<pid>/status`.
//!
//! The text does not fit on the smallest stacks that programs call on, so it has a place of its own, for one reader at a
//! time.

use forebay_sigsafe::general as n;
use forebay_sigsafe::turn::{Held, Turn};
use forebay_sigsafe::{sys, text};

const BYTES: usize = 4096;
const PAGE_KIB: u64 = 4;
/// All readers are alike.
const READER: usize = 1;

/// Read in the slow path, or by a speculator: so it is never in use in a forked child that becomes an original.
static TEXT: Turn<[u8; BYTES]> = Turn::new([0; BYTES]);

/// The text, as it was when it was read; the only one while it lives.
pub struct Status {
    text: Held<'static, [u8; BYTES]>,
    len: usize,
}

impl Status {
    /// Reads it; `None` where it cannot be had, or is being read.
    #[inline(never)]
    pub fn read() -> Option<Self> {
        // SAFETY: the calls take a terminated path and a number.
        unsafe {
            let flags = n::O_RDONLY | n::O_CLOEXEC;
            let file = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/status".as_ptr(), flags);
            let status = Self::read_from(file);
            let _ = sys!(n::__NR_close, file);
            status
        }
    }

    /// Reads that of a process by a descriptor of it.
    pub fn read_from(file: isize) -> Option<Self> {
        let mut text = TEXT.enter(READER)?;
        // SAFETY: the call takes a buffer as large as it is told, which is this reader's.
        let read = unsafe { sys!(n::__NR_pread64, file, text.as_mut_ptr(), BYTES, 0) };
        Some(Self { text, len: usize::try_from(read).ok()? })
    }

    /// What the process does, by its letter (proc_pid_status(5)).
    pub fn state(&self) -> Option<u8> {
        let mut lines = self.text.get(..self.len)?.split(|&byte| byte == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(b"State:"))?;
        value.iter().copied().find(u8::is_ascii_alphabetic)
    }

    /// Memory of that name, in pages.
    pub fn pages(&self, name: &[u8]) -> u64 {
        self.number(name).unwrap_or(0) / PAGE_KIB
    }

    /// Pages of the process's own, in memory or swapped out.
    pub fn anonymous_pages(&self) -> u64 {
        self.pages(b"RssAnon").saturating_add(self.pages(b"VmSwap"))
    }

    /// The number in the line that begins with `name` and a colon; sizes are in KiB.
    pub fn number(&self, name: &[u8]) -> Option<u64> {
        let lines = self.text.get(..self.len)?.split(|&byte| byte == b'\n');
        let value = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(b":")).next()?;
        let digits = value.get(value.iter().position(u8::is_ascii_digit)?..)?;
        text::parse_decimal(digits).map(|(number, _)| number)
    }
}
