//! What the size of the process makes of a fork: page tables to copy, and pages that are copied at their first write
//! afterwards.

use forebay_sigsafe::general as n;
use forebay_sigsafe::{sys, text, ticks};

use super::Private;

/// What a fork takes for each page, and a copy of one at its first write.
const FORK_PAGE_NS: u64 = 62;
pub const COPY_PAGE_NS: u64 = 1250;
/// Between looks at the size of the process.
const WEIGHED_US: u64 = 10_000;

/// Tells the policy what the process's size makes of a fork.
#[inline(never)]
pub fn weigh(private: &mut Private, ticks_per_us: u64) {
    let now = ticks();
    if private.weighed_at != 0 && now.saturating_sub(private.weighed_at) < WEIGHED_US * ticks_per_us {
        return;
    }
    private.weighed_at = now;
    let mut bytes = [0u8; 128];
    // SAFETY: the calls take a terminated path and a buffer as large as they are told.
    let read = unsafe {
        let fd = sys!(n::__NR_openat, n::AT_FDCWD, c"/proc/self/statm".as_ptr(), n::O_RDONLY | n::O_CLOEXEC);
        let read = sys!(n::__NR_read, fd, bytes.as_mut_ptr(), bytes.len());
        let _ = sys!(n::__NR_close, fd);
        read
    };
    let text = bytes.get(..usize::try_from(read).unwrap_or(0)).unwrap_or_default();
    let mut numbers = text.split(|&byte| byte == b' ').filter_map(text::parse_decimal).map(|found| found.0);
    let (_, resident, shared) = (numbers.next(), numbers.next(), numbers.next());
    // Pages of files are not copied, and their entries not forked.
    let pages = resident.unwrap_or(0).saturating_sub(shared.unwrap_or(0));
    let cost = |ns: u64| pages.saturating_mul(ns * ticks_per_us / 1000);
    private.policy.expect_cost(cost(FORK_PAGE_NS), cost(COPY_PAGE_NS));
}
