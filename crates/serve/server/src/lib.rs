//! Streams a folder's media files over RTSP: the files, the sockets and the clock around `forebay-streaming`.
//!
//! # Model
//!
//! One thread has all connections and sessions, and sends every packet; it never touches a file. Reader threads open files
//! and fill buffers, the most urgent first. They tell each other by queues.
//!
//! ```text
//!   clients <--> serving: epoll, timers, rtsp machine, packets     1 thread
//!                   | jobs: open, fill a buffer    ^ done
//!                   v                              |
//!                readers <--> catalog: folder, open files          a few threads
//! ```
#![forbid(unsafe_code)]

mod admission;
mod backlog;
mod batch;
mod catalog;
mod clock;
pub mod config;
mod connection;
mod conversing;
mod datagrams;
mod descriptors;
mod encryption;
mod error;
mod hearing;
#[cfg(test)]
mod hostile;
mod journal;
mod lending;
mod listening;
mod pace;
mod playing;
mod privileges;
mod queue;
mod readers;
mod reloading;
#[cfg(test)]
mod rig;
mod sending;
mod serving;
mod session;
mod settings;
mod status;
mod token;

pub use datagrams::{KERNEL_BYTES, divides_datagrams};
pub use error::{Error, Result};
pub use serving::{Reload, Serving, Stopper};
pub use settings::{PORT, Settings, Tls, User};
