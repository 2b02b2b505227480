//! Files of the folder by the paths of URLs: each is opened once for all sessions that play it, and none from outside.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use forebay_media::Media;
use forebay_rtsp::message::Status;
use forebay_rtsp::presentation::Presentation;
use forebay_streaming::program::{Playlist, is_video};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, Mode, OFlags, ResolveFlags, fadvise, open, openat2};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// The longest playlist, in bytes and in files.
const PLAYLIST_BYTES_MAX: u64 = 1 << 20;
const PLAYLIST_FILES_MAX: usize = 1000;
/// How often a file that is served is looked at again: that costs as much as reading a small buffer.
const LOOK_NS: u64 = 1_000_000_000;
/// What of a sample tells it from others.
const LANDMARK_BYTES: usize = 512;

/// The folder, and what of it is open.
pub(crate) struct Catalog {
    folder: OwnedFd,
    open: Mutex<HashMap<(String, Options), Weak<Opened>>>,
    files: Mutex<HashMap<Identity, Weak<Indexed>>>,
    /// How many files may be open.
    files_max: usize,
}

/// What a URL leads to.
pub(crate) struct Opened {
    /// As in the URL.
    pub path: String,
    pub presentation: Arc<Presentation>,
    pub playlist: Arc<Playlist>,
    /// By the numbers of the playlist.
    pub files: Vec<Arc<Indexed>>,
    /// What clients take for the beginning.
    pub origin_ns: u64,
}

/// A file whose samples are known.
pub(crate) struct Indexed {
    pub name: String,
    pub file: File,
    pub identity: Identity,
    media: Arc<Media>,
    /// What stood at its landmarks when it was indexed; `None` if it is not to grow.
    fingerprint: Option<u64>,
    /// Whether it was told what is not served of it.
    is_told: AtomicBool,
    /// When it was last looked whether it has changed.
    looked_ns: AtomicU64,
}

/// Another one whenever a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub device: u64,
    number: u64,
    bytes: u64,
    modified_ns: i128,
}

/// What can be chosen in a URL, after its question mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Options {
    /// `loop`: again from the beginning at the end, for ever.
    pub is_endless: bool,
    /// `start=SECONDS`: what is before does not exist for clients. Players ask for position 0 at the beginning, so another one
    /// would be of no use to them.
    pub start_ns: u64,
}

/// Why there is nothing to play: for the client, and for the operator.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: Status,
    pub sentence: String,
}

