//! Kinds of file systems, by the list of mounts: no file system is asked.

/// File systems whose look-ups, opens and listings are requests to another process or machine, by the beginnings of their names.
const REMOTE: [&[u8]; 10] =
    [b"fuse", b"nfs", b"cifs", b"smb", b"9p", b"ceph", b"afs", b"lustre", b"gpfs", b"virtiofs"];

/// The major and minor number of the device, if this line of `/proc/self/mountinfo` is that of a remote file system
/// (proc_pid_mountinfo(5)).
#[must_use]
pub fn remote_device(line: &[u8]) -> Option<(u32, u32)> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = core::str::from_utf8(fields.nth(2)?).ok()?;
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    let is_remote = REMOTE.into_iter().any(|name| kind.starts_with(name)) && kind != b"fusectl";
    let (major, minor) = device.split_once(':').filter(|_| is_remote)?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_file_systems_are_told_by_their_kind() {
        let cases: [(&str, Option<(u32, u32)>); 6] = [
            ("36 35 0:52 / /mnt rw,noatime shared:1 - fuse.sshfs me@there:/ rw", Some((0, 52))),
            ("36 35 0:52 / /mnt rw - nfs4 there:/ rw", Some((0, 52))),
            ("37 35 254:1 / / rw - ext4 /dev/vda rw", None),
            ("38 35 0:40 / /sys/fs/fuse/connections rw - fusectl fusectl rw", None),
            ("39 35 0:x / /mnt rw - fuse x rw", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(remote_device(line.as_bytes()), expected, "{line}");
        }
    }
}
