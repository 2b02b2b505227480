//! Follows the program along a replay on a remote file system, whose names the kernel soon forgets.

use std::{
    collections::HashMap,
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{AcqRel, Relaxed},
    },
    thread,
    time::Duration,
};

use forebay_policy::replay::Follower;
use forebay_protocol::layout::replay;

use super::{Fetch, wake};
use crate::{
    channel::Channel,
    ffi,
    profiles::access::{Entry, LogReader, microseconds},
};

/// Between looks at what the program needs, while it needs new things.
const LOOK: Duration = Duration::from_millis(2);
/// The most that this becomes while it needs none.
const LOOK_MAX: Duration = Duration::from_millis(50);

/// How far a replay may go.
#[derive(Default)]
pub struct Reach {
    /// A step has come to a remote file system.
    is_followed: AtomicBool,
    /// Up to which time of the recorded run its needs may be met now, in microseconds; 0 where that is not limited.
    end: AtomicU64,
}

impl Reach {
    /// Where there is no program to follow.
    pub fn unlimited() -> Self {
        Self { is_followed: true.into(), ..Self::default() }
    }

    /// Whether this step may be carried out now.
    pub fn has(&self, step: &Fetch) -> bool {
        let end = self.end.load(Relaxed);
        end == 0 || u64::from(step.at_us) <= end
    }

    /// A step is done, on such a file system. Whether the caller has to [follow](Self::follow) the program from now on.
    pub fn on_remote(&self) -> bool {
        !self.is_followed.swap(true, AcqRel)
    }

    /// Moves the end on as the program does, until the replay is over. Stops the replay of a program that needs other things.
    pub fn follow(&self, channel: &Channel, steps: &[Fetch], is_on: impl Fn() -> bool) {
        let mut foretold: HashMap<&[u8], u64> = HashMap::new();
        for step in steps {
            foretold.entry(&step.path).or_insert(step.at_us.into());
        }
        let log = channel.access_log();
        let ticks_per_second = channel.header().ticks_per_second.load(Relaxed);
        let microseconds = |at| u64::from(microseconds(at, ticks_per_second));
        let now = || microseconds(log.time(ffi::ticks()));
        let mut follower = Follower::new(now());
        let mut reader = LogReader::default();
        let mut pause = LOOK;
        while is_on() {
            pause = (2 * pause).min(LOOK_MAX);
            while let Some(entry) = reader.next(log) {
                if let Entry::Needed { at, path, .. } = entry {
                    follower.on_need(microseconds(at), foretold.get(&*path).copied());
                    pause = LOOK;
                }
            }
            if follower.is_lost() {
                let state = &channel.header().replay.state;
                let _ = state.compare_exchange(replay::ON, replay::STOPPED, Relaxed, Relaxed);
                return;
            }
            let takes_files = channel.header().replay.taker().is_some();
            self.end.store(follower.end(now(), takes_files).unwrap_or(0), Relaxed);
            wake(channel);
            thread::sleep(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Wanted;

    #[test]
    fn a_replay_is_limited_only_where_a_program_is_followed() {
        let step = |at_us| Fetch { path: (*b"/a").into(), wanted: Wanted::Directory, at_us };
        let reach = Reach::default();
        assert!(reach.has(&step(u32::MAX)));
        assert!(reach.on_remote() && !reach.on_remote(), "a program is followed once");
        reach.end.store(7, Relaxed);
        assert!(reach.has(&step(7)) && !reach.has(&step(8)));
        assert!(!Reach::unlimited().on_remote());
    }
}
