//! Kinds of file systems, by the list of mounts and by sysfs: no file system is asked.

use crate::layout::file_system;

/// File systems whose look-ups, opens and listings are requests to another process or machine, by the beginnings of their names.
const REMOTE: [&[u8]; 10] =
    [b"fuse", b"nfs", b"cifs", b"smb", b"9p", b"ceph", b"afs", b"lustre", b"gpfs", b"virtiofs"];

/// The kernel's own, in which it says what FUSE file systems there are.
const FUSE_CONTROL: &[u8] = b"fusectl";

/// Where sysfs says, below a block device or the one that it is a part of, whether a loop device reads past the cache. It says 0 or 1.
const LOOP_DIRECT: [&str; 2] = ["loop/dio", "../loop/dio"];

/// The same for how many KiB the kernel reads ahead.
const READ_AHEAD: [&str; 2] = ["queue/read_ahead_kb", "../queue/read_ahead_kb"];
/// What it reads ahead at least on file systems that have parts, in KiB. Source: `open_ctree` of btrfs.
const READ_AHEAD_OF_PARTS: u64 = 4096;

/// A block device, as sysfs knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockDevice<'a> {
    /// Major and minor number: a folder of `/sys/dev/block`.
    Number(u32, u32),
    /// A folder of `/sys/class/block`.
    Name(&'a [u8]),
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Major and minor number of the device, as `st_dev` has them.
    pub device: (u32, u32),
    /// Whether the file system is remote.
    pub is_remote: bool,
    /// Whether a process serves it, through FUSE.
    pub is_fuse: bool,
    /// Whether its files tell other devices than the list does, one for each part of it.
    pub has_parts: bool,
    /// Where, with spaces and backslashes escaped.
    pub point: &'a [u8],
    /// What is mounted: of a local file system, the path of a block device as a rule.
    pub source: &'a [u8],
}

impl<'a> Mount<'a> {
    /// What the line says; `None` where it is none.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let device = core::str::from_utf8(fields.nth(2)?).ok()?;
        let (major, minor) = device.split_once(':')?;
        let point = fields.nth(1)?;
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, source) = (fields.next()?, fields.next()?);
        Some(Self {
            device: (major.parse().ok()?, minor.parse().ok()?),
            is_remote: REMOTE.into_iter().any(|name| kind.starts_with(name)) && kind != FUSE_CONTROL,
            is_fuse: kind.starts_with(b"fuse") && kind != FUSE_CONTROL,
            has_parts: kind == b"btrfs",
            point,
            source,
        })
    }

    /// Whether this is the mount of files that tell this device. `device_at` says what the root of the mount tells.
    pub fn is_of(&self, device: (u32, u32), device_at: impl FnOnce(&[u8]) -> Option<(u32, u32)>) -> bool {
        self.device == device || self.has_parts && device_at(self.point) == Some(device)
    }

    /// What kind of file system it is, in bits of [`file_system`]. `far` is how many KiB the kernel must read ahead to read far ahead. `says`
    /// is the number in the first of two files of sysfs that there is, below the device.
    pub fn kind(&self, far: u64, says: impl Fn(&BlockDevice<'_>, [&str; 2]) -> Option<u64>) -> u32 {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let Some(device) = self.block_device() else {
            return bit(self.is_remote, file_system::REMOTE) | bit(self.is_fuse, file_system::FUSE);
        };
        let least = if self.has_parts { READ_AHEAD_OF_PARTS } else { 0 };
        let ahead = says(&device, READ_AHEAD).unwrap_or(0).max(least);
        // A loop device reads its file through the cache by default. It serves one request after the other, and reads ahead in that
        // file where they come in order. So hints gain nothing, and disturb that.
        bit(says(&device, LOOP_DIRECT) == Some(0), file_system::CLOSED)
            | bit(ahead >= far, file_system::READS_FAR_AHEAD)
    }

    /// The block device of a local file system, if it has one. A file system that may have several has a number of its own.
    fn block_device(&self) -> Option<BlockDevice<'a>> {
        match self.device {
            _ if self.is_remote => None,
            (0, _) => self.source.strip_prefix(b"/dev/").map(BlockDevice::Name),
            (major, minor) => Some(BlockDevice::Number(major, minor)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_file_systems_are_told_by_their_kind() {
        let cases = [
            ("36 35 0:52 / /mnt rw,noatime shared:1 - fuse.sshfs me@there:/ rw", Some(((0, 52), true))),
            ("36 35 0:52 / /mnt rw - nfs4 there:/ rw", Some(((0, 52), true))),
            ("37 35 254:1 / / rw - ext4 /dev/vda rw", Some(((254, 1), false))),
            ("38 35 0:40 / /sys/fs/fuse/connections rw - fusectl fusectl rw", Some(((0, 40), false))),
            ("39 35 0:x / /mnt rw - fuse x rw", None),
            ("39 35 0:7 / /mnt rw - fuse", None),
            ("", None),
        ];
        for (line, expected) in cases {
            let told = Mount::parse(line.as_bytes()).map(|mount| (mount.device, mount.is_remote));
            assert_eq!(told, expected, "{line}");
        }
    }

    #[test]
    fn block_devices_are_known_by_number_or_name() {
        let cases = [
            ("37 35 254:1 / / rw - ext4 /dev/vda rw", Some(BlockDevice::Number(254, 1))),
            ("37 35 0:40 / / rw - btrfs /dev/loop0 rw", Some(BlockDevice::Name(b"loop0"))),
            ("37 35 0:41 / /tmp rw - tmpfs tmpfs rw", None),
            ("36 35 0:52 / /mnt rw - fuse /dev/fuse rw", None),
        ];
        for (line, expected) in cases {
            let mount = Mount::parse(line.as_bytes()).expect("a line of the list");
            assert_eq!(mount.block_device(), expected, "{line}");
        }
    }

    #[test]
    fn parts_of_a_file_system_are_told_by_the_root_of_their_mount() {
        let at = |point: &[u8]| (point == b"/part").then_some((0, 60));
        for (line, device, expected) in [
            ("37 35 0:40 /part /part rw - btrfs /dev/loop0 rw", (0, 60), true),
            ("37 35 0:40 /part /part rw - btrfs /dev/loop0 rw", (0, 40), true),
            ("37 35 0:40 /part /part rw - btrfs /dev/loop0 rw", (0, 61), false),
            ("37 35 0:40 / /elsewhere rw - btrfs /dev/loop0 rw", (0, 60), false),
            ("37 35 254:1 / /part rw - ext4 /dev/vda rw", (0, 60), false),
        ] {
            let mount = Mount::parse(line.as_bytes()).expect("a line of the list");
            assert_eq!(mount.is_of(device, at), expected, "{line} {device:?}");
        }
    }
}
