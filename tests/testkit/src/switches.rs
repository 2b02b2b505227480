//! Switches of the environment that choose variants of the tests.

use std::sync::LazyLock;

/// The prefix of the switches, and the prefix that they had under another name.
const PREFIX: &str = "FOREBAY_COMPAT_";
const OLD_PREFIX: &str = "FOREBAY_PROMISE_";

/// Whether a switch of the environment is on: set, not empty, not 0.
///
/// # Panics
/// When a switch is set by its old name.
#[must_use]
pub fn switch(name: &str) -> bool {
    static OLD_NAME: LazyLock<Option<String>> =
        LazyLock::new(|| renamed(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())));
    assert!(OLD_NAME.is_none(), "{}", OLD_NAME.as_deref().unwrap_or_default());
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Whether the exhaustive variants of tests are wanted: `FOREBAY_COMPAT_LONG=1`.
#[must_use]
pub fn long() -> bool {
    switch("FOREBAY_COMPAT_LONG")
}

fn renamed(mut names: impl Iterator<Item = String>) -> Option<String> {
    names.find_map(|name| {
        let rest = name.strip_prefix(OLD_PREFIX)?;
        Some(format!("the environment variable {name} is now called {PREFIX}{rest}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_is_answered_with_the_new_one() {
        let names = ["PATH", "FOREBAY_COMPAT_LONG", "FOREBAY_PROMISE_DISK"].map(String::from);
        let said = renamed(names.into_iter()).unwrap();
        assert_eq!(said, "the environment variable FOREBAY_PROMISE_DISK is now called FOREBAY_COMPAT_DISK");
        assert_eq!(renamed(["FOREBAY_COMPAT_LONG".into()].into_iter()), None);
    }
}
