//! Payloads without NAL units: their first bytes are those of their specifications, and what is sent comes back bit by bit.

#[path = "support/depayload.rs"]
mod depayload;
#[path = "support/sending.rs"]
mod sending;

use forebay_rtsp::packetise::jpeg::{Unfit, check};
use forebay_rtsp::packetise::{Format, Packetiser, Sample, Unsendable};
use proptest::prelude::*;
use sending::{Arrived, bytes_max, content, lay_out, payloads, send};

/// The packets of one sample.
fn send_one(format: Format, sample: &[u8], packet_bytes_max: usize) -> Vec<Arrived> {
    let (buffer, samples) = lay_out(&[sample.to_vec()]);
    send(format, &buffer, &samples, packet_bytes_max)
}

/// What each packet of 300 bytes begins with, and whether it is marked.
fn heads(format: Format, bytes: usize) -> Vec<(Vec<u8>, bool)> {
    let arrived = send_one(format, &[0x77; 300], 200);
    arrived.into_iter().map(|one| (one.payload[..bytes].to_vec(), one.is_marked)).collect()
}

#[test]
fn each_part_begins_as_its_payload_format_has_it() {
    assert_eq!(heads(Format::Vp8, 1), [(vec![0x10], false), (vec![0x00], true)]);
    // 0x77 is a frame that others come before.
    assert_eq!(heads(Format::Vp9, 1), [(vec![0x48], false), (vec![0x44], true)]);
    assert_eq!(heads(Format::Mpeg4, 1), [(vec![0x77], false), (vec![0x77], true)]);
    assert_eq!(heads(Format::Klv, 1), [(vec![0x77], false), (vec![0x77], true)]);
    // The first part has 186 bytes, less than five eighths of 300.
    assert_eq!(heads(Format::Ac3, 2), [(vec![2, 2], false), (vec![3, 2], true)]);
    assert_eq!(heads(Format::Eac3, 2), [(vec![1, 2], false), (vec![1, 2], true)]);
    let vorbis = Format::Vorbis { ident: 0x00AB_CDEF };
    let (first, last) = (vec![0xAB, 0xCD, 0xEF, 0x40, 0, 182], vec![0xAB, 0xCD, 0xEF, 0xC0, 0, 118]);
    assert_eq!(heads(vorbis, 6), [(first, false), (last, false)]);
}

#[test]
fn a_small_sample_is_a_packet() {
    let whole = |format, sample: &[u8]| payloads(send_one(format, sample, 1400));
    assert_eq!(whole(Format::Vp8, &[1, 2]), [[0x10, 1, 2]]);
    assert_eq!(whole(Format::Vp9, &[0x82, 2]), [[0x0C, 0x82, 2]]);
    assert_eq!(whole(Format::Vp9, &[0x86, 2]), [[0x4C, 0x86, 2]]);
    assert_eq!(whole(Format::Ac3, &[0x0B, 0x77]), [[0, 1, 0x0B, 0x77]]);
    assert_eq!(whole(Format::Eac3, &[0x0B, 0x77]), [[0, 1, 0x0B, 0x77]]);
    assert_eq!(whole(Format::Vorbis { ident: 1 }, &[7]), [[0, 0, 1, 1, 0, 1, 7]]);
    assert_eq!(whole(Format::Pcm { frame_bytes: 4 }, &[1, 2, 3, 4, 5]), [[1, 2, 3, 4]]);
    assert_eq!(whole(Format::T140 { generations: 0 }, b"hi"), [b"hi\xE2\x80\xA8"]);
    assert_eq!(whole(Format::T140 { generations: 2 }, b"hi"), [b"ahi\xE2\x80\xA8"]);
}

#[test]
fn a_text_is_repeated_in_the_packets_after_it() {
    let texts = ["one", "", "three", "", "", ""].map(|text| text.as_bytes().to_vec());
    let (buffer, mut places) = lay_out(&texts);
    places[5].timestamp = 90_000;
    let arrived = send(Format::T140 { generations: 2 }, &buffer, &places, 1400);
    let (one, three) = ("one\u{2028}", "three\u{2028}");
    // A second is 1000 ticks: in 14 bits before 10 for the length.
    let head = |ms: u32, text: &str| (1 << 31 | 97 << 24 | ms << 10 | text.len() as u32).to_be_bytes();
    let packet =
        |heads: &[[u8; 4]], texts: &[&str]| [heads.concat(), vec![97], texts.concat().into_bytes()].concat();
    let expected = [
        packet(&[], &[one]),
        packet(&[head(1000, one)], &[one]),
        packet(&[head(2000, one), head(1000, "")], &[one, three]),
        packet(&[head(2000, ""), head(1000, three)], &[three]),
        packet(&[head(2000, three), head(1000, "")], &[three]),
    ];
    assert!(arrived.iter().map(|one| one.is_marked).eq([true, false, true, false, false]));
    assert_eq!(payloads(arrived), expected);
    let huge = vec![b'a'; 1 << 16];
    let samples = [Sample { at: 0..huge.len(), timestamp: 0 }];
    let result = Packetiser::new(Format::T140 { generations: 0 }, 96, 1, 0, 1400).packetise(
        &huge,
        &samples,
        &mut vec![],
    );
    assert!(matches!(result, Err(Unsendable::TooLong { .. })), "{result:?}");
}

