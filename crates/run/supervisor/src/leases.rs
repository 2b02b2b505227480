//! Checks from time to time whether a process holds a lease on a file. Opening a file that the program has not opened yet
//! would break such a lease.

use std::{
    fs,
    path::Path,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

use forebay_protocol::layout::{Header, LEASES_SOME, LEASES_UNKNOWN, replay};

use crate::ffi;

/// Between looks while there are speculators, or a replay.
const INTERVAL: Duration = Duration::from_secs(1);
/// What a new process gets to leave the working directory on a busy machine.
const LEAVING: Duration = Duration::from_millis(50);

/// Who looks, and when again.
#[derive(Default)]
pub struct Leases {
    looking: Option<i32>,
    looked: Option<Instant>,
}

impl Leases {
    /// Starts to look if it is time.
    pub fn look_if_due(&mut self, header: &Header) {
        if self.looking.is_some_and(|pid| !ffi::has_looked(pid)) {
            return;
        }
        self.looking = None;
        let first = header.leases.load(Relaxed) == LEASES_UNKNOWN;
        let opens = header.speculators.load(Relaxed) > 0 || header.replay.state.load(Relaxed) == replay::ON;
        let again = opens && self.looked.is_none_or(|looked| looked.elapsed() > INTERVAL);
        if !first && !again {
            return;
        }
        match ffi::start_looking_for_leases(header) {
            Ok(pid) => self.looking = Some(pid),
            // A lease may exist, so nothing may be opened.
            Err(_) => header.leases.store(LEASES_SOME, Relaxed),
        }
        self.looked = Some(Instant::now());
    }
}

impl Drop for Leases {
    /// Waits until the process that looks has left the working directory: what it is on may be unmounted next.
    fn drop(&mut self) {
        let give_up = Instant::now() + LEAVING;
        let is_here = |pid: &i32| {
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|directory| directory != Path::new("/"))
        };
        while self.looking.as_ref().is_some_and(is_here) && Instant::now() < give_up {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;

    #[test]
    fn a_look_leaves_no_process_behind() {
        let channel = Channel::create(true).unwrap();
        let mut leases = Leases::default();
        leases.look_if_due(channel.header());
        let deadline = Instant::now() + Duration::from_secs(10);
        while !leases.looking.is_none_or(ffi::has_looked) {
            assert!(Instant::now() < deadline, "no look has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_ne!(channel.header().leases.load(Relaxed), LEASES_UNKNOWN);
    }
}
