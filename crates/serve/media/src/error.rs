use std::io;

use thiserror::Error;

/// Why a file cannot be served.
#[derive(Debug, Error)]
pub enum Error {
    /// The system's answer to reading it.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Nothing that this crate knows begins like it.
    #[error(
        "it is no media file of a kind that is served (MP4, MOV, Matroska, WebM, MPEG-TS, AVI, FLV, Ogg, WAV, H.264, H.265, AAC, MP3)"
    )]
    UnknownKind,
    /// It is a media file of another kind.
    #[error(
        "it is {0}, which is not served: `ffmpeg -i FILE -c:v libx264 -c:a aac FILE.mp4` makes a file that is"
    )]
    OtherKind(&'static str),
    /// It tells of samples or tables that it does not have.
    #[error(
        "it ends after {bytes} bytes, before {missing} is complete: copy it again, or wait until it is written"
    )]
    Truncated {
        /// How long it is.
        bytes: u64,
        /// What is not all there.
        missing: &'static str,
    },
    /// What stands in it contradicts itself.
    #[error("it is damaged: {0}. `ffmpeg -i FILE -c copy FILE.mp4` may repair it")]
    Damaged(&'static str),
    /// It has tracks, and none of them can be served.
    #[error(
        "nothing in it can be served: {}{}",
        sentence(.0), advice(.0)
    )]
    NothingToServe(Vec<String>),
    /// It can be played with a key only.
    #[error("it is encrypted: serve a copy that is not")]
    Encrypted,
    /// More than this crate is ready to keep in memory.
    #[error("it has {what}: divide it, for example with `ffmpeg -i FILE -c copy -t 3600 PART.mp4`")]
    TooLarge {
        /// What there is too much of, and how much may be.
        what: &'static str,
    },
}

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn sentence(tracks: &[String]) -> String {
    if tracks.is_empty() { "it has no tracks with samples".to_owned() } else { tracks.join(", ") }
}

/// How tracks begin that have neither pictures nor sound, so that no encoder makes them playable.
const NEITHER: [&str; 8] =
    ["S_", "D_", "tx3g", "text", "wvtt", "stpp", "tmcd", "a track without description"];

/// What makes a file that can be served, if pictures or sound can be encoded anew.
fn advice(tracks: &[String]) -> &'static str {
    let is_coded = |track: &String| !NEITHER.iter().any(|name| track.starts_with(name));
    if tracks.iter().any(is_coded) {
        ". `ffmpeg -i FILE -c:v libx264 -c:a aac FILE.mp4` makes a file that can"
    } else {
        ""
    }
}
