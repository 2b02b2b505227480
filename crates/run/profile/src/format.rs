//! How a profile is kept: a head of 16 bytes, then the body in the encoding of postcard.
//!
//! The head has a magic number, the version and the CRC-32 of the body, little-endian. The body has folders, each with its
//! parent's number and with the files in it, in the order of names. A name is the part that differs from the name before it.
//! `docs/reference/profiles.md` lists all fields.
//!
//! [`decode`] takes any bytes. What it accepts keeps all rules of a profile and all limits below.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize, Serializer};

use crate::key::{Key, Level};
use crate::need::{Identity, Kind, Kinds};
use crate::path::{self, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::profile::{Entry, Origin, Profile};
use crate::spans::{PAGES_MAX, Span, Uses};

/// First bytes of a profile.
pub const MAGIC: [u8; 8] = *b"fbaccess";
/// First bytes of a pack.
pub const PACK_MAGIC: [u8; 8] = *b"fbpacked";
/// Changes with the format.
pub const VERSION: u32 = 1;
/// The longest profile, in bytes.
pub const BYTES_MAX: usize = 1 << 20;
/// Paths and ranges that a profile may have, together.
pub const ITEMS_MAX: usize = 100_000;
/// Bytes of all paths of a profile, written out, and of all its folders.
pub const PATHS_BYTES_MAX: usize = 32 << 20;
/// Bytes of the command that a profile names, with one for each word's end.
pub const COMMAND_BYTES_MAX: usize = 4096;

/// Why bytes are no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// More bytes than [`BYTES_MAX`].
    #[error("the profile has {bytes} bytes, and a profile has at most {BYTES_MAX}")]
    TooLong {
        /// How many there are.
        bytes: usize,
    },
    /// Other first bytes.
    #[error("the file is none of this kind: its first bytes are other ones")]
    OtherKind,
    /// Another version.
    #[error("the profile has version {version} of the format, and this forebay reads version {VERSION}")]
    OtherVersion {
        /// Which.
        version: u32,
    },
    /// Another checksum.
    #[error("the profile is damaged: its checksum is another one")]
    Damaged,
    /// The body is not what postcard would write.
    #[error("the profile is malformed: its fields do not fill its bytes")]
    Malformed,
    /// No such level.
    #[error("the profile has level {level}, and there is no such level")]
    NoLevel {
        /// Which.
        level: u8,
    },
    /// A command or directory that is too long.
    #[error("the profile names a command that is too long")]
    CommandTooLong,
    /// More than [`ITEMS_MAX`].
    #[error("the profile has more than {ITEMS_MAX} paths and ranges")]
    TooManyItems,
    /// More than [`PATHS_BYTES_MAX`], or one path too long for the kernel.
    #[error("the profile has a path that is too long, or too many long paths")]
    PathsTooLong,
    /// Folders out of order, or below one that is not there.
    #[error("the profile has a folder out of its place")]
    FolderOutOfPlace,
    /// A relative path, `..`, a NUL.
    #[error("the profile has a name that no file can have, such as .. or one with a slash")]
    NotAName,
    /// Names out of order, or twice.
    #[error("the profile has a name out of its place")]
    NameOutOfPlace,
    /// No kind, an unknown one, or a missing path with others.
    #[error("the profile has a path that was used in no possible way")]
    NoKinds,
    /// Neither of the last two runs used it.
    #[error("the profile has a path or range that no run used")]
    NotUsed,
    /// A range without a file, a file without a range, or a missing file with either.
    #[error("the profile has ranges without the size of their file, or a size without ranges")]
    NoFile,
    /// An empty range, or one beyond the end of its file.
    #[error("the profile has a range that is empty or beyond the end of its file")]
    NotARange,
    /// A pack with what packs leave out.
    #[error("the pack has more than a pack has: a key, a working directory, or inodes")]
    NotPacked,
    /// A time before the start of the run, or over an hour after it.
    #[error("the profile has a time that no run can have")]
    NotATime,
}

