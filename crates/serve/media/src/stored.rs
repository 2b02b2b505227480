//! What is known of a media file as bytes, so that the file need not be read again to know it.
//!
//! ```text
//!   +----------------+----------------------------------+--------------------+----
//!   | length: 64     | tracks and the rest, in JSON     | codes of track 0   | ...
//!   +----------------+----------------------------------+--------------------+----
//! ```
//!
//! Samples are put into a new index one by one, by the rules for samples of files: bytes that lie do no harm.

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;
use serde::{Deserialize, Serialize};

use crate::index::{Index, Stored};
use crate::media::{Found, Media, Track};
use crate::time::TimeBase;

#[derive(Serialize, Deserialize)]
struct Header {
    tracks: Vec<TrackHeader>,
    left_out: Vec<String>,
    recorded_ns: Option<u64>,
    is_final: bool,
}

#[derive(Serialize, Deserialize)]
struct TrackHeader {
    codec: Codec,
    format: Format,
    language: Option<String>,
    time_base: (u64, u64),
    index: Stored,
}

impl Media {
    /// All that is known of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { tracks, left_out, recorded_ns, is_final } = self;
        let header = |track: &Track| TrackHeader {
            codec: track.codec.clone(),
            format: track.format,
            language: track.language.clone(),
            time_base: track.time_base().parts(),
            index: track.index().stored(),
        };
        let header = Header {
            tracks: tracks.iter().map(header).collect(),
            left_out: left_out.clone(),
            recorded_ns: *recorded_ns,
            is_final: *is_final,
        };
        let Ok(header) = serde_json::to_vec(&header) else { return Vec::new() };
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        tracks.iter().for_each(|track| bytes.extend_from_slice(track.index().codes()));
        bytes
    }

    /// The same again, of a file of so many bytes; `None` if it cannot be so.
    pub fn from_bytes(bytes: &[u8], file_bytes: u64) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let (header, mut rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let Header { tracks: headers, left_out, recorded_ns, is_final } =
            serde_json::from_slice(header).ok()?;
        let mut tracks = Vec::new();
        for TrackHeader { codec, format, language, time_base, index } in headers {
            let (codes, after) = rest.split_at_checked(index.codes_bytes)?;
            rest = after;
            let index = Index::of_stored(&index, codes, file_bytes)?;
            tracks.push(Track::new(codec, format, language, TimeBase::new(time_base.0, time_base.1)?, index));
        }
        Self::new(Found { tracks, left_out, recorded_ns, is_final }).ok()
    }
}
