//! Every number of the policy, with its unit and its source: what decides whether something is done ahead, and how much. Policy,
//! agent and supervisor use the numbers from here.
//!
//! Where a source says *choice*, the number states what the product promises, or what its argument says. Where it says *measured*,
//! the figure comes from a guest with two processors on Linux 6.18; the costs that a run sees itself replace it (`fork.rs`). Where
//! it says *source*, the number follows from what is named. What follows from one of these numbers is derived where it is used.
//!
//! A number that decides nothing of this lies where it is used. Such are sizes of tables and buffers, formats of the kernel, pauses
//! between looks, bounds of waits, and what keeps measuring, recording and moving memory cheap. The crate of access profiles stands
//! alone, so the numbers of their format are there: which pages are one part, in `spans.rs`, and which holes are read, in `plan.rs`.

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
/// 1 in prices and parts that are learned or measured. Choice: a part in a thousand is within the scatter of what is measured.
pub const PRICE_ONE: i64 = 1024;
/// The weight of a sample in a mean, as a power of 1/2. Choice: the last few count.
pub const MEAN_WEIGHT: u32 = 3;

// What a speculation costs.

/// A request to a remote file system that takes less is not worth hints, in microseconds. Measured with bindfs: a hint there is a
/// look-up, an open, a read and a release, which together take the file system and the executor as much processor time.
pub const REMOTE_WORTH_US: u64 = 200;
/// Half of the time for which the kernel keeps names and attributes of remote file systems as a rule, in milliseconds. Source:
/// libfuse's default is a second, and others keep them longer.
pub const REMOTE_KEPT_MS: u64 = 500;
/// Requests on a remote file system, before it is judged whether hints pay there. Choice: a file system that serves
/// several at once has shown it by then, and what these cost is little.
pub const REMOTE_JUDGED_AFTER: u64 = 32;

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
/// The size of a process that is about to be forked is taken to stay for so long, in microseconds. Choice: a look at it costs some
/// tens of microseconds, so that looks take less than a part in a hundred.
pub const WEIGHED_US: u64 = 10_000;
/// The same while a speculation is live and copied pages may cost more than it spares, in microseconds. Choice: how
/// many of its page faults were copies is judged by its growth, which decides there.
pub const WEIGHED_AGAIN_US: u64 = 2_000;
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
/// Page faults of a speculator's own that waited, after which it looks for what was swapped out meanwhile. Choice: fewer may be pages
/// that no look would have found.
pub const OWN_WAITS_MIN: u64 = 4;
/// The time that such faults must have taken, in microseconds. Choice: a look at all of a large memory takes as long.
pub const OWN_WAITED_US_MIN: u64 = 4_000;
/// Stalls that a speculator may spend without a hint. Choice: a later hint could hardly make up for more.
pub const IDLE_STALLS: u64 = 20;
/// A speculator that has yet to reach the original may spend so many times as much. Choice: it goes through what the original has
/// in memory.
pub const CATCHING_UP: u64 = 4;
/// What processor time of a speculator costs an original that runs at the same time, in 1/[`PRICE_ONE`]: they share caches, and
/// often a core. Measured: an interpreter takes 1.1 to 1.7 of its processor time while the other processor of a guest is busy.
pub const BESIDE_PRICE: u64 = 256;
/// After so many periods with work a quota of processor time is judged. Choice: one period may have been the program's start.
pub const QUOTA_PERIODS_MIN: f64 = 2.0;
/// A quota that runs out in one period of so many holds the program back, and there are no speculators. Choice: in the others there is
/// time that nothing else wants. Measured: a program that computes under a quota of 20 % lost up to 0.3 s of 0.8 s to a speculator.
pub const QUOTA_PERIODS: f64 = 2.0;
/// What a page counts as, that a speculator takes, in microseconds of processor time. Measured: two programs that fill memory at
/// once take 1 to 2 us a page longer where it comes from the host, and it is the original that waits.
pub const PAGE_US: u64 = 8;

// Stalls and their signals.

