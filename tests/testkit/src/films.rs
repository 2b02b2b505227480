//! Films that ffmpeg makes, in a folder that is removed with the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

/// Options for pictures in H.264 with a key picture every twelve.
pub const H264: &str = "-c:v libx264 -preset ultrafast -bf 2 -g 12 -pix_fmt yuv420p";
/// Options for pictures in H.265 with a key picture every twelve.
pub const H265: &str = "-c:v libx265 -preset ultrafast -pix_fmt yuv420p -x265-params log-level=error:keyint=12:bframes=2:pools=1";

/// How old films are.
const AGE: Duration = Duration::from_secs(60);

/// A folder for films.
pub struct Folder {
    folder: tempfile::TempDir,
    /// Width and height of pictures that are made for it.
    pictures: &'static str,
}

impl Folder {
    /// `None`, with a word about it, where there is no ffmpeg.
    pub fn new(test: &str) -> Option<Self> {
        Self::with_pictures(test, "160x120")
    }

    /// The same, with pictures of another size, such as `96x64`.
    pub fn with_pictures(test: &str, pictures: &'static str) -> Option<Self> {
        let has = |program| Command::new(program).arg("-version").output().is_ok();
        if !has("ffmpeg") || !has("ffprobe") {
            crate::skip(test, "ffmpeg is not installed: run `scripts/setup test`");
            return None;
        }
        Some(Self { pictures, ..Self::empty() })
    }

    /// A folder for files that ffmpeg does not make.
    ///
    /// # Panics
    ///
    /// Without room for a temporary folder.
    pub fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), pictures: "160x120" }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// A file of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Encodes seconds of pictures and a tone with `options` into a file of that name.
    ///
    /// # Panics
    ///
    /// If ffmpeg fails.
    pub fn encode(&self, seconds: u32, options: &str, name: &str) -> PathBuf {
        let video = format!("-f lavfi -i testsrc2=size={}:rate=25:duration={seconds}", self.pictures);
        let audio = format!("-f lavfi -i sine=frequency=440:sample_rate=44100:duration={seconds}");
        self.make(&format!("{video} {audio} {options}"), name)
    }

    /// Makes another file of one that is there.
    ///
    /// # Panics
    ///
    /// If ffmpeg fails.
    pub fn convert(&self, from: &Path, options: &str, name: &str) -> PathBuf {
        self.make(&format!("-i {} {options}", from.display()), name)
    }

    /// Writes a file of its own.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file");
        aged(path)
    }

    fn make(&self, options: &str, name: &str) -> PathBuf {
        let path = self.path(name);
        let output = ffmpeg(&format!("{options} {}", path.display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ffmpeg could not make {name}: {said}");
        aged(path)
    }
}

/// A file with an earlier time: what was written a moment ago may be a recording that grows.
fn aged(path: PathBuf) -> PathBuf {
    let file = std::fs::File::open(&path).expect("a film");
    file.set_modified(SystemTime::now() - AGE).expect("a time");
    path
}

/// Runs ffmpeg with options separated by spaces, for two minutes at most.
///
/// # Panics
///
/// If ffmpeg cannot be started.
pub fn ffmpeg(options: &str) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "120", "ffmpeg", "-nostdin", "-v", "error", "-y", "-threads", "1"]);
    command.args(options.split_whitespace()).output().expect("ffmpeg runs")
}
