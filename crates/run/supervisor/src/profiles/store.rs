//! The folder of access profiles: one file for each key, the least recently used ones dropped.
//!
//! The folder and its files belong to the effective user, and only that user may write there. Anything else in its place is
//! left unread. A file is written under another name and then renamed, so a reader finds a whole profile or none. What a crash
//! leaves of it fails its checksum.
//!
//! Nothing here fails a run: without a folder, or with a full disk, there are no profiles.

use std::ffi::{CStr, CString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use forebay_linux::limit;
use forebay_profile::format::{self, BYTES_MAX, FormatError};
use forebay_profile::{Identity, Key, Need, Origin, Profile, Scope};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::process::{Resource, getegid, geteuid, getgid, getuid};

/// Profiles that a folder has at most.
pub const PROFILES_MAX: usize = 1024;

/// An empty file with this name turns profiles off.
const OFF: &CStr = c"off";

/// A folder of profiles. It is made when the first profile is kept.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// The user's own: `$XDG_STATE_HOME/forebay/profiles` or `~/.local/state/forebay/profiles`. Nothing without a home, and
    /// nothing in a process with another user's rights.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        if getuid() != geteuid() || getgid() != getegid() {
            return None;
        }
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state =
            variable("XDG_STATE_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/state")))?;
        Some(Self::at(state.join("forebay/profiles")))
    }

    /// The store in the folder at `path`.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is, or will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The profile that is kept under `key`, which is marked as used now. A damaged one is removed.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Profile> {
        self.use_of(key).map(|(profile, _)| profile)
    }

    /// The same, and when it was last used or taught, in seconds since 1970.
    fn use_of(&self, key: &Key) -> Option<(Profile, u64)> {
        let folder = self.open()?;
        if is_off(&folder) {
            return None;
        }
        let name = CString::new(key.name()).ok()?;
        let file = open_profile(folder.as_fd(), &name)?;
        let profile = read(folder.as_fd(), &name, &file)?;
        let last_s = rustix::fs::fstat(&file).map_or(0, |stat| stat.st_mtime);
        let now = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        // Without the mark the profile is only dropped earlier.
        let _ = rustix::fs::futimens(&file, &now);
        Some((profile, u64::try_from(last_s).unwrap_or(0)))
    }

    /// Keeps a profile in place of the one under its key. Does nothing while profiles are off.
    ///
    /// # Errors
    ///
    /// Those of the file system. The profile that was kept before is still there.
    pub fn put(&self, profile: &Profile) -> io::Result<()> {
        // To go over a limit of the size of files would end this process by a signal.
        if limit(Resource::Fsize).is_none_or(|limit| limit.current.is_some()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let folder = self.make()?;
        if is_off(&folder) {
            return Ok(());
        }
        let name = CString::new(profile.key().name())?;
        let is_new = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).is_err();
        write(folder.as_fd(), &name, &format::encode(profile))?;
        if is_new {
            drop_least_recently_used(folder.as_fd());
        }
        Ok(())
    }

    /// The most specific profile of a command that is kept, and when it was last used or taught, in seconds since 1970. `scopes` are the
    /// command's.
    #[must_use]
    pub fn most_specific(&self, scopes: &[Scope]) -> Option<(Profile, u64)> {
        scopes.iter().find_map(|scope| self.use_of(&scope.key))
    }

    /// Teaches all profiles of a command what one run needed, as far as that was seen. One that cannot be kept is left as it is.
    pub fn teach(
        &self,
        scopes: &[Scope],
        origin: &Origin,
        sees_all: bool,
        needs: &[Need],
        identity_of: impl Fn(&[u8]) -> Option<Identity>,
        now_s: u64,
    ) {
        if self.is_off() {
            return;
        }
        for scope in scopes {
            let known = self.get(&scope.key).map(|profile| profile.recorded_from(origin.clone()));
            let before = known.unwrap_or_else(|| Profile::new(scope.key, origin.clone()));
            let admitted = needs.iter().filter(|need| scope.admits(&need.path));
            let runs = before.runs();
            let after = before.learn_seen(sees_all, admitted, &identity_of, now_s);
            if after.runs() != runs {
                // A full disk costs the next run its profile, and this run nothing.
                let _ = self.put(&after);
            }
        }
    }

    /// The profile that is kept under `key`, also while profiles are off. It is not marked as used.
    #[must_use]
    pub fn look_up(&self, key: &Key) -> Option<Profile> {
        let folder = self.open()?;
        let name = CString::new(key.name()).ok()?;
        read(folder.as_fd(), &name, &open_profile(folder.as_fd(), &name)?)
    }

    /// All profiles, one read after the other. None of them is marked as used.
    pub fn profiles(&self) -> impl Iterator<Item = Profile> + use<> {
        let folder = self.open();
        let names = folder.as_ref().map(|folder| names(folder.as_fd())).unwrap_or_default();
        names.into_iter().filter_map(move |name| {
            let folder = folder.as_ref()?.as_fd();
            read(folder, &name, &open_profile(folder, &name)?)
        })
    }

    /// Removes the profile under `key`, and says whether there was one.
    #[must_use]
    pub fn forget(&self, key: &Key) -> bool {
        let removed = self.open().zip(CString::new(key.name()).ok());
        removed.is_some_and(|(folder, name)| remove(folder.as_fd(), &name))
    }

    /// Removes all profiles, and says how many there were.
    #[must_use]
    pub fn forget_all(&self) -> usize {
        let Some(folder) = self.open() else { return 0 };
        names(folder.as_fd()).iter().filter(|name| remove(folder.as_fd(), name)).count()
    }

    /// Whether runs neither use nor teach profiles.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.open().is_some_and(|folder| is_off(&folder))
    }

    /// Turns profiles off, or on again. Those that are kept stay.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn set_off(&self, off: bool) -> io::Result<()> {
        if off {
            let flags =
                OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            rustix::fs::openat(self.make()?, OFF, flags, Mode::RUSR | Mode::WUSR)?;
        } else if let Some(folder) = self.open() {
            match rustix::fs::unlinkat(folder, OFF, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn open(&self) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.path, flags, Mode::empty()).ok()?;
        rustix::fs::fstat(&folder).is_ok_and(|stat| is_ours(&stat)).then_some(folder)
    }

    /// Opens the folder, and makes it where it is missing and lies in a folder of the same user.
    fn make(&self) -> io::Result<OwnedFd> {
        if std::fs::symlink_metadata(&self.path).is_err() {
            let above = self.path.ancestors().find_map(|folder| std::fs::metadata(folder).ok());
            if above.is_none_or(|above| above.uid() != geteuid().as_raw()) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        }
        self.open().ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }
}

