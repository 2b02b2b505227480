//! The pure part of `forebay evaluate server`: experiments, and what is made of what they measure.
//!
//! - [`Description`] is what an experiment file says: a server, a load, and the *levels* of each *factor*.
//! - [`Description::trials`] is every combination of levels: one [`Trial`] is one server under one load.
//! - [`Evidence`] is what was measured during a run, and [`Verdict::of`] says from it what limits the server, or that it
//!   cannot be told from what was measured.
//!
//! No input, no output, no clock: those are in [`servers`](crate::servers).

mod activity;
mod description;
mod elasticity;
mod evidence;
mod levels;
mod limit;
mod need;
mod shipped;
mod sockets;
mod trial;
mod verdict;

pub use activity::{Activity, Call, Threads, Timeouts};
pub use description::{
    Any, Attached, Connections, Description, Error, Router, RouterLayout, RtspServer, Streaming, Web,
    WebServer,
};
pub use elasticity::{Doses, Elasticity, Resource, Speed, binding};
pub use evidence::{Ceilings, DiskQueue, Evidence, Generator, Misses, Throttled};
pub use levels::{Amount, AtLeastOne, Levels, Memory, Rate, TimeUnit};
pub use limit::{Finding, Limit};
pub use need::{Knee, knee, least};
pub use shipped::{SHIPPED, Shipped, shipped};
pub use sockets::{Clients, Dependency, Sockets};
pub use trial::{Asked, Fewer, Level, Load, Prints, Server, Trial};
pub use verdict::Verdict;
