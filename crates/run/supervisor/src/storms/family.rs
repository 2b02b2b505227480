//! The processes of a run, whether they have agents or not.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use forebay_linux::kernel_text::ProcessStat;

/// Processes that are looked at, at most.
const PROCESSES_MAX: usize = 256;
/// How processes of forebay's own are called.
const OWN: &str = "(forebay:";

/// Major faults of these processes and of their descendants, as far as the kernel tells who those are.
pub fn major_faults(first: impl Iterator<Item = u32>) -> HashMap<u32, u64> {
    walk(first.collect()).map(|(process, found)| (process, found.own.major_faults)).collect()
}

/// A process and its descendants; none of forebay's own.
pub fn processes(first: u32) -> impl Iterator<Item = u32> {
    walk(vec![first]).map(|(process, _)| process)
}

fn walk(mut waiting: Vec<u32>) -> impl Iterator<Item = (u32, ProcessStat)> {
    let mut seen: HashSet<u32> = HashSet::new();
    std::iter::from_fn(move || {
        while let Some(process) = waiting.pop().filter(|_| seen.len() < PROCESSES_MAX) {
            let is_new = process != 0 && seen.insert(process);
            let stat = is_new.then(|| fs::read_to_string(format!("/proc/{process}/stat")).ok()).flatten();
            let Some(stat) = stat.filter(|stat| !stat.contains(OWN)) else { continue };
            let Some(found) = ProcessStat::parse(&stat) else { continue };
            waiting.extend(children(process));
            return Some((process, found));
        }
        None
    })
}

/// The children of a process.
pub fn children(process: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return vec![] };
    let of_thread =
        |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let texts: Vec<String> = threads.flatten().map(of_thread).collect();
    texts.iter().flat_map(|text| text.split_ascii_whitespace()).filter_map(|id| id.parse().ok()).collect()
}
