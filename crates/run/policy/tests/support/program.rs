//! A simulated program and its speculations.

use forebay_policy::account::Account;
use forebay_policy::estimate::StallTime;
use forebay_policy::fork::{ForkPolicy, Place, Ran, Size, Took};
use forebay_policy::price::{FIRST_NS, PRICE_ONE};
use forebay_protocol::layout;

use crate::support::Chance;

/// Ticks of the simulations: nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;
pub const US: u64 = 1_000;

/// What a program does for a while.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub reads: u64,
    /// Between two reads, and for a read that is not prefetched.
    pub compute: u64,
    pub stall: u64,
    /// Reads that a speculation predicts before it is off track.
    pub right: u64,
    /// What the hints of a speculation delay each stall by, while it lives.
    pub delay: u64,
    /// Pages that the original copies for a speculation.
    pub copied: u64,
    /// Processor time of a speculation, while the original computes.
    pub ran: u64,
}

/// Reads of a disk of 1 ms, of which no speculation predicts one.
pub const READS: Phase =
    Phase { reads: 20_000, compute: 20 * US, stall: MS, right: 0, delay: 0, copied: 20, ran: 0 };

impl Phase {
    /// What a speculation takes, besides the original's time.
    pub fn took(&self) -> Took {
        Took { copied: self.copied, taken: 100, ran: beside(self.ran) }
    }
}

/// Processor time of a speculation, all of it while the original ran and nothing waited for a processor.
fn beside(ticks: u64) -> Ran {
    Ran { ticks, busy: 0, beside: PRICE_ONE.unsigned_abs() }
}

/// A program, of one or more processes in turn, that computes and then needs data, again and again.
pub struct Program {
    account: layout::Account,
    /// Of each phase, shared by all processes.
    devices: Vec<StallTime>,
    chance: Chance,
    pub size: Size,
    fork: u64,
    hidden: bool,
    pub now: u64,
    /// When it would be now with no speculation at all.
    pub alone: u64,
    pub forks: u64,
    pub stalls: u64,
    pub crossings: u64,
}

impl Program {
    /// Of one process whose forks take so long; where they are hidden, behind a read that is under way.
    pub fn new(fork: u64, hidden: bool) -> Self {
        Self {
            account: layout::Account::default(),
            devices: vec![],
            chance: Chance(1),
            size: Size { pages: 1_000, fork, copy: 1_250, displaced: 0 },
            fork,
            hidden,
            now: SECOND,
            alone: SECOND,
            forks: 0,
            stalls: 0,
            crossings: 0,
        }
    }

    /// One process goes through the phases, each on a device of its own.
    pub fn process(&mut self, phases: &[Phase]) {
        let mut policy = ForkPolicy::new(SECOND);
        self.devices.resize(phases.len().max(self.devices.len()), StallTime::default());
        for (device, phase) in phases.iter().enumerate() {
            let mut time = self.devices[device];
            self.phase(&mut policy, phase, &mut time);
            self.devices[device] = time;
        }
        self.crossings += policy.crossings();
    }

    fn phase(&mut self, policy: &mut ForkPolicy, phase: &Phase, device: &mut StallTime) {
        let account = Account::new(&self.account, FIRST_NS);
        let (mut ahead, mut used) = (None::<u64>, 0);
        for _ in 0..phase.reads {
            let compute = phase.compute / 2 + self.chance.below(phase.compute + 1);
            let stall = phase.stall * (75 + self.chance.below(51)) / 100;
            self.now += compute;
            self.alone += compute + stall;
            if let Some(left) = ahead.as_mut().filter(|left| **left > 0) {
                *left -= 1;
                used += 1;
                continue;
            }
            policy.expect(self.size);
            // The queue of its hints outlives a speculation.
            let queue = if ahead.is_some() && used > 0 { phase.delay } else { 0 };
            let is_over = ahead.is_some() && (policy.judge_due() || policy.is_armed(&account));
            if is_over {
                ahead = None;
                policy.on_end(&account, std::mem::take(&mut used) * device.ticks(), phase.took(), false);
                self.now += phase.took().ran.cost();
            }
            let waited = stall + queue;
            let delay = if queue > 0 { device.delay(waited) } else { None };
            if ahead.is_some() {
                // It has not been forked again.
            } else if policy.is_armed(&account) {
                let place = if self.hidden { Place::Read } else { Place::Call };
                policy.on_spawn(&account, self.fork, place);
                self.forks += 1;
                ahead = Some(phase.right);
                let hidden = if self.hidden { self.fork.saturating_sub(stall) } else { self.fork };
                self.now += hidden + phase.copied * self.size.copy;
            }
            if queue == 0 {
                device.on_stall(stall);
            }
            self.now += waited;
            self.stalls += 1;
            policy.on_stall(&account, waited, true, delay);
        }
    }

    /// Time taken against the time without speculation.
    pub fn ratio(&self) -> f64 {
        (self.now - SECOND) as f64 / (self.alone - SECOND) as f64
    }
}

/// One process that has gone through the phases.
pub fn program(fork: u64, hidden: bool, phases: &[Phase]) -> Program {
    let mut program = Program::new(fork, hidden);
    program.process(phases);
    program
}
