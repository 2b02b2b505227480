//! What a streaming server reads and sends when: no I/O, no clock.
//!
//! # Model
//!
//! A [`Stream`](stream::Stream) has two [`Buffer`](buffer::Buffer)s, or another number. It drains one, packet by packet as
//! they fall due, while the caller fills another one from a file; then they swap. So no packet waits for a disk, unless the disk
//! takes longer to fill a buffer than the stream takes to drain one. All memory belongs to one [`Pool`](pool::Pool), which
//! takes back each part of a buffer that has been sent.
//!
//! ```text
//!              gather: which samples, which reads             advance(now): packets that are due
//!   program ----------------> buffer A (is filled)    buffer B (is drained) ---------------------> bursts
//!      ^                           |                        |
//!      |                           +------- they swap ------+
//!      seek, loop, list of files
//! ```
//!
//! How large buffers are is [`depth`]: so that what there is of memory saves most of the disk's time. [`wheel`] tells which
//! stream is due next, among thousands; [`lateness`] counts how late it was. [`room`] is what a client takes now.
//! A [`course`](course::Course) is a program forwards or backwards.
#![forbid(unsafe_code)]

pub mod backwards;
pub mod buffer;
pub mod course;
pub mod depth;
pub mod lateness;
pub mod playlist;
pub mod pool;
pub mod program;
pub mod room;
pub mod schedule;
pub mod stream;
pub mod wheel;
