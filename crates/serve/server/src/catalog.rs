//! Files of the folder by the paths of URLs: each is opened once for all sessions that play it, and none from outside.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use forebay_media::{Media, ReadAt, Streams};
use forebay_rtsp::message::Status;
use forebay_rtsp::presentation::Presentation;
use forebay_rtsp::target::bytes_of;
use forebay_streaming::program::{Playlist, is_video};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, Mode, OFlags, ResolveFlags, fadvise, open, openat2};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::index_cache::IndexCache;
use crate::indexed::{Identity, Indexed, Subject};
use crate::m3u;
use crate::options::Options;
use crate::patience::{Patience, Patient, is_impatient};

/// The longest playlist, in bytes and in files.
const PLAYLIST_BYTES_MAX: u64 = 1 << 20;
const PLAYLIST_FILES_MAX: usize = 1000;
/// Indices that are kept though no session plays their files, and how much memory they may take.
const KEPT_MAX: usize = 64;
const KEPT_BYTES_MAX: usize = 16 << 20;
/// A larger file is not read from end to end for a client that does not wait.
const QUICK_BYTES: u64 = 1 << 20;
/// Files of which it is known that they cannot be served.
const FAILED_MAX: usize = 1000;

/// The folder, and what of it is open.
pub(crate) struct Catalog {
    folder: OwnedFd,
    /// Where it is, as far as that can be told.
    path: PathBuf,
    /// Whether links may lead out of it.
    follows_links: bool,
    cache: Option<IndexCache>,
    open: Mutex<HashMap<(String, Options), Weak<Opened>>>,
    files: Mutex<HashMap<Subject, Weak<Indexed>>>,
    kept: Mutex<VecDeque<(Subject, Arc<Media>)>>,
    failed: Mutex<HashMap<Subject, (Status, String)>>,
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

/// Why there is nothing to play: for the client, and for the operator.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub status: Status,
    pub sentence: String,
}

/// Why a file is not open.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// It takes longer than there was patience for.
    TakesLong,
    Because(Failure),
}

impl From<Failure> for NotOpened {
    fn from(failure: Failure) -> Self {
        Self::Because(failure)
    }
}

