//! Every number of the fork policy and of a live speculation, with its unit and its source.
//!
//! Where a source says *choice*, the number states what the product promises. Where it says *measured*, the figure comes from a
//! guest with two processors on Linux 6.18; the costs that a run sees itself replace it (`fork.rs`).

/// Waiting pays for speculations: one tick in this many, after no failure. Choice: a program that ends just after its first
/// useless speculation has lost one part in this many of its waiting, and one that gains gains after an eighth of its stalls.
pub const WAITED_PART: u64 = 8;
/// Stall time saved pays for speculations: this many quarters of it. Choice: a quarter of all gains is never spent.
pub const SAVED_QUARTERS: u64 = 3;
/// What a program may spend before it has waited, in nanoseconds. Choice: about one fork of a small process, so that a program
/// that ends soon can gain.
pub const FIRST_NS: u64 = 250_000;
/// Stakes that savings can be kept for. Choice: as many useless speculations in a row follow a good phase at most.
pub const BANKED_STAKES: u64 = 4;
/// A speculation succeeds when it saved so many times its cost. Choice: estimates of savings are believed by half.
pub const WORTH_TIMES: u64 = 2;
/// Failures, in quarters, that one failure counts for.
pub const FAILURE: u32 = 4;
/// The same for a failure after which a call site predicts in another way. Choice: a program has a few dozen such sites, so a
/// lesson in each must be affordable.
pub const LESSON: u32 = 1;
/// Quarters of failures that count at most: waiting pays 2^-10 of what it pays at first. Choice: a program that waits for an
/// hour and then becomes predictable is found out within seconds.
pub const FAILURES_MAX: u32 = 40;
/// Quarters of failures from which the statistics say that speculation is off.
pub const OFF: u32 = 12;

/// What the fork of a small process takes, in nanoseconds, until the process has been forked. Measured: 73 us for 1 MiB.
pub const FORK_NS: u64 = 100_000;
/// The weight of the last speculation in the mean cost of a program's, as a power of 1/2.
pub const COST_WEIGHT: u32 = 2;
/// Pages that an original is taken to copy for its first speculation. Choice: what a program writes in a millisecond.
pub const COPIES_FIRST: u64 = 256;
/// What copies of pages may cost before a hint is used, in stalls. Choice: as much as a few hints save.
pub const COPIES_STALLS: u64 = 8;
/// The same for pages of the speculator's own.
pub const OWN_STALLS: u64 = 8;
/// 1 in prices and parts that trials learn.
pub const PRICE_ONE: i64 = 1024;
/// Where memory is short, a copied page displaces another one: what that costs before a trial has found it out, in
/// 1/[`PRICE_ONE`] of a stall. Measured: between 1/32 for programs that use all their pages in turn, and 1/2 for a speech
/// recogniser with three quarters of its memory.
pub const PAGE_PRICE_FIRST: i64 = PRICE_ONE / 8;
/// A page of the speculator's own costs one part in so many of that, because the speculator gives it back at its end. Measured: a
/// speculator takes about a hundred before it does anything; they must be worth few stalls.
pub const OWN_PART: u64 = 4;
/// Part of its limit of memory that a speculator may have where memory is short. Measured: swapping programs took 5 to 10 % less
/// time than with all of it.
pub const SHORT_PART: u64 = 4;

/// Pages that may be hinted and not yet used, before a hint was used. Measured: enough that a device with a queue is busy.
pub const AHEAD_FREE: u64 = 16;
/// The same where savings pay for speculations.
pub const AHEAD_PROVEN: u64 = 64;
/// Processor time between ticks of a speculator, in microseconds.
pub const TICK_US: u64 = 2_500;
/// Stalls that a speculator may spend without a hint. Choice: a later hint could hardly make up for more.
pub const IDLE_STALLS: u64 = 20;
/// What a page counts as, that a speculator takes, in microseconds of processor time. Measured: two programs that fill memory at
/// once take 1 to 2 us a page longer where it comes from the host, and it is the original that waits.
pub const PAGE_US: u64 = 8;
/// Bounds of what a speculator may spend without a hint, in ticks.
pub const IDLE_TICKS_MIN: u64 = 2;
/// See [`IDLE_TICKS_MIN`].
pub const IDLE_TICKS_MAX: u64 = 200;
/// A speculator that has yet to reach the original may spend so many times as much.
pub const CATCHING_UP: u64 = 4;

