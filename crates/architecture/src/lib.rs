//! Reads this repository the way its rules speak of it.
#![forbid(unsafe_code)]
