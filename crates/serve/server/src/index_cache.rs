//! Indices on disk, so that a server that starts again need not read all of a large file again.
//!
//! An index belongs to a path, a size, a time of change and what becomes of a file's streams. A file of the cache is written under
//! another name first. The cache believes a file only if its sum is right. At worst the server makes an index again.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use forebay_media::{Media, Streams};

use crate::indexed::{Identity, Subject};

/// What all indices may take on disk; the ones that were used the longest ago go first.
const BYTES_MAX: u64 = 256 << 20;
/// What one may take.
const ONE_BYTES_MAX: u64 = 64 << 20;
/// Another version may find other samples in the same file.
const MAGIC: &[u8] = concat!("forebay index ", env!("CARGO_PKG_VERSION"), "\n").as_bytes();
const ENDING: &str = "index";

/// A folder with indices.
#[derive(Debug)]
pub(crate) struct IndexCache {
    folder: PathBuf,
}

/// What an index belongs to.
fn key(path: &Path, subject: &Subject) -> Vec<u8> {
    let Subject { identity: Identity { bytes, modified_ns, .. }, streams } = subject;
    let streams = match streams {
        Streams::AsTracks => "tracks",
        Streams::WithText { generations: 0 } => "text",
        Streams::WithText { .. } => "text and repeats",
        Streams::AsTheyAre => "raw",
    };
    format!("{bytes} {modified_ns} {streams} {}\n", path.as_os_str().to_string_lossy()).into_bytes()
}

/// Tells two texts apart, on this machine.
fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl IndexCache {
    /// In a folder, which is made if it is not there.
    pub fn new(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    fn place(&self, key: &[u8]) -> PathBuf {
        self.folder.join(format!("{:016x}.{ENDING}", sum(key)))
    }

    /// The index of a file, if there is one.
    pub fn get(&self, path: &Path, subject: &Subject) -> Option<Media> {
        let key = key(path, subject);
        let place = self.place(&key);
        let file = fs::File::open(&place).ok()?;
        if file.metadata().ok()?.len() > ONE_BYTES_MAX {
            return None;
        }
        let content = fs::read(&place).ok()?;
        let (content, told) = content.split_at_checked(content.len().checked_sub(8)?)?;
        if sum(content).to_le_bytes() != told {
            return None;
        }
        // It was used now.
        let _ = file.set_modified(SystemTime::now());
        Media::from_bytes(content.strip_prefix(MAGIC)?.strip_prefix(key.as_slice())?, subject.identity.bytes)
    }

    /// Keeps the index of a file.
    pub fn put(&self, path: &Path, subject: &Subject, media: &Media) -> io::Result<()> {
        let key = key(path, subject);
        let mut content = [MAGIC, &key, &media.to_bytes()].concat();
        content.extend(sum(&content).to_le_bytes());
        if content.len() as u64 > ONE_BYTES_MAX {
            return Ok(());
        }
        self.make_room(content.len() as u64)?;
        let place = self.place(&key);
        let half = place.with_extension(format!("{}.half", std::process::id()));
        fs::write(&half, content)?;
        fs::rename(half, place)
    }

    /// Removes what was used the longest ago, as far as the new one needs its room.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let mut all: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                all.push((
                    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    metadata.len(),
                    entry.path(),
                ));
            }
        }
        all.sort();
        let mut sum = bytes + all.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        for (_, bytes, path) in all {
            if sum <= BYTES_MAX {
                break;
            }
            // Another server may have removed it.
            let _ = fs::remove_file(path);
            sum -= bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::FRAME;

    #[test]
    fn an_index_is_found_again_for_the_same_file_and_believed_only_if_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.aac");
        fs::write(&path, FRAME.repeat(100)).expect("a file");
        let identity = Identity::of(&fs::File::open(&path).expect("a file")).expect("an identity");
        let subject = Subject { identity, streams: Streams::AsTracks };
        let media = Media::open(&path).expect("sound");
        let cache = IndexCache::new(folder.path().join("cache")).expect("a cache");
        assert!(cache.get(&path, &subject).is_none());
        cache.put(&path, &subject, &media).expect("it is kept");
        let again = cache.get(&path, &subject).expect("it is there");
        assert_eq!(format!("{again:?}"), format!("{media:?}"));
        let longer = Identity { bytes: identity.bytes + 1, ..identity };
        let others =
            [Subject { identity: longer, ..subject }, Subject { streams: Streams::AsTheyAre, ..subject }];
        assert!(others.iter().all(|other| cache.get(&path, other).is_none()));
        assert!(cache.get(&folder.path().join("b.aac"), &subject).is_none());
        let place = cache.place(&key(&path, &subject));
        let mut content = fs::read(&place).expect("a file");
        let middle = content.len() / 2;
        content[middle] ^= 1;
        fs::write(&place, &content).expect("a file");
        assert!(cache.get(&path, &subject).is_none());
        fs::write(&place, &content[..5]).expect("a file");
        assert!(cache.get(&path, &subject).is_none());
    }
}