/// A call on a file that takes longer may be a stall, in microseconds. Choice: well above what a cached read takes, well below a
/// device.
pub const STALL_US_MIN: u64 = 20;
/// So many times as long must a call take to count as a stall, where it is not known whether its thread has waited before. Choice: a
/// busy call rarely takes 160 us, and most disks do.
pub const FIRST_STALL_TIMES: u64 = 8;
/// Reads that are probed for a coming stall, after one when the policy is armed. Choice: a program that reads so often without a wait
/// has left what it waited for, and each probe is a system call more.
pub const PROBES_MAX: u32 = 64;
/// What one stall may count as, in mean stalls: a wait of seconds says nothing of those to come. Choice.
pub const STALL_TIMES_MAX: u64 = 4;
/// A request has waited for no other as long as it takes less than this many quarters of one alone. Beside hints in flight a stall is
/// delayed by what it takes more. Choice: one quarter is within the scatter of a disk.
pub const DELAYED_QUARTERS: u64 = 5;
/// A thread that ends a speculation waits so long at most for another one that is about to fork, in microseconds. Choice: the fork
/// of 1 GiB takes 16 to 30 ms.
pub const FORK_AWAITED_US: u64 = 50_000;
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
/// Memory whose page faults are looked at, in bytes: of a process that asks for signals, and of a file that may have a storm. Choice:
/// the kernel's readahead brings all of less in some hundred requests.
pub const FAULTED_BYTES_MIN: u64 = 16 << 20;
/// What a mapped file counts for in that at least, in bytes. Source: the kernel reads so much at once, so that the first fault in a
/// small file may wait as long as one for so much of a large one.
pub const MAPPED_FILE_BYTES_MIN: usize = 128 << 10;
/// Page faults of a process between two looks of the supervisor, from which it or its thread gets an event. Choice: fewer are worth
/// less than the event costs to open.
pub const EVENT_FAULTS_MIN: u64 = 4;
/// So many times as many faults as a thread with an event another thread must have had, to take its place. Choice: threads that fault
/// about equally often do not take turns, each of which opens an event.
pub const EVENT_BUSIER_TIMES: u64 = 2;

// Prefetches in flight on a device.

/// Requests that a device is taken to serve at once, as long as none has waited for another. Choice: where it is worth a trial, the
/// first batch is as large and tells. What is foretold is needed in this order, so that a device which serves one at a time loses
/// nothing, and one of 1 ms is learned in two rounds instead of five.
pub const AT_ONCE_HOPED: u32 = 32;
/// Prefetches in flight before anything is known, a power of 2. Choice: with fewer, a device that serves several at once hardly shows
/// it; with more, one that serves one at a time delays the original's first reads by as many.
pub const IN_FLIGHT_FIRST: u32 = 4;
/// Most prefetches in flight on one device, a power of 2. Choice: a device of 128 channels gets 224.
pub const IN_FLIGHT_MAX: u32 = 256;
/// Prefetches in flight for each channel of a device. Choice: enough over one that no channel idles while a completion is noticed. A
/// read of the original waits about one service time more.
pub const IN_FLIGHT_PER_CHANNEL: f64 = 1.75;
/// Requests in flight on a device that has no place in the channel, or of which nothing is told. Choice: half of what a device
/// is hoped to serve at once, because nothing is learned there.
pub const IN_FLIGHT_UNKNOWN: u32 = 16;
/// A latency of more than so many times that of a request alone is a wait for others. In a process of low priority it may be one for a
/// processor. Choice: twice as far off as what counts as no wait.
pub const QUEUED_TIMES: f64 = 1.5;
/// A latency that is below the time of a request alone by more than one part in so many of a factor of 2 is no scatter. Choice: 16 %,
/// nearly the scatter of a disk.
pub const BASE_SCATTER_PART: i32 = 4;
/// One sample raises the time of a request alone by one part in so many of a factor of 2. Choice: some twenty samples show that a
/// device became slower, and a single slow one does not.
pub const BASE_RISE_PART: i32 = 32;
/// Long latencies in a row that are taken for waits for a processor. Choice: as many in a row are no chance.
pub const UNBELIEVED_MAX: u32 = 7;
/// Samples with which an estimate of a device is young and follows each of them fast. Choice: the first batch.
pub const DEVICE_YOUNG: u32 = 4;
/// Completions that must have told how many requests a device serves at once, before that is believed. Choice: one alone may have
/// waited for a processor.
pub const SERVED_TOLD_MIN: u32 = 2;
/// A request that waited for others counts as so many that did not. Choice: one that did not tells less, because nothing may have
/// been in its way.
pub const QUEUED_WEIGHT: u32 = 2;
/// Requests that must have waited for others, over those that did not, before a device is taken to serve no more at once. Choice: one
/// that needs several reads in a row looks as if it had waited, too.
pub const QUEUED_REQUESTS_MIN: u32 = 4;
/// What that count comes to at most, with its weights. Choice: a device that becomes free shows it within eight requests.
pub const QUEUED_MAX: u32 = 15;
/// Prefetches that must be under way for a stall to tell how many requests the device serves at once. Choice: a stall of two reads
/// instead of one must not look like a device that serves one at a time.
pub const BESIDE_STALL_MIN: u32 = 3;
/// What it takes to be woken after a completion, with all processors idle, in microseconds. Choice: about what an idle
/// processor of a guest takes. On a device as fast as that it counts.
pub const WAKE_UP_US: u64 = 30;
/// Of prefetches that must have landed long ago, one in so many is waited for all the same, because it tells of the device. Choice:
/// asking costs as much as another hint.
pub const LANDED_ASKED_ONE_IN: u32 = 8;
/// A request of the executor is late by far, and given up, when it takes so many times what one alone takes. Choice: behind a full
/// queue one takes a few times as long, and an answer so late comes behind the program.
pub const LATE_TIMES: u64 = 32;
/// No request is late by far before this, in milliseconds. Choice: a machine that is busy delays one by as much.
pub const LATE_MS_MIN: u64 = 200;
/// A job of the executor that takes so long waits for a device, in microseconds. Measured: 3 to 8 where the data is in memory.
pub const JOB_WAITS_US: u64 = 30;
/// Threads of the executor at work at most, besides those that wait. Choice: a job in memory takes 5 us, of which it holds the
/// executor's locks for about one.
pub const AT_WORK_MAX: usize = 4;

