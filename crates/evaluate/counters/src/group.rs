//! What the kernel counts for a control group.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::param::page_size;

use forebay_linux::groups::{Folders, Transfers, recursive};
use forebay_linux::kernel_text::{keyed, sum};

use crate::disks::Disks;
use crate::error::Error;
use crate::machine::{WITH_PRESSURE, pressures};
use crate::processes::{Processes, Scope};
use crate::sheet::{Sheet, Source};

/// What to do where a group's processor time or disks are not accounted for.
const WITH_CONTROLLER: &str =
    "turn the controller on in cgroup.subtree_control of the group above, or mount it";
/// What to do where version 1 lacks something.
const VERSION_2: &str = "boot with systemd.unified_cgroup_hierarchy=1, or count the machine's";

/// A control group with all below it.
pub(crate) struct Group {
    folders: Folders,
    disks: Disks,
    processes: Processes,
}

impl Group {
    /// # Errors
    /// There is no such group.
    pub(crate) fn new(path: &Path, open: bool) -> Result<Self, Error> {
        let mounts = Path::new("/proc/self/mountinfo");
        let text =
            fs::read_to_string(mounts).map_err(|source| Error::Read { path: mounts.into(), source })?;
        let folders = Folders::find(&text, path).ok_or_else(|| Error::NoGroup { path: path.into() })?;
        let processes = Processes::new(Scope::Group(folders.processes.clone()), open)?;
        Ok(Self { folders, disks: Disks::find(), processes })
    }

    /// The folder that perf events of the group are opened by.
    pub(crate) fn perf_folder(&self) -> Option<&Path> {
        self.old("perf_event").or(self.folders.unified.as_deref())
    }

    /// The folder that `controller` has of this group in a hierarchy of version 1.
    fn old(&self, controller: &str) -> Option<&Path> {
        self.folders.old.get(controller).map(PathBuf::as_path)
    }

    fn processors(&self, sheet: &mut Sheet) {
        let text = read(self.folders.unified.as_deref(), "cpu.stat");
        let new = keyed(&text);
        let limits = read(self.old("cpu"), "cpu.stat");
        let old = keyed(&limits);
        let used = |new_key, old_file| {
            let microseconds = new.get(new_key).copied();
            let nanoseconds = || read(self.old("cpuacct"), old_file).trim().parse::<f64>().ok();
            nanoseconds().map(|ns| ns / 1e9).or(microseconds.map(|us| us / 1e6))
        };
        sheet.from("cpu.stat or cpuacct.usage_user", WITH_CONTROLLER);
        sheet.total("cpu_user", "s", used("user_usec", "cpuacct.usage_user"));
        sheet.total("cpu_system", "s", used("system_usec", "cpuacct.usage_sys"));
        sheet.from("cpu.stat", WITH_CONTROLLER);
        let throttled = old.get("throttled_time").map(|ns| ns / 1e9);
        sheet.total("cpu_throttled", "s", throttled.or_else(|| new.get("throttled_usec").map(|us| us / 1e6)));
    }

    fn memory(&self, sheet: &mut Sheet) {
        let old = self.old("memory");
        let folder = old.or(self.folders.unified.as_deref());
        let text = read(folder, "memory.stat");
        let stat = if old.is_some() { recursive(keyed(&text)) } else { keyed(&text) };
        let field = |key| stat.get(key).copied();
        let number = |old_file, new_file| {
            let text = read(folder, if old.is_some() { old_file } else { new_file });
            text.trim().parse::<f64>().ok()
        };
        sheet.from("memory.stat", WITH_CONTROLLER);
        sheet.total(
            "minor_faults",
            "1",
            field("pgfault").zip(field("pgmajfault")).map(|(all, major)| all - major),
        );
        sheet.total("major_faults", "1", field("pgmajfault"));
        sheet.from("memory.stat", VERSION_2);
        sheet.total("scanned_pages", "pages", field("pgscan"));
        sheet.total("reclaimed_pages", "pages", field("pgsteal"));
        sheet.total("refaulted_file_pages", "pages", field("workingset_refault_file"));
        sheet.total("refaulted_anonymous_pages", "pages", field("workingset_refault_anon"));
        sheet.total("swapped_in_pages", "pages", field("pswpin"));
        sheet.total("swapped_out_pages", "pages", field("pswpout"));
        sheet.from("memory.stat", WITH_CONTROLLER);
        self.memory_levels(sheet, &stat, old.is_some());
        sheet.from("memory.current or memory.usage_in_bytes", WITH_CONTROLLER);
        sheet.level("memory_bytes", "B", number("memory.usage_in_bytes", "memory.current"));
        let events = read(folder, "memory.events");
        let hits = if old.is_some() {
            number("memory.failcnt", "memory.failcnt")
        } else {
            keyed(&events).get("max").copied()
        };
        sheet.from("memory.events or memory.failcnt", WITH_CONTROLLER);
        sheet.total("memory_limit_hits", "1", hits);
    }

    fn memory_levels(&self, sheet: &mut Sheet, stat: &HashMap<&str, f64>, old: bool) {
        let pages = |keys: &[&str]| sum(stat, keys).map(|bytes| bytes / page_size() as f64);
        sheet.level("active_pages", "pages", pages(&["active_anon", "active_file"]));
        sheet.level("inactive_pages", "pages", pages(&["inactive_anon", "inactive_file"]));
        let resident = if old { ["rss", "mapped_file"] } else { ["anon", "file_mapped"] };
        sheet.level("resident_pages", "pages", pages(&resident));
        sheet.level("page_cache_pages", "pages", pages(&[if old { "cache" } else { "file" }]));
        sheet.level("dirty_pages", "pages", pages(&[if old { "dirty" } else { "file_dirty" }]));
    }

    fn disks(&self, sheet: &mut Sheet) {
        let counts = |number: &str| self.disks.numbers.contains(number);
        let old = |name| read(self.old("blkio"), name);
        let bytes = old("blkio.throttle.io_service_bytes_recursive");
        let operations = old("blkio.throttle.io_serviced_recursive");
        let transfers = if self.old("blkio").is_some() {
            Transfers::parse_old(&bytes, &operations, counts)
        } else {
            let there = self.folders.unified.as_ref().is_some_and(|folder| folder.join("io.stat").exists());
            there.then(|| Transfers::parse(&read(self.folders.unified.as_deref(), "io.stat"), counts))
        };
        let told = |of: fn(&Transfers) -> f64| transfers.as_ref().map(of);
        sheet.from("io.stat or blkio.throttle.io_service_bytes_recursive", WITH_CONTROLLER);
        sheet.total("disk_reads", "1", told(|transfers| transfers.reads));
        sheet.total("disk_read_bytes", "B", told(|transfers| transfers.read_bytes));
        sheet.total("disk_writes", "1", told(|transfers| transfers.writes));
        sheet.total("disk_written_bytes", "B", told(|transfers| transfers.written_bytes));
    }
}

impl Source for Group {
    fn sample(&mut self, sheet: &mut Sheet) {
        self.processors(sheet);
        self.memory(sheet);
        self.disks(sheet);
        sheet.from("PSI of the group", WITH_PRESSURE);
        pressures(sheet, |resource| read(self.folders.unified.as_deref(), &format!("{resource}.pressure")));
        self.processes.sample(sheet);
    }
}

/// A file of a group, empty where it is not there.
fn read(folder: Option<&Path>, name: &str) -> String {
    folder.and_then(|folder| fs::read_to_string(folder.join(name)).ok()).unwrap_or_default()
}
