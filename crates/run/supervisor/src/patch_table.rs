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
/// Links that the kernel follows in one path (path_resolution(7)).
const LINKS_MAX: usize = 40;
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

/// The libc in the folder where `loader` really is. Links among its folders are the kernel's to follow.
fn beside(loader: &Path) -> Option<PathBuf> {
    let mut file = loader.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&file) else {
            let libc = file.with_file_name(LIBC);
            return libc.is_file().then_some(libc);
        };
        file = file.parent()?.join(target);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn libc_is_found_beside_the_loader_that_links_lead_to() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("usr/lib/triplet")).unwrap();
        fs::write(at("usr/lib/triplet/ld.so"), "").unwrap();
        symlink("usr/lib", at("lib")).unwrap();
        symlink("../triplet/ld.so", at("usr/lib/triplet/ld-1.so")).unwrap();
        symlink(at("lib/triplet/ld-1.so"), at("ld-2.so")).unwrap();
        assert_eq!(beside(&at("ld-2.so")), None);
        fs::write(at("usr/lib/triplet").join(LIBC), "").unwrap();
        let found = beside(&at("ld-2.so")).and_then(|libc| libc.canonicalize().ok());
        assert_eq!(found, at("usr/lib/triplet").join(LIBC).canonicalize().ok());
        symlink("round", at("round")).unwrap();
        assert_eq!(beside(&at("round")), None);
    }

    #[test]
    fn the_table_of_this_systems_libc_is_published() {
        let channel = Channel::create(true).unwrap();
        let patches = &channel.header().patches;
        publish(channel.header(), Path::new("/lib64/ld-linux-x86-64.so.2"));
        assert!(patches.build_id_len.load(Relaxed) > 0);
        assert!(patches.len.load(Relaxed) > 10);
    }
}