#[test]
fn most_of_a_frame_in_its_first_part_is_told() {
    let arrived = send_one(Format::Ac3, &[0x0B; 297], 200);
    assert_eq!(arrived[0].payload[..2], [1, 2]);
}

#[test]
fn obus_lose_their_lengths_and_delimiters_are_left_out() {
    // A delimiter, a sequence header, a frame with an extension, and a frame that goes on to the end of its sample.
    let unit = [0x12, 0, 0x0A, 2, 7, 8, 0x36, 0x48, 1, 9, 0x30, 5, 6];
    let arrived = send_one(Format::Av1, &unit, 1400);
    assert_eq!(arrived.iter().map(|one| one.is_marked).collect::<Vec<_>>(), [false, false, true]);
    let expected = [vec![0x18, 0x08, 7, 8], vec![0x10, 0x34, 0x48, 9], vec![0x10, 0x30, 5, 6]];
    assert_eq!(payloads(arrived), expected);
    let large = [&[0x32, 0xAC, 0x02][..], &[3; 300]].concat();
    let arrived = send_one(Format::Av1, &large, 200);
    let heads: Vec<_> = arrived.iter().map(|one| (one.payload[0], one.payload.len())).collect();
    assert_eq!(heads, [(0x50, 187), (0x90, 116)]);
}

#[test]
fn obus_that_lead_out_of_their_sample_are_named() {
    let attempt = |bytes: &[u8]| {
        let samples = [Sample { at: 0..bytes.len(), timestamp: 0 }];
        Packetiser::new(Format::Av1, 96, 1, 0, 1400).packetise(bytes, &samples, &mut vec![])
    };
    let out = |unit_bytes, left_bytes| Err(Unsendable::ObuOutOfSample { unit_bytes, left_bytes });
    assert_eq!(attempt(&[0x0A, 3, 1, 2]), out(3, 4));
    assert_eq!(attempt(&[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]), out((1 << 56) - 1, 9));
    assert_eq!(attempt(&[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), out(0, 9));
    assert_eq!(attempt(&[0x0E]), out(2, 1));
    assert_eq!(attempt(&[]), Ok(()));
}

#[test]
fn a_packet_of_plain_sound_has_the_time_of_its_first_frame() {
    let arrived = send_one(Format::Pcm { frame_bytes: 6 }, &[1; 600], 200);
    let told: Vec<_> = arrived.iter().map(|one| (one.timestamp, one.payload.len())).collect();
    assert_eq!(told, [(0, 186), (31, 186), (62, 186), (93, 42)]);
}

/// A segment of a JPEG file.
fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
    [&[0xFF, marker][..], &(content.len() as u16 + 2).to_be_bytes(), content].concat()
}

/// A picture of 160x120 with these samplings, whose entropy-coded bytes are `scan`.
fn picture(sampling: u8, restart_interval: u16, scan: &[u8]) -> Vec<u8> {
    let mut file = vec![0xFF, 0xD8];
    file.extend(segment(0xE0, b"JFIF\0"));
    file.extend(segment(0xDB, &[&[0][..], &[16; 64], &[1], &[17; 64]].concat()));
    file.extend(segment(0xC0, &[8, 0, 120, 0, 160, 3, 1, sampling, 0, 2, 0x11, 1, 3, 0x11, 1]));
    if restart_interval > 0 {
        file.extend(segment(0xDD, &restart_interval.to_be_bytes()));
    }
    file.extend(segment(0xDA, &[3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]));
    file.extend(scan);
    file.extend([0xFF, 0xD9]);
    file
}

