//! The block device under a slow disk, or slow swap.

use std::path::Path;

use super::{FileSystem, Stats};
use crate::Error;
use crate::cleanup::{CleanupProcess, Layer, Order};

/// A block device in memory whose every request takes a profile's latency, for as long as what lies on it.
///
/// Whatever is asked of it fails when the process that serves it is gone.
#[derive(Clone, Copy, Debug)]
pub struct SlowDevice<'a> {
    path: &'a Path,
    cleanup: &'a CleanupProcess,
}

impl<'a> SlowDevice<'a> {
    /// That of a rig; `None` where the rig has none.
    pub(super) fn of(cleanup: &'a CleanupProcess) -> Option<Self> {
        cleanup.device().map(|path| Self { path, cleanup })
    }

    /// Whether this process can have such devices.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] says what is missing.
    pub fn supported() -> Result<(), Error> {
        Self::supported_for(Layer::Disk(FileSystem::Ext4))
    }

    /// As [`supported`](Self::supported), for a rig of this kind.
    pub(super) fn supported_for(layer: Layer) -> Result<(), Error> {
        let missing = |needs: &str, how_to_enable: &str| Error::Unsupported {
            feature: layer.feature().into(),
            needs: needs.into(),
            how_to_enable: how_to_enable.into(),
        };
        if !rustix::process::geteuid().is_root() {
            return Err(missing("root", "Run the command with sudo, or use the profile local."));
        }
        let modules = [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")];
        let used = if layer == Layer::Remote { 1 } else { modules.len() };
        for (device, module) in modules.into_iter().take(used) {
            if !Path::new(device).exists() {
                let how_to_enable = format!("Load the kernel module: modprobe {module}");
                return Err(missing(device, &how_to_enable));
            }
        }
        Ok(())
    }

    /// Its node, below /dev.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Whether requests that come from now on take the profile's latency. At first they do.
    pub fn set_latency(&self, on: bool) -> Result<(), Error> {
        self.cleanup.ask(Order::Slow(on)).map(drop)
    }

    /// How far the kernel reads ahead in a file read in order, in KiB, if the kernel takes the value. At first it is 128.
    pub fn set_read_ahead_kib(&self, kib: u32) -> Result<(), Error> {
        self.cleanup.ask(Order::ReadAhead(kib)).map(drop)
    }

    /// What has been served so far.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.cleanup.stats()
    }

    /// Counts from zero again.
    pub fn reset_stats(&self) -> Result<(), Error> {
        self.cleanup.ask(Order::ResetStats).map(drop)
    }
}
