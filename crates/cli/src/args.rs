//! The command line: every option, once. Help, completions and man pages are made from this.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use forebay_evaluation::{Profile, Program, SwappingProgram, multiview};

use crate::millipage::Millipage;

/// Keeps the data a program needs waiting in memory before the program asks for it
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  forebay run -- grep -r needle src
  forebay run --stats -- ld @objects -o program
  forebay share -n 4 -- ./program
  forebay demo
  forebay doctor";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an unmodified program faster when it would wait for files, or for memory that is swapped out
    Run(Run),
    /// Run a program several times, as hosts that share memory
    Share(Share),
    /// Show real programs without and with forebay, on data of its own
    Demo(Demo),
    /// Measure forebay on this machine
    #[command(subcommand)]
    Evaluate(Evaluate),
    /// Make one page of text, tables and figures from results
    Report(Report),
    /// Tell what this machine supports, what is missing and how to turn it on
    Doctor,
    /// Print the completions of a shell
    Completions(Completions),
    /// Print the man page, or write those of all commands
    Man(Man),
}

/// Options of `forebay run`.
#[derive(Debug, PartialEq, Eq, Args)]
#[command(after_help = RUN_HELP)]
pub struct Run {
    /// Print statistics to standard error when the program has ended
    #[arg(long)]
    pub stats: bool,
    /// Write statistics as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Turn speculation off while it costs more than it gains, in memory above all: on or off
    #[arg(long, value_name = "WHEN", default_value = "on", value_parser = on_or_off, action = clap::ArgAction::Set)]
    pub memory_control: bool,
    /// Memory that a speculative copy may add, such as 64M; at most what fits the machine if not given
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<u64>,
    /// Load the agent but never speculate, to see what the agent costs
    #[arg(long)]
    pub no_speculation: bool,
    /// Interpose libc's functions instead of patching its system calls; misses what libc reads by itself
    #[arg(long)]
    pub no_patching: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

impl Run {
    /// What the full parser would make of a command line (without the program's name) that starts with `run` and has
    /// nothing but complete options of it; `None` for any other. The full parser takes a tenth of the time that
    /// `forebay run` may add to a program.
    pub fn quickly(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.peekable();
        arguments.next_if(|command| command == "run")?;
        let mut run = Self {
            stats: false,
            json: None,
            memory_control: true,
            memory_limit: None,
            no_speculation: false,
            no_patching: false,
            command: vec![],
        };
        loop {
            let argument = arguments.next()?;
            match argument.to_str()? {
                "--" => break,
                "--stats" if !run.stats => run.stats = true,
                "--no-speculation" if !run.no_speculation => run.no_speculation = true,
                "--json" if run.json.is_none() => {
                    let named = |path: &OsString| !path.is_empty() && !path.as_bytes().starts_with(b"-");
                    let path = arguments.next().filter(|path| path == "-" || named(path))?;
                    run.json = Some(path.into());
                }
                option if option.starts_with('-') => return None,
                _ => {
                    run.command.push(argument);
                    break;
                }
            }
        }
        run.command.extend(arguments);
        (!run.command.is_empty()).then_some(run)
    }
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("it is on or off".into()),
    }
}

/// A number of bytes, with K, M or G for its binary multiples.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => 64,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1u64.checked_shl(shift)?));
    bytes.ok_or_else(|| "give bytes, or a number with K, M or G, such as 64M".into())
}

const RUN_HELP: &str = "\
The program's output, files and exit status are those it has without forebay. A speculative copy of it runs ahead
while it waits, and starts the reads that it will need.

Exit status:
  that of the program; 128 + n when signal n ended it
  127 when the program is not found, 126 when it cannot be executed
  125 when forebay itself fails, before the program has started

Examples:
  forebay run -- grep -r needle /usr/src
  forebay run --stats -- git status
  forebay run --json run.json -- make -j4";

/// Options of `forebay share`.
#[derive(Debug, PartialEq, Eq, Args)]
#[command(after_help = SHARE_HELP)]
pub struct Share {
    /// Hosts: how often the program is started
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub hosts: u16,
    /// Minipages that can share a page, at most 256; what the program asks for if not given
    #[arg(long, value_name = "V", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub views: Option<u16>,
    /// Shared memory, such as 64M; what the program asks for if not given
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// What messages go over: shm (shared memory), tcp, or auto (what UCX thinks best)
    #[arg(long, value_name = "WHAT", default_value = "auto", value_parser = ["shm", "tcp", "auto"])]
    pub transport: String,
    /// Print what each host did to standard error when all have ended
    #[arg(long)]
    pub stats: bool,
    /// Write that as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "APP")]
    pub command: Vec<OsString>,
}

