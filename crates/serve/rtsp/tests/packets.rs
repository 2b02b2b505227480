//! What is sent comes back bit by bit, whatever the sizes.

#[path = "support/depacketise.rs"]
mod depacketise;
#[path = "support/sending.rs"]
mod sending;

use forebay_rtsp::packetise::{Format, Framing, Packetiser, Sample, Unsendable};
use proptest::prelude::*;
use sending::{Arrived, bytes_max, content, lay_out, payloads, send};

fn framed(units: &[Vec<u8>], framing: Framing) -> Vec<u8> {
    let mut bytes = vec![];
    for (index, unit) in units.iter().enumerate() {
        match framing {
            Framing::Lengths(count) => {
                bytes.extend(&(unit.len() as u32).to_be_bytes()[4 - usize::from(count)..])
            }
            Framing::StartCodes if index % 2 == 0 => bytes.extend([0, 0, 0, 1]),
            Framing::StartCodes => bytes.extend([0, 0, 1]),
        }
        bytes.extend(unit);
    }
    bytes
}

#[test]
fn small_units_share_a_packet_that_begins_with_what_all_of_them_need() {
    let units = [vec![0x67, 1, 2], vec![0x68, 3], vec![0x06, 4]];
    let (buffer, samples) = lay_out(&[framed(&units, Framing::Lengths(4))]);
    let arrived = send(Format::H264(Framing::Lengths(4)), &buffer, &samples, 1400);
    assert_eq!(payloads(arrived), [[24 | 0x60, 0, 3, 0x67, 1, 2, 0, 2, 0x68, 3, 0, 2, 0x06, 4]]);

    let units = [vec![0x40, 0x0A, 1], vec![0x42, 0x03, 2]];
    let (buffer, samples) = lay_out(&[framed(&units, Framing::Lengths(2))]);
    let arrived = send(Format::H265(Framing::Lengths(2)), &buffer, &samples, 1400);
    assert_eq!(payloads(arrived), [[48 << 1, 0x02, 0, 3, 0x40, 0x0A, 1, 0, 3, 0x42, 0x03, 2]]);
}

#[test]
fn a_large_unit_goes_in_parts_that_say_which_is_the_first_and_the_last() {
    let mut unit = vec![0x65];
    unit.extend([7; 300]);
    let (buffer, samples) = lay_out(&[framed(&[unit], Framing::Lengths(4))]);
    let arrived = send(Format::H264(Framing::Lengths(4)), &buffer, &samples, 200);
    let heads: Vec<_> =
        arrived.iter().map(|one| (one.payload[..2].to_vec(), one.payload.len(), one.is_marked)).collect();
    assert_eq!(heads, [(vec![0x7C, 0x85], 188, false), (vec![0x7C, 0x45], 116, true)]);
}

#[test]
fn units_that_receivers_would_misread_are_left_out() {
    let units = [vec![0x67, 1], vec![], vec![0x78, 2], vec![0x00, 3], vec![0x65, 4]];
    let (buffer, samples) = lay_out(&[framed(&units, Framing::Lengths(4))]);
    let arrived = send(Format::H264(Framing::Lengths(4)), &buffer, &samples, 1400);
    assert_eq!(depacketise::h264(&payloads(arrived)), [[0x67, 1], [0x65, 4]]);
}

#[test]
fn damaged_samples_are_named() {
    let attempt = |format, buffer: &[u8], at| {
        let mut packetiser = Packetiser::new(format, 96, 1, 0, 1400);
        packetiser.packetise(buffer, &[Sample { at, timestamp: 0 }], &mut vec![])
    };
    let h264 = Format::H264(Framing::Lengths(4));
    let too_long = |bytes, bytes_max| Err(Unsendable::TooLong { bytes, bytes_max });
    let buffer = [0, 0, 0, 9, 0x65, 1];
    assert_eq!(attempt(h264, &buffer, 0..7), Err(Unsendable::OutOfBuffer { buffer_bytes: 6 }));
    assert_eq!(
        attempt(h264, &buffer, 0..6),
        Err(Unsendable::NalOutOfSample { unit_bytes: 9, left_bytes: 6 })
    );
    assert_eq!(
        attempt(h264, &buffer, 4..6),
        Err(Unsendable::NalOutOfSample { unit_bytes: 0x6501, left_bytes: 2 })
    );
    assert_eq!(attempt(Format::Aac, &[0; 8192], 0..8192), too_long(8192, 8191));
    assert_eq!(attempt(Format::MpegAudio, &[0; 65536], 0..65536), too_long(65536, 65535));
    assert_eq!(attempt(Format::Opus, &[0; 65524], 0..65524), too_long(65524, 65523));
    assert_eq!(
        attempt(Format::MpegTransport, &[0; 189], 0..189),
        Err(Unsendable::NotInPackets { bytes: 189 })
    );
}

fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![
        Just(Framing::Lengths(1)),
        Just(Framing::Lengths(2)),
        Just(Framing::Lengths(4)),
        Just(Framing::StartCodes),
    ]
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![5 => 0..30usize, 3 => 180..260usize, 2 => 1100..1500usize, 1 => 1000..20_000usize]
}

