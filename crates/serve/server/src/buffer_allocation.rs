//! Which session gets memory for a buffer: the most urgent one first, from one sum for all sessions, which is never exceeded.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::iter::Peekable;

use forebay_rtsp::server::SessionId;
use forebay_streaming::buffer::{Buffer, Part, Scratch, next_bytes, room_for, skip_too_long};
use forebay_streaming::depth::{Budget, Depth, PARTS, Share};
use forebay_streaming::pool::Pool;
use forebay_streaming::program::Planned;

use crate::catalog::Opened;
use crate::clock;
use crate::pace::Pace;
use crate::readers::{Destination, Filling, Readers, Reading};
use crate::sessions::{Key, Session, Sessions};

/// What the first buffer after a seek lasts, in parts of a second.
const FIRST_PARTS: u64 = 4;
const FIRST_BYTES_MIN: u64 = 16 << 10;
/// How much larger the next one is at most: many begin at the same time, and none is to keep the disk from the others.
const GROWTH: u64 = 4;
/// The largest buffer of what a client takes as fast as it can, unless one sample is larger.
const DOWNLOAD_BYTES_MAX: u64 = 256 << 10;
/// How long a client may wait for its first buffer.
const FIRST_WAIT_NS: u64 = 100_000_000;
/// How long until a file that has nothing more is asked again.
const FILE_WAIT_NS: u64 = 150_000_000;
/// A session that misses a buffer within this time may have the memory of sessions that were stopped.
const URGENT_NS: u64 = 50_000_000;

/// A session that wants a buffer.
#[derive(Clone, Copy, Debug)]
struct Want {
    key: Key,
    deadline_ns: u64,
}

impl Want {
    fn urgent_ns(&self) -> u64 {
        self.deadline_ns.saturating_sub(URGENT_NS)
    }
}

/// The memory of all buffers, and the sessions that wait for some.
pub(crate) struct Buffers {
    budget: Budget,
    /// The numbers of devices in the budget, by those of the system.
    devices: HashMap<u64, usize>,
    pool: Pool,
    scratch: Scratch,
    wanting: Vec<Want>,
    /// Sessions that were stopped, the first ones first; some go on again.
    stopped: VecDeque<SessionId>,
    /// Buffers that the readers get at the end of this turn.
    fillings: Vec<Filling>,
    /// The size that settings fix.
    fixed_bytes: Option<u64>,
}

impl Buffers {
    /// For `count` buffers in each session.
    pub fn new(memory_bytes: u64, count: usize, fixed_bytes: Option<u64>) -> Self {
        Self {
            budget: Budget::new(memory_bytes, count),
            devices: HashMap::new(),
            pool: Pool::new(memory_bytes),
            scratch: Scratch::default(),
            wanting: Vec::new(),
            stopped: VecDeque::new(),
            fillings: Vec::new(),
            fixed_bytes,
        }
    }

    pub fn set_memory(&mut self, memory_bytes: u64, fixed_bytes: Option<u64>) {
        self.budget.set_bytes(memory_bytes);
        self.pool.set_bytes(memory_bytes);
        self.fixed_bytes = fixed_bytes;
    }

    /// What sessions have, or are getting.
    pub fn used_bytes(&self) -> u64 {
        self.pool.lent_bytes()
    }

    /// Whether there is room for another session that sends so much.
    pub fn has_room(&self, bytes_per_second: u64) -> bool {
        self.budget.has_room(bytes_per_second, None)
    }

    /// Makes a session's share of memory what its tracks take at that pace. `false` if there is no room for it: then the share
    /// stays as it was.
    pub fn charge(&mut self, session: &mut Session, tracks: &[usize], pace: Pace) -> bool {
        let opened = &session.opened;
        let (all, sync) = (opened.bytes_per_second_of(tracks), opened.sync_bytes_per_second_of(tracks));
        let bytes_per_second = pace.bytes_per_second(all, sync);
        if !self.budget.has_room(bytes_per_second, session.share) {
            return false;
        }
        if let Some(share) = session.share.take() {
            self.budget.leave(share);
        }
        if let Some(file) = session.opened.files.first() {
            let device =
                *self.devices.entry(file.identity.device).or_insert_with(|| self.budget.add_device());
            session.share = Some(self.budget.enter(device, bytes_per_second));
        }
        session.bytes_per_second = bytes_per_second;
        true
    }

