//! Streams media files of folders over RTSP and HTTP: the files, the sockets and the clock around `forebay-streaming`.
//!
//! # Model
//!
//! One thread has all connections and sessions, and sends every packet; it never touches a file. Reader threads open files
//! and fill buffers, the most urgent first. The two sides exchange work by queues.
//!
//! ```text
//!   clients <--> event loop: epoll, timers, rtsp machine, packets  1 thread
//!                   | jobs: open, fill a buffer    ^ done
//!                   v                              |
//!                readers <--> catalog: folders, open files         a few threads
//! ```
#![forbid(unsafe_code)]

mod access;
mod access_log;
mod admission;
mod backlog;
mod batch;
mod buffer_allocation;
mod cameras;
mod catalog;
mod clock;
pub mod config;
mod connection;
mod connections;
mod datagrams;
mod descriptors;
mod encryption;
mod error;
mod event_loop;
mod events;
mod folders;
#[cfg(test)]
mod hostile;
mod http;
mod index_cache;
mod indexed;
mod listeners;
mod log;
mod m3u;
mod openers;
mod options;
mod pace;
mod pass;
mod patience;
mod play;
mod privileges;
mod queue;
mod readers;
mod reload;
#[cfg(test)]
mod rig;
mod rtcp_reports;
mod session_control;
mod sessions;
mod set_up;
mod settings;
mod status;
mod token;
mod transmit;
mod transport;

pub use cameras::{
    CameraSettings, DISCOVERY_PORT, FILM_BYTES, Shown, epoch, list as list_cameras, read_script,
};
pub use datagrams::{KERNEL_BYTES, divides_datagrams};
pub use error::{Error, Result};
pub use event_loop::Serving;
pub use events::Stopper;
pub use reload::Reload;
pub use settings::{Folder, PORT, Settings, Tls, User};
