//! All players, on the thread that runs them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::protocol::{Stream, Tally};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use socket2::{SockFilter, SockRef};

use crate::Error;
use crate::clock::{now_ns, stamp_ns};
use crate::order::{Order, Start, Transport};
use crate::outcome::{Outcome, Quantiles};
use crate::player::{Desk, Due, Player, Role, State};
use crate::processor::{Used, make_room};
use crate::sockets::{Ports, Receiver};

const SECOND_NS: f64 = 1e9;
/// So many ask for their stream at the same time at most: a slow server is not asked by all at once.
const JOINING_MAX: usize = 64;
/// From the first request to the first packet. A server that takes longer has failed that player.
const PATIENCE_NS: i64 = 30_000_000_000;
/// How often a player says what it received.
const REPORT_NS: i64 = 5_000_000_000;
/// Each player is looked after so often.
const ROUND_NS: i64 = 250_000_000;
/// Never, as a moment.
const NEVER: i64 = i64::MAX;
const EVENTS: usize = 512;
/// How long nothing is waited for without looking after players.
const WAIT_NS: i64 = 5_000_000;
/// How long datagrams gather before any is received: to wake this thread for each would take time of the server's processor,
/// which does that on the loopback. When they came the kernel has noted.
const GATHER: Duration = Duration::from_micros(500);
/// Later ones count as this: ten minutes.
const START_US_MAX: u64 = 600_000_000;

/// Which socket of a player, in the lower bits of what epoll keeps: its connection, or 1 and 2 for the packets and the reports of
/// its first track, and so on.
const CONTROL: u64 = 0;
const SOCKET_BITS: u32 = 4;

/// Players that come, play and leave.
#[derive(Debug)]
pub struct Crowd {
    order: Order,
    epoll: OwnedFd,
    players: Vec<Option<Player>>,
    receiver: Receiver,
    ports: Ports,
    random: fastrand::Rng,
    /// The next to come of those that were not there yet, and when.
    next: usize,
    next_ns: i64,
    /// Places of those that left, for others.
    free: Vec<usize>,
    joining: usize,
    /// Those that do not read because their links have no room, and until when.
    held: BinaryHeap<Reverse<(i64, usize)>>,
    /// Who is looked after next, and when the last was.
    round: usize,
    looked_ns: i64,
    counting: bool,
    tally: Tally,
    starts_us: Histogram<u64>,
    count: Count,
}

/// What there is besides samples.
#[derive(Debug, Default)]
struct Count {
    failed: u32,
    first_failure: Option<String>,
    streams: u32,
    late_streams: u32,
    expected: u64,
    lost: u64,
    late: u64,
    played_ns: i64,
    seeks: u64,
    dropped: u64,
    lost_on_link: u64,
}

impl Count {
    /// Counts the tracks of one player.
    fn add(&mut self, tracks: &[Stream]) {
        if tracks.is_empty() {
            return;
        }
        self.streams += 1;
        self.late_streams += u32::from(tracks.iter().any(Stream::is_late));
        self.expected += tracks.iter().map(|track| track.expected).sum::<u64>();
        self.lost += tracks.iter().map(|track| track.lost).sum::<u64>();
        self.late += tracks.iter().map(|track| track.late).sum::<u64>();
        self.played_ns += tracks.iter().map(|track| track.played_ns).max().unwrap_or_default();
    }

    fn fail(&mut self, why: String) {
        self.failed += 1;
        self.streams += 1;
        self.late_streams += 1;
        self.first_failure.get_or_insert(why);
    }
}

/// How many came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// Players that play.
    pub playing: u32,
    /// Players that the server refused or lost.
    pub failed: u32,
    /// What the first of these was told.
    pub first_failure: Option<String>,
}

