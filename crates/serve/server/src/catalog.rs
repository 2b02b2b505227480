//! Files by the paths of URLs: each is opened once for all sessions that play it.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use forebay_media::{Media, ReadAt, Reading, Stage, Streams};
use forebay_rtsp::message::Status;
use forebay_rtsp::presentation::Presentation;
use forebay_streaming::playlist::{Member, Playlist};
use forebay_streaming::program::is_video;
use rustix::fs::{Advice, fadvise};

use crate::folders::{Found, Root, Roots};
use crate::index_cache::IndexCache;
use crate::indexed::{Identity, Indexed, Subject};
use crate::m3u;
use crate::options::Options;
use crate::pass::{self, Pass};
use crate::patience::{Gate, Patience, Patient, is_impatient};

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

/// The folders, and what of them is open.
pub(crate) struct Catalog {
    roots: Mutex<Arc<Roots>>,
    cache: Option<IndexCache>,
    open: Mutex<HashMap<(String, Options, Extent), Weak<Opened>>>,
    files: Mutex<HashMap<Subject, Weak<Indexed>>>,
    kept: Mutex<VecDeque<(Subject, Arc<Media>)>>,
    failed: Mutex<HashMap<Subject, (Status, String)>>,
    /// Files whose indices grow, by device and number.
    growing: Mutex<HashMap<(u64, u64, Streams), Weak<Indexed>>>,
    /// Files that take a few reads are read before others.
    pub gate: Gate,
    /// How many files may be open.
    files_max: usize,
}

/// How much of a file whose index grows a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Extent {
    /// What there is, and what is found later.
    Begun,
    /// All that the file has now, and what is recorded later.
    Whole,
}

/// What a URL leads to.
pub(crate) struct Opened {
    /// As in the URL.
    pub path: String,
    /// The folder that it is in.
    pub root: Arc<Root>,
    pub presentation: Arc<Presentation>,
    pub playlist: Arc<Playlist>,
    /// By the numbers of the playlist.
    pub files: Vec<Arc<Indexed>>,
    /// What clients take for the beginning.
    pub origin_ns: u64,
    /// What is to be told of the list itself, until it has been told.
    remark: Mutex<Option<String>>,
}

/// Why there is nothing to play: for the client, and for the operator.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub status: Status,
    pub sentence: String,
}

/// How a file that takes long is read.
pub(crate) enum Begun {
    /// Turn by turn.
    Pass(Box<Pass>),
    /// From end to end at once.
    Whole,
    /// Not at all: it has been read.
    Known,
}

/// Why a file is not open.
pub(crate) enum NotOpened {
    /// It takes longer than there was patience for.
    TakesLong(Lacking),
    Because(Failure),
}

/// What is to be read before what a URL leads to can be played.
pub(crate) struct Lacking {
    /// The file: the one of the URL, or one of a list.
    pub path: String,
    /// What has been found of this and other files, and is to be kept until then.
    pub held: Vec<Arc<Indexed>>,
}

impl From<Failure> for NotOpened {
    fn from(failure: Failure) -> Self {
        Self::Because(failure)
    }
}

impl Catalog {
    pub fn new(roots: Roots, files_max: usize) -> Self {
        Self {
            roots: Mutex::new(Arc::new(roots)),
            cache: None,
            open: Mutex::default(),
            files: Mutex::default(),
            kept: Mutex::default(),
            failed: Mutex::default(),
            growing: Mutex::default(),
            gate: Gate::default(),
            files_max,
        }
    }

    /// One folder, without a name.
    #[cfg(test)]
    pub fn of(folder: &std::path::Path, files_max: usize) -> Self {
        let folder = crate::settings::Folder::sole(folder.to_owned());
        Self::new(Roots::open(&[folder], false).expect("a folder"), files_max)
    }

    /// The folders that are served now.
    pub fn roots(&self) -> Arc<Roots> {
        lock(&self.roots).clone()
    }

    /// Other folders are served from now on.
    pub fn serve(&self, roots: Roots) {
        *lock(&self.roots) = Arc::new(roots);
    }

