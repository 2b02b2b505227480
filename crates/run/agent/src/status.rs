//! What the kernel tells of a process in `/proc/<pid>/status`.
//!
//! The text does not fit on the smallest stacks that programs call on, so it has a place of its own, for one reader at a
//! time.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use forebay_sigsafe::general as n;
use forebay_sigsafe::{sys, text};

const BYTES: usize = 4096;
const PAGE_KIB: u64 = 4;

struct Text(UnsafeCell<[u8; BYTES]>);

// SAFETY: used by who holds `BUSY`.
unsafe impl Sync for Text {}

static TEXT: Text = Text(UnsafeCell::new([0; BYTES]));
static BUSY: AtomicBool = AtomicBool::new(false);

/// In a forked child: whoever was reading it is not here.
pub fn forget() {
    BUSY.store(false, Ordering::Relaxed);
}

/// The text, as it was when it was read; the only one while it lives.
pub struct Status {
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
        if BUSY.swap(true, Ordering::Acquire) {
            return None;
        }
        let mut status = Self { len: 0 };
        // SAFETY: the call takes a buffer as large as it is told, which is this reader's.
        let read = unsafe { sys!(n::__NR_pread64, file, TEXT.0.get(), BYTES, 0) };
        status.len = usize::try_from(read).ok()?;
        Some(status)
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
        // SAFETY: nobody writes while there is a reader.
        let bytes = unsafe { &*TEXT.0.get() };
        let lines = bytes.get(..self.len)?.split(|&byte| byte == b'\n');
        let value = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(b":")).next()?;
        let digits = value.get(value.iter().position(u8::is_ascii_digit)?..)?;
        text::parse_decimal(digits).map(|(number, _)| number)
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        BUSY.store(false, Ordering::Release);
    }
}
