//! The coherence protocol: sequential consistency with a single writer or multiple readers for each minipage, locks and
//! barriers. It is a set of state machines without I/O and without a clock. Messages and faults are their input; their
//! output is messages, protections and wake-ups.
//!
//! # Model
//!
//! A *host* is a process, or several processes of one machine that map one memory. A *minipage* is the unit of sharing. On each host a minipage has one of three access rights:
//! none, reading, or reading and writing ([`Access`]). While one host may write a minipage, no other host may read it.
//! So all copies of a minipage are equal, and all hosts see all writes in one order.
//!
//! Each minipage has a *manager*, its home. The manager alone knows the *copy set* and the *owner*, the member of the
//! copy set that sends the contents. A thread that lacks the right for an access *faults*; its host asks the manager:
//!
//! ```text
//!  read:   requester --Request--> manager --Forward--> owner --Contents--> requester --Done--> manager
//!  write:  the same, after the manager has invalidated all other copies (Invalidate, Invalidated);
//!          a requester that has a copy gets a Grant from the manager instead of the contents
//!  push:   the same, but the owner sends the contents to all hosts
//! ```
//!
//! From the Request to the Done that ends it, the minipage is in a *transaction*. A *competing request*, one that
//! arrives meanwhile, waits at the manager and nowhere else. An owner and a copy holder answer at once, even while
//! their own threads wait. So no host ever waits for a waiting host.
//!
//! A host sends Done when the first waiting thread is about to retry its access. The minipage cannot be taken away
//! before.
//!
//! # Minipages of one host
//!
//! All hosts add most minipages alike. A host can also add some alone: it sends Add to all hosts, and may use and name them
//! when all have sent Added. It manages them and alone has them at first. A host that needs one no more sends Free to the manager,
//! which answers Freed, and tells whether it was taken. So a host that frees a minipage twice learns it.
//!
//! # Company
//!
//! A host manages neighbours that it has added alone. While these have one user, a host that asks for one of them gets the others too.
//! The manager begins a transaction for each, as if the host had asked for it. What is said of neighbours alike is one message, a
//! *run*. So a minipage has the same states in company as it has alone.
//!
//! # Minipages that all hosts free
//!
//! All hosts can free minipages together that they have added alike, so that others get the numbers. No thread asks for any of
//! them from then on. A host that has nothing of them under way sends Forget to all hosts, with how many pushes it asked each
//! for. A manager that has had as many, and has heard all hosts, has no request to come. When its transactions have ended, its wait
//! is over. When the waits of all hosts are over, no message is left, and they forget the minipages.
//!
//! # Order of messages
//!
//! The protocol needs none. In a transaction each message is caused by another, and none is left when it ends. A lock's
//! release may be overtaken by the next request for the lock; the manager tells them apart.
//!
//! # Leaving
//!
//! A host with no further requests sends Leaving to all hosts, and goes on answering until all have sent it. Its locks
//! are released. A host that waits for it at a barrier is told that it does not arrive. Where a host is several processes,
//! it sends Incomplete when the first of them leaves, and Leaving when all have.
//!
//! # Source
//!
//! A. Itzkovitz and A. Schuster, *MultiView and Millipage: Fine-Grain Sharing in Page-Based DSMs*, OSDI 1999. There one
//! host manages all minipages; here each minipage has its own manager.
#![forbid(unsafe_code)]

mod alone;
mod barrier;
mod company;
mod copies;
mod counts;
mod directory;
mod foresight;
mod forgetting;
mod host;
mod lock;
mod message;
mod minipages;
mod runs;
pub mod trace;
mod waited;
mod wire;
mod words;

pub use company::Neighbours;
pub use counts::Counts;
pub use foresight::{Figures as ForesightFigures, Foresight};
pub use host::{Effects, Host};
pub use message::{Access, Barrier, HostId, Lock, Message, Minipage, Other, Waiter, Want};
pub use waited::{ConditionWord, ReadWriteWord, SemaphoreWord};
pub use wire::MESSAGE_BYTES;
pub use words::{BarrierWord, LockWord, PagesWord};