fn access_units(header: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let unit = (header, content(sizes())).prop_map(|(header, content)| [header, content].concat());
    prop::collection::vec(prop::collection::vec(unit, 1..12), 1..4)
}

fn h264_header() -> impl Strategy<Value = Vec<u8>> {
    (0..8u8, 1..24u8).prop_map(|(bits, kind)| vec![bits << 5 | kind])
}

fn h265_header() -> impl Strategy<Value = Vec<u8>> {
    (0..2u8, 0..48u8, any::<u8>())
        .prop_map(|(bit, kind, rest)| vec![bit << 7 | kind << 1 | rest >> 7, rest.max(1)])
}

/// Units that the lengths have no room for cannot be in a sample.
fn fit(mut units: Vec<Vec<Vec<u8>>>, framing: Framing) -> Vec<Vec<Vec<u8>>> {
    if framing == Framing::Lengths(1) {
        units.iter_mut().flatten().for_each(|unit| unit.truncate(255));
    }
    units
}

fn check_video(
    arrived: Vec<Arrived>,
    access_units: &[Vec<Vec<u8>>],
    read: fn(&[Vec<u8>]) -> Vec<Vec<u8>>,
) -> Result<(), TestCaseError> {
    let mut arrived = arrived.into_iter().peekable();
    for (index, expected) in access_units.iter().enumerate() {
        let mut of_unit = vec![];
        while let Some(one) = arrived.next_if(|one| one.timestamp == 1000 * index as u32) {
            prop_assert_eq!(one.is_marked, arrived.peek().is_none_or(|next| next.timestamp != one.timestamp));
            of_unit.push(one.payload);
        }
        prop_assert_eq!(&read(&of_unit), expected);
    }
    prop_assert!(arrived.next().is_none());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn h264_comes_back(units in access_units(h264_header()), framing in framing(), bytes_max in bytes_max()) {
        let units = fit(units, framing);
        let samples: Vec<_> = units.iter().map(|units| framed(units, framing)).collect();
        let (buffer, samples) = lay_out(&samples);
        check_video(send(Format::H264(framing), &buffer, &samples, bytes_max), &units, depacketise::h264)?;
    }

    #[test]
    fn h265_comes_back(units in access_units(h265_header()), framing in framing(), bytes_max in bytes_max()) {
        let units = fit(units, framing);
        let samples: Vec<_> = units.iter().map(|units| framed(units, framing)).collect();
        let (buffer, samples) = lay_out(&samples);
        check_video(send(Format::H265(framing), &buffer, &samples, bytes_max), &units, depacketise::h265)?;
    }

    #[test]
    fn aac_comes_back(
        units in prop::collection::vec(content(prop_oneof![0..400usize, 0..8192usize]), 0..20),
        bytes_max in bytes_max(),
    ) {
        let (buffer, samples) = lay_out(&units);
        let arrived = send(Format::Aac, &buffer, &samples, bytes_max);
        let packets: Vec<_> = arrived.into_iter().map(|one| (one.payload, one.is_marked)).collect();
        prop_assert_eq!(depacketise::aac(&packets), units);
    }

    #[test]
    fn mpeg_audio_comes_back(
        frames in prop::collection::vec(content(prop_oneof![1..500usize, 1..2000usize]), 0..20),
        bytes_max in bytes_max(),
    ) {
        let (buffer, samples) = lay_out(&frames);
        let arrived = send(Format::MpegAudio, &buffer, &samples, bytes_max);
        prop_assert!(arrived.iter().all(|one| !one.is_marked));
        prop_assert_eq!(depacketise::mpeg_audio(&payloads(arrived)), frames.concat());
    }

    #[test]
    fn opus_and_transport_streams_come_back(
        packets in prop::collection::vec(content(0..3000usize), 0..10),
        counts in prop::collection::vec(0..30usize, 0..5),
        bytes_max in bytes_max(),
    ) {
        let (buffer, samples) = lay_out(&packets);
        prop_assert_eq!(payloads(send(Format::Opus, &buffer, &samples, bytes_max)), packets);
        let chunks: Vec<Vec<u8>> = counts.iter().map(|count| [0x47; 188].repeat(*count)).collect();
        let (buffer, samples) = lay_out(&chunks);
        let payloads = payloads(send(Format::MpegTransport, &buffer, &samples, bytes_max));
        prop_assert!(payloads.iter().all(|payload| payload.len() % 188 == 0));
        prop_assert_eq!(payloads.concat(), chunks.concat());
    }

    #[test]
    fn no_sample_makes_it_panic(
        buffer in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..700),
        places in prop::collection::vec((0..720usize, 0..720usize), 0..5),
        framing in framing(),
        format in 0..6usize,
    ) {
        let formats = [Format::H264(framing), Format::H265(framing), Format::Aac, Format::Opus, Format::MpegAudio, Format::MpegTransport];
        let samples: Vec<_> = places.iter().map(|(start, end)| Sample { at: *start..*end, timestamp: 0 }).collect();
        let mut packets = vec![];
        let _ = Packetiser::new(formats[format], 96, 1, 0, 200).packetise(&buffer, &samples, &mut packets);
        let mut bytes = vec![];
        packets.iter().for_each(|packet| packet.copy_to(&buffer, &mut bytes));
    }
}