const SHARE_HELP: &str = "\
The program calls forebay to join the others, and to share memory with them; what each prints comes as it is. When one
fails, the others are ended.

Exit status:
  0 when all hosts end with 0, else that of the first that does not; 128 + n when signal n ended it
  70 where a host ended because another one was lost
  127 when the program is not found, 126 when it cannot be executed
  125 when forebay itself fails, before the program has started

Examples:
  forebay share -n 4 -- ./program input
  forebay share -n 2 --size 1G --views 16 --transport shm --stats -- ./program";

/// Options of `forebay demo`.
#[derive(Debug, Args)]
#[command(after_help = DEMO_HELP)]
pub struct Demo {
    /// Write the results as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

const DEMO_HELP: &str = "\
Takes under 90 seconds, needs no root and leaves nothing behind. As root it also shows a slow disk.

Example:
  forebay demo";

/// The experiments of `forebay evaluate`.
#[derive(Debug, Subcommand)]
pub enum Evaluate {
    /// Compare programs that wait for files: original, with forebay, with hints by hand, warm
    Speculation(Speculation),
    /// Measure what forebay costs programs that it cannot help
    Overhead(Overhead),
    /// Measure what it costs to read memory through many views
    Multiview(Multiview),
    /// Measure memory that processes share: costs, programs, neighbours on a page, and beside MPI
    Millipage(Millipage),
    /// Project what a program that shares memory would do with more hosts, on other networks
    Projection(Projection),
    /// Tell what a server can reach at best, and what limits it, by the latency model
    Model(Model),
}

/// Options of `forebay evaluate speculation`.
#[derive(Debug, Args)]
#[command(after_help = SPECULATION_HELP)]
pub struct Speculation {
    /// Regenerate a published table instead: 5 (memory control, with little memory) or 6 (memory, page
    /// faults and signals)
    #[arg(long, value_name = "NUMBER")]
    pub table: Option<Table>,
    /// Disk that the data lies on, or of --table 5 that is swapped to: local, cloud, disk4 or saturated; all
    /// but local need root [default: local; cloud for --table 5]
    #[arg(long)]
    pub profile: Option<Profile>,
    /// Program to compare: agrep, gnuld or xds, of --table 5 sphinx, matvec, fft, multigrid or gather;
    /// several times for several; all without it
    #[arg(long = "program", value_name = "PROGRAM")]
    pub programs: Vec<Chosen>,
    /// Rounds; each runs every side once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Write the results as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a chart of --table 5: each program where it swaps most, and sphinx with each size of memory
    #[arg(long, value_name = "FILE", requires = "table")]
    pub svg: Option<PathBuf>,
}

/// A published table that can be regenerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// Stall time, resyncs and threshold crossings of programs that swap, by size of memory.
    #[value(name = "5")]
    MemoryControl,
    /// Footprints, page reclaims, page faults and signals.
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
            swapping()
                .map_err(|_| format!("{error}, or for --table 5 sphinx, matvec, fft, multigrid or gather"))
        })
    }
}

const SPECULATION_HELP: &str = "\
--table 5 runs programs that swap with five sizes of memory, from far too little to ample: without \
speculation, with it, and with it under memory control. It needs root, a control group of memory, and for sphinx the \
packages pocketsphinx, pocketsphinx-en-us and espeak-ng. --table 6 shows what speculation does besides to memory, page \
faults and signals.

Examples:
  forebay evaluate speculation --profile cloud --program agrep --runs 5 --json cloud.json
  forebay evaluate speculation --table 5 --runs 3 --json table5.json --svg table5.svg
  forebay evaluate speculation --table 5 --program matvec --program gather
  forebay evaluate speculation --table 6 --profile cloud";