impl Crowd {
    /// Of nobody yet.
    ///
    /// # Errors
    /// The order makes no sense, or the system does not let so many play.
    pub fn new(order: Order) -> Result<Self, Error> {
        order.check()?;
        make_room(order.players, order.transport)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(Error::system("wait for packets"))?;
        let (players, now) = (order.players as usize, now_ns());
        Ok(Self {
            epoll,
            players: (0..players).map(|_| None).collect(),
            receiver: Receiver::new(),
            ports: Ports::new(order.seed.wrapping_mul(31).wrapping_add(u64::from(std::process::id()))),
            random: fastrand::Rng::with_seed(order.seed),
            next: 0,
            next_ns: now,
            free: Vec::new(),
            joining: 0,
            held: BinaryHeap::new(),
            round: 0,
            looked_ns: now,
            counting: false,
            tally: Tally::new(),
            starts_us: Histogram::new_with_bounds(1, START_US_MAX, 3).expect("these bounds are allowed"),
            count: Count::default(),
            order,
        })
    }

    /// Lets them come, until all of them play or have failed, or `stop` is set.
    ///
    /// # Errors
    /// The system refuses what all of them need.
    pub fn gather(&mut self, stop: &AtomicBool) -> Result<Gathered, Error> {
        while (self.next < self.players.len() || self.joining > 0) && !stop.load(Ordering::Relaxed) {
            self.turn(NEVER)?;
        }
        Ok(Gathered {
            playing: self.playing(),
            failed: self.count.failed,
            first_failure: self.count.first_failure.clone(),
        })
    }

    /// Lets them play for `time`, which does not count.
    ///
    /// # Errors
    /// The system refuses what all of them need.
    pub fn play_for(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), Error> {
        self.play_until(now_ns() + time.as_nanos() as i64, stop)
    }

    /// Lets them play for `warm_up`, and watches them for `time`. A part of it where `stop` is set meanwhile.
    ///
    /// # Errors
    /// The system refuses what all of them need.
    pub fn watch(&mut self, warm_up: Duration, time: Duration, stop: &AtomicBool) -> Result<Outcome, Error> {
        let begin = now_ns() + warm_up.as_nanos() as i64;
        self.play_until(begin, stop)?;
        self.players.iter_mut().flatten().for_each(Player::begin_counting);
        self.counting = true;
        self.tally = Tally::new();
        let failures = (self.count.failed, self.count.first_failure.take());
        self.count = Count {
            failed: failures.0,
            first_failure: failures.1,
            // Whoever failed before has a stream that is late.
            streams: failures.0,
            late_streams: failures.0,
            ..Count::default()
        };
        let (used, begun) = (Used::by_this_thread(), now_ns());
        self.play_until(begin.max(begun) + time.as_nanos() as i64, stop)?;
        let seconds = (now_ns() - begun) as f64 / SECOND_NS;
        let used = Used::by_this_thread().since(used);
        self.counting = false;
        let now = stamp_ns();
        for player in self.players.iter().flatten() {
            self.count.add(&player.end_counting(now, &mut self.tally));
        }
        Ok(self.outcome(seconds, used))
    }

    /// Has all that comes on their connections be dropped before TCP sees it: nothing is acknowledged any more, as if their
    /// machines had lost their power.
    ///
    /// # Errors
    /// The system does not let them.
    pub fn vanish(&mut self) -> Result<(), Error> {
        // A program of the classic packet filter that keeps no byte of any packet (socket(7), SO_ATTACH_FILTER).
        const RETURN_CONSTANT: u16 = 0x06;
        let drop_all = [SockFilter::new(RETURN_CONSTANT, 0, 0, 0)];
        for player in self.players.iter().flatten() {
            let attached = SockRef::from(&player.control).attach_filter(&drop_all);
            attached.map_err(Error::system("make players vanish"))?;
        }
        Ok(())
    }

