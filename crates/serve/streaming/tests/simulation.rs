//! Streams and disks in simulated time.

mod films;

use std::collections::BTreeMap;
use std::iter::Peekable;

use films::{MS, SECOND, file, film, read, setup};
use forebay_rtsp::packetise::Packet;
use forebay_streaming::buffer::{Buffer, Scratch};
use forebay_streaming::lateness::Lateness;
use forebay_streaming::pool::Pool;
use forebay_streaming::program::Planned;
use forebay_streaming::stream::{Next, Stream};

/// How long films are.
const SECONDS: u64 = 4;

/// The next buffer, in one part.
fn next(program: &mut Peekable<impl Iterator<Item = Planned>>, bytes: usize, file: &[u8]) -> Buffer {
    let mut buffer = Buffer::gather(program, bytes, bytes, &mut Scratch::default());
    assert!(Pool::new(u64::MAX).lend(&mut buffer));
    read(&mut buffer, file);
    buffer
}

/// What is to be simulated.
struct Case {
    streams: usize,
    buffers: usize,
    buffer_bytes: usize,
    lead_ns: u64,
    /// What a read takes; one is made after the other.
    read_ns: fn(usize) -> u64,
}

/// What came of it.
#[derive(Debug, Default)]
struct Outcome {
    lateness: Lateness,
    stalls: u64,
    /// Time and number of packets of each burst of the first stream's pictures.
    bursts: Vec<(u64, usize)>,
}

/// Plays films to their end, from one disk.
fn simulate(case: &Case) -> Outcome {
    let mut outcome = Outcome::default();
    let film = film(SECONDS, 4_000);
    let file = file(&film);
    let mut streams: Vec<_> = (0..case.streams)
        .map(|_| {
            let mut stream = Stream::new(case.buffers);
            stream.add_sender(setup(0, true));
            stream.add_sender(setup(1, true));
            (stream, film.clone().into_iter().peekable(), false)
        })
        .collect();
    // What the disk does, by when it is done; it is free from `disk_ns` on.
    let mut reads: BTreeMap<(u64, usize), Buffer> = BTreeMap::new();
    let (mut disk_ns, mut count) = (0, 0);
    // What is to be looked at when.
    let mut due: BTreeMap<(u64, usize), ()> = (0..case.streams).map(|number| ((0, number), ())).collect();
    while let Some(now_ns) =
        due.keys().next().map(|key| key.0).into_iter().chain(reads.keys().next().map(|key| key.0)).min()
    {
        while let Some(entry) = reads.first_entry().filter(|entry| entry.key().0 <= now_ns) {
            let ((_, number), buffer) = entry.remove_entry();
            streams[number].0.put_filled(buffer);
            due.insert((now_ns, number), ());
        }
        while let Some(entry) = due.first_entry().filter(|entry| entry.key().0 <= now_ns) {
            let ((_, number), ()) = entry.remove_entry();
            let (stream, program, has_started) = &mut streams[number];
            if !*has_started && stream.is_ready() {
                *has_started = true;
                // As clients come: one after the other.
                stream.cue(0, 0, 1.0, 1.0);
                stream.start(now_ns + number as u64 * 50 * MS);
            }
            if *has_started {
                let next = stream.advance(now_ns, true);
                let pictures = stream.bursts().filter(|burst| burst.sender == 0 && number == 0);
                outcome.bursts.extend(pictures.map(|burst| (now_ns, burst.packets.len())));
                stream.has_sent(now_ns, &mut outcome.lateness);
                if let Next::At(ns) = next {
                    due.insert((ns.max(now_ns + 1), number), ());
                }
            }
            if let Some(ns) = stream.wish_ns(case.lead_ns).filter(|ns| *ns > now_ns) {
                due.insert((ns, number), ());
            } else if stream.wish_ns(case.lead_ns).is_some() {
                stream.begin_filling();
                let buffer = next(program, case.buffer_bytes, &file);
                count += 1;
                disk_ns = disk_ns.max(now_ns) + (case.read_ns)(count);
                reads.insert((disk_ns, number), buffer);
            }
        }
    }
    outcome.stalls = streams.iter().map(|(stream, ..)| stream.counts().stalls).sum();
    outcome
}

/// A disk with a slow read among twenty.
fn slow_disk(number: usize) -> u64 {
    if number.is_multiple_of(20) { 150 * MS } else { 8 * MS }
}

#[test]
fn two_buffers_hide_a_disk_that_one_buffer_shows() {
    let of = |buffers| {
        simulate(&Case { streams: 8, buffers, buffer_bytes: 64 << 10, lead_ns: 300 * MS, read_ns: slow_disk })
    };
    let (one, two) = (of(1), of(2));
    assert!(one.stalls >= 2, "{one:?}");
    assert_eq!((two.stalls, two.lateness.max_ns()), (0, 0), "{two:?}");
    assert!(one.lateness.max_ns() >= 100 * MS, "{one:?}");
}

