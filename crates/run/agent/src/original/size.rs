//! The size of the process, which decides what a fork costs: page tables, and copies of pages at their first write.

use core::sync::atomic::Ordering::Relaxed;

use forebay_policy::copies::Faults;
use forebay_policy::resync::Size;
use forebay_policy::room::Room;
use forebay_protocol::layout::{MEMORY_ENOUGH, MEMORY_FULL};
use forebay_sigsafe::general as n;
use forebay_sigsafe::ticks;

use super::LIVE;
use super::slow::Private;
use crate::status::Status;
use crate::{session, usage};

/// What a fork takes for each page, and a copy of one at its first write.
const FORK_PAGE_NS: u64 = 62;
const COPY_PAGE_NS: u64 = 1_250;
/// Between looks at the size of the process, before a fork and after.
pub const WEIGHED_US: u64 = 10_000;
pub const WEIGHED_AGAIN_US: u64 = 2_000;
/// How long a process counts as short of memory in a full group after a fault: longer than signals pause.
const SHORT_LASTS_S: u64 = 4;
/// What a speculator takes for a page that it has to copy: more if it is a single one, and less of many in a row.
const FILL_PAGE_NS: u64 = 35_000;

/// What is known of the size of the process.
pub struct Known {
    /// When it was last looked at.
    weighed_at: u64,
    /// Pages of its own that it had then, swapped out or not.
    anonymous_pages: u64,
    pub has_huge_pages: bool,
    pub room: Room,
}

impl Known {
    pub const fn new(ticks_per_second: u64) -> Self {
        let room = Room::new(ticks_per_second);
        Self { weighed_at: 0, anonymous_pages: 0, has_huge_pages: false, room }
    }
}

/// Page faults so far.
#[inline(never)]
pub fn page_faults(private: &Private) -> Faults {
    let usage = usage::of(n::RUSAGE_SELF as i32);
    Faults {
        minor: usage.ru_minflt as u64,
        major: usage.ru_majflt as u64,
        pages: private.size.anonymous_pages,
        ticks: ticks().saturating_sub(private.started),
    }
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
    let is_first = core::mem::replace(&mut private.size.weighed_at, now) == 0;
    let ticks_of = |ns: u64| ns * ticks_per_us / 1_000;
    // Pages of files are not copied, and their entries not forked. Those that are swapped out have entries.
    let (resident, swapped) = (status.pages(b"RssAnon"), status.pages(b"VmSwap"));
    private.size.has_huge_pages = status.pages(b"HugetlbPages") > 0;
    private.size.anonymous_pages = status.anonymous_pages();
    if LIVE.load(Relaxed) != 0 {
        private.size.room.on_share(now);
    }
    let of_files = status.pages(b"RssFile").saturating_add(status.pages(b"RssShmem"));
    if is_first {
        // The first look is at a stall: the kernel has just evicted a good part of the process.
        private.size.room.on_peak(now, status.pages(b"VmHWM").saturating_sub(of_files));
    }
    private.size.room.on_look(now, resident);
    let lacks = private.size.anonymous_pages.saturating_sub(private.size.room.pages());
    let is_short = match header.memory.load(Relaxed) {
        MEMORY_ENOUGH => false,
        // The supervisor looks more rarely than a shortage takes to begin.
        MEMORY_FULL => {
            private.faults.was_told_of_one(now, SHORT_LASTS_S * header.ticks_per_second.load(Relaxed))
        }
        _ => true,
    };
    let displaces = swapped > 0 && is_short;
    private.policy.expect_cost(Size {
        pages: resident,
        fork: private.size.anonymous_pages.saturating_mul(ticks_of(FORK_PAGE_NS * 1_000)) / 1_000,
        copy: ticks_of(COPY_PAGE_NS),
        displaces,
        detour: resident.saturating_mul(ticks_of(FILL_PAGE_NS)).checked_div(swapped).unwrap_or(0),
        risk_stalls: header.risk_stalls.load(Relaxed),
        // What a process lacks of its files is unknown.
        lacks: if of_files > private.size.anonymous_pages { u64::MAX } else { lacks },
    });
    true
}
