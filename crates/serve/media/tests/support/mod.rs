//! Files that ffmpeg makes, and what ffprobe says of them.
#![allow(dead_code, reason = "each test takes what it needs")]

pub mod hostile;

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_media::Media;
use forebay_media::index::{Cursor, Entry};
use serde::Deserialize;

/// Two seconds of pictures and a tone.
const SOURCES: &[&str] = &[
    "-f",
    "lavfi",
    "-i",
    "testsrc2=size=96x64:rate=25:duration=2",
    "-f",
    "lavfi",
    "-i",
    "sine=frequency=440:sample_rate=44100:duration=2",
];

pub const H264: &str = "-c:v libx264 -preset ultrafast -bf 2 -g 12 -pix_fmt yuv420p";
pub const H265: &str = "-c:v libx265 -preset ultrafast -pix_fmt yuv420p -x265-params log-level=error:keyint=12:bframes=2:pools=1";

/// A folder for files that tests make; gone with it.
pub struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// `None`, with a word about it, where there is no ffmpeg.
    pub fn new(test: &str) -> Option<Folder> {
        let has = |program| Command::new(program).arg("-version").output().is_ok();
        if !has("ffmpeg") || !has("ffprobe") {
            forebay_testkit::skip(test, &"ffmpeg is not installed: run `scripts/setup test`");
            return None;
        }
        Some(Folder { folder: tempfile::tempdir().expect("a temporary folder") })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Encodes pictures and a tone with `options`, separated by spaces, into a file of that name.
    pub fn encode(&self, options: &str, name: &str) -> PathBuf {
        self.run(SOURCES, options, name)
    }

    /// Makes another file of one that is there.
    pub fn convert(&self, from: &Path, options: &str, name: &str) -> PathBuf {
        self.run(&["-i", from.to_str().expect("a path")], options, name)
    }

    fn run(&self, inputs: &[&str], options: &str, name: &str) -> PathBuf {
        let path = self.path(name);
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-v", "error", "-y", "-threads", "1"]).args(inputs);
        command.args(options.split_whitespace()).arg(&path);
        let output = command.output().expect("ffmpeg runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ffmpeg could not make {name}: {said}");
        path
    }

    /// All bytes of a stream's packets, one after the other, as ffmpeg takes them out.
    pub fn payload(&self, file: &Path, stream: &str, filter: &str) -> Vec<u8> {
        let options = format!("-map {stream} -c copy {filter} -f data");
        let path = self.convert(file, &options, "payload");
        std::fs::read(path).expect("what ffmpeg wrote")
    }
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
    pub fn of(file: &Path) -> Probed {
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

    /// Ticks per second of a stream.
    pub fn rate(&self, stream: usize) -> u32 {
        self.streams[stream].time_base.strip_prefix("1/").expect("a rate").parse().expect("a rate")
    }

    pub fn duration_ns(&self) -> u64 {
        let seconds: f64 = self.format.duration.as_ref().expect("a duration").parse().expect("a duration");
        (seconds * 1e9) as u64
    }
}

pub fn open(file: &Path) -> Media {
    Media::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
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
