//! Files of which a share is held out of the page cache: a thread evicts the same pieces again and again.
//!
//! Its twin opens the same files and gives the kernel other advice on the same pieces, which evicts nothing. A piece that is read comes
//! into memory until the next pass. A server that reads each piece many times within a pass so loses less than the share.

use std::fs::{self, File};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_lab::cold;
use rustix::fs::{Advice, fadvise};

use crate::Error;
use crate::harness::random::Random;

/// Pieces of larger files.
const PIECE_BYTES: u64 = 64 << 10;
/// The shortest time between two passes.
const PAUSE: Duration = Duration::from_millis(5);
/// So many times the time that a pass takes lie between two.
const PAUSES: u32 = 5;
const PAGE_BYTES: u64 = 4096;

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Evictor {
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A piece of a file.
#[derive(Debug)]
struct Piece {
    path: PathBuf,
    offset: u64,
    bytes: NonZeroU64,
}

impl Evictor {
    /// Holds such a share of the pieces of all files in `folder` out of memory; its twin only passes by.
    pub(super) fn start(folder: &Path, share: f64, is_twin: bool) -> Result<Self, Error> {
        let pieces = chosen(&files(folder)?, share);
        let advice = if is_twin { Advice::Normal } else { Advice::DontNeed };
        let (running, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            loop {
                let begun = Instant::now();
                for piece in &pieces {
                    // One that is gone is not in memory either.
                    let Ok(file) = File::open(&piece.path) else { continue };
                    let _ = fadvise(&file, piece.offset, Some(piece.bytes), advice);
                }
                let pause = (begun.elapsed() * PAUSES).max(PAUSE);
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Ok(Self { running: Some(running), thread: Some(thread) })
    }
}

impl Drop for Evictor {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Bytes of the files in `folder`, and how many of them are in memory; `None` where the kernel does not tell.
pub(super) fn in_memory(folder: &Path) -> Result<Option<(f64, f64)>, Error> {
    let (mut all, mut cached) = (0, 0);
    for (path, bytes) in files(folder)? {
        let Some(pages) = cold::resident_pages(&path)? else { return Ok(None) };
        all += bytes;
        cached += (pages * PAGE_BYTES).min(bytes);
    }
    Ok(Some((all as f64, cached as f64)))
}

/// All regular files below `folder`, with their sizes.
pub(super) fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(Error::file("list", &folder))?;
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() {
                found.push((entry.path(), metadata.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Pieces that make up about such a share of the files, always the same ones.
fn chosen(files: &[(PathBuf, u64)], share: f64) -> Vec<Piece> {
    const PARTS: usize = 1000;
    let mut random = Random::new(1);
    let mut pieces = Vec::new();
    for (path, bytes) in files {
        for offset in (0..*bytes).step_by(PIECE_BYTES as usize) {
            let length = NonZeroU64::new((bytes - offset).min(PIECE_BYTES));
            let is_chosen = (random.below(PARTS) as f64) < share * PARTS as f64;
            pieces.extend(length.filter(|_| is_chosen).map(|bytes| Piece {
                path: path.clone(),
                offset,
                bytes,
            }));
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_share(bytes: u64, number: usize) -> f64 {
        let files: Vec<(PathBuf, u64)> =
            (0..number).map(|number| (PathBuf::from(number.to_string()), bytes)).collect();
        let chosen: u64 = chosen(&files, 0.4).iter().map(|piece| piece.bytes.get()).sum();
        chosen as f64 / (bytes * number as u64) as f64
    }

    #[test]
    fn the_share_is_taken_of_many_small_files_and_of_one_large_one() {
        for (bytes, number) in [(10_000, 2000), (256 << 20, 1), (100_000, 1000)] {
            let share = pieces_share(bytes, number);
            assert!((0.35..0.45).contains(&share), "{share} of {number} files of {bytes} bytes");
        }
        assert!(chosen(&[("empty".into(), 0)], 1.0).is_empty());
    }

    /// Until that holds.
    fn until(what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn pieces_that_are_read_leave_memory_again_and_beside_the_twin_they_stay() {
        let Ok(folder) = tempfile::tempdir_in("/var/tmp") else { return };
        fs::create_dir(folder.path().join("below")).unwrap();
        let file = folder.path().join("below/file");
        fs::write(&file, vec![7; 1 << 20]).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
        let cached = || {
            fs::read(&file).unwrap();
            in_memory(folder.path()).unwrap()
        };
        let Some((all, _)) = cached() else { return };
        assert_eq!(all, f64::from(1 << 20));
        let twin = Evictor::start(folder.path(), 1.0, true).unwrap();
        assert_eq!(cached(), Some((all, all)));
        drop(twin);
        if cold::evict(&[folder.path()], cold::Extent::Data).is_ok_and(|report| report.is_cold()) {
            fs::read(&file).unwrap();
            let _evictor = Evictor::start(folder.path(), 1.0, false).unwrap();
            until("it stays in memory", || {
                in_memory(folder.path()).unwrap().is_some_and(|(_, left)| left == 0.0)
            });
        }
    }
}