    fn outcome(&self, seconds: f64, used: Used) -> Outcome {
        let (tally, count) = (&self.tally, &self.count);
        let has_lossy_links = !self.order.links.is_empty() && self.order.transport == Transport::Udp;
        Outcome {
            seconds,
            playing: self.playing(),
            failed: count.failed,
            first_failure: count.first_failure.clone(),
            streams: count.streams,
            late_streams: count.late_streams,
            seeks: count.seeks,
            packets: tally.packets,
            bytes: tally.bytes,
            expected: count.expected,
            lost: count.lost,
            late: count.late,
            duplicates: tally.duplicates,
            overtaken: tally.overtaken,
            played_s: count.played_ns as f64 / SECOND_NS,
            lateness: Quantiles::of(&tally.lateness_us),
            picture_lateness: Quantiles::of(&tally.picture_lateness_us),
            sound_lateness: Quantiles::of(&tally.sound_lateness_us),
            pictures: tally.pictures,
            whole_pictures: tally.whole_pictures,
            lost_on_link: has_lossy_links.then_some(count.lost_on_link),
            jitter: Quantiles::of(&tally.jitter_us),
            frame_jitter: Quantiles::of(&tally.frame_jitter_us),
            start: Quantiles::of(&self.starts_us),
            clock_set_back_s_max: tally.clock_set_back_us_max as f64 / 1e6,
            ran_s: used.ran_s,
            queued_s: used.queued_s,
            dropped_here: count.dropped,
        }
    }

    fn playing(&self) -> u32 {
        let plays = |player: &&Player| player.has_played;
        self.players.iter().flatten().filter(plays).count() as u32
    }

    fn play_until(&mut self, end_ns: i64, stop: &AtomicBool) -> Result<(), Error> {
        while now_ns() < end_ns && !stop.load(Ordering::Relaxed) {
            self.turn(end_ns)?;
        }
        Ok(())
    }

