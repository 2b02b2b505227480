//! A player of streams without I/O and without a clock: what it says to a server over RTSP, and what it makes of what comes.
//!
//! # Model
//!
//! A [`Client`] asks for the picture and the sound of one URL, and hears the server's answers, which [`Incoming`] takes out of
//! the bytes of its connection. A track's packets go to a [`Reception`]: which are missing, came twice or overtook another, and how
//! late each was by the track's own [`Schedule`]. Samples of all players go to one [`Tally`]. A [`Link`] makes packets late.
//!
//! # Lateness
//!
//! A packet's timestamp says when it is to be played; the stream's clock is set by its most punctual packet, and goes on
//! whether packets come or not. So a server that stands still for a second has a second's packets late, not one. What is
//! still due at the end is counted as late as it is by then.
//!
//! Timestamps say when a picture is shown; B-frames are sent after pictures that are shown later. So a picture is due with the
//! time that it has in the order of all times, which is the order of decoding.
//!
//! A frame's packets have one timestamp, and a server may spread them over the time of the frame. So lateness is sampled
//! of the first packet of each frame, and any other packet is late only by what it is after the next frame was due.
//!
//! # Sources
//!
//! RTSP 1.0 is RFC 2326, RTP and interarrival jitter RFC 3550, SDP RFC 8866.

mod client;
mod incoming;
mod jitter;
mod link;
mod packet;
mod pictures;
mod reception;
mod schedule;
mod sequence;
mod tally;
mod track;

pub use client::{Client, Heard, Lane, Playing, Refused, SetUp, Wish};
pub use incoming::{Answer, Came, Incoming, NoRtsp};
pub use jitter::Jitter;
pub use link::Link;
pub use packet::Head;
pub use reception::{Reception, Stream};
pub use schedule::Schedule;
pub use sequence::{Arrival, Sequence};
pub use tally::Tally;
pub use track::{Kind, Track};
