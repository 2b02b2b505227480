//! The options of `forebay evaluate`, but for those experiments that have a file of their own.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use forebay_evaluation::{
    FileSystem, Profile, Program, SwappingProgram, machine::host::Probe, share::millipage::Kernel,
    share::multiview,
};
use forebay_quantity::size;

use crate::experiment::Output;
use crate::{
    cache::Cache, corpus::Corpus, meter::Meter, millipage::Millipage, need::Need, server::Server,
    streaming::Streaming, thesis::Thesis, why::Why,
};

/// The experiments of `forebay evaluate`.
#[derive(Debug, Subcommand)]
pub enum Evaluate {
    /// Compare programs that wait for files: original, with forebay, with hints by hand, warm
    Speculation(Speculation),
    /// Measure many real programs on a cold disk, alone and with forebay
    Corpus(Corpus),
    /// Measure the cost of forebay for programs that it cannot help
    Overhead(Overhead),
    /// Measure the cost of reading memory through many views
    Multiview(Multiview),
    /// Measure memory that processes share: costs, programs, neighbours on a page, and beside MPI
    Millipage(Millipage),
    /// Project programs that share memory to more hosts and other networks
    Projection(Projection),
    /// Count faults, switches, pages, disk and cache use of a program, a control group or the machine
    Meter(Meter),
    /// Compute the best throughput of a server and its limit, by the latency model
    Model(Model),
    /// Compute cache misses, stall cycles and their cost by the published formulas
    Cache(Cache),
    /// Measure this machine: memory, page faults, system calls, packets and disk
    Host(Host),
    /// Measure a real server under load, and name what limits it
    Server(Server),
    /// Take doses of processors, memory, caches, disk and a dependency from a server, and name what binds
    Why(Why),
    /// Find how much memory a server or a program needs: its limit goes down and up again while it works
    Need(Need),
    /// Compare streaming servers under thousands of clients: throughput, lateness and cost
    Streaming(Streaming),
    /// Regenerate the rows of a published evaluation of servers, beside the published ones
    Thesis(Thesis),
    /// Run the clients of streaming, in a process of their own
    #[command(hide = true)]
    Players,
}

/// Options of `forebay evaluate speculation`.
#[derive(Debug, Args)]
#[command(after_help = SPECULATION_HELP)]
pub struct Speculation {
    /// Repeat a published table instead: 5 (memory control, with little memory) or 6 (memory, page faults and
    /// crashes)
    #[arg(long, value_name = "NUMBER")]
    pub table: Option<Table>,
    /// Disk of the data, and with --table 5 of the swap space: local, nvme, ssd-1ms-q128, raid-12ms-q4,
    /// hdd-1ms-q1 or remote. All but local need root [default: local; ssd-1ms-q128 for --table 5]
    #[arg(long)]
    pub profile: Option<Profile>,
    /// File system on the disk: ext4, overlay (over ext4), xfs, btrfs, squashfs or erofs; not for local and remote
    /// [default: ext4]
    #[arg(long, value_name = "NAME")]
    pub file_system: Option<FileSystem>,
    /// Program to compare: grep, ld, random-reads, tar, find-ls, cp-r, mapped, chased, mapscan or resident; with
    /// --table 5 sphinx, matvec, fft, multigrid or gather; repeat it for several [default: all]
    #[arg(long = "program", value_name = "PROGRAM")]
    pub programs: Vec<Chosen>,
    /// Rounds; each runs every side once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

/// A published table that can be regenerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// Stall time, forks and trials of programs that swap, by size of memory.
    #[value(name = "5")]
    MemoryControl,
    /// Memory, minor and major faults, and crashes of speculators.
    #[value(name = "6")]
    SideEffects,
}

/// A program of one of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// It waits for files.
    Reading(Program),
    /// It swaps.
    Swapping(SwappingProgram),
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let reading = name.parse().map(Self::Reading).map_err(|error| format!("{error}"));
        let swapping = || name.parse().map(Self::Swapping);
        reading.or_else(|error| {
            swapping().map_err(|_| format!("{error}; with --table 5: {}", SwappingProgram::NAMES.join(", ")))
        })
    }
}

const SPECULATION_HELP: &str = "\
--table 5 runs programs that swap, with five sizes of memory from far too
little to ample: without speculation, with it, and with it under memory control.
It needs root and a control group of memory. sphinx needs the packages
pocketsphinx, pocketsphinx-en-us and espeak-ng. --table 6 shows memory, page
faults and crashes of speculators beside the published ones.

grep, ld and random-reads stand for the published programs (Agrep, Gnuld and
XDataSlice, OSDI 1999).

tar, find-ls and cp-r go through the files that grep searches. What tar and cp-r
write is not on the disk. With --profile remote, look-ups, opens, listings and
reads take 5 ms each, the files are 2,000, and nothing is ever warm.

