//! The resync policy, on simulated processes.

mod support;

use forebay_policy::resync::{Place, Policy, Size};
use proptest::prelude::*;
use support::Chance;

/// Ticks of the simulations: nanoseconds.
const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// A process that computes, then needs data, again and again.
struct Process {
    policy: Policy,
    chance: Chance,
    now: u64,
    /// When it would be now with no speculation at all.
    alone: u64,
    fork: u64,
    hidden: bool,
    /// Reads that the running speculation still has right; `None` when none is running.
    ahead: Option<u64>,
    used: u64,
    forks: u64,
    stalls: u64,
}

impl Process {
    fn new(fork: u64, hidden: bool) -> Self {
        let mut policy = Policy::new(SECOND);
        policy.begin(SECOND);
        Self {
            policy,
            chance: Chance(1),
            now: SECOND,
            alone: SECOND,
            fork,
            hidden,
            ahead: None,
            used: 0,
            forks: 0,
            stalls: 0,
        }
    }

    /// `reads` times: computes for about `compute`, then needs data that takes about `stall`. A speculation
    /// started meanwhile is right about `right` reads, and hints as many wrong ones as `wrong`.
    fn run(&mut self, reads: u64, compute: u64, stall: u64, right: u64, wrong: u64) {
        for _ in 0..reads {
            let compute = compute / 2 + self.chance.below(compute + 1);
            let stall = stall * (75 + self.chance.below(51)) / 100;
            self.now += compute;
            self.alone += compute + stall;
            if let Some(ahead) = self.ahead.filter(|&ahead| ahead > 0) {
                self.ahead = Some(ahead - 1);
                self.used += 1;
                continue;
            }
            if (self.policy.armed(self.now) || self.policy.judge_due()) && self.ahead.take().is_some() {
                self.policy.on_end(self.now, self.used, wrong);
                self.used = 0;
            }
            if self.policy.armed(self.now) {
                self.policy.on_spawn(
                    self.now,
                    self.fork,
                    if self.hidden { Place::Read } else { Place::Call },
                );
                self.forks += 1;
                self.ahead = Some(right);
                let copies = self.fork / 2;
                self.now += copies + if self.hidden { self.fork.saturating_sub(stall) } else { self.fork };
            }
            self.now += stall;
            self.stalls += 1;
            self.policy.on_stall(self.now, stall, false);
        }
    }

    /// Time taken against the time without speculation.
    fn ratio(&self) -> f64 {
        (self.now - SECOND) as f64 / (self.alone - SECOND) as f64
    }
}

fn process(fork: u64, hidden: bool, reads: u64, stall: u64, right: u64, wrong: u64) -> Process {
    let mut process = Process::new(fork, hidden);
    process.run(reads, 20 * US, stall, right, wrong);
    process
}

/// Of a process whose pages take `copies` ticks to copy.
fn size(fork: u64, copies: u64) -> Size {
    Size { pages: 256, fork, copy: copies / 256, displaces: false, detour: 0, risk_stalls: 256, lacks: 0 }
}

#[test]
fn effective_speculation_goes_on() {
    for (stall, ratio) in [(70 * US, 0.35), (MS, 0.06), (12 * MS, 0.02)] {
        let process = process(75 * US, true, 20_000, stall, 500, 2);
        assert!(process.ratio() < ratio, "{}", process.ratio());
        assert!(process.stalls < 150, "{}", process.stalls);
        assert_eq!(process.policy.crossings(), 0);
    }
}

#[test]
fn even_one_right_hint_a_speculation_is_worth_a_hidden_fork() {
    let process = process(75 * US, true, 5_000, MS, 1, 3);
    assert!(process.ratio() < 0.75, "{}", process.ratio());
}

#[test]
fn useless_speculation_is_disabled_once_and_probed_ever_more_rarely() {
    for fork in [75 * US, 400 * US, 16 * MS] {
        for hidden in [true, false] {
            for stall in [70 * US, MS, 12 * MS] {
                let process = process(fork, hidden, 40_000, stall, 0, 0);
                assert!(process.ratio() < 1.02, "{}", process.ratio());
                assert_eq!(process.policy.crossings(), 1);
                assert!(process.policy.disabled() && process.forks <= 36, "{}", process.forks);
            }
        }
    }
}

#[test]
fn a_crossing_has_its_reason() {
    let futile = process(75 * US, true, 40_000, MS, 0, 0).policy;
    assert_eq!((futile.crossings(), futile.crossings_futile()), (1, 1));
    // One stall is spared by forks that take longer than many.
    let dear = process(16 * MS, false, 40_000, MS, 1, 0).policy;
    assert_eq!((dear.crossings(), dear.crossings_futile()), (1, 0));
}

