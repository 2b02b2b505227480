//! Every number of the policy, with its unit and its source. The in-flight limit is a model with numbers of its own
//! (`inflight.rs`).
//!
//! Where a source says *choice*, the number states what the product promises. Where it says *measured*, the figure comes from a
//! guest with two processors on Linux 6.18; the costs that a run sees itself replace it (`fork.rs`). What follows from one of these
//! numbers is derived where it is used.

// The account of a program.

/// Waiting pays for speculations: one tick in this many, after no failure. Choice: a program that ends just after its first
/// useless speculation has lost one part in this many of its waiting, and one that gains gains from its first stakes on. Measured on a hundred programs: at 1/8
/// interpreters with cold libraries lose up to 9 %, at 1/32 programs that wait for swapped pages lose a third of their gain.
pub const WAITED_PART: u64 = 16;
/// Stall time saved pays for speculations: this many quarters of it. Choice: a quarter of all gains is never spent.
pub const SAVED_QUARTERS: u64 = 3;
/// What a program may spend before it has waited, in nanoseconds. Choice: about one fork of a small process, so that a program
/// that ends soon can gain.
pub const FIRST_NS: u64 = 250_000;
/// Stakes that savings can be kept for. Choice: as many useless speculations in a row follow a good phase at most.
pub const BANKED_STAKES: u64 = 4;
/// A speculation succeeds when it saved so many times its cost. Choice: estimates of savings are believed by half.
pub const WORTH_TIMES: u64 = 2;
/// Lessons that one failure counts for: failures after which a call site predicts in another way. Choice: a program has a few
/// dozen such sites, so a lesson in each must be affordable.
pub const FAILURE: u32 = 4;
/// Failures that count at most: waiting pays 2^-10 of what it pays at first. Choice: a program that waits for an hour and then
/// becomes predictable is found out within seconds.
pub const FAILURES_MAX: u32 = 10 * FAILURE;
/// 1 in prices and parts that are learned or measured.
pub const PRICE_ONE: i64 = 1024;
/// The weight of a sample in a mean, as a power of 1/2. Choice: the last few count.
pub const MEAN_WEIGHT: u32 = 3;

// What a speculation costs.

/// A request to a remote file system that takes less is not worth hints, in microseconds. Measured with bindfs: a hint there is a
/// look-up, an open, a read and a release, which together take the file system and the executor as much processor time.
pub const REMOTE_WORTH_US: u64 = 200;
/// Half of the time for which the kernel keeps names and attributes of remote file systems as a rule, in milliseconds: libfuse's
/// default is a second, and others keep them longer.
pub const REMOTE_KEPT_MS: u64 = 500;

/// Requests that a device is taken to serve at once, as long as none has waited for another. Choice: where it is worth a trial, the
/// first batch is as large and tells. What is foretold is needed in this order, so that a device which serves one at a time loses
/// nothing, and one of 1 ms is learned in two rounds instead of five.
pub const AT_ONCE_HOPED: u32 = 32;

/// What the fork of a small process takes, in nanoseconds, until the process has been forked. Measured: 73 us for 1 MiB.
pub const FORK_NS: u64 = 100_000;
/// The same for each page of its own. Measured: 16 ms for 1 GiB.
pub const FORK_PAGE_NS: u64 = 62;
/// What a copy of a page takes at its first write, in nanoseconds, until the process has seen one. Measured: 1,250 on one host and
/// 2,150 on another.
pub const COPY_PAGE_NS: u64 = 1_250;
/// A first write to a page that no speculator shares any more takes one part in so many of a copy: a fault, and no copy. Measured.
pub const FIRST_WRITE_PART: u64 = 3;
/// Pages that an original is taken to copy for its first speculation. Choice: what a program writes in a millisecond.
pub const COPIES_FIRST: u64 = 256;
/// Forks and copies take so many times as long as expected at most. Choice: a longer one waited for something else.
pub const PACE_MAX: u64 = 8;
/// A fork that takes longer is worth checkpoints, in microseconds. Choice: that of some 32 MiB.
pub const CHECKPOINT_US_MIN: u64 = 500;
/// What pages may cost before a hint is used, in stalls: those that the original copies, and those that a speculator takes. Choice:
/// as much as two hints save.
pub const PAGES_STALLS: u64 = 2;
/// Where memory is short, a copied page displaces another one: what that costs before a trial has found it out, in
/// 1/[`PRICE_ONE`] of a stall. Measured: below 1/64 for programs that go through all their pages in turn, and 1/10 to 1/2 for a
/// speech recogniser with three quarters of its memory. From 1/8 on, a Fourier transform in place gains nothing instead of five times.
pub const PAGE_PRICE_FIRST: i64 = PRICE_ONE / 64;
/// A page of the speculator's own costs one part in so many of that, because the speculator gives it back at its end. Measured: a
/// speculator takes about a hundred before it does anything; they must be worth few stalls.
pub const OWN_PART: u64 = 4;
/// Part of its limit of memory that a speculator may have where memory is short. Measured: swapping programs took 5 to 10 % less
/// time than with all of it.
pub const SHORT_PART: u64 = 4;
/// What checkpoints, or looks at memory, may take of a speculator's time, as a part. Choice: it must stay ahead.
pub const SPENT_PART: u64 = 8;
/// Processor time between ticks of a speculator, in microseconds. Choice: so many looks cost it nothing.
pub const TICK_US: u64 = 2_500;
/// Stalls that a speculator may spend without a hint. Choice: a later hint could hardly make up for more.
pub const IDLE_STALLS: u64 = 20;
/// A speculator that has yet to reach the original may spend so many times as much. Choice: it goes through what the original has
/// in memory.
pub const CATCHING_UP: u64 = 4;
/// What processor time of a speculator costs an original that runs at the same time, in 1/[`PRICE_ONE`]: they share caches, and
/// often a core. Measured: an interpreter takes 1.1 to 1.7 of its processor time while the other processor of a guest is busy.
pub const BESIDE_PRICE: u64 = 256;
/// What a page counts as, that a speculator takes, in microseconds of processor time. Measured: two programs that fill memory at
/// once take 1 to 2 us a page longer where it comes from the host, and it is the original that waits.
pub const PAGE_US: u64 = 8;

