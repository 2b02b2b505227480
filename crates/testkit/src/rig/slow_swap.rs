//! Swap on a slow device.

use std::path::Path;

use super::{SlowBlock, Stats};
use crate::guardian::{Guardian, Layer, Order};
use crate::{Error, Profile};

/// Swap with a profile's latency, for as long as this lives, before all other swap of the machine.
///
/// It goes with its owner however that ends. What is swapped to it then comes back into memory first.
#[derive(Debug)]
pub struct SlowSwap {
    profile: Profile,
    guardian: Guardian,
}

impl SlowSwap {
    /// Makes swap of `size_bytes` (rounded up to whole 4 KiB blocks) and starts using it.
    ///
    /// Memory is used only for what is swapped out.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] for [`Profile::Local`], which is no device of ours, without root, and where FUSE, loop
    /// devices or mkswap are missing.
    pub fn start(profile: Profile, size_bytes: u64) -> Result<Self, Error> {
        SlowBlock::supported_for(profile)?;
        let guardian = Guardian::start(Layer::Swap, profile, size_bytes, Path::new("/"))?;
        guardian.ask(Order::Slow(true))?;
        Ok(Self { profile, guardian })
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

    /// What has been served so far.
    ///
    /// # Errors
    ///
    /// When the guardian is gone.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.guardian.stats()
    }

    /// The process that serves the device. Its CPU time is the rig's own.
    pub fn guardian_pid(&self) -> u32 {
        self.guardian.pid()
    }
}
