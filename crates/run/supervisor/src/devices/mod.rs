//! Limits the requests that the executor has under way on each device, by what their times tell of the device. Requests that are
//! late by far are given up.

mod gate;
mod sharing;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    thread,
    time::Duration,
};

use forebay_policy::{inflight::InflightLimit, price::LATE_MS_MIN};
use forebay_protocol::layout::{Header, file_system};

use crate::{
    channel::Channel,
    ffi::{self, DeviceUse},
};
use gate::Gate;
pub use sharing::Share;

/// Between looks for requests that are late, while any are under way.
const LOOK: Duration = Duration::from_millis(50);

/// The devices of this run.
pub struct Devices {
    channel: Arc<Channel>,
    /// Requests in flight on a device that has told nothing, at least.
    depth_first: u32,
    gates: Mutex<HashMap<u64, Arc<Gate>>>,
    /// Requests under way on all devices.
    begun: Arc<Begun>,
}

/// Whether the kernel is known to read far ahead on a device (`st_dev`).
pub fn reads_far_ahead(header: &Header, device: u64) -> bool {
    let id = device.wrapping_add(1);
    let known = header.devices.iter().find(|entry| entry.id.load(Relaxed) == id);
    known.is_some_and(|entry| entry.file_system.load(Relaxed) & file_system::READS_FAR_AHEAD != 0)
}

/// What is known of the device with this entry's `id`: its `st_dev` + 1, or 0 for none.
pub fn limit_of(header: &Header, id: u64) -> InflightLimit {
    let known = header.devices.iter().find(|entry| id != 0 && entry.id.load(Relaxed) == id);
    known.map_or(InflightLimit::new(), |entry| InflightLimit::load(&entry.limit))
}

#[derive(Default)]
struct Begun {
    count: Mutex<u64>,
    changed: Condvar,
}

/// Whether a remote file system keeps data that is read ahead of an open.
#[derive(Debug)]
pub enum Keeping {
    /// It does.
    Keeps,
    /// The next open empties the file's cache.
    Forgets,
    /// The caller is to find it out.
    Unknown(Probe),
}

/// Permission to find out whether a file system keeps data; others wait while this lives.
#[derive(Debug)]
pub struct Probe {
    gate: Arc<Gate>,
}

impl Probe {
    /// It was found out.
    pub fn tell(&self, is_kept: bool) {
        let bit = if is_kept { file_system::KEEPS_DATA } else { file_system::FORGETS_DATA };
        if let Some(entry) = self.gate.entry {
            entry.file_system.fetch_or(bit, Relaxed);
        }
    }
}

/// What waits for a job: told once, when the job is done or given up.
#[derive(Clone)]
pub struct Ticket(Arc<Mutex<Option<Finish>>>);

type Finish = Box<dyn FnOnce() + Send>;

/// Permission for one request; dropped when it is complete.
pub struct Turn {
    gate: Arc<Gate>,
    number: u64,
    depth: u32,
    started: u64,
    /// Of how many requests in a row its time tells; 0 where it tells nothing of the device.
    requests: u64,
    /// What the thread had asked for before, on a remote file system: there each request is waited for.
    before: Option<DeviceUse>,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl Ticket {
    /// A ticket that calls `finish` once.
    pub fn new(finish: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(finish)))))
    }

    /// Nothing waits for the job from now on.
    pub fn finish(&self) {
        let finish = lock(&self.0).take();
        if let Some(finish) = finish {
            finish();
        }
    }
}

impl Devices {
    /// The devices that `channel` has places for. `depth_first` requests are in flight at first, or as many as are chosen elsewhere.
    pub fn new(channel: Arc<Channel>, depth_first: u32) -> Self {
        Self { channel, depth_first, gates: Mutex::default(), begun: Arc::default() }
    }