// Stalls and their signals.

/// A call on a file that takes longer may be a stall, in microseconds. Choice: well above what a cached read takes, well below a
/// device.
pub const STALL_US_MIN: u64 = 20;
/// What one stall may count as, in mean stalls: a wait of seconds says nothing of those to come. Choice.
pub const STALL_TIMES_MAX: u64 = 4;
/// Beside hints in flight a stall is delayed by what it takes more than this many quarters of a stall alone. Choice: one
/// quarter is within the scatter of a disk.
pub const DELAYED_QUARTERS: u64 = 5;
/// Processor time of a page fault that a hint spares besides the wait, in microseconds. Measured.
pub const FAULT_US: u64 = 20;
/// What the signal of a fault takes with its handler, in microseconds, besides what the kernel takes to cause it. Measured: 4 us
/// each. Each machine measures the rest itself (`fault_signals.rs`).
pub const SIGNAL_US: u64 = 8;
/// What a machine measures of it at most, in microseconds. Choice: a measurement that took longer was interrupted.
pub const SIGNAL_US_MAX: u32 = 100;
/// Where fewer than one fault in so many needs a signal, there is no event for a while. Measured: an event that is open costs a
/// fault two switches of 0.2 us, which is what a signal for one fault in so many does.
pub const EVENT_PERIOD_MAX: u32 = 20;

// Whether a speculation is on track, and how far ahead.

/// Stalls in a row that no prediction foresaw, after which a live speculation is off track. Choice: one may be a call that it
/// skipped.
pub const STRAYED_STALLS: u32 = 3;
/// Pages that may be hinted and not yet used, before a hint was used. Measured: enough that a device with a queue is busy.
pub const AHEAD_FREE: u64 = 16;
/// Pages left out that count, for each one hinted that the original came to. Choice: a page in four must save a stall.
pub const LEFT_OUT_MAX: u64 = 3;
/// How long a speculation has to get on track, in microseconds. Choice: its start and its first faults take less.
pub const GRACE_US: u64 = 10_000;
/// Graces that it has to get ahead. Choice.
pub const LATE_GRACES: u64 = 3;
/// A shorter lead has pages left out, in microseconds. Measured: a hint takes the kernel hundreds of
/// microseconds at times, and a fault beside it waits for ticks of the kernel's clock.
pub const LEAD_US_MIN: u32 = 1_000;
/// Where so many stalls take longer than that, no page is left out. Choice: it costs more than it gains.
pub const LEAD_STALLS_MIN: u32 = 4;
/// From one page that is in memory to the next, in microseconds. Measured.
pub const HINTED_US: u32 = 5;
/// Pages that the original may have left out before one that it came to. Choice: half of what a speculator may hint for nothing.
pub const SKIPPED_MAX: usize = 8;
/// Values predicted without a checkpoint, at most. Choice: a checkpoint must not get too far behind.
pub const VALUES_MAX: u32 = 256;

// What call sites and executables are remembered for.

