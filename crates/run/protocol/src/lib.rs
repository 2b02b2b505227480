//! What the agent in a program and the supervisor share: the layout of their memory, and what both must read alike.
//!
//! Nothing here decides anything; the decisions are in `forebay-policy`. Nothing allocates or does I/O.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod access_log;
pub mod executable;
pub mod hint_log;
pub mod layout;
pub mod mounts;
pub mod signature;
