//! Streams and disks in simulated time.

mod films;

use std::collections::BTreeMap;
use std::iter::Peekable;

use films::{MS, SECOND, file, film, film_of, read, setup};
use forebay_rtsp::packetise::Packet;
use forebay_streaming::buffer::{Buffer, Scratch};
use forebay_streaming::lateness::Lateness;
use forebay_streaming::pool::Pool;
use forebay_streaming::program::Planned;
use forebay_streaming::room::Room;
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
                let next = stream.advance(now_ns, Room::ENDLESS);
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
    filled_with(&film(seconds, 4_000))
}

fn filled_with(film: &[Planned]) -> Stream {
    let mut stream = Stream::new(2);
    stream.add_sender(setup(0, false));
    stream.add_sender(setup(1, false));
    stream.put_filled(next(&mut film.iter().cloned().peekable(), 4 << 20, &file(film)));
    stream.cue(0, 0, 1.0, 1.0);
    stream.start(0);
    stream
}

/// The pictures that a stream sends at a time.
fn pictures(stream: &mut Stream, now_ns: u64) -> Vec<Packet> {
    sent(stream, now_ns, Room::ENDLESS)
        .into_iter()
        .filter(|(sender, _)| *sender == 0)
        .map(|(_, one)| one)
        .collect()
}

/// What a stream sends at a time, with the numbers of the senders.
fn sent(stream: &mut Stream, now_ns: u64, room: Room) -> Vec<(usize, Packet)> {
    stream.advance(now_ns, room);
    let bursts = stream.bursts();
    let packets: Vec<_> =
        bursts.flat_map(|burst| burst.packets.iter().map(move |one| (burst.sender, one.clone()))).collect();
    stream.has_sent(now_ns, &mut Lateness::default());
    packets
}

/// A client that takes so many bytes a second, from the time on that is given. Returns the times at which it has whole pictures,
/// and how many samples of sound it has; packets have no gaps.
fn over_a_link(stream: &mut Stream, bytes_per_s: u64, late_ns: u64, from_ns: u64) -> (Vec<u64>, usize) {
    let (mut queue, mut sequence) = (0_u64, [None; 2]);
    let (mut pictures, mut sounds) = (Vec::new(), 0);
    for now_ns in (0..20 * SECOND).step_by(MS as usize) {
        queue = if now_ns < from_ns { queue } else { queue.saturating_sub(bytes_per_s / 1000) };
        let room = Room { bytes: 1000_usize.saturating_sub(queue as usize), late_ns };
        for (sender, packet) in sent(stream, now_ns, room) {
            let number = u16::from_be_bytes([packet.head()[2], packet.head()[3]]);
            let before = sequence[sender].replace(number);
            assert!(before.is_none_or(|before: u16| before.wrapping_add(1) == number), "a packet is missing");
            queue += packet.bytes() as u64;
            match sender {
                0 if packet.is_marked() => pictures.push(now_ns),
                0 => {}
                _ => sounds += 1,
            }
        }
    }
    (pictures, sounds)
}

#[test]
fn a_key_frame_that_takes_a_second_delays_pictures_and_loses_none() {
    let mut stream = filled(8);
    // 29 pictures' worth a second are 116 kB; a key frame of 20 kB at 125 kB/s takes 160 ms, four pictures' time.
    let (pictures, sounds) = over_a_link(&mut stream, 125_000, 2 * SECOND, 0);
    assert_eq!((pictures.len(), sounds, stream.counts().dropped), (200, 200, 0));
    assert!(stream.counts().late_ns_max > 40 * MS);
}

#[test]
fn on_a_link_that_is_too_slow_sound_is_kept_and_pictures_are_left_out_up_to_one_that_needs_no_others() {
    let mut stream = filled(8);
    let (pictures, sounds) = over_a_link(&mut stream, 70_000, SECOND, 0);
    let counts = stream.counts();
    assert_eq!((sounds, counts.dropped_sound), (200, 0));
    assert_eq!(pictures.len() as u64 + counts.dropped, 200);
    assert!((90..160).contains(&pictures.len()), "{} pictures", pictures.len());
    assert!(counts.late_ns_max <= 2 * SECOND);
    // The last picture comes at its time, and not after all that the link had no room for.
    assert!(pictures.last().is_some_and(|last_ns| *last_ns < 10 * SECOND), "{pictures:?}");
}

