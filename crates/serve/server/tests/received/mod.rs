//! What ffmpeg reads of a file, or receives of a URL, packet by packet.
#![allow(dead_code, reason = "each test takes what it needs")]

use crate::support::ffmpeg;

/// How far apart a packet's times may be in the file and where it was received: clocks tick that often.
const TICK_S: f64 = 0.0015;

/// A packet as ffmpeg has it.
pub struct Packet {
    pub track: usize,
    /// Where that is known.
    pub seconds: Option<f64>,
    pub hash: String,
}

/// The packets of a file or URL.
pub fn packets(input: &str, filter: &str) -> Vec<Packet> {
    let output = ffmpeg(&format!("{input} -map 0 -c copy {filter} -f framemd5 -"));
    assert!(output.status.success(), "{input}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut ticks_per_s = [1.0; 2];
    let mut packets = Vec::new();
    for line in text.lines() {
        if let Some((track, base)) = line.strip_prefix("#tb ").and_then(|rest| rest.split_once(": ")) {
            let (seconds, ticks) = base.split_once('/').expect("a fraction");
            let number = |text: &str| text.parse::<f64>().expect("a number");
            ticks_per_s[track.parse::<usize>().expect("a track")] = number(ticks) / number(seconds);
        } else if !line.starts_with('#') {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let track: usize = fields[0].parse().expect("a track");
            let ticks: i64 = fields[2].parse().expect("a time");
            let seconds = (ticks != i64::MIN).then_some(ticks as f64 / ticks_per_s[track]);
            packets.push(Packet { track, seconds, hash: fields[5].to_owned() });
        }
    }
    packets
}

pub fn of_track(packets: &[Packet], track: usize) -> Vec<&Packet> {
    packets.iter().filter(|packet| packet.track == track).collect()
}

pub fn hashes<'a>(packets: &[&'a Packet]) -> Vec<&'a str> {
    packets.iter().map(|packet| packet.hash.as_str()).collect()
}

/// All packets, the same distances between them in time, and tracks together as in the file.
pub fn all_at_their_times(what: &str, expected: &[Packet], got: &[Packet]) {
    all(what, expected, got);
    let mut offsets = Vec::new();
    for track in 0..got.iter().map(|packet| packet.track + 1).max().unwrap_or(0) {
        let (expected, got) = (of_track(expected, track), of_track(got, track));
        // The first one's ffmpeg guesses, from those after it.
        let pairs = expected.iter().rev().zip(got[1..].iter().rev());
        offsets.extend(pairs.filter_map(|(expected, got)| Some(got.seconds? - expected.seconds?)));
    }
    let first = *offsets.first().expect("a packet with a time");
    assert!(offsets.iter().all(|offset| (offset - first).abs() < TICK_S), "{what}: {offsets:?}");
}

/// All packets, but for one of sound that lies before the beginning, to be decoded only.
pub fn all(what: &str, expected: &[Packet], got: &[Packet]) {
    for track in 0..2 {
        let [expected, got] = [expected, got].map(|packets| hashes(&of_track(packets, track)));
        let is_whole = got.len() == expected.len() || track == 1 && got.len() + 1 == expected.len();
        assert!(is_whole, "{what}, track {track}: {} of {} packets", got.len(), expected.len());
        assert!(expected.ends_with(&got), "{what}, track {track}");
    }
}
