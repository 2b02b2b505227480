//! Tables of MP4 that few writers make.

mod support;

use forebay_media::Media;
use forebay_rtsp::presentation::Codec;

use support::entries;
use support::hostile::{make, words};

/// An MP4 file of sound whose five samples of 10, 0, 20, 30 and 40 bytes lie in chunks of one.
fn film(sizes: &[u8], descriptions: &[&[u8; 4]], chunks: &[u32]) -> Vec<u8> {
    let entries: Vec<u8> = descriptions.iter().flat_map(|name| make(name, &sound(2, 8_000))).collect();
    let table = |data: u32| {
        let runs: Vec<u32> =
            (1..).zip(chunks).flat_map(|(chunk, description)| [chunk, 1, *description]).collect();
        let places = [0, 10, 10, 30, 60].map(|place| data + place);
        let table = [
            make(b"stsd", &[words(&[0, descriptions.len() as u32]), entries.clone()].concat()),
            sizes.to_vec(),
            make(b"stts", &words(&[0, 1, 5, 100])),
            make(b"stsc", &[words(&[0, chunks.len() as u32]), words(&runs)].concat()),
            make(b"stco", &[words(&[0, 5]), words(&places)].concat()),
        ];
        let media = [
            make(b"mdhd", &words(&[0, 0, 0, 1000, 0, 0])),
            make(b"hdlr", &[&words(&[0, 0])[..], b"soun", &[0; 13]].concat()),
            make(b"minf", &make(b"stbl", &table.concat())),
        ];
        make(b"moov", &make(b"trak", &make(b"mdia", &media.concat())))
    };
    let data = table(0).len() as u32 + 8;
    [table(data), make(b"mdat", &[7; 100])].concat()
}

fn sound(channels: u16, rate: u32) -> Vec<u8> {
    let (channels, rate) = (channels.to_be_bytes(), (rate << 16).to_be_bytes());
    [&[0; 16][..], &channels, &[0, 16, 0, 0, 0, 0], &rate].concat()
}

fn plain_sizes() -> Vec<u8> {
    make(b"stsz", &words(&[0, 0, 5, 10, 0, 20, 30, 40]))
}

/// When samples come, and how long they are.
fn samples(media: &Media) -> Vec<(i64, u32)> {
    entries(media, 0).iter().map(|one| (one.presentation, one.bytes)).collect()
}

#[test]
fn samples_with_the_description_that_most_have_are_served() {
    let media = Media::read(&film(&plain_sizes(), &[b"Opus", b".mp3"], &[2, 2, 2, 1, 2])).expect("a film");
    assert_eq!(
        (&media.tracks()[0].codec, samples(&media)),
        (&Codec::MpegAudio, vec![(0, 10), (200, 20), (400, 40)])
    );
    assert_eq!(media.left_out(), ["samples that are coded otherwise than most of .mp3"]);
    // Descriptions that say the same are one.
    let media = Media::read(&film(&plain_sizes(), &[b".mp3", b"ms\0U"], &[2, 2, 2, 1, 2])).expect("a film");
    assert_eq!((samples(&media).len(), media.left_out().len()), (4, 0));
}

#[test]
fn lengths_of_samples_may_take_fewer_bits() {
    let packed = |bits: u32, sizes: &[u8]| make(b"stz2", &[&words(&[0, bits, 5])[..], sizes].concat());
    for (sizes, expected) in [
        (packed(16, &[0, 10, 0, 0, 0, 20, 0, 30, 0, 40]), vec![(0, 10), (200, 20), (300, 30), (400, 40)]),
        (packed(8, &[10, 0, 20, 30, 40]), vec![(0, 10), (200, 20), (300, 30), (400, 40)]),
        (packed(4, &[0xA0, 0x12, 0x30]), vec![(0, 10), (200, 1), (300, 2), (400, 3)]),
    ] {
        let media = Media::read(&film(&sizes, &[b".mp3"], &[1])).expect("a film");
        assert_eq!(samples(&media), expected);
    }
    for sizes in [packed(5, &[0; 10]), packed(8, &[1, 2, 3, 4])] {
        let error = Media::read(&film(&sizes, &[b".mp3"], &[1])).expect_err("no table").to_string();
        assert!(error.contains("stz2"), "{error}");
    }
}