#[test]
fn wrong_hints_count_against_the_right_ones() {
    let process = process(75 * US, true, 20_000, MS, 1, 40);
    assert!(process.policy.disabled() && process.forks <= 36, "{}", process.forks);
}

#[test]
fn success_after_a_useless_phase_restores_and_failure_after_a_good_one_disables() {
    let mut process = Process::new(75 * US, true);
    process.run(2_000, 20 * US, MS, 0, 5);
    assert!(process.policy.disabled());
    let stalls = process.stalls;
    process.run(20_000, 20 * US, MS, 200, 5);
    assert!(!process.policy.disabled());
    assert!(process.stalls - stalls < 1_000, "{}", process.stalls - stalls);
    for _ in 0..3 {
        let forks = process.forks;
        process.run(2_000, 20 * US, MS, 0, 5);
        assert!(process.policy.disabled());
        assert!(process.forks - forks <= 30, "{}", process.forks - forks);
        process.run(4_000, 20 * US, MS, 200, 5);
        assert!(!process.policy.disabled());
    }
}

#[test]
fn a_huge_process_forks_only_for_what_pays_it() {
    // 16 ms and copies against stalls of 70 us: 700 right hints are needed to earn twice the cost.
    let loss = process(16 * MS, false, 40_000, 70 * US, 50, 0);
    assert!(loss.ratio() < 1.02 && loss.forks <= 3, "{} {}", loss.ratio(), loss.forks);
    let gain = process(16 * MS, false, 200_000, 70 * US, 5_000, 0);
    assert!(gain.ratio() < 0.6 && !gain.policy.disabled(), "{}", gain.ratio());

    let mut known = Process::new(16 * MS, false);
    known.policy.expect_cost(size(16 * MS, 0));
    known.run(10_000, 20 * US, 70 * US, 0, 0);
    assert_eq!(known.forks, 1, "it waits all the time: worth one try, and too early for a second");
    known.run(40_000, 20 * US, 70 * US, 0, 0);
    assert!((1..=3).contains(&known.forks), "{}", known.forks);
}

/// 1 GiB that it writes to all the time, and stalls now and then: a fork would cost it a copy of every page.
#[test]
fn a_large_process_that_stalls_rarely_is_not_forked() {
    let mut process = Process::new(16 * MS, false);
    process.policy.expect_cost(size(16 * MS, 300 * MS));
    process.run(2_000, 8 * MS, MS, 0, 0);
    assert!(process.forks <= 1, "{}", process.forks);
    assert!(process.alone - SECOND > 15 * SECOND);
}

#[test]
fn a_large_process_that_stalls_all_the_time_is_forked_soon() {
    let mut process = Process::new(16 * MS, false);
    process.policy.expect_cost(size(16 * MS, 100 * MS));
    while process.forks == 0 {
        process.run(1, 20 * US, MS, 5_000, 0);
    }
    assert!(process.now - SECOND < 300 * MS, "{}", process.now - SECOND);
    process.policy.on_copies(0, 0);
    process.run(20_000, 20 * US, MS, 5_000, 0);
    assert!(!process.policy.disabled() && process.forks < 10, "{}", process.forks);
}

/// What a small process copied says nothing of a large one.
#[test]
fn a_process_that_has_grown_since_its_last_fork_is_dear() {
    let forks = |pages_later: u64| {
        let (mut policy, mut now, mut forks) = (Policy::new(SECOND), SECOND, 0);
        policy.begin(now);
        policy.expect_cost(size(100 * US, 256 * US));
        for step in 0..400 {
            now += 9 * MS;
            if step == 10 {
                policy.expect_cost(Size { pages: pages_later, fork: 16 * MS, ..size(100 * US, 256 * US) });
            }
            if policy.judge_due() && policy.armed(now) {
                policy.on_copies(0, 0);
                policy.on_end(now, 20, 0);
            }
            policy.on_stall(now, 2 * MS, false);
            if policy.armed(now) && !policy.judge_due() && (forks == 0 || step > 10) {
                forks += 1;
                policy.on_spawn(now, 100 * US, Place::Call);
            }
        }
        forks
    };
    assert_eq!((forks(262_144), forks(256) > 1), (1, true));
}

/// A user who may have no more processes: refusals are no crossings, and a fork that the system allows is found in the end.
#[test]
fn a_system_that_refuses_forks_is_asked_ever_more_seldom() {
    let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
    policy.begin(now);
    let mut asked = Vec::new();
    for _ in 0..60_000 {
        now += MS;
        policy.on_stall(now, MS, false);
        if policy.armed(now) {
            asked.push(now);
            policy.on_refusal(now, 100 * US);
        }
    }
    // 1/128 s after the first, twice as long after each, and four seconds in the end.
    assert!((20..=30).contains(&asked.len()), "{}", asked.len());
    assert_eq!(policy.crossings(), 0);
    assert!(asked[asked.len() - 1] - asked[asked.len() - 2] >= 4 * SECOND);
}

