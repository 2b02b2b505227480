//! What a thread waits in, by its system call and the arguments of that (proc_pid_syscall(5)).

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::experiments::Call;

/// A thread that waits, or has just begun to run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Waits {
    /// In a call that tells what for.
    In(Call),
    /// For so many seconds, where that can be told.
    Asleep(Option<f64>),
    /// On a descriptor.
    On(u64),
    /// Until a descriptor takes what is sent.
    To(u64),
    /// On any of these descriptors, for so many seconds at most.
    OnAny(Vec<u64>, Option<f64>),
    /// For events of this descriptor, for so many seconds at most.
    Events(Option<u64>, Option<f64>),
    /// It runs by now.
    Not,
}

/// No more descriptors of one call are looked at: a call with more waits for clients.
const POLLED_MAX: u64 = 8;
/// `struct pollfd` begins with the descriptor.
const POLLED_BYTES: usize = 8;

/// Calls that only some processors have.
#[cfg(target_arch = "x86_64")]
mod older {
    pub(super) const POLL: i64 = libc::SYS_poll;
    pub(super) const EPOLL_WAIT: i64 = libc::SYS_epoll_wait;
    pub(super) const SELECT: i64 = libc::SYS_select;
    pub(super) const VFORK: i64 = libc::SYS_vfork;
}
#[cfg(not(target_arch = "x86_64"))]
mod older {
    pub(super) const POLL: i64 = i64::MIN;
    pub(super) const EPOLL_WAIT: i64 = i64::MIN + 1;
    pub(super) const SELECT: i64 = i64::MIN + 2;
    pub(super) const VFORK: i64 = i64::MIN + 3;
}

impl Waits {
    /// By what `/proc` says of the thread; `memory` is the memory of its process, where that may be read.
    pub(super) fn parse(syscall: &str, memory: Option<&File>) -> Self {
        let mut words = syscall.split_whitespace();
        let Some(Ok(number)) = words.next().map(str::parse::<i64>) else { return Self::Not };
        let arguments: Vec<u64> =
            words.filter_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
        let argument = |place: usize| arguments.get(place).copied().unwrap_or(0);
        match number {
            -1 => Self::In(Call::None),
            // The fourth is the time of those operations that wait.
            libc::SYS_futex => Self::In(Call::Futex { word: argument(0), timed: argument(3) != 0 }),
            libc::SYS_futex_waitv => Self::In(Call::Futex { word: argument(0), timed: false }),
            libc::SYS_flock | libc::SYS_fcntl | libc::SYS_semop | libc::SYS_semtimedop => {
                Self::In(Call::Lock)
            }
            libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_mprotect
            | libc::SYS_madvise
            | libc::SYS_brk => Self::In(Call::AddressSpace),
            libc::SYS_nanosleep => Self::Asleep(time_at(memory, argument(0))),
            // An absolute time says nothing of how long that is.
            libc::SYS_clock_nanosleep if argument(1) != 0 => Self::Asleep(None),
            libc::SYS_clock_nanosleep => Self::Asleep(time_at(memory, argument(2))),
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_sendfile => Self::To(argument(0)),
            libc::SYS_splice => Self::To(argument(2)),
            libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_clone | libc::SYS_clone3 | older::VFORK => {
                Self::In(Call::Child)
            }
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_preadv
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_connect => Self::On(argument(0)),
            libc::SYS_epoll_pwait => Self::Events(Some(argument(0)), milliseconds(argument(3))),
            libc::SYS_epoll_pwait2 => Self::Events(Some(argument(0)), time_at(memory, argument(3))),
            libc::SYS_ppoll => polled(memory, argument(0), argument(1), time_at(memory, argument(2))),
            libc::SYS_pselect6 => selected(argument(0), time_at(memory, argument(4))),
            older::EPOLL_WAIT => Self::Events(Some(argument(0)), milliseconds(argument(3))),
            older::POLL => polled(memory, argument(0), argument(1), milliseconds(argument(2))),
            older::SELECT => selected(argument(0), time_at(memory, argument(4))),
            _ => Self::In(Call::Unknown),
        }
    }
}

/// A wait for none of no descriptors is a sleep.
fn polled(memory: Option<&File>, place: u64, number: u64, timeout: Option<f64>) -> Waits {
    if number == 0 {
        return Waits::Asleep(timeout);
    }
    let mut bytes = [0; POLLED_BYTES * POLLED_MAX as usize];
    let bytes = &mut bytes[..POLLED_BYTES * number.min(POLLED_MAX) as usize];
    let read = memory.is_some_and(|memory| memory.read_exact_at(bytes, place).is_ok());
    if !read || number > POLLED_MAX {
        return Waits::Events(None, timeout);
    }
    let descriptors = bytes.chunks_exact(POLLED_BYTES).filter_map(|polled| {
        let descriptor = i32::from_ne_bytes(polled[..4].try_into().ok()?);
        u64::try_from(descriptor).ok()
    });
    Waits::OnAny(descriptors.collect(), timeout)
}

