//! Swap on a disk of a given profile.

use std::path::Path;

use super::SlowDevice;
use super::slow_disk::folder_on_disk;
use crate::cleanup::{CleanupProcess, Layer};
use crate::{Error, Profile};

/// Swap on a disk of a profile, for as long as this lives, before all other swap of the machine.
///
/// It goes with its owner however that ends. What is swapped to it then comes back into memory first.
#[derive(Debug)]
pub struct SlowSwap {
    cleanup: CleanupProcess,
}

impl SlowSwap {
    /// Makes swap of `size_bytes`, in whole 4 KiB blocks, and starts using it: for [`Profile::Local`] in a file on the
    /// machine's own disk, else on a device in memory, of which only what is swapped out takes any.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] without root, where FUSE, loop devices or mkswap are missing, and where the file system of the
    /// local disk cannot hold swap.
    pub fn start(profile: Profile, size_bytes: u64) -> Result<Self, Error> {
        if profile.latency().is_none() {
            if !rustix::process::geteuid().is_root() {
                return Err(Error::Unsupported {
                    feature: "Swap on the local disk".into(),
                    needs: "root".into(),
                    how_to_enable: "Run the command with sudo.".into(),
                });
            }
            let cleanup = CleanupProcess::start(Layer::SwapFile, profile, size_bytes, &folder_on_disk()?)?;
            return Ok(Self { cleanup });
        }
        if !profile.is_device() {
            return Err(Error::Unsupported {
                feature: "Slow swap".into(),
                needs: format!("a block device, which {profile} has none of"),
                how_to_enable: "Choose another profile.".into(),
            });
        }
        SlowDevice::supported()?;
        let cleanup = CleanupProcess::start(Layer::Swap, profile, size_bytes, Path::new("/"))?;
        let swap = Self { cleanup };
        swap.device().map_or(Ok(()), |device| device.set_latency(true))?;
        Ok(swap)
    }

    /// The device that is swapped to; `None` for [`Profile::Local`], which is no device of ours.
    pub fn device(&self) -> Option<SlowDevice<'_>> {
        SlowDevice::of(&self.cleanup)
    }

    /// The process that serves the device. Its CPU time is the rig's own.
    pub fn cleanup_pid(&self) -> u32 {
        self.cleanup.pid()
    }
}