/// A key frame that would come so late that all that need it are left out is left out itself.
#[test]
fn on_a_link_that_is_too_slow_for_key_frames_most_of_them_come_with_the_pictures_that_need_them() {
    let mut stream = filled_with(&film_of(15, 174_000, 80));
    let (pictures, sounds) = over_a_link(&mut stream, 130_000, 2 * SECOND, 0);
    let counts = stream.counts();
    assert_eq!((sounds, counts.dropped_sound), (375, 0));
    assert_eq!(pictures.len() as u64 + counts.dropped, 375);
    assert!(pictures.len() > 200, "{} pictures", pictures.len());
}

#[test]
fn a_client_that_takes_nothing_for_a_moment_gets_all_pictures() {
    let mut stream = filled_with(&film_of(15, 100_000, 4_000));
    let (pictures, sounds) = over_a_link(&mut stream, 2_000_000, 2 * SECOND, 1_900 * MS);
    assert_eq!((pictures.len(), sounds, stream.counts().dropped), (375, 375, 0));
}

#[test]
fn a_client_that_takes_nothing_for_long_goes_on_where_it_was() {
    let mut stream = filled(3);
    let (pictures, sounds) = over_a_link(&mut stream, 500_000, SECOND, 15 * SECOND);
    assert_eq!((pictures.len(), sounds, stream.counts().dropped), (75, 75, 0));
}

#[test]
fn a_stream_that_was_stopped_goes_on_where_it_was() {
    let mut stream = filled(2);
    let first: usize = (0..10).map(|number| pictures(&mut stream, number * 40 * MS).len()).sum();
    stream.stop();
    assert!(pictures(&mut stream, 5 * SECOND).is_empty());
    let position_ns = 400 * MS;
    stream.cue(position_ns, 5 * SECOND, 1.0, 1.0);
    stream.start(5 * SECOND);
    let packets = pictures(&mut stream, 5 * SECOND);
    let timestamp = u32::from_be_bytes(packets[0].head()[4..8].try_into().expect("four bytes"));
    assert_eq!(timestamp, (u32::MAX - 10).wrapping_add(5 * 90_000));
    let rest: usize = (1..40).map(|number| pictures(&mut stream, 5 * SECOND + number * 40 * MS).len()).sum();
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
        pictures(&mut stream, now_ns);
        now_ns += 10 * MS;
    }
    now_ns += 7 * SECOND;
    fill(&mut stream);
    let marks = |packets: &[Packet]| packets.iter().filter(|packet| packet.is_marked()).count();
    assert_eq!(marks(&pictures(&mut stream, now_ns)), 1);
    assert_eq!(stream.counts().stalls, 1);
    assert!(stream.counts().stalled_ns > 6 * SECOND);
}

#[test]
fn a_stream_that_has_waited_for_its_file_is_not_late_for_its_client() {
    let mut stream = Stream::new(1);
    stream.add_sender(setup(0, false));
    let film = film(10, 4_000);
    let file = file(&film);
    let mut program = film.into_iter().filter(|one| one.sender == 0).peekable();
    let mut fill = |stream: &mut Stream| stream.put_filled(next(&mut program, 100 << 10, &file));
    fill(&mut stream);
    stream.cue(0, 0, 1.0, 1.0);
    stream.start(0);
    let room = |bytes| Room { bytes, late_ns: 2 * SECOND };
    let all = |stream: &mut Stream, from_ns: u64| {
        (0..300).for_each(|number| drop(sent(stream, from_ns + number * 10 * MS, room(usize::MAX))));
        assert_eq!((stream.level(), stream.counts().dropped), (0, 0));
    };
    // The client takes nothing for a moment, and then all that there is.
    assert!(sent(&mut stream, 0, room(0)).is_empty());
    all(&mut stream, 1_500 * MS);
    stream.wait_for_file();
    fill(&mut stream);
    all(&mut stream, 12 * SECOND);
}
