//! A slow block device with nothing on it.

use std::path::Path;

use super::Stats;
use crate::guardian::{Guardian, Layer, Order};
use crate::{Error, Profile};

/// A block device with a profile's latency, in memory, for as long as this lives.
///
/// It goes with its owner however that ends; swap on it is stopped first.
#[derive(Debug)]
pub struct SlowBlock {
    profile: Profile,
    guardian: Guardian,
}

impl SlowBlock {
    /// Makes a device of `size_bytes` zeros (rounded up to whole 4 KiB blocks).
    ///
    /// Memory is used only for what is written.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for [`Profile::Local`], which is no device of ours, without root, and where the kernel
    /// has no FUSE or loop devices.
    pub fn start(profile: Profile, size_bytes: u64) -> Result<Self, Error> {
        Self::supported_for(profile)?;
        let guardian = Guardian::start(Layer::Block, profile, size_bytes, Path::new("/"))?;
        guardian.ask(Order::Slow(true))?;
        Ok(Self { profile, guardian })
    }

    /// Whether this process can have a device of `profile`.
    pub(super) fn supported_for(profile: Profile) -> Result<(), Error> {
        if profile.latency().is_none() {
            return Err(Error::Unsupported {
                feature: "A slow block device".into(),
                needs: format!("a latency, which the profile {profile} does not have"),
                how_to_enable: "Use cloud, disk4 or saturated.".into(),
            });
        }
        Self::supported()
    }

    /// Whether this process can have slow devices and disks.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] says what is missing.
    pub fn supported() -> Result<(), Error> {
        let missing = |needs: &str, how_to_enable: &str| Error::Unsupported {
            feature: "The slow disk".into(),
            needs: needs.into(),
            how_to_enable: how_to_enable.into(),
        };
        if !rustix::process::geteuid().is_root() {
            return Err(missing("root", "Run the command with sudo, or use the profile local."));
        }
        for (device, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
            if !Path::new(device).exists() {
                let how_to_enable = format!("Load the kernel module: modprobe {module}");
                return Err(missing(device, &how_to_enable));
            }
        }
        Ok(())
    }

    /// Which device this imitates.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The device's node, below /dev.
    pub fn device(&self) -> &Path {
        self.guardian.device().unwrap_or(Path::new("/dev/null"))
    }

    /// Whether requests that come from now on take the profile's latency. At first they do.
    ///
    /// # Errors
    ///
    /// When the guardian is gone.
    pub fn set_latency(&self, on: bool) -> Result<(), Error> {
        self.guardian.ask(Order::Slow(on)).map(drop)
    }

    /// How far the kernel reads ahead in a file read in order, in KiB. At first it is 128.
    ///
    /// # Errors
    ///
    /// When the kernel does not take the value or the guardian is gone.
    pub fn set_read_ahead_kib(&self, kib: u32) -> Result<(), Error> {
        self.guardian.ask(Order::ReadAhead(kib)).map(drop)
    }

    /// What has been served so far.
    ///
    /// # Errors
    ///
    /// When the guardian is gone.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.guardian.stats()
    }

    /// Counts from zero again.
    ///
    /// # Errors
    ///
    /// When the guardian is gone.
    pub fn reset_stats(&self) -> Result<(), Error> {
        self.guardian.ask(Order::ResetStats).map(drop)
    }

    /// The process that serves the device. Its CPU time is the rig's own.
    pub fn guardian_pid(&self) -> u32 {
        self.guardian.pid()
    }
}