/// Of the same size each, so in twice the memory: in the same memory a disk that takes its time by the read serves more
/// streams from one large buffer than from two small ones.
#[test]
fn more_streams_fit_on_a_disk_with_two_buffers_of_the_same_size() {
    let most = |buffers| {
        (1..).map(|number| 10 * number).find(|streams| {
            let case = Case {
                streams: *streams,
                buffers,
                buffer_bytes: 64 << 10,
                lead_ns: 300 * MS,
                read_ns: slow_disk,
            };
            simulate(&case).lateness.max_ns() > 20 * MS
        })
    };
    let (one, two) = (most(1), most(2));
    assert!(two >= one.map(|one| 2 * one), "{one:?} {two:?}");
}

#[test]
fn a_large_picture_is_spread_over_half_of_its_time() {
    let outcome =
        simulate(&Case { streams: 1, buffers: 2, buffer_bytes: 256 << 10, lead_ns: 0, read_ns: |_| MS });
    // The first picture has 15 packets, which are two parts; the next comes after 40 ms.
    let [first, second, third, ..] = outcome.bursts.as_slice() else { panic!("{outcome:?}") };
    assert_eq!((first.1, second.1), (8, 7));
    assert_eq!(second.0 - first.0, 10 * MS);
    assert_eq!(third.0 - first.0, 40 * MS);
    assert_eq!(outcome.bursts.iter().map(|burst| burst.1).sum::<usize>(), SECONDS as usize * (15 + 24 * 3));
}

/// One stream with all of a film in one buffer.
fn filled(seconds: u64) -> Stream {
    let mut stream = Stream::new(2);
    stream.add_sender(setup(0, false));
    stream.add_sender(setup(1, false));
    let film = film(seconds, 4_000);
    stream.put_filled(next(&mut film.clone().into_iter().peekable(), 1 << 20, &file(&film)));
    stream.cue(0, 0, 1.0, 1.0);
    stream.start(0);
    stream
}

/// The pictures that a stream sends at a time.
fn pictures(stream: &mut Stream, now_ns: u64, has_room: bool) -> Vec<Packet> {
    stream.advance(now_ns, has_room);
    let packets = stream.bursts().filter(|burst| burst.sender == 0).flat_map(|burst| burst.packets.to_vec());
    let packets = packets.collect();
    stream.has_sent(now_ns, &mut Lateness::default());
    packets
}

#[test]
fn a_slow_client_loses_whole_pictures_up_to_one_that_needs_no_others() {
    let mut stream = filled(3);
    let mut sequences = Vec::new();
    let mut sent = Vec::new();
    for number in 0..75 {
        // There is no room for the sixth to the tenth.
        let packets = pictures(&mut stream, number * 40 * MS, !(5..10).contains(&number));
        assert_eq!(packets.last().is_some_and(Packet::is_marked), !packets.is_empty());
        sent.extend((!packets.is_empty()).then_some(number));
        sequences
            .extend(packets.iter().map(|packet| u16::from_be_bytes([packet.head()[2], packet.head()[3]])));
    }
    let expected: Vec<u64> = (0..5).chain(25..75).collect();
    assert_eq!(sent, expected);
    assert!(sequences.windows(2).all(|two| two[1] == two[0].wrapping_add(1)));
    // Five times sound, and twenty pictures.
    assert_eq!(stream.counts().dropped, 25);
}

#[test]
fn a_stream_that_was_stopped_goes_on_where_it_was() {
    let mut stream = filled(2);
    let first: usize = (0..10).map(|number| pictures(&mut stream, number * 40 * MS, true).len()).sum();
    stream.stop();
    assert!(pictures(&mut stream, 5 * SECOND, true).is_empty());
    let position_ns = 400 * MS;
    stream.cue(position_ns, 5 * SECOND, 1.0, 1.0);
    stream.start(5 * SECOND);
    let packets = pictures(&mut stream, 5 * SECOND, true);
    let timestamp = u32::from_be_bytes(packets[0].head()[4..8].try_into().expect("four bytes"));
    assert_eq!(timestamp, (u32::MAX - 10).wrapping_add(5 * 90_000));
    let rest: usize =
        (1..40).map(|number| pictures(&mut stream, 5 * SECOND + number * 40 * MS, true).len()).sum();
    assert_eq!(first + packets.len() + rest, 2 * (15 + 24 * 3));
}

#[test]
fn a_stall_of_seconds_is_not_made_up_for_by_a_flood() {
    let mut stream = Stream::new(1);
    stream.add_sender(setup(0, false));
    let film = film(10, 4_000);
    let file = file(&film);
    let mut program = film.into_iter().filter(|one| one.sender == 0).peekable();
    let mut fill = |stream: &mut Stream| {
        assert_eq!(stream.wish_ns(0), Some(0));
        stream.put_filled(next(&mut program, 100 << 10, &file));
    };
    fill(&mut stream);
    stream.cue(0, 0, 1.0, 1.0);
    stream.start(0);
    let mut now_ns = 0;
    while stream.level() > 0 {
        pictures(&mut stream, now_ns, true);
        now_ns += 10 * MS;
    }
    now_ns += 7 * SECOND;
    fill(&mut stream);
    let marks = |packets: &[Packet]| packets.iter().filter(|packet| packet.is_marked()).count();
    assert_eq!(marks(&pictures(&mut stream, now_ns, true)), 1);
    assert_eq!(stream.counts().stalls, 1);
    assert!(stream.counts().stalled_ns > 6 * SECOND);
}