// Whether a speculation is on track, and how far ahead.

/// Stalls in a row that no prediction foresaw, after which a live speculation is off track. Choice: one may be a call that it
/// skipped.
pub const STRAYED_STALLS: u32 = 3;
/// Pages that may be hinted and not yet used, before a hint was used. Measured: enough that a device with a queue is busy.
pub const AHEAD_FREE: u64 = 16;
/// Pages left out that count, for each one hinted that the original came to. Choice: a page in four must save a stall.
pub const LEFT_OUT_MAX: u64 = 3;
/// How long a speculation has to get on track, and to be of use to other threads than the one it follows, in microseconds. Choice: its
/// start and its first faults take less.
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
/// Hints between looks at which pages the original has reached. Choice: twice what may be ahead for nothing, so that a look costs a
/// small part of its hints.
pub const HINTS_A_LOOK: usize = 32;
/// Pages of zeros for one place that the original has reached, after which all there are taken to be good. Choice: as many as a stream
/// fills at once, so that one batch of values that do not matter is not enough to tell.
pub const CONFIDENT_PAGES: u64 = 64;
/// Hints used after a checkpoint went on, from which it was worth it. Choice: half of what a speculation may have ahead for nothing.
pub const REPAIR_WORTH_HINTS: u64 = 8;
/// Checkpoints in a row that were not worth it, after which the speculation ends instead. Choice: a checkpoint may have been made just
/// before what led off track; three in a row were not.
pub const FUTILE_REPAIRS_MAX: u32 = 2;
/// A speculator of which the original uses nothing for so long ends, in seconds. Choice: longer than a program computes between waits,
/// as a rule, and short for a process that holds memory.
pub const UNFOLLOWED_S: u64 = 30;
/// Entries of the log that a speculator on a remote file system may be ahead, while it is not known how fast the original follows.
/// Choice: as many requests as such a file system is hoped to serve at once.
pub const NEAR_ENTRIES_MIN: u64 = 32;
/// Values predicted without a checkpoint, at most. Choice: a checkpoint must not get too far behind.
pub const VALUES_MAX: u32 = 256;

// What is hinted of files.

