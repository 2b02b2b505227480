//! Calls that hosts make together and in which they wait in vain, since hosts wait for each other in calls of different teams.
//!
//! A host that has waited for a while says in a row of shared memory, its own, in which call it waits. Then it reads the rows of
//! all hosts now and then. A call ends when all its hosts have come. So hosts that wait for each other in different calls wait
//! for ever, and so do all that wait for one of those, or for a host that leaves.
//!
//! Each host finds that by itself, and gives the others the time to find it before it fails. The rows stay as they are then, and
//! the host fails in each later call: others count on it in calls that it missed.
//!
//! A host whose call was interrupted fails in each later call too, for the same reason.
//!
//! A host whose threads make such calls side by side may yet come by another thread. So no host waits in vain for that one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use forebay_coherence::HostId;
use rustix::thread::gettid;

use crate::{Error, host::Shared, interrupt::is_interrupted, shared::Row};

/// How long a host waits before it says so and looks, and between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// Between two looks whether the call is interrupted.
const INTERRUPTS: Duration = Duration::from_millis(100);
/// How long a host that has found that it waits in vain leaves the others to find it: several looks.
const HOLD: Duration = Duration::from_secs(3);

/// What the barrier of all hosts is called in a row. Teams have the numbers from 1 on, alike on all hosts.
pub const ALL: u64 = 0;
const LEAVE: u64 = u64::MAX;

/// The words of a row: how often the host has begun and ended to wait, which is odd while it waits; in which call, and in which
/// round of that; how many barriers it has passed; whether several of its threads make calls; and the text of the call.
const TURN: usize = 0;
const CALL: usize = 1;
const ROUND: usize = 2;
const PASSED: usize = 3;
const SEVERAL: usize = 4;
const BYTES: usize = 5;
const TEXT: usize = 6;
const TEXT_BYTES: usize = 120;
/// Words of a row.
pub const WORDS: usize = TEXT + TEXT_BYTES / 8;

thread_local! {
    static THREAD: u32 = gettid().as_raw_nonzero().get().cast_unsigned();
}

/// What a host knows of the calls that hosts make together.
#[derive(Default)]
pub struct Together {
    /// Those of all hosts, from the first team on.
    rows: OnceLock<Vec<Row<u64>>>,
    teams: Mutex<Vec<Members>>,
    /// Barriers that this host has passed since it has rows.
    passed: AtomicU64,
    /// The thread that makes such calls, or 0, and whether there are several.
    caller: AtomicU32,
    are_several: AtomicBool,
    /// The call in which this host has waited in vain, and what another host called.
    failed: OnceLock<(String, String)>,
}

/// The members of a team, and the round in which they are.
struct Members {
    hosts: Vec<u16>,
    round: Box<dyn Fn() -> u64 + Send>,
}

/// What a host says of itself.
#[derive(Clone, Copy)]
struct Said {
    turn: u64,
    call: u64,
    round: u64,
    passed: u64,
    are_several: bool,
}

impl Said {
    /// Whether the host comes to no other call before this one ends.
    const fn is_final(&self) -> bool {
        !self.are_several || self.call == LEAVE
    }
}

impl Together {
    /// Whether there are rows.
    pub fn has_rows(&self) -> bool {
        self.rows.get().is_some()
    }

    /// Gives it rows, one for each host. All hosts call this between the same barriers.
    pub fn set_rows(&self, rows: Vec<Row<u64>>) {
        let _ = self.rows.set(rows);
    }

    /// Notes a team, and where its `round` is told. All hosts call this in the same order. The number of the team.
    pub fn add_team(&self, hosts: Vec<u16>, round: impl Fn() -> u64 + Send + 'static) -> u64 {
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        teams.push(Members { hosts, round: Box::new(round) });
        teams.len() as u64
    }

    /// All hosts have arrived at a barrier.
    pub fn note_passed(&self) {
        if self.has_rows() {
            self.passed.fetch_add(1, SeqCst);
        }
    }

    /// The round of the next barrier.
    pub fn next_barrier(&self) -> u64 {
        self.passed.load(SeqCst) + 1
    }

