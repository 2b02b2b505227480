//! What this machine has room for, and how large its caches are.

use std::fs;

use forebay_linux::kernel_text;
use forebay_probes::machine::{self, Told};
use forebay_quantity::bytes;

use super::report::size;
use super::vpages;

/// Of an entry in a page table.
pub const ENTRY_BYTES: usize = 8;

/// Mappings that this process has besides: its libraries, heap and stacks.
const MAPPINGS_BESIDES: usize = 64;

/// What bounds views, and what their page tables are held in.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Mappings that a process may have.
    pub mappings_max: usize,
    /// Memory that can be had.
    pub available_bytes: usize,
    /// Data caches of a processor, the smallest first.
    pub caches: Vec<Told>,
}

impl Limits {
    /// What the kernel tells (proc_sys_vm(5), proc_meminfo(5)).
    pub fn of_this_machine() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mappings = read("/proc/sys/vm/max_map_count").trim().parse();
        let available_bytes = kernel_text::bytes(&read("/proc/meminfo"), "MemAvailable");
        Self {
            mappings_max: mappings.unwrap_or(65_530),
            available_bytes: available_bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or(usize::MAX),
            caches: machine::caches(),
        }
    }

    /// A sentence on why an object of so many bytes cannot be read through so many views.
    pub fn check(&self, object: usize, views: usize) -> Result<(), String> {
        let refused = |why: String| Err(format!("{} through {views} views: {why}", size(object)));
        if views + MAPPINGS_BESIDES > self.mappings_max {
            return refused(format!(
                "a process may have {} mappings; raise vm.max_map_count or give fewer --views.",
                self.mappings_max
            ));
        }
        let needed = object.saturating_add(vpages(object, views + 1).saturating_mul(ENTRY_BYTES));
        // The machine is others' too.
        if needed > self.available_bytes / 2 {
            return refused(format!(
                "object and page tables take {}, more than half of the {} that are available; give a smaller \
                 --size or fewer --views.",
                bytes(needed as f64),
                bytes(self.available_bytes as f64)
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_tables_count_against_memory() {
        let limits = Limits { mappings_max: 65_530, available_bytes: 256 << 20, caches: vec![] };
        assert_eq!(limits.check(64 << 20, 256), Ok(()));
        let why = limits.check(64 << 20, 1024).unwrap_err();
        assert!(why.starts_with("64 MiB through 1024 views: object and page tables take 192 MiB"), "{why}");
    }
}
