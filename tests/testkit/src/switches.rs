//! Switches of the environment that choose variants of the tests.

/// Whether a switch of the environment is on: set, not empty, not 0.
#[must_use]
pub fn switch(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether the exhaustive variants of tests are wanted: `FOREBAY_COMPAT_LONG=1`.
#[must_use]
pub fn long() -> bool {
    switch("FOREBAY_COMPAT_LONG")
}
