//! Files of `/proc` that tell of one process or thread.

/// What the `stat` of a process or thread says (proc_pid_stat(5)). Times are in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStat {
    /// The letter of its state: `R` runs or is ready, `S` and `D` wait, `Z` has ended.
    pub state: char,
    /// Process id of its parent.
    pub parent: u32,
    /// Ticks after boot.
    pub started: u64,
    /// What it used itself.
    pub own: Usage,
    /// Of children that have ended and were waited for, and of theirs.
    pub reaped: Usage,
    /// Signals that it blocks, of the first 31: a bit each.
    pub blocked_signals: u64,
    /// Ticks that it waited for disks; 0 unless the kernel accounts for delays.
    pub disk_wait: u64,
}

/// What the kernel hands on from an ended process to the one that waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Ticks on a processor in its own code.
    pub user: u64,
    /// Ticks on a processor in the kernel.
    pub system: u64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults that waited for input.
    pub major_faults: u64,
}

impl ProcessStat {
    /// `None` of text that is no such file's.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // The name stands in parentheses and may hold any character.
        let (_, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The manual counts from 1 and the name is the second.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: u32::try_from(field(4)?).ok()?,
            started: field(22)?,
            own: Usage {
                user: field(14)?,
                system: field(15)?,
                minor_faults: field(10)?,
                major_faults: field(12)?,
            },
            reaped: Usage {
                user: field(16)?,
                system: field(17)?,
                minor_faults: field(11)?,
                major_faults: field(13)?,
            },
            blocked_signals: field(32)?,
            disk_wait: field(42)?,
        })
    }
}

/// What a thread's `schedstat` says (in the kernel's documentation: Scheduler Statistics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Nanoseconds on a processor.
    pub ran_ns: u64,
    /// Nanoseconds ready, but waiting for a processor.
    pub queued_ns: u64,
}

impl Schedstat {
    /// `None` of text that is no such file's.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        Some(Self { ran_ns: numbers.next()??, queued_ns: numbers.next()?? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_name_looks_like_fields_is_read_right() {
        let text = "21833 (a) R 1 (b) S 21831 21831 18910 0 -1 4194304 122 30 4 5 60 7 80 9 20 0 1 0 8074002 3133440 \
            416 18446744073709551615 94217960275968 94217960295849 140730271804080 0 0 0 65536 4096 2 0 0 0 17 1 0 0 55 0 0 \
            94217960311856 94217960313472 94218744426496 140730271807972 140730271808040 140730271808040 \
            140730271809515 0\n";
        let own = Usage { user: 60, system: 7, minor_faults: 122, major_faults: 4 };
        let reaped = Usage { user: 80, system: 9, minor_faults: 30, major_faults: 5 };
        let stat = ProcessStat {
            state: 'S',
            parent: 21831,
            started: 8_074_002,
            own,
            reaped,
            blocked_signals: 1 << 16,
            disk_wait: 55,
        };
        assert_eq!(ProcessStat::parse(text), Some(stat));
        assert_eq!(ProcessStat::parse("21833 (cat) R 1 2"), None);
        assert_eq!(ProcessStat::parse(""), None);
    }

    #[test]
    fn schedstat_is_the_time_on_a_processor_and_the_time_before_it() {
        let stat = Schedstat { ran_ns: 1_500_000_000, queued_ns: 500_000_000 };
        assert_eq!(Schedstat::parse("1500000000 500000000 7\n"), Some(stat));
        assert_eq!(Schedstat::parse("1500000000"), None);
        assert_eq!(Schedstat::parse(""), None);
    }

    #[test]
    fn this_thread_s_files_are_read() {
        let read = |name| std::fs::read_to_string(format!("/proc/thread-self/{name}")).unwrap();
        assert_eq!(ProcessStat::parse(&read("stat")).unwrap().state, 'R');
        assert!(Schedstat::parse(&read("schedstat")).is_some());
    }
}
