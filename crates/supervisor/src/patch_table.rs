//! Tells agents where libc's system calls are.

use std::path::{Path, PathBuf};

use forebay_speculation::channel::Header;

use crate::patches::{Tier, cached_for, libc_path, select};

/// File name of glibc, which lies beside its loader.
const LIBC: &str = "libc.so.6";

/// Publishes the patch sites of the libc that belongs to `loader`. Where none can be found out, the table stays empty:
/// agents interpose symbols then, and say so.
pub fn publish(header: &Header, loader: &Path) {
    let Some(libc) = beside(loader).or_else(libc_path) else { return };
    if let Ok(table) = cached_for(&libc) {
        table.with_sites(select(&table, Tier::Essential)).store(&header.patches);
    }
}

/// The libc in the folder where `loader` really is.
fn beside(loader: &Path) -> Option<PathBuf> {
    let libc = loader.canonicalize().ok()?.with_file_name(LIBC);
    libc.is_file().then_some(libc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn the_table_of_this_systems_libc_is_published() {
        let channel = Channel::create(true).unwrap();
        let patches = &channel.header().patches;
        publish(channel.header(), Path::new("/lib64/ld-linux-x86-64.so.2"));
        assert!(patches.build_id_len.load(Relaxed) > 0);
        assert!(patches.len.load(Relaxed) > 10);
    }
}
