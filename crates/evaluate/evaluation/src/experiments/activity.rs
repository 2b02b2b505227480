//! What threads of a server do at a moment, by what `/proc` tells of them (proc_pid_stat(5), proc_pid_syscall(5)).

use std::ops::AddAssign;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It runs, or waits for a processor.
    Processor,
    /// It touched memory that is not there.
    Fault,
    /// It waits for a file in a system call.
    Disk,
    /// It waits for a lock, or for work, together with others.
    Lock,
    /// It waits for the address space of its process, which each change of it locks.
    AddressSpace,
    /// It waits for another thread, alone: a lock that only two want, or a pool that parks each thread apart.
    Parked,
    /// It waits until what it sends is taken.
    Send,
    /// It sleeps for a time of its own choice.
    Asleep,
    /// It waits for another program: a server that it asked, or a process at the end of a pipe.
    Other,
    /// It waits for requests, or for what cannot be told.
    Idle,
}

/// The system call that a thread waits in, by what that waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// None: it waits in a page fault.
    None,
    /// For another thread, on a word at this address.
    Futex {
        /// The address.
        word: u64,
        /// Whether the wait ends by itself after a time.
        timed: bool,
    },
    /// For a lock of the kernel's: of files, or of the address space where it changes that.
    Lock,
    /// It changes the address space.
    AddressSpace,
    /// To send.
    Send,
    /// For a time.
    Sleep,
    /// For a file.
    File,
    /// For another program.
    Other,
    /// For a process that it started itself, which is looked at by itself.
    Child,
    /// For anything else.
    Unknown,
}

impl Activity {
    /// By the letter of its state and the call, where that may be known. Whether others wait at the same word is told later:
    /// see [`Threads::parked_together`].
    #[must_use]
    pub fn of(state: char, call: Option<Call>) -> Self {
        match (state, call) {
            ('R', _) => Self::Processor,
            ('D' | 'S', Some(Call::Child)) => Self::Idle,
            ('D' | 'S', Some(Call::AddressSpace)) => Self::AddressSpace,
            ('D' | 'S', Some(Call::Lock)) => Self::Lock,
            ('D', Some(Call::None)) => Self::Fault,
            ('D', _) | ('S', Some(Call::File)) => Self::Disk,
            ('S', Some(Call::Futex { .. })) => Self::Parked,
            ('S', Some(Call::Send)) => Self::Send,
            ('S', Some(Call::Sleep)) => Self::Asleep,
            ('S', Some(Call::Other)) => Self::Other,
            _ => Self::Idle,
        }
    }
}

/// How many threads did what, on the average over some samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Threads {
    /// [`Activity::Processor`].
    pub processor: f64,
    /// [`Activity::Fault`].
    pub fault: f64,
    /// [`Activity::Disk`].
    pub disk: f64,
    /// [`Activity::Lock`].
    pub lock: f64,
    /// [`Activity::AddressSpace`].
    pub address_space: f64,
    /// [`Activity::Parked`].
    pub parked: f64,
    /// [`Activity::Send`].
    pub send: f64,
    /// [`Activity::Asleep`].
    pub asleep: f64,
    /// [`Activity::Other`].
    pub other: f64,
    /// [`Activity::Idle`].
    pub idle: f64,
}

impl Threads {
    /// These sums, over so many samples.
    #[must_use]
    pub fn mean_of(self, samples: u32) -> Self {
        let mean = |sum: f64| sum / f64::from(samples.max(1));
        Self {
            processor: mean(self.processor),
            fault: mean(self.fault),
            disk: mean(self.disk),
            lock: mean(self.lock),
            address_space: mean(self.address_space),
            parked: mean(self.parked),
            send: mean(self.send),
            asleep: mean(self.asleep),
            other: mean(self.other),
            idle: mean(self.idle),
        }
    }

    /// Adds a thread that stands for `weight` threads.
    pub fn add(&mut self, activity: Activity, weight: f64) {
        *match activity {
            Activity::Processor => &mut self.processor,
            Activity::Fault => &mut self.fault,
            Activity::Disk => &mut self.disk,
            Activity::Lock => &mut self.lock,
            Activity::AddressSpace => &mut self.address_space,
            Activity::Parked => &mut self.parked,
            Activity::Send => &mut self.send,
            Activity::Asleep => &mut self.asleep,
            Activity::Other => &mut self.other,
            Activity::Idle => &mut self.idle,
        } += weight;
    }

    /// So many of those that were parked wait at words where others wait too: for a lock.
    pub fn parked_together(&mut self, threads: f64) {
        self.parked -= threads;
        self.lock += threads;
    }

    /// All of them.
    #[must_use]
    pub fn number(self) -> f64 {
        self.busy() + self.parked + self.other + self.idle
    }

