//! The steps of a replay, handed out as jobs.

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::Ordering::{Acquire, Relaxed, SeqCst},
    },
    thread,
};

use forebay_policy::replay::Pace;
use forebay_protocol::layout::{GO, LEASES_UNKNOWN, replay};

use super::{
    Done, Expected, Fetch, Job, Origin, Wanted,
    fetch::CHUNK_BYTES,
    folders::{Entry, Folders},
    follow::Reach,
    opened::Open,
    wake,
};
use crate::{channel::Channel, devices::Ticket};

/// Jobs of replays come after all hints.
const NUMBER_FIRST: u64 = 1 << 63;

/// A replay.
#[derive(Clone)]
pub struct Replay(Arc<Inner>);

struct Inner {
    channel: Arc<Channel>,
    steps: Vec<Fetch>,
    /// Whether each step is the first one that brings data of its file, and may open that for the program.
    may_open: Vec<bool>,
    progress: Mutex<Progress>,
    reach: Reach,
}

struct Progress {
    pace: Pace,
    /// Steps whose turn has come, and that must wait.
    postponed: VecDeque<usize>,
    folders: Folders<usize>,
    /// Steps whose folders have been opened since their turn came.
    released: BTreeSet<usize>,
    /// Steps that have been taken, and are neither done nor given up.
    under_way: usize,
}

/// What to do next.
struct Turn {
    step: usize,
    /// Or its file is only looked up.
    is_whole: bool,
}

impl Replay {
    /// Of these steps, in this order, at the pace that suits their number, within `reach`.
    pub fn new(channel: Arc<Channel>, steps: Vec<Fetch>, pace: fn(usize) -> Pace, reach: Reach) -> Self {
        let steps: Vec<Fetch> = steps.into_iter().flat_map(in_chunks).collect();
        let mut seen = HashSet::new();
        let may_open =
            steps.iter().map(|step| matches!(step.wanted, Wanted::Data { .. }) && seen.insert(&step.path));
        let may_open = may_open.collect();
        let progress = Progress {
            pace: pace(steps.len()),
            postponed: VecDeque::new(),
            folders: Folders::default(),
            released: BTreeSet::new(),
            under_way: 0,
        };
        let figures = &channel.header().replay;
        figures.steps.store(steps.len() as u64, Relaxed);
        let state = if steps.is_empty() { replay::OVER } else { replay::ON };
        // The program may have stopped it already.
        let _ = figures.state.fetch_update(SeqCst, Relaxed, |now| (now != replay::STOPPED).then_some(state));
        Self(Arc::new(Inner { channel, steps, may_open, progress: Mutex::new(progress), reach }))
    }

    /// The next step.
    pub fn take(&self) -> Option<Job> {
        if !self.0.is_on() {
            return None;
        }
        let mut progress = self.0.progress();
        let Turn { step, is_whole } = progress.next(&self.0)?;
        // An agent that stops the replay waits for what is under way then.
        let figures = &self.0.channel.header().replay;
        figures.under_way.fetch_add(1, SeqCst);
        if !self.0.is_on() {
            figures.under_way.fetch_sub(1, SeqCst);
            if is_whole {
                progress.postponed.push_front(step);
            }
            return None;
        }
        progress.under_way += 1;
        drop(progress);
        let (inner, fetch) = (self.0.clone(), &self.0.steps[step]);
        Some(Job {
            origin: Origin::Replay { step, is_whole },
            number: NUMBER_FIRST + step as u64,
            wanted: if is_whole { fetch.wanted.clone() } else { Wanted::LookUp { follow: true } },
            path: fetch.path.clone(),
            open: if is_whole && self.0.may_open[step] {
                Open::of_replay(&self.0.channel, &fetch.path)
            } else {
                None
            },
            ticket: Ticket::new(move || inner.leave(step)),
        })
    }

    /// Whether there is one.
    pub fn has_ready(&self) -> bool {
        self.0.is_on() && self.0.progress().may_have_next(&self.0)
    }

    /// A step is done, or a file is looked up whose step must wait. The ticket is told after this.
    pub fn on_done(&self, step: usize, is_whole: bool, done: Done) {
        let figures = &self.0.channel.header().replay;
        figures.done.fetch_add(is_whole.into(), Relaxed);
        figures.waited.fetch_add(done.waited.is_some().into(), Relaxed);
        figures.changed.fetch_add(done.is_changed.into(), Relaxed);
        figures.bytes.fetch_add(done.bytes, Relaxed);
        figures.under_way.fetch_sub(1, SeqCst);
        let waited_us =
            done.waited.map_or(0, |waited| u32::try_from(waited.as_micros()).unwrap_or(u32::MAX).max(1));
        let pace = &mut self.0.progress().pace;
        if is_whole {
            pace.on_done(step, waited_us, is_look_up(&self.0.steps[step]))
        } else {
            pace.on_part_done(step, waited_us)
        }
        if done.is_remote && self.0.reach.on_remote() {
            let inner = self.0.clone();
            let builder = thread::Builder::new().name("forebay:hints".into());
            // Without it the replay goes ahead of what the kernel keeps.
            let _ = builder.spawn(move || inner.reach.follow(&inner.channel, &inner.steps, || inner.is_on()));
        }
    }
}

