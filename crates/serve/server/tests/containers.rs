//! ffmpeg receives films of every kind of file and codec as they are in their files, packet by packet.

mod support;

use std::thread;

use support::{Folder, H264, Server, ffmpeg};

const H265: &str = "-c:v libx265 -preset ultrafast -pix_fmt yuv420p \
                    -x265-params log-level=error:keyint=12:bframes=2:pools=1";

/// Pictures behind start codes, as they come, and without what a description has too.
const AVC: &str = "-bsf:v h264_mp4toannexb,filter_units=remove_types=7-9";
/// The same; an encoder's remarks (39) are in the description of a file, too.
const HEVC: &str = "-bsf:v hevc_mp4toannexb,filter_units=remove_types=32-35|39";
const ADTS: &str = "-bsf:a aac_adtstoasc";

/// How far apart a packet's times may be in the file and where it was received: clocks tick that often.
const TICK_S: f64 = 0.0015;

struct Packet {
    track: usize,
    /// Where that is known.
    seconds: Option<f64>,
    hash: String,
}

/// The packets of a file or URL.
fn packets(input: &str, filter: &str) -> Vec<Packet> {
    let output = ffmpeg(&format!("{input} -map 0 -c copy {filter} -f framemd5 -"));
    assert!(output.status.success(), "{input}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut ticks_per_s = [1.0; 2];
    let mut packets = Vec::new();
    for line in text.lines() {
        if let Some((track, base)) = line.strip_prefix("#tb ").and_then(|rest| rest.split_once(": 1/")) {
            ticks_per_s[track.parse::<usize>().expect("a track")] = base.parse().expect("a number");
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

fn of_track(packets: &[Packet], track: usize) -> Vec<&Packet> {
    packets.iter().filter(|packet| packet.track == track).collect()
}

fn hashes<'a>(packets: &[&'a Packet]) -> Vec<&'a str> {
    packets.iter().map(|packet| packet.hash.as_str()).collect()
}

/// Has ffmpeg make these films, with filters for what is compared, and play each of them over both transports.
fn play_all(test: &str, films: &[(&str, String, &str)], check: fn(&str, &[Packet], &[Packet])) {
    let Some(folder) = Folder::new(test) else { return };
    let server = Server::start(folder.root());
    let play = |(name, options, filter): &(&str, String, &str)| {
        let file = folder.encode(1, options, name);
        let expected = packets(&format!("-i {}", file.display()), filter);
        assert!(expected.len() >= 25, "{name}: {} packets", expected.len());
        for transport in ["tcp", "udp"] {
            let url = server.url(name);
            let got = packets(&format!("-rtsp_transport {transport} -i {url}"), filter);
            check(&format!("{name} over {transport}"), &expected, &got);
        }
    };
    thread::scope(|scope| films.iter().for_each(|film| drop(scope.spawn(|| play(film)))));
}

/// All packets, the same distances between them in time, and tracks together as in the file.
fn all_at_their_times(what: &str, expected: &[Packet], got: &[Packet]) {
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
fn all(what: &str, expected: &[Packet], got: &[Packet]) {
    for track in 0..2 {
        let [expected, got] = [expected, got].map(|packets| hashes(&of_track(packets, track)));
        let is_whole = got.len() == expected.len() || track == 1 && got.len() + 1 == expected.len();
        assert!(is_whole, "{what}, track {track}: {} of {} packets", got.len(), expected.len());
        assert!(expected.ends_with(&got), "{what}, track {track}");
    }
}

/// The end of a picture in a transport stream shows when something follows. Nothing does, and ffmpeg leaves it at that.
fn all_but_the_last_pictures(what: &str, expected: &[Packet], got: &[Packet]) {
    for (track, last) in [(0, 2), (1, 0)] {
        let [expected, got] = [expected, got].map(|packets| hashes(&of_track(packets, track)));
        let whole = expected.len() - last;
        assert!(got.len() >= whole, "{what}, track {track}: {} of {} packets", got.len(), expected.len());
        assert!(got[..whole] == expected[..whole], "{what}, track {track}");
    }
}

#[test]
fn every_codec_comes_out_of_every_container_at_its_time() {
    let fragmented = "-movflags +frag_keyframe+empty_moov+default_base_moof";
    play_all(
        "every_codec_comes_out_of_every_container_at_its_time",
        &[
            ("h264-aac.mov", format!("{H264} -c:a aac"), AVC),
            ("h264-mp3.mp4", format!("{H264} -c:a libmp3lame"), AVC),
            ("h264-opus.mp4", format!("{H264} -c:a libopus"), AVC),
            ("h264-mp3.mkv", format!("{H264} -c:a libmp3lame"), AVC),
            ("h265-aac.mp4", format!("{H265} -c:a aac"), HEVC),
            ("h265-aac.mov", format!("{H265} -tag:v hvc1 -c:a aac"), HEVC),
            ("h265-opus.mkv", format!("{H265} -c:a libopus"), HEVC),
            ("fragmented.mp4", format!("{H264} -c:a aac {fragmented}"), AVC),
            ("opus.webm", "-map 1:a -c:a libopus".to_owned(), ""),
        ],
        all_at_their_times,
    );
}

#[test]
fn files_of_one_track_and_nothing_else_come_whole() {
    play_all(
        "files_of_one_track_and_nothing_else_come_whole",
        &[
            ("a.h264", format!("-map 0:v {H264}"), AVC),
            ("a.h265", format!("-map 0:v {H265}"), HEVC),
            ("a.aac", "-map 1:a -c:a aac".to_owned(), ADTS),
            ("a.mp3", "-map 1:a -c:a libmp3lame".to_owned(), ""),
        ],
        all,
    );
}

#[test]
fn pictures_and_sound_come_out_of_transport_streams() {
    play_all(
        "pictures_and_sound_come_out_of_transport_streams",
        &[
            ("h264-aac.ts", format!("{H264} -c:a aac"), ""),
            ("h265-mp3.ts", format!("{H265} -c:a libmp3lame"), ""),
        ],
        all_but_the_last_pictures,
    );
}
