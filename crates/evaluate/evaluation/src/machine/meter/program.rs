//! A program that is measured from its first instruction to its last.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use forebay_counters::Target;
use forebay_linux::kernel_text;
use forebay_linux::process::{ChildEnd, ChildState, child_state};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};

use crate::Error;
use crate::harness::interrupt::Interrupt;
use crate::run::programs::is_on_path;

/// A shell that stops until its counters are open, and then becomes the program, as the same process.
const STOPS_FIRST: &str = "kill -STOP $$ && exec \"$@\"";

/// How long that shell may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How long a program may take to end when it is asked to.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Stopped before its start, running, or ended and not yet waited for. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Program {
    name: String,
    /// `None` once it was waited for.
    child: Option<Child>,
    pid: u32,
    /// What this process had in memory at most when it started the program, and what the program's account begins with.
    floor_bytes: u64,
}

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// What the largest of its processes had in memory at most.
    pub(super) max_rss: MaxRss,
}

/// The most that a process had in memory (`ru_maxrss` of getrusage(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxRss {
    /// This many bytes.
    Bytes(u64),
    /// No more than this: the account of a program begins with what the process had that started it.
    AtMost(u64),
}

impl Program {
    pub(super) fn start(command: &[OsString], interrupt: &Interrupt) -> Result<Self, Error> {
        let name = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let there = if name.contains('/') { Path::new(&name).exists() } else { is_on_path(&name) };
        if !there {
            return Err(Error::NoProgram { program: name });
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", STOPS_FIRST, "forebay"]).args(command);
        let child = shell.spawn().map_err(|source| Error::Start { command: name.clone(), source })?;
        let floor_bytes = peak_of_this_process();
        let program = Self { name, pid: child.id(), child: Some(child), floor_bytes };
        let deadline = Instant::now() + STOP_LIMIT;
        while !program.has_stopped()? {
            interrupt.check()?;
            if Instant::now() > deadline {
                return Err(Error::TimedOut { command: program.name.clone(), limit: STOP_LIMIT });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(program)
    }

    pub(super) fn id(&self) -> u32 {
        self.pid
    }

    fn has_stopped(&self) -> Result<bool, Error> {
        let wanted =
            WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let changed = waitid(WaitId::Pid(self.number()?), wanted);
        Ok(changed.map_err(|errno| self.lost(errno))?.is_some())
    }

    pub(super) fn go_on(&self) -> Result<(), Error> {
        self.send(Signal::CONT)
    }

    /// Ends it, politely at first.
    pub(super) fn end(&self, ending: &mut Ending) -> Result<(), Error> {
        for signal in [Signal::TERM, Signal::KILL] {
            self.send(signal)?;
            let deadline = Instant::now() + END_LIMIT;
            while Instant::now() < deadline {
                if ending.within(END_LIMIT / 10)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// It is not yet waited for, so its number cannot be another's.
    fn send(&self, signal: Signal) -> Result<(), Error> {
        kill_process(self.number()?, signal).map_err(|errno| self.lost(errno))
    }

    fn number(&self) -> Result<Pid, Error> {
        self.child.as_ref().map(Pid::from_child).ok_or_else(|| self.lost(Errno::CHILD))
    }

    /// How it ended, once it has.
    pub(super) fn ended(mut self) -> Result<Ended, Error> {
        let state = child_state(self.pid as i32)
            .map_err(|source| Error::Start { command: self.name.clone(), source })?;
        let Some(ChildState::Ended(end, usage)) = state else {
            return Err(Error::TimedOut { command: self.name.clone(), limit: END_LIMIT });
        };
        self.child = None;
        let status = match end {
            ChildEnd::Exited(status) => ExitStatus::from_raw(i32::from(status) << 8),
            ChildEnd::Killed(signal) => ExitStatus::from_raw(signal),
        };
        let bytes = usage.max_rss_bytes;
        let max_rss = if bytes > self.floor_bytes { MaxRss::Bytes(bytes) } else { MaxRss::AtMost(bytes) };
        Ok(Ended { status, max_rss })
    }

    fn lost(&self, errno: Errno) -> Error {
        Error::Start { command: self.name.clone(), source: errno.into() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The most that this process has had in memory.
fn peak_of_this_process() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kernel_text::bytes(&status, "VmHWM").unwrap_or(u64::MAX)
}

/// The end of a process, or that of something that has none.
#[derive(Debug)]
pub(super) struct Ending(Option<OwnedFd>);

impl Ending {
    pub(super) fn of(target: &Target) -> Result<Self, Error> {
        let (Target::Process(pid) | Target::Tree(pid)) = *target else { return Ok(Self(None)) };
        let none = || Error::Counters(forebay_counters::Error::NoProcess { pid });
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(none)?;
        pidfd_open(number, PidfdFlags::empty()).map(|process| Self(Some(process))).map_err(|_| none())
    }

    /// Waits so long for it, or for a signal, and tells whether it came.
    pub(super) fn within(&mut self, wait: Duration) -> Result<bool, Error> {
        let process = self.0.as_ref().map(|process| PollFd::new(process, PollFlags::IN));
        let wait = Timespec::try_from(wait).ok();
        match poll(process.into_iter().collect::<Vec<_>>().as_mut_slice(), wait.as_ref()) {
            Ok(ended) => Ok(ended > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(Error::Start { command: "the meter".to_owned(), source: errno.into() }),
        }
    }
}