#[test]
fn a_picture_of_jpeg_goes_with_its_tables_and_without_its_headers() {
    let arrived = send_one(Format::Jpeg, &picture(0x22, 0, &[5; 400]), 300);
    let first = &arrived[0].payload;
    assert_eq!(first[..12], [0, 0, 0, 0, 1, 255, 20, 15, 0, 0, 0, 128]);
    assert_eq!((&first[12..76], &first[76..140], first[140]), (&[16; 64][..], &[17; 64][..], 5));
    assert_eq!((first.len(), arrived[1].payload[..8].to_vec()), (288, vec![0, 0, 0, 148, 1, 255, 20, 15]));
    let arrived = send_one(Format::Jpeg, &picture(0x21, 10, &[5; 20]), 300);
    assert_eq!(arrived[0].payload[4..12], [64, 255, 20, 15, 0, 10, 0xFF, 0xFF]);
}

#[test]
fn pictures_that_receivers_could_not_make_again_are_refused() {
    let change = |marker: u8, offset: usize, value: u8| {
        let mut file = picture(0x22, 0, &[5; 20]);
        let at = file.windows(2).position(|two| two == [0xFF, marker]).expect("a segment");
        file[at + offset] = value;
        check(&file)
    };
    assert_eq!(check(&picture(0x22, 0, &[5; 20])), Ok(()));
    assert_eq!(check(&picture(0x11, 0, &[5; 20])), Err(Unfit::Sampling));
    assert_eq!(change(0xC0, 1, 0xC2), Err(Unfit::NotBaseline));
    assert_eq!(change(0xC0, 4, 12), Err(Unfit::NotBaseline));
    assert_eq!(change(0xC0, 7, 0x20), Err(Unfit::TooLarge { width: 0x20A0, height: 120 }));
    assert_eq!(change(0xC0, 9, 1), Err(Unfit::Sampling));
    assert_eq!(change(0xDB, 4, 0x10), Err(Unfit::NotBaseline));
    assert_eq!(change(0xDA, 6, 0x11), Err(Unfit::Huffman));
    assert_eq!(change(0xDA, 3, 0xFF), Err(Unfit::Damaged));
    assert_eq!(check(&[0xFF, 0xD8, 0xFF]), Err(Unfit::Damaged));
    assert_eq!(check(b"no picture"), Err(Unfit::Damaged));
    let own = [&[0xFF, 0xD8][..], &segment(0xC4, &[&[0, 1][..], &[0; 15], &[7]].concat())].concat();
    assert_eq!(check(&own), Err(Unfit::Huffman));
    let one = picture(0x22, 0, &[5; 20]);
    assert_eq!(check(&[one.clone(), one].concat()), Err(Unfit::Fields));
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![5 => 1..30usize, 3 => 170..260usize, 2 => 1100..1500usize, 1 => 1000..20_000usize]
}