    /// Indices are kept on disk.
    pub fn with_cache(self, cache: Option<IndexCache>) -> Self {
        Self { cache, ..self }
    }

    /// Reads files for as long as that takes.
    #[cfg(test)]
    pub fn open(&self, path: &str, query: &str) -> Result<Arc<Opened>, Failure> {
        self.open_within(path, query, Extent::Whole, Patience::Endless, &[]).map_err(|not_opened| {
            match not_opened {
                NotOpened::Because(failure) => failure,
                NotOpened::TakesLong(_) => unreachable!("patience has no end"),
            }
        })
    }

    /// Reads files, as far as there is patience for, and as they are not among those that are held.
    pub fn open_within(
        &self,
        path: &str,
        query: &str,
        extent: Extent,
        patience: Patience,
        held: &[Arc<Indexed>],
    ) -> Result<Arc<Opened>, NotOpened> {
        let options = Options::parse(query)?;
        let opened = self.open_now(path, options, extent, patience, held)?;
        let mut all = lock(&self.open);
        let key = (path.to_owned(), options, extent);
        if let Some(known) = all.get(&key).and_then(Weak::upgrade)
            && known.presentation == opened.presentation
            && Arc::ptr_eq(&known.root, &opened.root)
        {
            return Ok(known);
        }
        all.retain(|_, known| known.strong_count() > 0);
        all.insert(key, Arc::downgrade(&opened));
        Ok(opened)
    }

    fn open_now(
        &self,
        path: &str,
        options: Options,
        extent: Extent,
        patience: Patience,
        held: &[Arc<Indexed>],
    ) -> Result<Arc<Opened>, NotOpened> {
        let found = self.roots().find(path)?;
        let index = |found: &Found| {
            let known = held.iter().find(|file| file.name == found.path);
            known.map_or_else(|| self.index(found, options.streams, patience), |known| Ok(known.clone()))
        };
        let (files, remark) =
            if is_playlist(path) { self.playlist(&found, index)? } else { (vec![index(&found)?], None) };
        let members = files.iter().map(|file| member(file, extent, &options));
        let Some(members) = members.collect() else { return Err(takes_long(files)) };
        let playlist = Playlist::new(members, options.is_endless);
        let playlist = playlist.ok_or_else(|| Failure {
            status: Status::UnsupportedMediaType,
            sentence: format!(
                "{path}: its files differ in their tracks: encode them alike to play them as one"
            ),
        })?;
        if !playlist.reaches(options.start_ns) {
            return Err(takes_long(files));
        }
        let end_ns = playlist.end_ns();
        let playlist = playlist.within(options.start_ns, options.end_ns).ok_or_else(|| Failure {
            status: Status::BadRequest,
            sentence: if options.start_ns >= end_ns {
                let seconds = end_ns as f64 / 1e9;
                format!("{path}: the start that the URL names comes after its end, at {seconds:.3} seconds")
            } else {
                format!("{path}: the key frame before the start comes after the end that the URL names")
            },
        })?;
        let mut version = DefaultHasher::new();
        files.iter().for_each(|file| file.identity.hash(&mut version));
        options.hash(&mut version);
        let title = path.rsplit('/').next().unwrap_or(path).to_owned();
        let origin_ns = playlist.start_ns();
        let presentation = playlist.first().presentation(title, version.finish() >> 1);
        // Files that follow each other, and rounds, were not recorded so.
        let is_as_recorded = files.len() == 1 && !options.is_endless;
        let presentation = Presentation {
            duration_ns: playlist.duration_ns(),
            recorded_ns: is_as_recorded.then(|| files[0].recorded_ns().saturating_add(origin_ns)),
            ..presentation
        };
        let presentation = Arc::new(presentation);
        Ok(Arc::new(Opened {
            path: path.to_owned(),
            root: found.root,
            presentation,
            playlist: Arc::new(playlist),
            files,
            origin_ns,
            remark: Mutex::new(remark),
        }))
    }