#[test]
fn stalls_that_nobody_attended_to_count() {
    let (ms, second) = (1_000_000, 1_000_000_000);
    let begun = || {
        let mut policy = Policy::new(second);
        policy.begin(0);
        policy.expect_cost(size(16 * ms, 330 * ms));
        policy
    };
    for at in [1, 7 * second, 7 * second + 999 * ms] {
        let mut policy = begun();
        policy.on_stall(at + ms, ms, false);
        policy.on_unseen_stalls(at + ms, at + 801 * ms, 800, ms);
        policy.on_stall(at + 802 * ms, ms, false);
        assert!(policy.armed(at + 802 * ms), "from {at}");
        let mut policy = begun();
        policy.on_stall(at + ms, ms, false);
        policy.on_unseen_stalls(at + ms, at + 8_001 * ms, 800, ms);
        policy.on_stall(at + 8_002 * ms, ms, false);
        assert!(!policy.armed(at + 8_002 * ms), "from {at}");
    }
}

#[test]
fn a_short_process_loses_no_more_than_a_millisecond() {
    for reads in 1..100 {
        let process = process(75 * US, false, reads, 70 * US, 0, 0);
        let lost = process.now - process.alone;
        assert!(lost < MS + (process.alone - SECOND) / 50, "{reads} reads: {lost} ns");
    }
}

#[test]
fn a_process_that_stalls_rarely_is_left_alone() {
    let mut process = Process::new(75 * US, true);
    process.run(1, 10 * MS, 70 * US, 100, 0);
    process.run(500, 100 * MS, 70 * US, 100, 0);
    assert_eq!(process.forks, 0);
    // Until it stalls in earnest.
    process.run(2_000, 20 * US, 70 * US, 100, 0);
    assert!(process.forks > 10 && process.stalls < 500 + 100, "{} {}", process.forks, process.stalls);
}

#[test]
fn nothing_happens_before_the_second_stall() {
    let mut policy = Policy::new(SECOND);
    policy.begin(5 * SECOND);
    assert!(!policy.armed(5 * SECOND + 10 * MS));
    policy.on_stall(5 * SECOND + 10 * MS, MS, false);
    assert!(policy.armed(5 * SECOND + 11 * MS));
}

#[test]
fn a_saturated_device_is_probed_rarely_and_used_again_when_it_has_recovered() {
    let mut process = Process::new(75 * US, true);
    process.run(100, 20 * US, MS, 3, 0);
    process.policy.set_saturated(true);
    let forks = process.forks;
    process.run(20_000, 20 * US, MS, 0, 0);
    assert!((2..=25).contains(&(process.forks - forks)), "{}", process.forks - forks);
    assert!(process.ratio() < 1.01, "{}", process.ratio());
    process.policy.set_saturated(false);
    let stalls = process.stalls;
    process.run(20_000, 20 * US, MS, 200, 0);
    assert!(process.stalls - stalls < 5_000, "{}", process.stalls - stalls);
}

/// Each speculation is right once, and puts a queue of wrong hints before the program's next read.
#[test]
fn forks_whose_hints_delay_the_program_become_rare() {
    let forks_in_a_second = |queue: u64| {
        let (mut policy, mut now) = (Policy::new(SECOND), SECOND);
        policy.begin(now);
        let mut forks = 0;
        while now < 2 * SECOND {
            if policy.armed(now) {
                policy.on_spawn(now, 100 * US, Place::Fault);
                forks += 1;
                for stall in [queue + MS, MS, MS, MS, MS, MS, MS, MS] {
                    now += stall;
                    policy.on_stall(now, stall, false);
                }
                policy.on_end(now, 1, 0);
            }
            now += MS;
            policy.on_stall(now, MS, false);
        }
        forks
    };
    let (undisturbed, delayed) = (forks_in_a_second(0), forks_in_a_second(16 * MS));
    assert!(undisturbed > 50, "{undisturbed} forks where one right hint pays");
    assert!(delayed <= 3, "{delayed} forks, each of which costs 16 ms for one that it spares");
}

#[test]
fn signals_of_faults_are_paid_from_what_forks_are_paid_from() {
    // Nothing ever comes of a speculation.
    let forks = |signal: u64, ms: u64| {
        let mut policy = Policy::new(SECOND);
        policy.begin(0);
        let (mut now, mut forks) = (0, 0);
        while now < ms * MS {
            now += 160 * US;
            policy.on_unseen_stalls(now - 160 * US, now, 7, 20 * US);
            policy.on_stall(now, 20 * US, false);
            policy.on_signal(signal);
            if policy.judge_due() {
                policy.on_end(now, 0, 0);
            }
            if policy.armed(now) {
                policy.on_spawn(now, 100 * US, Place::Fault);
                forks += 1;
            }
        }
        forks
    };
    assert!(forks(0, 400) > 12, "{}", forks(0, 400));
    assert!((2..6).contains(&forks(6 * US, 400)), "{}", forks(6 * US, 400));
    assert_eq!(forks(6 * US, 400), forks(6 * US, 4_000), "more signals than time pays for leave no forks");
}

