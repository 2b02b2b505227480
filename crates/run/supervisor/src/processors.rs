//! Tells agents what processor time costs: nothing where a processor is idle, and as much as it is where tasks wait for one.
//!
//! Speculators run at idle priority. Where processors are busy they still slow others down, since caches are shared.
//!
//! A control group has one quota for all of its processes. While the quota holds the program back there are no speculators:
//! shorter waits would only let its time run out sooner.

use std::{fs, path::PathBuf, sync::atomic::Ordering::Relaxed, time::Instant};

use forebay_linux::groups::quota::{self, Quota};
use forebay_linux::kernel_text::{self, Pressure};
use forebay_policy::price::{PRICE_ONE, QUOTA_PERIODS, QUOTA_PERIODS_MIN};
use forebay_protocol::layout::Header;

/// Where the kernel tells how long some task of the machine waited for a processor (PSI).
const PRESSURE: &str = "/proc/pressure/cpu";

/// The price where some task always waits for a processor.
const PRICE_MAX: u32 = PRICE_ONE as u32;

/// How busy the processors are.
pub struct Processors {
    /// The program's group and those around it: a quota of each counts for all processes in it.
    groups: Vec<Group>,
    looked: Instant,
    waited_us: Option<u64>,
    throttled_us: Option<u64>,
}

impl Processors {
    /// For the process `pid`.
    pub fn new(pid: u32) -> Self {
        let groups = quota::around(pid).into_iter().map(Group::new).collect();
        Self { groups, looked: Instant::now(), waited_us: None, throttled_us: None }
    }

    /// Says what processor time costs now.
    pub fn look(&mut self, header: &Header) {
        let elapsed_us = self.looked.elapsed().as_micros().max(1);
        self.looked = Instant::now();
        let pressure = fs::read_to_string(PRESSURE).ok().and_then(|text| Pressure::parse(&text).some_us);
        let throttled = self.groups.iter().filter_map(Group::throttled_us).reduce(u64::saturating_add);
        let waited = grown(&mut self.waited_us, pressure).max(grown(&mut self.throttled_us, throttled));
        let price = u128::from(waited) * u128::from(PRICE_MAX) / elapsed_us;
        let price = u32::try_from(price).unwrap_or(PRICE_MAX).min(PRICE_MAX);
        self.groups.iter_mut().for_each(Group::judge);
        header.held_by_quota.store(self.groups.iter().any(|group| group.holds_back).into(), Relaxed);
        // The mean of two looks, since the first ones are short.
        header.processor_price.store((header.processor_price.load(Relaxed) + price).div_ceil(2), Relaxed);
    }
}

/// By how much a count has grown, if both values are known.
fn grown(known: &mut Option<u64>, now: Option<u64>) -> u64 {
    let before = std::mem::replace(known, now);
    before.zip(now).map_or(0, |(before, now)| now.saturating_sub(before))
}

/// A control group of processor time.
struct Group {
    folder: PathBuf,
    /// What its quota had counted when that was last judged; `None` without a quota.
    judged: Option<Quota>,
    /// The quota holds its processes back.
    holds_back: bool,
}

impl Group {
    fn new(folder: PathBuf) -> Self {
        Self { judged: quota::of(&folder), folder, holds_back: false }
    }

    /// How long a quota kept its processes from their processors so far; `None` where the kernel does not tell.
    fn throttled_us(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).ok()?;
        let ns = || Some(kernel_text::number(&text, "throttled_time")? / 1_000);
        kernel_text::number(&text, "throttled_usec").or_else(ns)
    }

    /// Judges its quota, which may be another one than before.
    fn judge(&mut self) {
        let now = quota::of(&self.folder);
        if let (Some(before), Some(now)) = (self.judged, now) {
            let periods = now.periods - before.periods;
            if periods < QUOTA_PERIODS_MIN {
                return;
            }
            self.holds_back = QUOTA_PERIODS * (now.throttled - before.throttled) >= periods;
        } else {
            self.holds_back = false;
        }
        self.judged = now;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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

    /// A group in a folder that tells what the kernel would.
    fn group(folder: &Path, text: &str) -> Group {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("cpu.stat"), text).unwrap();
        Group::new(folder.into())
    }

    #[test]
    fn quotas_are_read_in_both_versions_of_groups() {
        let folder = tempfile::tempdir().unwrap();
        for (text, us) in [
            ("nr_throttled 3\nthrottled_time 7000\n", Some(7)),
            ("throttled_usec 8\n", Some(8)),
            ("usage_usec 8\n", None),
        ] {
            assert_eq!(group(folder.path(), text).throttled_us(), us);
        }
        assert_eq!(Group::new(folder.path().join("none")).throttled_us(), None);
    }

    #[test]
    fn a_quota_of_any_group_around_that_runs_out_in_half_of_its_periods_holds_the_program_back() {
        let folder = tempfile::tempdir().unwrap();
        let (limited, around) = (folder.path().join("limited"), folder.path().join("around"));
        let groups = [&limited, &around].map(|path| group(path, "nr_periods 90\nnr_throttled 80\n")).into();
        let channel = Channel::create(true).unwrap();
        let mut processors = Processors { groups, ..Processors::new(0) };
        for (quota, periods, throttled, held) in [
            ("-1", 90, 80, 0),
            ("20000", 90, 80, 0),
            ("20000", 91, 81, 0),
            ("20000", 92, 81, 1),
            ("20000", 93, 81, 1),
            ("20000", 95, 82, 0),
            ("20000", 97, 84, 1),
            ("-1", 97, 84, 0),
        ] {
            fs::write(around.join("cpu.cfs_quota_us"), quota).unwrap();
            fs::write(around.join("cpu.cfs_period_us"), "100000").unwrap();
            fs::write(around.join("cpu.stat"), format!("nr_periods {periods}\nnr_throttled {throttled}\n"))
                .unwrap();
            processors.look(channel.header());
            assert_eq!(channel.header().held_by_quota.load(Relaxed), held, "{quota} {periods} {throttled}");
        }
    }
}