    /// The files that a playlist names, seen from where it lies, and what is to be told of it.
    fn playlist(
        &self,
        found: &Found,
        index: impl Fn(&Found) -> Result<Arc<Indexed>, NotOpened>,
    ) -> Result<(Vec<Arc<Indexed>>, Option<String>), NotOpened> {
        let path = &found.path;
        let mut bytes = Vec::new();
        let list = found.file()?;
        let is_long = list.metadata().is_ok_and(|list| list.len() > PLAYLIST_BYTES_MAX);
        list.take(PLAYLIST_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
        let beside = found.rest.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut files = Vec::new();
        let lines = m3u::lines(&bytes).ok_or_else(|| Failure {
            status: Status::UnsupportedMediaType,
            sentence: format!("{path}: by its name it is a list of files, but it is no text"),
        })?;
        for line in lines.iter().take(PLAYLIST_FILES_MAX) {
            let readings = m3u::readings(line, beside, found.root.place());
            let readings: Vec<Found> = readings.into_iter().map(|rest| found.beside(rest)).collect();
            let named = readings.iter().find(|reading| reading.file().is_ok()).or(readings.first());
            let shown = String::from_utf8_lossy(line);
            let named = named.ok_or_else(|| Failure {
                status: Status::NotFound,
                sentence: format!("{path}: {shown} lies outside the folder that is served"),
            })?;
            match index(named) {
                Ok(file) => files.push(file),
                // What was found of the files before is not to be found again.
                Err(NotOpened::TakesLong(Lacking { path, .. })) => {
                    return Err(NotOpened::TakesLong(Lacking { path, held: files }));
                }
                Err(failure) => return Err(failure),
            }
        }
        if files.is_empty() {
            let sentence = format!("{path}: it names no files: write their paths into it, one a line");
            return Err(Failure { status: Status::UnsupportedMediaType, sentence }.into());
        }
        let is_cut = is_long || lines.len() > PLAYLIST_FILES_MAX;
        let remark = is_cut.then(|| {
            let served = files.len();
            format!("{path}: only its first {served} files are served: a list may have {PLAYLIST_FILES_MAX}, in 1 MiB")
        });
        Ok((files, remark))
    }

    /// A file with its index, which others may have made already.
    fn index(&self, found: &Found, streams: Streams, patience: Patience) -> Result<Arc<Indexed>, NotOpened> {
        let (path, file) = (&found.path, found.file()?);
        let identity = Identity::of(&file).map_err(|error| unreadable(path, &error))?;
        let subject = Subject { identity, streams };
        if let Some(known) = self.known(&subject).filter(|known| known.is_enough(patience)) {
            return Ok(known);
        }
        self.failure_known(path, &subject)?;
        let media = self.media(found, &file, subject, patience)?;
        // Buffers are read as they are wanted; what else the kernel would read ahead is of other clients.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let indexed = Indexed::new(path.clone(), file, subject, media, None);
        let indexed = Arc::new(indexed.map_err(|error| unreadable(path, &error))?);
        Ok(self.publish(subject, indexed)?)
    }

    /// The index of a file that there is, which may still grow.
    fn known(&self, subject: &Subject) -> Option<Arc<Indexed>> {
        let known = lock(&self.files).get(subject).and_then(Weak::upgrade);
        known.or_else(|| {
            let Subject { identity: Identity { device, number, .. }, streams } = *subject;
            let known = lock(&self.growing).get(&(device, number, streams)).and_then(Weak::upgrade)?;
            let grows = known.growing.as_ref().is_some_and(|growing| growing.stage() < Stage::Over);
            grows.then_some(known)
        })
    }

    /// Fails if it is known that a file cannot be served.
    fn failure_known(&self, path: &str, subject: &Subject) -> Result<(), Failure> {
        let failed = lock(&self.failed);
        let known = failed.get(subject);
        known.map_or(Ok(()), |(status, sentence)| {
            Err(Failure { status: *status, sentence: format!("{path}: {sentence}") })
        })
    }

    /// Has others find an index; returns the one that they find.
    pub fn publish(&self, subject: Subject, indexed: Arc<Indexed>) -> Result<Arc<Indexed>, Failure> {
        let path = &indexed.name;
        let mut all = lock(&self.files);
        all.retain(|_, known| known.strong_count() > 0);
        let known = all.get(&subject).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| known.is_enough(Patience::Endless)) {
            return Ok(known);
        }
        if all.len() >= self.files_max {
            let sentence = format!(
                "{path}: {} other files are being played: raise the limit of open files (ulimit -n)",
                all.len()
            );
            return Err(Failure { status: Status::ServiceUnavailable, sentence });
        }
        all.insert(subject, Arc::downgrade(&indexed));
        if indexed.growing.is_some() {
            let Subject { identity: Identity { device, number, .. }, streams } = subject;
            let mut growing = lock(&self.growing);
            growing.retain(|_, known| known.strong_count() > 0);
            growing.insert((device, number, streams), Arc::downgrade(&indexed));
        }
        Ok(indexed)
    }

