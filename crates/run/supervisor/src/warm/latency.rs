//! How long the disk takes for one request: a few pieces of a plan are read past the page cache, one after the other.

use std::{
    fs::File,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::{FileExt, OpenOptionsExt},
    },
    time::{Duration, Instant},
};

use forebay_profile::{Act, Plan, Step};
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2},
    io,
};

/// Pieces that are read.
const SAMPLES: usize = 16;
const PAGE_BYTES: usize = 4096;

/// A page where direct reads want it.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES]);

/// The median time of a read of one page; `None` where the file system cannot be read past the page cache.
#[must_use]
pub fn latency(plan: Plan, root: BorrowedFd<'_>) -> Option<Duration> {
    let pieces: Vec<Step> = plan.filter(|step| matches!(step.act, Act::Data { .. })).collect();
    let apart = (pieces.len() / SAMPLES).max(1);
    let chosen = pieces.iter().step_by(apart).take(SAMPLES);
    let mut times: Vec<Duration> = chosen.filter_map(|step| time(step, root).ok()).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn time(step: &Step, root: BorrowedFd<'_>) -> std::io::Result<Duration> {
    let Act::Data { range, .. } = &step.act else { return Err(io::Errno::INVAL.into()) };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = openat2(root, &*step.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    if FileType::from_raw_mode(fstat(found.as_fd())?.st_mode) != FileType::RegularFile {
        return Err(io::Errno::INVAL.into());
    }
    let flags = OFlags::DIRECT | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
    let mut page = Page([0; PAGE_BYTES]);
    let began = Instant::now();
    file.read_at(&mut page.0, range.start)?;
    Ok(began.elapsed())
}
