//! From where files are played, and in which order.

mod support;

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use forebay_media::index::Entry;
use forebay_media::{Media, Plan, Sample, Streams};

use support::{Folder, H264, H265, Probed, bytes_of, entries, folder, open};

const SECOND_NS: u64 = 1_000_000_000;

/// Plays from places all over a file.
fn check(file: &Path) {
    let media = Arc::new(open(file));
    let probed = Probed::of(file);
    let rate = probed.time_base(0).1.unsigned_abs();
    let keys: Vec<u64> = probed
        .packets_of(0)
        .iter()
        .filter(|packet| packet.is_key())
        .map(|packet| packet.pts.expect("pts").max(0) as u64 * SECOND_NS / rate)
        .collect();
    assert!(keys.len() > 3, "{keys:?}");
    for wanted_ns in (0..28).map(|number| number * SECOND_NS / 10) {
        // Before the first key frame there may be sound.
        let key_ns = keys.iter().rfind(|key| **key <= wanted_ns);
        let expected_ns = *key_ns.unwrap_or(&wanted_ns);
        let position_ns = media.seek(&[0, 1], wanted_ns);
        // Rounded to the nearest here and down there.
        assert!(position_ns.abs_diff(expected_ns) <= 1, "{position_ns}, {expected_ns} for {wanted_ns}");
        let plan: Vec<Sample> = media.plan(&[0, 1], position_ns).collect();
        assert!(plan.is_sorted_by_key(|sample| sample.decode_ns));
        for track in [0, 1] {
            let first = plan.iter().find(|sample| sample.track == track).expect("a sample");
            let early_ns = position_ns as i64 - first.presentation_ns;
            // What a decoder of sound is given before, as far as there is some.
            let before_ns = if track == 1 && position_ns > 200_000_000 { 100_000_000 } else { 0 };
            let is_at_position =
                (before_ns..130_000_000).contains(&early_ns) || (key_ns.is_none() && early_ns < 0);
            assert!(first.is_sync && is_at_position, "{first:?} at {position_ns}");
            let all = entries(&media, track);
            let rest = plan.iter().filter(|sample| sample.track == track).count();
            assert_eq!(all.iter().position(|one| one.at == first.at.start), Some(all.len() - rest));
        }
    }
}

#[test]
fn playing_begins_at_the_key_frame_before() {
    let Some(folder) = folder("playing_begins_at_the_key_frame_before") else { return };
    let mp4 = folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    check(&mp4);
    check(&folder.convert(
        &mp4,
        "-c copy -movflags +frag_keyframe+empty_moov+default_base_moof",
        "fragmented.mp4",
    ));
    check(&folder.convert(&mp4, "-c copy", "a.mkv"));
    check(&folder.encode(2, &format!("{H265} -c:a libopus"), "a.mkv"));
}

/// Sound that ffmpeg decodes, in values of 16 bits. `name` ends with how it is coded.
fn decoded(folder: &Folder, name: &str, sound: &[u8]) -> Vec<u8> {
    let part = folder.path(name);
    std::fs::write(&part, sound).expect("a file");
    std::fs::read(folder.convert(&part, "-map 0:a -f s16le", "decoded")).expect("what ffmpeg decoded")
}

#[test]
fn sound_is_right_from_the_position_on_that_a_decoder_begins_at() {
    let Some(folder) = folder("sound_is_right_from_the_position_on_that_a_decoder_begins_at") else { return };
    for (name, options, header_bytes, values) in [
        // Decoders take other noise each time.
        ("a.aac", "-c:a aac -b:a 96k -aac_pns 0", 7, 1024),
        // Frames of MP3 begin in others before them.
        ("a.mp3", "-c:a libmp3lame -b:a 64k -ar 44100", 0, 1152),
    ] {
        let file = folder.encode(4, &format!("-vn {options} -ac 1"), name);
        let content = std::fs::read(&file).expect("a file");
        let media = Arc::new(open(&file));
        let frames = entries(&media, 0);
        // ADTS headers are sent otherwise.
        let sound = |from: usize| -> Vec<u8> {
            let frame = |one: &Entry| {
                &content[one.at as usize - header_bytes..(one.at + u64::from(one.bytes)) as usize]
            };
            frames[from..].iter().flat_map(frame).copied().collect()
        };
        let whole = decoded(&folder, name, &sound(0));
        for wanted_ns in [SECOND_NS, 2 * SECOND_NS + 123_456_789] {
            let number = |plan: Plan| frames.len() - plan.count();
            let (at, from) = (number(media.plan_on(&[0], wanted_ns)), number(media.plan(&[0], wanted_ns)));
            let bytes = |frames: usize| 2 * values * frames;
            let got = decoded(&folder, name, &sound(from));
            // Where files are coded with a delay, all of them are.
            let missing = bytes(frames.len()) - whole.len();
            assert!(missing < bytes(2), "{name}: {missing}");
            let right = |got: &[u8], from: usize| got[bytes(at - from)..] == whole[bytes(at)..];
            assert!(from < at && right(&got, from), "{name} at {wanted_ns}: from frame {from} to hear {at}");
            assert!(!right(&decoded(&folder, name, &sound(at)), at), "{name}: nothing is needed before");
        }
    }
}

