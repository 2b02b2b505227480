//! The file systems that a slow disk can have.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::formatter::{format, format_device};
use crate::Error;

/// The file system on a slow disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// ext4.
    Ext4,
    /// overlayfs, with an ext4 as its lower layer.
    Overlay,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// SquashFS, which is made of a folder and cannot be written.
    Squashfs,
    /// EROFS, which is made of a folder and cannot be written.
    Erofs,
}

forebay_names::names! { "file system": FileSystem {
    Ext4 = "ext4",
    Overlay = "overlay",
    Xfs = "xfs",
    Btrfs = "btrfs",
    Squashfs = "squashfs",
    Erofs = "erofs",
} }

impl FileSystem {
    /// Whether it is made of a folder: the mount point itself, which is filled while nothing is mounted there.
    pub(crate) fn is_image(self) -> bool {
        matches!(self, Self::Squashfs | Self::Erofs)
    }

    /// Whether it is filled in another state than it is used in.
    pub(crate) fn is_filled_apart(self) -> bool {
        self.is_image() || self == Self::Overlay
    }

    /// Makes a file system that the kernel has nothing left to do for afterwards: with lazy initialisation ext4 would write
    /// inode tables in the background of whatever is measured.
    pub(crate) fn make(self, device: &Path) -> Result<(), Error> {
        match self {
            Self::Ext4 | Self::Overlay => {
                let options =
                    ["-q", "-F", "-b", "4096", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
                format_device("mkfs.ext4", "e2fsprogs", &options, device)
            }
            Self::Xfs => format_device("mkfs.xfs", "xfsprogs", &["-q", "-f"], device),
            Self::Btrfs => format_device("mkfs.btrfs", "btrfs-progs", &["-q", "-f"], device),
            Self::Squashfs | Self::Erofs => Ok(()),
        }
    }

    /// Makes an image of what lies at the mount point, where this is a file system that is made so.
    pub(crate) fn pack(self, device: &Path, mount_point: &Path) -> Result<(), Error> {
        let (folder, device) = (mount_point.as_os_str(), device.as_os_str());
        let word = OsStr::new;
        match self {
            Self::Squashfs => {
                let options = ["-noappend", "-quiet", "-no-progress"].map(word);
                format("mksquashfs", "squashfs-tools", &[&[folder, device], &options[..]].concat())
            }
            Self::Erofs => format("mkfs.erofs", "erofs-utils", &[device, folder]),
            Self::Ext4 | Self::Overlay | Self::Xfs | Self::Btrfs => Ok(()),
        }
    }

    /// Mounts it to be filled or to be used. It keeps no access times, so that reading never writes.
    pub(crate) fn mount(self, device: &Path, mount_point: &Path, filling: bool) -> Result<(), Error> {
        if self.is_image() && filling {
            return Ok(());
        }
        let below = if self == Self::Overlay { Self::Ext4 } else { self };
        let flags = if self.is_image() { MountFlags::RDONLY } else { MountFlags::empty() };
        below.mounted(
            rustix::mount::mount(device, mount_point, below.name(), flags | MountFlags::NOATIME, None),
            mount_point,
        )?;
        if self != Self::Overlay || filling {
            return Ok(());
        }
        // Without a layer that can be written there have to be two.
        let empty = upper_layer(mount_point);
        let layers = format!("lowerdir={}:{}", empty.display(), mount_point.display());
        let layers = std::ffi::CString::new(layers).map_err(|error| Error::io("name a layer", error))?;
        self.mounted(
            rustix::mount::mount("overlay", mount_point, self.name(), MountFlags::RDONLY, layers.as_c_str()),
            mount_point,
        )
    }

    fn mounted(self, mounted: Result<(), Errno>, mount_point: &Path) -> Result<(), Error> {
        mounted.map_err(|errno| match errno {
            Errno::NODEV => Error::Unsupported {
                feature: format!("A slow disk with {self}"),
                needs: format!("{self} in the kernel"),
                how_to_enable: format!("Load the kernel module: modprobe {self}"),
            },
            other => Error::at("mount", mount_point, other),
        })
    }
}

/// The empty folder that is the upper layer of an overlay.
pub(crate) fn upper_layer(mount_point: &Path) -> PathBuf {
    mount_point.with_file_name("upper")
}
