//! Calls that a signal can end: a language that handles signals between its own instructions tells here whether one is due.

use std::cell::Cell;

thread_local! {
    static IS_DUE: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// Makes a call. Where that waits, it asks `is_due` now and then, and fails with [`crate::Error::Interrupted`] when that is so.
/// After a call that hosts make together, such as a barrier, each later one fails.
pub fn interruptible<R>(is_due: fn() -> bool, call: impl FnOnce() -> R) -> R {
    let before = IS_DUE.replace(Some(is_due));
    let result = call();
    IS_DUE.set(before);
    result
}

/// Whether the call of this thread should end.
pub fn is_interrupted() -> bool {
    IS_DUE.get().is_some_and(|is_due| is_due())
}
