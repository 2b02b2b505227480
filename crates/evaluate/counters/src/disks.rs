//! Which disks count.

use std::collections::BTreeSet;
use std::fs;

/// The disks that are not made of other disks, of files or of memory, so that nothing is counted twice.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    /// Such as `vda`.
    pub(crate) names: BTreeSet<String>,
    /// Such as `254:0`.
    pub(crate) numbers: BTreeSet<String>,
}

impl Disks {
    pub(crate) fn find() -> Self {
        let mut found = Self::default();
        for block in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let Ok(number) = fs::read_to_string(block.path().join("dev")) else { continue };
            if block.path().join("device").exists() {
                found.names.extend(block.file_name().into_string());
                found.numbers.insert(number.trim().to_owned());
            }
        }
        found
    }
}
