//! The disks that can be had, by name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Which disk a measurement runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// This machine's own disk, as it is.
    Local,
    /// A local disk of flash memory, as clouds rent them out: 60 us a request, 6 at a time.
    Nvme,
    /// Block storage over a network: 1 ms a request, 128 at a time.
    Cloud,
    /// An array of four disks from the time of rotating ones: 12 ms a request, 4 at a time.
    Disk4,
    /// A device with no parallelism left to give: 1 ms a request, one after the other.
    Saturated,
}

/// How a slow device serves requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// How long the device is busy with one request, whatever its size.
    pub per_request: Duration,
    /// How many requests it is busy with at the same time. More wait their turn.
    pub in_parallel: usize,
}

impl Profile {
    /// Every profile, the fastest disk first.
    pub const ALL: [Self; 5] = [Self::Local, Self::Nvme, Self::Cloud, Self::Disk4, Self::Saturated];

    /// What is added to each request, or `None` where nothing is.
    pub fn latency(self) -> Option<Latency> {
        let (per_request_us, in_parallel) = match self {
            Self::Local => return None,
            Self::Nvme => (60, 6),
            Self::Cloud => (1_000, 128),
            Self::Disk4 => (12_000, 4),
            Self::Saturated => (1_000, 1),
        };
        Some(Latency { per_request: Duration::from_micros(per_request_us), in_parallel })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Nvme => "nvme",
            Self::Cloud => "cloud",
            Self::Disk4 => "disk4",
            Self::Saturated => "saturated",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no profile's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no disk profile: give local, nvme, cloud, disk4 or saturated")]
pub struct UnknownProfile(String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == name);
        found.ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_read_back_from_its_name() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert!("Cloud".parse::<Profile>().unwrap_err().to_string().contains("disk4"));
    }
}
