//! What the kernel tells of this process in `/proc/self/status`.

use forebay_sigsafe::general as n;
use forebay_sigsafe::{sys, text};

const BYTES: usize = 4096;

/// The text, as it was when it was read.
pub struct Status {
    bytes: [u8; BYTES],
    len: usize,
}

impl Status {
    /// Reads it; empty where it cannot be had.
    #[inline(never)]
    pub fn read() -> Self {
        let mut status = Self { bytes: [0; BYTES], len: 0 };
        // SAFETY: the calls take a terminated path and a buffer as large as they are told.
        let read = unsafe {
            let flags = n::O_RDONLY | n::O_CLOEXEC;
            let fd = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/status".as_ptr(), flags);
            let read = sys!(n::__NR_read, fd, status.bytes.as_mut_ptr(), BYTES);
            let _ = sys!(n::__NR_close, fd);
            read
        };
        status.len = usize::try_from(read).unwrap_or(0);
        status
    }

    /// The number in the line that begins with `name` and a colon; sizes are in KiB.
    pub fn number(&self, name: &[u8]) -> Option<u64> {
        let lines = self.bytes.get(..self.len)?.split(|&byte| byte == b'\n');
        let value = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(b":")).next()?;
        let digits = value.get(value.iter().position(u8::is_ascii_digit)?..)?;
        text::parse_decimal(digits).map(|(number, _)| number)
    }
}
