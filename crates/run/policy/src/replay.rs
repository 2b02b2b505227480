//! Which steps of a replay are carried out: all of them where the data is not in memory, and few where it is.
//!
//! # Model
//!
//! A replay is a list of steps, first needs first. A step *waits* where a device is asked, and the program is spared that wait. A
//! step costs [`REPLAY_STEP_US`] of processor time. The difference of both, over the last steps, is the *credit*, between 0 and
//! [`REPLAY_CREDIT_US_MAX`]. The first [`REPLAYED_FIRST`] steps are carried out in any case.
//!
//! * While there is credit, all steps are carried out, in order, but for some names (below).
//! * Without credit, samples are carried out, one at a time. They lie [`REPLAY_APART`] steps apart at least, and one part in as many
//!   of what has been passed over since the last wait. The steps before a sample that did not wait are taken to be in memory, and
//!   those before one that did are carried out.
//!
//! Names of which few wait have their inodes in the blocks of others. Of such names one in up to [`REPLAY_APART`] is looked up, so that one
//! look-up in two to four waits. Where eight wait in a row, names of another kind begin, and those passed over since then are looked up.
//!
//! So a replay whose data is in memory carries out ever fewer of its steps: of 10,000 a hundred. What is not in memory amid that is found
//! if it is a sixteenth as long as what was in memory before. What waits seldom is carried out in
//! order as long as the waits are worth it. Steps for nothing never cost more than the waits that were spared, and
//! [`REPLAY_CREDIT_US_MAX`].

use crate::lookahead::near;
use crate::price::{
    REMOTE_KEPT_MS, REPLAY_APART, REPLAY_CREDIT_US_MAX, REPLAY_NAMES, REPLAY_OTHERS_MAX, REPLAY_SILENT_US,
    REPLAY_STEP_US, REPLAYED_FIRST,
};

/// Where a replay is.
#[derive(Clone, Debug)]
pub struct Pace {
    steps: usize,
    /// Steps that are carried out in any case.
    first: usize,
    /// The next step in order.
    next: usize,
    /// The next sample.
    sample: usize,
    /// The sample that is being carried out.
    sampled: Option<usize>,
    /// The step behind the last one that waited.
    waited: usize,
    credit_us: u32,
    /// Of names in order, one in so many is looked up.
    stride: usize,
    /// Names that were looked up since that was last judged, and how many waited.
    names: [u32; 2],
    /// How many waited in a row, and the first of these.
    row: (u32, usize),
    /// Up to here no step is carried out a third time.
    again: usize,
}

impl Pace {
    /// Of so many steps.
    #[must_use]
    pub const fn new(steps: usize) -> Self {
        Self { steps, first: REPLAYED_FIRST, ..Self::of_all(steps) }
    }

    /// Of so many steps, all of which are carried out.
    #[must_use]
    pub const fn of_all(steps: usize) -> Self {
        Self {
            steps,
            first: steps,
            next: 0,
            sample: REPLAYED_FIRST,
            sampled: None,
            waited: 0,
            credit_us: 0,
            stride: 1,
            names: [0; 2],
            row: (0, 0),
            again: 0,
        }
    }

    /// The step to carry out next, where these steps only look a name up. `None` where there is none for now.
    pub fn take(&mut self, is_name: impl Fn(usize) -> bool) -> Option<usize> {
        let in_order = self.is_in_order();
        let step = if in_order { self.next } else { self.sample.max(self.next) };
        if step >= self.steps || !in_order && self.sampled.is_some() {
            return None;
        }
        self.credit_us = self.credit_us.saturating_sub(REPLAY_STEP_US);
        if in_order {
            let pass_over = 1..if step < self.first || !is_name(step) { 1 } else { self.stride };
            self.next = step + 1 + pass_over.take_while(|more| is_name(step + more)).count();
        } else {
            self.sample = step + REPLAY_APART.max(step.saturating_sub(self.waited) / REPLAY_APART);
            self.sampled = Some(step);
        }
        Some(step)
    }

