//! Whether the limits of the program leave room for forebay.
//!
//! What forebay takes of a limit the program cannot have. The supervisor, each of its threads and each speculator count as
//! processes. The agent's library is a part of the program's address space. So a program that is short of either goes on alone.

use std::{fs, path::PathBuf};

use forebay_linux::groups::processes;
use forebay_linux::limit;
use forebay_protocol::layout::Header;
use rustix::process::{Resource, geteuid};
use std::sync::atomic::Ordering::Relaxed;

use crate::executor::THREADS_MAX;

/// Processes that forebay leaves unused at least: as many as it could take in a moment, the threads of the executor above all.
const PROCESSES_MIN: u64 = THREADS_MAX as u64 + 32;

/// Whether the address space of this process, and of what it executes, is known to have no limit.
pub fn is_in_address_space() -> bool {
    [Resource::As, Resource::Data]
        .into_iter()
        .all(|resource| limit(resource).is_some_and(|limit| limit.current.is_none()))
}

/// Limits on the number of processes.
pub struct Processes {
    groups: Vec<PathBuf>,
    /// Of this process's user.
    user_max: Option<u64>,
}

impl Processes {
    /// Those of process `pid`, of which this process is a copy or the parent.
    pub fn new(pid: u32) -> Self {
        // The kernel holds no superuser to it.
        let user_max =
            limit(Resource::Nproc).and_then(|limit| limit.current).filter(|_| !geteuid().is_root());
        Self { groups: processes::limiting(pid), user_max }
    }

    /// Ends speculation for good where they leave too little.
    pub fn look(&self, header: &Header) {
        if self.left().is_some_and(|left| left < PROCESSES_MIN) {
            header.enabled.store(0, Relaxed);
        }
    }

    fn left(&self) -> Option<u64> {
        let of_user = self.user_max.and_then(|max| Some(max.saturating_sub(processes_of_machine()?)));
        self.groups.iter().filter_map(|group| processes::left(group)).chain(of_user).min()
    }
}

/// Processes of all users, each thread counted: the user has no more.
fn processes_of_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;

    #[test]
    fn this_machine_has_processes() {
        assert!(processes_of_machine().is_some_and(|processes| processes > 1));
    }

    #[test]
    fn speculation_ends_where_little_is_left_and_stays_where_there_is_much_or_no_limit() {
        let group = tempfile::tempdir().unwrap();
        let tell = |name, number: u64| fs::write(group.path().join(name), number.to_string()).unwrap();
        tell("pids.current", 10);
        for (max, user_max, enabled) in [
            (24, None, 0),
            (10 + PROCESSES_MIN, None, 1),
            (u64::MAX, Some(1), 0),
            (u64::MAX, Some(u64::MAX), 1),
        ] {
            tell("pids.max", max);
            let channel = Channel::create(true).unwrap();
            Processes { groups: vec![group.path().into()], user_max }.look(channel.header());
            assert_eq!(channel.header().enabled.load(Relaxed), enabled, "{max} {user_max:?}");
        }
        let channel = Channel::create(true).unwrap();
        Processes { groups: vec![], user_max: None }.look(channel.header());
        assert_eq!(channel.header().enabled.load(Relaxed), 1);
    }
}