fn is_off(folder: &OwnedFd) -> bool {
    rustix::fs::statat(folder, OFF, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Whether it belongs to the effective user, and others may not write to it.
fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o022 == 0
}

/// Opens what may be a profile, without waiting for a FIFO.
fn open_profile(folder: BorrowedFd<'_>, name: &CStr) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty()).ok().map(File::from)
}

/// Reads a profile. One that is not whole is removed; one of another version is left to that version.
fn read(folder: BorrowedFd<'_>, name: &CStr, file: &File) -> Option<Profile> {
    let stat = rustix::fs::fstat(file).ok()?;
    if !is_ours(&stat) || FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let size = usize::try_from(stat.st_size).unwrap_or(usize::MAX).min(BYTES_MAX);
    let mut bytes = Vec::with_capacity(size + 1);
    // One byte more tells a file that is too long.
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    match format::decode(&bytes) {
        Ok(profile) if profile.key().name().as_bytes() == name.to_bytes() => Some(profile),
        Err(FormatError::OtherVersion { .. }) => None,
        Ok(_) | Err(_) => {
            remove(folder, name);
            None
        }
    }
}

fn write(folder: BorrowedFd<'_>, name: &CStr, bytes: &[u8]) -> io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let temporary = CString::new(format!(".{}.{}", std::process::id(), now.as_nanos()))?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
    let written =
        file.write_all(bytes).and_then(|()| Ok(rustix::fs::renameat(folder, &temporary, folder, name)?));
    if written.is_err() {
        remove(folder, &temporary);
    }
    written
}

fn remove(folder: BorrowedFd<'_>, name: &CStr) -> bool {
    rustix::fs::unlinkat(folder, name, AtFlags::empty()).is_ok()
}

/// The names of all profiles, and of what a killed process left of one.
fn names(folder: BorrowedFd<'_>) -> Vec<CString> {
    let Ok(entries) = rustix::fs::Dir::read_from(folder) else { return Vec::new() };
    let all = entries.filter_map(Result::ok).map(|entry| entry.file_name().to_owned());
    all.filter(|name| !matches!(name.to_bytes(), b"." | b"..") && name.as_c_str() != OFF).collect()
}

/// Removes the profiles that were used longest ago, down to [`PROFILES_MAX`].
fn drop_least_recently_used(folder: BorrowedFd<'_>) {
    let names = names(folder);
    let Some(excess @ 1..) = names.len().checked_sub(PROFILES_MAX) else { return };
    let used = |name: &CString| {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_mtime, stat.st_mtime_nsec))
    };
    let mut by_use: Vec<_> = names.into_iter().map(|name| (used(&name), name)).collect();
    by_use.sort();
    for (_, name) in by_use.iter().take(excess) {
        remove(folder, name);
    }
}