The speedup is the median of the rounds; the worst round stands behind it, and
then the best.

mapped reads a mapped file at computed offsets. chased reads at offsets that
depend on the data read, which nothing can predict.

mapscan searches mapped files. resident works on 1 GiB of memory and reads a
file now and then.

Examples:
  forebay evaluate speculation --profile ssd-1ms-q128 --program grep
  forebay evaluate speculation --profile remote --program grep --program tar \\
      --program find-ls --program cp-r --program random-reads
  forebay evaluate speculation --profile cloud --file-system xfs --program tar
  forebay evaluate speculation --runs 5 --json local.json
  forebay evaluate speculation --table 5 --runs 3 --json t5.json --svg figures
  forebay evaluate speculation --table 5 --program matvec --program gather
  forebay evaluate speculation --table 6 --profile ssd-1ms-q128";

/// Options of `forebay evaluate overhead`.
#[derive(Debug, Args)]
#[command(after_help = OVERHEAD_HELP)]
pub struct Overhead {
    /// Pairs of runs of each program
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub pairs: u16,
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

const OVERHEAD_HELP: &str = "\
Programs run with all data in memory: grep, ld, sha256sum, gzip, sort, python3,
a shell that starts processes, and /bin/true, which has 200 pairs. Each runs
alone, with forebay run --no-profile, with forebay run and its access profiles,
and alone once more, the control. A pair takes the best of three runs of each.

Overhead is the time that forebay adds, as a share of the time alone: the median
of the pairs, and their middle half. That of the control is chance.

Example:
  forebay evaluate overhead --pairs 20 --json overhead.json";

/// Options of `forebay evaluate multiview`.
#[derive(Debug, Args)]
#[command(after_help = MULTIVIEW_HELP)]
pub struct Multiview {
    /// Size of an object, such as 4M; repeat it for several [default: 512K, 1M, 2M, 4M, 8M and 16M]
    #[arg(long = "size", value_name = "SIZE", value_parser = object_size)]
    pub sizes_bytes: Vec<usize>,
    /// The most views, 1 to 4096; the powers of two up to it are measured [default: 512]
    #[arg(long = "views", value_name = "NUMBER", value_parser = views)]
    pub views_max: Option<usize>,
    /// Objects of 64M and 256M too, and up to 2048 views
    #[arg(long)]
    pub full: bool,
    /// Rounds; each reads every object through all views and through one
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

fn object_size(text: &str) -> Result<usize, String> {
    let bytes = size(text).map_err(|error| error.to_string())?;
    let pages = bytes > 0 && bytes % 4096 == 0;
    usize::try_from(bytes).ok().filter(|_| pages).ok_or_else(|| "give a multiple of 4K, such as 4M".into())
}

fn views(text: &str) -> Result<usize, String> {
    let views = text.parse().ok().filter(|views| (1..=multiview::VIEWS_LIMIT).contains(views));
    views.ok_or_else(|| format!("give 1 to {} views: a page has no more parts", multiview::VIEWS_LIMIT))
}

const MULTIVIEW_HELP: &str = "\
Each page is read in as many parts as there are views, by byte and by 8-byte
word. One loop reads each part through a view of its own, the other all parts
through one view. The overhead is the cost of the views. Where it stays above
5 %, the output names the cache that the page-table entries outgrow there.

Examples:
  forebay evaluate multiview
  forebay evaluate multiview --size 1M --size 8M --views 64 --runs 3
  forebay evaluate multiview --full --json multiview.json --svg figures";

/// Options of `forebay evaluate projection`.
#[derive(Debug, Args)]
#[command(after_help = PROJECTION_HELP)]
pub struct Projection {
    /// The program: sor, is, water, lu or tsp; repeat it for several [default: all]
    #[arg(long = "program", value_name = "NAME")]
    pub kernels: Vec<Kernel>,
    /// Hosts, 1 to 1024; repeat it for several [default: 8, 32, 128, 512 and 1024]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub hosts: Vec<u16>,
    /// Latency of the network one way, in microseconds; repeat it for several [default: 2, 10 and 50]
    #[arg(long = "latency", value_name = "US", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub latencies_us: Vec<u32>,
    /// Throughput of each host, in Gbit/s
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub gigabits: u32,
    /// Measured runs with two hosts, which check the projection
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

const PROJECTION_HELP: &str = "\
Each program is recorded with each number of hosts, all within this process. The
recording runs again in simulated time, with the costs of faults and messages on
this machine. Only the check is a measurement: two hosts within one process,
projected and measured.

Examples:
  forebay evaluate projection
  forebay evaluate projection --program sor --hosts 8 --hosts 64 --latency 5";

/// Options of `forebay evaluate model`.
#[derive(Debug, Args)]
#[command(after_help = MODEL_HELP)]
pub struct Model {
    /// Size of a data unit
    #[arg(long, value_name = "BYTES", default_value_t = 1460, value_parser = clap::value_parser!(u32).range(1..))]
    pub size: u32,
    /// Assume at most so many copies of each data unit
    #[arg(long, value_name = "NUMBER")]
    pub copies: Option<u8>,
    /// Assume no copies, and a processor that does not read the data
    #[arg(long, conflicts_with = "copies")]
    pub zero_copy: bool,
    /// Assume this throughput of memory, in MB/s
    #[arg(long, value_name = "MB/S", value_parser = clap::value_parser!(u32).range(1..))]
    pub bus: Option<u32>,
    /// Assume this throughput of the bus to disks and network, in MB/s; with --host it is the real one
    #[arg(long, value_name = "MB/S", value_parser = clap::value_parser!(u32).range(1..))]
    pub io_bus: Option<u32>,
    /// Count the whole of each cache line that the processor reads, not one byte of it
    #[arg(long)]
    pub whole_lines: bool,
    /// Compute for the host of these results of forebay evaluate host, with its costs of packets and calls
    #[arg(long, value_name = "RESULTS")]
    pub host: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

const MODEL_HELP: &str = "\
The model takes the time of a transaction as that of the transfers of its data
unit: to the processor, from memory to memory, and by disk and network. The
published table has four processors, with a bus to devices of 1066 MB/s, and
three applications.

Examples:
  forebay evaluate model
  forebay evaluate model --copies 1
  forebay evaluate model --zero-copy --bus 12800 --json model.json
  forebay evaluate model --host host.json --io-bus 16000";

/// Options of `forebay evaluate host`.
#[derive(Debug, Args)]
#[command(after_help = HOST_HELP)]
pub struct Host {
    /// Fewer sizes and less time for each: ten to thirty seconds instead of one to three minutes
    #[arg(long)]
    pub quick: bool,
    /// Measure these only: memory, latency, switches, faults, calls, packets, documents, disk; separated by commas
    #[arg(long, value_name = "PROBES", value_delimiter = ',')]
    pub only: Vec<Probe>,
    /// Compare with sysbench, perf, stress-ng and fio, in turn; up to a minute more
    #[arg(long)]
    pub check: bool,
    /// Folder on the disk that is measured; 300 MB are written there, and removed [default: that for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub output: Output,
}

const HOST_HELP: &str = "\
Each quantity is measured until the middle half of its values is within 5 % of
their median. If its time is over before that, the table says so. Ctrl-C keeps
the results so far.

Examples:
  forebay evaluate host --json host.json --svg figures
  forebay evaluate host --quick --only memory,latency
  forebay evaluate host --only disk --dir /srv --check";

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use super::*;
    use clap::{CommandFactory, Parser};

