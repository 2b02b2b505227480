//! File systems that are mounted for a test, and commands that run on them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_lab::{Error, Profile, SlowDisk};
use forebay_testkit::{skip, switch};

use crate::run::{Launch, Outcome, Side};
use crate::scratch::Scratch;

/// A remote file system with what `fill` writes to it; says why where there is none.
///
/// # Panics
/// When it cannot be started for another reason than that this machine has none.
pub fn remote(test: &str, fill: impl FnOnce(&Path)) -> Option<SlowDisk> {
    if switch("FOREBAY_COMPAT_PLAIN") {
        skip(test, "both sides run without forebay");
        return None;
    }
    match SlowDisk::start(Profile::Remote, 0) {
        Ok(disk) => {
            disk.fill(fill).expect("fill the remote file system");
            Some(disk)
        }
        Err(why @ Error::Unsupported { .. }) => {
            skip(test, why.to_string());
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// A mount that ends with this.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts, as `mount(8)` is told to.
    ///
    /// # Panics
    /// When it cannot be mounted.
    #[must_use]
    pub fn new(arguments: &[&str], at: &Path) -> Self {
        Self::by(Command::new("mount").args(arguments).arg(at), at)
    }

    /// Mounts by a command that ends when the file system is there.
    ///
    /// # Panics
    /// When it cannot be mounted.
    #[must_use]
    pub fn by(command: &mut Command, at: &Path) -> Self {
        fs::create_dir_all(at).expect("make a folder");
        let mounted = command.output().expect("start the command that mounts");
        assert!(mounted.status.success(), "{command:?}: {}", String::from_utf8_lossy(&mounted.stderr));
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let give_up = Instant::now() + Duration::from_secs(5);
        let unmount =
            || Command::new("umount").arg(&self.0).output().is_ok_and(|ended| ended.status.success());
        while !unmount() && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(10));
        }
        // A server may unmount once more as it ends, and that would be the next file system here.
        let give_up = Instant::now() + Duration::from_secs(20);
        while is_served(&self.0) && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether a process lives that was started with this path.
fn is_served(at: &Path) -> bool {
    let path = at.as_os_str().as_bytes();
    let processes = fs::read_dir("/proc").expect("list processes").flatten();
    let commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    commands.into_iter().any(|command| command.split(|byte| *byte == 0).any(|word| word == path))
}

/// Runs a command in a new folder of `place`.
///
/// # Panics
/// When it cannot be started, or leaves processes behind.
#[must_use]
pub fn launch(place: &Scratch, side: Side, argv: &[&str]) -> Outcome {
    let cwd = place.path().join("cwd");
    fs::create_dir(&cwd).expect("make a folder");
    launch_in(&cwd, place, side, &[], argv)
}

/// Runs a command in a folder, after the commands `before`.
///
/// # Panics
/// When it cannot be started, or leaves processes behind.
#[must_use]
pub fn launch_in(cwd: &Path, place: &Scratch, side: Side, before: &[&str], argv: &[&str]) -> Outcome {
    let [before, argv]: [Vec<OsString>; 2] =
        [before, argv].map(|words| words.iter().map(Into::into).collect());
    let aside = place.path().join("aside");
    fs::create_dir_all(&aside).expect("make a folder");
    let launch = Launch {
        argv: &argv,
        options: &[],
        statistics: true,
        before: &before,
        group: None,
        stdin: None,
        env: &[],
        cwd,
        aside: &aside,
        seconds: 60,
    };
    let outcome = launch.run(side);
    assert!(outcome.complaints.is_empty(), "{:?}", outcome.complaints);
    outcome
}
