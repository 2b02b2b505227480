//! Media files for browsers: playlists (HTTP Live Streaming, RFC 8216) and fragmented MP4, made from the index of a file.
//!
//! # Model
//!
//! A [`Film`] is made once from the index: which tracks browsers play, and where the film is cut. A segment begins at a key frame.
//! It is a list of samples like what RTSP sends, so that the same buffers are filled for both. Each filled buffer becomes a
//! [`Fragment`]: a few bytes of its own, and pieces of the buffer. Nothing is transcoded, and samples are not copied.
//!
//! A film that is being recorded has cuts as far as it has been written, and each next film has more of them. What follows the last
//! cut is given out in parts of a second.
//!
//! ```text
//!   index --> film --> master and media playlist, initialization segment
//!               |
//!               v
//!            segment: samples --> buffers --> fragment: moof, mdat header, pieces of the buffer
//! ```
#![forbid(unsafe_code)]

mod film;
mod fragment;
mod frames;
mod init;
mod playlist;
mod segment;
mod shape;

pub use film::{Film, FilmTrack, Presence, Unplayable};
pub use fragment::{Fragment, Piece};
pub use playlist::Reload;
pub use segment::Segment;
pub use shape::Shape;
