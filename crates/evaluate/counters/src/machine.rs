//! What the kernel counts for the whole machine.

use std::fs;
use std::path::Path;

use forebay_linux::kernel_text::{DiskUse, NetworkUse, Pressure, ProcessorTime, keyed, sum};
use rustix::param::clock_ticks_per_second;

use crate::disks::Disks;
use crate::error::Error;
use crate::sheet::{Sheet, Source};

/// What to do where a file of `/proc` lacks something.
const NEWER_KERNEL: &str = "run a newer kernel, or mount /proc";
/// What to do where there is no pressure.
pub(crate) const WITH_PRESSURE: &str = "boot with psi=1 a kernel built with CONFIG_PSI";

/// The whole machine.
pub(crate) struct Machine {
    disks: Disks,
    ticks_per_second: f64,
}

impl Machine {
    /// # Errors
    /// There is no `/proc`.
    pub(crate) fn new() -> Result<Self, Error> {
        let path = Path::new("/proc/stat");
        fs::metadata(path).map_err(|source| Error::Read { path: path.into(), source })?;
        Ok(Self { disks: Disks::find(), ticks_per_second: clock_ticks_per_second() as f64 })
    }

    fn processors(&self, sheet: &mut Sheet) {
        let text = read("/proc/stat");
        let time = ProcessorTime::parse(&text);
        let seconds =
            |of: fn(&ProcessorTime) -> f64| time.as_ref().map(|time| of(time) / self.ticks_per_second);
        let fields = keyed(&text);
        let field = |key| fields.get(key).copied();
        sheet.from("/proc/stat", NEWER_KERNEL);
        sheet.total("cpu_user", "s", seconds(|time| time.user));
        sheet.total("cpu_system", "s", seconds(|time| time.system));
        sheet.total("cpu_idle", "s", seconds(|time| time.idle));
        sheet.total("cpu_disk_wait", "s", seconds(|time| time.disk_wait));
        sheet.total("cpu_interrupts", "s", seconds(|time| time.interrupts));
        sheet.total("cpu_soft_interrupts", "s", seconds(|time| time.soft_interrupts));
        sheet.total("cpu_stolen", "s", seconds(|time| time.stolen));
        sheet.total("context_switches", "1", field("ctxt"));
        sheet.total("interrupts", "1", field("intr"));
        sheet.total("processes_started", "1", field("processes"));
        sheet.level("processes_running", "1", field("procs_running"));
        sheet.level("processes_blocked", "1", field("procs_blocked"));
    }

    fn memory(sheet: &mut Sheet) {
        let text = read("/proc/vmstat");
        let fields = keyed(&text);
        let field = |key| fields.get(key).copied();
        let all = |keys: &[&str]| sum(&fields, keys);
        sheet.from("/proc/vmstat", NEWER_KERNEL);
        sheet.total(
            "minor_faults",
            "1",
            field("pgfault").zip(field("pgmajfault")).map(|(all, major)| all - major),
        );
        sheet.total("major_faults", "1", field("pgmajfault"));
        // By kind where the kernel has that, because the sums by cause leave out what groups reclaim.
        let scanned =
            all(&["pgscan_anon", "pgscan_file"]).or_else(|| all(&["pgscan_kswapd", "pgscan_direct"]));
        let reclaimed =
            all(&["pgsteal_anon", "pgsteal_file"]).or_else(|| all(&["pgsteal_kswapd", "pgsteal_direct"]));
        sheet.total("scanned_pages", "pages", scanned);
        sheet.total("reclaimed_pages", "pages", reclaimed);
        let file_refaults = field("workingset_refault_file").or_else(|| field("workingset_refault"));
        sheet.total("refaulted_file_pages", "pages", file_refaults);
        sheet.total("refaulted_anonymous_pages", "pages", field("workingset_refault_anon"));
        sheet.total("swapped_in_pages", "pages", field("pswpin"));
        sheet.total("swapped_out_pages", "pages", field("pswpout"));
        sheet.level("active_pages", "pages", all(&["nr_active_anon", "nr_active_file"]));
        sheet.level("inactive_pages", "pages", all(&["nr_inactive_anon", "nr_inactive_file"]));
        sheet.level("resident_pages", "pages", all(&["nr_anon_pages", "nr_mapped"]));
        sheet.level("page_cache_pages", "pages", field("nr_file_pages"));
        sheet.level("dirty_pages", "pages", field("nr_dirty"));
        sheet.level("free_pages", "pages", field("nr_free_pages"));
    }