fn selected(number: u64, timeout: Option<f64>) -> Waits {
    if number == 0 { Waits::Asleep(timeout) } else { Waits::Events(None, timeout) }
}

/// Less than nothing is for ever.
fn milliseconds(argument: u64) -> Option<f64> {
    let milliseconds = argument as u32 as i32;
    (milliseconds >= 0).then(|| f64::from(milliseconds) / 1e3)
}

/// A `struct timespec`, or a `struct timeval`, whose second field is less precise and counts less then.
fn time_at(memory: Option<&File>, place: u64) -> Option<f64> {
    let mut bytes = [0; 16];
    if place == 0 || memory?.read_exact_at(&mut bytes, place).is_err() {
        return None;
    }
    let field = |part: &[u8]| part.try_into().map_or(0, i64::from_ne_bytes) as f64;
    Some(field(&bytes[..8]) + field(&bytes[8..]) / 1e9)
}

/// The seconds until a timer descriptor fires, where it is one and set.
pub(super) fn timer_s(process: u32, descriptor: u64) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
    timer_of(&text)
}

fn timer_of(text: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix("it_value: ("))?;
    let (seconds, nanoseconds) = value.trim_end_matches(')').split_once(", ")?;
    let left = seconds.parse::<f64>().ok()? + nanoseconds.parse::<f64>().ok()? / 1e9;
    (left > 0.0).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(number: i64, arguments: &str) -> Waits {
        Waits::parse(&format!("{number} {arguments}"), None)
    }

    #[test]
    fn waits_are_told_by_the_call() {
        assert_eq!(Waits::parse("running", None), Waits::Not);
        let futex = |timed| Waits::In(Call::Futex { word: 16, timed });
        assert_eq!(waits(libc::SYS_futex, "0x10 0x80 0x2 0x0 0x0 0x0"), futex(false));
        assert_eq!(waits(libc::SYS_futex, "0x10 0x189 0x0 0x7f1a 0x0 0xffffffff"), futex(true));
        assert_eq!(waits(-1, "0x7ffc 0x7f1a"), Waits::In(Call::None));
        assert_eq!(waits(libc::SYS_recvfrom, "0x5 0x0"), Waits::On(5));
        assert_eq!(waits(libc::SYS_munmap, "0x5 0x0"), Waits::In(Call::AddressSpace));
        assert_eq!(waits(libc::SYS_write, "0x5 0x0"), Waits::To(5));
        assert_eq!(waits(libc::SYS_splice, "0x5 0x0 0x6 0x0"), Waits::To(6));
        assert_eq!(waits(libc::SYS_wait4, "0xffffffff 0x0"), Waits::In(Call::Child));
    }

    #[test]
    fn a_wait_for_events_has_its_descriptor_and_its_end() {
        assert_eq!(
            waits(libc::SYS_epoll_pwait, "0x4 0x7f 0x80 0x9 0x0"),
            Waits::Events(Some(4), Some(0.009))
        );
        assert_eq!(waits(libc::SYS_epoll_pwait, "0x4 0x7f 0x80 0xffffffff"), Waits::Events(Some(4), None));
        assert_eq!(waits(libc::SYS_ppoll, "0x0 0x0 0x0"), Waits::Asleep(None));
    }

    #[test]
    fn what_is_polled_is_read_from_the_memory_of_the_process() {
        let polled: Vec<u8> = [7i32, 1, 9, 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let memory = tempfile::tempfile().unwrap();
        memory.write_all_at(&polled, 64).unwrap();
        memory.write_all_at(&[2i64.to_ne_bytes(), 500_000_000i64.to_ne_bytes()].concat(), 128).unwrap();
        let text = format!("{} 0x40 0x2 0x80 0x0", libc::SYS_ppoll);
        assert_eq!(Waits::parse(&text, Some(&memory)), Waits::OnAny(vec![7, 9], Some(2.5)));
        let text = format!("{} 0x80 0x0", libc::SYS_nanosleep);
        assert_eq!(Waits::parse(&text, Some(&memory)), Waits::Asleep(Some(2.5)));
    }

    #[test]
    fn a_timer_that_is_not_set_never_fires() {
        let timer =
            |value: &str| timer_of(&format!("pos:\t0\nclockid: 1\nit_value: {value}\nit_interval: (0, 0)\n"));
        assert_eq!(timer("(1, 500000000)"), Some(1.5));
        assert_eq!(timer("(0, 0)"), None);
    }
}
