//! How long a server takes for one transaction, by arithmetic. The terms are the transfers of the data unit between memory,
//! processor, disk and network, and the costs of packets and system calls. The sum gives the best possible throughput, the
//! term that limits it, and the throughput with fewer copies or faster memory.
//!
//! It does no input or output; figures of machines come in as arguments.
//!
//! # Model
//!
//! A transaction moves a data unit (PDU) of `S` bytes. `Bi` is the throughput of memory, `Be` that of the bus to devices.
//! Both are in MB/s, so bytes over them are microseconds:
//!
//! ```text
//!     T = Tcpu + n1 Tm-c + n2 Tm-m + n3 Tm-disk + n4 Tm-net + packets * Tpacket + calls * Tcall
//!
//!     Tm-c    = S / (32 Bi)     the processor reads the unit once, for a checksum say
//!     Tm-m    = 2 S / Bi        it is copied from memory to memory
//!     Tm-disk = S / Be          a device writes it to memory
//!     Tm-net  = S / Be          a device reads it from memory
//!
//!     throughput = 8 S / T      in Mbit/s
//! ```
//!
//! The last two terms of `T` are ours: at a gigabit per second and more, what a kernel does for each packet is far more than
//! the copies. `Tm-c` counts one byte of each 32-byte line, as if the rest came along for nothing; [`LineFill::Whole`]
//! counts all of them.
//!
//! # Source
//!
//! G. I. Yau and A. Waheed, *A Measurement Based Memory Performance Evaluation of Streaming Media Servers*, 2003. The
//! equations of their three applications are lost; with the numbers of transfers in [`published`] they give their table.

pub mod cache;
mod latency;
pub mod published;

pub use latency::{LineFill, Machine, Term, Terms, Transaction, Transfers};