impl Progress {
    /// The next step. Of one that may not be taken the file is looked up, and the rest is postponed: the kernel takes several
    /// milliseconds to tell of leases, and look-ups need not wait for that. Of one that opens its folder, the rest is not to keep
    /// the others waiting.
    fn next(&mut self, replay: &Inner) -> Option<Turn> {
        if self.postponed.front().is_some_and(|step| replay.may_take(*step)) {
            return self.postponed.pop_front().map(|step| Turn { step, is_whole: true });
        }
        loop {
            let step = self.released.pop_first().or_else(|| self.next_of_pace(replay))?;
            let fetch = &replay.steps[step];
            let may_take = replay.may_take(step);
            match self.folders.enter(&fetch.path, step as u64, step) {
                Entry::Held => continue,
                Entry::Opens(step) if may_take && !is_look_up(fetch) => {
                    self.folders.hold(&fetch.path, step);
                    return Some(Turn { step, is_whole: false });
                }
                Entry::Free(_) | Entry::Opens(_) => {}
            }
            if !may_take {
                self.postponed.push_back(step);
            }
            return Some(Turn { step, is_whole: may_take });
        }
    }

    fn next_of_pace(&mut self, replay: &Inner) -> Option<usize> {
        let step = self.pace.next().filter(|step| replay.may_reach(*step))?;
        self.pace.take(|step| replay.steps.get(step).is_some_and(is_look_up));
        Some(step)
    }

    /// Whether [`Self::next`] may have one.
    fn may_have_next(&self, replay: &Inner) -> bool {
        self.postponed.front().is_some_and(|step| replay.may_take(*step))
            || !self.released.is_empty()
            || self.pace.next().is_some_and(|step| replay.may_reach(step))
    }

    fn is_over(&self) -> bool {
        self.under_way == 0
            && self.postponed.is_empty()
            && self.released.is_empty()
            && self.pace.next().is_none()
    }
}

impl Inner {
    fn is_on(&self) -> bool {
        self.channel.header().replay.state.load(SeqCst) == replay::ON
            && self.channel.header().control.load(Relaxed) == GO
    }

    /// No file is opened while a lease may exist that this would break.
    fn may_take(&self, step: usize) -> bool {
        is_look_up(&self.steps[step]) || self.channel.header().leases.load(Acquire) != LEASES_UNKNOWN
    }

    fn may_reach(&self, step: usize) -> bool {
        self.reach.has(&self.steps[step])
    }

    /// A step is done, or takes too long to be waited for.
    fn leave(&self, step: usize) {
        let mut progress = self.progress();
        progress.under_way -= 1;
        let released = progress.folders.leave(&self.steps[step].path, step as u64);
        let has_released = !released.is_empty();
        progress.released.extend(released);
        let is_over = progress.is_over();
        drop(progress);
        if has_released {
            wake(&self.channel);
        }
        if is_over {
            let state = &self.channel.header().replay.state;
            // It may have been stopped.
            let _ = state.compare_exchange(replay::ON, replay::OVER, Relaxed, Relaxed);
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the step opens no file.
const fn is_look_up(step: &Fetch) -> bool {
    matches!(step.wanted, Wanted::LookUp { .. } | Wanted::Link)
}

/// A step for each piece that the kernel takes whole, so that the pieces of a large file are under way at the same time.
pub(super) fn in_chunks(fetch: Fetch) -> Vec<Fetch> {
    let Wanted::Data { offset: first, length, expected } = fetch.wanted else { return vec![fetch] };
    let end = first.saturating_add(length);
    let chunk = |offset: u64| {
        let expected = expected.map(|expected| Expected {
            beginning_if_changed: expected.beginning_if_changed && offset == first,
            ..expected
        });
        let wanted = Wanted::Data { offset, length: CHUNK_BYTES.min(end - offset), expected };
        Fetch { path: fetch.path.clone(), wanted, at_us: fetch.at_us }
    };
    std::iter::successors(Some(first), |offset| offset.checked_add(CHUNK_BYTES))
        .take_while(|offset| *offset < end)
        .map(chunk)
        .collect()
}
