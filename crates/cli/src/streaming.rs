//! `forebay evaluate streaming`.

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use forebay_evaluation::servers::streaming::{
    Disk, Disturbance, Files, Films, Options, Outcome, Subject, run as measure,
};
use forebay_quantity::{multiple, size};
use forebay_stream_clients::{Transport, process};

use crate::experiment::{Measured, Output, carry_out, this_program};

/// Options of `forebay evaluate streaming`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Streaming {
    /// Clients that play at the same time, separated by commas; --search begins with the first number and ends with
    /// the largest
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: Vec<u32>,
    /// Bits a second of each stream, such as 56k, 300k or 4M; separated by commas
    #[arg(long, value_name = "BITS", value_delimiter = ',', default_value = "300k", value_parser = bits)]
    rate: Vec<u64>,
    /// Transport of packets: udp, tcp or both, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "udp")]
    transport: Vec<Transport>,
    /// What clients play: one film of noise at a constant rate without sound (made), or films such as people have (real):
    /// MP4, MKV and TS in turn, with sound, B-frames, large key frames and a rate that varies
    #[arg(long, value_name = "WHICH", default_value = "made")]
    films: Films,
    /// Play the films as cameras, one for each client, as forebay serve --cameras does
    #[arg(long, conflicts_with_all = ["buffers", "files", "seek"])]
    cameras: bool,
    /// Limit each client's link to so many times its film's mean rate, such as 1.5
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    link: Option<f64>,
    /// Whether clients play one file, or many: one each, as long as they fit
    #[arg(long, default_value = "many")]
    files: Files,
    /// Where the files are: cached in memory, or on a disk: local, nvme, ssd-1ms-q128, raid-12ms-q4, hdd-1ms-q1 or
    /// remote (all but cached and local need root)
    #[arg(long, value_name = "DISK", default_value = "cached")]
    profile: Disk,
    /// Memory of the server with what it reads, such as 256M; needs root
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Buffers of each session of forebay serve; several for several servers, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u8).range(1..))]
    buffers: Vec<u8>,
    /// Measure GStreamer's server, MediaMTX and live555MediaServer too (also) or alone (only), as far as installed
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "also")]
    peers: Option<Peers>,
    /// Search the most clients without a late stream
    #[arg(long)]
    search: bool,
    /// Time of the measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = duration_s)]
    seconds: f64,
    /// Time that clients play before the measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = duration_s)]
    warm_up: f64,
    /// Rounds; each runs every server once
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Run each server undisturbed and then disturbed: by clients that are killed (kill), vanish (half-open) or stop
    /// reading (slow), or by a flood of connections and requests (flood); separated by commas
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    disturb: Vec<Disturbance>,
    /// Tolerance: packets later than this after they were due are late, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    late: u32,
    /// Mean time between two seeks of a client, in seconds
    #[arg(long, value_name = "S", value_parser = duration_s)]
    seek: Option<f64>,
    /// Mean time until a client leaves and another takes its place, in seconds
    #[arg(long, value_name = "S", value_parser = duration_s)]
    stay: Option<f64>,
    /// Predict the server's time for a packet by these results of forebay evaluate host
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Servers of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peers {
    /// Beside forebay's.
    Also,
    /// Without it.
    Only,
}

fn bits(text: &str) -> Result<u64, String> {
    let bits =
        multiple(&text.to_uppercase()).and_then(|(number, power)| number.checked_mul(1_000_u64.pow(power)));
    bits.filter(|bits| (BITS_MIN..=BITS_MAX).contains(bits))
        .ok_or_else(|| "give bits a second from 30k to 100M, such as 300k or 4M".into())
}

/// Less than this is none that noise could be encoded to, and more than that none that it takes.
const BITS_MIN: u64 = 30_000;
const BITS_MAX: u64 = 100_000_000;

fn duration_s(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "give seconds, from 0.1 to 86400".into())
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (1.0..=1_000.0).contains(factor));
    factor.ok_or_else(|| "give a factor from 1 to 1000, such as 1.5".into())
}

