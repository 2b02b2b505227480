//! What a fault does in the thread that has touched the memory, in a signal handler that may have interrupted anything.

mod chance;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
    ptr, slice,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::Duration,
};

use chance::{Deadline, Dice, leave_alternate_stack};
use forebay_millipage::{Granularity, Host, Options, Placement, in_process};

thread_local! {
    /// The thread touches shared memory, and calls nothing else.
    static IS_TOUCHING: Cell<bool> = const { Cell::new(false) };
}

/// Allocations, and what was given back, by threads in a fault.
static IN_FAULTS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    IN_FAULTS.fetch_add(IS_TOUCHING.get().into(), SeqCst);
}

fn touching<R>(act: impl FnOnce() -> R) -> R {
    IS_TOUCHING.set(true);
    let result = act();
    IS_TOUCHING.set(false);
    result
}

/// For whatever takes a second on a machine that has nothing else to do.
const LIMIT: Duration = Duration::from_secs(120);
const SMALL: Options = Options { bytes: 1 << 20, views: 16, at: None, granularity: Granularity::Fine };

/// Each host touches rows at random: some that other hosts want too, and some of its own.
fn touch_at_random(host: &Host, seed: u64) {
    let rows = host.rows::<u64>(200, 4, Placement::Cyclic).unwrap();
    let mut dice = Dice::new(seed, host.rank().into());
    host.barrier().unwrap();
    for round in 0..2_000u64 {
        let row = rows.row(dice.within(0..rows.len()));
        if dice.within(0..3) == 0 {
            touching(|| row.set(1, round));
        } else {
            black_box(touching(|| row.get(1)));
        }
        if dice.within(0..100) == 0 {
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
    assert_eq!(IN_FAULTS.load(SeqCst), 0);
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
