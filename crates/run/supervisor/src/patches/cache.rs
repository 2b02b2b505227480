//! Patch tables kept between runs, one file for each build of libc.
//!
//! A file lies in a directory of the user's own, and its content is checked against damage. The agent compares the code at
//! each site before it writes anything there.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use forebay_linux::limit;
use rustix::fs::OFlags;
use rustix::process::Resource;

use super::{BUILD_ID_BYTES_MAX, PatchError, PatchTable, Site, Within, find, image, well_ordered};

/// Changes with the format of the files, and with what [`find`] finds in one and the same library.
pub const CACHE_VERSION: u32 = 5;

/// First bytes of a file.
const MAGIC: [u8; 8] = *b"fbpatch\n";
/// Magic, version, count of sites, length of the build-id, its place, checksum.
const HEADER_BYTES: usize = 8 + 4 + 4 + 4 + BUILD_ID_BYTES_MAX + 8;
/// Sites that a file may list, several times what any libc has.
const SITES_MAX: usize = 1 << 14;
/// Where a site's word has [`Site::within`], above the bits of the channel's layout.
const WITHIN_SHIFT: u32 = 56;
/// Bytes at the start of a library within which linkers put the headers and the build-id.
const HEAD_BYTES: usize = 4096;

/// The sites of the library at `libc`: from the user's cache directory (`$XDG_CACHE_HOME/forebay` or
/// `~/.cache/forebay`), or by [`find`], whose result is then kept there if that is possible.
///
/// # Errors
///
/// Those of [`find`], and [`PatchError::Read`] for `libc`. The cache itself causes none.
pub fn cached_for(libc: &Path) -> Result<PatchTable, PatchError> {
    cached_in(directory().as_deref(), libc)
}

/// [`cached_for`] with the cache in `directory`, or without a cache.
///
/// # Errors
///
/// Those of [`cached_for`].
pub fn cached_in(directory: Option<&Path>, libc: &Path) -> Result<PatchTable, PatchError> {
    let failed = |source| PatchError::Read { path: libc.to_owned(), source };
    let file = File::open(libc).map_err(failed)?;
    let build_id = build_id(&file).map_err(failed)??;
    let place = directory.map(|directory| directory.join(file_name(&build_id)));
    if let Some(table) = place.as_deref().and_then(|place| read(place, &build_id)) {
        return Ok(table);
    }
    let mut content = Vec::new();
    (&file).read_to_end(&mut content).map_err(failed)?;
    let table = find(&content)?;
    if let Some(place) = place {
        // Without a cache the next run decodes libc again, which costs time only.
        let _ = write(&place, &table);
    }
    Ok(table)
}

fn file_name(build_id: &[u8]) -> String {
    let mut name = String::from("patches-");
    for byte in build_id {
        let _ = write!(name, "{byte:02x}");
    }
    let _ = write!(name, "-{CACHE_VERSION}");
    name
}

fn directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("forebay"))
}

/// Reads the build-id without reading the whole file.
fn build_id(file: &File) -> io::Result<Result<Vec<u8>, PatchError>> {
    let mut head = [0; HEAD_BYTES];
    let mut filled = 0;
    while filled < HEAD_BYTES {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    match image::build_id(&head[..filled]) {
        Err(PatchError::Missing { .. } | PatchError::Malformed { .. }) if filled == HEAD_BYTES => {}
        result => return Ok(result),
    }
    let mut content = Vec::new();
    io::copy(&mut Whole { file, at: 0 }, &mut content)?;
    Ok(image::build_id(content.as_slice()))
}

/// Reads a file from its start, whatever its position, which stays as it is.
struct Whole<'file> {
    file: &'file File,
    at: u64,
}

impl Read for Whole<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

