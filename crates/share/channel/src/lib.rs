//! Connections that only the hosts of one job can make. A process without the job's key can neither connect to a host, nor read,
//! change, repeat or insert what is on a connection. This crate has no input and no output.
//!
//! # Key
//!
//! Each host says 32 random bytes in a round of the rendezvous. All of them together are the [`JobKey`].
//!
//! # Handshake
//!
//! ```text
//!   dialer   --- hello: "forebay", version, from, to, 32 random bytes --->  listener
//!   dialer   <-- hello of the listener, proof ----------------------------  listener
//!   dialer   --- proof --------------------------------------------------> listener
//! ```
//!
//! The keys of a connection, one for each direction, follow from the job's key and both hellos by HKDF-SHA-256. A proof is a
//! frame without text under such a key.
//!
//! # Frames
//!
//! ```text
//!   0        4                    4 + length      20 + length
//!   length   text, encrypted      tag of length and text
//! ```
//!
//! Texts are sealed with AES-128-GCM. The nonce is the number of the frame in its direction, so a frame that is repeated,
//! missing or out of order does not open.
#![forbid(unsafe_code)]

mod frame;
mod handshake;
mod key;

pub use frame::{Channel, FRAME_EXTRA_BYTES, NotOurs, Opener, Sealer, TEXT_BYTES_MAX, TEXT_START};
pub use handshake::{ANSWER_BYTES, Answering, Dialing, HELLO_BYTES, PROOF_BYTES, Refusal};
pub use key::{JobKey, NoRandomness, RANDOM_BYTES, random};