    fn disks(&self, sheet: &mut Sheet) {
        let disks =
            Some(read("/proc/diskstats")).filter(|text| !text.is_empty() && !self.disks.names.is_empty());
        let disks = disks.map(|text| DiskUse::parse(&text, |name| self.disks.names.contains(name)));
        let told = |of: fn(&DiskUse) -> f64| disks.as_ref().map(of);
        sheet.from(
            "/proc/diskstats",
            "nothing to do where the machine has no disk of its own, as in some containers",
        );
        sheet.total("disk_reads", "1", told(|disks| disks.reads));
        sheet.total("disk_read_bytes", "B", told(|disks| disks.read_bytes));
        sheet.total("disk_read_time", "s", told(|disks| disks.read_time));
        sheet.total("disk_writes", "1", told(|disks| disks.writes));
        sheet.total("disk_written_bytes", "B", told(|disks| disks.written_bytes));
        sheet.total("disk_write_time", "s", told(|disks| disks.write_time));
        sheet.total("disk_busy_time", "s", told(|disks| disks.busy_time));
    }

    fn network(sheet: &mut Sheet) {
        let text = Some(read("/proc/net/dev")).filter(|text| !text.is_empty());
        let outside = text.as_ref().map(|text| NetworkUse::parse(text, |name| name != "lo"));
        let inside = text.as_ref().map(|text| NetworkUse::parse(text, |name| name == "lo"));
        let told = |of: fn(&NetworkUse) -> f64| outside.as_ref().map(of);
        sheet.from("/proc/net/dev", NEWER_KERNEL);
        sheet.total("network_received_bytes", "B", told(|network| network.received_bytes));
        sheet.total("network_received_packets", "1", told(|network| network.received_packets));
        sheet.total("network_sent_bytes", "B", told(|network| network.sent_bytes));
        sheet.total("network_sent_packets", "1", told(|network| network.sent_packets));
        sheet.total("network_dropped_packets", "1", told(|network| network.dropped_packets));
        sheet.total("loopback_bytes", "B", inside.as_ref().map(|loopback| loopback.sent_bytes));
        sheet.total("loopback_packets", "1", inside.as_ref().map(|loopback| loopback.sent_packets));
    }
}

impl Source for Machine {
    fn sample(&mut self, sheet: &mut Sheet) {
        self.processors(sheet);
        Self::memory(sheet);
        self.disks(sheet);
        Self::network(sheet);
        sheet.from("/proc/pressure", WITH_PRESSURE);
        pressures(sheet, |resource| read(&format!("/proc/pressure/{resource}")));
    }
}

/// Enters the pressure on processors, memory and disks by the text that `read` has of each.
pub(crate) fn pressures(sheet: &mut Sheet, read: impl Fn(&str) -> String) {
    let names = [
        ("cpu", "cpu_pressure_some", "cpu_pressure_full"),
        ("memory", "memory_pressure_some", "memory_pressure_full"),
        ("io", "disk_pressure_some", "disk_pressure_full"),
    ];
    for (resource, some, full) in names {
        let pressure = Pressure::parse(&read(resource));
        let seconds = |us: u64| us as f64 / 1e6;
        sheet.total(some, "s", pressure.some_us.map(seconds));
        sheet.total(full, "s", pressure.full_us.map(seconds));
    }
}

/// A file of `/proc`, empty where it is not there.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