    /// Begins a pass through a file, if there is one.
    pub fn begin_pass(&self, path: &str, streams: Streams) -> Result<Begun, Failure> {
        let found = self.roots().find(path)?;
        let file = found.file()?;
        let identity = Identity::of(&file).map_err(|error| unreadable(path, &error))?;
        let subject = Subject { identity, streams };
        if self.known(&subject).is_some() || self.remembered(&found, &subject).is_some() {
            return Ok(Begun::Known);
        }
        self.failure_known(path, &subject)?;
        // What is read has no use for what the kernel would read ahead.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let patient = Patient::new(&file, Patience::Endless, &self.gate);
        let reading = Reading::begin(&patient, streams);
        let reading = reading.map_err(|error| self.failure(path, subject, error))?;
        if !reading.is_in_parts() {
            return Ok(Begun::Whole);
        }
        Ok(Begun::Pass(Box::new(Pass::new(path.to_owned(), file, subject, reading))))
    }

    /// Reads a file from end to end, unless all of it is known.
    pub fn read_whole(&self, path: &str, streams: Streams) -> Result<Arc<Indexed>, Failure> {
        let found = self.roots().find(path)?;
        self.index(&found, streams, Patience::Endless).map_err(|not_opened| match not_opened {
            NotOpened::Because(failure) => failure,
            NotOpened::TakesLong(_) => Failure {
                status: Status::ServiceUnavailable,
                sentence: format!("{path}: opening it takes too long"),
            },
        })
    }

    /// Keeps a complete index, in memory and on disk.
    pub fn remember(&self, path: &str, subject: Subject, media: &Arc<Media>) {
        if let Some(cache) = &self.cache
            && let Ok(found) = self.roots().find(path)
        {
            // A full disk is no reason not to play.
            let _ = cache.put(&found.place(), &subject, media);
        }
        self.keep(subject, media.clone());
    }

    /// An index that was kept, in memory or on disk.
    fn remembered(&self, found: &Found, subject: &Subject) -> Option<Arc<Media>> {
        if let Some((_, media)) = lock(&self.kept).iter().find(|(known, _)| known == subject) {
            return Some(media.clone());
        }
        let media = Arc::new(self.cache.as_ref()?.get(&found.place(), subject)?);
        self.keep(*subject, media.clone());
        Some(media)
    }

    /// What is known of a file, from memory, from the cache or by reading it.
    fn media(
        &self,
        found: &Found,
        file: &File,
        subject: Subject,
        patience: Patience,
    ) -> Result<Arc<Media>, NotOpened> {
        if let Some(media) = self.remembered(found, &subject) {
            return Ok(media);
        }
        let media = Arc::new(self.read(&found.path, file, subject, patience)?);
        match patience {
            Patience::Endless => self.remember(&found.path, subject, &media),
            // A file that is read in no time is not worth a place on the disk.
            Patience::Short => self.keep(subject, media.clone()),
        }
        Ok(media)
    }

    fn read(
        &self,
        path: &str,
        file: &File,
        subject: Subject,
        patience: Patience,
    ) -> Result<Media, NotOpened> {
        let long = || NotOpened::TakesLong(Lacking { path: path.to_owned(), held: Vec::new() });
        let patient = Patient::new(file, patience, &self.gate);
        let is_large = patience == Patience::Short && subject.identity.bytes > QUICK_BYTES;
        if is_large && Media::takes_a_pass(&patient).is_ok_and(|takes| takes) {
            return Err(long());
        }
        let may_grow = patience == Patience::Short && pass::is_recent(&subject.identity);
        let media = read_all(&patient, subject.streams, may_grow).map_err(|error| match error {
            forebay_media::Error::Unreadable(error) if is_impatient(&error) => long(),
            error => self.failure(path, subject, error).into(),
        })?;
        media.ok_or_else(long)
    }

