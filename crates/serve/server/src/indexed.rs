//! A file whose samples are known, and whether they may lie elsewhere by now.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use forebay_media::{Growing, Media, Stage, Streams};

use crate::patience::Patience;

/// How often a file that is served is looked at again: that costs as much as reading a small buffer.
const LOOK_NS: u64 = 1_000_000_000;
/// What of a sample tells it from others.
const LANDMARK_BYTES: usize = 512;

/// A file whose samples are known.
pub(crate) struct Indexed {
    pub name: String,
    pub file: File,
    pub identity: Identity,
    streams: Streams,
    pub media: Arc<Media>,
    /// The same index with the samples that were found since, unless all were known at once.
    pub growing: Option<Arc<Growing>>,
    /// What stood at its landmarks when it was indexed; `None` if its tables tell it from others.
    fingerprint: Option<u64>,
    /// Whether it was told what is not served of it.
    is_told: AtomicBool,
    /// When it was last looked whether it has changed.
    looked_ns: AtomicU64,
    /// What it was when its landmarks were last compared.
    compared: Mutex<Identity>,
    /// When it was recorded, since 1970, once that has been asked.
    recorded_ns: OnceLock<u64>,
}

/// Another one whenever a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub device: u64,
    pub number: u64,
    pub bytes: u64,
    pub modified_ns: i128,
}

/// What an index is of: a file as it is now, and what becomes of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub identity: Identity,
    pub streams: Streams,
}

impl Indexed {
    /// A file of which `growing` gets more samples, if it is given.
    pub fn new(
        name: String,
        file: File,
        subject: Subject,
        media: Arc<Media>,
        growing: Option<Arc<Growing>>,
    ) -> io::Result<Self> {
        let Subject { identity, streams } = subject;
        let fingerprint = if media.may_grow() { Some(fingerprint(&file, &media.landmarks())?) } else { None };
        Ok(Self {
            name,
            file,
            identity,
            streams,
            media,
            growing,
            fingerprint,
            is_told: AtomicBool::new(false),
            looked_ns: AtomicU64::new(0),
            compared: Mutex::new(identity),
            recorded_ns: OnceLock::new(),
        })
    }

    /// Whether its index has as much as a client with so much patience wants: one that does not wait takes what there is.
    pub fn is_enough(&self, patience: Patience) -> bool {
        patience == Patience::Short || !self.is_behind()
    }

    /// Whether the file has more than is known of it.
    pub fn is_behind(&self) -> bool {
        self.growing.as_ref().is_some_and(|growing| growing.stage() == Stage::Behind)
    }

    /// When its beginning was recorded: as it tells; otherwise so long before it was last written as it is long. A recording that goes on
    /// keeps the time that was found first.
    pub fn recorded_ns(&self) -> u64 {
        *self.recorded_ns.get_or_init(|| {
            let told_ns = self.media.recorded_ns();
            let of_growing = self.growing.as_ref().map(|growing| {
                let now = Identity::of(&self.file).unwrap_or(self.identity);
                (growing.duration_ns().unwrap_or_else(|| growing.latest().duration_ns()), now.modified_ns)
            });
            let (duration_ns, modified_ns) =
                of_growing.unwrap_or((self.media.duration_ns(), self.identity.modified_ns));
            told_ns.unwrap_or_else(|| {
                u64::try_from(modified_ns.saturating_sub(duration_ns.into())).unwrap_or_default()
            })
        })
    }

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
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let is_spoilt = now != *compared && !self.is_the_same(now)?;
        // A file that is spoilt is looked at each time: every session that plays it has to end.
        if !is_spoilt {
            *compared = now;
            self.looked_ns.store(now_ns, Ordering::Relaxed);
        }
        Ok(is_spoilt)
    }

    /// Whether a file has only been touched, or added to as recordings are. Other files are written anew.
    fn is_the_same(&self, now: Identity) -> io::Result<bool> {
        match self.fingerprint {
            Some(known) if now.bytes >= self.identity.bytes => {
                Ok(known == fingerprint(&self.file, &self.media.landmarks())?)
            }
            None if now.bytes == self.identity.bytes => {
                let again = Media::read_as(&self.file, self.streams);
                Ok(again.is_ok_and(|media| media.to_bytes() == self.media.to_bytes()))
            }
            _ => Ok(false),
        }
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
