//! What is in a media file, and where in it each sample lies.
//!
//! # Model
//!
//! A file is opened once: [`Media::open`] finds out by its content what it is, and makes an [`index`] of its samples: a few
//! bytes for each. After that, a [`Plan`] lists from any time on which part of the file is to be sent when. It reads nothing, so
//! its caller can read in large spans, and use samples as ranges of its buffer.
//!
//! ```text
//!   file --> kind --> mp4, matroska, transport,  --> index of each track --> plan: sample, sample, ...
//!                     elementary, ogg, flv, ...       seek                   (where, when, which track)
//! ```
//!
//! Codecs and payload formats are those of `forebay-rtsp`: what a track has goes into a description, and its samples into a
//! packetiser, as they are.
//!
//! # Hostile files
//!
//! Nothing that a file says is believed beyond its own length. Tables are as large as the file has them, at most 128 MiB;
//! there are at most [`index::SAMPLES_MAX`] samples, each of which lies in the file.
#![forbid(unsafe_code)]

mod ac3;
mod adts;
mod annex_b;
pub mod av1;
mod avi;
mod backwards;
mod damage;
mod elementary;
mod error;
mod first_sample;
mod flv;
mod growing;
pub mod index;
mod joints;
mod kind;
mod matroska;
mod media;
mod mp4;
mod mpeg_audio;
mod ogg;
mod packing;
mod parameter_sets;
mod plan;
mod reading;
mod reorder;
mod sound;
mod source;
mod stored;
mod tags;
mod text;
mod time;
mod transport;
mod vorbis;
mod wav;
mod windows;

pub use backwards::{Backwards, Group};
pub use error::{Error, Result};
pub use growing::{Growing, Stage};
pub use media::{Media, Streams, Track};
pub use packing::Packing;
pub use plan::{PAUSE_NS, Plan, Sample};
pub use reading::Reading;
pub use source::ReadAt;
pub use time::TimeBase;
