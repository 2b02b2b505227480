//! Jobs of processes that share memory: the workload under `forebay share`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_share_workload::{FILE_NAME, Report, Task};
use tempfile::TempDir;

use super::Setting;
use crate::harness::command::Invocation;
use crate::harness::interrupt::Interrupt;
use crate::{Error, scratch_folder};

/// Folders that are searched for the workload, relative to the one that `forebay` is in: as built, as installed.
const FOLDERS: [&str; 2] = [".", "../lib/forebay"];
/// No job takes so long.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs jobs.
pub(super) struct Jobs {
    forebay: PathBuf,
    workload: PathBuf,
    scratch: TempDir,
    interrupt: Interrupt,
}

impl Jobs {
    pub(super) fn new(setting: &Setting) -> Result<Self, Error> {
        let forebay = setting.forebay.clone();
        let home = forebay.parent().unwrap_or(Path::new("/"));
        let places = FOLDERS.map(|folder| home.join(folder).join(FILE_NAME));
        let workload = places.iter().find(|place| place.is_file());
        let workload = workload.ok_or_else(|| Error::NoWorkload { places: places.to_vec() })?.clone();
        Ok(Self { forebay, workload, scratch: scratch_folder()?, interrupt: Interrupt::watch() })
    }

    /// A folder that goes with the jobs.
    pub(super) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// Has so many hosts carry a task out together. What they tell, by rank.
    pub(super) fn share(&self, hosts: u16, transport: &str, task: &Task) -> Result<Vec<Report>, Error> {
        let hosts = hosts.to_string();
        let share = ["share", "-n", &hosts, "--separate", "--transport", transport];
        // A loop that measures fetches is one of which all fetches would be foretold.
        let blind = matches!(task, Task::Costs { .. }).then_some("--no-foresight");
        let share = share.into_iter().chain(blind).chain(["--"]).map(Into::into);
        let before = [self.forebay.clone().into_os_string()].into_iter().chain(share);
        self.report(Invocation::new(self.scratch.path(), self.workload_with(task)?).behind(before))
    }

    /// Has one process carry a task out that shares nothing.
    pub(super) fn alone(&self, task: &Task) -> Result<Report, Error> {
        let reports = self.report(Invocation::new(self.scratch.path(), self.workload_with(task)?))?;
        Ok(reports.into_iter().next().unwrap_or_default())
    }

    fn workload_with(&self, task: &Task) -> Result<Vec<std::ffi::OsString>, Error> {
        let task = serde_json::to_string(task).expect("a task is numbers and names");
        Ok(vec![self.workload.clone().into(), task.into()])
    }

    /// Runs a program whose processes report to the file that is its last argument, which this adds.
    pub(super) fn report(&self, mut invocation: Invocation) -> Result<Vec<Report>, Error> {
        self.interrupt.check()?;
        let file = self.scratch.path().join("report");
        invocation.arguments.push(file.clone().into());
        let ran = invocation.run(self.scratch.path(), LIMIT, &self.interrupt)?;
        let failed = |said: String| Error::Failed {
            command: invocation.to_string(),
            status: ran.result.status.to_string(),
            stderr: said,
        };
        if !ran.result.status.success() {
            return Err(failed(ran.stderr_end.clone()));
        }
        let text = fs::read_to_string(&file).map_err(Error::file("read", &file))?;
        fs::remove_file(&file).map_err(Error::file("remove", &file))?;
        Report::all(&text).map_err(|error| failed(format!("what it reports makes no sense: {error}")))
    }
}