const HELP: &str = "\
Server and clients have a processor each. Media have the given mean rate and are
made by ffmpeg; clients begin anywhere in them. A packet is late against the
schedule of its stream, which goes on without packets too. The last packets of a
frame may take the frame's own time besides. A stream is late if one packet in a
hundred is late or lost, or if packets stop. The same rounds measure what the
loopback carries from one processor to the other, and how late timers are.

Real films have a key frame each ten seconds, with two seconds' bits and at most
1 MB. Their clients play picture and sound, and a stream is late if either is. A
picture is whole if all its packets came; transport streams do not tell.

Cameras are live: each client sees its own from the moment at which it comes.
The drift of its clock is known, and makes no packet late.

A link is computed by its client. Datagrams leave it one after the other, are as
late as that makes them, and are lost if more than 0.3 s of others wait. Over
TCP the client reads no faster and has a small window, so the rest waits at the
server. The last part of a large key frame comes late over any such link: give
the buffer that a viewer would have as --late.

After an interrupt, or when a server fails, the results so far are shown and
written.

Examples:
  forebay evaluate streaming --clients 50,500 --transport udp,tcp --peers
  forebay evaluate streaming --search --profile raid-12ms-q4 --memory 256M
  forebay evaluate streaming --clients 200 --disturb kill,half-open,slow,flood
  forebay evaluate streaming --films real --rate 4M --clients 50 --profile local
  forebay evaluate streaming --films real --clients 20 --link 1.5 --late 2000
  forebay evaluate streaming --cameras --clients 1000 --rate 2M
  forebay evaluate streaming --clients 5000 --rate 200k --runs 1";

/// Carries the comparison out.
pub fn run(args: &Streaming) -> anyhow::Result<ExitCode> {
    let mut subjects: Vec<Subject> = match (args.peers, args.cameras) {
        (Some(Peers::Only), _) => vec![],
        (_, true) => vec![Subject::Cameras],
        (_, false) => args.buffers.iter().map(|buffers| Subject::Forebay { buffers: *buffers }).collect(),
    };
    if args.peers.is_some() {
        subjects.extend(Subject::peers());
    }
    let options = Options {
        program: this_program()?,
        subjects,
        rates: args.rate.clone(),
        transports: args.transport.clone(),
        clients: args.clients.clone(),
        films: args.films,
        // Cameras keep their films in memory, and share them.
        files: if args.cameras { Files::One } else { args.files },
        disk: args.profile,
        memory_bytes: args.memory,
        search: args.search,
        seconds: args.seconds,
        warm_up: args.warm_up,
        runs: args.runs,
        disturbances: args.disturb.clone(),
        link: args.link,
        late_s: f64::from(args.late) / 1e3,
        seek_every_s: args.seek,
        stay_s: args.stay,
        host: args.host.clone(),
    };
    let measured = |outcome: Outcome| Measured::all(outcome.table(), outcome.rows()).until(outcome.stopped);
    carry_out(&args.output, |progress| measure(&options, progress).map(measured))
}

/// Is the players of another `forebay`, which speaks on standard input.
pub fn play() -> anyhow::Result<ExitCode> {
    if std::io::IsTerminal::is_terminal(&io::stdin()) {
        bail!("forebay evaluate streaming starts this command; run that one");
    }
    process::serve(BufReader::new(io::stdin()), &mut io::stdout())
        .context("cannot write to the process that started the players")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_decimal_units() {
        assert_eq!(["56k", "300K", "4M", "200000"].map(bits), [56_000, 300_000, 4_000_000, 200_000].map(Ok));
        for nonsense in ["", "k", "1", "4G", "-4M", "1000M", "99999999999999999999M"] {
            assert!(bits(nonsense).unwrap_err().contains("such as 300k"), "{nonsense}");
        }
    }

    #[test]
    fn links_carry_at_least_what_a_film_has() {
        assert_eq!(factor("1.5"), Ok(1.5));
        for nonsense in ["0.9", "-2", "nan", "1001", "fast"] {
            assert!(factor(nonsense).unwrap_err().contains("such as 1.5"), "{nonsense}");
        }
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(duration_s("0.5"), Ok(0.5));
        for nonsense in ["0", "-1", "nan", "inf", "x"] {
            assert!(duration_s(nonsense).is_err(), "{nonsense}");
        }
    }
}