/// What is hinted of the beginning of a file whose contents cannot be followed, in bytes. Choice: headers and indexes of most formats
/// are shorter, and it is two of the requests that the kernel makes at once.
pub const BEGINNING_BYTES: u64 = 256 << 10;
/// What is hinted of the end of such a file, in bytes. Choice: directories of archives lie there, which are shorter as a rule.
pub const ENDING_BYTES: u64 = 64 << 10;
/// How long a speculator waits for a directory whose entries may be in memory, in microseconds. Choice: the executor is woken and lists
/// it in less, and a device takes longer.
pub const DIRECTORY_WAIT_US: u64 = 60;
/// What is hinted of a file whose look-up is cold when it is opened, in bytes. Choice: most files are read as a whole then, and one
/// that is not costs a request that a device carries out as soon as a smaller one.
pub const OPENED_BYTES: u64 = 64 << 10;
/// The size that a file is taken to have while that is not known, in bytes. Choice: a program that asks for the size reads the file in
/// a call or two then.
pub const SIZE_PREDICTED: u64 = 16 << 10;
/// Of a file that is read in sequence, what is hinted ahead at first, in windows of the kernel's readahead. Choice: one that the device
/// works on while the program uses another one.
pub const SEQUENCE_WINDOWS_MIN: u64 = 2;
/// The same at most. Choice: more requests of this size than a device works on at once gain nothing.
pub const SEQUENCE_WINDOWS_MAX: u64 = 64;
/// Requests among which a file system that waits for the data does so twice, as a rule. Choice: one wait may be for where the data are,
/// and such a file system may read several files at once.
pub const ADVICE_WAITS_AMONG: u64 = 16;

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

// Memory.

/// Part of the memory of the machine or the program's control group that prefetches not yet used may fill, and that a speculator may
/// add. Choice: what is foretold in error displaces little, and a speculator with a quarter of that is of use (`SHORT_PART`).
pub const MEMORY_PART: u64 = 8;
/// What prefetches not yet used may fill at most, in bytes. Choice: a fast device brings as much in a tenth of a second, and a
/// speculator that is further ahead gains nothing.
pub const AHEAD_BYTES_MAX: u64 = 256 << 20;
/// What a speculator may add at most, in bytes, unless the user says otherwise. Choice: a mistaken program that fills memory is stopped
/// within a second.
pub const SPECULATOR_BYTES_MAX: u64 = 1 << 30;
/// Both limits before the machine's memory is known, in bytes. Choice: what a machine with 512 MiB allows.
pub const MEMORY_BYTES_FIRST: u64 = 64 << 20;
/// Part of the available memory that a replay, or the stream of one file, may fill. Choice: three quarters are
/// left for what the program reads besides.
pub const READ_AHEAD_PART: u64 = 4;
/// The machine's memory is full where less than this part of it is available. Choice: the kernel evicts pages
/// below about a hundredth, and a program that grows takes a few looks from here to there.
pub const FULL_PART: u64 = 16;
/// Memory is short where tasks waited for it for more than this part of the time. Choice: a millisecond in
/// a second is no chance.
pub const MEMORY_WAITED_PART: u64 = 1_000;
/// Memory is also short where little is left and more pages than this had to be swapped in again in a second. Choice: such pages may
/// be no wait for memory to the kernel, and a few come back on any machine.
pub const MISSED_A_SECOND: u64 = 16;
/// How long a process in a full group counts as short of memory after a fault that it was told of, in seconds. Choice: a few looks of
/// the supervisor, which tells what follows.
pub const FAULT_SHORT_S: u64 = 4;
/// How long memory counts as short after it was, in seconds; and how long it must be unknown to count so. Choice: longer than between
/// trials, so that a shortage that comes and goes does not keep memory control from them.
pub const SHORT_KEPT_S: u64 = 20;
/// Anonymous mappings that a speculator moves to its shadow region, in bytes, at least. Choice: a smaller one costs calls and a mapping
/// or two, and all of it is four waits at most.
pub const SHADOWED_BYTES_MIN: usize = 128 << 10;
/// The same of mappings of files. Choice: all of a smaller one is a wait or two of the kernel's readahead.
pub const SHADOWED_FILE_BYTES_MIN: usize = 256 << 10;
/// Shared memory that a speculator copies at most, in bytes. Choice: the copy of more takes longer than most stalls, at each fork.
pub const SHARED_BYTES_MAX: usize = 64 << 20;

// What the kernel reads ahead.