#[derive(Serialize, Deserialize)]
struct Body<'a> {
    level: u8,
    digest: [u8; 32],
    #[serde(borrow)]
    command: Vec<&'a [u8]>,
    directory: &'a [u8],
    runs: u32,
    last_use_s: u64,
    /// The root is the first one. All others are in the order of [`path::order`].
    folders: Vec<Folder<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Folder<'a> {
    /// The number of a folder further ahead; 0 for the root itself.
    parent: u32,
    /// Empty for the root.
    #[serde(borrow, serialize_with = "at_once")]
    name: &'a [u8],
    files: Vec<File<'a>>,
}

#[derive(Serialize, Deserialize)]
struct File<'a> {
    /// Bytes that the name shares with the name of the file before it.
    shared: u8,
    #[serde(serialize_with = "at_once")]
    rest: &'a [u8],
    kinds: u8,
    uses: u8,
    first_us: u32,
    identity: Option<(u64, u64, u64, i64)>,
    spans: Vec<Part>,
}

#[derive(Serialize, Deserialize)]
struct Part {
    /// Pages since the end of the part before, or since the start of the file.
    gap: u64,
    pages: u64,
    /// Microseconds since the path's own time.
    later_us: i64,
    uses: u8,
}

/// Writes bytes as one, which is the same as one after the other, and faster.
fn at_once<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// The bytes of a profile.
#[must_use]
pub fn encode(profile: &Profile) -> Vec<u8> {
    encode_as(&MAGIC, profile)
}

pub(crate) fn encode_as(magic: &[u8; 8], profile: &Profile) -> Vec<u8> {
    let body = Body {
        level: profile.key.level as u8,
        digest: profile.key.digest,
        command: profile.origin.command.iter().map(Vec::as_slice).collect(),
        directory: &profile.origin.directory,
        runs: profile.runs,
        last_use_s: profile.last_use_s,
        folders: folders(&profile.entries),
    };
    // Only a value that refuses to be serialised fails, and none here does. `decode` refuses an empty body.
    let body = postcard::to_allocvec(&body).unwrap_or_default();
    [magic, &VERSION.to_le_bytes()[..], &crc32fast::hash(&body).to_le_bytes(), &body].concat()
}

/// How full a profile is, by the limit that it is nearest to. Over 1, [`decode`] refuses what [`encode`] makes.
pub(crate) fn fullness(profile: &Profile) -> f64 {
    let items: usize = profile.entries.iter().map(|entry| 1 + entry.spans.len()).sum();
    let share = |count: usize, max: usize| count as f64 / max as f64;
    let items = share(items, ITEMS_MAX);
    if items > 1.0 {
        return items;
    }
    let files: usize = profile.entries.iter().map(|entry| entry.path.len()).sum();
    let folders: usize = folder_paths(&profile.entries).iter().map(|path| path.len()).sum();
    let paths = share(files + folders, PATHS_BYTES_MAX);
    if paths > 1.0 {
        return paths;
    }
    items.max(paths).max(share(encode(profile).len(), BYTES_MAX))
}

/// All folders with files in them and those above, in the order of [`path::order`]; the root, which is empty, first.
fn folder_paths(entries: &[Entry]) -> Vec<&[u8]> {
    let mut found: HashSet<&[u8]> = [b"".as_slice()].into();
    for files in by_folder(entries) {
        let mut folder = path::split(&files[0].path).0;
        while found.insert(folder) {
            folder = path::split(folder).0;
        }
    }
    let mut paths: Vec<&[u8]> = found.into_iter().collect();
    paths.sort_by_cached_key(|path| path::order(path));
    paths
}

/// Entries of one folder are together.
fn by_folder(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    entries.chunk_by(|left, right| path::split(&left.path).0 == path::split(&right.path).0)
}