    /// Those that wait for each other or for others, or sleep, more than they do without a load: a pool without work does too.
    #[must_use]
    pub(crate) fn beyond(self, at_rest: Self) -> Self {
        let more = |loaded: f64, at_rest: f64| (loaded - at_rest).max(0.0);
        let lock = more(self.lock, at_rest.lock);
        let parked = more(self.parked, at_rest.parked);
        let asleep = more(self.asleep, at_rest.asleep);
        let other = more(self.other, at_rest.other);
        let gone = self.lock - lock + self.parked - parked + self.asleep - asleep + self.other - other;
        Self { lock, parked, asleep, other, idle: self.idle + gone, ..self }
    }

    /// No more of them wait for a lock than have something to do; the others wait for work.
    #[must_use]
    pub(crate) fn behind_locks_at_most(self, with_work: f64) -> Self {
        let lock = self.lock.min(with_work);
        Self { lock, idle: self.idle + self.lock - lock, ..self }
    }

    /// As many of them computed at a time as the kernel counted. Who looks takes a processor meanwhile: one that waits for what runs
    /// there is found idle.
    #[must_use]
    pub(crate) fn computing_at_least(self, counted: f64) -> Self {
        let more = (counted - self.processor).clamp(0.0, self.idle);
        Self { processor: self.processor + more, idle: self.idle - more, ..self }
    }

    /// No more of them sleep on behalf of requests; the others are idle.
    #[must_use]
    pub(crate) fn asleep_at_most(self, threads: f64) -> Self {
        let asleep = self.asleep.min(threads);
        Self { asleep, idle: self.idle + self.asleep - asleep, ..self }
    }

    /// Those that do something that has a name of its own.
    pub(crate) fn busy(self) -> f64 {
        self.processor + self.fault + self.disk + self.lock + self.address_space + self.send + self.asleep
    }
}

impl AddAssign<Activity> for Threads {
    fn add_assign(&mut self, activity: Activity) {
        self.add(activity, 1.0);
    }
}

/// How long threads that wait for events are ready to wait, counted by powers of two of a millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timeouts([f64; Self::STEPS]);

impl Timeouts {
    const STEPS: usize = 17;

    /// Adds a thread that waits for events until so many seconds have passed at most.
    pub fn add(&mut self, seconds: f64, weight: f64) {
        let step = (seconds.max(0.0) * 1e3).log2().ceil().clamp(0.0, (Self::STEPS - 1) as f64);
        self.0[step as usize] += weight;
    }

    /// These sums, over so many samples.
    #[must_use]
    pub fn mean_of(self, samples: u32) -> Self {
        Self(self.0.map(|sum| sum / f64::from(samples.max(1))))
    }

    /// Threads that wait for at most `seconds`, beyond those that do so at rest.
    #[must_use]
    pub fn within(&self, seconds: f64, at_rest: &Self) -> f64 {
        let ends = |step: &(usize, f64)| 2f64.powi(step.0 as i32) * 1e-3 <= seconds.max(1e-3);
        let all = |of: &Self| {
            of.0.iter().copied().enumerate().filter(ends).map(|(_, threads)| threads).sum::<f64>()
        };
        (all(self) - all(at_rest)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_memory_is_told_from_one_for_a_file_by_the_call() {
        assert_eq!(Activity::of('D', Some(Call::None)), Activity::Fault);
        assert_eq!(Activity::of('D', Some(Call::Unknown)), Activity::Disk);
        assert_eq!(Activity::of('S', None), Activity::Idle);
        // vfork(2) waits like that.
        assert_eq!(Activity::of('D', Some(Call::Child)), Activity::Idle);
    }

    #[test]
    fn what_changes_the_address_space_waits_for_no_disk() {
        assert_eq!(Activity::of('D', Some(Call::AddressSpace)), Activity::AddressSpace);
        assert_eq!(Activity::of('D', Some(Call::Lock)), Activity::Lock);
    }

    #[test]
    fn threads_that_wait_at_one_word_wait_for_a_lock() {
        assert_eq!(Activity::of('S', Some(Call::Futex { word: 8, timed: false })), Activity::Parked);
        let mut threads = Threads { parked: 5.0, ..Threads::default() };
        threads.parked_together(4.0);
        assert_eq!((threads.parked, threads.lock), (1.0, 4.0));
    }

    #[test]
    fn a_pool_without_work_waits_for_no_lock() {
        let at_rest = Threads { lock: 50.0, ..Threads::default() };
        let loaded = Threads { lock: 40.0, processor: 2.0, ..Threads::default() }.beyond(at_rest);
        assert_eq!((loaded.lock, loaded.idle, loaded.busy()), (0.0, 40.0, 2.0));
    }

    #[test]
    fn timeouts_that_a_server_has_at_rest_pace_no_requests() {
        let (mut loaded, mut at_rest) = (Timeouts::default(), Timeouts::default());
        [0.0005, 0.003, 60.0].into_iter().for_each(|seconds| loaded.add(seconds, 1.0));
        at_rest.add(0.003, 1.0);
        assert_eq!(loaded.within(0.01, &Timeouts::default()), 2.0);
        assert_eq!(loaded.within(0.01, &at_rest), 1.0);
        assert_eq!(loaded.within(0.002, &at_rest), 1.0);
    }
}
