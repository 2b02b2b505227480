//! Files that ffmpeg makes, and what ffprobe says of them.
#![allow(dead_code, reason = "each test takes what it needs")]

pub mod hostile;
pub mod matroska;

use std::path::Path;
use std::process::Command;

use forebay_media::Media;
use forebay_media::index::{Cursor, Entry};
use serde::Deserialize;

pub use forebay_testkit::films::{Folder, H264, H265};

/// `None`, with a word about it, where there is no ffmpeg. Pictures are small: tests read files at every length.
pub fn folder(test: &str) -> Option<Folder> {
    Folder::with_pictures(test, "96x64")
}

/// All bytes of a stream's packets, one after the other, as ffmpeg takes them out.
pub fn payload(folder: &Folder, file: &Path, stream: &str, filter: &str) -> Vec<u8> {
    let options = format!("-map {stream} -c copy {filter} -f data");
    let path = folder.convert(file, &options, "payload");
    std::fs::read(path).expect("what ffmpeg wrote")
}

#[derive(Debug, Deserialize)]
pub struct Probed {
    pub packets: Vec<Packet>,
    pub streams: Vec<Stream>,
    pub format: Format,
}

#[derive(Debug, Deserialize)]
pub struct Packet {
    pub stream_index: usize,
    pub pts: Option<i64>,
    pub dts: Option<i64>,
    size: String,
    pos: Option<String>,
    flags: String,
}

#[derive(Debug, Deserialize)]
pub struct Stream {
    pub codec_name: String,
    pub time_base: String,
}

#[derive(Debug, Deserialize)]
pub struct Format {
    pub duration: Option<String>,
}

impl Packet {
    pub fn bytes(&self) -> u64 {
        self.size.parse().expect("a size")
    }

    pub fn at(&self) -> u64 {
        self.pos.as_ref().expect("a position").parse().expect("a position")
    }

    pub fn is_key(&self) -> bool {
        self.flags.contains('K')
    }
}

impl Probed {
    pub fn of(file: &Path) -> Self {
        let mut command = Command::new("ffprobe");
        command
            .args(["-v", "error", "-of", "json", "-show_packets", "-show_streams", "-show_format"])
            .arg(file);
        let output = command.output().expect("ffprobe runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("what ffprobe says")
    }

    pub fn packets_of(&self, stream: usize) -> Vec<&Packet> {
        self.packets.iter().filter(|packet| packet.stream_index == stream).collect()
    }

    /// How many seconds a tick of a stream is, as a fraction.
    pub fn time_base(&self, stream: usize) -> (i64, i64) {
        let (numerator, denominator) = self.streams[stream].time_base.split_once('/').expect("a fraction");
        (numerator.parse().expect("a number"), denominator.parse().expect("a number"))
    }

    pub fn duration_ns(&self) -> u64 {
        let seconds: f64 = self.format.duration.as_ref().expect("a duration").parse().expect("a duration");
        (seconds * 1e9) as u64
    }
}

pub fn open(file: &Path) -> Media {
    Media::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A transport stream with other bytes before and after each packet.
pub fn sparse(stream: &[u8], before: usize, stride: usize) -> Vec<u8> {
    let packet =
        |packet: &[u8]| [&vec![0xAA; before], packet, &vec![0xAA; stride - packet.len() - before]].concat();
    stream.chunks_exact(188).flat_map(packet).collect()
}

/// All samples of a track.
pub fn entries(media: &Media, track: usize) -> Vec<Entry> {
    media.tracks()[track].index().entries_from(Cursor::default()).collect()
}

/// What they have in the file, one after the other.
pub fn bytes_of(file: &Path, entries: &[Entry]) -> Vec<u8> {
    let content = std::fs::read(file).expect("the file");
    entries.iter().flat_map(|one| &content[one.at as usize..][..one.bytes as usize]).copied().collect()
}