/// The price of processor time where some task always waits for a processor.
pub const PROCESSOR_PRICE_MAX: u32 = 1024;

/// What the signal of a fault takes with its handler, in microseconds. Measured: 4 us each.
pub const SIGNAL_US: u64 = 8;
/// Where fewer than one fault in so many needs a signal, there is no event for a while. Choice: an event costs each fault what
/// such a part of a signal does.
pub const EVENT_PERIOD_MAX: u32 = 64;

/// Hints of one device in flight that a stall may wait for, at most. Source: as many as the executor has threads.
pub const QUEUE_MAX: u64 = 128;
/// Stalls with an empty queue from which the time of a stall is known. Choice: a program that forks at each stall has no second.
pub const STALLS_KNOWN: u32 = 1;
/// Stalls after which a longer past counts no more, as a power of 2.
pub const STALLS_WEIGHT: u32 = 4;
/// What one stall may count as, in stalls: a wait of seconds says nothing of those to come.
pub const STALL_TIMES_MAX: u64 = 8;
/// Beside hints in flight a stall is delayed by what it takes more than this many quarters of a stall alone. Choice: one
/// quarter is within the scatter of a disk.
pub const DELAYED_QUARTERS: u64 = 5;
/// The weight of a stall in the mean of a process's recent stalls, as a power of 1/2.
pub const RECENT_WEIGHT: u32 = 3;
/// Unpredicted stalls after which a speculation is judged while it lives.
pub const STRAYED_STALLS: u64 = 4;

/// Speculating before a first trial, in microseconds. Choice: harm for so long is borne.
pub const TRIAL_US_MIN: u64 = 500_000;
/// The program alone that a trial looks at, at least and at most, in microseconds. Choice: a few looks of the supervisor; and what
/// nobody takes for a hang.
pub const TRIAL_PAUSE_US: u64 = 80_000;
/// See [`TRIAL_PAUSE_US`].
pub const TRIAL_PAUSE_US_MAX: u64 = 1_000_000;
/// Stalls that it waits for. Source: their sum is known to a quarter.
pub const TRIAL_STALLS: u64 = 16;
/// There is no trial where waiting takes less than one part in so many of the time. Choice: so much is not worth a pause.
pub const TRIAL_EXPOSED_PART: u64 = 64;
/// Errors of a sum that are noise. Source: one sum in twenty is further off.
pub const TRIAL_NOISE_TIMES: u128 = 2;
/// Trials that move nothing become so rare at most, as a power of 2. Choice: some seconds apart.
pub const TRIAL_APART_DOUBLINGS: u32 = 4;

/// `ns` nanoseconds in ticks.
#[must_use]
pub const fn ticks(ns: u64, ticks_per_second: u64) -> u64 {
    let ticks = ns as u128 * ticks_per_second as u128 / 1_000_000_000;
    if ticks > u64::MAX as u128 { u64::MAX } else { ticks as u64 }
}

/// Exponentially weighted mean with the weight `2^-shift` for the new sample.
#[must_use]
pub const fn mean(mean: u64, sample: u64, shift: u32) -> u64 {
    if sample >= mean {
        mean + ((sample - mean) >> shift)
    } else {
        let gap = mean - sample;
        // Rounded up, so that the mean can reach 0.
        mean - (gap >> shift) - (gap & ((1 << shift) - 1) != 0) as u64
    }
}
