//! Calls that a signal or a time can end: a language that handles signals between its own instructions tells here whether one is
//! due.

use std::{cell::Cell, time::Instant};

thread_local! {
    static IS_DUE: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes a call. Where that waits, it asks `is_due` now and then, and fails with [`crate::Error::Interrupted`] when that is so.
/// After a call that hosts make together, such as a barrier, each later one fails.
pub fn interruptible<R>(is_due: fn() -> bool, call: impl FnOnce() -> R) -> R {
    let before = IS_DUE.replace(Some(is_due));
    let result = call();
    IS_DUE.set(before);
    result
}

/// Makes a call that one thread makes alone. Where that waits longer than until this time, it fails with
/// [`crate::Error::Interrupted`]; without a time it waits.
pub fn ending_at<R>(time: Option<Instant>, call: impl FnOnce() -> R) -> R {
    let before = UNTIL.replace(time);
    let result = call();
    UNTIL.set(before);
    result
}

/// Whether the call of this thread should end.
pub fn is_interrupted() -> bool {
    IS_DUE.get().is_some_and(|is_due| is_due()) || UNTIL.get().is_some_and(|time| Instant::now() >= time)
}

/// How long this thread may sleep, where it would sleep so long, before it asks again.
pub fn sleep_ns(longest: i64) -> i64 {
    let left = UNTIL.get().map(|time| time.saturating_duration_since(Instant::now()).as_nanos());
    left.map_or(longest, |left| i64::try_from(left).map_or(longest, |left| left.clamp(1, longest)))
}