fn samples() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(content(sizes()), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn samples_in_parts_come_back(samples in samples(), bytes_max in bytes_max()) {
        let (buffer, places) = lay_out(&samples);
        let sent = |format| send(format, &buffer, &places, bytes_max);
        prop_assert_eq!(&depayload::vp8(&sent(Format::Vp8)), &samples);
        prop_assert_eq!(&depayload::vp9(&sent(Format::Vp9)), &samples);
        prop_assert_eq!(&depayload::bare(&sent(Format::Mpeg4)), &samples);
        prop_assert_eq!(&depayload::bare(&sent(Format::Klv)), &samples);
        prop_assert_eq!(&depayload::ac3(&sent(Format::Ac3), false), &samples);
        prop_assert_eq!(&depayload::ac3(&sent(Format::Eac3), true), &samples);
        let ident = 0x0012_3456;
        prop_assert_eq!(&depayload::vorbis(&sent(Format::Vorbis { ident }), ident), &samples);
    }

    #[test]
    fn of_texts_that_are_repeated_two_packets_in_turn_may_be_lost(
        texts in prop::collection::vec("[a-z\u{e9}\u{4e2d}]{0,400}", 0..8),
        lost in prop::collection::vec(any::<bool>(), 200),
        bytes_max in bytes_max(),
    ) {
        let samples = texts.iter().map(|text| text.clone().into_bytes()).chain([vec![], vec![]]);
        let (buffer, places) = lay_out(&samples.collect::<Vec<_>>());
        let expected: String = texts.iter().filter(|text| !text.is_empty()).map(|text| text.clone() + "\u{2028}").collect();
        let sent = |generations| send(Format::T140 { generations }, &buffer, &places, bytes_max);
        let plain = payloads(sent(0));
        prop_assert!(plain.iter().all(|part| std::str::from_utf8(part).is_ok()), "a letter in two packets");
        prop_assert_eq!(String::from_utf8(plain.concat()).expect("text"), expected.clone());
        let (mut in_turn, sent) = (0, sent(2));
        let last = sent.len().saturating_sub(1);
        let arrive = |(number, one): (usize, Arrived)| {
            let is_lost = number < last && in_turn < 2 && lost[number % lost.len()];
            in_turn = if is_lost { in_turn + 1 } else { 0 };
            (!is_lost).then_some(one.payload)
        };
        let arrived: Vec<_> = sent.into_iter().enumerate().map(arrive).collect();
        prop_assert_eq!(depayload::repeated(&arrived), expected);
    }

    #[test]
    fn plain_sound_comes_back(
        counts in prop::collection::vec(0..3000usize, 0..6),
        frame_bytes in 1..48u8,
        bytes_max in bytes_max(),
    ) {
        let samples: Vec<Vec<u8>> = counts.iter().map(|count| vec![*count as u8; count * usize::from(frame_bytes)]).collect();
        let (buffer, places) = lay_out(&samples);
        let arrived = send(Format::Pcm { frame_bytes }, &buffer, &places, bytes_max);
        prop_assert!(arrived.iter().all(|one| one.payload.len() % usize::from(frame_bytes) == 0));
        prop_assert_eq!(payloads(arrived).concat(), samples.concat());
    }

    #[test]
    fn temporal_units_come_back(
        units in prop::collection::vec(prop::collection::vec((0..16u8, any::<bool>(), content(sizes())), 1..6), 1..4),
        bytes_max in bytes_max(),
    ) {
        let mut expected = vec![];
        let mut samples = vec![];
        for unit in &units {
            let (mut obus, mut sample) = (vec![], vec![]);
            for (kind, has_extension, content) in unit {
                let header = if *has_extension { vec![kind << 3 | 4, 0x28] } else { vec![kind << 3] };
                sample.push(header[0] | 2);
                sample.extend(&header[1..]);
                let mut rest = content.len();
                while rest >= 128 {
                    sample.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                sample.push(rest as u8);
                sample.extend(content);
                if !matches!(kind, 2 | 8) {
                    obus.push([header, content.clone()].concat());
                }
            }
            samples.push(sample);
            expected.extend((!obus.is_empty()).then_some(obus));
        }
        let (buffer, places) = lay_out(&samples);
        prop_assert_eq!(depayload::av1(&send(Format::Av1, &buffer, &places, bytes_max)), expected);
    }

    #[test]
    fn pictures_of_jpeg_come_back(
        scans in prop::collection::vec(content(sizes()), 1..4),
        is_halved in any::<bool>(),
        restart_interval in prop_oneof![Just(0u16), any::<u16>()],
        bytes_max in bytes_max(),
    ) {
        let scans: Vec<Vec<u8>> = scans.into_iter().map(|scan| scan.into_iter().map(|byte| byte.min(0xFE)).collect()).collect();
        let sampling = if is_halved { 0x21 } else { 0x22 };
        let samples: Vec<_> = scans.iter().map(|scan| picture(sampling, restart_interval, scan)).collect();
        let (buffer, places) = lay_out(&samples);
        let got = depayload::jpeg(&send(Format::Jpeg, &buffer, &places, bytes_max));
        let expected: Vec<_> = scans.into_iter().map(|scan| depayload::Jpeg {
            kind: u8::from(!is_halved),
            width: 160,
            height: 120,
            restart_interval,
            tables: [[16; 64], [17; 64]].concat(),
            scan,
        }).collect();
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn no_sample_makes_it_panic(
        mut buffer in prop::collection::vec(any::<u8>(), 0..900),
        starts in prop::sample::select(vec![vec![], picture(0x22, 3, &[9; 40]), vec![0x12, 0, 0x0A, 0x0B]]),
        mistakes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        places in prop::collection::vec((0..720usize, 0..720usize), 0..5),
        number in 0..11usize,
    ) {
        buffer.splice(0..0, starts);
        for (at, byte) in mistakes {
            if !buffer.is_empty() {
                let at = at.index(buffer.len());
                buffer[at] = byte;
            }
        }
        let formats = [
            Format::Vp8, Format::Vp9, Format::Av1, Format::Ac3, Format::Eac3, Format::Jpeg, Format::Klv,
            Format::Pcm { frame_bytes: 6 }, Format::Vorbis { ident: 1 }, Format::T140 { generations: 0 },
            Format::T140 { generations: 2 },
        ];
        let whole = Sample { at: 0..buffer.len(), timestamp: 0 };
        let samples = places.iter().map(|(start, end)| Sample { at: *start..*end, timestamp: 0 });
        let samples: Vec<_> = [whole].into_iter().chain(samples).collect();
        let mut packets = vec![];
        let mut packetiser = Packetiser::new(formats[number], 96, 1, 0, 200);
        for sample in samples {
            let _ = packetiser.packetise(&buffer, &[sample], &mut packets);
        }
        assert!(packets.iter().all(|packet| packet.bytes() <= 200));
    }
}
