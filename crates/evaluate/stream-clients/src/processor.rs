//! Which processor what runs on, what of it the players use, and how many files they may have open.

use std::fs;

use forebay_linux::kernel_text::Schedstat;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Error;
use crate::order::Transport;

/// Descriptors of a player: its connection, and over UDP a socket for packets and one for reports of each of two tracks.
const DESCRIPTORS_UDP: u64 = 5;
const DESCRIPTORS_TCP: u64 = 1;
const DESCRIPTORS_BESIDES: u64 = 64;

/// The processors that this process may use, shared between a server and its players.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors {
    /// The server's; `None` where there is only one for all.
    pub server: Option<usize>,
    /// The players'.
    pub players: Option<usize>,
}

impl Processors {
    /// The first two that may be used.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let mut usable = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
        match (usable.next(), usable.next()) {
            (Some(first), Some(second)) => Self { server: Some(first), players: Some(second) },
            _ => Self { server: None, players: None },
        }
    }

    /// Does something, such as starting a program, on this processor alone. What it starts stays there; this thread does not.
    /// (A thread of its own would not do: programs that are to end with their parent end with the thread that started them.)
    pub fn on<T>(processor: Option<usize>, work: impl FnOnce() -> T) -> T {
        let _back = Back(sched_getaffinity(None).ok());
        // Where it is not allowed, the work is done wherever the kernel likes.
        let _ = pin(processor);
        work()
    }
}

/// Lets this thread run again where it did, however the work ends.
struct Back(Option<CpuSet>);

impl Drop for Back {
    fn drop(&mut self) {
        let _ = self.0.as_ref().map(|before| sched_setaffinity(None, before));
    }
}

/// Keeps this thread on one processor.
pub(crate) fn pin(processor: Option<usize>) -> rustix::io::Result<()> {
    let Some(processor) = processor else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set)
}

/// Sees to it that this process may have as many files open as players need.
///
/// # Errors
/// It may not.
pub(crate) fn make_room(players: u32, transport: Transport) -> Result<(), Error> {
    let each = match transport {
        Transport::Udp => DESCRIPTORS_UDP,
        Transport::Tcp => DESCRIPTORS_TCP,
    };
    let needed = u64::from(players) * each + DESCRIPTORS_BESIDES;
    let allowed = allow_descriptors(needed);
    if allowed >= needed { Ok(()) } else { Err(Error::Descriptors { players, needed, allowed }) }
}

/// Lets this process, and what it starts from now on, have so many files open, or else as many as it may, and tells how many.
pub fn allow_descriptors(needed: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let (now, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if now >= needed {
        return now;
    }
    let raise = |to: u64, maximum: u64| {
        setrlimit(Resource::Nofile, Rlimit { current: Some(to), maximum: Some(maximum) })
            .is_ok()
            .then_some(to)
    };
    let beyond = || raise(needed, needed.max(most));
    let within = || raise(needed.min(most), most);
    // What the administrator set is passed over only by those who may, and where it is too little.
    (if needed > most { beyond().or_else(within) } else { within() }).unwrap_or(now)
}

/// What the kernel says of a thread's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    /// On a processor, in seconds.
    pub(crate) ran_s: f64,
    /// Ready, but waiting for a processor, in seconds.
    pub(crate) queued_s: f64,
}

impl Used {
    pub(crate) fn by_this_thread() -> Self {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let Schedstat { ran_ns, queued_ns } = Schedstat::parse(&text).unwrap_or_default();
        Self { ran_s: ran_ns as f64 / 1e9, queued_s: queued_ns as f64 / 1e9 }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self { ran_s: self.ran_s - before.ran_s, queued_s: self.queued_s - before.queued_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_on_the_processor_that_it_was_given() {
        let processors = Processors::of_this_machine();
        let Some(second) = processors.players else { return };
        let allowed = Processors::on(Some(second), || sched_getaffinity(None).unwrap());
        assert_eq!((allowed.count(), allowed.is_set(second)), (1, true));
        assert!(sched_getaffinity(None).unwrap().count() >= 2);
    }

    #[test]
    fn room_that_cannot_be_had_is_told_with_the_remedy() {
        make_room(1, Transport::Tcp).unwrap();
        if let Err(error) = make_room(u32::MAX, Transport::Udp) {
            assert!(error.to_string().contains("ulimit -n 21474836539"), "{error}");
        }
    }
}
