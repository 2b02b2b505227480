//! Reads this repository the way its rules speak of it: crates and their edges, files, Rust tokens, Markdown links.
//!
//! The rules themselves are the tests in `tests/`; each names the crate, file and line that breaks it.
#![forbid(unsafe_code)]

pub mod markdown;
pub mod sources;
pub mod tokens;

pub mod waits;
pub mod words;
pub mod workspace;