    /// Whether the next step is the next one in order, and no sample.
    #[must_use]
    pub const fn is_in_order(&self) -> bool {
        self.next < self.first || self.is_needed()
    }

    /// A step is done, which only looked a name up or did not. It has waited so many microseconds for a device, or 0 if none was asked.
    pub fn on_done(&mut self, step: usize, waited_us: u32, is_name: bool) {
        self.on_part_done(step, waited_us);
        if is_name {
            self.on_name(step, waited_us > 0);
        }
        if waited_us == 0 && step >= self.first && !self.is_needed() {
            self.next = self.next.max(step + 1);
        }
    }

    /// A part of a step is done, which waited so long. If it did not wait, that tells nothing of the steps before.
    pub fn on_part_done(&mut self, step: usize, waited_us: u32) {
        self.sampled = self.sampled.filter(|sampled| *sampled != step);
        if waited_us > 0 {
            self.waited = self.waited.max(step + 1);
        }
        self.credit_us = self.credit_us.saturating_add(waited_us).min(REPLAY_CREDIT_US_MAX);
    }

    /// Names whose inodes lie in the same blocks need one look-up: that of the others is the program's, and takes it no longer. So one
    /// look-up in two to four is to wait. Where all wait in a row, other names begin there, and those that were passed over are taken.
    fn on_name(&mut self, step: usize, has_waited: bool) {
        let [looked, waited] = &mut self.names;
        (*looked, *waited) = (*looked + 1, *waited + u32::from(has_waited));
        self.row = match self.row {
            _ if !has_waited => (0, 0),
            (0, _) => (1, step),
            (count, first) => (count + 1, first.min(step)),
        };
        if self.stride > 1 && self.row.0 >= REPLAY_NAMES / 2 {
            let reached = self.again.max(self.next);
            self.next = self.next.min((self.row.1 + 1).max(self.again));
            (self.again, self.stride) = (reached, 1);
        } else if *looked < REPLAY_NAMES {
            return;
        } else if *waited < REPLAY_NAMES / 4 {
            self.stride = (self.stride * 2).min(REPLAY_APART);
        } else if *waited > REPLAY_NAMES / 2 {
            self.stride = (self.stride / 2).max(1);
        }
        self.names = [0; 2];
    }

    /// Whether all steps are to be carried out.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.credit_us > 0
    }

    /// What [`Self::take`] would take now.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        self.clone().take(|_| false)
    }
}

/// Where a program is in the recorded run that is replayed. All times are in microseconds since the start of a run.
///
/// The kernel soon forgets the names of a remote file system. A replay there keeps so near that the program follows in time
/// ([`near`]). A program that needs nothing new is taken to go on as before, and one that has needed nothing yet is at the beginning.
/// After two seconds it is not followed, because it may run where nothing is recorded.
///
/// A program that takes files which the replay has opened must come to them while they are open. A replay goes half as far for it.
#[derive(Clone, Debug)]
pub struct Follower {
    /// When the recorded run had the last needs.
    last: [u64; LAST],
    /// How far the program has come, as a time of the recorded run.
    reached: u64,
    /// Needs since then that were not foretold.
    others: u32,
    /// When the program last needed something, or it began to be followed.
    heard: u64,
    /// Whether it has needed something.
    has_begun: bool,
    /// Times, and how far the program had come.
    marks: [(u64, u64); 2],
}

/// A program has come as far as most of so many needs, because some come much sooner than they were foretold.
const LAST: usize = 9;
/// For so long the kernel keeps names.
const KEPT_US: u64 = REMOTE_KEPT_MS * 1000;

impl Follower {
    /// From now on.
    #[must_use]
    pub const fn new(now: u64) -> Self {
        Self { last: [0; LAST], reached: 0, others: 0, heard: now, has_begun: false, marks: [(now, 0); 2] }
    }

