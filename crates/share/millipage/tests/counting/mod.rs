//! An allocator that counts what threads allocate and give back where they may do neither.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

thread_local! {
    static MAY_NOT: Cell<bool> = const { Cell::new(false) };
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

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
    COUNT.fetch_add(MAY_NOT.get().into(), SeqCst);
}

/// Counts what the calling thread allocates and gives back meanwhile.
pub fn counted<R>(act: impl FnOnce() -> R) -> R {
    MAY_NOT.set(true);
    let result = act();
    MAY_NOT.set(false);
    result
}

/// How much was counted.
pub fn total() -> usize {
    COUNT.load(SeqCst)
}
