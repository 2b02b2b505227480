//! What must hold for any file, for property tests and for fuzzing.
#![allow(dead_code, reason = "each fuzz target and test uses a part of it")]

use std::net::Ipv4Addr;
use std::sync::Arc;

use forebay_media::index::{Cursor, Index, SAMPLES_MAX};
use forebay_media::{Error, Media, Sample, Streams};
use forebay_rtsp::packetise::{Packetiser, Sample as Packed};
use forebay_rtsp::sdp;

/// What a process may take that reads files of less than 300 kB.
pub const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// How much is played where not everything is, and how much is sent.
const FEW: usize = 200;

/// The largest packet.
const PACKET_BYTES: usize = 1400;

/// A file of Ogg with the checksums that its pages should have: changes that do not reach beyond them would show nothing.
fn with_checksums(file: &[u8]) -> Vec<u8> {
    let (mut file, mut at) = (file.to_vec(), 0);
    while let Some(header) = file.get(at..at + 27).filter(|header| header.starts_with(b"OggS")) {
        let lacing = at + 27..at + 27 + usize::from(header[26]);
        let content: usize =
            file.get(lacing.clone()).unwrap_or_default().iter().map(|one| usize::from(*one)).sum();
        let Some(page) = file.get_mut(at..lacing.end + content) else { break };
        page[22..26].fill(0);
        let sum = page.iter().fold(0, |sum: u32, byte| {
            let shift = |sum: u32, _| if sum >> 31 == 1 { sum << 1 ^ 0x04C1_1DB7 } else { sum << 1 };
            (0..8).fold(sum ^ u32::from(*byte) << 24, shift)
        });
        page[22..26].copy_from_slice(&sum.to_le_bytes());
        at = lacing.end + content;
    }
    file
}

/// Opens a file, describes it, and plays it from several places. Returns how many samples there are.
pub fn play(file: &Vec<u8>) -> Result<u64, Error> {
    if file.starts_with(b"OggS") {
        let _ = play_as_it_is(&with_checksums(file), Streams::AsTracks);
    }
    if [&b"tx3g"[..], b"S_TEXT"].iter().any(|name| file.windows(name.len()).any(|bytes| bytes == *name)) {
        let _ = play_as_it_is(file, Streams::WithText { generations: 2 });
    }
    play_as_it_is(file, Streams::AsTracks)
}

fn play_as_it_is(file: &Vec<u8>, streams: Streams) -> Result<u64, Error> {
    let media = Media::read_as(file, streams);
    let media = Arc::new(media.inspect_err(|error| assert!(!error.to_string().is_empty()))?);
    let count = media.tracks().iter().map(|track| track.index().count()).sum();
    assert!(count <= SAMPLES_MAX);
    media.tracks().iter().for_each(|track| check(track.index()));
    let description = sdp::describe(&media.presentation("film".to_owned(), 1), Ipv4Addr::LOCALHOST.into());
    assert!(!description.is_empty());

    let tracks: Vec<_> = (0..media.tracks().len()).collect();
    let duration_ns = media.duration_ns();
    let places = [
        (0, usize::MAX),
        (duration_ns / 2, usize::MAX),
        (duration_ns / 3, FEW),
        (duration_ns, FEW),
        (u64::MAX, FEW),
    ];
    for (wanted_ns, samples_max) in places {
        let position_ns = media.seek(&tracks, wanted_ns);
        let mut has_begun = vec![false; tracks.len()];
        for (number, sample) in media.plan(&tracks, position_ns).take(samples_max).enumerate() {
            assert!(sample.at.start <= sample.at.end && sample.at.end <= file.len() as u64, "{sample:?}");
            let is_first = !std::mem::replace(&mut has_begun[sample.track], true);
            let has_sync = || media.tracks()[sample.track].index().has_sync();
            assert!(!is_first || sample.is_sync || !has_sync(), "{sample:?} at {position_ns}");
            if number < FEW {
                send(file, &media, &sample);
            }
        }
    }
    if file.first() == Some(&0x47) {
        let _ = Media::read_as(file, Streams::AsTheyAre);
    }
    Ok(count)
}

/// Makes packets of a sample, if it can be sent.
fn send(file: &[u8], media: &Media, sample: &Sample) {
    let format = media.tracks()[sample.track].format;
    let mut bytes = file[sample.at.start as usize..sample.at.end as usize].to_vec();
    let count = sample.packing.unpack(&mut bytes);
    assert!(count <= bytes.len(), "{sample:?}");
    let mut packets = Vec::new();
    let samples = [Packed { at: 0..count, timestamp: 0 }];
    let _ = Packetiser::new(format, 96, 1, 0, PACKET_BYTES).packetise(&bytes, &samples, &mut packets);
    let all: usize = packets.iter().map(|packet| packet.bytes()).sum();
    assert!(packets.iter().flat_map(|packet| packet.pieces()).all(|piece| piece.end <= count));
    assert!(all <= 2 * count + packets.len() * PACKET_BYTES, "{sample:?}: {all} bytes of packets");
}

/// What an index says of all samples is what they say one by one.
fn check(index: &Index) {
    let (mut count, mut bytes) = (0, 0);
    for entry in index.entries_from(Cursor::default()) {
        assert!((index.begin()..=index.end()).contains(&entry.presentation), "{entry:?}");
        assert!(entry.decode <= entry.presentation, "{entry:?}");
        count += 1;
        bytes += u64::from(entry.bytes);
    }
    assert_eq!((count, bytes), (index.count(), index.payload_bytes()));
}

/// The most memory that this process has had.
pub fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
