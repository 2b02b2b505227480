use std::io;

/// Why players could not play, or a ceiling not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused something that all of them need.
    #[error("cannot {action}: {}", reason(source))]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A process may not have so many files open.
    #[error(
        "{players} players need {needed} open files, and a process may have {allowed}; raise it with: ulimit -n {needed}"
    )]
    Descriptors {
        /// How many were to play.
        players: u32,
        /// What that takes.
        needed: u64,
        /// What there may be.
        allowed: u64,
    },
    /// The order makes no sense.
    #[error("{0}")]
    Order(&'static str),
}

impl Error {
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { action, source: source.into() }
    }
}

/// What the system said, without the number that Rust adds for programmers.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