/// Where the kernel reads so much ahead of a program, hints of what is read in sequence gain nothing, in KiB. Source: a device of 1 to
/// 2 GB/s transfers a mebibyte in the time of a request, so that the program waits for the transfer alone.
pub const READ_AHEAD_FAR_KIB: u64 = 1024;
/// A process without a speculation for so long runs alone, and gets the kernel's readahead of swap back, in milliseconds. Choice: in
/// shorter pauses a larger window does harm, because speculation brings the same pages and there is room for one of them.
pub const ALONE_MS: u64 = 500;
/// Smaller mappings of it are left alone, in bytes. Choice: all of one is a few dozen waits of eight pages.
pub const SWAPPED_BYTES_MIN: u64 = 1 << 20;
/// Mappings of it that get their readahead back, the largest first. Choice: each takes some waits for the swap device.
pub const SWAPPED_MAPPINGS_MAX: usize = 8;

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
/// Needs of a run by which its replay is judged. Choice: few enough that a wrong profile is noticed before much is read,
/// and enough that names which differ from run to run do not decide.
pub const REPLAY_JUDGED_NEEDS: u32 = 64;
/// A program that needs so many other things in a row is not the one of the profile. Source: as many judge a replay at first.
pub const REPLAY_OTHERS_MAX: u32 = REPLAY_JUDGED_NEEDS;
/// A program that needs nothing new for so long may be one without an agent. Choice: longer than a large library takes to load.
pub const REPLAY_SILENT_US: u64 = 2_000_000;
/// Needs of a run by which it is known. Choice: what a program needs before it begins its work.
pub const KNOWN_NEEDS: usize = 256;
/// One in so many of them may be new in a known run. Choice: names that differ from run to run.
pub const KNOWN_NEW_PART: usize = 16;
/// So many steps of the replay may have to wait in a known run. Choice: for a folder that is new in each run.
pub const KNOWN_WAITS_MAX: u64 = 3;
/// For so long a known run teaches a profile nothing, in seconds. Choice: what changes slowly in a command is learned within a day.
pub const TAUGHT_S: u64 = 24 * 60 * 60;

// Programs without an agent.

/// Looks at what their threads wait for take at most this part of a processor. Choice: a wait of a disk is seen, and a program that
/// computes on all processors loses a small part of one.
pub const WAITS_LOOK_PART: u32 = 8;
/// While nothing new is waited for, a pause between looks is this part of the time since something was. Choice: looks become few, and a
/// phase of waits that begins is seen after as small a part of the time before it.
pub const WAITS_QUIET_PART: u32 = 8;

// Libraries of a program.

/// Libraries in a row that were in memory, after which no more are examined. Choice: more than a cold program shares with others.
pub const LIBRARIES_IN_MEMORY_MAX: u32 = 16;

/// Libraries that are read ahead because a program has looked them up, before it is known whether it maps such ones. Choice: what they
/// cost a program that only lists folders is little.
pub const LIBRARIES_TRUSTED: usize = 4;
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
/// Stakes of neighbours that their savings can be kept for, in those of speculations. Choice: one that was needed pays for some ten
/// others.
pub const NEIGHBOURS_BANKED: u64 = 16;

/// Blocks of a file that can be neighbours, at least. Source: so many are read together.
pub const NEIGHBOUR_BLOCKS_MIN: u64 = NEIGHBOURS_TOGETHER;
/// Reads of a file from which its blocks are neighbours: in other blocks than the last one or the next, or in a row. Choice: fewer are a
/// header and what it names.
pub const NEIGHBOUR_READS_MIN: u32 = 4;
/// Blocks of 128 KiB that are neighbours behind what was read in a row, at most. Choice: 32 MiB are as much as a fast device reads while
/// a thread of the executor waits to run.
pub const NEIGHBOURS_BEHIND_MAX: usize = 256;
/// Folders of a tree that were listed, from which the program is taken to go through it. Choice: one alone has been looked at.
pub const NEIGHBOUR_LISTINGS_MIN: u32 = 2;

// Streams of files that programs fault through.

/// Page faults of the machine, and of a process, between two looks, that are worth a closer look. Choice: fewer cost the program less
/// than looks at page maps.
pub const STORM_FAULTS_MIN: u64 = 16;
/// A file of which nothing was touched for so long is not watched any more, in milliseconds. Choice: a storm has a fault each few
/// milliseconds.
pub const STORM_IDLE_MS: u64 = 1_000;

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
