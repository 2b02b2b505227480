//! Tells agents what processor time costs: nothing where a processor is idle, and as much as it is where tasks wait for one.
//!
//! Speculators run at idle priority. Where processors are busy they still slow others down: caches are shared, and a control
//! group has one quota for all of its processes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use forebay_linux::kernel_text::{self, Pressure};
use forebay_policy::price::PRICE_ONE;
use forebay_protocol::layout::Header;

/// Where the kernel tells how long some task of the machine waited for a processor (PSI).
const PRESSURE: &str = "/proc/pressure/cpu";
/// Where control groups of processor time are.
const GROUPS: [&str; 3] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];

/// The price where some task always waits for a processor.
const PRICE_MAX: u32 = PRICE_ONE as u32;

/// How busy the processors are.
pub struct Processors {
    /// Where the kernel tells how long the program's group was kept from its processors, by a quota.
    quota: Option<PathBuf>,
    looked: Instant,
    waited_us: Option<u64>,
    throttled_us: Option<u64>,
}

impl Processors {
    /// For the process `pid`.
    pub fn new(pid: u32) -> Self {
        Self { quota: quota_of(pid), looked: Instant::now(), waited_us: None, throttled_us: None }
    }

    /// Says what processor time costs now.
    pub fn look(&mut self, header: &Header) {
        let elapsed_us = self.looked.elapsed().as_micros().max(1);
        self.looked = Instant::now();
        let pressure = fs::read_to_string(PRESSURE).ok().and_then(|text| Pressure::parse(&text).some_us);
        let throttled = self.quota.as_deref().and_then(throttled_us);
        let waited = grown(&mut self.waited_us, pressure).max(grown(&mut self.throttled_us, throttled));
        let price = u128::from(waited) * u128::from(PRICE_MAX) / elapsed_us;
        let price = u32::try_from(price).unwrap_or(PRICE_MAX).min(PRICE_MAX);
        // The mean of two looks, since the first ones are short.
        header.processor_price.store((header.processor_price.load(Relaxed) + price).div_ceil(2), Relaxed);
    }
}

/// By how much a count has grown, if both values are known.
fn grown(known: &mut Option<u64>, now: Option<u64>) -> u64 {
    let before = std::mem::replace(known, now);
    before.zip(now).map_or(0, |(before, now)| now.saturating_sub(before))
}

/// The file that tells of the quota of a process's group.
fn quota_of(pid: u32) -> Option<PathBuf> {
    let membership = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let group = membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        (controllers.is_empty() || controllers.split(',').any(|name| name == "cpu")).then_some(path)
    })?;
    let group = group.trim_start_matches('/');
    GROUPS
        .iter()
        .map(|root| Path::new(root).join(group).join("cpu.stat"))
        .find(|file| throttled_us(file).is_some())
}

/// How long a group was kept from its processors so far.
fn throttled_us(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let ns = || Some(kernel_text::number(&text, "throttled_time")? / 1_000);
    kernel_text::number(&text, "throttled_usec").or_else(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;

    #[test]
    fn counts_grow_only_between_two_known_values() {
        let mut known = None;
        let grown = [Some(5), Some(9), None, Some(20), Some(3), Some(4)].map(|now| grown(&mut known, now));
        assert_eq!(grown, [0, 4, 0, 0, 0, 1]);
    }

    #[test]
    fn the_price_is_a_part_of_the_time() {
        let channel = Channel::create(true).unwrap();
        let mut processors = Processors::new(std::process::id());
        for _ in 0..10 {
            processors.look(channel.header());
            assert!(channel.header().processor_price.load(Relaxed) <= PRICE_MAX);
        }
        // However fast the count grows.
        processors.waited_us = Some(0);
        processors.look(channel.header());
        assert!(channel.header().processor_price.load(Relaxed) <= PRICE_MAX);
    }

    #[test]
    fn quotas_are_read_in_both_versions_of_groups() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cpu.stat");
        for (text, us) in [
            ("nr_throttled 3\nthrottled_time 7000\n", Some(7)),
            ("throttled_usec 8\n", Some(8)),
            ("usage_usec 8\n", None),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(throttled_us(&file), us);
        }
        assert_eq!(quota_of(0), None);
    }
}
