//! A server with so much time of the processors, and no more.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_linux::groups::quota;

use super::observer::Scope;
use crate::Error;

/// What a period of the quota lasts: a server that used up its time goes on after this at the latest.
const PERIOD_US: f64 = 10_000.0;
/// How long processes that have ended may stay in a group.
const PATIENCE: Duration = Duration::from_secs(2);

/// A group with a quota. Dropped, it goes, if it was made.
#[derive(Debug)]
pub(super) struct ProcessorGroup {
    /// Of version 1, which has hierarchies of its own.
    made: Option<PathBuf>,
}

impl ProcessorGroup {
    /// Whether this machine allows such a group; else what is missing.
    pub(super) fn supported() -> Result<(), String> {
        let parent =
            parent().ok_or("there is no control group of the processor; mount the cpu controller")?;
        if parent.join("cgroup.controllers").exists() {
            // Of version 2 the group of the memory serves.
            return forebay_lab::MemoryLimit::supported().map_err(|error| error.to_string());
        }
        let probe = parent.join(name());
        let made = fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe));
        made.map_err(|error| {
            format!("a control group of the processor cannot be made ({error}); run forebay as root")
        })
    }

    /// Gives all processes of `scope` so many processors together, by their memory's group where that has them all.
    pub(super) fn start(scope: &Scope, memory_group: Option<&Path>, processors: f64) -> Result<Self, Error> {
        let quota_us = (processors * PERIOD_US).max(1_000.0).round();
        let write = |folder: &Path, file: &str, text: String| {
            let path = folder.join(file);
            fs::write(&path, text).map_err(Error::file("write", &path))
        };
        if let Some(group) = memory_group.filter(|group| group.join("cpu.max").exists()) {
            write(group, "cpu.max", format!("{quota_us} {PERIOD_US}"))?;
            return Ok(Self { made: None });
        }
        let no_group = || Error::Load("there is no control group of the processor".into());
        let folder = parent().ok_or_else(no_group)?.join(name());
        fs::create_dir(&folder).map_err(Error::file("create", &folder))?;
        let group = Self { made: Some(folder.clone()) };
        write(&folder, "cpu.cfs_period_us", PERIOD_US.to_string())?;
        write(&folder, "cpu.cfs_quota_us", quota_us.to_string())?;
        // One that has ended meanwhile needs no group.
        for process in scope.processes() {
            let _ = fs::write(folder.join("cgroup.procs"), process.to_string());
        }
        Ok(group)
    }
}

impl Drop for ProcessorGroup {
    fn drop(&mut self) {
        let Some(folder) = &self.made else { return };
        let begun = Instant::now();
        while fs::remove_dir(folder).is_err() && folder.exists() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The group of this process that has the processor's controller.
fn parent() -> Option<PathBuf> {
    let has_controller = |group: &PathBuf| {
        let controllers = fs::read_to_string(group.join("cgroup.controllers"));
        controllers
            .map_or(group.join("cpu.shares").exists(), |all| all.split_whitespace().any(|one| one == "cpu"))
    };
    quota::around(std::process::id()).into_iter().find(has_controller)
}

fn name() -> String {
    format!("forebay-processors-{}", std::process::id())
}
