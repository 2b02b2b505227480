//! Recordings are played from a time of day, and replayed either way (ONVIF Streaming Specification, section Replay).

mod support;

use std::time::{Duration, UNIX_EPOCH};

use support::{Client, Folder, H264, Incoming, Response, Server};

#[test]
fn a_recording_is_played_from_the_time_that_was_asked_for() {
    let Some(folder) = Folder::new("a_recording_is_played_from_the_time_that_was_asked_for") else { return };
    let told = "-metadata creation_time=2021-06-15T12:00:00Z";
    folder.encode(4, &format!("{H264} {told}"), "a.mp4");
    folder.encode(4, &format!("{H264} -an {told}"), "b.mkv");
    folder.encode(1, H264, "untold.mp4");
    let server = Server::start(folder.root());
    // Key frames are 12 pictures of 40 ms apart. What a client takes for the beginning is as late in the day as in the film.
    for (name, asked, expected) in [
        ("a.mp4", "clock=20210615T120002.5Z-", "clock=20210615T120002.400000Z-20210615T120004."),
        ("b.mkv", "clock=20210615T120002.5Z-", "clock=20210615T120002.400000Z-20210615T120004."),
        ("a.mp4?start=2", "clock=20210615T120002.5Z-", "clock=20210615T120002.400000Z-20210615T120004."),
        ("a.mp4", "npt=2.5-", "npt=2.400000-4."),
    ] {
        let mut client = server.connect();
        let session = client.set_up(name, 0, "");
        let headers = format!("Session: {session}\r\nRange: {asked}\r\n");
        let response = client.ask("PLAY", name, &headers);
        assert_eq!(response.status, 200, "{name}: {response:?}");
        assert!(response.get("Range").starts_with(expected), "{name}: {response:?}");
    }
    for (name, asked, status) in
        [("a.mp4", "clock=20210615T120005Z-", 457), ("a.mp4?loop", "clock=20210615T120002Z-", 456)]
    {
        let mut client = server.connect();
        let session = client.set_up(name, 0, "");
        let headers = format!("Session: {session}\r\nRange: {asked}\r\n");
        assert_eq!(client.ask("PLAY", name, &headers).status, status, "{name}");
    }
}

#[test]
fn a_film_that_tells_no_time_was_written_at_its_end() {
    let Some(folder) = Folder::new("a_film_that_tells_no_time_was_written_at_its_end") else { return };
    let file = folder.encode(2, H264, "a.mp4");
    // 12 o'clock on 15 June 2021.
    let written = UNIX_EPOCH + Duration::from_secs(1_623_758_400);
    std::fs::File::options().write(true).open(file).expect("a film").set_modified(written).expect("a time");
    let server = Server::start(folder.root());
    let described = server.connect().ask("DESCRIBE", "a.mp4", REQUIRE);
    let line = described.body.lines().find(|line| line.starts_with("a=range:")).unwrap_or_default();
    assert_eq!(line, "a=range:clock=20210615T115958.000000Z-20210615T120000.000000Z");
    let usual = server.connect().ask("DESCRIBE", "a.mp4", "");
    assert!(usual.body.contains("a=range:npt=0.000000-2.000000"), "{usual:?}");
    // Rounds of a film were recorded at no time.
    let refused = server.connect().ask("DESCRIBE", "a.mp4?loop", REQUIRE);
    assert_eq!((refused.status, refused.get("Unsupported")), (551, "onvif-replay"));
}

const REQUIRE: &str = "Require: onvif-replay\r\n";
/// 12 o'clock on 15 June 2021, in seconds since 1900.
const NOON_S: u64 = 1_623_758_400 + 2_208_988_800;
const CLEAN: u8 = 0x80;
const END: u8 = 0x40;
const APART: u8 = 0x20;
const LAST: u8 = 0x10;

/// A sample, and what its first packet says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    is_video: bool,
    /// Since noon.
    ms: i64,
    flags: u8,
    cseq: u8,
    timestamp: u32,
    payload: Vec<u8>,
}