fn folders(entries: &[Entry]) -> Vec<Folder<'_>> {
    let paths = folder_paths(entries);
    let numbers: HashMap<&[u8], usize> =
        paths.iter().zip(0..).map(|(path, number)| (*path, number)).collect();
    let number = |path: &[u8]| numbers.get(path).copied().unwrap_or_default();
    let mut folders: Vec<Folder<'_>> = paths
        .iter()
        .map(|path| {
            let (parent, name) = path::split(path);
            Folder { parent: number(parent) as u32, name, files: Vec::new() }
        })
        .collect();
    for entries in by_folder(entries) {
        folders[number(path::split(&entries[0].path).0)].files = files(entries);
    }
    folders
}

/// The entries of one folder.
fn files(entries: &[Entry]) -> Vec<File<'_>> {
    let mut before: &[u8] = b"";
    let mut files = Vec::with_capacity(entries.len());
    for entry in entries {
        let name = path::split(&entry.path).1;
        let shared = before.iter().zip(name).take_while(|(before, now)| before == now).count();
        files.push(file(entry, shared, &name[shared..]));
        before = name;
    }
    files
}

fn file<'a>(entry: &Entry, shared: usize, rest: &'a [u8]) -> File<'a> {
    let mut end = 0;
    let part = |span: &Span| {
        let gap = span.pages.start - end;
        end = span.pages.end;
        let later_us = i64::from(span.first_us) - i64::from(entry.first_us);
        Part { gap, pages: span.pages.end - span.pages.start, later_us, uses: span.uses.bits() }
    };
    File {
        // Names are at most 255 bytes long.
        shared: shared as u8,
        rest,
        kinds: entry.kinds.bits(),
        uses: entry.uses.bits(),
        first_us: entry.first_us,
        identity: entry.identity.map(|id| (id.dev, id.ino, id.size, id.mtime_ns)),
        spans: entry.spans.iter().map(part).collect(),
    }
}

/// The profile that these bytes are.
///
/// # Errors
///
/// What is wrong with them.
pub fn decode(bytes: &[u8]) -> Result<Profile, FormatError> {
    decode_as(&MAGIC, bytes)
}

pub(crate) fn decode_as(magic: &[u8; 8], bytes: &[u8]) -> Result<Profile, FormatError> {
    if bytes.len() > BYTES_MAX {
        return Err(FormatError::TooLong { bytes: bytes.len() });
    }
    let rest = bytes.strip_prefix(magic).ok_or(FormatError::OtherKind)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or(FormatError::OtherKind)?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(FormatError::OtherVersion { version });
    }
    let (checksum, body) = rest.split_first_chunk::<4>().ok_or(FormatError::Damaged)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
        return Err(FormatError::Damaged);
    }
    // No field of a body is without bytes of its own, so no list is longer than the bytes there are.
    let (body, behind) = postcard::take_from_bytes::<Body<'_>>(body).map_err(|_| FormatError::Malformed)?;
    if !behind.is_empty() {
        return Err(FormatError::Malformed);
    }
    let level = Level::from_number(body.level).ok_or(FormatError::NoLevel { level: body.level })?;
    let command_bytes: usize = body.command.iter().map(|part| part.len() + 1).sum();
    if command_bytes > COMMAND_BYTES_MAX || body.directory.len() > PATH_BYTES_MAX {
        return Err(FormatError::CommandTooLong);
    }
    let origin = Origin {
        command: body.command.iter().map(|part| part.to_vec()).collect(),
        directory: body.directory.to_vec(),
    };
    Ok(Profile {
        key: Key { level, digest: body.digest },
        origin,
        runs: body.runs,
        last_use_s: body.last_use_s,
        entries: entries(&body.folders)?,
    })
}

