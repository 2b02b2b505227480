//! Tables of MP4 that few writers make.

mod support;

use forebay_media::Media;
use forebay_rtsp::presentation::Codec;

use support::hostile::{make, words};
use support::{H264, H265, entries, folder};

use std::sync::Arc;

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

/// A sample entry of H.264 with pictures of a width.
fn pictures(width: u8, pps: u8) -> Vec<u8> {
    let (sps, pps) = ([0x67, 66, 0, 30, 1], [0x68, pps]);
    let record = [&[1, 66, 0, 30, 0xFF, 0xE1, 0, 5][..], &sps, &[1, 0, 2], &pps].concat();
    let mut entry = vec![0; 78];
    (entry[25], entry[27]) = (width, 48);
    make(b"avc1", &[entry, make(b"avcC", &record)].concat())
}

/// An MP4 file of two pictures for each of these descriptions, the first of which is a key frame, of ten bytes each.
fn described(entries: &[Vec<u8>]) -> Vec<u8> {
    let count = entries.len() as u32;
    let table = |data: u32| {
        let runs: Vec<u32> = (1..=count).flat_map(|one| [one, 2, one]).collect();
        let places: Vec<u32> = (0..count).map(|one| data + 20 * one).collect();
        let keys: Vec<u32> = (0..count).map(|one| 2 * one + 1).collect();
        let table = [
            make(b"stsd", &[words(&[0, count]), entries.concat()].concat()),
            make(b"stsz", &words(&[0, 10, 2 * count])),
            make(b"stts", &words(&[0, 1, 2 * count, 100])),
            make(b"stss", &[words(&[0, count]), words(&keys)].concat()),
            make(b"stsc", &[words(&[0, count]), words(&runs)].concat()),
            make(b"stco", &[words(&[0, count]), words(&places)].concat()),
        ];
        let media = [
            make(b"mdhd", &words(&[0, 0, 0, 1000, 0, 0])),
            make(b"hdlr", &[&words(&[0, 0])[..], b"vide", &[0; 13]].concat()),
            make(b"minf", &make(b"stbl", &table.concat())),
        ];
        make(b"moov", &make(b"trak", &make(b"mdia", &media.concat())))
    };
    let data = table(0).len() as u32 + 8;
    let bytes: Vec<u8> = (0..2 * count as u8).flat_map(|number| [number; 10]).collect();
    [table(data), make(b"mdat", &bytes)].concat()
}

#[test]
fn a_track_plays_with_stray_bytes_in_its_boxes() {
    let whole = Media::read(&described(&[pictures(64, 1)])).expect("a film");
    let told = |media: &Media| media.tracks()[0].codec.clone();
    for stray in 1..4 {
        let mut entry = pictures(64, 1);
        // The lengths of the entry and of the record in it.
        entry[3] += stray;
        entry[89] += stray;
        entry.extend(vec![0xFF; stray.into()]);
        let media = Media::read(&described(&[entry])).expect("a film");
        assert_eq!(told(&media), told(&whole));
    }
    // A name of a handler that is not text.
    let mut content = described(&[pictures(64, 1)]);
    let at = content.windows(4).position(|four| four == b"vide").expect("a handler");
    content[at + 16] = 0xFC;
    assert_eq!(told(&Media::read(&content).expect("a film")), told(&whole));
}

#[test]
fn a_record_of_h265_that_is_cut_tells_the_sets_that_are_whole() {
    let Some(folder) = folder("a_record_of_h265_that_is_cut_tells_the_sets_that_are_whole") else { return };
    let film = folder.encode(1, &format!("-map 0:v {H265} -tag:v hvc1"), "a.mp4");
    let mut content = std::fs::read(&film).expect("a film");
    let whole = Media::read(&content).expect("a film");
    let at = content.windows(4).position(|four| four == b"hvcC").expect("a record");
    let bytes = u32::from_be_bytes(content[at - 4..at].try_into().expect("four bytes"));
    let end = at - 4 + bytes as usize;
    // The last byte is another box's, which is none.
    content[at - 4..at].copy_from_slice(&(bytes - 1).to_be_bytes());
    content[end - 1] = 0;
    let media = Media::read(&content).expect("a film");
    let sets = |media: &Media| match &media.tracks()[0].codec {
        Codec::H265 { vps, sps, .. } => (vps.clone(), sps.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!((sets(&media), sets(&media).1.len()), (sets(&whole), 1));
    assert_eq!(entries(&media, 0).len(), entries(&whole, 0).len());
}

/// The samples as they are sent.
fn sent(file: &[u8], media: Media) -> Vec<Vec<u8>> {
    let plan = Arc::new(media).plan(&[0], 0);
    let unpack = |sample: forebay_media::Sample| {
        let mut bytes = file[sample.at.start as usize..sample.at.end as usize].to_vec();
        let count = sample.packing.unpack(&mut bytes);
        bytes.truncate(count);
        bytes
    };
    plan.map(unpack).collect()
}

#[test]
fn key_frames_have_the_parameter_sets_of_their_description_before_them() {
    let file = described(&[pictures(64, 1), pictures(64, 2), pictures(64, 1)]);
    let media = Media::read(&file).expect("a film");
    assert!(media.left_out().is_empty(), "{:?}", media.left_out());
    let again = Media::from_bytes(&media.to_bytes(), file.len() as u64).expect("the same");
    let key = |number: u8, pps: u8| {
        [&[0, 0, 0, 5, 0x67, 66, 0, 30, 1, 0, 0, 0, 2, 0x68, pps][..], &[number; 10]].concat()
    };
    let other = |number: u8| vec![number; 10];
    let expected = [key(0, 1), other(1), key(2, 2), other(3), key(4, 1), other(5)];
    assert_eq!(sent(&file, media), expected);
    assert_eq!(sent(&file, again), expected);
    // Where all are the same, and where pictures have another size.
    let file = described(&[pictures(64, 1), pictures(64, 1), pictures(32, 2)]);
    let media = Media::read(&file).expect("a film");
    assert_eq!(media.left_out(), ["samples that are coded otherwise than most of avc1"]);
    assert_eq!(sent(&file, media), [0, 1, 2, 3].map(other));
}

#[test]
fn parameter_sets_that_only_samples_have_are_told() {
    let Some(folder) = folder("parameter_sets_that_only_samples_have_are_told") else { return };
    let h265 = H265.replace("keyint=12", "keyint=12:repeat-headers=1");
    for (options, record, count_at) in [
        (format!("{H264} -x264-params repeat-headers=1"), b"avcC", 5),
        (format!("{h265} -tag:v hev1"), b"hvcC", 22),
    ] {
        let path = folder.encode(2, &format!("{options} -an"), "told.mp4");
        let mut file = std::fs::read(path).expect("a file");
        let told = Media::read(&file).expect("a film").tracks()[0].codec.clone();
        let record = file.windows(4).position(|name| name == record).expect("a record") + 4;
        let end = record + usize::from(file[record - 5]) - 8;
        file[record + count_at..end].fill(0);
        assert_eq!(Media::read(&file).expect("a film").tracks()[0].codec, told);
    }
}
