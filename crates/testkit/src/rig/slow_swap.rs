//! Swap on a slow device.

use std::path::Path;

use super::SlowDevice;
use crate::guardian::{Guardian, Layer};
use crate::{Error, Profile};

/// Swap with a profile's latency, for as long as this lives, before all other swap of the machine.
///
/// It goes with its owner however that ends. What is swapped to it then comes back into memory first.
#[derive(Debug)]
pub struct SlowSwap {
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
        if profile.latency().is_none() {
            return Err(Error::Unsupported {
                feature: "Slow swap".into(),
                needs: format!("a latency, which the profile {profile} does not have"),
                how_to_enable: "Use cloud, disk4 or saturated.".into(),
            });
        }
        SlowDevice::supported()?;
        let swap = Self { guardian: Guardian::start(Layer::Swap, profile, size_bytes, Path::new("/"))? };
        swap.device().set_latency(true)?;
        Ok(swap)
    }

    /// The device that is swapped to.
    pub fn device(&self) -> SlowDevice<'_> {
        SlowDevice::of(&self.guardian).expect("there is no swap without a device")
    }

    /// The process that serves the device. Its CPU time is the rig's own.
    pub fn guardian_pid(&self) -> u32 {
        self.guardian.pid()
    }
}