impl Catalog {
    pub fn new(folder: &Path, files_max: usize) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(folder, flags, Mode::empty())
            .map_err(|error| Error::Folder { path: folder.to_owned(), source: error.into() })?;
        Ok(Self { folder, open: Mutex::default(), files: Mutex::default(), files_max })
    }

    /// Reads files, so it takes its time.
    pub fn open(&self, path: &str, query: &str) -> Result<Arc<Opened>, Failure> {
        let options = Options::parse(query)?;
        let opened = self.open_now(path, options)?;
        let mut all = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path.to_owned(), options);
        if let Some(known) = all.get(&key).and_then(Weak::upgrade)
            && known.presentation == opened.presentation
        {
            return Ok(known);
        }
        all.retain(|_, known| known.strong_count() > 0);
        all.insert(key, Arc::downgrade(&opened));
        Ok(opened)
    }

    fn open_now(&self, path: &str, options: Options) -> Result<Arc<Opened>, Failure> {
        let is_playlist = [".m3u", ".m3u8"].iter().any(|ending| path.to_ascii_lowercase().ends_with(ending));
        let files = if is_playlist { self.playlist(path)? } else { vec![self.index(path)?] };
        let items = files.iter().map(|file| file.media.clone()).collect();
        let playlist = Playlist::new(items, options.is_endless).ok_or_else(|| Failure {
            status: Status::UnsupportedMediaType,
            sentence: format!(
                "{path}: its files differ in their tracks: encode them alike to play them as one"
            ),
        })?;
        let mut version = DefaultHasher::new();
        files.iter().for_each(|file| file.identity.hash(&mut version));
        options.hash(&mut version);
        let title = path.rsplit('/').next().unwrap_or(path).to_owned();
        let media = playlist.items()[0].clone();
        let tracks: Vec<usize> = (0..media.tracks().len()).collect();
        let origin_ns = playlist.seek(&tracks, options.start_ns);
        let presentation = media.presentation(title, version.finish() >> 1);
        // Files that follow each other, and rounds, were not recorded so.
        let is_as_recorded = files.len() == 1 && !options.is_endless;
        let presentation = Presentation {
            duration_ns: playlist.duration_ns().map(|ns| ns.saturating_sub(origin_ns)),
            recorded_ns: presentation
                .recorded_ns
                .filter(|_| is_as_recorded)
                .map(|ns| ns.saturating_add(origin_ns)),
            ..presentation
        };
        let presentation = Arc::new(presentation);
        Ok(Arc::new(Opened {
            path: path.to_owned(),
            presentation,
            playlist: Arc::new(playlist),
            files,
            origin_ns,
        }))
    }

    /// The files that a playlist names, a path a line, seen from where it lies.
    fn playlist(&self, path: &str) -> Result<Vec<Arc<Indexed>>, Failure> {
        let mut text = String::new();
        let list = self.file(path)?;
        list.take(PLAYLIST_BYTES_MAX).read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut files = Vec::new();
        for line in lines.take(PLAYLIST_FILES_MAX) {
            let file = if folder.is_empty() { line.to_owned() } else { format!("{folder}/{line}") };
            files.push(self.index(&file)?);
        }
        if files.is_empty() {
            let sentence = format!("{path}: it names no files: write their paths into it, one a line");
            return Err(Failure { status: Status::UnsupportedMediaType, sentence });
        }
        Ok(files)
    }

    /// A file with its index, which others may have made already.
    fn index(&self, path: &str) -> Result<Arc<Indexed>, Failure> {
        let file = self.file(path)?;
        let identity = Identity::of(&file).map_err(|error| unreadable(path, &error))?;
        let known = |all: &HashMap<Identity, Weak<Indexed>>| all.get(&identity).and_then(Weak::upgrade);
        if let Some(known) = known(&self.files.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(known);
        }
        let media = Media::read(&file)
            .map_err(|error| Failure { status: status_of(&error), sentence: format!("{path}: {error}") })?;
        let fingerprint = media.landmarks().map(|places| fingerprint(&file, &places)).transpose();
        let fingerprint = fingerprint.map_err(|error| unreadable(path, &error))?;
        // Buffers are read as they are wanted; what else the kernel would read ahead is of other clients.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let indexed = Arc::new(Indexed {
            name: path.to_owned(),
            file,
            identity,
            media: Arc::new(media),
            fingerprint,
            is_told: AtomicBool::new(false),
            looked_ns: AtomicU64::new(0),
        });
        let mut all = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| known.strong_count() > 0);
        if let Some(known) = known(&all) {
            return Ok(known);
        }
        if all.len() >= self.files_max {
            let sentence = format!(
                "{path}: {} other files are being played: raise the limit of open files (ulimit -n)",
                all.len()
            );
            return Err(Failure { status: Status::ServiceUnavailable, sentence });
        }
        all.insert(identity, Arc::downgrade(&indexed));
        Ok(indexed)
    }

    /// A file in the folder. Links may lead anywhere within it.
    fn file(&self, path: &str) -> Result<File, Failure> {
        let refuse = |status, why: &str| Failure { status, sentence: format!("{path}: {why}") };
        let is_plain = |part: Component| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
        if path.is_empty() || !Path::new(path).components().all(is_plain) {
            return Err(refuse(Status::NotFound, "it is no name of a file in the folder"));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file =
            openat2(&self.folder, path, flags, Mode::empty(), resolve).map_err(|error| match error {
                Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => {
                    refuse(Status::NotFound, "there is no such file")
                }
                Errno::XDEV | Errno::LOOP => refuse(Status::Forbidden, "it is a link out of the folder"),
                Errno::ACCESS | Errno::PERM => refuse(Status::Forbidden, "this user may not read it"),
                error => unreadable(path, &error.into()),
            })?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
        if !metadata.is_file() {
            return Err(refuse(Status::NotFound, "it is no file"));
        }
        Ok(file)
    }
}

impl Opened {
    /// Of all tracks together; a guess where that is not known.
    pub fn bytes_per_second(&self) -> u64 {
        let tracks: Vec<usize> = (0..self.presentation.tracks.len()).collect();
        self.bytes_per_second_of(&tracks)
    }

    /// Of some tracks.
    pub fn bytes_per_second_of(&self, tracks: &[usize]) -> u64 {
        let rate = |track: &usize| self.presentation.tracks.get(*track)?.bits_per_second;
        tracks.iter().map(|track| rate(track).unwrap_or(1_000_000) / 8).sum()
    }

