//! Streaming on demand without I/O and without a clock: what a server of files says over RTSP, RTP and RTCP.
//!
//! # Model
//!
//! A client has what it wants *described*, *sets up* each track with a transport, and *plays* from wherever it likes.
//! [`server::Server`] is all connections and sessions as one state machine: bytes come in, and what is to be sent and done
//! goes out. It asks its caller for what only files can tell, and gets the answer later, so a slow disk delays no other client.
//!
//! ```text
//!   bytes --> reader --> server --> bytes
//!                         |   ^ questions: described, set up, play from where?
//!                         v   v
//!                        caller: files, sockets, the clock
//!                         |
//!   samples in buffer --> packetise --> headers, and pieces of the buffer
//! ```
//!
//! [`packetise`] turns samples into packets without copying them; [`rtcp`] says what was sent, and reads what was received.
//!
//! # Sources
//!
//! - RTSP 1.0: RFC 2326, with what RFC 7826 clarified
//! - SDP: RFC 8866
//! - RTP and RTCP: RFC 3550 and 3551
//! - payloads: RFC 2250, 2435, 3190, 3551, 3640, 4184, 4598, 5215, 6184, 6416, 6597, 7587, 7741, 7798 and 9628
//! - AV1: RTP Payload Format For AV1, of the Alliance for Open Media
//! - replay: ONVIF Streaming Specification, section Replay
//! - authentication: RFC 2617, 7616 and 7617
#![forbid(unsafe_code)]

pub mod address;
pub mod authentication;
pub mod key;
pub mod message;
pub mod packetise;
pub mod presentation;
pub mod range;
pub mod reader;
pub mod replay;
pub mod rtcp;
pub mod sdp;
pub mod server;
pub mod target;
pub mod transport;
