//! What the kernel writes, read: functions of text alone.

use std::collections::HashMap;

/// Lines of a key, blanks and a number (`/proc/vmstat`, `memory.stat`, `cpu.stat`; proc_vmstat(5)). A key may end in a
/// colon, and units behind the number are left out (`/proc/PID/status`, `/proc/PID/io`).
pub(crate) fn keyed(text: &str) -> HashMap<&str, f64> {
    let field = |line| {
        let (key, rest) = str::split_once(line, char::is_whitespace)?;
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some((key.trim_end_matches(':'), value))
    };
    text.lines().filter_map(field).collect()
}

/// The sum of these fields, where all are there.
pub(crate) fn sum(fields: &HashMap<&str, f64>, keys: &[&str]) -> Option<f64> {
    keys.iter().map(|key| fields.get(key).copied()).sum()
}

/// The first fields of a process's `stat` (proc_pid_stat(5)) that say what it used. Times are in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessStat {
    pub(crate) parent: u32,
    /// Ticks after boot.
    pub(crate) started: u64,
    pub(crate) own: Usage,
    /// Of children that have ended and were waited for, and of theirs.
    pub(crate) reaped: Usage,
    /// Ticks that it waited for disks; 0 unless the kernel accounts for delays.
    pub(crate) disk_wait: f64,
}

/// What the kernel hands on from an ended process to the one that waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) minor_faults: f64,
    pub(crate) major_faults: f64,
}

impl ProcessStat {
    /// `None` of text that is no such file's.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The name stands in parentheses and may hold any character.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The manual counts from 1 and the name is the second.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let number = |place| field(place).map(|value| value as f64);
        Some(Self {
            parent: u32::try_from(field(4)?).ok()?,
            started: field(22)?,
            own: Usage {
                user: number(14)?,
                system: number(15)?,
                minor_faults: number(10)?,
                major_faults: number(12)?,
            },
            reaped: Usage {
                user: number(16)?,
                system: number(17)?,
                minor_faults: number(11)?,
                major_faults: number(13)?,
            },
            disk_wait: number(42)?,
        })
    }
}

/// Processor time of the machine in clock ticks, by the first line of `/proc/stat` (proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessorTime {
    pub(crate) user: f64,
    pub(crate) system: f64,
    pub(crate) idle: f64,
    pub(crate) disk_wait: f64,
    pub(crate) interrupts: f64,
    pub(crate) soft_interrupts: f64,
    pub(crate) stolen: f64,
}

impl ProcessorTime {
    pub(crate) fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, disk_wait, interrupts, soft_interrupts, stolen, ..] = ticks[..] else {
            return None;
        };
        Some(Self { user: user + nice, system, idle, disk_wait, interrupts, soft_interrupts, stolen })
    }
}

/// Seconds in which some, or all, of what wanted to run waited for a resource (`/proc/pressure`; in the kernel's
/// documentation: Pressure Stall Information).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pressure {
    pub(crate) some: Option<f64>,
    pub(crate) full: Option<f64>,
}

impl Pressure {
    pub(crate) fn parse(text: &str) -> Self {
        let total = |kind| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            let (_, microseconds) = line.rsplit_once("total=")?;
            microseconds.trim().parse::<f64>().ok().map(|total| total / 1e6)
        };
        Self { some: total("some "), full: total("full ") }
    }
}

/// What went to and from disks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DiskUse {
    pub(crate) reads: f64,
    pub(crate) read_bytes: f64,
    pub(crate) writes: f64,
    pub(crate) written_bytes: f64,
    /// Seconds, added up over all requests.
    pub(crate) read_time: f64,
    /// Seconds, added up over all requests.
    pub(crate) write_time: f64,
    /// Seconds in which a disk had something to do, added up over the disks.
    pub(crate) busy_time: f64,
}

impl DiskUse {
    /// Of those disks in `/proc/diskstats` (in the kernel's documentation: I/O statistics fields) that `counts`.
    pub(crate) fn parse(text: &str, counts: impl Fn(&str) -> bool) -> Self {
        // Whatever the disk's own sectors are.
        const SECTOR_BYTES: f64 = 512.0;
        let mut all = Self::default();
        for line in text.lines() {
            let mut fields = line.split_whitespace().skip(2);
            if !fields.next().is_some_and(&counts) {
                continue;
            }
            let numbers: Vec<f64> = fields.map_while(|field| field.parse().ok()).collect();
            let [reads, _, read, read_ms, writes, _, written, write_ms, _, busy_ms, ..] = numbers[..] else {
                continue;
            };
            all.reads += reads;
            all.read_bytes += read * SECTOR_BYTES;
            all.writes += writes;
            all.written_bytes += written * SECTOR_BYTES;
            all.read_time += read_ms / 1e3;
            all.write_time += write_ms / 1e3;
            all.busy_time += busy_ms / 1e3;
        }
        all
    }
}

/// What went over network interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NetworkUse {
    pub(crate) received_bytes: f64,
    pub(crate) received_packets: f64,
    pub(crate) sent_bytes: f64,
    pub(crate) sent_packets: f64,
    pub(crate) dropped_packets: f64,
}

