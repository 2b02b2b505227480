//! Which pages there are, and which rows are on them.

use forebay_results::Row;

/// A page.
pub(super) struct Page {
    /// The file, without `.md`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) sections: &'static [Section],
}

/// Rows of one experiment.
pub(super) struct Section {
    pub(super) heading: &'static str,
    /// What the command has, words of it in order.
    with: &'static str,
    /// What it has not.
    without: &'static [&'static str],
    pub(super) shape: Shape,
}

/// How rows make a table.
pub(super) enum Shape {
    /// A line for each subject and condition; the first column decides which there are.
    Sides(&'static [Column]),
    /// A line for each row of subjects that begin like this.
    List(&'static [&'static str]),
}

/// A metric, on a side or wherever it is.
pub(super) struct Column {
    pub(super) heading: &'static str,
    /// One that ends with `/` is a family, of which the members are named.
    metric: &'static str,
    /// The last part of the case, which makes a column of its own.
    side: Option<&'static str>,
}

const fn on(heading: &'static str, side: &'static str, metric: &'static str) -> Column {
    Column { heading, metric, side: Some(side) }
}

const fn of(heading: &'static str, metric: &'static str) -> Column {
    Column { heading, metric, side: None }
}

/// What all command lines of the corpus come to.
const TOTALS_OF_CORPUS: Shape = Shape::Sides(&[
    on("geometric mean", "forebay", "geometric_mean"),
    on("helped", "forebay", "share_helped"),
    on("harmed", "forebay", "share_harmed"),
    on("harmed by chance", "control", "share_harmed"),
    on("mean of those that stall", "forebay", "stalled_geometric_mean"),
    on("helped of those", "forebay", "share_stalled_helped"),
]);

/// Each of them.
const LINES_OF_CORPUS: Shape = Shape::Sides(&[
    on("alone", "original", "elapsed"),
    on("with forebay", "forebay", "elapsed"),
    on("warm", "warm", "elapsed"),
    on("speedup", "forebay", "speedup"),
    on("worst run", "forebay", "worst_run"),
    on("stall", "forebay", "share_stalled"),
    on("output identical", "forebay", "output_identical"),
]);

impl Section {
    /// Whether `command` measured it.
    pub(super) fn is_of(&self, command: &str) -> bool {
        let has = |words: &str| format!("{command} ").contains(&format!("{words} "));
        has(self.with) && !self.without.iter().any(|words| has(words))
    }

    /// The heading of a run; its options tell it from `others` of the section.
    pub(super) fn heading(&self, command: &str, others: bool) -> String {
        let options = crate::experiment::options(command);
        let own: Vec<&str> = options.iter().map(String::as_str).filter(|one| one.starts_with("--")).collect();
        if others && !own.is_empty() {
            format!("{}: {}", self.heading, own.join(" "))
        } else {
            self.heading.into()
        }
    }
}

