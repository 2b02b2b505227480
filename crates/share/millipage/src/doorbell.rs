//! Wakes the thread that serves a machine, from any thread of any of its hosts and from a signal handler.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
};

use forebay_sigsafe::{general as n, sys};
use forebay_vm::DescriptorName;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};

/// A doorbell for one sleeper: a pipe, which processes can open by its name.
#[derive(Debug)]
pub struct Doorbell {
    /// 1 while the sleeper sleeps. All who ring have the same word.
    asleep: &'static AtomicU32,
    pipe: OwnedFd,
    /// The sleeper's end; none where another process sleeps.
    sleeper: Option<OwnedFd>,
}

impl Doorbell {
    /// One whose sleeper is in this process.
    pub fn new(asleep: &'static AtomicU32) -> io::Result<Self> {
        let (sleeper, pipe) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { asleep, pipe, sleeper: Some(sleeper) })
    }

    /// The same one for others in this process, who have another word. It does not sleep.
    pub fn beside(&self, asleep: &'static AtomicU32) -> io::Result<Self> {
        Ok(Self { asleep, pipe: self.pipe.try_clone()?, sleeper: None })
    }

    /// By what another process of this user opens it.
    pub fn name(&self) -> io::Result<DescriptorName> {
        DescriptorName::of(&self.pipe)
    }

    /// That of another process.
    pub fn named(name: &DescriptorName, asleep: &'static AtomicU32) -> io::Result<Self> {
        // With both ends open here, no signal comes where that process is gone.
        Ok(Self { asleep, pipe: name.open(OFlags::RDWR | OFlags::NONBLOCK)?, sleeper: None })
    }

    /// Wakes the sleeper, if there is one. What it is to find must be there before.
    pub fn ring(&self) {
        // Mostly the sleeper is awake, and a word that is only read stays in many caches.
        if self.asleep.load(SeqCst) != 0 && self.asleep.swap(0, SeqCst) != 0 {
            let one = 1u8;
            // SAFETY: the call reads a local.
            let _ = unsafe { sys!(n::__NR_write, self.pipe.as_raw_fd(), &raw const one, size_of::<u8>()) };
        }
    }

    /// Sleeps until the doorbell rings, `also` is readable, or some time has passed; not at all if there is `work`.
    pub fn sleep(
        &self,
        also: Option<BorrowedFd<'_>>,
        nanoseconds: u32,
        work: impl FnOnce() -> bool,
    ) -> rustix::io::Result<()> {
        let Some(sleeper) = &self.sleeper else { return Err(Errno::INVAL) };
        self.asleep.store(1, SeqCst);
        if !work() {
            let mut files = vec![PollFd::new(sleeper, PollFlags::IN)];
            files.extend(also.map(|also| PollFd::from_borrowed_fd(also, PollFlags::IN)));
            let timeout = Timespec { tv_sec: 0, tv_nsec: nanoseconds.into() };
            match poll(&mut files, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            if !files[0].revents().is_empty() {
                let _ = rustix::io::read(sleeper.as_fd(), &mut [0; 64]);
            }
        }
        self.asleep.store(0, SeqCst);
        Ok(())
    }
}
