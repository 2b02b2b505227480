//! Readers of `memory.stat`, `io.stat` and their like: functions of text alone.

use std::collections::HashMap;

/// Of the fields of `memory.stat` of version 1, those that count the groups below too, by their names without `total_`.
#[must_use]
pub fn recursive(fields: HashMap<&str, f64>) -> HashMap<&str, f64> {
    fields.into_iter().filter_map(|(key, value)| Some((key.strip_prefix("total_")?, value))).collect()
}

/// What a group moved to and from disks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfers {
    /// Requests.
    pub reads: f64,
    /// Bytes.
    pub read_bytes: f64,
    /// Requests.
    pub writes: f64,
    /// Bytes.
    pub written_bytes: f64,
}

impl Transfers {
    /// Of those disks in `io.stat` (in the kernel's documentation: Control Group v2) whose number `counts`.
    #[must_use]
    pub fn parse(text: &str, counts: impl Fn(&str) -> bool) -> Self {
        let mut all = Self::default();
        let disks = text.lines().filter_map(|line| line.split_once(' ')).filter(|(number, _)| counts(number));
        for (key, value) in
            disks.flat_map(|(_, fields)| fields.split(' ')).filter_map(|field| field.split_once('='))
        {
            let value = value.parse().unwrap_or(0.0);
            match key {
                "rios" => all.reads += value,
                "rbytes" => all.read_bytes += value,
                "wios" => all.writes += value,
                "wbytes" => all.written_bytes += value,
                _ => {}
            }
        }
        all
    }

    /// The same by the files of version 1, of bytes and of operations; `None` where they are not there.
    #[must_use]
    pub fn parse_old(bytes: &str, operations: &str, counts: impl Fn(&str) -> bool) -> Option<Self> {
        let sum = |text: &str, wanted: &str| {
            let fields = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let values = fields.filter_map(|fields| match fields[..] {
                [number, kind, value] if counts(number) && kind == wanted => value.parse::<f64>().ok(),
                _ => None,
            });
            values.sum()
        };
        let there = bytes.contains("Total") && operations.contains("Total");
        there.then(|| Self {
            reads: sum(operations, "Read"),
            read_bytes: sum(bytes, "Read"),
            writes: sum(operations, "Write"),
            written_bytes: sum(bytes, "Write"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Transfers = Transfers { reads: 3.0, read_bytes: 12_288.0, writes: 2.0, written_bytes: 8192.0 };

    #[test]
    fn both_versions_tell_the_same_of_the_disks_that_count() {
        let new = "254:0 rbytes=12288 wbytes=8192 rios=3 wios=2 dbytes=0 dios=0\n7:0 rbytes=5 wbytes=5 rios=5 wios=5 dbytes=0 dios=0\n";
        assert_eq!(Transfers::parse(new, |number| number == "254:0"), ALL);
        let bytes =
            "254:0 Read 12288\n254:0 Write 8192\n254:0 Sync 0\n254:0 Total 20480\n7:0 Read 5\nTotal 20485\n";
        let operations = "254:0 Read 3\n254:0 Write 2\nTotal 5\n";
        assert_eq!(Transfers::parse_old(bytes, operations, |number| number == "254:0"), Some(ALL));
        assert_eq!(Transfers::parse_old("", "", |_| true), None);
    }

    #[test]
    fn of_version_1_the_totals_count() {
        let text = "cache 13459456\npgfault 419021\ntotal_cache 1829560320\ntotal_pgfault 1831819233\n";
        let fields = recursive(crate::kernel_text::keyed(text));
        assert_eq!(fields, HashMap::from([("cache", 1_829_560_320.0), ("pgfault", 1_831_819_233.0)]));
    }
}