    /// Notes which thread of host `host` makes a call.
    fn note_caller(&self, host: HostId) {
        let me = THREAD.with(|me| *me);
        let before = self.caller.compare_exchange(0, me, SeqCst, SeqCst);
        if before.is_err_and(|other| other != me) && !self.are_several.swap(true, SeqCst) {
            // The other thread may have said that it waits.
            self.rows.get().into_iter().for_each(|rows| rows[host.index()].atomic(SEVERAL).store(1, SeqCst));
        }
    }

    fn say(&self, row: &Row<u64>, call: u64, round: u64, text: &str) {
        let text = shortened(text).as_bytes();
        let words =
            [call, round, self.passed.load(SeqCst), self.are_several.load(SeqCst).into(), text.len() as u64];
        words.into_iter().zip(CALL..).for_each(|(word, column)| row.atomic(column).store(word, SeqCst));
        for (part, column) in text.chunks(8).zip(TEXT..) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            row.atomic(column).store(u64::from_le_bytes(word), SeqCst);
        }
        let turn = row.atomic(TURN);
        turn.store(turn.load(SeqCst) | 1, SeqCst);
    }

    fn unsay(row: &Row<u64>) {
        let turn = row.atomic(TURN);
        turn.store((turn.load(SeqCst) | 1) + 1, SeqCst);
    }
}

/// What a host waits in, if it does.
fn said(row: &Row<u64>) -> Option<Said> {
    let word = |column| row.atomic(column).load(SeqCst);
    let turn = word(TURN);
    let (call, round, passed) = (word(CALL), word(ROUND), word(PASSED));
    let said = Said { turn, call, round, passed, are_several: word(SEVERAL) != 0 };
    (turn % 2 == 1 && word(TURN) == turn).then_some(said)
}

fn text(row: &Row<u64>) -> String {
    let bytes = (row.atomic(BYTES).load(SeqCst) as usize).min(TEXT_BYTES);
    let all: Vec<u8> =
        (TEXT..WORDS).flat_map(|column| row.atomic(column).load(SeqCst).to_le_bytes()).collect();
    String::from_utf8_lossy(&all[..bytes]).into_owned()
}

/// As much of a text as there is room for.
fn shortened(call: &str) -> &str {
    let mut ends = (0..=call.len().min(TEXT_BYTES)).rev();
    let end = ends.find(|end| call.is_char_boundary(*end)).unwrap_or(0);
    &call[..end]
}

/// A call that waits.
pub struct Waiting<'a> {
    shared: &'a Shared,
    call: u64,
    round: u64,
    text: &'a str,
    has_said: bool,
    look: Instant,
    interrupts: Instant,
    is_interrupted: bool,
    /// The hosts that were found to wait in vain, and the turns in which they did.
    suspected: BTreeMap<u16, u64>,
    /// What another host called, and when this one is to fail.
    found: Option<(String, Instant)>,
}

impl Shared {
    /// A call that may wait, of a team or of [`ALL`].
    ///
    /// # Errors
    /// This host has waited in vain.
    pub(crate) fn waiting<'a>(&'a self, call: u64, text: &'a str) -> Result<Waiting<'a>, Error> {
        if let Some((call, other)) = self.together().failed.get() {
            return Err(self.disagreement(call).beside(Some(other.clone())));
        }
        self.together().note_caller(self.me());
        let now = Instant::now();
        Ok(Waiting {
            shared: self,
            call,
            round: 0,
            text,
            has_said: false,
            look: now + LOOK,
            interrupts: now + INTERRUPTS,
            is_interrupted: false,
            suspected: BTreeMap::new(),
            found: None,
        })
    }

    /// Tells all hosts that this one leaves, and comes to no call.
    pub(crate) fn say_leaving(&self) {
        if let Some(rows) = self.together().rows.get().filter(|_| self.board().loss().is_none()) {
            self.together().say(&rows[self.me().index()], LEAVE, 0, "leave()");
        }
    }
}

