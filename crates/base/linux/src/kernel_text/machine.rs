//! Files of `/proc` that tell of the whole machine.

/// Processor time of the machine in clock ticks, by the first line of `/proc/stat` (proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorTime {
    /// In programs, those of low priority included.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Doing nothing.
    pub idle: f64,
    /// Doing nothing while a task waited for a disk.
    pub disk_wait: f64,
    /// In interrupts.
    pub interrupts: f64,
    /// In what interrupts put off.
    pub soft_interrupts: f64,
    /// Taken by the hypervisor.
    pub stolen: f64,
}

impl ProcessorTime {
    /// `None` of text that is no such file's.
    #[must_use]
    pub fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, disk_wait, interrupts, soft_interrupts, stolen, ..] = ticks[..] else {
            return None;
        };
        Some(Self { user: user + nice, system, idle, disk_wait, interrupts, soft_interrupts, stolen })
    }
}

/// Microseconds in which some, or all, of what wanted to run waited for a resource (`/proc/pressure`, and `memory.pressure`
/// of a group; in the kernel's documentation: Pressure Stall Information).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// At least one task waited.
    pub some_us: Option<u64>,
    /// All tasks waited. Older kernels do not count that for processors.
    pub full_us: Option<u64>,
}

impl Pressure {
    /// A line that is not there is `None`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let total = |kind| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
        };
        Self { some_us: total("some "), full_us: total("full ") }
    }
}

/// A file or device that memory is swapped to, by a line of `/proc/swaps` (proc_swaps(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap<'a> {
    /// Its path, in which the kernel writes a blank as `\040`.
    pub path: &'a str,
    /// The kernel fills the highest first.
    pub priority: i32,
}

/// All swap in the text of `/proc/swaps`.
pub fn swaps(text: &str) -> impl Iterator<Item = Swap<'_>> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        // The heading ends in a word.
        Some(Swap { path: words.next()?, priority: words.next_back()?.parse().ok()? })
    })
}

/// What went to and from disks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskUse {
    /// Requests.
    pub reads: f64,
    /// Bytes.
    pub read_bytes: f64,
    /// Requests.
    pub writes: f64,
    /// Bytes.
    pub written_bytes: f64,
    /// Seconds, added up over all requests.
    pub read_time: f64,
    /// Seconds, added up over all requests.
    pub write_time: f64,
    /// Seconds in which a disk had something to do, added up over the disks.
    pub busy_time: f64,
}

impl DiskUse {
    /// Of those disks in `/proc/diskstats` (in the kernel's documentation: I/O statistics fields) that `counts`.
    #[must_use]
    pub fn parse(text: &str, counts: impl Fn(&str) -> bool) -> Self {
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
pub struct NetworkUse {
    /// Bytes.
    pub received_bytes: f64,
    /// Packets.
    pub received_packets: f64,
    /// Bytes.
    pub sent_bytes: f64,
    /// Packets.
    pub sent_packets: f64,
    /// Packets dropped in either direction.
    pub dropped_packets: f64,
}

impl NetworkUse {
    /// Of those interfaces in `/proc/net/dev` (proc_net(5)) that `counts`.
    #[must_use]
    pub fn parse(text: &str, counts: impl Fn(&str) -> bool) -> Self {
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

/// How often a connection found no room in the queue of those that wait to be accepted, by `/proc/net/netstat` (proc_net(5)):
/// names are on one line of a protocol, and their numbers on the next.
#[must_use]
pub fn accept_overflows(netstat: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let mut fields = names.split_whitespace().zip(numbers.split_whitespace());
    fields.find(|(name, _)| *name == "ListenOverflows")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_of_accept_queues_are_found_by_their_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 12 14\nIpExt: InNoRoutes\nIpExt: 3\n";
        assert_eq!(accept_overflows(text), Some(12));
        assert_eq!((accept_overflows("TcpExt: ListenOverflows\n"), accept_overflows("")), (None, None));
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
    fn pressure_is_in_microseconds_and_full_may_be_missing() {
        let text = "some avg10=0.00 avg60=18.26 avg300=47.55 total=18815198494\n\
            full avg10=0.00 avg60=17.95 avg300=46.48 total=16173585295\n";
        let pressure = Pressure { some_us: Some(18_815_198_494), full_us: Some(16_173_585_295) };
        assert_eq!(Pressure::parse(text), pressure);
        let old = "some avg10=6.99 avg60=2.69 avg300=1.68 total=1000000\n";
        assert_eq!(Pressure::parse(old), Pressure { some_us: Some(1_000_000), full_us: None });
        assert_eq!(Pressure::parse(""), Pressure::default());
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

    #[test]
    fn swap_has_a_path_and_a_priority() {
        let heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert_eq!(swaps(heading).next(), None);
        let text = format!("{heading}/dev/vdb2    partition\t1048572\t0\t-2\n/a\\040b  file 1024 0 7\n");
        let expected = [Swap { path: "/dev/vdb2", priority: -2 }, Swap { path: "/a\\040b", priority: 7 }];
        assert_eq!(swaps(&text).collect::<Vec<_>>(), expected);
    }
}
