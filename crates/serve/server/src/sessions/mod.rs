//! All sessions: where each lies, and the one timer that each has.
//!
//! # Invariant
//!
//! A session has at most one timer that counts. A timer of the wheel counts if its time and its session's life are those
//! that the session has now; both change in this module only. Other timers stay in the wheel until they ring, and are
//! dropped then.

mod session;

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use forebay_rtsp::server::SessionId;
use forebay_streaming::stream::Counts;
use forebay_streaming::wheel::Wheel;
use slab::Slab;

use crate::catalog::Opened;

pub(crate) use session::{Cue, Key, Part, Session, Viewer};

/// A timer that rang: when it was due, and whose it is.
pub(crate) type Timer = (u64, Key);

/// The sessions, each at a place of its own.
pub(crate) struct Sessions {
    all: Slab<Session>,
    places: HashMap<SessionId, usize>,
    wheel: Wheel<Key>,
    last_life: u64,
    /// The sum over sessions that have ended.
    ended: Counts,
}

impl Sessions {
    pub fn new() -> Self {
        Self {
            all: Slab::new(),
            places: HashMap::new(),
            wheel: Wheel::default(),
            last_life: 0,
            ended: Counts::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.all.iter().map(|(_, session)| session)
    }

    pub fn ids(&self) -> Vec<SessionId> {
        self.places.keys().copied().collect()
    }

    pub fn place(&self, id: SessionId) -> Option<usize> {
        self.places.get(&id).copied()
    }

    pub fn get(&self, place: usize) -> Option<&Session> {
        self.all.get(place)
    }

    /// The session in the part of its life that `key` means.
    pub fn of(&mut self, key: Key) -> Option<&mut Session> {
        self.all.get_mut(key.place).filter(|session| session.key == key)
    }

    /// What all sessions did, including those that have ended.
    pub fn counts(&self) -> Counts {
        let mut sum = self.ended;
        self.iter().for_each(|session| sum.add(session.stream.counts()));
        sum
    }

    /// Returns the place of the new session.
    pub fn insert(&mut self, id: SessionId, client: IpAddr, opened: Arc<Opened>, buffers: usize) -> usize {
        let life = self.next_life();
        let entry = self.all.vacant_entry();
        let key = Key { place: entry.key(), life };
        self.places.insert(id, key.place);
        entry.insert(Session::new(id, key, client, opened, buffers));
        key.place
    }

    /// Removes the session at a place; its counts remain.
    pub fn remove(&mut self, place: usize) -> Session {
        let session = self.all.remove(place);
        self.places.remove(&session.id);
        self.ended.add(session.stream.counts());
        session
    }

    /// Begins another part of a session's life: its timer, the buffers that are being filled for it, and what it waited for count
    /// no more.
    pub fn begin_life(&mut self, place: usize) {
        let life = self.next_life();
        let session = &mut self.all[place];
        (session.key.life, session.timer_ns, session.waits_until_ns) = (life, None, 0);
    }

    fn next_life(&mut self) -> u64 {
        self.last_life += 1;
        self.last_life
    }

    /// Sets a session's timer to when it is to be looked at again, as things stand.
    pub fn set_timer(&mut self, place: usize) {
        let session = &mut self.all[place];
        let due_ns = session.due_ns();
        if let Some(due_ns) = due_ns.filter(|due_ns| session.timer_ns != Some(*due_ns)) {
            self.wheel.set(due_ns, session.key);
        }
        session.timer_ns = due_ns;
    }

    /// When the next timer rings.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.wheel.next_due_ns()
    }

    /// Moves the timers that are due to the end of `due`.
    pub fn pop_due(&mut self, now_ns: u64, due: &mut Vec<Timer>) {
        self.wheel.pop_due(now_ns, due);
    }

    /// The place of the session whose timer rang, if that timer counts; after that the session has none.
    pub fn take_timer(&mut self, (due_ns, key): Timer) -> Option<usize> {
        let session = self.of(key).filter(|session| session.timer_ns == Some(due_ns))?;
        session.timer_ns = None;
        Some(key.place)
    }
}

impl Index<usize> for Sessions {
    type Output = Session;

    fn index(&self, place: usize) -> &Session {
        &self.all[place]
    }
}

impl IndexMut<usize> for Sessions {
    fn index_mut(&mut self, place: usize) -> &mut Session {
        &mut self.all[place]
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Catalog;
    use crate::rig::FRAME;

    /// What may happen to a session.
    #[derive(Clone, Copy, Debug)]
    enum Change {
        SetTimer(u64),
        BeginLife,
        Pass(u64),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (1..50_u64).prop_map(|ms| Change::SetTimer(ms * 1_000_000)),
            Just(Change::BeginLife),
            (1..20_u64).prop_map(|ms| Change::Pass(ms * 1_000_000)),
        ]
    }

    proptest! {
        #[test]
        fn a_session_has_at_most_one_timer_and_it_rings_when_it_was_set_to(
            changes in prop::collection::vec(change(), 1..60)
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join("a.aac"), FRAME.repeat(10)).expect("a file");
            let opened = Catalog::of(folder.path(), 10).open("a.aac", "");
            let opened = opened.unwrap_or_else(|failure| panic!("{}", failure.sentence));
            let mut sessions = Sessions::new();
            let place = sessions.insert(SessionId(1), Ipv4Addr::LOCALHOST.into(), opened, 2);
            let (mut now_ns, mut expected) = (1_000_000_000, None);
            for change in changes {
                match change {
                    Change::SetTimer(after_ns) => {
                        sessions[place].report_ns = Some(now_ns + after_ns);
                        sessions.set_timer(place);
                        expected = Some(now_ns + after_ns);
                    }
                    Change::BeginLife => {
                        sessions.begin_life(place);
                        expected = None;
                    }
                    Change::Pass(ns) => {
                        now_ns += ns;
                        let mut due = Vec::new();
                        sessions.pop_due(now_ns, &mut due);
                        let rang = due.into_iter().filter_map(|timer| sessions.take_timer(timer)).count();
                        let is_due = expected.is_some_and(|due_ns| due_ns <= now_ns);
                        prop_assert_eq!(rang, usize::from(is_due));
                        expected = expected.filter(|_| !is_due);
                    }
                }
            }
        }
    }
}
