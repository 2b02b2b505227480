//! Media of an exact rate: noise, encoded once, repeated for as long as is needed, and copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_testkit::{SlowDisk, cold};

use super::{Disk, Files};
use crate::Error;
use crate::command::Invocation;
use crate::interrupt::Interrupt;

/// How long encoding may take.
const LIMIT: Duration = Duration::from_secs(300);
pub(super) const FRAMES_PER_SECOND: u32 = 25;
/// What is encoded; the rest repeats it.
const CLIP_S: u32 = 10;
/// So much of a disk that is made is left for names and the like.
const SPARE_BYTES: u64 = 64 << 20;
/// Files take no more of the machine's memory than one part in so many: a slow disk lies there too.
const MEMORY_PART: u64 = 3;

/// Files of one rate.
#[derive(Clone, Debug)]
pub(super) struct Media {
    pub(super) folder: PathBuf,
    /// How many; they are called `0.mp4` and so on.
    pub(super) files: u32,
    pub(super) file_bytes: u64,
    /// How long each plays, in seconds.
    pub(super) length_s: f64,
}

impl Media {
    /// Really, of all that is in the file.
    pub(super) fn bits_per_second(&self) -> f64 {
        self.file_bytes as f64 * 8.0 / self.length_s
    }

    pub(super) fn name(number: u32) -> String {
        format!("{number}.mp4")
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
            for number in 0..files {
                let copy = folder.join(Media::name(number));
                fs::copy(&clip.path, &copy).map_err(Error::file("write", &copy))?;
            }
            Ok::<(), Error>(())
        };
        match &self.disk {
            Some(disk) => disk.fill(put)??,
            None => put(&self.folder)?,
        }
        Ok(Media { folder, files, file_bytes: clip.bytes, length_s: f64::from(clip.length_s) })
    }

    /// Has files in memory or out of it, before a server starts.
    pub(super) fn prepare(&self, media: &Media) -> Result<(), Error> {
        match (&self.disk, self.disk_kind) {
            (Some(disk), _) => disk.make_cold().map(drop)?,
            (None, Disk::Cached) => {
                for number in 0..media.files {
                    let file = media.folder.join(Media::name(number));
                    fs::read(&file).map_err(Error::file("read", &file))?;
                }
            }
            (None, Disk::Cold(_)) => cold::evict(&[&self.folder], cold::Extent::Data).map(drop)?,
        }
        Ok(())
    }
}

/// A film that others are copies of.
#[derive(Clone, Debug)]
pub(super) struct Clip {
    path: PathBuf,
    pub(super) bits_per_second: u64,
    pub(super) bytes: u64,
    pub(super) length_s: u32,
}

impl Clip {
    /// Encodes noise, which takes whatever bits it is given if the picture is large enough.
    pub(super) fn encode(
        bits_per_second: u64,
        length_s: u32,
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        let size = match bits_per_second {
            0..250_000 => "160x120",
            250_000..1_500_000 => "320x240",
            _ => "640x480",
        };
        let (short, path) = (format!("{bits_per_second}-short.mp4"), format!("{bits_per_second}.mp4"));
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
        let repeat = [
            "ffmpeg",
            "-v",
            "error",
            "-y",
            "-stream_loop",
            "-1",
            "-i",
            &short,
            "-c",
            "copy",
            "-t",
            &length,
            "-movflags",
            "+faststart",
            &path,
        ];
        run(folder, &repeat, interrupt)?;
        let path = folder.join(path);
        let bytes = fs::metadata(&path).map_err(Error::file("read", &path))?.len();
        Ok(Self { path, bits_per_second, bytes, length_s })
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

/// The same film in another container, beside the first file.
pub(super) fn remux(media: &Media, extension: &str, interrupt: &Interrupt) -> Result<(), Error> {
    for number in 0..media.files {
        let (from, to) = (Media::name(number), format!("{number}.{extension}"));
        if !media.folder.join(&to).exists() {
            run(&media.folder, &["ffmpeg", "-v", "error", "-y", "-i", &from, "-c", "copy", &to], interrupt)?;
        }
    }
    Ok(())
}

fn run(folder: &Path, line: &[&str], interrupt: &Interrupt) -> Result<(), Error> {
    let invocation = Invocation::new(folder, line);
    let ran = invocation.run(folder, LIMIT, interrupt)?;
    if ran.result.status.success() {
        return Ok(());
    }
    let (command, status) = (invocation.to_string(), ran.result.status.to_string());
    Err(Error::Failed { command, status, stderr: ran.stderr_end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_a_file_each_as_long_as_files_fit() {
        let clip = Clip { path: PathBuf::new(), bits_per_second: 1, bytes: 10 << 20, length_s: 1 };
        let memory = 3 << 30;
        assert_eq!(clip.files(Files::One, 500, memory), 1);
        assert_eq!(clip.files(Files::Many, 50, memory), 50);
        assert_eq!(clip.files(Files::Many, 500, memory), 102);
        assert_eq!(clip.files(Files::Many, 1, memory), 2);
    }
}
