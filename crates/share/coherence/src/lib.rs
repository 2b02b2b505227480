//! Sequential consistency with a single writer or multiple readers for each minipage, locks and barriers, as state
//! machines without I/O and without a clock: messages and faults come in, and what they lead to goes out.
//!
//! # Model
//!
//! A *host* is a process. A *minipage* is what is shared at a time. On each host it can be accessed in one of three ways:
//! not at all, for reading, or for reading and writing ([`Access`]). Where one host may write no other may even read, so
//! all copies of a minipage are equal, and all hosts see all writes in one order.
//!
//! Each minipage has a *manager*, its home, which alone knows the *copy set* and the *owner*, one of the copy set that
//! hands the contents out. A thread that may not do what it does *faults*; its host asks the manager:
//!
//! ```text
//!  read:   requester --Request--> manager --Forward--> owner --Contents--> requester --Done--> manager
//!  write:  the same, after the manager has had all other copies invalidated (Invalidate, Invalidated);
//!          a requester that has a copy gets a Grant from the manager instead of the contents
//!  push:   the same, but the owner sends the contents to all hosts
//! ```
//!
//! From the Request to the Done that ends it, the minipage is in a *transaction*. What is asked for meanwhile, a *competing
//! request*, waits at the manager and nowhere else: an owner and a copy holder answer at once, whatever they wait for
//! themselves. So no host ever waits for one that waits.
//!
//! Done is sent when the first thread that waited is about to try again: a minipage cannot be taken away before.
//!
//! # Order of messages
//!
//! None is needed. In a transaction each message is caused by another, and none is left when it ends. A lock's release
//! may be overtaken by the next request for it, and is told from it.
//!
//! # Leaving
//!
//! A host that has nothing more to ask for says so to all (Leaving), and goes on answering until all have said so. Its locks
//! are given up; whoever waits for it at a barrier is told that it does not come.
//!
//! # Source
//!
//! A. Itzkovitz and A. Schuster, *MultiView and Millipage: Fine-Grain Sharing in Page-Based DSMs*, OSDI 1999. There one
//! host manages all minipages; here each has its own.
#![forbid(unsafe_code)]

mod barrier;
mod copies;
mod directory;
mod host;
mod lock;
mod message;
pub mod trace;
mod wire;

pub use host::{Counts, Effects, Host, Waiter};
pub use message::{Access, Barrier, HostId, Lock, Message, Minipage, Want};
pub use wire::MESSAGE_BYTES;
