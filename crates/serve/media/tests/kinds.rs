//! What a file is: by its structure, wherever it begins, and refused by name if it is of another kind.

mod support;

use std::sync::Arc;

use forebay_media::{Error, Media, Sample as Planned, Streams};
use forebay_rtsp::packetise::{Packetiser, Sample};

use support::{H264, folder, open, sparse};

const SOUND: &str = "-map 1:a -c:a";

#[test]
fn files_of_other_kinds_are_refused_by_their_names() {
    let Some(folder) = folder("files_of_other_kinds_are_refused_by_their_names") else { return };
    for (name, options, called) in [
        ("a.vob", "-c:v mpeg2video -c:a mp2".to_owned(), "MPEG program stream"),
        ("h264.vob", format!("{H264} -map 0:v -bsf:v h264_mp4toannexb"), "MPEG program stream"),
        ("a.m2v", "-map 0:v -c:v mpeg2video".to_owned(), "raw MPEG-1 or MPEG-2 video"),
        ("a.mxf", "-map 0:v -c:v mpeg2video".to_owned(), "MXF"),
        ("a.aiff", format!("{SOUND} pcm_s16be"), "AIFF"),
        ("a.nut", format!("{H264} -c:a aac"), "NUT"),
        ("a.flac", format!("{SOUND} flac"), "FLAC"),
        ("a.wmv", "-c:v wmv2 -c:a wmav2".to_owned(), "ASF"),
        ("a.mjpeg", "-map 0:v -c:v mjpeg".to_owned(), "JPEG, or Motion JPEG"),
        ("a.gif", "-map 0:v -c:v gif".to_owned(), "GIF"),
        ("a.dts", format!("{SOUND} dca -strict -2"), "raw DTS"),
    ] {
        let error = Media::open(folder.encode(1, &options, name)).expect_err(name).to_string();
        assert!(error.contains(&format!("it is {called}")) || error.contains(called), "{name}: {error}");
        // What is advised makes a file that is served.
        assert!(error.contains("`ffmpeg -i FILE -c:v libx264 -c:a aac FILE.mp4`"), "{name}: {error}");
        let advised = folder.convert(&folder.path(name), "-c:v libx264 -c:a aac", "advised.mp4");
        assert!(!open(&advised).tracks().is_empty(), "{name}");
    }
}

#[test]
fn start_codes_in_other_bytes_make_no_film() {
    let Some(folder) = folder("start_codes_in_other_bytes_make_no_film") else { return };
    let raw = std::fs::read(folder.encode(1, &format!("{H264} -map 0:v"), "a.h264")).expect("a film");
    let text = b"a text about 00 00 01 67 and other bytes, long enough to be looked at ".repeat(9);
    let packs = [&[0, 0, 1, 0xBC, 0, 4][..], &raw[..200], &[0, 0, 1, 0xE0, 0, 0, 0x80, 0, 0], &raw].concat();
    for bytes in [vec![0; 1 << 20], text, packs] {
        assert!(matches!(Media::read(&bytes), Err(Error::UnknownKind)), "{:?}", Media::read(&bytes));
    }
}

#[test]
fn zeros_without_end_are_refused_after_a_few_megabytes() {
    struct Zeros(std::cell::Cell<u64>);
    impl forebay_media::ReadAt for Zeros {
        fn bytes(&self) -> std::io::Result<u64> {
            Ok(20 << 30)
        }

        fn read_at(&self, buffer: &mut [u8], _: u64) -> std::io::Result<usize> {
            buffer.fill(0);
            self.0.set(self.0.get() + buffer.len() as u64);
            Ok(buffer.len())
        }
    }
    let zeros = Zeros(std::cell::Cell::new(0));
    assert!(matches!(Media::read(&zeros), Err(Error::UnknownKind)));
    assert!(zeros.0.get() < 16 << 20, "{} bytes", zeros.0.get());
}