impl Waiting<'_> {
    /// It waits from now on, in this round.
    pub const fn begin(&mut self, round: u64) {
        self.round = round;
    }

    /// Whether the call is to end now, because it waits in vain.
    pub fn is_in_vain(&mut self) -> bool {
        let now = Instant::now();
        if let Some((_, end)) = &self.found {
            return now >= *end || self.shared.board().loss().is_some();
        }
        if now >= self.interrupts {
            self.interrupts = now + INTERRUPTS;
            self.is_interrupted = is_interrupted();
            if self.is_interrupted {
                return true;
            }
        }
        let Some(rows) = self.shared.together().rows.get().filter(|_| now >= self.look) else { return false };
        self.look = now + LOOK;
        if !self.has_said {
            self.has_said = true;
            self.shared.together().say(&rows[self.shared.me().index()], self.call, self.round, self.text);
        }
        let Some((hosts, other)) = self.search(rows) else {
            self.suspected.clear();
            return false;
        };
        // In between, all of them waited at the same time.
        let are_same = |(host, turn)| hosts.get(host) == Some(turn);
        if !self.suspected.is_empty() && self.suspected.iter().all(are_same) {
            let other = format!("host {other} called {}", text(&rows[usize::from(other)]));
            self.found = Some((other, now + HOLD));
        }
        self.suspected = hosts;
        false
    }

    /// Hosts that wait in vain, in which turns, and one in another call that this one waits for; if this one is among them.
    fn search(&self, rows: &[Row<u64>]) -> Option<(BTreeMap<u16, u64>, u16)> {
        let teams = self.shared.together().teams.lock().unwrap_or_else(PoisonError::into_inner);
        let team = |call: u64| teams.get((call as usize).wrapping_sub(1));
        let mut waiting: BTreeMap<u16, Said> =
            rows.iter().zip(0..).filter_map(|(row, host)| Some((host, said(row)?))).collect();
        // Some have yet to see that their call has ended.
        let passed = waiting.values().map(|said| said.passed).max().unwrap_or(0);
        waiting.retain(|_, said| match (said.call, team(said.call)) {
            (ALL, _) => said.round > passed,
            (_, Some(team)) => said.round == (team.round)(),
            (call, None) => call == LEAVE,
        });
        let blocker = |call: u64, calls: &BTreeSet<u64>| {
            let is_elsewhere =
                |said: &Said| said.is_final() && said.call != call && calls.contains(&said.call);
            let is_blocker = |host: &u16| waiting.get(host).is_some_and(is_elsewhere);
            match team(call) {
                Some(team) => team.hosts.iter().copied().find(is_blocker),
                None => (0..rows.len() as u16).find(is_blocker),
            }
        };
        let mut calls: BTreeSet<u64> = waiting.values().map(|said| said.call).collect();
        calls.insert(self.call);
        let mut before = usize::MAX;
        while calls.len() < before {
            before = calls.len();
            let all = calls.clone();
            calls.retain(|call| *call == LEAVE || blocker(*call, &all).is_some());
        }
        let other = blocker(self.call, &calls).filter(|_| calls.contains(&self.call))?;
        let stuck = waiting.iter().filter(|(_, said)| calls.contains(&said.call));
        Some((stuck.map(|(host, said)| (*host, said.turn)).collect(), other))
    }

    /// The call was interrupted.
    pub const fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// What the call fails with, if it has waited in vain or was interrupted.
    pub fn failure(&mut self) -> Option<Error> {
        let fail = |other| _ = self.shared.together().failed.set((self.text.to_owned(), other));
        if self.is_interrupted {
            fail("this call was interrupted".to_owned());
            return Some(Error::Interrupted);
        }
        let (other, _) = self.found.take()?;
        self.has_said = false;
        fail(other.clone());
        // A host that is lost meanwhile is a consequence.
        self.shared.told.store(true, Relaxed);
        Some(self.shared.disagreement(self.text).beside(Some(other)))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let rows = self.shared.together().rows.get().filter(|_| self.has_said);
        if let Some(rows) = rows {
            Together::unsay(&rows[self.shared.me().index()]);
        }
    }
}