    /// Of their pictures that need no others.
    pub fn sync_bytes_per_second_of(&self, tracks: &[usize]) -> u64 {
        let media = &self.playlist.items()[0];
        let of_track = |track: &usize| {
            let of_media = media.tracks().get(*track).filter(|track| is_video(&track.codec))?;
            let index = of_media.index();
            let all = u128::from(self.bytes_per_second_of(&[*track]));
            u64::try_from(all * u128::from(index.sync_bytes()) / u128::from(index.payload_bytes().max(1)))
                .ok()
        };
        tracks.iter().filter_map(of_track).sum()
    }
}

impl Indexed {
    /// What is not served of it, as a sentence, the first time that this is asked.
    pub fn take_remark(&self) -> Option<String> {
        let left_out = self.media.left_out();
        let is_first = !left_out.is_empty() && !self.is_told.swap(true, Ordering::Relaxed);
        is_first.then(|| format!("{}: not all of it is served: {}", self.name, left_out.join(", ")))
    }

    /// Whether its samples may lie elsewhere by now, as far as has been looked in the last second.
    pub fn is_spoilt(&self, now_ns: u64) -> io::Result<bool> {
        if now_ns.saturating_sub(self.looked_ns.load(Ordering::Relaxed)) < LOOK_NS {
            return Ok(false);
        }
        let now = Identity::of(&self.file)?;
        let is_spoilt = now != self.identity && !(now.bytes > self.identity.bytes && self.has_grown()?);
        // A file that is spoilt is looked at each time: every session that plays it has to end.
        if !is_spoilt {
            self.looked_ns.store(now_ns, Ordering::Relaxed);
        }
        Ok(is_spoilt)
    }

    /// Whether what is longer now has only been added to. That is what happens to recordings; other files are written anew.
    fn has_grown(&self) -> io::Result<bool> {
        let Some(places) = self.media.landmarks() else { return Ok(false) };
        Ok(self.fingerprint == Some(fingerprint(&self.file, &places)?))
    }
}

impl Identity {
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            number: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        })
    }
}

impl Options {
    /// Other parameters are not the server's.
    fn parse(query: &str) -> Result<Self, Failure> {
        let mut options = Self::default();
        for part in query.split('&') {
            match part.split_once('=').unwrap_or((part, "")) {
                ("loop", value) => options.is_endless = !["0", "no", "false"].contains(&value),
                ("start", value) => {
                    let seconds = value.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
                    let seconds = seconds.ok_or_else(|| Failure {
                        status: Status::BadRequest,
                        sentence: format!("?start={value}: a number of seconds is wanted, as in ?start=90.5"),
                    })?;
                    options.start_ns = (seconds * 1e9) as u64;
                }
                _ => {}
            }
        }
        Ok(options)
    }
}

/// Of what stands at the beginnings of some places.
fn fingerprint(file: &File, places: &[Range<u64>]) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for place in places {
        let mut bytes = vec![0; LANDMARK_BYTES.min((place.end - place.start) as usize)];
        file.read_exact_at(&mut bytes, place.start)?;
        bytes.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn unreadable(path: &str, error: &io::Error) -> Failure {
    Failure { status: Status::InternalServerError, sentence: format!("{path}: it cannot be read: {error}") }
}

fn status_of(error: &forebay_media::Error) -> Status {
    match error {
        forebay_media::Error::Unreadable(_) => Status::InternalServerError,
        _ => Status::UnsupportedMediaType,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_playlist_count_among_those_that_may_be_open() {
        let folder = tempfile::tempdir().expect("a folder");
        // A frame of AAC with its header (ADTS): 44.1 kHz, one channel, 32 bytes.
        let mut frame = [0x21; 32];
        frame[..7].copy_from_slice(&[0xFF, 0xF1, 0x50, 0x40, 0x04, 0x1F, 0xFC]);
        for name in ["a.aac", "b.aac", "c.aac"] {
            std::fs::write(folder.path().join(name), frame.repeat(100)).expect("a file");
        }
        std::fs::write(folder.path().join("two.m3u"), "a.aac\nb.aac\n").expect("a file");
        let catalog = Catalog::new(folder.path(), 2).expect("a folder");
        let playing = catalog.open("two.m3u", "").expect("two files");
        let failure = catalog.open("c.aac", "").err().expect("a third one");
        assert_eq!(failure.status, Status::ServiceUnavailable);
        assert!(failure.sentence.contains("2 other files"), "{}", failure.sentence);
        drop(playing);
        catalog.open("c.aac", "").expect("a file");
    }
}
