//! Gives agents the places of libc's system calls.

use std::{
    env, fs,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use forebay_protocol::layout::Header;
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use crate::patches::{Tier, cached_in, libc_path, select};

/// File name of glibc, which lies beside its loader.
const LIBC: &str = "libc.so.6";
/// Where folders of users without a home are; kept when the machine restarts.
const HOMELESS: &str = "/var/tmp";

/// Publishes the patch sites of the libc that belongs to `loader`. Where none can be found out, the table stays empty:
/// agents interpose symbols then, and say so.
pub fn publish(header: &Header, loader: &Path) {
    let Some(libc) = beside(loader).or_else(libc_path) else { return };
    if let Ok(table) = cached_in(cache_folder().as_deref(), &libc) {
        table.with_sites(select(&table, Tier::Essential)).store(&header.patches);
    }
}

/// A folder of this user's that can be written: decoding libc takes longer than most programs, so there is nearly
/// always one.
fn cache_folder() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = geteuid().as_raw();
    let at_home = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let places = at_home.map(|folder| folder.join("forebay")).into_iter();
    places.chain([Path::new(HOMELESS).join(format!("forebay-{user}"))]).find(|folder| {
        if fs::symlink_metadata(folder).is_err() {
            let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        }
        let ours = fs::metadata(folder).is_ok_and(|found| found.is_dir() && found.uid() == user);
        ours && access(folder, Access::WRITE_OK).is_ok()
    })
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
