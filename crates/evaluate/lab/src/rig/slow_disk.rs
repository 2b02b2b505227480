//! A folder on a disk of a given profile.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::StatFs;

use super::{FileSystem, Opens, SlowDevice, Stats};
use crate::cleanup::{CleanupProcess, Layer, Order};
use crate::{Error, Profile, cold};

/// A file system on a disk of a profile, for as long as this lives.
///
/// It goes with its owner however that ends: return, panic, Ctrl-C, SIGKILL.
#[derive(Debug)]
pub struct SlowDisk {
    cleanup: CleanupProcess,
    is_local: bool,
    is_filled_apart: bool,
}

impl SlowDisk {
    /// Makes an empty ext4 of `size_bytes` (for [`Profile::Local`] a new folder, whatever the size).
    ///
    /// The disk's memory is used only for what is written.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for every profile but local without root, /dev/fuse, loop devices or mkfs.ext4.
    pub fn start(profile: Profile, size_bytes: u64) -> Result<Self, Error> {
        Self::with_file_system(profile, FileSystem::Ext4, size_bytes)
    }

    /// As [`start`](Self::start), with another file system where the profile is that of a device. One that cannot be written
    /// is empty, and can be written, until [`fill`](Self::fill) has ended; then it is an image of what was written.
    ///
    /// # Errors
    ///
    /// As those of [`start`](Self::start), for the program that makes the file system, and where the kernel does not know it.
    pub fn with_file_system(
        profile: Profile,
        file_system: FileSystem,
        size_bytes: u64,
    ) -> Result<Self, Error> {
        if profile.latency().is_none() {
            let cleanup = CleanupProcess::start(Layer::Folder, profile, 0, &folder_on_disk()?)?;
            return Ok(Self { cleanup, is_local: true, is_filled_apart: false });
        }
        let layer = if profile.is_device() { Layer::Disk(file_system) } else { Layer::Remote };
        SlowDevice::supported_for(layer)?;
        let disk = Self {
            cleanup: CleanupProcess::start(layer, profile, size_bytes, &std::env::temp_dir())?,
            is_local: false,
            is_filled_apart: profile.is_device() && file_system.is_filled_apart(),
        };
        disk.set_latency(true)?;
        Ok(disk)
    }

    /// The folder that is on the disk. On an ext4 of its own it holds an empty `lost+found`.
    pub fn mount_point(&self) -> &Path {
        self.cleanup.mount_point()
    }

    /// The block device; `None` for [`Profile::Local`] and [`Profile::Remote`], which have none of ours.
    pub fn device(&self) -> Option<SlowDevice<'_>> {
        SlowDevice::of(&self.cleanup)
    }

    /// Lets `fill` write to the disk without latency, waits until all of it is on the disk and turns the latency on
    /// again. Nothing else may use a disk that cannot be written meanwhile.
    ///
    /// # Errors
    ///
    /// When the data cannot be put on the disk or the cleanup process is gone.
    pub fn fill<T>(&self, fill: impl FnOnce(&Path) -> T) -> Result<T, Error> {
        self.set_latency(false)?;
        self.set_filling(true)?;
        let result = fill(self.mount_point());
        let folder =
            File::open(self.mount_point()).map_err(|error| Error::at("open", self.mount_point(), error))?;
        rustix::fs::syncfs(&folder).map_err(|error| Error::at("sync", self.mount_point(), error))?;
        drop(folder);
        self.set_filling(false)?;
        self.set_latency(true)?;
        Ok(result)
    }

    fn set_filling(&self, on: bool) -> Result<(), Error> {
        if self.is_filled_apart { self.cleanup.ask(Order::Filling(on)).map(drop) } else { Ok(()) }
    }

    /// Makes everything on the disk cold, names and inodes included, by unmounting and mounting it again.
    ///
    /// Waits some seconds for whoever still uses the disk. For [`Profile::Local`] the data is evicted file by file, and
    /// as root everything else that the kernel caches; the report says what stayed.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] names who uses the disk; it is left mounted then.
    pub fn make_cold(&self) -> Result<cold::Report, Error> {
        if self.is_local {
            return cold::evict(&[self.mount_point()], cold::Extent::Everything);
        }
        self.cleanup.ask(Order::Cold)?;
        Ok(cold::Report { metadata_dropped: true, ..cold::Report::default() })
    }

    /// The process that serves the disk. Its CPU time is the rig's own.
    pub fn cleanup_pid(&self) -> u32 {
        self.cleanup.pid()
    }

    /// What has been served so far; nothing for [`Profile::Local`].
    ///
    /// # Errors
    ///
    /// When the cleanup process is gone.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.cleanup.stats()
    }

    /// Counts from zero again.
    ///
    /// # Errors
    ///
    /// When the cleanup process is gone.
    pub fn reset_stats(&self) -> Result<(), Error> {
        self.cleanup.ask(Order::ResetStats).map(drop)
    }

    /// Whether requests that come from now on take the profile's latency. At first they do.
    ///
    /// # Errors
    ///
    /// When the cleanup process is gone.
    pub fn set_latency(&self, on: bool) -> Result<(), Error> {
        if self.is_local { Ok(()) } else { self.cleanup.ask(Order::Slow(on)).map(drop) }
    }

    /// What opens of files and folders are from now on, for [`Profile::Remote`]. At first they are requests as all others.
    ///
    /// # Errors
    ///
    /// When the cleanup process is gone.
    pub fn set_opens(&self, opens: Opens) -> Result<(), Error> {
        self.cleanup.ask(Order::Opens(opens)).map(drop)
    }
}

/// A folder for temporary files that is on a disk: what is in memory cannot be made cold.
pub(super) fn folder_on_disk() -> Result<PathBuf, Error> {
    let candidates = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    let current = std::env::current_dir().ok();
    let on_disk = |folder: &PathBuf| rustix::fs::statfs(folder).is_ok_and(|kind| !is_in_memory(&kind));
    candidates.into_iter().chain(current).find(on_disk).ok_or_else(|| Error::Unsupported {
        feature: "Cold files on the local disk".into(),
        needs: "a folder for temporary files that is not in memory".into(),
        how_to_enable: "Set TMPDIR to a folder on the disk.".into(),
    })
}

fn is_in_memory(kind: &StatFs) -> bool {
    // TMPFS_MAGIC and RAMFS_MAGIC of <linux/magic.h>.
    matches!(kind.f_type as u32, 0x0102_1994 | 0x8584_58f6)
}