#[test]
fn timestamps_are_those_of_the_codecs_clocks() {
    let Some(folder) = folder("timestamps_are_those_of_the_codecs_clocks") else { return };
    let mp4 = folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    let media = Arc::new(open(&mp4));
    let mut pictures: Vec<_> = media.plan(&[0], 0).map(|one| one.timestamp).collect();
    pictures.sort_unstable();
    assert_eq!(pictures, (0..50).map(|number| 3600 * number).collect::<Vec<_>>());
    let sound: Vec<_> = media.plan(&[1], 0).map(|one| one.timestamp).collect();
    // The first one is there to be decoded: an edit list cuts it away.
    assert_eq!(sound, (0..sound.len() as i64).map(|number| 1024 * (number - 1)).collect::<Vec<_>>());
    assert_eq!(sound.len(), entries(&media, 1).len());
}

#[test]
fn a_file_that_starts_late_starts_at_zero() {
    let Some(folder) = folder("a_file_that_starts_late_starts_at_zero") else { return };
    let mp4 = folder.encode(2, &format!("{H264} -c:a aac"), "a.mp4");
    let mkv = folder.convert(&mp4, "-c copy -output_ts_offset 100", "late.mkv");
    let (early, late) = (open(&mp4), open(&mkv));
    assert!(late.duration_ns().abs_diff(early.duration_ns()) < SECOND_NS / 10);
    let begins = |media: &Media| media.tracks().iter().map(|track| track.begin_ns()).collect::<Vec<_>>();
    assert_eq!(begins(&late).iter().min(), Some(&0));
    // Sound and pictures stay together, to the millisecond that Matroska counts in.
    let distance = |media: &Media| begins(media)[0] - begins(media)[1];
    assert!(
        (distance(&early) - distance(&late)).abs() <= 1_000_000,
        "{:?} {:?}",
        begins(&early),
        begins(&late)
    );
}

fn open_raw(file: &Path) -> Media {
    let file = File::open(file).expect("a file");
    Media::read_as(&file, Streams::AsTheyAre).expect("a transport stream")
}

/// The clock in a packet, if it has one, in ticks of 27 MHz.
fn clock(packet: &[u8]) -> Option<i64> {
    let has_clock = packet[3] & 0x20 != 0 && packet[4] > 0 && packet[5] & 0x10 != 0;
    let bits = packet[6..12].iter().fold(0, |bits, byte| bits << 8 | i64::from(*byte));
    has_clock.then_some((bits >> 15) * 300 + (bits & 0x1FF))
}

#[test]
fn a_transport_stream_is_sent_by_its_clock() {
    let Some(folder) = folder("a_transport_stream_is_sent_by_its_clock") else { return };
    let ts = folder.encode(2, &format!("{H264} -c:a aac -muxrate 1M"), "a.ts");
    let media = open_raw(&ts);
    let content = std::fs::read(&ts).expect("a file");
    let samples = entries(&media, 0);
    assert!(bytes_of(&ts, &samples) == content);
    assert!(samples.is_sorted_by_key(|one| one.presentation));
    assert!(samples.iter().all(|one| one.bytes % 188 == 0 && one.bytes > 0));

    let clocks = (0..).step_by(188).zip(content.chunks(188));
    let clocks: Vec<_> = clocks.filter_map(|(at, packet)| Some((at, clock(packet)?))).collect();
    assert!(clocks.len() > 20);
    for (at, clock) in &clocks {
        let one = samples.iter().find(|one| one.at == *at).expect("a clock begins a sample");
        assert_eq!(one.presentation, clock - clocks[0].1);
    }

    // From each place where it says that decoding can begin, decoding begins without complaint.
    let syncs: Vec<_> = samples.iter().filter(|one| one.is_sync).collect();
    let probed = Probed::of(&ts);
    let keys = probed.packets_of(0).iter().filter(|packet| packet.is_key()).count();
    assert_eq!(syncs.len(), keys);
    let part = folder.path("part.ts");
    for sync in syncs {
        std::fs::write(&part, &content[sync.at as usize..]).expect("a file");
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-nostdin", "-v", "error", "-i"]).arg(&part).args(["-map", "0:v", "-f", "null", "-"]);
        let output = ffmpeg.output().expect("ffmpeg runs");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(Probed::of(&part).packets_of(0)[0].is_key());
    }
}

#[test]
fn a_transport_stream_of_sound_begins_anywhere() {
    let Some(folder) = folder("a_transport_stream_of_sound_begins_anywhere") else { return };
    let ts = folder.encode(2, "-map 1:a -c:a aac", "a.ts");
    let media = open_raw(&ts);
    let position_ns = media.seek(&[0], SECOND_NS);
    assert!((SECOND_NS / 2..=SECOND_NS).contains(&position_ns), "{position_ns}");
}
