//! Tracks of Matroska as few writers describe them.

mod support;

use std::sync::Arc;

use forebay_media::Media;
use forebay_rtsp::presentation::Codec;

use support::matroska::{element, sound};

/// Twenty frames.
fn frames() -> Vec<Vec<u8>> {
    (0..20_usize).map(|number| [&[0x0B, 0x77][..], &vec![number as u8; 20 + number % 7]].concat()).collect()
}

/// What is done to the frames of a track: how, and with which bytes.
fn encoded(how: u8, bytes: &[u8]) -> Vec<u8> {
    let compression = [element(&[0x42, 0x54], &[how]), element(&[0x42, 0x55], bytes)].concat();
    let encoding = [element(&[0x50, 0x33], &[0]), element(&[0x50, 0x34], &compression)].concat();
    element(&[0x6D, 0x80], &element(&[0x62, 0x40], &encoding))
}

/// The samples as they are sent.
fn sent(file: &[u8]) -> Vec<Vec<u8>> {
    let media = Arc::new(Media::read(&file.to_vec()).expect("sound"));
    let sample = |one: forebay_media::Sample| {
        let mut bytes = file[one.at.start as usize..one.at.end as usize].to_vec();
        let count = one.packing.unpack(&mut bytes);
        bytes.truncate(count);
        bytes
    };
    media.plan(&[0], 0).map(sample).collect()
}

#[test]
fn frames_get_back_the_first_bytes_that_were_taken_out_of_them() {
    let whole = frames();
    let stripped: Vec<&[u8]> = whole.iter().map(|frame| &frame[2..]).collect();
    for per_block in [1, 4] {
        let file = sound(b"A_AC3", &encoded(3, &[0x0B, 0x77]), &stripped, per_block, 32);
        assert_eq!(sent(&file), whole);
    }
    // Compressed in another way, frames would have to be changed.
    let file = sound(b"A_AC3", &encoded(0, &[]), &stripped, 1, 32);
    let error = Media::read(&file).expect_err("nothing to serve").to_string();
    assert!(error.contains("A_AC3 that is compressed by the container"), "{error}");
}

#[test]
fn aac_without_a_configuration_is_described_by_its_track() {
    let frames = frames();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    for (name, config) in [
        (&b"A_AAC"[..], [0x11, 0x90]),
        (b"A_AAC/MPEG4/LC", [0x11, 0x90]),
        (b"A_AAC/MPEG2/LC/SBR", [0x11, 0x90]),
        (b"A_AAC/MPEG4/MAIN", [0x09, 0x90]),
    ] {
        let media = Media::read(&sound(name, &[], &frames, 1, 21)).expect("sound");
        let expected = Codec::Aac { config: config.to_vec(), clock_rate: 48_000, channels: 2 };
        assert_eq!(media.tracks()[0].codec, expected);
    }
}

#[test]
fn strings_may_end_in_zeros() {
    let frames = frames();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    // As GStreamer writes them.
    let language = element(&[0x22, 0xB5, 0x9C], b"deu\0");
    let media = Media::read(&sound(b"A_AC3\0", &language, &frames, 1, 32)).expect("sound");
    let track = &media.tracks()[0];
    assert_eq!(track.codec, Codec::Ac3 { clock_rate: 48_000, channels: 2 });
    assert_eq!(track.language.as_deref(), Some("deu"));
    let error = Media::read(&sound(b"A_DTS\0", &[], &frames, 1, 32)).expect_err("no codec").to_string();
    assert!(error.contains("A_DTS, which is no codec"), "{error}");
}

#[test]
fn frames_of_sound_are_all_sent_whatever_is_told_of_them() {
    const FRAME_MS: u16 = 32;
    let whole = frames();
    let frames: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
    let mut file = sound(b"A_AC3", &[], &frames, 1, FRAME_MS.into());
    // GStreamer calls the last frame alone a key frame.
    for number in 0..frames.len() as u16 - 1 {
        let [high, low] = (FRAME_MS * number).to_be_bytes();
        let block = file.windows(5).position(|bytes| bytes == [0x81, high, low, 0x82, 0]);
        file[block.expect("a block") + 3] = 2;
    }
    assert_eq!(sent(&file), whole);
}
