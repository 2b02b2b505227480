//! Which steps of a replay are carried out: all of them where the data is not in memory, and few where it is.
//!
//! # Model
//!
//! A replay is a list of steps, first needs first. A step *waits* where a device is asked, and the program is spared that wait. A
//! step costs [`STEP_US`] of processor time. The difference of both, over the last steps, is the *credit*, between 0 and
//! [`CREDIT_US_MAX`]. The first [`FIRST`] steps are carried out in any case.
//!
//! * While there is credit, all steps are carried out, in order.
//! * Without credit, one step in [`APART`] is carried out, as a sample, one sample at a time. The steps before a sample that did not
//!   wait are taken to be in memory.
//!
//! So a replay of `n` steps whose data is in memory carries out `FIRST + n / APART` of them. What waits seldom is carried out in
//! order as long as the waits are worth it. Steps for nothing never cost more than the waits that were spared, and
//! [`CREDIT_US_MAX`].

/// Steps that are carried out first, whatever they tell. Choice: the look-ups of a program's first libraries.
pub const FIRST: usize = 32;
/// One step in so many is a sample after that. Choice: what a replay for nothing costs, as a part of a whole one.
pub const APART: usize = 16;
/// Processor time of a step whose data is in memory. Measured: 3 to 5 us for a look-up, 8 for data.
pub const STEP_US: u32 = 5;
/// The most that credit comes to. Choice: 800 steps in memory are carried out behind what was not.
pub const CREDIT_US_MAX: u32 = 4_000;

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
    credit_us: u32,
}

impl Pace {
    /// Of so many steps.
    #[must_use]
    pub const fn new(steps: usize) -> Self {
        Self { steps, first: FIRST, next: 0, sample: FIRST, sampled: None, credit_us: 0 }
    }

    /// Of so many steps, all of which are carried out.
    #[must_use]
    pub const fn of_all(steps: usize) -> Self {
        Self { steps, first: steps, next: 0, sample: steps, sampled: None, credit_us: 0 }
    }

    /// The step to carry out next. `None` where there is none for now.
    pub fn take(&mut self) -> Option<usize> {
        let in_order = self.is_in_order();
        let step = if in_order { self.next } else { self.sample.max(self.next) };
        if step >= self.steps || !in_order && self.sampled.is_some() {
            return None;
        }
        self.credit_us = self.credit_us.saturating_sub(STEP_US);
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

    /// A step is done. It has waited so many microseconds for a device, or 0 if none was asked.
    pub fn on_done(&mut self, step: usize, waited_us: u32) {
        self.on_part_done(step, waited_us);
        if waited_us == 0 && step >= self.first && !self.is_needed() {
            self.next = self.next.max(step + 1);
        }
    }

    /// A part of a step is done, which waited so long. If it did not wait, that tells nothing of the steps before.
    pub fn on_part_done(&mut self, step: usize, waited_us: u32) {
        self.sampled = self.sampled.filter(|sampled| *sampled != step);
        self.credit_us = self.credit_us.saturating_add(waited_us).min(CREDIT_US_MAX);
    }

    /// Whether all steps are to be carried out.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.credit_us > 0
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
    use proptest::prelude::*;
    use std::collections::{BTreeMap, VecDeque};
    use std::vec::Vec;

    const WAIT_US: u32 = 1_000;

    /// Carries a replay out with so many steps under way. How often each step was done.
    fn replay(steps: usize, depth: usize, wait_us: impl Fn(usize) -> u32) -> BTreeMap<usize, u32> {
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
            pace.on_done(step, wait_us(step));
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
        for steps in [0, 1, FIRST, FIRST + 1, 10_000] {
            let done = replay(steps, 64, |_| 0);
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
            pace.on_done(step, if step % 3 == 0 { WAIT_US } else { 0 });
        }
        assert_eq!(taken, (0..500).collect::<Vec<_>>());
        assert!(!pace.has_next());
    }

    #[test]
    fn what_is_in_memory_at_the_end_hides_nothing_before_it() {
        let is_cold = |step: usize| (40..600).contains(&step);
        let done = replay(700, 128, waits(is_cold));
        let found = done.keys().filter(|step| is_cold(**step)).count();
        assert!(found >= 560 - APART, "{found}");
    }

    #[test]
    fn what_is_not_in_memory_is_found_amid_what_is() {
        let is_cold = |step: usize| (5_000..6_000).contains(&step);
        for depth in [1, 64] {
            let done = replay(10_000, depth, waits(is_cold));
            let found = done.keys().filter(|step| is_cold(**step)).count();
            assert!(found >= 1_000 - APART, "{depth}: {found}");
            assert!(done.len() < 3_000, "{depth}: {}", done.len());
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
            let lost_us = times(false) * u64::from(STEP_US);
            let asked = (FIRST + steps / APART + 1 + depth) as u64;
            prop_assert!(lost_us <= spared_us + u64::from(CREDIT_US_MAX) + asked * u64::from(STEP_US));
        }
    }

    #[test]
    fn a_replay_ends() {
        let patterns: Vec<fn(usize) -> bool> =
            [|step| step % 2 == 0, |step| step % 17 == 0, |step| step / 100 % 2 == 0].into();
        for is_cold in patterns {
            for depth in [1, 7, 128] {
                assert!(replay(3_000, depth, waits(is_cold)).len() >= FIRST);
            }
        }
    }
}