    /// Waits until `device` (`st_dev`) may take one more request. `None` where it takes none any more, or none for now.
    pub fn turn(&self, device: u64, ticket: &Ticket) -> Option<Turn> {
        let gate = self.gate_of(device);
        let mut waiting = lock(&gate.waiting);
        while !gate.refuses(&waiting) && gate.is_full(&waiting) {
            waiting = gate.wait(waiting);
        }
        if gate.refuses(&waiting) {
            return None;
        }
        let (number, started) = (waiting.next, ffi::ticks());
        waiting.next += 1;
        waiting.started.insert(number, (started, ticket.clone()));
        let depth = waiting.started.len() as u32;
        gate.tell(depth);
        // A limit that has grown has room for more.
        gate.wake_next(&mut waiting);
        drop(waiting);
        self.begun.add();
        let before = gate.is_remote().then(ffi::device_use);
        Some(Turn { gate, number, depth, started, requests: 0, before })
    }

    /// Waits until a file of `size` bytes may be read that may share its blocks with others. `None` for all other files.
    ///
    /// A file system of large blocks puts several small files into one, prepares it while its reader waits, and keeps few of them
    /// (squashfs 3 as a rule). Reading more files side by side than a block holds prepares each block many times.
    pub fn share(
        &self,
        device: u64,
        job: u64,
        size: u64,
        block_bytes: impl FnOnce() -> u64,
    ) -> Option<Share> {
        Share::wait(self.gate_of(device), job, size, block_bytes)
    }

    /// Whether data that is read ahead of an open stays, on a remote file system; the first one that asks is to find that out, and
    /// others wait for it. `None` where the device takes no more.
    pub fn keeps_data(&self, device: u64) -> Option<Keeping> {
        let gate = self.gate_of(device);
        let mut waiting = lock(&gate.waiting);
        loop {
            if waiting.closed {
                return None;
            }
            if gate.has(file_system::FORGETS_DATA) {
                return Some(Keeping::Forgets);
            }
            if gate.has(file_system::KEEPS_DATA) {
                return Some(Keeping::Keeps);
            }
            if !waiting.probing {
                waiting.probing = true;
                drop(waiting);
                return Some(Keeping::Unknown(Probe { gate }));
            }
            waiting = gate.wait_for_probe(waiting);
        }
    }

    /// Gives up requests that are late by far, for ever.
    pub fn watch(&self) {
        let ticks_per_ms = self.channel.header().ticks_per_second.load(Relaxed) / 1_000;
        let late_min = ticks_per_ms * LATE_MS_MIN;
        loop {
            self.begun.wait();
            thread::sleep(LOOK);
            let gates: Vec<_> = lock(&self.gates).values().cloned().collect();
            gates.iter().for_each(|gate| gate.give_up_late(late_min));
        }
    }

    /// Whether the device is known to be of a remote file system.
    pub fn is_remote(&self, device: u64) -> bool {
        self.gate_of(device).is_remote()
    }

    /// Whether its file system is known to keep data that is read ahead of an open.
    pub fn has_kept_data(&self, device: u64) -> bool {
        self.gate_of(device).has(file_system::KEEPS_DATA)
    }

    /// Whether it is of a FUSE file system.
    pub fn is_fuse(&self, device: u64) -> bool {
        self.gate_of(device).has(file_system::FUSE)
    }

    fn gate_of(&self, device: u64) -> Arc<Gate> {
        lock(&self.gates).entry(device).or_insert_with(|| Arc::new(self.gate(device))).clone()
    }

    fn gate(&self, device: u64) -> Gate {
        Gate::new(&self.channel, device, self.depth_first, self.begun.clone())
    }
}

impl Begun {
    fn add(&self) {
        let mut count = lock(&self.count);
        *count += 1;
        // Each notice is a system call.
        if *count == 1 {
            self.changed.notify_one();
        }
    }

    fn remove(&self) {
        *lock(&self.count) -= 1;
    }