    /// Lets some come, waits for sockets for a moment, and looks after some.
    fn turn(&mut self, end_ns: i64) -> Result<(), Error> {
        let now = now_ns();
        self.let_come(now);
        if self.order.transport == Transport::Udp {
            std::thread::sleep(GATHER);
        }
        let held_ns = self.held.peek().map_or(NEVER, |Reverse((until_ns, _))| until_ns - stamp_ns());
        let wait = (end_ns - now).min(held_ns).clamp(0, WAIT_NS);
        let mut events = Vec::<epoll::Event>::with_capacity(EVENTS);
        let wait = Timespec { tv_sec: 0, tv_nsec: wait };
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::system("wait for packets")(error)),
        }
        for event in events {
            let key = event.data.u64();
            self.ready((key >> SOCKET_BITS) as usize, key & ((1 << SOCKET_BITS) - 1));
        }
        self.let_read_on(stamp_ns());
        self.look_after(now_ns());
        Ok(())
    }

    fn let_come(&mut self, now: i64) {
        while self.joining < JOINING_MAX && now >= self.next_ns {
            let place = match self.free.pop() {
                Some(place) => place,
                None if self.next < self.players.len() => {
                    self.next += 1;
                    self.next - 1
                }
                None => return,
            };
            self.next_ns = self.next_ns.max(now - ROUND_NS) + (SECOND_NS / self.order.ramp_per_second) as i64;
            self.come(place, now);
        }
    }

    fn come(&mut self, index: usize, now: i64) {
        let leave_ns = self.after(self.order.stay_s, now);
        let role = Role {
            address: self.order.address,
            path: &self.order.paths[index % self.order.paths.len()],
            transport: self.order.transport,
            link: self.order.links.get(index % self.order.paths.len()).copied(),
            drift: self.order.drifts.get(index % self.order.paths.len()).copied().unwrap_or_default(),
            place: if self.order.start == Start::Anywhere { self.random.f64() } else { 0.0 },
            needed_s: self.order.needed_s,
            late_s: self.order.late_s,
            due: Due {
                gives_up_ns: now + PATIENCE_NS,
                keep_alive_ns: NEVER,
                report_ns: NEVER,
                seek_ns: NEVER,
                leave_ns,
                replay_ns: NEVER,
            },
        };
        let player = match Player::begin(&role) {
            Ok(player) => player,
            Err(why) => return self.count.fail(why),
        };
        if let Err(error) = self.listen(&player.control, index, CONTROL, EventFlags::IN | EventFlags::OUT) {
            return self.count.fail(error.to_string());
        }
        self.joining += 1;
        self.players[index] = Some(player);
    }

    fn listen(&self, socket: &impl AsFd, index: usize, kind: u64, flags: EventFlags) -> Result<(), Error> {
        let data = EventData::new_u64((index as u64) << SOCKET_BITS | kind);
        epoll::add(&self.epoll, socket, data, flags).map_err(Error::system("wait for packets"))
    }

    /// Listens to the sockets of tracks from this one on.
    fn listen_to_tracks(&self, index: usize, from: usize) -> Result<(), Error> {
        let Some(player) = &self.players[index] else { return Ok(()) };
        for (number, part) in player.parts.iter().enumerate().skip(from) {
            if let Some(pair) = &part.pair {
                self.listen(&pair.media, index, 2 * number as u64 + 1, EventFlags::IN)?;
                self.listen(&pair.reports, index, 2 * number as u64 + 2, EventFlags::IN)?;
            }
        }
        Ok(())
    }

    fn ready(&mut self, index: usize, socket: u64) {
        self.with(index, |player, desk| match socket {
            CONTROL => player.control_ready(desk),
            media if media % 2 == 1 => {
                player.media_ready((media / 2) as usize, desk);
                Ok(())
            }
            reports => {
                player.reports_ready((reports / 2 - 1) as usize, desk);
                Ok(())
            }
        });
    }

    /// Lets those read whose links have room again.
    fn let_read_on(&mut self, now: i64) {
        while let Some(Reverse((_, index))) = self.held.peek().copied().filter(|held| held.0.0 <= now) {
            self.held.pop();
            if let Some(player) = &mut self.players[index] {
                player.is_held = false;
                self.look_for(index);
                self.ready(index, CONTROL);
            }
        }
    }

    /// Has epoll tell what the connection of a player is to be looked at for.
    fn look_for(&self, index: usize) {
        let Some(player) = &self.players[index] else { return };
        let read = if player.is_held { EventFlags::empty() } else { EventFlags::IN };
        let write = if player.wants_to_write() { EventFlags::OUT } else { EventFlags::empty() };
        let data = EventData::new_u64((index as u64) << SOCKET_BITS | CONTROL);
        // Where it is not told to go on writing, it gives up in time.
        let _ = epoll::modify(&self.epoll, &player.control, data, read | write);
    }

    /// Lets a player do something, and takes notice of what it is at then.
    fn with(&mut self, index: usize, work: impl FnOnce(&mut Player, &mut Desk<'_>) -> Result<(), String>) {
        // Its sockets may be gone since they were said to be ready.
        let Some(player) = &mut self.players[index] else { return };
        let (before, wrote, had_played) = (player.state, player.wants_to_write(), player.has_played);
        let (pairs, was_held) = (player.pairs(), player.is_held);
        let tally = self.counting.then_some(&mut self.tally);
        let mut desk = Desk {
            receiver: &mut self.receiver,
            ports: &mut self.ports,
            tally,
            starts_us: &mut self.starts_us,
            dropped: &mut self.count.dropped,
            lost_on_link: &mut self.count.lost_on_link,
        };
        if let Err(why) = work(player, &mut desk) {
            self.count.fail(why);
            self.remove(index);
            return;
        }
        if let Some(until_ns) = player.held_until_ns().filter(|_| !was_held) {
            player.is_held = true;
            self.held.push(Reverse((until_ns, index)));
        }
        let begins = before != State::Playing && player.state == State::Playing;
        let is_changed = player.wants_to_write() != wrote || player.is_held != was_held;
        let has_sockets = player.pairs() > pairs;
        if is_changed {
            self.look_for(index);
        }
        if let Some(Err(error)) = has_sockets.then(|| self.listen_to_tracks(index, pairs)) {
            self.count.fail(error.to_string());
            self.remove(index);
            return;
        }
        if begins {
            self.joining -= usize::from(!had_played);
            self.plays(index);
        }
    }

    /// The first packet has come, from wherever it plays now.
    fn plays(&mut self, index: usize) {
        let now = now_ns();
        let seek_ns = self.after(self.order.seek_every_s, now);
        let Some(player) = &mut self.players[index] else { return };
        let keep_alive_ns = now + (player.keep_alive_s() * SECOND_NS) as i64;
        player.due = Due {
            gives_up_ns: NEVER,
            keep_alive_ns: keep_alive_ns.min(player.due.keep_alive_ns),
            report_ns: player.due.report_ns.min(now + REPORT_NS),
            seek_ns,
            leave_ns: player.due.leave_ns,
            replay_ns: player.lasts_s().map_or(NEVER, |lasts_s| now + (lasts_s * SECOND_NS) as i64),
        };
    }

    /// A moment that comes after `mean_s` on average, with no memory of when the last one was.
    fn after(&mut self, mean_s: Option<f64>, now: i64) -> i64 {
        mean_s.map_or(NEVER, |mean_s| {
            let after_s = -(1.0 - self.random.f64()).ln() * mean_s;
            now + (after_s * SECOND_NS) as i64
        })
    }

    /// Does what is due of so many players that each has its turn in a round.
    fn look_after(&mut self, now: i64) {
        let passed_ns = (now - self.looked_ns).min(ROUND_NS);
        let number = (self.players.len() as i64 * passed_ns / ROUND_NS) as usize;
        if number == 0 && passed_ns < ROUND_NS {
            return;
        }
        self.looked_ns = now;
        for _ in 0..number {
            let index = self.round % self.players.len();
            self.round = index + 1;
            self.do_what_is_due(index, now);
        }
    }

    fn do_what_is_due(&mut self, index: usize, now: i64) {
        let Some(Player { due, state, .. }) = &self.players[index] else { return };
        let (due, state) = (*due, *state);
        let place = self.random.f64();
        if now >= due.gives_up_ns {
            let seconds = PATIENCE_NS / 1_000_000_000;
            let late = format!("nothing came from the server within {seconds} s");
            return self.with(index, |_, _| Err(late));
        }
        if now >= due.leave_ns && state == State::Playing {
            return self.leave(index);
        }
        if now >= due.seek_ns.min(due.replay_ns) && state == State::Playing {
            let place = if now >= due.seek_ns { place } else { 0.0 };
            self.count.seeks += 1;
            self.with(index, |player, _| {
                let due =
                    Due { seek_ns: NEVER, replay_ns: NEVER, gives_up_ns: now + PATIENCE_NS, ..player.due };
                player.due = due;
                player.seek(place)
            });
        }
        if now >= due.keep_alive_ns {
            self.with(index, |player, _| {
                player.due.keep_alive_ns = now + (player.keep_alive_s() * SECOND_NS) as i64;
                player.keep_alive()
            });
        }
        if now >= due.report_ns {
            self.with(index, |player, _| {
                player.due.report_ns = now + REPORT_NS;
                player.report()
            });
        }
    }

    fn leave(&mut self, index: usize) {
        let Some(player) = &mut self.players[index] else { return };
        player.leave();
        if self.counting {
            self.count.add(&player.end_counting(stamp_ns(), &mut self.tally));
        }
        self.remove(index);
        self.free.push(index);
    }

    fn remove(&mut self, index: usize) {
        let Some(player) = self.players[index].take() else { return };
        self.joining -= usize::from(!player.has_played);
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.players.iter_mut().flatten().for_each(Player::leave);
    }
}
