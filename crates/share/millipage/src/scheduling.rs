//! Scheduling of the progress thread beside a program's threads on the same processor.
//!
//! A message must not wait for a processor: the progress thread preempts computing threads at once. The progress thread
//! also finishes its work before a thread that it wakes runs. A progress thread that is preempted right after a wake-up
//! would lose some milliseconds: it is not asleep then, so no message wakes it.

use std::{marker::PhantomData, mem, ptr};

/// The shortest that the kernel grants (sched_setattr(2)).
const SLICE_NS: u64 = 100_000;

/// Real-time priorities. Who holds what the progress thread spins for must not be kept from running by it, so it is real-time
/// only where both can be.
const OF_PROGRESS: u32 = 1;
const OF_THOSE_IT_WAITS_FOR: u32 = 2;

/// Has the calling thread come before others when it wakes, with the lowest real-time priority where this process may have
/// one. Elsewhere it asks for short slices of time, which is half of it: a thread that has just had more than its share waits
/// for the next tick of the clock all the same. Before Linux 6.12 slices change nothing.
pub fn set_realtime() {
    let become_real_time = |priority| attributes().is_some_and(|mine| set(&real_time(mine, priority)));
    if !(become_real_time(OF_THOSE_IT_WAITS_FOR) && become_real_time(OF_PROGRESS)) {
        schedule(libc::SCHED_OTHER, SLICE_NS);
    }
}

/// Has the calling thread, and those that it starts from now on, not come before others when it wakes.
pub fn set_batch() {
    schedule(libc::SCHED_BATCH, 0);
}

/// Does what starts threads that a progress thread waits for: they come before that one, where it comes first.
pub fn spawn_at_priority<R>(start: impl FnOnce() -> R) -> R {
    let before = attributes().filter(|mine| set(&real_time(*mine, OF_THOSE_IT_WAITS_FOR)));
    let started = start();
    before.iter().for_each(|before| {
        set(before);
    });
    started
}

/// Does what starts threads that no signal of the program is delivered to: a handler could wait for what its thread does.
pub fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    let _held = SignalsHeld::but(&[]);
    start()
}

/// Signals of the program wait until this is dropped: a handler could touch memory for which the calling thread is needed
/// itself, while that has the engine.
pub struct SignalsHeld {
    before: libc::sigset_t,
}

impl SignalsHeld {
    /// Has the calling thread's signals wait, but those of faults of its own.
    pub fn new() -> Self {
        Self::but(&[libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL])
    }

    fn but(these: &[libc::c_int]) -> Self {
        // SAFETY: zeros are a value of both sets, and the calls fill or read them.
        unsafe {
            let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
            libc::sigfillset(&raw mut all);
            for signal in these {
                libc::sigdelset(&raw mut all, *signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before }
        }
    }

    /// Says so, for as long as it is so.
    pub const fn quiet(&self) -> Quiet<'_> {
        Quiet(PhantomData)
    }

    /// Lets signals in while something is done.
    pub fn released<R>(&mut self, act: impl FnOnce() -> R) -> R {
        self.restore();
        let done = act();
        mem::forget(Self::new());
        done
    }

    fn restore(&self) {
        // SAFETY: the set is the one that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        self.restore();
    }
}

/// The calling thread runs no handler of the program. It stays in that thread.
#[derive(Clone, Copy, Debug)]
pub struct Quiet<'a>(PhantomData<(&'a SignalsHeld, *const ())>);

impl Quiet<'static> {
    /// In a thread of [`without_signals`], and in a handler of faults, which holds signals itself.
    pub const fn by_nature() -> Self {
        Self(PhantomData)
    }
}

/// Where the thread's policy is another than these two, the user chose it, and it stays.
fn schedule(policy: libc::c_int, slice_ns: u64) {
    let [normal, batch] = [libc::SCHED_OTHER, libc::SCHED_BATCH].map(|policy| policy as u32);
    if let Some(mut mine) = attributes().filter(|mine| [normal, batch].contains(&mine.sched_policy)) {
        mine.sched_policy = policy as u32;
        mine.sched_runtime = slice_ns;
        set(&mine);
    }
}

fn real_time(mut mine: libc::sched_attr, priority: u32) -> libc::sched_attr {
    (mine.sched_policy, mine.sched_priority) = (libc::SCHED_RR as u32, priority);
    (mine.sched_nice, mine.sched_runtime) = (0, 0);
    mine
}

/// Those of the calling thread.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: zeros are values of all fields, and the kernel fills as many bytes as it is told.
    unsafe {
        let mut mine: libc::sched_attr = mem::zeroed();
        mine.size = size_of::<libc::sched_attr>() as u32;
        let (me, flags) = (0, 0);
        (libc::syscall(libc::SYS_sched_getattr, me, &raw mut mine, mine.size, flags) == 0).then_some(mine)
    }
}

/// Whether the calling thread has these now.
fn set(attributes: &libc::sched_attr) -> bool {
    let (me, flags) = (0, 0);
    // SAFETY: the call reads what is there.
    unsafe { libc::syscall(libc::SYS_sched_setattr, me, &raw const *attributes, flags) == 0 }
}
