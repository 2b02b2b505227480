//! State of a thread that its signal handlers use too: taken, lent to a handler for a while, and given back.
//!
//! # Rule
//!
//! Every entry, a call or a handler, takes the state and gives it back. An entry that has the state is the only one with a
//! reference. It may touch memory that a handler fills. For just that touch it lends the state: it uses no other reference
//! meanwhile, and the handler's derives from the lent one. A handler at any other moment gets nothing.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, compiler_fence};

/// Where the state is while no entry has it.
pub struct Handover<T> {
    /// Null while an entry has the state.
    place: AtomicPtr<T>,
    is_begun: AtomicBool,
    value: PhantomData<*mut T>,
}

// SAFETY: a pointer leaves the place with the one entry that takes it.
unsafe impl<T: Send> Sync for Handover<T> {}

impl<T: 'static> Handover<T> {
    /// There is no state yet.
    pub const fn new() -> Self {
        Self { place: AtomicPtr::new(ptr::null_mut()), is_begun: AtomicBool::new(false), value: PhantomData }
    }

    /// Puts the state there, once: `false` for another one.
    pub fn begin(&self, value: &'static mut T) -> bool {
        let is_first = !self.is_begun.swap(true, AcqRel);
        if is_first {
            self.place.store(value, Release);
        }
        is_first
    }

    /// The state; `None` while an entry has it, or before there is one.
    #[inline]
    pub fn take(&self) -> Option<Taken<'_, T>> {
        let value = NonNull::new(self.place.swap(ptr::null_mut(), Acquire))?;
        Some(Taken { from: self, value })
    }

    /// Runs `act`, while which a handler can take the state.
    ///
    /// # Safety
    /// `value` is the state, which the caller has of [`Handover::take`], and only handlers of this thread take it.
    #[inline(always)]
    pub unsafe fn lend<R>(&self, value: &mut T, act: impl FnOnce() -> R) -> R {
        self.place.store(value, Release);
        compiler_fence(SeqCst);
        let result = act();
        compiler_fence(SeqCst);
        // A handler is through with it before the thread goes on.
        self.place.store(ptr::null_mut(), Relaxed);
        result
    }
}

impl<T: 'static> Default for Handover<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of a [`Handover`], given back when this is dropped.
pub struct Taken<'a, T: 'static> {
    from: &'a Handover<T>,
    value: NonNull<T>,
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the pointer was in the place, so no other entry has a reference that is in use.
        unsafe { self.value.as_ref() }
    }
}

impl<T> DerefMut for Taken<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this entry's own references are bound to this borrow.
        unsafe { self.value.as_mut() }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.from.place.store(self.value.as_ptr(), Release);
    }
}
