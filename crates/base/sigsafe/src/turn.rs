//! State that one entry at a time uses: a lock that refuses instead of waiting.
//!
//! # Rule
//!
//! Threads, signal handlers and vfork children enter through [`Turn::enter`]. While one is in, every other entry is
//! refused, also a handler that interrupted the one that is in. So no two exclusive references ever overlap.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// State that one entry at a time uses.
pub struct Turn<T> {
    /// Name of the entry that is in; 0 for none.
    holder: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: only the entry that is in reaches the value, and entering and leaving order what the entries do with it.
unsafe impl<T: Send> Sync for Turn<T> {}

impl<T> Turn<T> {
    /// The state, which no entry uses yet.
    pub const fn new(value: T) -> Self {
        Self { holder: AtomicUsize::new(0), value: UnsafeCell::new(value) }
    }

    /// The state, for an entry with this name, which is not 0; `None` while an entry is in.
    #[inline]
    pub fn enter(&self, name: usize) -> Option<Held<'_, T>> {
        let is_free = name != 0 && self.holder.compare_exchange(0, name, Acquire, Relaxed).is_ok();
        is_free.then(|| Held { turn: self, value: PhantomData })
    }

    /// Name of the entry that is in; 0 for none.
    #[inline]
    pub fn holder(&self) -> usize {
        self.holder.load(Relaxed)
    }
}

/// The state of a [`Turn`], until this is dropped. A forked copy of the process that forgets it never gets the state again.
pub struct Held<'a, T> {
    turn: &'a Turn<T>,
    value: PhantomData<&'a mut T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this entry is in, so no other one has a reference.
        unsafe { &*self.turn.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this entry is in, so no other one has a reference; its own are bound to this borrow.
        unsafe { &mut *self.turn.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.turn.holder.store(0, Release);
    }
}
