//! Linux, as far as no library of the field covers it: control groups, text of the kernel, starting programs, single calls.
//!
//! - [`kernel_text`] reads what `/proc` and control groups contain. Functions of text, without input or output.
//! - [`groups`] finds control groups and reads their limits.
//! - [`process`] starts programs in the state that this process was started in, and passes signals on.
//! - [`connections()`] lists connections with what the kernel counts of each, and [`holder_of()`] finds who has one.
//! - [`cachestat()`], [`limit()`] and [`features`] are kernel calls without a wrapper elsewhere.
#![deny(unsafe_op_in_unsafe_fn)]

mod cachestat;
mod connections;
pub mod features;
pub mod groups;
pub mod kernel_text;
mod limit;
pub mod process;
mod processes;
mod reason;

pub use cachestat::{CacheStat, cachestat, has_cachestat};
pub use connections::{Connection, Protocol, State as ConnectionState, Traffic, connections, unix_peers};
pub use limit::limit;
pub use processes::{holder_of, named, processes, socket_of, sockets_of};
pub use reason::reason;
