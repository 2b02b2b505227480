//! Media of an exact rate: noise, encoded once, repeated for as long as is needed, and copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_lab::{SlowDisk, cold};

use super::{Disk, Files};
use crate::Error;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;

/// How long encoding may take.
const LIMIT: Duration = Duration::from_secs(300);
pub(super) const FRAMES_PER_SECOND: u32 = 25;
/// What is encoded; the rest repeats it.
const CLIP_S: u32 = 10;
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
}

impl Container {
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Matroska => "mkv",
        }
    }

    /// What ffmpeg is told besides.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Mp4 => &["-movflags", "+faststart"],
            Self::Matroska => &[],
        }
    }

    /// How a file is called.
    pub(super) fn name(self, number: u32) -> String {
        format!("{number}.{}", self.extension())
    }
}

/// Files of one rate.
#[derive(Clone, Debug)]
pub(super) struct Media {
    pub(super) folder: PathBuf,
    /// How many; they are called `0.mp4` and so on, and are there in each of the containers.
    pub(super) files: u32,
    containers: Vec<Container>,
    /// Of those in MP4.
    pub(super) file_bytes: u64,
    /// How long each plays, in seconds.
    pub(super) length_s: f64,
}

impl Media {
    /// Really, of all that is in the file.
    pub(super) fn bits_per_second(&self) -> f64 {
        self.file_bytes as f64 * 8.0 / self.length_s
    }

    /// Where a file is, in MP4.
    pub(super) fn path(&self, number: u32) -> PathBuf {
        self.folder.join(Container::Mp4.name(number))
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

    /// Puts copies of a clip there.
    pub(super) fn fill(&self, clip: &Clip, files: u32) -> Result<Media, Error> {
        let folder = self.folder.join(clip.bits_per_second.to_string());
        let put = |_: &Path| {
            fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
            for (number, container) in each(files, &clip.containers) {
                let (path, copy) = (clip.path(container), folder.join(container.name(number)));
                fs::copy(path, &copy).map_err(Error::file("write", &copy))?;
            }
            Ok::<(), Error>(())
        };
        match &self.disk {
            Some(disk) => disk.fill(put)??,
            None => put(&self.folder)?,
        }
        let (containers, length_s) = (clip.containers.clone(), f64::from(clip.length_s));
        Ok(Media { folder, files, containers, file_bytes: clip.file_bytes, length_s })
    }

    /// Has files in memory or out of it, before a server starts.
    pub(super) fn prepare(&self, media: &Media) -> Result<(), Error> {
        match (&self.disk, self.disk_kind) {
            (Some(disk), _) => disk.make_cold().map(drop)?,
            (None, Disk::Cached) => {
                for (number, container) in each(media.files, &media.containers) {
                    let file = media.folder.join(container.name(number));
                    fs::read(&file).map_err(Error::file("read", &file))?;
                }
            }
            (None, Disk::Cold(_)) => cold::evict(&[&self.folder], cold::Extent::Data).map(drop)?,
        }
        Ok(())
    }
}

/// Each file in each container.
fn each(files: u32, containers: &[Container]) -> impl Iterator<Item = (u32, Container)> {
    (0..files).flat_map(|number| containers.iter().map(move |container| (number, *container)))
}

/// A film that others are copies of.
#[derive(Clone, Debug)]
pub(super) struct Clip {
    folder: PathBuf,
    containers: Vec<Container>,
    pub(super) bits_per_second: u64,
    /// In MP4.
    file_bytes: u64,
    /// In all containers together.
    pub(super) bytes: u64,
    length_s: u32,
}

impl Clip {
    /// Encodes noise, which takes whatever bits it is given if the picture is large enough. MP4 is among the containers.
    pub(super) fn encode(
        bits_per_second: u64,
        length_s: u32,
        containers: &[Container],
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let size = match bits_per_second {
            0..250_000 => "160x120",
            250_000..1_500_000 => "320x240",
            _ => "640x480",
        };
        let short = format!("{bits_per_second}-short.mp4");
        let source =
            format!("color=c=gray:s={size}:r={FRAMES_PER_SECOND},noise=alls=100:allf=t,format=yuv420p");
        let (rate, buffer) = (bits_per_second.to_string(), (bits_per_second / 5).to_string());
        let (seconds, length) = (CLIP_S.to_string(), length_s.to_string());
        let encode = [
            "ffmpeg",
            "-v",
            "error",
            "-y",
            "-f",
            "lavfi",
            "-i",
            &source,
            "-t",
            &seconds,
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-tune",
            "zerolatency",
            "-b:v",
            &rate,
            "-minrate",
            &rate,
            "-maxrate",
            &rate,
            "-bufsize",
            &buffer,
            "-g",
            "50",
            &short,
        ];
        run(folder, &encode, interrupt)?;
        let mut clip = Self {
            folder: folder.to_owned(),
            containers: containers.to_vec(),
            bits_per_second,
            file_bytes: 0,
            bytes: 0,
            length_s,
        };
        for container in containers {
            let path = clip.path(*container);
            let name = path.to_string_lossy();
            let repeat = ["ffmpeg", "-v", "error", "-y", "-stream_loop", "-1", "-i", &short, "-c", "copy"];
            let line = [&repeat[..], &["-t", &length], container.options(), &[&name]].concat();
            run(folder, &line, interrupt)?;
            let bytes = fs::metadata(&path).map_err(Error::file("read", &path))?.len();
            clip.bytes += bytes;
            if *container == Container::Mp4 {
                clip.file_bytes = bytes;
            }
        }
        Ok(clip)
    }

    fn path(&self, container: Container) -> PathBuf {
        self.folder.join(format!("{}.{}", self.bits_per_second, container.extension()))
    }

    /// How many files clients spread over: one, or one each as long as they fit.
    pub(super) fn files(&self, files: Files, clients: u32, memory_bytes: u64) -> u32 {
        match files {
            Files::One => 1,
            Files::Many => {
                let fit = memory_bytes / MEMORY_PART / self.bytes.max(1);
                clients.min(u32::try_from(fit).unwrap_or(u32::MAX)).max(2)
            }
        }
    }
}

fn run(folder: &Path, line: &[&str], interrupt: &Interrupt) -> Result<(), Error> {
    Invocation::new(folder, line).succeed(folder, LIMIT, interrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_a_file_each_as_long_as_files_fit() {
        let clip = Clip {
            folder: PathBuf::new(),
            containers: vec![Container::Mp4],
            bits_per_second: 1,
            file_bytes: 10 << 20,
            bytes: 10 << 20,
            length_s: 1,
        };
        let memory = 3 << 30;
        assert_eq!(clip.files(Files::One, 500, memory), 1);
        assert_eq!(clip.files(Files::Many, 50, memory), 50);
        assert_eq!(clip.files(Files::Many, 500, memory), 102);
        assert_eq!(clip.files(Files::Many, 1, memory), 2);
    }
}
