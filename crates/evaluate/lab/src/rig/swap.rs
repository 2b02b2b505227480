//! Making swap on a device, or in a file, and using it before all other swap.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use forebay_linux::kernel_text;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::formatter::format_device;
use crate::{Error, sys};

/// The least that swap of a rig has; the kernel gives those of people who name none negative ones.
const PRIORITY_MIN: u16 = 100;

/// Makes a file of so many bytes that only root can read, with all its blocks: the kernel swaps past the file system.
pub(crate) fn allocate(file: &Path, bytes: u64) -> Result<(), Error> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let made = made.map_err(|error| Error::at("make", file, error))?;
    match rustix::fs::fallocate(&made, FallocateFlags::empty(), 0, bytes.next_multiple_of(4096)) {
        Err(Errno::OPNOTSUPP) => Err(no_swap_here()),
        allocated => allocated.map_err(|error| Error::at("allocate", file, std::io::Error::from(error))),
    }
}

/// As [`start`], to a file.
pub(crate) fn start_file(file: &Path) -> Result<(), Error> {
    start(file).map_err(|error| match error {
        Error::Io { source, .. } if source.raw_os_error() == Some(libc::EINVAL) => no_swap_here(),
        other => other,
    })
}

fn no_swap_here() -> Error {
    Error::Unsupported {
        feature: "Swap on the local disk".into(),
        needs: "a file system that files can be swapped to on".into(),
        how_to_enable: "Set TMPDIR to a folder on ext4 or XFS.".into(),
    }
}

/// Writes the header of swap to the device, or file.
pub(crate) fn make(device: &Path) -> Result<(), Error> {
    format_device("mkswap", "util-linux", &["-q"], device)
}

/// Swaps to the device, or file, from now on, and to what else there is when it is full.
pub(crate) fn start(device: &Path) -> Result<(), Error> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    sys::swap_on(device, priority_above(&swaps)).map_err(|error| Error::at("swap to", device, error))
}

/// A priority above those of all swap in the text of /proc/swaps (proc_swaps(5)).
fn priority_above(swaps: &str) -> u16 {
    let highest = kernel_text::swaps(swaps).map(|swap| swap.priority).max().unwrap_or(0);
    PRIORITY_MIN.max(u16::try_from(highest.saturating_add(1)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_priority_is_above_all_others() {
        let header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let with = |lines: &str| priority_above(&format!("{header}{lines}"));
        assert_eq!(with(""), 100);
        assert_eq!(with("/dev/sda2 partition 2097148 0 -2\n"), 100);
        assert_eq!(with("/dev/sda2 partition 2097148 0 -2\n/dev/loop0 partition 2097148 0 100\n"), 101);
    }
}