fn entries(folders: &[Folder<'_>]) -> Result<Vec<Entry>, FormatError> {
    let files = folders.iter().flat_map(|folder| &folder.files);
    let items: usize = files.map(|file| 1 + file.spans.len()).sum();
    if items > ITEMS_MAX {
        return Err(FormatError::TooManyItems);
    }
    let mut room = PATHS_BYTES_MAX;
    let mut take_room = |path: &[u8]| {
        room = room.checked_sub(path.len()).ok_or(FormatError::PathsTooLong)?;
        if path.len() > PATH_BYTES_MAX { Err(FormatError::PathsTooLong) } else { Ok(()) }
    };
    let mut paths: Vec<Vec<u8>> = Vec::with_capacity(folders.len());
    let mut entries = Vec::with_capacity(items);
    for (number, folder) in folders.iter().enumerate() {
        let path = folder_path(folders, &paths, number)?;
        take_room(&path)?;
        let mut name: Vec<u8> = Vec::with_capacity(NAME_BYTES_MAX);
        for file in &folder.files {
            let before = name.get(..usize::from(file.shared)).ok_or(FormatError::NameOutOfPlace)?;
            let next = [before, file.rest].concat();
            if !path::is_name(&next) {
                return Err(FormatError::NotAName);
            }
            if next <= name {
                return Err(FormatError::NameOutOfPlace);
            }
            name = next;
            let whole = [path.as_slice(), b"/", &name].concat();
            take_room(&whole)?;
            entries.push(entry(whole, file)?);
        }
        paths.push(path);
    }
    Ok(entries)
}

/// The path of a folder, given those of all folders ahead of it.
fn folder_path(folders: &[Folder<'_>], paths: &[Vec<u8>], number: usize) -> Result<Vec<u8>, FormatError> {
    let folder = &folders[number];
    if number == 0 {
        let is_root = folder.parent == 0 && folder.name.is_empty();
        return if is_root { Ok(Vec::new()) } else { Err(FormatError::FolderOutOfPlace) };
    }
    if !path::is_name(folder.name) {
        return Err(FormatError::NotAName);
    }
    let parent = paths.get(folder.parent as usize).ok_or(FormatError::FolderOutOfPlace)?;
    let before = &folders[number - 1];
    if number > 1 && (folder.parent, folder.name) <= (before.parent, before.name) {
        return Err(FormatError::FolderOutOfPlace);
    }
    Ok([parent.as_slice(), b"/", folder.name].concat())
}

fn entry(path: Vec<u8>, file: &File<'_>) -> Result<Entry, FormatError> {
    let kinds = Kinds::from_bits(file.kinds).ok_or(FormatError::NoKinds)?;
    let identity = file.identity.map(|(dev, ino, size, mtime_ns)| Identity { dev, ino, size, mtime_ns });
    let has_file = identity.is_some();
    if has_file == file.spans.is_empty() || has_file && kinds.has(Kind::Missing) {
        return Err(FormatError::NoFile);
    }
    let end_max = identity.map_or(0, |identity| identity.pages()).min(PAGES_MAX);
    let mut end = 0_u64;
    let mut span = |part: &Part| {
        let start = end.checked_add(part.gap).ok_or(FormatError::NotARange)?;
        end = start.checked_add(part.pages).ok_or(FormatError::NotARange)?;
        if part.pages == 0 || end > end_max {
            return Err(FormatError::NotARange);
        }
        let first_us = i64::from(file.first_us).checked_add(part.later_us).and_then(|us| us.try_into().ok());
        Ok(Span {
            pages: start..end,
            first_us: first_us.ok_or(FormatError::NotATime)?,
            uses: Uses::from_bits(part.uses).ok_or(FormatError::NotUsed)?,
        })
    };
    let spans = file.spans.iter().map(&mut span).collect::<Result<_, _>>()?;
    let uses = Uses::from_bits(file.uses).ok_or(FormatError::NotUsed)?;
    Ok(Entry { path, kinds, uses, first_us: file.first_us, identity, spans })
}
