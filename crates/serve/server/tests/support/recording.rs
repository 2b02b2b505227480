//! A film that is written while it is watched.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Folder, H264, LIMIT};

/// What a writer of fragments puts between them, as often as it likes.
const FILLER: &[u8] = b"\0\0\0\x08free";
/// How often a recording is written.
const PAUSE: Duration = Duration::from_millis(20);

/// A film in fragments, of which the first half has been written.
pub struct Recording {
    path: PathBuf,
    rest: Vec<u8>,
    /// The folder that it is in, with nothing else.
    pub beside: Folder,
}

impl Recording {
    pub fn begin(films: &Folder, seconds: u32) -> Self {
        let options = format!("{H264} -c:a aac -g 12 -movflags frag_keyframe+empty_moov+default_base_moof");
        let whole = fs::read(films.encode(seconds, &options, "whole.mp4")).expect("a film");
        let half = whole.len() / 2;
        let fragment = whole[half..].windows(4).position(|window| window == b"moof").expect("a fragment");
        let (first, rest) = whole.split_at(half + fragment - 4);
        let beside = Folder::empty();
        let path = beside.path("a.mp4");
        fs::write(&path, first).expect("half of it");
        Self { path, rest: rest.to_vec(), beside }
    }

    /// Goes on without samples until `goes_on`, and then to the end. The last bytes tell that all has been written.
    pub fn write(&self, goes_on: &AtomicBool) {
        let mut file = OpenOptions::new().append(true).open(&self.path).expect("a recording");
        let begun = Instant::now();
        while !goes_on.load(Ordering::Relaxed) && begun.elapsed() < LIMIT {
            file.write_all(FILLER).expect("it grows");
            thread::sleep(PAUSE);
        }
        for piece in self.rest.chunks(self.rest.len() / 40) {
            file.write_all(piece).expect("it grows");
            thread::sleep(PAUSE);
        }
    }
}
