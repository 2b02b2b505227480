//! What a fault does in the thread that has touched the memory, in a signal handler that may have interrupted anything.

mod chance;
mod counting;

use std::{
    cell::Cell,
    hint::black_box,
    mem, ptr, slice,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use chance::{Deadline, leave_alternate_stack};
use counting::{counted, total};
use forebay_millipage::{Granularity, Host, Options, Placement, in_process};

/// For whatever takes a second on a machine that has nothing else to do.
const LIMIT: Duration = Duration::from_secs(120);
const SMALL: Options = Options { bytes: 1 << 20, views: 16, at: None, granularity: Granularity::Fine };

/// Each host touches rows at random: some that other hosts want too, and some of its own.
fn touch_at_random(host: &Host, seed: u64) {
    let rows = host.rows::<u64>(200, 4, Placement::Cyclic).unwrap();
    let mut dice = chance::of_thread(seed, host.rank().into());
    host.barrier().unwrap();
    for round in 0..2_000u64 {
        let row = rows.row(dice.usize(0..rows.len()));
        if dice.usize(0..3) == 0 {
            counted(|| row.set(1, round));
        } else {
            black_box(counted(|| row.get(1)));
        }
        if dice.usize(0..100) == 0 {
            host.lock(1).unwrap();
            host.unlock(1).unwrap();
        }
    }
    host.barrier().unwrap();
}

#[test]
fn a_fault_neither_allocates_nor_frees() {
    let _deadline = Deadline::new("touching at random", LIMIT);
    for (seed, hosts) in [(1, 2), (2, 3), (3, 6)] {
        let hosts = in_process(hosts, SMALL).unwrap();
        thread::scope(|scope| {
            for host in &hosts {
                scope.spawn(move || {
                    // Hosts of which some have less room in their handlers.
                    if seed != 2 || host.rank() > 0 {
                        leave_alternate_stack();
                    }
                    touch_at_random(host, seed);
                });
            }
        });
    }
    assert_eq!(total(), 0);
}

/// An alternate stack of this thread, full of a byte that nothing writes.
struct Stack(Box<[u8]>);

const UNTOUCHED: u8 = 0xa5;

impl Stack {
    fn new() -> Self {
        let mut stack = Self(vec![UNTOUCHED; 256 << 10].into_boxed_slice());
        let described =
            libc::stack_t { ss_sp: stack.0.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.0.len() };
        // SAFETY: the stack is this thread's until it ends.
        assert_eq!(unsafe { libc::sigaltstack(&raw const described, ptr::null_mut()) }, 0);
        stack
    }

    fn used(&self) -> usize {
        // SAFETY: the bytes are there; handlers that wrote to them have returned.
        let bytes = unsafe { slice::from_raw_parts(black_box(self.0.as_ptr()), self.0.len()) };
        bytes.iter().skip_while(|byte| **byte == UNTOUCHED).count()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        leave_alternate_stack();
    }
}

#[test]
fn a_fault_takes_little_of_an_alternate_stack() {
    let _deadline = Deadline::new("touching on an alternate stack", LIMIT);
    let hosts = in_process(3, SMALL).unwrap();
    // SAFETY: a constant is asked for.
    let of_signal = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    let most = of_signal + if cfg!(debug_assertions) { 8 << 10 } else { 3 << 10 };
    thread::scope(|scope| {
        for host in &hosts {
            scope.spawn(move || {
                let stack = Stack::new();
                touch_at_random(host, 9);
                let used = stack.used();
                assert!(
                    (of_signal / 2..most).contains(&used),
                    "{used} bytes, of which a signal takes {of_signal}"
                );
            });
        }
    });
}

thread_local! {
    /// Where the program's handler counts: in shared memory, and for who sends the signals.
    static COUNTED_IN: Cell<(*mut u64, *const AtomicUsize)> = const { Cell::new((ptr::null_mut(), ptr::null())) };
}

extern "C" fn count_in_shared_memory(_: libc::c_int) {
    let (word, handled) = COUNTED_IN.get();
    // SAFETY: the word is in a row of this thread's host, and no other thread writes it; who sends signals has the other.
    unsafe {
        word.write_volatile(word.read_volatile() + 1);
        (*handled).fetch_add(1, SeqCst);
    }
}

/// Signals this thread so often while it does something again and again. The handler counts in a word.
fn amid_signals(signals: usize, seed: usize, word: *mut u64, mut act: impl FnMut()) {
    let handled = AtomicUsize::new(0);
    COUNTED_IN.set((word, &raw const handled));
    // SAFETY: the calling thread's own.
    let me = unsafe { libc::pthread_self() };
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut dice = chance::of_thread(7, seed);
            for sent in 0..signals {
                // SAFETY: that thread waits for this one before it ends.
                assert_eq!(unsafe { libc::pthread_kill(me, libc::SIGUSR1) }, 0);
                while handled.load(SeqCst) == sent {
                    thread::yield_now();
                }
                chance::wait(&mut dice);
            }
        });
        while !sender.is_finished() {
            act();
        }
    });
}

#[test]
fn a_handler_that_touches_shared_memory_may_interrupt_any_call() {
    const SIGNALS: usize = 1_000;
    let _deadline = Deadline::new("handlers amid calls", LIMIT);
    // SAFETY: zeros are a value of the structure, and the handler calls nothing.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = count_in_shared_memory as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()), 0);
    }
    let hosts = in_process(2, SMALL).unwrap();
    thread::scope(|scope| {
        for host in &hosts {
            scope.spawn(move || {
                // What both want, so that a handler mostly faults.
                let counts = host.rows::<u64>(1, 2, Placement::On(0)).unwrap().row(0);
                let mine = usize::from(host.rank());
                // SAFETY: the row has two columns.
                let word = unsafe { counts.as_ptr().add(mine) };
                host.barrier().unwrap();
                amid_signals(SIGNALS, mine, word, || {
                    // One that both want, and one that this host manages and has at once.
                    for lock in [0, 2 + u32::from(host.rank())] {
                        host.lock(lock).unwrap();
                        host.unlock(lock).unwrap();
                    }
                });
                host.barrier().unwrap();
                assert_eq!(counts.get(mine), SIGNALS as u64);
                host.barrier().unwrap();
            });
        }
    });
}
