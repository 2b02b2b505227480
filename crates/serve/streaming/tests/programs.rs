//! Which samples come when, of films that are played after each other and again.

use std::iter::Peekable;
use std::sync::Arc;

use forebay_media::Media;
use forebay_rtsp::packetise::Format;
use forebay_rtsp::replay::Frames;
use forebay_streaming::buffer::{Buffer, Scratch};
use forebay_streaming::lateness::Lateness;
use forebay_streaming::pool::Pool;
use forebay_streaming::program::{Choice, Planned, Playlist, Program};
use forebay_streaming::room::Room;
use forebay_streaming::stream::{Next, Setup, Stream};
use proptest::prelude::*;

/// A frame of AAC with its header (ADTS): 44.1 kHz, one channel, 32 bytes.
const FRAME: [u8; 32] = {
    let mut frame = [0x21; 32];
    let header = [0xFF, 0xF1, 0x50, 0x40, 0x04, 0x1F, 0xFC];
    frame.split_at_mut(header.len()).0.copy_from_slice(&header);
    frame
};

/// A second of sound, and a bit.
fn playlist(is_endless: bool) -> Arc<Playlist> {
    let media = Media::read(&FRAME.repeat(44)).expect("sound");
    Arc::new(Playlist::new(vec![Arc::new(media)], is_endless).expect("a playlist"))
}

fn from(playlist: &Arc<Playlist>, position_ns: u64) -> impl Iterator<Item = Planned> {
    let choice = Choice { tracks: vec![0], until_ns: None, frames: Frames::All };
    playlist.program(choice, playlist.seek(&[0], position_ns))
}

#[test]
fn times_go_on_from_round_to_round() {
    let samples: Vec<Planned> = from(&playlist(true), 100_000_000_000).take(1000).collect();
    let decode_ns = |at: usize| samples[at].decode_ns;
    assert!((99_900_000_000..=100_000_000_000).contains(&decode_ns(0)));
    assert!(
        samples
            .windows(2)
            .all(|two| (23_000_000..24_000_000).contains(&(two[1].decode_ns - two[0].decode_ns)))
    );
    assert_eq!(from(&playlist(false), 0).count(), 44);
}

/// Where samples could not be told apart in time, none may come: all would be due at once, and for ever.
#[test]
fn nothing_comes_from_beyond_all_numbers() {
    for position_ns in [i64::MAX as u64 + 1, 9_300_000_000_000_000_000, u64::MAX - 1, u64::MAX] {
        for is_endless in [false, true] {
            let samples: Vec<Planned> = from(&playlist(is_endless), position_ns).take(1000).collect();
            assert!(samples.len() < 1000, "{position_ns}");
            assert!(samples.iter().all(|one| one.decode_ns < i64::MAX));
        }
    }
}

/// The next buffer, all of whose bytes are there.
fn fill(stream: &mut Stream, program: &mut Peekable<Program>) {
    let mut buffer = Buffer::gather(program, 16 << 10, 4 << 10, &mut Scratch::default());
    assert!(Pool::new(u64::MAX).lend(&mut buffer));
    stream.put_filled(buffer);
}

fn setup() -> Setup {
    Setup {
        track: 0,
        format: Format::Aac,
        payload_type: 96,
        clock_rate: 44_100,
        ssrc: 1,
        sequence: u16::MAX,
        timestamp: u32::MAX,
        packet_bytes_max: 1400,
        is_video: false,
        needs_sync: false,
        is_paced: true,
        is_bundled: true,
    }
}

proptest! {
    #[test]
    fn whatever_is_asked_for_comes_at_its_time(
        position_ns in prop_oneof![0..1_u64 << 40, any::<u64>(), (u64::MAX - (1 << 40))..],
        until_ns in prop::option::of(any::<u64>()),
        is_endless: bool,
        scale in prop_oneof![Just(1.0), 1.0 / 64.0..64.0],
        speed in prop_oneof![Just(1.0), 1.0 / 16.0..16.0],
        timestamp_ns in 0..1_u64 << 62,
        begun_ns in 0..1_u64 << 60,
    ) {
        let playlist = playlist(is_endless);
        let position_ns = playlist.seek(&[0], position_ns);
        let choice = Choice { tracks: vec![0], until_ns, frames: Frames::All };
        let mut program = playlist.program(choice, position_ns).peekable();
        let mut stream = Stream::new(2);
        stream.add_sender(setup());
        fill(&mut stream, &mut program);
        stream.cue(position_ns, timestamp_ns, scale, speed);
        stream.start(begun_ns);
        let mut now_ns = begun_ns;
        for _ in 0..200 {
            let next = stream.advance(now_ns, Room::ENDLESS);
            let packets: usize = stream.bursts().map(|burst| burst.packets.len()).sum();
            // What is due at the same time is one packet; from one round to the next there may be another.
            prop_assert!(packets <= 2, "{packets} packets at once");
            let _ = stream.reports(now_ns, now_ns).count();
            stream.has_sent(now_ns, &mut Lateness::default());
            match next {
                Next::At(due_ns) => {
                    prop_assert!(due_ns > now_ns);
                    now_ns = due_ns;
                }
                Next::Buffer => fill(&mut stream, &mut program),
                Next::Room => prop_assert!(false, "the room is endless"),
                Next::End => break,
            }
        }
    }
}