impl Column {
    /// The condition under which `row` belongs to the column: its case, without the side; `None` if it does not belong.
    pub(super) fn condition<'a>(&self, row: &'a Row) -> Option<&'a str> {
        let is_metric =
            if self.is_family() { row.metric.starts_with(self.metric) } else { row.metric == self.metric };
        if !is_metric {
            return None;
        }
        let Some(side) = self.side else { return Some(&row.case) };
        match row.case.rsplit_once('/') {
            Some((condition, last)) => (last == side).then_some(condition),
            None => (row.case == side).then_some(""),
        }
    }

    pub(super) fn is_family(&self) -> bool {
        self.metric.ends_with('/')
    }
}

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "run-files",
        title: "forebay run: programs that wait for files",
        about: "\
Each program runs without forebay, with forebay, and with hints written by hand, in turn, with all data out of
memory; warm, its data are in memory. Speedup is the time without forebay over the time with it, round by round.
Stall removed is the part of the waiting time that forebay saves. A speedup below 1x is a loss.",
        sections: &[Section {
            heading: "Programs",
                with: "forebay evaluate speculation",
            without: &["--table 5", "--table 6"],
            shape: Shape::Sides(&[
                on("original", "original", "elapsed"),
                on("forebay", "forebay", "elapsed"),
                on("by hand", "hinted", "elapsed"),
                on("warm", "warm", "elapsed"),
                on("speedup", "forebay", "speedup"),
                on("stall removed", "forebay", "stall_removed"),
                on("output identical", "forebay", "output_identical"),
            ]),
        }],
    },
    Page {
        name: "run-corpus",
        title: "forebay run: a corpus of real programs",
        about: "\
Each command line has its data, its program and its libraries on the disk, all of them cold. Each runs alone and with
forebay, in turn, and once more with everything in memory (warm). Speedup is the time alone over the time with forebay,
round by round. Stall is the share of the time alone that is gone when everything is in memory. The worst run is the
longest with forebay, as a multiple of the median time alone. Harmed by chance, where that was measured (--control), are
those that a comparison of the program alone with itself counts as harmed.",
        sections: &[
            Section {
                heading: "All together",
                with: "forebay evaluate corpus",
                without: &["--only", "--second-run"],
                shape: TOTALS_OF_CORPUS,
            },
            Section {
                heading: "Command lines",
                with: "forebay evaluate corpus",
                without: &["--only", "--second-run"],
                shape: LINES_OF_CORPUS,
            },
        ],
    },
    Page {
        name: "run-corpus-second",
        title: "forebay run: a corpus of real programs, second runs",
        about: "\
Each command line has its data, its program and its libraries on the disk, all of them cold. Forebay has recorded one run
before. Each runs alone and with forebay, in turn, and once more with everything in memory (warm). Speedup is the time
alone over the time with forebay, round by round. Stall is the share of the time alone that is gone when everything is
in memory. The worst run is the longest with forebay, as a multiple of the median time alone.",
        sections: &[
            Section {
                heading: "All together",
                with: "forebay evaluate corpus --second-run",
                without: &["--only"],
                shape: TOTALS_OF_CORPUS,
            },
            Section {
                heading: "Command lines",
                with: "forebay evaluate corpus --second-run",
                without: &["--only"],
                shape: LINES_OF_CORPUS,
            },
        ],
    },
    Page {
        name: "run-swap",
        title: "forebay run: programs that swap",
        about: "\
Each program runs in a control group with less memory than it needs: with forebay's speculation off, on, and on
under memory control. The relative time is the time over the time with speculation off, round by round. A relative
time above 1 is a loss.",
        sections: &[Section {
            heading: "Programs",
                with: "--table 5",
            without: &[],
            shape: Shape::Sides(&[
                on("off", "off", "elapsed"),
                on("on", "on", "elapsed"),
                on("control", "control", "elapsed"),
                on("relative time, on", "on", "relative_time"),
                on("relative time, control", "control", "relative_time"),
            ]),
        }],
    },
    Page {
        name: "overhead",
        title: "forebay run: programs that forebay cannot help",
        about: "\
All data are in memory, or the program only computes or starts processes. Overhead is the time that forebay adds, as
a share of the time without it. With profiles, forebay also replays the access profile of the run before and records the
run, as it does by default. The control compares two runs without forebay, which tells the scatter of the machine.",
        sections: &[Section {
            heading: "Programs",
                with: "forebay evaluate overhead",
            without: &[],
            shape: Shape::Sides(&[
                on("original", "original", "elapsed"),
                on("forebay", "forebay", "elapsed"),
                on("with profiles", "profiles", "elapsed"),
                on("overhead", "forebay", "overhead"),
                on("overhead with profiles", "profiles", "overhead"),
                on("control", "control", "overhead"),
                on("added time", "forebay", "extra"),
                on("added with profiles", "profiles", "extra"),
            ]),
        }],
    },
    Page {
        name: "share",
        title: "forebay share: processes that share memory",
        about: "\
Hosts are processes on one machine, each with a memory of its own (`--separate`) as on several machines. The costs are
those of a fault, a barrier, a lock, and of a minipage of 128 or 4096 bytes that another host has. Five programs are compared with their sequential form, and two with the same program
written for MPI. A time over that of MPI above 1 is a loss.",
        sections: &[
            Section {
                heading: "Costs",
                with: "forebay evaluate millipage --table 1",
                without: &[],
                shape: Shape::Sides(&[
                    of("barrier", "barrier"),
                    of("lock", "lock"),
                    of("remote lock", "remote_lock"),
                    of("local fault", "fault"),
                    of("read, 128 B", "read_128"),
                    of("read, 4096 B", "read_4096"),
                    of("write, 4096 B", "write_4096"),
                ]),
            },
            Section {
                heading: "Five programs",
                with: "forebay evaluate millipage --figure 6",
                without: &[],
                shape: Shape::Sides(&[of("elapsed", "elapsed"), of("speedup", "speedup"), of("write faults", "write_faults")]),
            },
            Section {
                heading: "Beside MPI",
                with: "forebay evaluate millipage --peers",
                without: &[],
                shape: Shape::Sides(&[of("elapsed", "elapsed"), of("time over that of MPI", "of_mpi")]),
            },
            Section {
                heading: "Two writers on one page",
                with: "forebay evaluate millipage --false-sharing",
                without: &[],
                shape: Shape::Sides(&[
                    of("a write", "write"),
                    of("rate / own pages", "of_own_pages"),
                    of("rate / whole page", "of_whole_page"),
                ]),
            },
            Section {
                heading: "WATER, by molecules shared at a time",
                with: "forebay evaluate millipage --chunking",
                without: &[],
                shape: Shape::Sides(&[
                    of("elapsed", "elapsed"),
                    of("competing requests", "competing_requests"),
                    of("sent", "bytes"),
                ]),
            },
            Section {
                heading: "Reading through many views",
                with: "forebay evaluate multiview",
                without: &[],
                shape: Shape::Sides(&[
                    on("2 views", "2 views", "overhead"),
                    on("8 views", "8 views", "overhead"),
                    on("32 views", "32 views", "overhead"),
                    on("128 views", "128 views", "overhead"),
                    on("512 views", "512 views", "overhead"),
                ]),
            },
        ],
    },
    Page {
        name: "serve",
        title: "forebay serve: streams to many clients",
        about: "\
Server and clients have a processor each. A stream is late if one packet in a hundred is late or lost. Lateness is that
of packets against the schedule of their stream.",
        sections: &[Section {
            heading: "Streams",
                with: "forebay evaluate streaming",
            without: &[],
            shape: Shape::Sides(&[
                of("playing", "playing"),
                of("clients held", "clients_held"),
                of("late streams", "late_streams"),
                of("lateness p99", "lateness_p99"),
                of("throughput", "throughput"),
                of("processor", "cpu"),
                of("processor time a Gbit", "cpu_per_gigabit"),
            ]),
        }],
    },
    Page {
        name: "servers",
        title: "What limits servers",
        about: "\
Servers run under load with their processor time, faults and waits counted. The last column names what limits the server
in each condition.",
        sections: &[
            Section {
                heading: "Web servers",
                with: "forebay evaluate server web",
                without: &[],
                shape: Shape::Sides(&[
                    of("requests a second", "transactions"),
                    of("throughput", "throughput"),
                    of("latency p50", "latency_p50"),
                    of("latency p99", "latency_p99"),
                    of("processor", "cpu"),
                    of("limited by", "limit/"),
                ]),
            },
            Section {
                heading: "Streaming servers",
                with: "forebay evaluate server streaming",
                without: &[],
                shape: Shape::Sides(&[
                    of("throughput", "throughput"),
                    of("lateness p99", "lateness_p99"),
                    of("lost a second", "lost"),
                    of("processor", "cpu"),
                    of("limited by", "limit/"),
                ]),
            },
        ],
    },
    Page {
        name: "machine",
        title: "The machine: what its parts cost",
        about: "\
Caches and address translations, switches, page faults, system calls, packets and disk, each measured alone. The results
have more sizes and strides than this page.",
        sections: &[Section {
            heading: "Parts",
                with: "forebay evaluate host",
            without: &[],
            shape: Shape::List(&[
                "cache level",
                "translations level",
                "memory stream",
                "pipe",
                "context switch",
                "wake-up",
                "page fault",
                "system call",
                "UDP",
                "TCP",
                "disk",
            ]),
        }],
    },
];
