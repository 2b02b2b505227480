//! Which steps of a replay are carried out: all of them where the data is not in memory, and few where it is.
//!
//! # Model
//!
//! A replay is a list of steps, first needs first. A step *waits* where a device is asked. The first [`FIRST`] steps are carried out
//! in any case. A score between 0 and twice [`WAITS_MIN`] grows by 1 with each step that waits, and falls by 1/[`APART`] with
//! each one that does not.
//!
//! * While the score is below [`WAITS_MIN`], one step in [`APART`] is carried out, as a sample, one sample at a time. The steps
//!   before a sample that did not wait are taken to be in memory.
//! * From then on all steps are carried out, in order, from the last such sample on.
//!
//! So a replay of `n` steps whose data is in memory carries out `FIRST + n / APART` of them. One that is needed starts in order,
//! without a pause.

/// Steps that are carried out first, whatever they tell. Choice: the look-ups of a program's first libraries.
pub const FIRST: usize = 32;
/// One step in so many is a sample after that. Choice: what a replay for nothing costs, as a part of a whole one.
pub const APART: usize = 16;
/// Steps that wait before they are believed. Choice: a busy machine delays one or two.
pub const WAITS_MIN: usize = 4;

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
    /// In 1/[`APART`].
    score: usize,
}

impl Pace {
    /// Of so many steps.
    #[must_use]
    pub const fn new(steps: usize) -> Self {
        Self { steps, first: FIRST, next: 0, sample: FIRST, sampled: None, score: 0 }
    }

    /// Of so many steps, all of which are carried out.
    #[must_use]
    pub const fn of_all(steps: usize) -> Self {
        Self { steps, first: steps, next: 0, sample: steps, sampled: None, score: 0 }
    }

    /// The step to carry out next. `None` where there is none for now.
    pub fn take(&mut self) -> Option<usize> {
        let in_order = self.is_in_order();
        let step = if in_order { self.next } else { self.sample.max(self.next) };
        if step >= self.steps || !in_order && self.sampled.is_some() {
            return None;
        }
        if in_order {
            self.next = step + 1;
        } else {
            self.sample = step + APART;
            self.sampled = Some(step);
        }
        Some(step)
    }

    /// Whether the next step is the next one in order, and no sample.
    #[must_use]
    pub const fn is_in_order(&self) -> bool {
        self.next < self.first || self.is_needed()
    }

    /// A step is done. `waited` where a device was asked.
    pub fn on_done(&mut self, step: usize, waited: bool) {
        self.sampled = self.sampled.filter(|sampled| *sampled != step);
        if waited {
            self.score = (self.score + APART).min(2 * WAITS_MIN * APART);
        } else {
            if step >= self.first && !self.is_needed() {
                self.next = self.next.max(step + 1);
            }
            self.score = self.score.saturating_sub(1);
        }
    }

    /// Whether all steps are to be carried out.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.score >= WAITS_MIN * APART
    }

    /// Whether [`Self::take`] has another step now.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.clone().take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, VecDeque};
    use std::vec::Vec;

    /// Carries a replay out with so many steps under way. How often each step was done.
    fn replay(steps: usize, depth: usize, waits: impl Fn(usize) -> bool) -> BTreeMap<usize, u32> {
        let mut pace = Pace::new(steps);
        let (mut under_way, mut done) = (VecDeque::new(), BTreeMap::new());
        loop {
            while under_way.len() < depth
                && let Some(step) = pace.take()
            {
                assert!(step < steps);
                under_way.push_back(step);
            }
            let Some(step) = under_way.pop_front() else { return done };
            pace.on_done(step, waits(step));
            *done.entry(step).or_default() += 1;
        }
    }

    #[test]
    fn where_all_waits_every_step_is_carried_out_once_and_in_order_but_for_samples() {
        for depth in [1, 3, 64] {
            let done = replay(10_000, depth, |_| true);
            assert_eq!(done.len(), 10_000, "{depth}");
            let twice = done.values().filter(|times| **times > 1).count();
            assert!(twice <= depth, "{depth}: {twice}");
        }
    }

    #[test]
    fn where_nothing_waits_few_steps_are_carried_out() {
        for steps in [0, 1, FIRST, FIRST + 1, 10_000] {
            let done = replay(steps, 64, |_| false);
            let most = FIRST.min(steps) + steps.saturating_sub(FIRST).div_ceil(APART);
            assert_eq!(done.len(), most, "{steps}");
        }
    }

    #[test]
    fn where_all_steps_are_wanted_each_is_carried_out_once() {
        let mut pace = Pace::of_all(500);
        let mut taken = Vec::new();
        while let Some(step) = pace.take() {
            taken.push(step);
            pace.on_done(step, step % 3 == 0);
        }
        assert_eq!(taken, (0..500).collect::<Vec<_>>());
        assert!(!pace.has_next());
    }

    #[test]
    fn what_is_in_memory_at_the_end_hides_nothing_before_it() {
        let cold = |step: usize| (40..600).contains(&step);
        let done = replay(700, 128, cold);
        let found = done.keys().filter(|step| cold(**step)).count();
        assert!(found >= 560 - WAITS_MIN * APART, "{found}");
    }

    #[test]
    fn what_is_not_in_memory_is_found_amid_what_is() {
        let cold = |step: usize| (5_000..6_000).contains(&step);
        for depth in [1, 64] {
            let done = replay(10_000, depth, cold);
            let found = done.keys().filter(|step| cold(**step)).count();
            assert!(found >= 1_000 - WAITS_MIN * APART, "{depth}: {found}");
            assert!(done.len() < 2_500, "{depth}: {}", done.len());
        }
    }

    #[test]
    fn a_machine_that_delays_one_step_in_forty_needs_no_replay() {
        let done = replay(10_000, 4, |step| step % 640 == 32);
        assert!(done.len() < 1_000, "{}", done.len());
    }

    #[test]
    fn a_replay_ends() {
        let patterns: Vec<fn(usize) -> bool> =
            [|step| step % 2 == 0, |step| step % 17 == 0, |step| step / 100 % 2 == 0].into();
        for waits in patterns {
            for depth in [1, 7, 128] {
                assert!(replay(3_000, depth, waits).len() >= FIRST);
            }
        }
    }
}
