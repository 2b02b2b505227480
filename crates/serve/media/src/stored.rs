//! What is known of a media file as bytes, so that the file need not be read again to know it.
//!
//! ```text
//!   +-------------+------------+------------------------------+--------------------+----
//!   | version: 32 | length: 64 | tracks and the rest, in JSON | codes of track 0   | ...
//!   +-------------+------------+------------------------------+--------------------+----
//! ```
//!
//! Samples are put into a new index one by one, by the rules for samples of files: bytes that lie do no harm.

use std::sync::Arc;

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;
use serde::{Deserialize, Serialize};

use crate::index::{Index, Stored};
use crate::media::{Carriage, Found, Media, Track};
use crate::time::TimeBase;

/// Another one whenever the header, a codec, a format or an index is written otherwise.
const VERSION: u32 = 5;

#[derive(Serialize, Deserialize)]
struct Header {
    tracks: Vec<TrackHeader>,
    /// Where packets of a transport stream follow each other, for all tracks that lie in packets.
    runs: Vec<u64>,
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
    carriage: Carriage,
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
            carriage: track.carriage().clone(),
            index: track.index().stored(),
        };
        let header = Header {
            tracks: tracks.iter().map(header).collect(),
            runs: tracks.iter().find_map(|track| track.carriage().runs()).unwrap_or_default().to_vec(),
            left_out: left_out.clone(),
            recorded_ns: *recorded_ns,
            is_final: *is_final,
        };
        let Ok(header) = serde_json::to_vec(&header) else { return Vec::new() };
        let mut bytes = VERSION.to_le_bytes().to_vec();
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        tracks.iter().for_each(|track| bytes.extend_from_slice(track.index().codes()));
        bytes
    }

    /// The same again, of a file of so many bytes; `None` if it cannot be so.
    pub fn from_bytes(bytes: &[u8], file_bytes: u64) -> Option<Self> {
        let (length, rest) = bytes.strip_prefix(&VERSION.to_le_bytes())?.split_first_chunk::<8>()?;
        let (header, mut rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let Header { tracks: headers, runs, left_out, recorded_ns, is_final } =
            serde_json::from_slice(header).ok()?;
        let runs: Arc<[u64]> = Some(runs).filter(|runs| runs.is_sorted())?.into();
        let mut tracks = Vec::new();
        for TrackHeader { codec, format, language, time_base, carriage, index } in headers {
            let (codes, after) = rest.split_at_checked(index.codes_bytes)?;
            rest = after;
            let index = Index::of_stored(&index, codes, file_bytes)?;
            let time_base = TimeBase::new(time_base.0, time_base.1)?;
            let track = Track::new(codec, format, language, time_base, index);
            tracks.push(track.carried(carriage.with_runs(&runs)));
        }
        Self::new(Found { tracks, left_out, recorded_ns, is_final, waiting: 0 }).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Builder, Entry};

    /// A reader of another version would take what it does not know for something else.
    #[test]
    fn what_is_written_otherwise_has_another_version() {
        let track = |carriage| {
            let mut builder = Builder::default();
            let entry = Entry { at: 4, bytes: 8, decode: 0, presentation: 0, is_sync: true };
            builder.push(entry, &mut 1).expect("a sample");
            let index = builder.finish(Some(5)).expect("an index");
            let time_base = TimeBase::per_second(10).expect("a time base");
            let (codec, format) = (Codec::Opus { channels: 2 }, Format::Vorbis { ident: 1 });
            Track::new(codec, format, Some("deu".to_owned()), time_base, index).carried(carriage)
        };
        let described = Carriage::Described { sets: vec![vec![1]], places: vec![(7, 0)] };
        let stripped = Carriage::Stripped { begin: vec![11, 119] };
        let packets =
            Carriage::Packets { pid: 256, moved: vec![(900, 257)], stride: 192, runs: [4, 900].into() };
        let pages = Carriage::Pages { serials: vec![(58, 9)], runs: [4, 900].into() };
        let media = Media {
            tracks: [Carriage::Whole, Carriage::Reversed { bytes: 2 }, described, stripped, packets, pages]
                .map(track)
                .into(),
            left_out: vec!["text".to_owned()],
            recorded_ns: Some(9),
            is_final: true,
        };
        let bytes = media.to_bytes();
        let track = |carriage: &str| {
            format!(
                r#"{{"codec":{{"Opus":{{"channels":2}}}},"format":{{"Vorbis":{{"ident":1}}}},"language":"deu","time_base":[1,10],"carriage":{carriage},"index":{{"codes_bytes":3,"shift":0,"lead":0,"step":5}}}}"#
            )
        };
        let tracks = [
            r#""Whole""#,
            r#"{"Reversed":{"bytes":2}}"#,
            r#"{"Described":{"sets":[[1]],"places":[[7,0]]}}"#,
            r#"{"Stripped":{"begin":[11,119]}}"#,
            r#"{"Packets":{"pid":256,"moved":[[900,257]],"stride":192}}"#,
            r#"{"Pages":{"serials":[[58,9]]}}"#,
        ];
        let tracks = tracks.map(track).join(",");
        let header = format!(
            r#"{{"tracks":[{tracks}],"runs":[4,900],"left_out":["text"],"recorded_ns":9,"is_final":true}}"#
        );
        assert_eq!((VERSION, String::from_utf8_lossy(&bytes[12..bytes.len() - 18])), (5, header.into()));
        assert_eq!(bytes[bytes.len() - 18..], [3, 8, 8].repeat(6));
    }
}
