//! What the system tells of the machine: caches, translations, processors, devices.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use forebay_linux::kernel_text::ProcessStat;
use forebay_quantity::size;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Error, Unsuited};

/// A cache for data, or a buffer of translations, as the system tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// 1 is next to the processor.
    pub level: u32,
    /// What it covers.
    pub bytes: usize,
}

/// The data caches of the first processor, by `/sys`; none where it does not tell.
#[must_use]
pub fn caches() -> Vec<Told> {
    let mut caches: Vec<Told> =
        caches_of(Path::new("/sys/devices/system/cpu/cpu0")).map(|(told, _)| told).collect();
    caches.sort_unstable();
    caches
}

/// The data caches of the processor that a folder describes, and which processors share each.
fn caches_of(processor: &Path) -> impl Iterator<Item = (Told, String)> {
    let caches = fs::read_dir(processor.join("cache")).into_iter().flatten().flatten();
    caches.filter_map(|cache| {
        let field =
            |name: &str| fs::read_to_string(cache.path().join(name)).map(|text| text.trim_end().to_owned());
        let holds_data = field("type").ok()? != "Instruction";
        let bytes = size(&field("size").ok()?).ok()? as usize;
        let told = Told { level: field("level").ok()?.parse().ok()?, bytes };
        holds_data.then_some((told, field("shared_cpu_list").unwrap_or_default()))
    })
}

/// What all last caches of the machine hold together: processors that are far from each other have one each. 0 where the
/// system does not tell.
#[must_use]
pub fn last_caches_bytes() -> usize {
    last_caches(Path::new("/sys/devices/system/cpu"))
}

fn last_caches(folder: &Path) -> usize {
    let mut found: BTreeMap<(u32, String), usize> = BTreeMap::new();
    for processor in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.extend(caches_of(&processor.path()).map(|(told, shared)| ((told.level, shared), told.bytes)));
    }
    let last = found.keys().map(|(level, _)| *level).max();
    found.iter().filter(|((level, _), _)| Some(*level) == last).map(|(_, bytes)| bytes).sum()
}

/// The memory whose translations each level of buffers for loads from pages of 4 KiB holds, by CPUID; none where it does not tell.
#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
#[must_use]
pub fn translations() -> Vec<Told> {
    use raw_cpuid::{CpuId, DatType};
    let cpuid = CpuId::new();
    let told = |level: u32, entries: usize| Told { level, bytes: entries * forebay_vm::PAGE_BYTES };
    let intel = cpuid.get_deterministic_address_translation_info().into_iter().flatten();
    let intel = intel.filter(|buffer| {
        buffer.has_4k_entries()
            && matches!(buffer.cache_type(), DatType::DataTLB | DatType::UnifiedTLB | DatType::LoadOnly)
    });
    let mut all: Vec<Told> = intel
        .map(|buffer| {
            told(u32::from(buffer.cache_level()), usize::from(buffer.ways()) * buffer.sets() as usize)
        })
        .collect();
    if all.is_empty() {
        let first = cpuid.get_l1_cache_and_tlb_info().map(|info| told(1, info.dtlb_4k_size().into()));
        let second = cpuid.get_l2_l3_cache_and_tlb_info().map(|info| told(2, info.dtlb_4k_size().into()));
        all = first.into_iter().chain(second).filter(|buffer| buffer.bytes > 0).collect();
    }
    all.sort_unstable();
    all
}

/// Nothing tells there.
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
#[must_use]
pub fn translations() -> Vec<Told> {
    Vec::new()
}

/// Has the calling thread run on one processor only: the last one that it may use.
///
/// # Errors
/// The kernel refuses.
pub fn stay_on_one_processor() -> Result<usize, Error> {
    let may_use = sched_getaffinity(None).map_err(Error::refused("tell the processors of this thread"))?;
    let last = (0..CpuSet::MAX_CPU).rev().find(|processor| may_use.is_set(*processor)).unwrap_or(0);
    let mut one = CpuSet::new();
    one.set(last);
    sched_setaffinity(None, &one).map_err(Error::refused("stay on one processor"))?;
    Ok(last)
}

/// The name of the block device that holds `path`, as `vda`; none where it is not on one.
#[must_use]
pub fn device_of(path: &Path) -> Option<String> {
    let device = File::open(path).ok()?.metadata().ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// Page faults of the calling thread so far: those without, and those with input and output (proc_pid_stat(5)).
pub(crate) fn faults() -> Result<(u64, u64), Error> {
    let path = "/proc/thread-self/stat";
    let text = fs::read_to_string(path).map_err(Error::refused(format!("read {path}")))?;
    let stat = ProcessStat::parse(&text);
    let faults = stat.map(|stat| (stat.own.minor_faults, stat.own.major_faults));
    faults.ok_or_else(|| Unsuited::NoFaultCounts { path: path.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_grow_with_their_level() {
        let caches = caches();
        assert!(caches.windows(2).all(|two| two[0].bytes <= two[1].bytes), "{caches:?}");
        assert!(translations().iter().all(|told| told.bytes >= 4096 && told.level >= 1));
    }

    #[test]
    fn last_caches_are_counted_once_each_and_caches_below_them_are_not() {
        let folder = tempfile::tempdir().unwrap();
        for (processor, index, level, kind, size, shared) in [
            (0, 0, "1", "Data", "48K", "0"),
            (0, 2, "3", "Unified", "32768K", "0-1"),
            (1, 2, "3", "Unified", "32768K", "0-1"),
            (2, 2, "3", "Unified", "32768K", "2-3"),
            (2, 1, "1", "Instruction", "64K", "2"),
        ] {
            let cache = folder.path().join(format!("cpu{processor}/cache/index{index}"));
            fs::create_dir_all(&cache).unwrap();
            for (name, value) in
                [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)]
            {
                fs::write(cache.join(name), format!("{value}\n")).unwrap();
            }
        }
        assert_eq!(last_caches(folder.path()), 64 << 20);
        assert_eq!(last_caches(&folder.path().join("nowhere")), 0);
        let one = caches().last().map_or(0, |cache| cache.bytes);
        assert!(last_caches_bytes() >= one, "{one}");
    }

    #[test]
    fn a_file_in_memory_is_on_no_device() {
        assert_eq!(device_of(Path::new("/proc/self/stat")), None);
    }

    #[test]
    fn touching_new_memory_is_counted() {
        let words = forebay_vm::Words::zeroed(1 << 20, forebay_vm::Pages::Small).unwrap();
        let before = faults().unwrap();
        for page in words.chunks(512) {
            page[0].store(1, std::sync::atomic::Ordering::Relaxed);
        }
        assert!(faults().unwrap().0 - before.0 >= 256);
    }
}
