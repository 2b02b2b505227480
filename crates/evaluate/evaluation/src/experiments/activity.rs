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
    /// It waits for another thread: a lock, or work.
    Lock,
    /// It waits until what it sends is taken.
    Send,
    /// It sleeps for a time of its own choice.
    Asleep,
    /// It waits for requests, or for what cannot be told.
    Idle,
}

/// The system call that a thread waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// None: it waits in a page fault.
    None,
    /// For another thread.
    Futex,
    /// To send.
    Send,
    /// For a time.
    Sleep,
    /// For anything else.
    Other,
}

impl Activity {
    /// By the letter of its state and the call, where that may be known.
    #[must_use]
    pub fn of(state: char, call: Option<Call>) -> Self {
        match (state, call) {
            ('R', _) => Self::Processor,
            ('D', Some(Call::None)) => Self::Fault,
            ('D', _) => Self::Disk,
            ('S', Some(Call::Futex)) => Self::Lock,
            ('S', Some(Call::Send)) => Self::Send,
            ('S', Some(Call::Sleep)) => Self::Asleep,
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
    /// [`Activity::Send`].
    pub send: f64,
    /// [`Activity::Asleep`].
    pub asleep: f64,
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
            send: mean(self.send),
            asleep: mean(self.asleep),
            idle: mean(self.idle),
        }
    }

    /// All of them.
    #[must_use]
    pub fn number(self) -> f64 {
        self.busy() + self.idle
    }

    /// Those that wait for each other, or sleep, more than they do without a load: a pool without work does too.
    #[must_use]
    pub(crate) fn beyond(self, at_rest: Self) -> Self {
        let lock = (self.lock - at_rest.lock).max(0.0);
        let asleep = (self.asleep - at_rest.asleep).max(0.0);
        Self { lock, asleep, idle: self.idle + (self.lock - lock) + (self.asleep - asleep), ..self }
    }

    /// No more of them wait for a lock than have something to do; the others wait for work.
    #[must_use]
    pub(crate) fn behind_locks_at_most(self, with_work: f64) -> Self {
        let lock = self.lock.min(with_work);
        Self { lock, idle: self.idle + self.lock - lock, ..self }
    }

    /// Those that are not idle.
    pub(crate) fn busy(self) -> f64 {
        self.processor + self.fault + self.disk + self.lock + self.send + self.asleep
    }
}

impl AddAssign<Activity> for Threads {
    fn add_assign(&mut self, activity: Activity) {
        *match activity {
            Activity::Processor => &mut self.processor,
            Activity::Fault => &mut self.fault,
            Activity::Disk => &mut self.disk,
            Activity::Lock => &mut self.lock,
            Activity::Send => &mut self.send,
            Activity::Asleep => &mut self.asleep,
            Activity::Idle => &mut self.idle,
        } += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_memory_is_told_from_one_for_a_file_by_the_call() {
        assert_eq!(Activity::of('D', Some(Call::None)), Activity::Fault);
        assert_eq!(Activity::of('D', Some(Call::Other)), Activity::Disk);
        assert_eq!(Activity::of('S', None), Activity::Idle);
    }

    #[test]
    fn a_pool_without_work_waits_for_no_lock() {
        let at_rest = Threads { lock: 50.0, ..Threads::default() };
        let loaded = Threads { lock: 40.0, processor: 2.0, ..Threads::default() }.beyond(at_rest);
        assert_eq!((loaded.lock, loaded.idle, loaded.busy()), (0.0, 40.0, 2.0));
    }
}
