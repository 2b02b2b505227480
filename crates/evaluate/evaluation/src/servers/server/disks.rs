//! Which disk is asked most, and how many of its requests are under way.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use forebay_linux::kernel_text::DiskUse;

use crate::experiments::DiskQueue;

/// What all disks have done, at a moment. A disk made of others is one of them: the one that is asked most is looked for.
#[derive(Clone, Debug)]
pub(super) struct Disks {
    at: Instant,
    used: BTreeMap<String, DiskUse>,
}

impl Disks {
    pub(super) fn now() -> Self {
        Self { at: Instant::now(), used: parse(&fs::read_to_string("/proc/diskstats").unwrap_or_default()) }
    }

    pub(super) fn most_asked_since(&self, before: &Self) -> Option<DiskQueue> {
        most_asked(&before.used, &self.used, self.at.duration_since(before.at).as_secs_f64())
    }
}

fn parse(text: &str) -> BTreeMap<String, DiskUse> {
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(2));
    names.map(|name| (name.to_owned(), DiskUse::parse(text, |other| other == name))).collect()
}

fn most_asked(
    before: &BTreeMap<String, DiskUse>,
    after: &BTreeMap<String, DiskUse>,
    seconds: f64,
) -> Option<DiskQueue> {
    let queue = |(name, used): (&String, &DiskUse)| {
        let first = before.get(name).copied().unwrap_or_default();
        let grown = |of: fn(&DiskUse) -> f64| of(used) - of(&first);
        DiskQueue {
            name: name.clone(),
            under_way: grown(|disk| disk.read_time + disk.write_time) / seconds,
            busy: (grown(|disk| disk.busy_time) / seconds).min(1.0),
            bytes: grown(|disk| disk.read_bytes + disk.written_bytes),
        }
    };
    let queues = after.iter().map(queue).filter(|disk| disk.bytes > 0.0);
    queues.max_by(|one, other| one.under_way.total_cmp(&other.under_way))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_that_is_asked_most_is_told_with_its_requests_under_way() {
        let before = parse("8 0 sda 10 0 80 100 0 0 0 0 0 50 100\n7 0 loop0 5 0 40 10 0 0 0 0 0 5 10\n");
        let after =
            parse("8 0 sda 12 0 96 120 0 0 0 0 0 60 120\n7 0 loop0 25 0 200 8010 0 0 0 0 0 905 8010\n");
        let disk = most_asked(&before, &after, 1.0).unwrap();
        assert_eq!((disk.name.as_str(), disk.under_way, disk.busy), ("loop0", 8.0, 0.9));
        assert_eq!(disk.bytes, 160.0 * 512.0);
        assert_eq!(most_asked(&after, &after, 1.0), None);
    }
}