    fn wait(&self) {
        let mut count = lock(&self.count);
        while *count == 0 {
            count = self.changed.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.gate.end_probe();
    }
}

impl Turn {
    /// The device was asked for what was needed, so its time tells of the device.
    ///
    /// A look-up may ask several times in a row, and waits for each. It counts as one request of their mean time, or the device would
    /// seem to serve fewer at once than it does.
    pub fn take_time(&mut self, waits: i64) {
        self.requests = u64::try_from(waits).unwrap_or(0).max(1);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // What the kernel had in memory was not waited for.
            self.requests = ffi::device_use().since(before).waits.cast_unsigned();
        }
        let elapsed = ffi::ticks().saturating_sub(self.started).checked_div(self.requests).unwrap_or(0);
        let mut waiting = lock(&self.gate.waiting);
        if let Some(entry) = self.gate.entry.filter(|_| elapsed >= self.gate.device_ticks_min) {
            let mut limit = InflightLimit::load(&entry.limit);
            limit.on_seen(elapsed, self.depth, self.gate.device_ticks_min);
            limit.store(&entry.limit);
            self.gate.judge(&mut waiting, &limit);
        }
        waiting.started.remove(&self.number);
        self.gate.tell(waiting.started.len() as u32);
        self.gate.begun.remove();
        self.gate.wake_next(&mut waiting);
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use forebay_policy::estimate::StallTime;

    use super::sharing::PAGE_BYTES;
    use forebay_policy::price::{AT_ONCE_HOPED, REMOTE_JUDGED_AFTER};

    use super::*;
    use forebay_protocol::layout::DEVICES;
    use std::{sync::mpsc, thread, time::Duration};

    fn turn(devices: &Devices, device: u64) -> Turn {
        let mut turn = devices.turn(device, &Ticket::new(|| ())).unwrap();
        turn.take_time(1);
        turn
    }

    fn devices() -> Devices {
        Devices::new(Arc::new(Channel::create(true).unwrap()), 0)
    }

    #[test]
    fn no_more_reads_are_under_way_than_the_device_likes() {
        let devices = devices();
        let first = devices.gate(7).limit();
        let turns: Vec<Turn> = (0..first).map(|_| turn(&devices, 7)).collect();
        thread::scope(|scope| {
            let (begun, has_begun) = mpsc::channel();
            let devices = &devices;
            scope.spawn(move || {
                let turn = turn(devices, 7);
                begun.send(()).unwrap();
                drop(turn);
            });
            assert!(has_begun.recv_timeout(Duration::from_millis(20)).is_err(), "one read too many");
            drop(turns);
            has_begun.recv_timeout(Duration::from_secs(60)).unwrap();
        });
    }

