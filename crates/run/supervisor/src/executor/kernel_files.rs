//! File systems whose files the kernel computes as they are opened and read: both may change something, and neither is worth it.
//! A profile that others made may name such files.

use std::os::fd::AsFd;

use rustix::fs::fstatfs;

/// Their types, as statfs(2) tells them.
const TYPES: [u64; 24] = [
    0x0000_9fa0, // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x6265_6570, // configfs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // apparmorfs
    0x0027_e0eb, // control groups, version 1
    0x6367_7270, // control groups, version 2
    0x0765_5821, // resctrl
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0xcafe_4a11, // bpf
    0x4249_4e4d, // binfmt_misc
    0x6c6f_6f70, // binder
    0x6573_5543, // fusectl
    0x6e73_6673, // nsfs
    0x6e66_7364, // nfsd
    0x6759_6969, // rpc_pipefs
    0xabba_1974, // xenfs
    0x0a64_7361, // functionfs
    0x0000_0187, // autofs, which mounts what is opened
];

/// Whether `found` is in one of them. What does not tell is taken to be.
pub fn are_in(found: impl AsFd) -> bool {
    fstatfs(found).map_or(true, |system| TYPES.contains(&(system.f_type as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};

    #[test]
    fn the_kernel_s_files_are_told_from_others() {
        let found = |path| open(path, OFlags::PATH, Mode::empty()).unwrap();
        assert!(are_in(found("/proc/self/status")) && are_in(found("/sys/kernel")));
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!are_in(open(file.path(), OFlags::PATH, Mode::empty()).unwrap()));
    }
}