fn read(place: &Path, build_id: &[u8]) -> Option<PatchTable> {
    // A FIFO in its place would be waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(place).ok()?;
    let metadata = file.metadata().ok()?;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0;
    let most = (HEADER_BYTES + SITES_MAX * 8) as u64;
    if !ours || !metadata.is_file() || metadata.len() > most {
        return None;
    }
    let mut content = Vec::with_capacity(metadata.len() as usize + 1);
    (&file).take(most).read_to_end(&mut content).ok()?;
    PatchTable::from_cache(&content).filter(|table| table.build_id == build_id)
}

/// Writes the file under another name first, so that no process reads half of it.
fn write(place: &Path, table: &PatchTable) -> io::Result<()> {
    // To go over a limit of the size of files would end this process by a signal, before the program has run.
    if limit(Resource::Fsize).is_none_or(|limit| limit.current.is_some()) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let directory = place.parent().ok_or(io::ErrorKind::InvalidInput)?;
    if !directory.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let temporary = place.with_extension(std::process::id().to_string());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file
        .write_all(&table.to_cache())
        .and_then(|()| file.set_permissions(Permissions::from_mode(0o600)))
        .and_then(|()| std::fs::rename(&temporary, place));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

impl PatchTable {
    /// The content of a cache file: magic bytes, version, count of sites, length of the build-id, the build-id
    /// padded with zeros, a checksum of everything else, one word for each site. Numbers are little-endian.
    #[must_use]
    pub fn to_cache(&self) -> Vec<u8> {
        let mut id = [0; BUILD_ID_BYTES_MAX];
        let id_len = self.build_id.len().min(BUILD_ID_BYTES_MAX);
        id[..id_len].copy_from_slice(&self.build_id[..id_len]);
        let mut content = Vec::with_capacity(HEADER_BYTES + self.sites.len() * 8);
        content.extend(MAGIC);
        content.extend(CACHE_VERSION.to_le_bytes());
        content.extend((self.sites.len() as u32).to_le_bytes());
        content.extend((id_len as u32).to_le_bytes());
        content.extend(id);
        content.extend([0; 8]);
        for site in &self.sites {
            content.extend((site.to_word() | (site.within as u64) << WITHIN_SHIFT).to_le_bytes());
        }
        let sum = checksum(&content);
        content[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        content
    }

    /// Reads the content of a cache file; `None` where it is not exactly what [`PatchTable::to_cache`] makes.
    #[must_use]
    pub fn from_cache(content: &[u8]) -> Option<Self> {
        let (header, words) = content.split_at_checked(HEADER_BYTES)?;
        let (magic, rest) = header.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (id_len, rest) = rest.split_first_chunk::<4>()?;
        let (id, rest) = rest.split_first_chunk::<BUILD_ID_BYTES_MAX>()?;
        let (sum, _) = rest.split_first_chunk::<8>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let id_len = u32::from_le_bytes(*id_len) as usize;
        let id_fits =
            (1..=BUILD_ID_BYTES_MAX).contains(&id_len) && id[id_len..].iter().all(|byte| *byte == 0);
        if *magic != MAGIC
            || u32::from_le_bytes(*version) != CACHE_VERSION
            || !id_fits
            || count > SITES_MAX
            || words.len() != count * 8
        {
            return None;
        }
        if checksum(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        let site = |word: &[u8]| {
            let word = u64::from_le_bytes(word.try_into().ok()?);
            let within = Within::from_u8((word >> WITHIN_SHIFT) as u8)?;
            Some(Site { within, ..Site::from_word(word & !(!0 << WITHIN_SHIFT))? })
        };
        let sites: Vec<Site> = words.chunks_exact(8).map(site).collect::<Option<_>>()?;
        well_ordered(&sites).then(|| Self { build_id: id[..id_len].to_vec(), sites })
    }
}

/// FNV-1a over the content but for the checksum's own place. Against damage, not against forgery.
fn checksum(content: &[u8]) -> u64 {
    let covered = content.iter().take(HEADER_BYTES - 8).chain(content.iter().skip(HEADER_BYTES));
    covered.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
