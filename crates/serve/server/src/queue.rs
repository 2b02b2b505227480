//! Work by urgency for a few threads, as few of them awake as can do it.
//!
//! One thread works as long as it need not wait, so buffers of files in memory cost no switch between threads each. A thread that
//! has to wait for a disk wakes another one, so the disk has as many reads at once as there are threads. The thread that slept
//! last is woken first, because its memory is the warmest.

use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

/// Jobs; the greatest is the most urgent.
pub(crate) struct Queue<J> {
    state: Mutex<State<J>>,
}

struct State<J> {
    is_over: bool,
    jobs: BinaryHeap<J>,
    /// Threads that sleep until there is work.
    idle: Vec<Thread>,
    /// How many do neither that nor wait for a disk.
    awake: usize,
}

impl<J: Ord> Queue<J> {
    /// For so many threads, each of which has to call [`Queue::next`].
    pub fn new(threads: usize) -> Self {
        let state = State { is_over: false, jobs: BinaryHeap::new(), idle: Vec::new(), awake: threads };
        Self { state: Mutex::new(state) }
    }

    /// More to do. No thread is woken while another one works: that one finds the jobs after its present one.
    pub fn push(&self, jobs: impl IntoIterator<Item = J>) {
        let mut state = self.lock();
        state.jobs.extend(jobs);
        wake(state);
    }

    /// The most urgent job, if there is one now.
    pub fn try_next(&self) -> Option<J> {
        let mut state = self.lock();
        if state.is_over { None } else { state.jobs.pop() }
    }

    /// The most urgent job, as soon as there is one; `None` at the end.
    pub fn next(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                return Some(job);
            }
            let this = thread::current();
            state.awake -= 1;
            state.idle.push(this.clone());
            // The thread that wakes it takes it off the list; it may wake for no reason, too.
            while !state.is_over && state.idle.iter().any(|one| one.id() == this.id()) {
                drop(state);
                thread::park();
                state = self.lock();
            }
        }
    }

    /// Does what may have to wait for long, while others go on with what else there is to do.
    pub fn away<T>(&self, wait: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        state.awake -= 1;
        wake(state);
        let result = wait();
        self.lock().awake += 1;
        result
    }

    /// Has all threads end after what they are at.
    pub fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.idle.iter().for_each(Thread::unpark);
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a thread where there is work and none at it: once the lock is free, which it would wait for at once.
fn wake<J>(mut state: MutexGuard<'_, State<J>>) {
    let is_wanted = state.awake == 0 && !state.jobs.is_empty();
    let thread = if is_wanted { state.idle.pop() } else { None };
    state.awake += usize::from(thread.is_some());
    drop(state);
    if let Some(thread) = thread {
        thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Barrier};
    use std::time::{Duration, Instant};

    use super::*;

    /// For what takes a moment when nothing is wrong, on a machine that does much else.
    const LIMIT: Duration = Duration::from_secs(30);

    /// Waits until something is so, and fails after [`LIMIT`].
    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < LIMIT, "still not so: {what}");
            thread::yield_now();
        }
    }

    /// Starts threads that do with each job what is said, and waits until all of them sleep.
    fn sleepers(threads: usize, work: impl Fn(&Queue<u32>, u32) + Copy + Send + 'static) -> Arc<Queue<u32>> {
        let queue = Arc::new(Queue::new(threads));
        for _ in 0..threads {
            let queue = queue.clone();
            thread::spawn(move || {
                while let Some(job) = queue.next() {
                    work(&queue, job);
                }
            });
        }
        until("all threads sleep", || queue.lock().idle.len() == threads);
        queue
    }

    fn leaked<T>(value: T) -> &'static T {
        Box::leak(Box::new(value))
    }

    #[test]
    fn one_thread_does_all_jobs_that_need_not_wait_the_most_urgent_first() {
        let (sender, done) = channel();
        let sender: &Mutex<Sender<_>> = leaked(Mutex::new(sender));
        let queue = sleepers(3, move |_, job| {
            let _ = sender.lock().expect("a sender").send((job, thread::current().id()));
        });
        queue.push([3, 9, 1, 7]);
        let all: Vec<_> = (0..4).map(|_| done.recv_timeout(LIMIT).expect("a job is done")).collect();
        assert_eq!(all.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [9, 7, 3, 1]);
        assert!(all.iter().all(|(_, thread)| *thread == all[0].1), "{all:?}");
        queue.end();
    }

    #[test]
    fn a_thread_that_waits_lets_another_one_go_on() {
        // No thread goes on before all three wait at the same time.
        let barrier = leaked(Barrier::new(3));
        let (sender, done) = channel();
        let sender: &Mutex<Sender<_>> = leaked(Mutex::new(sender));
        let queue = sleepers(3, move |queue, job| {
            queue.away(|| barrier.wait());
            let _ = sender.lock().expect("a sender").send(job);
        });
        queue.push([1, 2, 3]);
        let mut all: Vec<_> = (0..3).map(|_| done.recv_timeout(LIMIT).expect("a job is done")).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
        queue.end();
    }

    #[test]
    fn work_that_comes_while_all_wait_is_done_after() {
        let (enter, entered) = channel();
        let (sender, done) = channel();
        let (resume, resumed) = channel::<()>();
        let senders: &Mutex<(Sender<_>, Sender<_>)> = leaked(Mutex::new((enter, sender)));
        let resumed: &Mutex<Receiver<()>> = leaked(Mutex::new(resumed));
        let queue = sleepers(1, move |queue, job| {
            if job == 1 {
                let _ = senders.lock().expect("senders").0.send(());
                queue.away(|| resumed.lock().expect("a receiver").recv_timeout(LIMIT)).expect("it goes on");
            }
            let _ = senders.lock().expect("senders").1.send(job);
        });
        queue.push([1]);
        entered.recv_timeout(LIMIT).expect("it has begun");
        queue.push([2]);
        resume.send(()).expect("it waits");
        assert_eq!([(); 2].map(|()| done.recv_timeout(LIMIT).expect("a job is done")), [1, 2]);
        queue.end();
    }

    #[test]
    fn at_the_end_no_thread_sleeps_on() {
        let queue = sleepers(2, |_, _| {});
        queue.end();
        assert!(queue.next().is_none() && queue.try_next().is_none());
        // Each thread has a part of it until it ends.
        until("all threads have ended", || Arc::strong_count(&queue) == 1);
    }
}
