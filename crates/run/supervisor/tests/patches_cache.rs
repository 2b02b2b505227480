//! Tables kept between runs.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

mod patches_library;

use forebay_supervisor::patches::{CACHE_VERSION, PatchError, PatchTable, cached_in, find};
use patches_library::{BUILD_ID, Library};
use tempfile::TempDir;

const READ: [u8; 11] = [0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0xc3];

/// A directory with a library and its table, and with room for a cache.
struct Place {
    directory: TempDir,
    table: PatchTable,
}

impl Place {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let file = Library::of(&READ).file();
        fs::write(directory.path().join("libc.so.6"), &file).unwrap();
        Self { directory, table: find(&file).unwrap() }
    }

    fn cache(&self) -> PathBuf {
        self.directory.path().join("deep/cache/forebay")
    }

    fn entry(&self) -> PathBuf {
        let id: String = BUILD_ID.iter().map(|byte| format!("{byte:02x}")).collect();
        self.cache().join(format!("patches-{id}-{CACHE_VERSION}"))
    }

    fn get(&self) -> PatchTable {
        cached_in(Some(&self.cache()), &self.directory.path().join("libc.so.6")).unwrap()
    }

    /// Puts a table into the cache that decoding would not give, so that one can tell where an answer is from.
    fn mark(&self) -> PatchTable {
        let marked = self.table.with_sites(Vec::new());
        fs::create_dir_all(self.cache()).unwrap();
        fs::write(self.entry(), marked.to_cache()).unwrap();
        fs::set_permissions(self.entry(), Permissions::from_mode(0o600)).unwrap();
        marked
    }
}

/// And not waited for.
#[test]
fn a_fifo_in_the_place_of_a_table_is_replaced() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let place = Place::new();
    fs::create_dir_all(place.cache()).unwrap();
    mknodat(CWD, place.entry(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_eq!(place.get(), place.table);
    assert_eq!(PatchTable::from_cache(&fs::read(place.entry()).unwrap()), Some(place.table.clone()));
}

#[test]
fn a_table_is_kept_for_its_user_only() {
    let place = Place::new();
    assert_eq!(place.get(), place.table);
    assert_eq!(PatchTable::from_cache(&fs::read(place.entry()).unwrap()), Some(place.table.clone()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place.cache()), mode(&place.entry())), (0o700, 0o600));
    assert_eq!(fs::read_dir(place.cache()).unwrap().count(), 1, "a temporary file was left");
}

#[test]
fn a_kept_table_is_used() {
    let place = Place::new();
    let marked = place.mark();
    assert_eq!(place.get(), marked);
}

#[test]
fn a_file_that_is_damaged_or_of_another_library_is_replaced() {
    let place = Place::new();
    let content = place.mark().to_cache();
    let mut damaged = content.clone();
    damaged[9] ^= 1;
    let other = PatchTable { build_id: vec![1; 20], sites: Vec::new() }.to_cache();
    for wrong in [&damaged[..], &content[..content.len() - 1], &other, &[], &vec![0; 1 << 20]] {
        fs::write(place.entry(), wrong).unwrap();
        assert_eq!(place.get(), place.table);
        assert_eq!(fs::read(place.entry()).unwrap(), place.table.to_cache());
    }
}

#[test]
fn a_file_that_others_could_have_written_is_not_used() {
    let place = Place::new();
    place.mark();
    fs::set_permissions(place.entry(), Permissions::from_mode(0o622)).unwrap();
    assert_eq!(place.get(), place.table);

    place.mark();
    let elsewhere = place.cache().join("elsewhere");
    fs::rename(place.entry(), &elsewhere).unwrap();
    symlink(&elsewhere, place.entry()).unwrap();
    assert_eq!(place.get(), place.table);
}

#[test]
fn without_a_place_to_write_the_table_is_made_all_the_same() {
    let place = Place::new();
    fs::write(place.directory.path().join("deep"), "not a directory").unwrap();
    assert_eq!(place.get(), place.table);
    assert_eq!(cached_in(None, &place.directory.path().join("libc.so.6")).unwrap(), place.table);
}

#[test]
fn a_library_that_cannot_be_read_is_named() {
    let error = cached_in(None, Path::new("/nonexistent/libc.so.6")).unwrap_err();
    assert!(error.to_string().starts_with("cannot read /nonexistent/libc.so.6: No such file"), "{error}");
    let directory = TempDir::new().unwrap();
    assert!(matches!(cached_in(None, directory.path()), Err(PatchError::Read { .. })));
    let empty = directory.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert!(matches!(cached_in(None, &empty), Err(PatchError::Malformed { .. })));
}
