//! Limits the reads that the executor has under way on each device, by what their times tell of the device.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::Ordering::{AcqRel, Acquire, Relaxed},
    },
};

use forebay_policy::inflight::InflightLimit;
use forebay_protocol::layout::Device;

use crate::{channel::Channel, ffi};

/// Reads in flight on a device that has no place in the channel.
const DEPTH_UNKNOWN: u32 = 16;

/// The devices of this run.
pub struct Devices {
    channel: Arc<Channel>,
    gates: Mutex<HashMap<u64, Arc<Gate>>>,
}

/// One device.
struct Gate {
    /// Its place in the channel, if there was room.
    entry: Option<&'static Device>,
    /// A faster read was answered from memory and tells nothing.
    device_ticks_min: u64,
    depth: Mutex<u32>,
    completed: Condvar,
}

/// Permission for one read; dropped when the read is complete.
pub struct Turn {
    gate: Arc<Gate>,
    depth: u32,
    /// Where the time is to be taken.
    started: Option<u64>,
}

impl Devices {
    /// The devices that `channel` has places for.
    pub fn new(channel: Arc<Channel>) -> Self {
        Self { channel, gates: Mutex::default() }
    }

    /// Waits until `device` (`st_dev`) may take one more read, whose time will tell of the device.
    pub fn turn(&self, device: u64) -> Turn {
        self.wait_for_turn(device, true)
    }

    /// As [`Devices::turn`], for what takes an unknown number of reads, so that its time tells nothing.
    pub fn untimed_turn(&self, device: u64) -> Turn {
        self.wait_for_turn(device, false)
    }

    fn wait_for_turn(&self, device: u64, timed: bool) -> Turn {
        let gate = lock(&self.gates).entry(device).or_insert_with(|| Arc::new(self.gate(device))).clone();
        let mut depth = lock(&gate.depth);
        while *depth >= gate.limit() {
            depth = gate.completed.wait(depth).unwrap_or_else(PoisonError::into_inner);
        }
        *depth += 1;
        let reached = *depth;
        gate.tell(reached);
        drop(depth);
        Turn { gate, depth: reached, started: timed.then(ffi::ticks) }
    }

    fn gate(&self, device: u64) -> Gate {
        let header = self.channel.header();
        let id = device.wrapping_add(1);
        let claim = |entry: &&Device| {
            let claimed = entry.id.compare_exchange(0, id, AcqRel, Acquire);
            claimed.map_or_else(|owner| owner == id, |_| true)
        };
        Gate {
            entry: header.devices.iter().find(claim),
            device_ticks_min: header.stall_ticks_min.load(Relaxed),
            depth: Mutex::new(0),
            completed: Condvar::new(),
        }
    }
}

impl Gate {
    fn tell(&self, depth: u32) {
        if let Some(entry) = self.entry {
            entry.executing.store(depth, Relaxed);
        }
    }

    fn limit(&self) -> u32 {
        self.entry.map_or(DEPTH_UNKNOWN, |entry| InflightLimit::load(&entry.limit).limit())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let elapsed = self.started.map_or(0, |started| ffi::ticks().saturating_sub(started));
        let mut depth = lock(&self.gate.depth);
        if let Some(entry) = self.gate.entry.filter(|_| elapsed >= self.gate.device_ticks_min) {
            let mut limit = InflightLimit::load(&entry.limit);
            limit.on_seen(elapsed, self.depth, self.gate.device_ticks_min);
            limit.store(&entry.limit);
        }
        *depth -= 1;
        self.gate.tell(*depth);
        // Two, so that a limit that has grown is used up.
        self.gate.completed.notify_one();
        self.gate.completed.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_protocol::layout::DEVICES;
    use std::{sync::mpsc, thread, time::Duration};

    fn devices() -> Devices {
        Devices::new(Arc::new(Channel::create(true).unwrap()))
    }

    #[test]
    fn no_more_reads_are_under_way_than_the_device_likes() {
        let devices = devices();
        let first = devices.gate(7).limit();
        let turns: Vec<Turn> = (0..first).map(|_| devices.turn(7)).collect();
        thread::scope(|scope| {
            let (begun, has_begun) = mpsc::channel();
            let devices = &devices;
            scope.spawn(move || {
                let turn = devices.turn(7);
                begun.send(()).unwrap();
                drop(turn);
            });
            assert!(has_begun.recv_timeout(Duration::from_millis(20)).is_err(), "one read too many");
            drop(turns);
            has_begun.recv_timeout(Duration::from_secs(60)).unwrap();
        });
    }

    #[test]
    fn devices_keep_their_places_and_those_without_one_work_too() {
        let devices = devices();
        for device in 0..2 * DEVICES as u64 {
            drop(devices.turn(device));
        }
        let entries = &devices.channel.header().devices;
        let found: Vec<u64> = entries.iter().map(|entry| entry.id.load(Relaxed)).collect();
        assert_eq!(found, (1..=DEVICES as u64).collect::<Vec<_>>());
    }

    #[test]
    fn reads_of_the_device_teach_and_cached_ones_do_not() {
        let devices = devices();
        let header = devices.channel.header();
        let entry = &header.devices[0];
        // An original has waited 50 ms for the device.
        let mut limit = InflightLimit::load(&entry.limit);
        limit.on_stall(header.ticks_per_second.load(Relaxed) / 20);
        limit.store(&entry.limit);
        let first = limit.limit();

        for _ in 0..100 {
            drop([devices.turn(7), devices.turn(7)]);
        }
        assert_eq!(InflightLimit::load(&entry.limit).limit(), first);

        let turns: Vec<Turn> = (0..first).map(|_| devices.turn(7)).collect();
        // So long the device takes at least.
        thread::sleep(Duration::from_millis(2));
        drop(turns);
        assert!(InflightLimit::load(&entry.limit).limit() > first);
    }
}