    /// Threads that wait are woken one at a time, by one that may go on itself.
    #[test]
    fn no_thread_is_left_waiting_for_its_turn() {
        const THREADS: u64 = 64;
        const TURNS: u64 = 500;
        let devices = devices();
        let (ended, has_ended) = mpsc::channel();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (devices, ended) = (&devices, ended.clone());
                scope.spawn(move || {
                    for number in 0..TURNS {
                        let Some(_turn) = devices.turn(7, &Ticket::new(|| ())) else { return };
                        // Some end at once, and others go on while more threads come.
                        if (thread + number) % 7 == 0 {
                            thread::yield_now();
                        }
                    }
                    ended.send(()).unwrap();
                });
            }
            let all_ended = (0..THREADS).all(|_| has_ended.recv_timeout(Duration::from_secs(60)).is_ok());
            // Those that still wait end, too.
            let gate = devices.gate_of(7);
            gate.close(&mut lock(&gate.waiting));
            assert!(all_ended, "a thread waits for ever");
        });
    }

    #[test]
    fn devices_keep_their_places_and_those_without_one_work_too() {
        let devices = devices();
        for device in 0..2 * DEVICES as u64 {
            drop(turn(&devices, device));
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
            drop([turn(&devices, 7), turn(&devices, 7)]);
        }
        assert_eq!(InflightLimit::load(&entry.limit).limit(), first);

        let turns: Vec<Turn> = (0..first).map(|_| turn(&devices, 7)).collect();
        // So long the device takes at least.
        thread::sleep(Duration::from_millis(2));
        drop(turns);
        assert!(InflightLimit::load(&entry.limit).limit() > first);
    }

    #[test]
    fn what_is_foretold_is_asked_for_at_once_until_the_device_has_told_of_itself() {
        let devices = Devices::new(Arc::new(Channel::create(true).unwrap()), AT_ONCE_HOPED);
        let gate = devices.gate_of(7);
        assert_eq!(gate.limit(), AT_ONCE_HOPED);
        let entry = gate.entry.unwrap();
        let mut limit = InflightLimit::load(&entry.limit);
        // It serves one at a time.
        (0..20).for_each(|_| limit.on_completion(100_000, 1));
        (1..20).for_each(|depth| limit.on_completion(100_000 * u64::from(depth), depth));
        limit.store(&entry.limit);
        assert_eq!(gate.limit(), limit.limit());
        assert!(gate.limit() < 4, "{}", gate.limit());
    }

    #[test]
    fn a_request_that_memory_answered_in_part_teaches_nothing() {
        let devices = devices();
        let entry = &devices.channel.header().devices[0];
        let turns: Vec<Turn> = (0..2).filter_map(|_| devices.turn(7, &Ticket::new(|| ()))).collect();
        let before = InflightLimit::load(&entry.limit);
        // So long the device takes at least.
        let since = ffi::ticks();
        while ffi::ticks() - since < 2 * turns[0].gate.device_ticks_min {
            std::hint::spin_loop();
        }
        drop(turns);
        assert_eq!(InflightLimit::load(&entry.limit), before);
    }

    /// The kernel answers what it has in memory itself, and a thread that is interrupted takes long for that, too.
    #[test]
    fn only_what_a_remote_file_system_was_waited_for_tells_of_it() {
        let devices = devices();
        let entry = devices.gate(7).entry.unwrap();
        entry.file_system.store(file_system::REMOTE, Relaxed);
        let long_enough = 2 * devices.gate(7).device_ticks_min;
        let turn = || devices.turn(7, &Ticket::new(|| ())).unwrap();
        let before = InflightLimit::load(&entry.limit);
        let computed = turn();
        let since = ffi::ticks();
        while ffi::ticks() - since < long_enough {
            std::hint::spin_loop();
        }
        drop(computed);
        assert_eq!(InflightLimit::load(&entry.limit), before);
        let waited = turn();
        // The thread gives its processor up, as for a request.
        let (_told, tells) = mpsc::channel::<()>();
        assert!(tells.recv_timeout(Duration::from_millis(1)).is_err());
        drop(waited);
        assert_ne!(InflightLimit::load(&entry.limit), before);
    }

    #[test]
    fn a_remote_file_system_takes_no_more_after_a_request_that_is_late_by_far() {
        let devices = devices();
        let (given_up, was_given_up) = mpsc::channel();
        let ticket = Ticket::new(move || given_up.send(()).unwrap());
        let turn = devices.turn(7, &ticket).unwrap();
        let gate = devices.gate(7);
        gate.entry.unwrap().file_system.store(file_system::REMOTE, Relaxed);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let ticket = Ticket::new(|| ());
                // As many as it takes until one has to wait.
                std::iter::from_fn(|| devices.turn(7, &ticket)).collect::<Vec<_>>().len()
            });
            turn.gate.give_up_late(u64::MAX);
            assert!(was_given_up.try_recv().is_err() && devices.turn(8, &ticket).is_some());
            let deadline = std::time::Instant::now() + Duration::from_secs(10);
            while was_given_up.try_recv().is_err() {
                assert!(std::time::Instant::now() < deadline, "the request was not given up");
                turn.gate.give_up_late(1_000_000);
            }
            assert!(waiting.join().unwrap() <= turn.gate.limit() as usize);
        });
        ticket.finish();
        assert!(was_given_up.try_recv().is_err(), "told twice");
    }

    /// The gate of a remote file system that has been asked for enough to be judged.
    fn remote_gate(devices: &Devices) -> Arc<Gate> {
        let gate = devices.gate_of(7);
        gate.entry.unwrap().file_system.store(file_system::REMOTE, Relaxed);
        lock(&gate.waiting).completed = REMOTE_JUDGED_AFTER;
        gate
    }

    #[test]
    fn a_remote_file_system_that_serves_one_request_at_a_time_gets_no_more() {
        let devices = devices();
        let gate = remote_gate(&devices);
        let ticks_per_us = devices.channel.header().ticks_per_second.load(Relaxed) / 1_000_000;
        let refuses = |request_us: u64, channels: u64| {
            let mut limit = InflightLimit::new();
            for round in 0..64 {
                limit.on_stall(request_us * ticks_per_us);
                let depth = round % limit.limit() + 1;
                limit.on_completion(request_us * ticks_per_us * u64::from(depth).div_ceil(channels), depth);
            }
            limit.store(&gate.entry.unwrap().limit);
            gate.judge(&mut lock(&gate.waiting), &limit);
            gate.refuses(&lock(&gate.waiting))
        };
        assert!(!refuses(5_000, 64) && !refuses(1_000, 8), "several at once, and long ones");
        assert!(refuses(40, 64), "short ones");
        assert!(!refuses(1_000, 64), "longer again");
        assert!(refuses(5_000, 1) && refuses(5_000, 64), "for good");
    }

    #[test]
    fn what_the_program_waits_for_tells_whether_hints_pay_and_may_change_its_mind() {
        let devices = devices();
        let ticks_per_us = devices.channel.header().ticks_per_second.load(Relaxed) / 1_000_000;
        let gate = remote_gate(&devices);
        let entry = gate.entry.unwrap();
        // Look-ups that the file system answers from what it keeps.
        let mut limit = InflightLimit::new();
        (0..20).for_each(|_| limit.on_stall(60 * ticks_per_us));
        limit.store(&entry.limit);
        let refuses_after = |stalls: &[u64]| {
            let mut time = StallTime::load(&entry.stall);
            stalls.iter().for_each(|us| time.on_stall(us * ticks_per_us));
            time.store(&entry.stall);
            devices.turn(7, &Ticket::new(|| ())).is_none()
        };
        assert!(refuses_after(&[]) && !refuses_after(&[60, 20_000].repeat(5)));
        assert!(refuses_after(&[60; 40]) && !refuses_after(&[1_000; 10]));
    }

    #[test]
    fn files_that_share_blocks_are_read_a_block_at_a_time() {
        const BLOCK: u64 = 128 << 10;
        let devices = devices();
        assert!(devices.share(8, 0, 5000, || PAGE_BYTES).is_none(), "a block of a page holds one file");
        assert!(devices.share(7, 0, BLOCK, || BLOCK).is_none(), "a file of a block shares none");
        let halves = [0, 1].map(|job| devices.share(7, job, BLOCK / 2, || BLOCK).unwrap());
        thread::scope(|scope| {
            let (begun, has_begun) = mpsc::channel();
            let devices = &devices;
            scope.spawn(move || {
                let share = devices.share(7, 2, 5000, || BLOCK);
                begun.send(()).unwrap();
                drop(share);
            });
            assert!(has_begun.recv_timeout(Duration::from_millis(20)).is_err(), "more than a block");
            drop(halves);
            has_begun.recv_timeout(Duration::from_secs(60)).unwrap();
        });
    }

    #[test]
    fn one_file_tells_whether_data_is_kept_while_others_wait() {
        let devices = devices();
        let Some(Keeping::Unknown(probe)) = devices.keeps_data(7) else { panic!("it is known") };
        thread::scope(|scope| {
            let (answered, answer) = mpsc::channel();
            let devices = &devices;
            let ask = move || answered.send(matches!(devices.keeps_data(7), Some(Keeping::Forgets))).unwrap();
            scope.spawn(ask);
            assert!(answer.recv_timeout(Duration::from_millis(20)).is_err(), "two find it out");
            probe.tell(false);
            drop(probe);
            assert!(answer.recv_timeout(Duration::from_secs(60)).unwrap());
        });
        // One that does not find it out leaves it to the next.
        assert!(matches!(devices.keeps_data(8), Some(Keeping::Unknown(_))));
        assert!(matches!(devices.keeps_data(8), Some(Keeping::Unknown(_))));
    }
}
