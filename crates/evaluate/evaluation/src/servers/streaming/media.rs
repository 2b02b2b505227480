//! Files that clients play: copies of films, where they are to be.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_lab::{SlowDisk, cold};

use super::films::{Clip, Clips};
use super::{Disk, Files};
use crate::Error;

/// So much of a disk that is made is left for names and the like.
const SPARE_BYTES: u64 = 64 << 20;
/// Files take no more of the machine's memory than one part in so many: a slow disk lies there too.
const MEMORY_PART: u64 = 3;

/// What pictures lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Container {
    /// What most servers read.
    Mp4,
    /// For those that read no MP4.
    Matroska,
    /// As it is broadcast.
    TransportStream,
}

impl Container {
    pub(super) const ALL: [Self; 3] = [Self::Mp4, Self::Matroska, Self::TransportStream];

    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Matroska => "mkv",
            Self::TransportStream => "ts",
        }
    }

    /// What ffmpeg is told besides.
    pub(super) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Mp4 => &["-movflags", "+faststart"],
            Self::Matroska | Self::TransportStream => &[],
        }
    }

    /// How a file is called.
    fn name(self, number: u32) -> String {
        format!("{number}.{}", self.extension())
    }
}

/// A file that a client plays.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Such as `0.mp4`, in the folder of all.
    pub(super) name: String,
    container: Container,
    bytes: u64,
}

/// Files of one rate.
#[derive(Clone, Debug)]
pub(super) struct Media {
    pub(super) folder: PathBuf,
    files: Vec<File>,
    /// How long each plays, in seconds.
    pub(super) length_s: f64,
}

impl Media {
    /// Those in one of these containers, in the order of their numbers.
    pub(super) fn of(&self, containers: &[Container]) -> Vec<&File> {
        self.files.iter().filter(|file| containers.contains(&file.container)).collect()
    }

    /// Really, of all that is in files in these containers, on average.
    pub(super) fn bits_per_second(&self, containers: &[Container]) -> f64 {
        let files = self.of(containers);
        let sum: f64 = files.iter().map(|file| self.bits_of(file)).sum();
        sum / files.len().max(1) as f64
    }

    /// Really, of all that is in the file.
    pub(super) fn bits_of(&self, file: &File) -> f64 {
        file.bytes as f64 * 8.0 / self.length_s
    }

    pub(super) fn path(&self, file: &File) -> PathBuf {
        self.folder.join(&file.name)
    }
}

/// Where media lie.
#[derive(Debug)]
pub(super) struct Shelf {
    disk: Option<SlowDisk>,
    disk_kind: Disk,
    folder: PathBuf,
}

impl Shelf {
    /// A place for files of these sizes.
    pub(super) fn new(disk: Disk, bytes: u64, scratch: &Path) -> Result<Self, Error> {
        let Disk::Cold(profile) = disk else {
            let folder = scratch.join("media");
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
            return Ok(Self { disk: None, disk_kind: disk, folder });
        };
        let slow = SlowDisk::start(profile, bytes + bytes / 8 + SPARE_BYTES)?;
        let folder = slow.mount_point().to_owned();
        Ok(Self { disk: Some(slow), disk_kind: disk, folder })
    }

    /// Puts so many copies of films there.
    pub(super) fn fill(&self, clips: &Clips, files: u32) -> Result<Media, Error> {
        let folder = self.folder.join(clips.bits_per_second.to_string());
        let file = |(number, clip): &(u32, &Clip)| {
            let Clip { container, bytes, .. } = **clip;
            File { name: container.name(*number), container, bytes }
        };
        let all: Vec<(u32, &Clip)> =
            (0..files).flat_map(|number| clips.of(number).iter().map(move |clip| (number, clip))).collect();
        let put = |_: &Path| {
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
            for (number, clip) in &all {
                let copy = folder.join(clip.container.name(*number));
                fs::copy(&clip.path, &copy).map_err(Error::file("write", &copy))?;
            }
            Ok::<(), Error>(())
        };
        match &self.disk {
            Some(disk) => disk.fill(put)??,
            None => put(&self.folder)?,
        }
        let files = all.iter().map(file).collect();
        Ok(Media { folder, files, length_s: clips.length_s.into() })
    }

    /// Has files in memory or out of it, before a server starts.
    pub(super) fn prepare(&self, media: &Media) -> Result<(), Error> {
        match (&self.disk, self.disk_kind) {
            (Some(disk), _) => disk.make_cold().map(drop)?,
            (None, Disk::Cached) => {
                for file in &media.files {
                    let file = media.path(file);
                    fs::read(&file).map_err(Error::file("read", &file))?;
                }
            }
            (None, Disk::Cold(_)) => cold::evict(&[&self.folder], cold::Extent::Data).map(drop)?,
        }
        Ok(())
    }
}

/// How many files clients spread over: as few as there can be, or one each as long as they fit.
pub(super) fn files(clips: &Clips, files: Files, clients: u32, memory_bytes: u64) -> u32 {
    let few = clips.films.files_min();
    let each = clips.bytes(few) / u64::from(few);
    match files {
        Files::One => few,
        Files::Many => files_that_fit(each, clients, memory_bytes).max(few),
    }
}

fn files_that_fit(file_bytes: u64, clients: u32, memory_bytes: u64) -> u32 {
    let fit = memory_bytes / MEMORY_PART / file_bytes.max(1);
    clients.min(u32::try_from(fit).unwrap_or(u32::MAX)).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_a_file_each_as_long_as_files_fit() {
        let files = |clients| files_that_fit(10 << 20, clients, 3 << 30);
        assert_eq!([50, 500, 1].map(files), [50, 102, 2]);
    }
}