    /// Learns what reads of a session's device take.
    pub fn note_reading(&mut self, session: &Session, reading: Reading) {
        let device = session.opened.files.first().and_then(|file| self.devices.get(&file.identity.device));
        if let Some(device) = device.and_then(|device| self.budget.device(*device))
            && reading.reads > 0
        {
            device.note(reading.bytes / reading.reads, reading.elapsed_ns / reading.reads);
        }
    }

    /// If the session wants a buffer, the readers get one at the end of this turn, or as soon as there is memory.
    pub fn want(&mut self, session: &mut Session, now_ns: u64) {
        if session.wish_ns().is_none_or(|wish_ns| wish_ns > now_ns) {
            return;
        }
        session.stream.begin_filling();
        // Sessions that play come before those that begin, unless they have longer.
        let deadline_ns = session.stream.runs_dry_ns().unwrap_or(now_ns + FIRST_WAIT_NS);
        self.wanting.push(Want { key: session.key(), deadline_ns });
    }

    /// Hands buffers that are wanted to the readers, as far as there is memory.
    pub fn allocate(&mut self, sessions: &mut Sessions, readers: &Readers) {
        self.wanting.sort_unstable_by_key(|want| Reverse(want.deadline_ns));
        while let Some(want) = self.wanting.last().copied() {
            if self.allocate_one(want, sessions) {
                self.wanting.pop();
            } else if want.urgent_ns() > clock::now_ns() || !self.take_from_stopped(sessions) {
                break;
            }
        }
        self.hand_over(readers);
    }

    /// Hands over what has memory.
    pub fn hand_over(&mut self, readers: &Readers) {
        readers.fill(&mut self.fillings);
    }

    /// When sessions that were stopped lose their memory to one that waits for some.
    pub fn urgent_ns(&self) -> Option<u64> {
        self.wanting.last().filter(|_| !self.stopped.is_empty()).map(Want::urgent_ns)
    }

    /// `false` if there is no memory.
    fn allocate_one(&mut self, Want { key, deadline_ns }: Want, sessions: &mut Sessions) -> bool {
        let Some(session) = sessions.of(key) else { return true };
        let Some(program) = &mut session.program else { return true };
        let depth = session.share.map(|share| self.budget.depth(share, self.fixed_bytes));
        let Depth { mut bytes, mut part_bytes, lead_ns } = depth.unwrap_or_default();
        if session.is_beginning {
            bytes = bytes.min((session.bytes_per_second / FIRST_PARTS).max(FIRST_BYTES_MIN));
            part_bytes = bytes;
        } else {
            bytes = bytes.min(session.asked_bytes.saturating_mul(GROWTH));
        }
        // In this order: once nothing more comes, all of it is there.
        let may_go_on = !session.pace.is_backwards() && session.opened.playlist.may_go_on(session.until_ns);
        if may_go_on && program.peek().is_none() {
            // What has ended may have gone on since.
            program.next();
            if program.peek().is_none() {
                session.stream.wait_for_file();
                session.waits_until_ns = clock::now_ns() + FILE_WAIT_NS;
                sessions.set_timer(key.place);
                return true;
            }
        }
        // Less than is best is better than nothing, but a little of it would be gone before more is there.
        session.stream.note_damaged(skip_too_long(program, self.pool.bytes_max()));
        let next_bytes = room_for(next_bytes(program) as usize) as u64;
        let least = next_bytes.max(bytes / PARTS).min(self.pool.bytes_max());
        let free_bytes = self.pool.free_bytes();
        if free_bytes < least {
            return false;
        }
        let bytes_max = bytes.max(next_bytes).min(free_bytes) as usize;
        let mut buffer = Buffer::gather(program, bytes_max, part_bytes as usize, &mut self.scratch);
        if may_go_on {
            buffer.set_not_last();
        }
        self.pool.lend(&mut buffer);
        // The first buffer is small, and many sessions begin at the same time: so the second one is asked for at once.
        session.lead_ns = if session.is_beginning { u64::MAX } else { lead_ns };
        (session.is_beginning, session.asked_bytes) = (false, bytes);
        let (opened, result) = (session.opened.clone(), Ok(Reading::default()));
        let destination = Destination::Session(key);
        self.fillings.push(Filling { destination, buffer, opened, deadline_ns, result });
        true
    }

