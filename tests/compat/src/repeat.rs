//! What takes place in some runs only: speculators run on idle processors, of which a busy machine may have none for as long
//! as a program runs.

use std::time::{Duration, Instant};

use crate::{Case, Outcome, skip, switch};

/// How long a run is waited for that is as wanted.
const PATIENCE: Duration = Duration::from_secs(180);

/// Calls `attempt` until it returns `Ok`, and returns what is in it.
///
/// # Panics
///
/// Where no attempt of three minutes did: with what the last one said.
#[track_caller]
pub fn in_some_run<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let patience = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(seen) => {
                assert!(Instant::now() < patience, "in three minutes no run as wanted; the last: {seen}")
            }
        }
    }
}

/// In some run of the case a figure comes to at least `wanted`, and no run differs in anything from a run alone. `None` where
/// that cannot be seen.
///
/// # Panics
///
/// Where no run of three minutes comes to it.
#[track_caller]
pub fn comes_to(
    name: &str,
    wanted: f64,
    figure: impl Fn(&Outcome) -> f64,
    case: impl Fn() -> Case,
) -> Option<Outcome> {
    if switch("FOREBAY_COMPAT_PLAIN") {
        skip(name, "both sides run without forebay");
        return None;
    }
    in_some_run(|| {
        case().named(name).check().map(|outcome| outcome.wanted(|it| figure(it) >= wanted)).transpose()
    })
}