impl NetworkUse {
    /// Of those interfaces in `/proc/net/dev` (proc_net(5)) that `counts`.
    pub(crate) fn parse(text: &str, counts: impl Fn(&str) -> bool) -> Self {
        let mut all = Self::default();
        for (name, fields) in text.lines().filter_map(|line| line.split_once(':')) {
            let numbers: Vec<f64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
            if numbers.len() < 16 || !counts(name.trim()) {
                continue;
            }
            all.received_bytes += numbers[0];
            all.received_packets += numbers[1];
            all.sent_bytes += numbers[8];
            all.sent_packets += numbers[9];
            all.dropped_packets += numbers[3] + numbers[11];
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_their_numbers_with_or_without_colons_and_units() {
        let text =
            "pgfault 1831819233\nVmRSS:\t    1776 kB\nName:\tcat\nvoluntary_ctxt_switches:\t146\nTotal 0\n";
        let fields = keyed(text);
        assert_eq!(fields["pgfault"], 1_831_819_233.0);
        assert_eq!((fields["VmRSS"], fields["voluntary_ctxt_switches"]), (1776.0, 146.0));
        assert!(!fields.contains_key("Name"));
        assert_eq!(sum(&fields, &["VmRSS", "Total"]), Some(1776.0));
        assert_eq!(sum(&fields, &["VmRSS", "VmSwap"]), None);
    }

    #[test]
    fn a_process_whose_name_looks_like_fields_is_read_right() {
        let text = "21833 (a) R 1 (b) S 21831 21831 18910 0 -1 4194304 122 30 4 5 60 7 80 9 20 0 1 0 8074002 3133440 \
            416 18446744073709551615 94217960275968 94217960295849 140730271804080 0 0 0 0 0 0 0 0 0 17 1 0 0 55 0 0 \
            94217960311856 94217960313472 94218744426496 140730271807972 140730271808040 140730271808040 \
            140730271809515 0\n";
        let own = Usage { user: 60.0, system: 7.0, minor_faults: 122.0, major_faults: 4.0 };
        let reaped = Usage { user: 80.0, system: 9.0, minor_faults: 30.0, major_faults: 5.0 };
        let stat = ProcessStat { parent: 21831, started: 8_074_002, own, reaped, disk_wait: 55.0 };
        assert_eq!(ProcessStat::parse(text), Some(stat));
        assert_eq!(ProcessStat::parse("21833 (cat) R 1 2"), None);
        assert_eq!(ProcessStat::parse(""), None);
    }

    #[test]
    fn processor_time_is_of_the_line_for_all_processors() {
        let text = "cpu  4409811 306094 1225688 8019707 2000966 7 82983 109491 0 0\n\
            cpu0 2230789 151565 618821 3970539 1017042 0 34109 54863 0 0\nctxt 628187384\n";
        let time = ProcessorTime::parse(text).unwrap();
        assert_eq!((time.user, time.system, time.idle), (4_715_905.0, 1_225_688.0, 8_019_707.0));
        assert_eq!((time.disk_wait, time.interrupts), (2_000_966.0, 7.0));
        assert_eq!((time.soft_interrupts, time.stolen), (82_983.0, 109_491.0));
        assert_eq!(ProcessorTime::parse("cpu0 1 2 3"), None);
    }

    #[test]
    fn pressure_is_in_seconds_and_full_may_be_missing() {
        let text = "some avg10=0.00 avg60=18.26 avg300=47.55 total=18815198494\n\
            full avg10=0.00 avg60=17.95 avg300=46.48 total=16173585295\n";
        let pressure = Pressure { some: Some(18_815.198_494), full: Some(16_173.585_295) };
        assert_eq!(Pressure::parse(text), pressure);
        let old = "some avg10=6.99 avg60=2.69 avg300=1.68 total=1000000\n";
        assert_eq!(Pressure::parse(old), Pressure { some: Some(1.0), full: None });
    }

    #[test]
    fn only_disks_that_count_are_added_up() {
        let text = "   7       0 loop0 75567919 47896479 1091895440 194612862 21738003 142179828 1460975964 31394084 0 18722040 226129024 3370 0 473165472 1206 77549 120870
 254       0 vda 1000 5867407 20 3000 4000 23246274 50 6000 0 7000 35151233 3383023 165 1182703176 332667 136651 10593
 254       1 vda1 1 1 1 1 1 1 1 1 1 1 1
";
        let disks = DiskUse::parse(text, |name| name == "vda");
        let expected = DiskUse {
            reads: 1000.0,
            read_bytes: 10_240.0,
            writes: 4000.0,
            written_bytes: 25_600.0,
            read_time: 3.0,
            write_time: 6.0,
            busy_time: 7.0,
        };
        assert_eq!(disks, expected);
    }

    #[test]
    fn interfaces_that_count_are_added_up() {
        let text = "Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 2129407974 2843742    0    0    0     0          0         0 2129407974 2843742    0    0    0     0       0          0
  eth0: 1244274233   78774    0    3    0     0          0         0  6625114   79670    0    4    0     0       0          0
  eth1:10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0
";
        let network = NetworkUse::parse(text, |name| name != "lo");
        let expected = NetworkUse {
            received_bytes: 1_244_274_243.0,
            received_packets: 78_775.0,
            sent_bytes: 6_625_134.0,
            sent_packets: 79_672.0,
            dropped_packets: 7.0,
        };
        assert_eq!(network, expected);
    }
}
