//! Kinds of file systems, by the list of mounts: no file system is asked.

/// File systems whose look-ups, opens and listings are requests to another process or machine, by the beginnings of their names.
const REMOTE: [&[u8]; 10] =
    [b"fuse", b"nfs", b"cifs", b"smb", b"9p", b"ceph", b"afs", b"lustre", b"gpfs", b"virtiofs"];

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// Major and minor number of the device, as `st_dev` has them.
    pub device: (u32, u32),
    /// Whether the file system is remote.
    pub is_remote: bool,
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
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, source) = (fields.next()?, fields.next()?);
        Some(Self {
            device: (major.parse().ok()?, minor.parse().ok()?),
            is_remote: REMOTE.into_iter().any(|name| kind.starts_with(name)) && kind != b"fusectl",
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_file_systems_are_told_by_their_kind() {
        let mount = |device, is_remote, source: &'static str| {
            Some(Mount { device, is_remote, source: source.as_bytes() })
        };
        let cases = [
            (
                "36 35 0:52 / /mnt rw,noatime shared:1 - fuse.sshfs me@there:/ rw",
                mount((0, 52), true, "me@there:/"),
            ),
            ("36 35 0:52 / /mnt rw - nfs4 there:/ rw", mount((0, 52), true, "there:/")),
            ("37 35 254:1 / / rw - ext4 /dev/vda rw", mount((254, 1), false, "/dev/vda")),
            (
                "38 35 0:40 / /sys/fs/fuse/connections rw - fusectl fusectl rw",
                mount((0, 40), false, "fusectl"),
            ),
            ("39 35 0:x / /mnt rw - fuse x rw", None),
            ("39 35 0:7 / /mnt rw - fuse", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(Mount::parse(line.as_bytes()), expected, "{line}");
        }
    }
}