#[test]
fn sites_that_learn_from_the_first_speculations_get_the_chance() {
    for (fork, stall, reads_max) in [(75 * US, MS, 250), (400 * US, MS, 600), (75 * US, 12 * MS, 250)] {
        let mut process = Process::new(fork, true);
        let mut reads = 0;
        while process.forks < 14 {
            process.run(1, 20 * US, stall, 0, 3);
            reads += 1;
        }
        assert!(reads < reads_max, "{reads}");
    }
}

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Stall(u64, bool),
    Fork(u64, bool),
    End(u64, u64),
    Saturated(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let time = || prop_oneof![0..100 * US, 0..20 * MS, 0..2 * SECOND];
    prop_oneof![
        4 => time().prop_map(Event::Pass),
        6 => (time(), prop::bool::weighted(0.2)).prop_map(|(ticks, hinted)| Event::Stall(ticks, hinted)),
        6 => (time(), any::<bool>()).prop_map(|(ticks, hidden)| Event::Fork(ticks, hidden)),
        2 => (0..100u64, 0..50u64).prop_map(|(used, wrong)| Event::End(used, wrong)),
        1 => any::<bool>().prop_map(Event::Saturated),
    ]
}

fn wild() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<u64>().prop_map(Event::Pass),
        any::<(u64, bool)>().prop_map(|(ticks, hinted)| Event::Stall(ticks, hinted)),
        any::<(u64, bool)>().prop_map(|(ticks, hidden)| Event::Fork(ticks, hidden)),
        any::<(u64, u64)>().prop_map(|(used, wrong)| Event::End(used, wrong)),
        any::<bool>().prop_map(Event::Saturated),
        event(),
    ]
}

proptest! {
    #[test]
    fn forks_cost_little_of_the_time_that_was_not_saved(events in prop::collection::vec(event(), 0..300)) {
        let mut policy = Policy::new(SECOND);
        let (start, mut now) = (SECOND, SECOND);
        policy.begin(start);
        let (mut forks, mut saved_most, mut stall_longest) = (0, 0, 0);
        let (mut tries, mut stalled) = (0, 0);
        for event in events {
            match event {
                Event::Pass(ticks) => now += ticks,
                Event::Stall(ticks, hinted) => {
                    now += ticks;
                    stall_longest = stall_longest.max(ticks);
                    stalled += ticks;
                    policy.on_stall(now, ticks, hinted);
                }
                Event::Fork(cost, hidden) => {
                    if !policy.armed(now) {
                        continue;
                    }
                    // What was spent before this fork, whose cost nobody knows yet.
                    let trial = if tries == 0 { stalled / 2 } else { 0 };
                    tries += 1;
                    let bound = (now - start) * 3 / 200 + saved_most + MS + trial;
                    prop_assert!(forks <= bound, "{forks} > {bound}");
                    policy.on_spawn(now, cost, if hidden { Place::Read } else { Place::Call });
                    now += if hidden { 0 } else { cost };
                    forks += if hidden { 0 } else { cost };
                }
                Event::End(used, wrong) => {
                    policy.on_end(now, used, wrong);
                    saved_most += used * stall_longest;
                }
                Event::Saturated(saturated) => policy.set_saturated(saturated),
            }
            let _ = policy.judge_due();
        }
        prop_assert!(policy.spent() >= forks);
    }

    #[test]
    fn no_sequence_of_events_panics(rate in any::<u64>(), events in prop::collection::vec(wild(), 0..100)) {
        let mut policy = Policy::new(rate);
        let mut now = 0u64;
        for event in events {
            match event {
                // The clock may also step back.
                Event::Pass(ticks) => now = now.wrapping_add(ticks),
                Event::Stall(ticks, hinted) => policy.on_stall(now, ticks, hinted),
                Event::Fork(cost, hidden) => policy.on_spawn(now, cost, if hidden { Place::Read } else { Place::Fault }),
                Event::End(used, wrong) => policy.on_end(now, used, wrong),
                Event::Saturated(saturated) => policy.set_saturated(saturated),
            }
            policy.expect_cost(Size { pages: now, fork: now, copy: now, displaces: now.is_multiple_of(2), detour: now, risk_stalls: now, lacks: now });
            policy.on_copies(now, now);
            let _ = (policy.armed(now), policy.judge_due(), policy.crossings(), policy.saved());
        }
    }
}