    /// Takes back what a session has sent, or has no more use for.
    pub fn reclaim(&mut self, session: &mut Session) {
        session.stream.take_over().for_each(|part| self.pool.give_back(part));
    }

    /// Takes back a buffer that was filled for a session that is gone, or went on elsewhere.
    pub fn reclaim_filled(&mut self, filled: Filling) {
        filled.buffer.into_parts().into_iter().for_each(|part| self.pool.give_back(part));
    }

    /// A session ends: others may have its memory.
    pub fn release(&mut self, session: &mut Session) {
        session.stream.empty();
        self.reclaim(session);
        if let Some(share) = session.share.take() {
            self.budget.leave(share);
        }
    }

    /// Notes that a session has buffers that it does not need for now.
    pub fn note_stopped(&mut self, session: &mut Session) {
        if !std::mem::replace(&mut session.is_stopped, true) {
            self.stopped.push_back(session.id);
        }
    }

    /// Takes all buffers of one session that was stopped, which has to read them again if it goes on. `false` if none has any.
    fn take_from_stopped(&mut self, sessions: &mut Sessions) -> bool {
        while let Some(id) = self.stopped.pop_front() {
            let Some(place) = sessions.place(id) else { continue };
            let session = &mut sessions[place];
            session.is_stopped = false;
            if session.is_idle() && session.stream.memory_bytes() > 0 {
                self.take_all(place, sessions);
                return true;
            }
        }
        false
    }

    /// Takes all that a session has buffered, and what is being filled for it, which would come after that.
    pub fn take_all(&mut self, place: usize, sessions: &mut Sessions) {
        sessions.begin_life(place);
        let session = &mut sessions[place];
        session.stream.empty();
        session.forget_program();
        self.reclaim(session);
    }

    /// A share of the memory for tracks that a client takes as fast as it can; `None` if there is no room for it.
    pub fn admit(&mut self, opened: &Opened, tracks: &[usize]) -> Option<Share> {
        let bytes_per_second = opened.bytes_per_second_of(tracks);
        let file = opened.files.first().filter(|_| self.budget.has_room(bytes_per_second, None))?;
        let device = *self.devices.entry(file.identity.device).or_insert_with(|| self.budget.add_device());
        Some(self.budget.enter(device, bytes_per_second))
    }

    /// What had that share has ended.
    pub fn dismiss(&mut self, share: Share) {
        self.budget.leave(share);
    }

    /// A buffer for the next samples; `None` while there is no memory for it. Where it ends depends on settings alone: a client that
    /// asks for several ranges of a segment gets bytes of one and the same.
    pub fn lend(&mut self, program: &mut Peekable<impl Iterator<Item = Planned>>) -> Option<Buffer> {
        let most = self.pool.bytes_max();
        let bytes =
            self.fixed_bytes.unwrap_or(most / PARTS).clamp(FIRST_BYTES_MIN, DOWNLOAD_BYTES_MAX).min(most);
        skip_too_long(program, most);
        let bytes_max = bytes.max(room_for(next_bytes(program) as usize) as u64).min(most);
        // Sessions have to send at their times.
        if !self.wanting.is_empty() || self.pool.free_bytes() < bytes_max {
            return None;
        }
        let bytes_max = bytes_max as usize;
        let mut buffer = Buffer::gather(program, bytes_max, bytes_max, &mut self.scratch);
        self.pool.lend(&mut buffer).then_some(buffer)
    }

    /// The readers get a buffer.
    pub fn fill(&mut self, filling: Filling) {
        self.fillings.push(filling);
    }

    /// Takes back parts that are not needed any more.
    pub fn take_back(&mut self, parts: Vec<Part>) {
        parts.into_iter().for_each(|part| self.pool.give_back(part));
    }

    /// Forgets stopped sessions that have ended.
    pub fn sweep(&mut self, sessions: &Sessions) {
        self.stopped.retain(|id| sessions.place(*id).is_some());
    }
}
