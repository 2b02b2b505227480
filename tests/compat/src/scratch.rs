//! Scratch directories: fresh, filled the same way each time, and cold.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use forebay_lab::{Profile, SlowDisk};
use nix::fcntl::{AT_FDCWD, PosixFadviseAdvice, posix_fadvise};
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::time::TimeSpec;

/// A directory to fill, run in and compare. Its names are given from here on as paths relative to it.
pub struct Scratch {
    path: PathBuf,
}

/// Modification and access time of every file that a set-up makes, in seconds: long ago, so that a program's own
/// times show, and so that the first read changes the access time on any mount that keeps one.
pub(crate) const MODIFIED_S: i64 = 1_000_000_000;

impl Scratch {
    /// Makes an empty directory at `path`; what was there is removed.
    ///
    /// # Panics
    /// When the directory cannot be made.
    #[must_use]
    pub fn fresh(path: PathBuf) -> Self {
        if path.exists() {
            remove(&path);
        }
        // Another case that ends may just remove the directory above.
        let made = (0..100).any(|_| fs::create_dir_all(&path).is_ok());
        assert!(made, "{} cannot be made", path.display());
        Self { path }
    }

    /// Where the directory is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in the directory; the directories above it are made.
    ///
    /// # Panics
    /// When they cannot be.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).expect("make a directory");
        }
        path
    }

    /// Writes a file.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.at(name);
        fs::write(&path, content).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self
    }

    /// Writes an executable file.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn script(&self, name: &str, content: &str) -> &Self {
        forebay_testkit::script(self.at(name), content);
        self
    }

    /// Writes `lines` lines of words that depend on `seed` only.
    pub fn text(&self, name: &str, lines: usize, seed: u64) -> &Self {
        const WORDS: [&str; 24] = [
            "mill", "wheel", "water", "stone", "grain", "sluice", "river", "channel", "Gate", "basin",
            "needle", "meadow", "bridge", "flow", "weir", "pool", "ahead", "level", "north", "south", "pond",
            "heron", "reed", "the",
        ];
        let mut random = fastrand::Rng::with_seed(seed);
        let mut text = String::new();
        for line in 0..lines {
            let _ = write!(text, "{:05} {}", random.u32(..100_000), line % 97);
            for _ in 0..random.u32(3..12) {
                text.push(' ');
                text.push_str(random.choice(WORDS).unwrap_or_default());
            }
            text.push('\n');
        }
        self.file(name, text)
    }

    /// Writes `length` bytes that depend on `seed` only.
    pub fn noise(&self, name: &str, length: usize, seed: u64) -> &Self {
        let mut bytes = vec![0; length];
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        self.file(name, bytes)
    }

    /// Gives the directory, and what is in it, to another user. Only root can.
    ///
    /// # Panics
    /// When that is not possible.
    pub fn give_to(&self, user: u32) {
        give(&self.path, user);
    }

    /// Gives every name of the directory one old modification time, flushes all of it and drops it from the page
    /// cache, so that the next read of any file waits for the disk; with `names` also what the kernel knows of names
    /// and inodes, if the tests run as root.
    ///
    /// # Panics
    /// When a file cannot be opened or flushed.
    pub fn settle(&self, names: bool) {
        age(&self.path);
        nix::unistd::sync();
        chill(&self.path);
        if crate::root() && (names || crate::switch("FOREBAY_COMPAT_DROP")) {
            // Pages stay: other programs on the machine would wait for theirs.
            let what = if crate::switch("FOREBAY_COMPAT_DROP") { "3" } else { "2" };
            fs::write("/proc/sys/vm/drop_caches", what).expect("drop caches");
        }
    }
}

fn give(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).expect("give it away");
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).expect("list a directory") {
            give(&entry.expect("an entry").path(), user);
        }
    }
}

/// Directory for the scratch directories of this process: on the disk that is asked for, the same for all tests.
///
/// # Panics
/// When the slow disk cannot be started.
pub fn base() -> PathBuf {
    /// Goes with this process; its memory is used only for what is written.
    static DISK: OnceLock<SlowDisk> = OnceLock::new();
    const DISK_BYTES: u64 = 4 << 30;

    let own = format!("forebay-compat-{}", std::process::id());
    let Some(profile) = disk() else { return folder_on_disk().join(own) };
    let disk = DISK.get_or_init(|| SlowDisk::start(profile, DISK_BYTES).expect("start the slow disk"));
    disk.mount_point().join(own)
}

/// The disk that is asked for, if one is.
///
/// # Panics
/// When there is none of that name.
pub(crate) fn disk() -> Option<Profile> {
    let name = std::env::var("FOREBAY_COMPAT_DISK").ok().filter(|name| !name.is_empty())?;
    Some(name.parse().expect("a profile in FOREBAY_COMPAT_DISK"))
}

/// Where temporary files go, unless that is in memory, where nothing is ever cold: then beside the tests.
fn folder_on_disk() -> PathBuf {
    let usual = std::env::temp_dir();
    if statfs(&usual).is_ok_and(|found| found.filesystem_type() != TMPFS_MAGIC) {
        return usual;
    }
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().expect("tests lie in a directory").to_owned()
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() || !crate::switch("FOREBAY_COMPAT_KEEP") {
            remove(&self.path);
            // The last one takes the directory of all away; before that this fails.
            if let Some(above) = self.path.parent() {
                let _ = fs::remove_dir(above);
            }
        }
    }
}

/// Removes a tree, also where a program left directories without permissions.
fn remove(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir_all(path);
}

fn age(directory: &Path) {
    let old = TimeSpec::new(MODIFIED_S, 0);
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            age(&entry.path());
        }
        utimensat(AT_FDCWD, &entry.path(), &old, &old, UtimensatFlags::NoFollowSymlink).expect("set a time");
    }
}

fn chill(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let kind = entry.file_type().expect("a file's type");
        if kind.is_dir() {
            chill(&entry.path());
        } else if kind.is_file() {
            let file = File::open(entry.path()).expect("open what was just made");
            posix_fadvise(file.as_fd(), 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).expect("drop a file");
        }
    }
}