    #[test]
    fn tables_and_programs_are_chosen_by_name() {
        let line = ["forebay", "evaluate", "speculation", "--table", "5", "--program", "fft"];
        let Command::Evaluate(Evaluate::Speculation(args)) = Cli::parse_from(line).command else { panic!() };
        assert_eq!(args.table, Some(Table::MemoryControl));
        assert_eq!(args.programs, [Chosen::Swapping(SwappingProgram::Fft)]);
        assert_eq!((args.profile, args.output), (None, Output::default()));
        for nonsense in [["--table", "7"], ["--program", "nm"]] {
            let line = ["forebay", "evaluate", "speculation"].into_iter().chain(nonsense);
            assert!(Cli::try_parse_from(line).is_err(), "{nonsense:?}");
        }
        assert!("nm".parse::<Chosen>().unwrap_err().contains("resident; with --table 5: sphinx"));
    }

    /// clap wraps longer lines, and a wrapped example is none.
    #[test]
    fn the_text_below_the_options_has_at_most_80_columns() {
        let cli = Cli::command();
        let mut commands: Vec<_> = cli.find_subcommand("evaluate").unwrap().get_subcommands().collect();
        commands.extend(cli.find_subcommand("report"));
        assert!(commands.len() > 10);
        for command in commands {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let long = text.lines().find(|line| line.chars().count() > 80);
            assert_eq!(long, None, "{}", command.get_name());
        }
    }

    #[test]
    fn views_and_sizes_that_cannot_be_are_refused() {
        assert_eq!((views("512"), object_size("512K")), (Ok(512), Ok(512 << 10)));
        for nonsense in ["0", "4097", "x"] {
            assert!(views(nonsense).unwrap_err().contains("1 to 4096"), "{nonsense}");
        }
        for nonsense in ["0", "100", "5000", "-4K"] {
            assert!(object_size(nonsense).is_err(), "{nonsense}");
        }
    }
}