    /// The program needed something for the first time, which the recorded run did at the time `foretold`, or never.
    pub fn on_need(&mut self, at: u64, foretold: Option<u64>) {
        (self.heard, self.has_begun) = (self.heard.max(at), true);
        let Some(foretold) = foretold else {
            self.others = self.others.saturating_add(1);
            return;
        };
        self.others = 0;
        self.last.rotate_left(1);
        self.last[LAST - 1] = foretold;
        let mut sorted = self.last;
        sorted.sort_unstable();
        self.reached = self.reached.max(sorted[LAST / 2]);
        let [_, newer] = self.marks;
        if at.saturating_sub(newer.0) >= KEPT_US / 2 {
            self.marks = [newer, (at, self.reached)];
        }
    }

    /// Whether it needs other things than were foretold.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.others >= REPLAY_OTHERS_MAX
    }

    /// Up to which time of the recorded run its needs may be met now, where the program takes files or not. `None` where all may be. The
    /// program is taken to be as fast as that run until its own speed is known.
    #[must_use]
    pub fn end(&self, now: u64, takes_files: bool) -> Option<u64> {
        let kept = if takes_files { KEPT_US / 2 } else { KEPT_US };
        let [(since, before), _] = self.marks;
        let elapsed = now.saturating_sub(since).max(KEPT_US / 2);
        let silent = now.saturating_sub(self.heard);
        let kept = kept + if self.has_begun { silent } else { 0 };
        let least = if before > 0 { 0 } else { kept };
        let ahead = near(self.reached - before, elapsed, kept).max(least);
        (silent < REPLAY_SILENT_US).then(|| self.reached.saturating_add(ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet, VecDeque};
    use std::vec::Vec;

    const WAIT_US: u32 = 1_000;

    /// Carries a replay out with so many steps under way. How often each step was done.
    fn replay(steps: usize, depth: usize, wait_us: impl Fn(usize) -> u32) -> BTreeMap<usize, u32> {
        let mut pace = Pace::new(steps);
        let (mut under_way, mut done) = (VecDeque::new(), BTreeMap::new());
        loop {
            while under_way.len() < depth
                && let Some(step) = pace.take(|_| false)
            {
                assert!(step < steps);
                under_way.push_back(step);
            }
            let Some(step) = under_way.pop_front() else { return done };
            pace.on_done(step, wait_us(step), false);
            *done.entry(step).or_default() += 1;
        }
    }

    /// Where these steps wait.
    fn waits(is_cold: impl Fn(usize) -> bool) -> impl Fn(usize) -> u32 {
        move |step| if is_cold(step) { WAIT_US } else { 0 }
    }

    #[test]
    fn where_all_waits_every_step_is_carried_out_once_and_in_order_but_for_samples() {
        for depth in [1, 3, 64] {
            let done = replay(10_000, depth, |_| WAIT_US);
            assert_eq!(done.len(), 10_000, "{depth}");
            let twice = done.values().filter(|times| **times > 1).count();
            assert!(twice <= depth, "{depth}: {twice}");
        }
    }

    #[test]
    fn where_nothing_waits_few_steps_are_carried_out() {
        for steps in [0, 1, REPLAYED_FIRST, REPLAYED_FIRST + 1] {
            assert_eq!(replay(steps, 64, |_| 0).len(), steps);
        }
        for (steps, most) in [(1_000, 72), (10_000, 110), (1_000_000, 190)] {
            let done = replay(steps, 64, |_| 0).len();
            assert!((most / 2..=most).contains(&done), "{steps}: {done}");
        }
    }

    /// Looks names up, each of which lies in a block. How many look-ups are made, and which blocks are read.
    fn look_up(names: usize, block: impl Fn(usize) -> usize) -> (usize, BTreeSet<usize>) {
        let mut pace = Pace::new(names);
        let (mut under_way, mut done, mut read) = (VecDeque::new(), 0, BTreeSet::new());
        loop {
            while under_way.len() < 32
                && let Some(step) = pace.take(|step| step < names)
            {
                under_way.push_back(step);
            }
            let Some(step) = under_way.pop_front() else { return (done, read) };
            let is_first = read.insert(block(step));
            pace.on_done(step, if is_first { WAIT_US } else { 0 }, true);
            done += 1;
        }
    }

    #[test]
    fn of_names_whose_inodes_lie_in_few_blocks_some_are_looked_up() {
        for (in_block, most) in [(1, 10_100), (2, 10_100), (16, 6_000), (64, 2_000), (1_000, 900)] {
            let (done, read) = look_up(10_000, |name| name / in_block);
            let missed = 10_000_usize.div_ceil(in_block) - read.len();
            assert!(done < most && missed <= 100 / in_block, "{in_block}: {done}, {missed}");
        }
    }

    /// A local file system, and one on which each look-up is a request.
    #[test]
    fn names_that_wait_behind_others_that_did_not_are_all_looked_up() {
        let (_, read) = look_up(10_000, |name| if name < 5_000 { name / 64 } else { name });
        let found = read.range(5_000..).count();
        assert!(found >= 5_000 - REPLAY_APART, "{found}");
    }

    #[test]
    fn where_all_steps_are_wanted_each_is_carried_out_once() {
        let mut pace = Pace::of_all(500);
        let mut taken = Vec::new();
        while let Some(step) = pace.take(|_| true) {
            taken.push(step);
            pace.on_done(step, if step % 3 == 0 { WAIT_US } else { 0 }, true);
        }
        assert_eq!(taken, (0..500).collect::<Vec<_>>());
        assert_eq!(pace.next(), None);
    }

    #[test]
    fn what_is_in_memory_at_the_end_hides_nothing_before_it() {
        let is_cold = |step: usize| (40..600).contains(&step);
        let done = replay(700, 128, waits(is_cold));
        let found = done.keys().filter(|step| is_cold(**step)).count();
        assert!(found >= 560 - REPLAY_APART, "{found}");
    }

    #[test]
    fn what_is_not_in_memory_is_found_amid_what_is() {
        for (length, depth) in [(1_000, 1), (1_000, 64), (5_000 / REPLAY_APART + 1, 64)] {
            let is_cold = |step: usize| (5_000..5_000 + length).contains(&step);
            let done = replay(10_000, depth, waits(is_cold));
            let found = done.keys().filter(|step| is_cold(**step)).count();
            assert!(found >= length - REPLAY_APART, "{depth}: {found}");
            assert!(done.len() < length + 2_000, "{depth}: {}", done.len());
        }
    }

    /// A disk reads a block of many inodes for one of them.
    #[test]
    fn what_waits_seldom_is_found() {
        for apart in [17, 32, 100] {
            let done = replay(10_000, 4, waits(|step| step % apart == 0));
            assert!(done.len() > 9_000, "{apart}: {}", done.len());
        }
    }

    proptest! {
        /// Whatever waits, and however often: as on a file system that forgets what was asked.
        #[test]
        fn a_replay_of_names_ends_and_does_few_steps_again(
            waits in prop::collection::vec(any::<bool>(), 1..64),
            run in 1..200_usize,
            depth in 1..128_usize,
        ) {
            const STEPS: usize = 3_000;
            let (mut pace, mut under_way, mut done) = (Pace::new(STEPS), VecDeque::new(), 0);
            loop {
                while under_way.len() < depth && let Some(step) = pace.take(|step| step < STEPS) {
                    under_way.push_back(step);
                }
                let Some(step) = under_way.pop_front() else { break };
                pace.on_done(step, if waits[step / run % waits.len()] { WAIT_US } else { 0 }, true);
                done += 1;
                prop_assert!(done <= 2 * STEPS + depth, "{done}");
            }
        }

        #[test]
        fn steps_for_nothing_cost_no_more_than_the_waits_that_were_spared(
            steps in 1..5_000_usize,
            depth in 1..128_usize,
            apart in 1..400_usize,
            wait_us in 20..3_000_u32,
        ) {
            let is_cold = |step: usize| step.is_multiple_of(apart);
            let done = replay(steps, depth, |step| if is_cold(step) { wait_us } else { 0 });
            let times = |cold: bool| -> u64 {
                done.iter().filter(|(step, _)| is_cold(**step) == cold).map(|(_, times)| u64::from(*times)).sum()
            };
            let spared_us = times(true) * u64::from(wait_us);
            let lost_us = times(false) * u64::from(REPLAY_STEP_US);
            let asked = (REPLAYED_FIRST + steps / REPLAY_APART + 1 + depth) as u64;
            prop_assert!(lost_us <= spared_us + u64::from(REPLAY_CREDIT_US_MAX) + asked * u64::from(REPLAY_STEP_US));
        }
    }

    #[test]
    fn a_replay_is_as_far_ahead_as_the_program_comes_while_names_are_kept() {
        let mut follower = Follower::new(10_000);
        assert_eq!(follower.end(10_000, false), Some(KEPT_US));
        // Four times as fast as the recorded run, and then as fast.
        (0..1000).for_each(|need| follower.on_need(10_000 + 2_000 * need, Some(8_000 * need)));
        let ahead = follower.end(2_010_000, false).unwrap() - 8_000_000;
        assert!((3 * KEPT_US..=4 * KEPT_US).contains(&ahead), "{ahead}");
        (0..200).for_each(|need| follower.on_need(2_010_000 + 8_000 * need, Some(8_000 * (1000 + need))));
        let [ahead, near] = [false, true].map(|takes| follower.end(3_610_000, takes).unwrap() - 9_600_000);
        assert!((KEPT_US / 2..=KEPT_US).contains(&ahead), "{ahead}");
        assert!(
            (KEPT_US / 4..=KEPT_US / 2).contains(&near),
            "files are closed when names are forgotten: {near}"
        );
    }

    #[test]
    fn a_replay_is_nearer_to_a_program_that_is_slower_than_the_recorded_run_or_has_not_begun() {
        let mut follower = Follower::new(0);
        assert_eq!(follower.end(KEPT_US, true), Some(KEPT_US / 2));
        // A quarter as fast.
        (0..200).for_each(|need| follower.on_need(KEPT_US + 8_000 * need, Some(2_000 * need)));
        let ahead = follower.end(KEPT_US + 1_592_000, true).unwrap() - 398_000;
        assert!((KEPT_US / 16..=KEPT_US / 7).contains(&ahead), "{ahead}");
    }

    #[test]
    fn needs_in_another_order_move_the_end_little() {
        let mut follower = Follower::new(0);
        for need in 0..100 {
            follower.on_need(1, Some(if need % 5 == 0 { 5_000_000 } else { 1_000 * need }));
        }
        let end = follower.end(1, false).unwrap();
        assert!((KEPT_US..1_000_000).contains(&end), "{end}");
        (0..20).for_each(|need| follower.on_need(2, Some(need)));
        assert!(follower.end(2, false).unwrap() >= end);
    }

    #[test]
    fn a_program_that_needs_nothing_new_is_not_followed_and_followed_again_later() {
        let mut follower = Follower::new(0);
        follower.on_need(100_000, Some(0));
        assert!(follower.end(99_999 + REPLAY_SILENT_US, false).is_some());
        assert_eq!(follower.end(100_000 + REPLAY_SILENT_US, false), None);
        follower.on_need(2 * REPLAY_SILENT_US, Some(1));
        assert!(follower.end(2 * REPLAY_SILENT_US, false).is_some());
    }

    #[test]
    fn a_program_that_needs_other_things_is_lost() {
        let mut follower = Follower::new(0);
        (1..REPLAY_OTHERS_MAX).for_each(|at| follower.on_need(at.into(), None));
        follower.on_need(100, Some(3));
        assert!(!follower.is_lost());
        (0..REPLAY_OTHERS_MAX).for_each(|_| follower.on_need(200, None));
        assert!(follower.is_lost());
    }

    #[test]
    fn a_replay_ends() {
        let patterns: Vec<fn(usize) -> bool> =
            [|step| step % 2 == 0, |step| step % 17 == 0, |step| step / 100 % 2 == 0].into();
        for is_cold in patterns {
            for depth in [1, 7, 128] {
                assert!(replay(3_000, depth, waits(is_cold)).len() >= REPLAYED_FIRST);
            }
        }
    }
}