/// Plays both tracks of a film, up to the last sample of each.
fn replay(client: &mut Client, session: &str, headers: &str) -> (Response, Vec<Sample>) {
    let headers = format!("Session: {session}\r\n{REQUIRE}{headers}");
    client.send("PLAY", "a.mp4", &headers);
    let (mut response, mut samples, mut sequences) = (None, Vec::<Sample>::new(), [None; 2]);
    let is_last = |video| move |one: &Sample| one.is_video == video && one.flags & LAST != 0;
    let has_sound = !headers.contains("intra");
    while !samples.iter().any(is_last(true)) || (has_sound && !samples.iter().any(is_last(false))) {
        let packet = match client.receive().expect("the connection goes on") {
            Incoming::Response(one) if one.status == 200 => {
                response = Some(one);
                continue;
            }
            Incoming::Response(one) => return (one, samples),
            // What comes before the response is of what was played before.
            Incoming::Frame(channel, packet) if channel % 2 == 0 && response.is_some() => (channel, packet),
            Incoming::Frame(..) => continue,
        };
        take(packet, &mut sequences, &mut samples);
    }
    (response.expect("a response"), samples)
}

fn take(
    (channel, packet): (u8, Vec<u8>),
    sequences: &mut [Option<(u16, bool)>; 2],
    samples: &mut Vec<Sample>,
) {
    let number = |range: std::ops::Range<usize>| {
        packet[range].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let sequence = number(2..4) as u16;
    let before = sequences[usize::from(channel / 2)].replace((sequence, packet[1] & 0x80 != 0));
    assert!(before.is_none_or(|(before, _)| before.wrapping_add(1) == sequence), "numbers follow each other");
    let is_video = channel == 0;
    let is_extended = packet[0] & 0x10 != 0;
    // The marker ends a sample.
    if before.is_some_and(|(_, is_marked)| !is_marked) {
        let sample = samples.iter_mut().rfind(|one| one.is_video == is_video).expect("its first packet");
        assert_eq!(sample.timestamp, number(4..8) as u32);
        sample.flags |= if is_extended { packet[24] } else { 0 };
        sample.payload.extend(&packet[if is_extended { 28 } else { 12 }..]);
        return;
    }
    assert!(is_extended, "the first packet of a sample says when it was recorded");
    assert_eq!((number(12..14), number(14..16), number(26..28)), (0xABAC, 3, 0));
    let ntp = i128::from(number(16..24)) - (i128::from(NOON_S) << 32);
    samples.push(Sample {
        is_video,
        ms: ((ntp * 1000 + (1 << 31)) >> 32) as i64,
        flags: packet[24],
        cseq: packet[25],
        timestamp: number(4..8) as u32,
        payload: packet[28..].to_vec(),
    });
}

/// The pictures, from each flag on.
fn groups(samples: &[Sample], flag: u8) -> Vec<Vec<Sample>> {
    let pictures: Vec<Sample> = samples.iter().filter(|one| one.is_video).cloned().collect();
    pictures.chunk_by(|_, next| next.flags & flag == 0).map(<[Sample]>::to_vec).collect()
}

/// What stays the same either way.
fn contents(samples: &[Sample]) -> Vec<(i64, u8, u32, &[u8])> {
    samples.iter().map(|one| (one.ms, one.flags & CLEAN, one.timestamp, &*one.payload)).collect()
}

#[test]
fn a_recording_is_replayed_either_way_and_its_packets_say_when_they_were_recorded() {
    let test = "a_recording_is_replayed_either_way_and_its_packets_say_when_they_were_recorded";
    let Some(folder) = Folder::new(test) else { return };
    folder.encode(4, &format!("{H264} -c:a aac -metadata creation_time=2021-06-15T12:00:00Z"), "a.mp4");
    let server = Server::start(folder.root());
    let mut client = server.connect();
    let session = client.set_up("a.mp4", 0, "");
    let session = client.set_up("a.mp4", 1, &session);
    let free = "Rate-Control: no\r\nImmediate: yes\r\n";

    let forwards = format!("{free}Range: clock=20210615T120000Z-\r\n");
    let (response, forwards) = replay(&mut client, &session, &forwards);
    assert_eq!(response.get("Rate-Control"), "no");
    assert!(response.get("Range").starts_with("clock=20210615T120000.000000Z-"), "{response:?}");
    let pictures: Vec<&Sample> = forwards.iter().filter(|one| one.is_video).collect();
    let mut times: Vec<i64> = pictures.iter().map(|one| one.ms).collect();
    times.sort_unstable();
    assert_eq!(times, (0..100).map(|number| 40 * number).collect::<Vec<_>>());
    for (number, picture) in pictures.iter().enumerate() {
        let mut flags = if number % 12 == 0 { CLEAN } else { 0 };
        flags |= if number == 0 { APART } else { 0 };
        flags |= if number == 99 { END | LAST } else { 0 };
        assert_eq!((picture.flags, picture.cseq), (flags, 3), "picture {number}");
    }

    let backwards = format!("{free}Range: clock=20210615T120100Z-20210615T120000Z\r\nScale: -1.0\r\n");
    let (response, backwards) = replay(&mut client, &session, &backwards);
    assert_eq!(response.get("Scale"), "-1.0");
    assert!(response.get("Range").ends_with("-20210615T120000.000000Z"), "{response:?}");
    let mut expected = groups(&forwards, CLEAN);
    expected.reverse();
    let got = groups(&backwards, APART);
    assert_eq!(got.len(), 9);
    for (group, expected) in got.iter().zip(&expected) {
        assert!(contents(group) == contents(expected), "a group is whole, and in its order");
        assert!(group[0].flags & (APART | CLEAN) == APART | CLEAN && group[0].cseq == 4);
    }
    let edges = |samples: &[Sample]| samples.iter().filter(|one| one.flags & (END | LAST) != 0).count();
    assert_eq!((got[8].last().expect("a picture").flags, edges(&got.concat())), (END | LAST, 1));
    let sound = |samples: &[Sample]| {
        let mut all: Vec<Sample> = samples.iter().filter(|one| !one.is_video).cloned().collect();
        all.sort_by_key(|one| one.ms);
        all.iter().map(|one| (one.ms, one.timestamp, one.payload.clone())).collect::<Vec<_>>()
    };
    // What is there to be decoded only, before the beginning, comes backwards too.
    let (all, got) = (sound(&forwards), sound(&backwards));
    assert!(got.ends_with(&all) && got.len() <= all.len() + 1, "{} samples of {}", got.len(), all.len());

    // From amid it to amid it: the groups that are seen at both times are whole.
    let amid = format!("{free}Range: clock=20210615T120002Z-20210615T120001Z\r\nScale: -1\r\n");
    let (_, amid) = replay(&mut client, &session, &amid);
    let firsts =
        |samples: &[Sample]| groups(samples, APART).iter().map(|group| group[0].ms).collect::<Vec<_>>();
    assert_eq!(firsts(&amid), [1920, 1440, 960]);
    assert!(amid.iter().all(|one| one.flags & END == 0), "there is more before it");

    for (range, scale, frames, expected) in [
        ("0Z-", "1", "intra", &[0, 480, 960, 1440, 1920, 2400, 2880, 3360, 3840][..]),
        ("0Z-", "1", "intra/1000", &[0, 1440, 2880]),
        ("4Z-", "-8", "intra", &[3840, 3360, 2880, 2400, 1920, 1440, 960, 480, 0]),
        ("4Z-", "-8", "intra/1000", &[3840, 2400, 960]),
    ] {
        let headers =
            format!("{free}Range: clock=20210615T12000{range}\r\nScale: {scale}\r\nFrames: {frames}\r\n");
        let (_, samples) = replay(&mut client, &session, &headers);
        let times: Vec<i64> = samples.iter().map(|one| one.ms).collect();
        assert_eq!(times, expected, "{frames} {scale}");
        assert!(samples.iter().all(|one| one.is_video && one.flags & CLEAN != 0));
    }
    let headers = format!("{free}Range: clock=20210615T120000Z-\r\nFrames: predicted\r\n");
    let (_, predicted) = replay(&mut client, &session, &headers);
    let predicted = groups(&predicted, CLEAN).concat();
    // The first byte of a picture tells whether others need it (RFC 6184, section 5.3).
    let is_needed = |one: &Sample| one.flags & (CLEAN | LAST) != 0 || one.payload[0] & 0x60 != 0;
    let needed: Vec<Sample> = pictures.iter().map(|one| (*one).clone()).filter(is_needed).collect();
    assert!(contents(&predicted) == contents(&needed), "{} of {} pictures", predicted.len(), needed.len());
    assert!((30..70).contains(&needed.len()), "{} pictures", needed.len());
    let refused = client.ask("PLAY", "a.mp4", &format!("Session: {session}\r\nRequire: a, onvif-replay\r\n"));
    assert_eq!((refused.status, refused.get("Unsupported")), (551, "a"));
}