#[test]
fn files_that_begin_amid_a_packet_a_frame_or_a_picture_are_played_from_the_next() {
    let Some(folder) = folder("files_that_begin_amid_a_packet_a_frame_or_a_picture_are_played_from_the_next")
    else {
        return;
    };
    for (name, options) in [
        ("a.ts", format!("{H264} -c:a aac")),
        ("a.m2ts", format!("{H264} -c:a aac -f mpegts -mpegts_m2ts_mode 1")),
        ("a.aac", format!("{SOUND} aac")),
        ("a.mp3", format!("{SOUND} libmp3lame -write_xing 0 -id3v2_version 0")),
        ("a.h264", format!("{H264} -map 0:v -g 10")),
    ] {
        let file = folder.encode(2, &options, name);
        let whole = std::fs::read(&file).expect("a file");
        let samples = |media: &Media| media.tracks().iter().map(|track| track.index().count()).sum::<u64>();
        let all = samples(&Media::read(&whole).expect(name));
        for cut in [1, 100, 187, 191, 1001] {
            let media = Arc::new(
                Media::read(&whole[cut..].to_vec()).unwrap_or_else(|error| panic!("{name}: {error}")),
            );
            let left = samples(&media);
            assert!((all / 2..=all).contains(&left), "{name} without {cut} bytes: {left} of {all}");
            let first = media.plan(&[0], 0).next().expect("a sample");
            assert!(first.is_sync, "{name} without {cut} bytes: {first:?}");
        }
    }
}

/// The packets of a transport stream are the same, whatever lies between them in the file.
#[test]
fn packets_with_times_between_them_are_sent_without() {
    let Some(folder) = folder("packets_with_times_between_them_are_sent_without") else { return };
    let plain = folder.encode(1, &format!("{H264} -c:a aac"), "a.ts");
    let content = std::fs::read(&plain).expect("a file");
    for (stride, before) in [(192, 4), (204, 0)] {
        let sparse = sparse(&content, before, stride);
        let media = Arc::new(Media::read_as(&sparse, Streams::AsTheyAre).expect("a stream"));
        let format = media.tracks()[0].format;
        let (mut packetiser, mut sent) = (Packetiser::new(format, 33, 1, 0, 1400), Vec::new());
        for sample in media.plan(&[0], 0) {
            let part = &sparse[sample.at.start as usize..sample.at.end as usize];
            let mut packets = Vec::new();
            let samples = [Sample { at: 0..part.len(), timestamp: 0 }];
            packetiser.packetise(part, &samples, &mut packets).expect("packets");
            for packet in packets {
                assert!(packet.bytes() <= 12 + 7 * 188);
                packet.pieces().for_each(|piece| sent.extend_from_slice(&part[piece]));
            }
        }
        // From where decoding can begin.
        let is_all = content.ends_with(&sent) && sent.len() + 5 * 188 > content.len();
        assert!(is_all, "stride {stride}: {} of {} bytes", sent.len(), content.len());
    }
}

/// What a sample of a file is when it is sent.
fn sent(file: &[u8], sample: &Planned) -> Vec<u8> {
    let mut bytes = file[sample.at.start as usize..sample.at.end as usize].to_vec();
    let count = sample.packing.unpack(&mut bytes);
    bytes.truncate(count);
    bytes
}

#[test]
fn tracks_are_the_same_whatever_lies_between_packets() {
    let Some(folder) = folder("tracks_are_the_same_whatever_lies_between_packets") else { return };
    let content = std::fs::read(folder.encode(1, &format!("{H264} -c:a aac"), "a.ts")).expect("a file");
    let samples = |file: &Vec<u8>| {
        let media = Arc::new(Media::read(file).expect("a stream"));
        let all = media.plan(&[0, 1], 0);
        all.map(|one| (one.track, one.decode_ns, one.is_sync, sent(file, &one))).collect::<Vec<_>>()
    };
    let plain = samples(&content);
    assert!(plain.iter().any(|one| one.0 == 1), "two tracks");
    // Times of arrival, parity bytes, and a damaged part amid the file.
    for (before, stride) in [(4, 192), (0, 204)] {
        let sparse = sparse(&content, before, stride);
        assert!(samples(&sparse) == plain, "{stride} bytes from packet to packet");
        let middle = sparse.len() / 2 / stride * stride;
        let damaged = [&sparse[..middle], &[0x55; 1000], &sparse[middle..]].concat();
        let left = samples(&damaged);
        let alike = left.iter().filter(|one| plain.contains(one)).count();
        assert!(alike + 3 >= plain.len(), "{alike} of {} samples", plain.len());
    }
}