/// Options of `forebay evaluate overhead`.
#[derive(Debug, Args)]
#[command(after_help = OVERHEAD_HELP)]
pub struct Overhead {
    /// Pairs of runs of each program
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub pairs: u16,
    /// Write the results as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

const OVERHEAD_HELP: &str = "\
Example:
  forebay evaluate overhead --pairs 20 --json overhead.json";

/// Options of `forebay evaluate multiview`.
#[derive(Debug, Args)]
#[command(after_help = MULTIVIEW_HELP)]
pub struct Multiview {
    /// Size of an object, such as 4M; several times for several [default: 512K, 1M, 2M, 4M, 8M and 16M]
    #[arg(long = "size", value_name = "SIZE", value_parser = object_size)]
    pub sizes_bytes: Vec<usize>,
    /// The most views, 1 to 4096; measured are the powers of two up to there [default: 512]
    #[arg(long = "views", value_name = "NUMBER", value_parser = views)]
    pub views_max: Option<usize>,
    /// Objects of 64M and 256M too, and up to 2048 views
    #[arg(long)]
    pub full: bool,
    /// Rounds; each reads every object through all views and through one
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Write the results as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a chart: overhead against views, a line for each size
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn object_size(text: &str) -> Result<usize, String> {
    let bytes = size(text)?;
    let pages = bytes > 0 && bytes % 4096 == 0;
    usize::try_from(bytes).ok().filter(|_| pages).ok_or_else(|| "give a multiple of 4K, such as 4M".into())
}

fn views(text: &str) -> Result<usize, String> {
    let views = text.parse().ok().filter(|views| (1..=multiview::VIEWS_LIMIT).contains(views));
    views.ok_or_else(|| format!("give 1 to {} views: a page has no more parts", multiview::VIEWS_LIMIT))
}

const MULTIVIEW_HELP: &str = "\
Each page is read in as many parts as there are views, by byte and by 8-byte word: once each part through a view of its \
own, once all parts through one view, by the same instructions. The overhead is what the views cost. Where it leaves 5 % \
for good, the output tells what of this machine the page-table entries outgrow there.

Examples:
  forebay evaluate multiview
  forebay evaluate multiview --size 1M --size 8M --views 64 --runs 3
  forebay evaluate multiview --full --json multiview.json --svg multiview.svg";

/// Options of `forebay evaluate projection`.
#[derive(Debug, Args)]
#[command(after_help = PROJECTION_HELP)]
pub struct Projection {
    /// Hosts, 1 to 1024; several times for several [default: 8, 32, 128, 512 and 1024]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub hosts: Vec<u16>,
    /// Latency of the network one way, in microseconds; several times for several [default: 2, 10 and 50]
    #[arg(long = "latency", value_name = "US", value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub latencies_us: Vec<u32>,
    /// What each host can send, in Gbit/s
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub gigabits: u32,
    /// Runs that are measured with two hosts, to check the projection
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Write the results as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

const PROJECTION_HELP: &str = "\
A relaxation of a grid is recorded with each number of hosts, all within this process, and run again in simulated time by \
what faults and messages take on this machine. Nothing of that is a measurement but the check: two hosts within one process, \
projected and measured.

Examples:
  forebay evaluate projection
  forebay evaluate projection --hosts 8 --hosts 64 --latency 5 --json projection.json";

/// Options of `forebay evaluate model`.
#[derive(Debug, Args)]
#[command(after_help = MODEL_HELP)]
pub struct Model {
    /// Size of a data unit
    #[arg(long, value_name = "BYTES", default_value_t = 1460, value_parser = clap::value_parser!(u32).range(1..))]
    pub size: u32,
    /// What if each data unit were copied so many times at most
    #[arg(long, value_name = "NUMBER")]
    pub copies: Option<u8>,
    /// What if nothing were copied, and the processor did not read the data
    #[arg(long, conflicts_with = "copies")]
    pub zero_copy: bool,
    /// What if memory had this throughput, in MB/s
    #[arg(long, value_name = "MB/S", value_parser = clap::value_parser!(u32).range(1..))]
    pub bus: Option<u32>,
    /// What if the bus to disks and network had this throughput, in MB/s
    #[arg(long, value_name = "MB/S", value_parser = clap::value_parser!(u32).range(1..))]
    pub io_bus: Option<u32>,
    /// Count the whole of each cache line that the processor reads, not one byte of it
    #[arg(long)]
    pub whole_lines: bool,
    /// Write the results as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

const MODEL_HELP: &str = "\
The time of a transaction is taken to be that of the transfers of its data unit: to the processor, from memory to memory, \
and by disk and network. The published table has four processors, with a bus to devices of 1066 MB/s, and three \
applications.

Examples:
  forebay evaluate model
  forebay evaluate model --copies 1
  forebay evaluate model --zero-copy --bus 12800 --json model.json";

/// Options of `forebay report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP, group(ArgGroup::new("outputs").required(true).multiple(true)))]
pub struct Report {
    /// Results of any commands, as they write them with --json
    #[arg(required = true, value_name = "RESULTS")]
    pub results: Vec<PathBuf>,
    /// Write the page, which needs no other file and no network; - is standard output
    #[arg(short, long, value_name = "FILE", group = "outputs")]
    pub output: Option<PathBuf>,
    /// Write every row, or every change, as CSV; - is standard output
    #[arg(long, value_name = "FILE", group = "outputs")]
    pub csv: Option<PathBuf>,
    /// Write all results in one file, which this command reads too; - is standard output
    #[arg(long, value_name = "FILE", group = "outputs", conflicts_with = "compare")]
    pub json: Option<PathBuf>,
    /// Write each figure as a file of this folder
    #[arg(long, value_name = "DIR", group = "outputs")]
    pub svg: Option<PathBuf>,
    /// Tell what changed from RESULTS, which are taken for before, to these, which are taken for after
    #[arg(long, value_name = "AFTER")]
    pub compare: Option<PathBuf>,
    /// Leave out files that are refused, and say so, instead of making nothing
    #[arg(long)]
    pub keep_going: bool,
}

const REPORT_HELP: &str = "\
A file is refused that is not JSON, not results, of another schema, without rows, or that has a row which is there already.

A comparison gives the ratio of each two medians, and an interval for it from the values of all runs, or from their \
extremes, with its confidence. It takes three runs on each side to tell anything.

Examples:
  forebay report results/*.json -o page.html
  forebay report cloud.json local.json -o page.html --csv rows.csv --svg figures
  forebay report before.json --compare after.json -o changes.html";

/// Options of `forebay completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

const COMPLETIONS_HELP: &str = "\
Example:
  forebay completions bash > ~/.local/share/bash-completion/completions/forebay";

/// Options of `forebay man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_HELP)]
pub struct Man {
    /// Folder for the man pages of all commands; without it the main page goes to standard output
    #[arg(long, alias = "out", value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

const MAN_HELP: &str = "\
Examples:
  forebay man | man -l -
  forebay man --dir ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_behind_the_program_are_the_programs() {
        for line in
            [&["forebay", "run", "--", "ls", "--stats", "-x"][..], &["forebay", "run", "ls", "--stats", "-x"]]
        {
            let Command::Run(run) = Cli::parse_from(line).command else { panic!("not run") };
            assert!(!run.stats);
            assert_eq!(run.command, ["ls", "--stats", "-x"]);
        }
    }

    #[test]
    fn the_quick_parser_agrees_with_the_full_one() {
        let words = [
            "--",
            "--stats",
            "--json",
            "--json=a",
            "-",
            "--no-speculation",
            "--help",
            "ls",
            "-x",
            "",
            "run",
            "\u{e9}",
        ];
        let mut quick = 0;
        // All command lines of up to four of these words.
        for length in 0..=4 {
            for number in 0..words.len().pow(length) {
                let chosen = (0..length).map(|place| words[number / words.len().pow(place) % words.len()]);
                let line: Vec<OsString> = ["run"].into_iter().chain(chosen).map(OsString::from).collect();
                let Some(run) = Run::quickly(line.iter().cloned()) else { continue };
                quick += 1;
                let full = Cli::try_parse_from(["forebay".into()].into_iter().chain(line.iter().cloned()));
                let Ok(Cli { command: Command::Run(full) }) = full else { panic!("{line:?}: {run:?}") };
                assert_eq!(run, full, "{line:?}");
            }
        }
        assert!(quick > 1000, "{quick}");
        assert_eq!(Run::quickly(["demo".into(), "--".into(), "ls".into()].into_iter()), None);
    }

    #[test]
    fn an_unknown_option_is_no_program() {
        let error = Cli::try_parse_from(["forebay", "run", "--nosuch", "--", "ls"]).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument);
    }

    #[test]
    fn tables_programs_and_a_chart_are_chosen_by_name() {
        let line =
            ["forebay", "evaluate", "speculation", "--table", "5", "--program", "fft", "--svg", "a.svg"];
        let Command::Evaluate(Evaluate::Speculation(args)) = Cli::parse_from(line).command else { panic!() };
        assert_eq!(args.table, Some(Table::MemoryControl));
        assert_eq!(args.programs, [Chosen::Swapping(SwappingProgram::Fft)]);
        assert_eq!((args.profile, args.svg), (None, Some("a.svg".into())));
        for nonsense in [&["--table", "7"][..], &["--program", "ld"], &["--svg", "a.svg"]] {
            let line = ["forebay", "evaluate", "speculation"].iter().chain(nonsense);
            assert!(Cli::try_parse_from(line).is_err(), "{nonsense:?}");
        }
        assert!("ld".parse::<Chosen>().unwrap_err().contains("gnuld or xds, or for --table 5 sphinx"));
    }

    #[test]
    fn sizes_have_binary_multiples() {
        assert_eq!([size("64M"), size("4096"), size("1G")], [Ok(64 << 20), Ok(4096), Ok(1 << 30)]);
        for nonsense in ["", "M", "-1", "1.5G", "1KM", "64 M", "99999999999G"] {
            assert!(size(nonsense).is_err(), "{nonsense}");
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

    #[test]
    fn every_command_shows_an_example() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let group = command.has_subcommands() && command.get_name() != "forebay";
            let plain = command.get_arguments().next().is_none();
            assert!(group || plain || help.contains("Example"), "{}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