/// What did not pay is tried again once in so many times: another strategy at a call site that pays, and an agent in an executable
/// that gains nothing. Choice: a part in so many is lost.
pub const TIMES_APART: u64 = 64;
/// The logarithm of the payoff that a strategy is taken to have before it was tried. Choice: it survives one bad end.
pub const PAYOFF_FIRST: u64 = 3;
/// The same, of the least payoff that is worth a speculation. Choice: three hints.
pub const PAYOFF_WORTH: u64 = 2;
/// The same, of a payoff from which no other strategy is tried. Choice.
pub const PAYOFF_CONTENT: u64 = 6;
/// Executables that execute each other and share a gain, at most. Choice: `make`, a shell, `env` and `timeout` are four.
pub const LAUNCHERS_MAX: usize = 8;

// Trials.

/// Speculating before a first trial, in microseconds. Choice: harm for so long is borne.
pub const TRIAL_US_MIN: u64 = 500_000;
/// Stalls that a pause waits for. Source: their sum is known to a quarter.
pub const TRIAL_STALLS: u64 = 16;
/// Errors of a sum that are noise. Source: one sum in twenty is further off.
pub const TRIAL_NOISE_TIMES: u128 = 2;
/// Trials that confirm the numbers become so rare at most, as a power of 2. Choice: some seconds apart.
pub const TRIAL_APART_DOUBLINGS: u32 = 4;

// What the kernel reads ahead.

/// Where the kernel reads so much ahead of a program, hints of what is read in sequence gain nothing, in KiB. Source: a device of 1 to
/// 2 GB/s transfers a mebibyte in the time of a request, so that the program waits for the transfer alone.
pub const READ_AHEAD_FAR_KIB: u64 = 1024;

// Replays of profiles.

/// Steps that are carried out first, whatever they tell. Choice: the look-ups of a program's first libraries.
pub const REPLAYED_FIRST: usize = 32;
/// Samples are so many steps apart after that, and more where nothing waits. Choice: what a replay for nothing costs, as a part of a whole
/// one.
pub const REPLAY_APART: usize = 16;
/// Processor time of a step whose data is in memory. Measured: 3 to 5 us for a look-up, 8 for data.
pub const REPLAY_STEP_US: u32 = 5;
/// Look-ups of names that tell how many of them wait. Choice.
pub const REPLAY_NAMES: u32 = 16;
/// The most that credit comes to. Choice: 800 steps in memory are carried out behind what was not.
pub const REPLAY_CREDIT_US_MAX: u32 = 4_000;
/// A program that needs so many other things in a row is not the one of the profile. Choice: as many as judge a replay at first.
pub const REPLAY_OTHERS_MAX: u32 = 64;
/// A program that needs nothing new for so long may be one without an agent. Choice: longer than a large library takes to load.
pub const REPLAY_SILENT_US: u64 = 2_000_000;

// Libraries of a program.

/// Libraries in a row that were in memory, after which no more are examined. Choice: more than a cold program shares with others.
pub const LIBRARIES_IN_MEMORY_MAX: u32 = 16;

/// One piece of the code and constants of a program and its libraries in so many is touched soon after its start, at least. Measured: of
/// pieces of 128 KiB, start-ups of interpreters, compilers and databases touch 17 to 92 in a hundred.
pub const CODE_USED_ONE_IN: u64 = 4;

// Neighbours of what a program needs.

/// Processor time of a file or block that is read ahead, in microseconds, until the executor has seen one: the file is looked up,
/// opened, read and closed. Measured.
pub const NEIGHBOUR_US: u64 = 50;
/// Of a program whose waits are shorter on average nothing is read ahead, in microseconds. Choice: one neighbour in three must be needed
/// then.
pub const NEIGHBOUR_WAIT_US: u64 = 4 * NEIGHBOUR_US;
/// Neighbours that are read ahead at once before any was needed, and two more for each that was. Choice: a folder whose files are all
/// needed is in memory after a few opens.
pub const NEIGHBOURS_FIRST: u32 = 8;
/// Neighbours that waiting pays for at once, and the fewest behind what is read in sequence. Choice: where the program would wait for
/// each block again, one that comes a block ahead saves nothing, and ends the kernel's own readahead.
pub const NEIGHBOURS_TOGETHER: u64 = 4;
/// Stakes of neighbours that their savings can be kept for, in those of speculations: one that was needed pays for some ten others.
pub const NEIGHBOURS_BANKED: u64 = 16;

// Streams of files that programs fault through.

/// Areas of a file that have been touched in part, from which the touches are spread over the file. Choice: what is read in sequence has
/// touched one in part, and two when the last page of one is missing.
pub const STORM_AREAS_MIN: usize = 4;
/// Processor time of a page that is streamed, in nanoseconds. Measured: 4 GiB that are read ahead take a processor 2 s.
pub const STREAM_PAGE_NS: u64 = 2_000;

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
