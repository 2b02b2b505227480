//! The size of the process, which decides what a fork costs: page tables, and copies of pages at their first write.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::copies::Faults;
use forebay_policy::fork::Size;
use forebay_policy::price::{COPY_PAGE_NS, FAULT_SHORT_S, FORK_PAGE_NS};
use forebay_protocol::layout::{MEMORY_ENOUGH, MEMORY_FULL};
use forebay_sigsafe::general as n;
use forebay_sigsafe::ticks;

use super::slow::Private;
use crate::status::Status;
use crate::{session, usage};

/// What is known of the size of the process.
pub struct Known {
    /// When it was last looked at.
    weighed_at: u64,
    /// Pages of its own that it had then, swapped out or not.
    anonymous_pages: u64,
    pub has_huge_pages: bool,
}

impl Known {
    pub const fn new() -> Self {
        Self { weighed_at: 0, anonymous_pages: 0, has_huge_pages: false }
    }
}

/// Page faults so far.
#[inline(never)]
pub fn page_faults(private: &Private) -> Faults {
    let usage = usage::of(n::RUSAGE_SELF as i32);
    Faults {
        minor: usage.ru_minflt as u64,
        written: private.charged.first_writes,
        major: usage.ru_majflt as u64,
        pages: private.size.anonymous_pages,
        ticks: ticks().saturating_sub(private.started),
    }
}

/// Processor time of the process so far, in ticks.
#[inline(never)]
pub fn processor_ticks(ticks_per_us: u64) -> u64 {
    usage::processor_us(&usage::of(n::RUSAGE_SELF as i32)).saturating_mul(ticks_per_us)
}

/// Tells the policy what the process's size makes of a fork, unless that was done in the last `interval_us`. Whether it was done now.
#[inline(never)]
pub fn weigh(private: &mut Private, interval_us: u64) -> bool {
    let Some(header) = session::header() else { return false };
    let ticks_per_us = (header.ticks_per_second.load(Relaxed) / 1_000_000).max(1);
    let now = ticks();
    if private.size.weighed_at != 0
        && now.saturating_sub(private.size.weighed_at) < interval_us * ticks_per_us
    {
        return false;
    }
    let Some(status) = Status::read() else { return false };
    private.size.weighed_at = now;
    let ticks_of = |ns: u64| ns * ticks_per_us / 1_000;
    // Pages of files are not copied, and their entries not forked. Those that are swapped out have entries.
    let (resident, swapped) = (status.pages(b"RssAnon"), status.pages(b"VmSwap"));
    private.size.has_huge_pages = status.pages(b"HugetlbPages") > 0;
    private.size.anonymous_pages = status.anonymous_pages();
    let is_short = match header.memory.load(Relaxed) {
        MEMORY_ENOUGH => false,
        // The supervisor looks more rarely than a shortage takes to begin.
        MEMORY_FULL => {
            private.faults.was_told_of_one(now, FAULT_SHORT_S * header.ticks_per_second.load(Relaxed))
        }
        _ => true,
    };
    private.forks.expect(Size {
        pages: resident,
        fork: private.size.anonymous_pages.saturating_mul(ticks_of(FORK_PAGE_NS * 1_000)) / 1_000,
        copy: ticks_of(COPY_PAGE_NS),
        displaced: if swapped > 0 && is_short {
            u64::try_from(header.page_price.load(Relaxed)).unwrap_or(0).max(1)
        } else {
            0
        },
    });
    true
}
