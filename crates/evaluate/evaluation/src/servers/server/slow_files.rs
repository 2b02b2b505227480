//! A disk of known latency, with copies of the files that a server reads.
//!
//! Runs without the dose use the same disk, without the latency: what such a disk takes besides is on both sides.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay_lab::{Profile, SlowDisk};
use forebay_results::median;
use rustix::fs::{Advice, fadvise};
use tempfile::TempDir;

use super::eviction::files;
use super::web::{self, Documents};
use crate::Error;

/// The latency of a fast disk again: a dose of about the disk's own.
const PROFILE: Profile = Profile::Nvme;
/// What a disk has room for besides the copies.
const ROOM_BYTES: u64 = 256 << 20;
/// Reads that tell how fast the disk is, and how far they are apart.
const READS: u64 = 64;
const APART_BYTES: u64 = 256 << 10;

/// The disk. Dropped, it is gone.
#[derive(Debug)]
pub(super) struct SlowFiles {
    disk: SlowDisk,
    copy: Option<Documents>,
    /// How long a read takes without the latency, and with it, in seconds.
    pub(super) reads_s: (f64, f64),
}

impl SlowFiles {
    /// One with a copy of `documents`, if there are any.
    pub(super) fn start(documents: Option<&Documents>) -> Result<Self, Error> {
        let all = documents.map(|documents| files(&documents.folder)).transpose()?.unwrap_or_default();
        let bytes: u64 = all.iter().map(|(_, bytes)| bytes.next_multiple_of(4096)).sum();
        let free = forebay_linux::groups::free_bytes().unwrap_or(u64::MAX);
        if bytes > free / 4 {
            let (needed, free) =
                (forebay_quantity::bytes(bytes as f64), forebay_quantity::bytes(free as f64));
            return Err(Error::Load(format!(
                "a slow disk is in memory, and {needed} of files do not fit into {free}"
            )));
        }
        let disk = SlowDisk::start(PROFILE, bytes * 5 / 4 + ROOM_BYTES)?;
        // The servers' workers belong to another user.
        let mount_point = disk.mount_point().to_owned();
        mount_point.ancestors().take(2).try_for_each(web::open)?;
        let copy = documents.map(|documents| {
            let folder = mount_point.join("files");
            disk.fill(|_| copied(&documents.folder, &folder))??;
            let moved = |path: &String| match Path::new(path).strip_prefix(&documents.folder) {
                Ok(within) => folder.join(within).to_string_lossy().into_owned(),
                // Paths of an address.
                Err(_) => path.clone(),
            };
            let paths = documents.paths.iter().map(moved).collect();
            Ok::<_, Error>(Documents { folder, paths })
        });
        let copy = copy.transpose()?;
        let probe = mount_point.join("probe");
        disk.fill(|_| fs::write(&probe, vec![7; (READS * APART_BYTES) as usize]))?
            .map_err(Error::file("write", &probe))?;
        let mut reads_s = [0.0; 2];
        for (is_slow, seconds) in [false, true].into_iter().zip(&mut reads_s) {
            disk.set_latency(is_slow)?;
            *seconds = read_s(&probe).map_err(Error::file("read", &probe))?;
        }
        fs::remove_file(&probe).map_err(Error::file("remove", &probe))?;
        Ok(Self { disk, copy, reads_s: (reads_s[0], reads_s[1]) })
    }

    /// Whether reads take the latency from now on.
    pub(super) fn set_slow(&self, is_slow: bool) -> Result<(), Error> {
        Ok(self.disk.set_latency(is_slow)?)
    }

    /// What the server reads, on this disk.
    pub(super) fn copy(&self) -> Option<Documents> {
        self.copy.clone()
    }

    /// A folder on this disk that goes when the value is dropped.
    pub(super) fn scratch_folder(&self) -> Result<TempDir, Error> {
        let folder = self.disk.mount_point();
        tempfile::Builder::new()
            .prefix("run-")
            .tempdir_in(folder)
            .map_err(Error::file("create a folder in", folder))
    }
}

/// Copies a folder with all that is in it.
fn copied(from: &Path, to: &Path) -> Result<(), Error> {
    for (path, _) in files(from)? {
        let place: PathBuf = to.join(path.strip_prefix(from).expect("it was found there"));
        let folder = place.parent().expect("it lies in a folder");
        fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        fs::copy(&path, &place).map_err(Error::file("write", &place))?;
    }
    Ok(())
}

/// How long a read of a page that is not in memory takes: the median.
fn read_s(path: &Path) -> std::io::Result<f64> {
    let file = File::open(path)?;
    fadvise(&file, 0, None, Advice::Random)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut buffer = [0; 4096];
    let mut seconds = Vec::new();
    for number in 0..READS {
        let begun = Instant::now();
        file.read_exact_at(&mut buffer, number * APART_BYTES)?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    Ok(median(&seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_copied_with_their_folders_and_reads_with_latency_take_longer() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/file"), "content").unwrap();
        let within = folder.path().join("below/file").to_string_lossy().into_owned();
        let documents =
            Documents { folder: folder.path().to_owned(), paths: vec![within, "/address".into()] };
        if let Err(why) = forebay_lab::SlowDevice::supported() {
            forebay_testkit::skip(
                "files_are_copied_with_their_folders_and_reads_with_latency_take_longer",
                &why,
            );
            return;
        }
        let slow = SlowFiles::start(Some(&documents)).unwrap();
        let copy = slow.copy().unwrap();
        assert_eq!(fs::read_to_string(&copy.paths[0]).unwrap(), "content");
        assert_eq!(copy.paths[1], "/address");
        assert!(Path::new(&copy.paths[0]).starts_with(slow.disk.mount_point()));
        let (without_s, with_s) = slow.reads_s;
        let added_s = PROFILE.latency().unwrap().per_request.as_secs_f64();
        assert!(without_s > 0.0 && with_s >= added_s, "{without_s} {with_s}");
        let run = slow.scratch_folder().unwrap();
        assert!(run.path().starts_with(slow.disk.mount_point()));
    }
}