    /// Why a file is not served, which is remembered unless it cannot be read.
    pub fn failure(&self, path: &str, subject: Subject, error: forebay_media::Error) -> Failure {
        if let forebay_media::Error::Unreadable(error) = error {
            return unreadable(path, &error);
        }
        let (status, sentence) = (Status::UnsupportedMediaType, error.to_string());
        let mut failed = lock(&self.failed);
        if failed.len() >= FAILED_MAX {
            failed.clear();
        }
        failed.insert(subject, (status, sentence.clone()));
        Failure { status, sentence: format!("{path}: {sentence}") }
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
}

impl Opened {
    /// Of all tracks together; a guess where that is not known.
    pub fn bytes_per_second(&self) -> u64 {
        let tracks: Vec<usize> = (0..self.presentation.tracks.len()).collect();
        self.bytes_per_second_of(&tracks)
    }

    /// What is not served of it, for the operator, once.
    pub fn take_remarks(&self) -> impl Iterator<Item = String> {
        let own = lock(&self.remark).take();
        self.files.iter().filter_map(|file| file.take_remark()).chain(own)
    }

    /// Of some tracks.
    pub fn bytes_per_second_of(&self, tracks: &[usize]) -> u64 {
        let rate = |track: &usize| self.presentation.tracks.get(*track)?.bits_per_second;
        tracks.iter().map(|track| rate(track).unwrap_or(1_000_000) / 8).sum()
    }

    /// Of their pictures that need no others.
    pub fn sync_bytes_per_second_of(&self, tracks: &[usize]) -> u64 {
        let media = self.playlist.first();
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

/// `None` if it may be a recording that goes on, or has only just begun: that has to be followed.
fn read_all(
    file: &dyn ReadAt,
    streams: Streams,
    may_grow: bool,
) -> Result<Option<Media>, forebay_media::Error> {
    let mut reading = Reading::begin(file, streams)?;
    if may_grow && reading.is_in_parts() {
        while !reading.go_on(file, u64::MAX)? {}
        if !reading.is_closed(file)? {
            return Ok(None);
        }
    }
    reading.end(file).map(Some)
}

fn is_playlist(path: &str) -> bool {
    [".m3u", ".m3u8"].iter().any(|ending| path.to_ascii_lowercase().ends_with(ending))
}

/// A file as a client plays it who takes so much of it; `None` if its index has to come further first.
fn member(file: &Arc<Indexed>, extent: Extent, options: &Options) -> Option<Member> {
    let Some(growing) = &file.growing else { return Some(file.media.clone().into()) };
    // In this order: the latest of an index that has caught up has all.
    let (stage, latest) = (growing.stage(), growing.latest());
    let is_part = options.is_endless || options.start_ns > 0 || options.end_ns.is_some();
    match (extent, stage) {
        (Extent::Begun, _) => Some(growing.clone().into()),
        (Extent::Whole, Stage::Following) if !is_part => Some(growing.clone().into()),
        (Extent::Whole, Stage::Following | Stage::Over) => Some(latest.into()),
        (Extent::Whole, Stage::Behind) => {
            options.end_ns.filter(|end_ns| latest.has_all_before(*end_ns)).map(|_| latest.into())
        }
    }
}

/// The first file whose index is behind has to be read further.
fn takes_long(files: Vec<Arc<Indexed>>) -> NotOpened {
    let path = files.iter().find(|file| file.is_behind()).or(files.first());
    let path = path.map_or_else(String::new, |file| file.name.clone());
    NotOpened::TakesLong(Lacking { path, held: files })
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn unreadable(path: &str, error: &io::Error) -> Failure {
    Failure { status: Status::InternalServerError, sentence: format!("{path}: it cannot be read: {error}") }
}
