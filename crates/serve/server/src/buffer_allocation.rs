//! Who gets memory for a buffer when: the most urgent first, from one sum for all, which is never exceeded.

use std::cmp::Reverse;

use forebay_rtsp::server::SessionId;
use forebay_streaming::buffer::{Buffer, next_bytes, room_for, skip_too_long};
use forebay_streaming::depth::{Depth, PARTS};

use crate::clock;
use crate::event_loop::Serving;
use crate::readers::{Filling, Reading};
use crate::session::Key;

/// What the first buffer after a seek lasts, in parts of a second.
const FIRST_PARTS: u64 = 4;
const FIRST_BYTES_MIN: u64 = 16 << 10;
/// How much larger the next one is at most: many begin at the same time, and none is to keep the disk from the others.
const GROWTH: u64 = 4;
/// How long a client may wait for its first buffer.
const FIRST_PATIENCE_NS: u64 = 100_000_000;

/// Who has so long only until a buffer is missed may have the memory of those that were stopped.
const URGENT_NS: u64 = 50_000_000;

/// Somebody who wants a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    key: Key,
    deadline_ns: u64,
}

impl Want {
    fn urgent_ns(&self) -> u64 {
        self.deadline_ns.saturating_sub(URGENT_NS)
    }
}

impl Serving {
    /// Has a buffer filled if the session wants one, at the end of this turn or as soon as there is memory.
    pub(crate) fn want_buffer(&mut self, place: usize, now_ns: u64) {
        let session = &mut self.sessions[place];
        if session.wish_ns().is_none_or(|wish_ns| wish_ns > now_ns) {
            return;
        }
        session.stream.begin_filling();
        // Those that play come before those that begin, unless they have longer.
        let deadline_ns = session.stream.runs_dry_ns().unwrap_or(now_ns + FIRST_PATIENCE_NS);
        self.wanting.push(Want { key: session.key, deadline_ns });
    }

    /// Hands buffers that are wanted to the readers, as far as there is memory.
    pub(crate) fn lend(&mut self) {
        self.wanting.sort_unstable_by_key(|want| Reverse(want.deadline_ns));
        while let Some(want) = self.wanting.last().copied() {
            if self.lend_to(want) {
                self.wanting.pop();
            } else if want.urgent_ns() > clock::now_ns() || !self.take_from_stopped() {
                break;
            }
        }
        self.readers.fill(&mut self.fillings);
    }

    /// When those that were stopped lose their memory to who waits for some.
    pub(crate) fn urgent_ns(&self) -> Option<u64> {
        self.wanting.last().filter(|_| !self.stopped.is_empty()).map(Want::urgent_ns)
    }

    /// `false` if there is no memory.
    fn lend_to(&mut self, Want { key, deadline_ns }: Want) -> bool {
        let session = self.sessions.get_mut(key.place).filter(|session| session.key == key);
        let Some(session) = session else { return true };
        let Some(program) = &mut session.program else { return true };
        let depth = session.share.map(|share| self.budget.depth(share, self.settings.buffer_bytes));
        let Depth { mut bytes, mut part_bytes, lead_ns } = depth.unwrap_or_default();
        if session.is_beginning {
            bytes = bytes.min((session.bytes_per_second / FIRST_PARTS).max(FIRST_BYTES_MIN));
            part_bytes = bytes;
        } else {
            bytes = bytes.min(session.asked_bytes.saturating_mul(GROWTH));
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
        self.pool.lend(&mut buffer);
        // The first one is small, and many begin at the same time: who has begun asks for the second one at once.
        session.lead_ns = if session.is_beginning { u64::MAX } else { lead_ns };
        (session.is_beginning, session.asked_bytes) = (false, bytes);
        let (opened, result) = (session.opened.clone(), Ok(Reading::default()));
        self.fillings.push(Filling { key, buffer, opened, deadline_ns, result });
        true
    }

    /// Takes back what a session has no more use for.
    pub(crate) fn give_back(&mut self, place: usize) {
        if let Some(session) = self.sessions.get_mut(place) {
            session.stream.take_over().for_each(|part| self.pool.give_back(part));
        }
    }

    /// Notes who has buffers without need for now.
    pub(crate) fn note_stopped(&mut self, id: SessionId, place: usize) {
        let session = &mut self.sessions[place];
        if !std::mem::replace(&mut session.is_stopped, true) {
            self.stopped.push_back(id);
        }
    }

    /// Takes all buffers of one that was stopped. It has to read them again, if ever it goes on. `false` if nobody has any.
    fn take_from_stopped(&mut self) -> bool {
        while let Some(id) = self.stopped.pop_front() {
            let Some(place) = self.places.get(&id).copied() else { continue };
            let session = &mut self.sessions[place];
            session.is_stopped = false;
            if session.is_idle() && session.stream.memory_bytes() > 0 {
                self.forget_buffers(place);
                return true;
            }
        }
        false
    }

    /// Takes all that a session has buffered, and what is being filled for it, which would come after that.
    pub(crate) fn forget_buffers(&mut self, place: usize) {
        self.last_life += 1;
        let session = &mut self.sessions[place];
        session.stream.empty();
        session.forget_program();
        session.key.life = self.last_life;
        self.give_back(place);
    }

    /// Forgets those of the stopped ones that have ended.
    pub(crate) fn sweep_stopped(&mut self) {
        self.stopped.retain(|id| self.places.contains_key(id));
    }

    /// A session ends: others may have its memory.
    pub(crate) fn give_back_all(&mut self, place: usize) {
        self.sessions[place].stream.empty();
        self.give_back(place);
    }

    /// Somebody's buffer has been filled, who is gone or went on elsewhere.
    pub(crate) fn give_back_filled(&mut self, filled: Filling) {
        filled.buffer.into_parts().into_iter().for_each(|part| self.pool.give_back(part));
    }
}
