//! Wakes the progress thread, from any thread and from a signal handler.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use forebay_sigsafe::{general as n, sys};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::Errno,
};

/// A doorbell for one sleeper.
#[derive(Debug)]
pub struct Doorbell {
    event: OwnedFd,
    asleep: AtomicBool,
}

impl Doorbell {
    pub fn new() -> rustix::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, asleep: AtomicBool::new(false) })
    }

    /// Wakes the sleeper, if there is one. What it is to find must be there before.
    pub fn ring(&self) {
        if self.asleep.swap(false, SeqCst) {
            let one = 1u64;
            // SAFETY: the call reads a local.
            let _ = unsafe { sys!(n::__NR_write, self.event.as_raw_fd(), &raw const one, size_of::<u64>()) };
        }
    }

    /// Sleeps until the doorbell rings, `also` is readable, or some time has passed; not at all if there is `work`.
    pub fn sleep(
        &self,
        also: Option<BorrowedFd<'_>>,
        nanoseconds: u32,
        work: impl FnOnce() -> bool,
    ) -> rustix::io::Result<()> {
        self.asleep.store(true, SeqCst);
        if !work() {
            let mut files = vec![PollFd::new(&self.event, PollFlags::IN)];
            files.extend(also.map(|also| PollFd::from_borrowed_fd(also, PollFlags::IN)));
            let timeout = Timespec { tv_sec: 0, tv_nsec: nanoseconds.into() };
            match poll(&mut files, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.asleep.store(false, SeqCst);
        // It may have rung after all.
        let _ = rustix::io::read(self.event.as_fd(), &mut [0; 8]);
        Ok(())
    }
}