impl Catalog {
    pub fn new(folder: &Path, files_max: usize) -> Result<Self> {
        let failed = |error: Errno| Error::Folder { path: folder.to_owned(), source: error.into() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(folder, flags, Mode::empty()).map_err(failed)?;
        // To list it and to go into it takes other rights than to know that it is there.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&opened, ".", flags, Mode::empty()).map_err(failed)?;
        Ok(Self {
            folder: opened,
            path: folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
            follows_links: false,
            cache: None,
            open: Mutex::default(),
            files: Mutex::default(),
            kept: Mutex::default(),
            failed: Mutex::default(),
            files_max,
        })
    }

    /// Links may lead out of the folder, to other disks.
    pub fn following_links(self, follows_links: bool) -> Self {
        Self { follows_links, ..self }
    }

    /// Indices are kept on disk.
    pub fn with_cache(self, cache: Option<IndexCache>) -> Self {
        Self { cache, ..self }
    }

    /// Reads files for as long as that takes.
    #[cfg(test)]
    pub fn open(&self, path: &str, query: &str) -> Result<Arc<Opened>, Failure> {
        self.open_within(path, query, Patience::Endless).map_err(|not_opened| match not_opened {
            NotOpened::Because(failure) => failure,
            NotOpened::TakesLong => unreachable!("patience has no end"),
        })
    }

    /// Reads files, as far as there is patience for.
    pub fn open_within(&self, path: &str, query: &str, patience: Patience) -> Result<Arc<Opened>, NotOpened> {
        let options = Options::parse(query)?;
        let opened = self.open_now(path, options, patience)?;
        let mut all = lock(&self.open);
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

    fn open_now(&self, path: &str, options: Options, patience: Patience) -> Result<Arc<Opened>, NotOpened> {
        let is_playlist = [".m3u", ".m3u8"].iter().any(|ending| path.to_ascii_lowercase().ends_with(ending));
        let streams = options.streams;
        let files = if is_playlist {
            self.playlist(path, streams, patience)?
        } else {
            vec![self.index(path, streams, patience)?]
        };
        let items = files.iter().map(|file| file.media.clone()).collect();
        let playlist = Playlist::new(items, options.is_endless).ok_or_else(|| Failure {
            status: Status::UnsupportedMediaType,
            sentence: format!(
                "{path}: its files differ in their tracks: encode them alike to play them as one"
            ),
        })?;
        let playlist = playlist.within(options.start_ns, options.end_ns).ok_or_else(|| Failure {
            status: Status::BadRequest,
            sentence: format!(
                "{path}: the key frame before the start comes after the end that the URL names"
            ),
        })?;
        let mut version = DefaultHasher::new();
        files.iter().for_each(|file| file.identity.hash(&mut version));
        options.hash(&mut version);
        let title = path.rsplit('/').next().unwrap_or(path).to_owned();
        let origin_ns = playlist.start_ns();
        let presentation = playlist.items()[0].presentation(title, version.finish() >> 1);
        // Files that follow each other, and rounds, were not recorded so.
        let is_as_recorded = files.len() == 1 && !options.is_endless;
        let presentation = Presentation {
            duration_ns: playlist.duration_ns(),
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

    /// The files that a playlist names, seen from where it lies.
    fn playlist(
        &self,
        path: &str,
        streams: Streams,
        patience: Patience,
    ) -> Result<Vec<Arc<Indexed>>, NotOpened> {
        let mut bytes = Vec::new();
        let list = self.file(path)?;
        list.take(PLAYLIST_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
        let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut files = Vec::new();
        for line in m3u::lines(&bytes).iter().take(PLAYLIST_FILES_MAX) {
            let readings = m3u::readings(line, beside, &self.path);
            let found = readings.iter().find(|path| self.file(path).is_ok()).or(readings.first());
            let shown = String::from_utf8_lossy(line);
            let found = found.ok_or_else(|| Failure {
                status: Status::NotFound,
                sentence: format!("{path}: {shown} lies outside the folder that is served"),
            })?;
            files.push(self.index(found, streams, patience)?);
        }
        if files.is_empty() {
            let sentence = format!("{path}: it names no files: write their paths into it, one a line");
            return Err(Failure { status: Status::UnsupportedMediaType, sentence }.into());
        }
        Ok(files)
    }

    /// A file with its index, which others may have made already.
    fn index(&self, path: &str, streams: Streams, patience: Patience) -> Result<Arc<Indexed>, NotOpened> {
        let file = self.file(path)?;
        let identity = Identity::of(&file).map_err(|error| unreadable(path, &error))?;
        let subject = Subject { identity, streams };
        let known = |all: &HashMap<Subject, Weak<Indexed>>| all.get(&subject).and_then(Weak::upgrade);
        if let Some(known) = known(&lock(&self.files)) {
            return Ok(known);
        }
        if let Some((status, sentence)) = lock(&self.failed).get(&subject) {
            return Err(Failure { status: *status, sentence: format!("{path}: {sentence}") }.into());
        }
        let media = self.media(path, &file, subject, patience)?;
        // Buffers are read as they are wanted; what else the kernel would read ahead is of other clients.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let indexed = Indexed::new(path.to_owned(), file, subject, media);
        let indexed = Arc::new(indexed.map_err(|error| unreadable(path, &error))?);
        let mut all = lock(&self.files);
        all.retain(|_, known| known.strong_count() > 0);
        if let Some(known) = known(&all) {
            return Ok(known);
        }
        if all.len() >= self.files_max {
            let sentence = format!(
                "{path}: {} other files are being played: raise the limit of open files (ulimit -n)",
                all.len()
            );
            return Err(Failure { status: Status::ServiceUnavailable, sentence }.into());
        }
        all.insert(subject, Arc::downgrade(&indexed));
        Ok(indexed)
    }

    /// What is known of a file, from memory, from the cache or by reading it.
    fn media(
        &self,
        path: &str,
        file: &File,
        subject: Subject,
        patience: Patience,
    ) -> Result<Arc<Media>, NotOpened> {
        if let Some((_, media)) = lock(&self.kept).iter().find(|(known, _)| *known == subject) {
            return Ok(media.clone());
        }
        let place = self.path.join(OsStr::from_bytes(&bytes_of(path)));
        let cached = self.cache.as_ref().and_then(|cache| cache.get(&place, &subject));
        let is_cached = cached.is_some();
        let media = match cached {
            Some(media) => media,
            None => self.read(path, file, subject, patience)?,
        };
        let media = Arc::new(media);
        // A file that is read in no time is not worth a place on the disk.
        if let (Some(cache), Patience::Endless, false) = (&self.cache, patience, is_cached) {
            // A full disk is no reason not to play.
            let _ = cache.put(&place, &subject, &media);
        }
        self.keep(subject, media.clone());
        Ok(media)
    }

    fn read(
        &self,
        path: &str,
        file: &File,
        subject: Subject,
        patience: Patience,
    ) -> Result<Media, NotOpened> {
        let patient = Patient::new(file, patience);
        let is_large = patience == Patience::Short && subject.identity.bytes > QUICK_BYTES;
        if is_large && Media::takes_a_pass(&patient).is_ok_and(|takes| takes) {
            return Err(NotOpened::TakesLong);
        }
        Media::read_as(&patient as &dyn ReadAt, subject.streams).map_err(|error| match error {
            forebay_media::Error::Unreadable(error) if is_impatient(&error) => NotOpened::TakesLong,
            forebay_media::Error::Unreadable(error) => unreadable(path, &error).into(),
            error => {
                let (status, sentence) = (Status::UnsupportedMediaType, error.to_string());
                let mut failed = lock(&self.failed);
                if failed.len() >= FAILED_MAX {
                    failed.clear();
                }
                failed.insert(subject, (status, sentence.clone()));
                Failure { status, sentence: format!("{path}: {sentence}") }.into()
            }
        })
    }

    /// Keeps an index for clients that come back.
    fn keep(&self, subject: Subject, media: Arc<Media>) {
        let bytes =
            |media: &Media| media.tracks().iter().map(|track| track.index().memory_bytes()).sum::<usize>();
        let mut kept = lock(&self.kept);
        kept.retain(|(known, _)| *known != subject);
        kept.push_back((subject, media));
        while kept.len() > KEPT_MAX
            || kept.iter().map(|(_, media)| bytes(media)).sum::<usize>() > KEPT_BYTES_MAX
        {
            kept.pop_front();
        }
    }

    /// A file in the folder. Links may lead anywhere within it, and out of it where that is allowed.
    fn file(&self, path: &str) -> Result<File, Failure> {
        let refuse = |status, why: &str| Failure { status, sentence: format!("{path}: {why}") };
        let name = bytes_of(path);
        let name = Path::new(OsStr::from_bytes(&name));
        let is_plain = |part: Component| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
        if path.is_empty() || !name.components().all(is_plain) {
            return Err(refuse(Status::NotFound, "it is no name of a file in the folder"));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_at(name, flags).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => {
                refuse(Status::NotFound, "there is no such file")
            }
            Errno::XDEV | Errno::LOOP => {
                refuse(Status::Forbidden, "it is a link out of the folder; --follow-links allows such links")
            }
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

    /// What lies at a path in the folder, for other uses than to play it.
    pub fn open_at(&self, name: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let beneath = if self.follows_links { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
        let resolve = beneath | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.folder, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unreadable(path: &str, error: &io::Error) -> Failure {
    Failure { status: Status::InternalServerError, sentence: format!("{path}: it cannot be read: {error}") }
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
