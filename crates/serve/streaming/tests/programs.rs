//! Which samples come when, of films that are played after each other and again.

use std::iter::Peekable;
use std::sync::Arc;

use forebay_media::{Growing, Media, Stage};
use forebay_rtsp::packetise::Format;
use forebay_rtsp::replay::Frames;
use forebay_streaming::buffer::{Buffer, Scratch};
use forebay_streaming::lateness::Lateness;
use forebay_streaming::playlist::{Member, Playlist};
use forebay_streaming::pool::Pool;
use forebay_streaming::program::{Choice, Planned, Program};
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

fn sound(frames: usize) -> Arc<Media> {
    Arc::new(Media::read(&FRAME.repeat(frames)).expect("sound"))
}

/// A second of sound, and a bit.
fn playlist(is_endless: bool) -> Arc<Playlist> {
    Arc::new(Playlist::new(vec![sound(44).into()], is_endless).expect("a playlist"))
}

fn from(playlist: &Arc<Playlist>, position_ns: u64) -> impl Iterator<Item = Planned> {
    let choice = Choice { tracks: vec![0], until_ns: None, frames: Frames::All, is_beginning: false };
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

/// A file whose index grows.
struct Grown {
    growing: Arc<Growing>,
    /// How many frames it has, and the file.
    frames: usize,
    all: usize,
}

impl Grown {
    fn new(frames: usize, all: usize) -> Self {
        let frames = frames.min(all);
        Self { growing: Arc::new(Growing::new(sound(frames), Stage::Behind, None)), frames, all }
    }

    /// `false` if nothing more comes of it.
    fn grow(&mut self, frames: usize, end: Stage) -> bool {
        let is_new = self.growing.stage() == Stage::Behind;
        self.frames = (self.frames + frames).min(self.all);
        let stage = if self.frames < self.all { Stage::Behind } else { end };
        self.growing.put(sound(self.frames), stage);
        is_new
    }
}

proptest! {
    #[test]
    fn files_whose_indices_grow_are_played_as_those_that_are_known(
        counts in prop::collection::vec((1..40_usize, 1..40_usize), 1..4),
        is_endless: bool,
        is_followed: bool,
        start_ns in prop_oneof![Just(0), 0..1_000_000_000_u64],
        length_ns in prop::option::of(30_000_000..2_000_000_000_u64),
        step in 1..30_usize,
    ) {
        let end_ns = length_ns.map(|length_ns| start_ns + length_ns);
        let whole: Vec<Member> = counts.iter().map(|(_, all)| sound(*all).into()).collect();
        let within = |members| Playlist::new(members, is_endless).and_then(|list| list.within(start_ns, end_ns));
        let mut files: Vec<Grown> = counts.iter().map(|(first, all)| Grown::new(*first, *all)).collect();
        let members = || files.iter().map(|file| file.growing.clone().into()).collect::<Vec<Member>>();
        let reaches = Playlist::new(members(), is_endless).is_some_and(|list| list.reaches(start_ns));
        let (Some(whole), Some(growing), true) = (within(whole), within(members()), reaches) else {
            return Ok(());
        };
        let (whole, growing) = (Arc::new(whole), Arc::new(growing));
        let told = |planned: Planned| (planned.file, planned.at, planned.decode_ns, planned.ticks);
        let expected: Vec<_> = from(&whole, start_ns).map(told).take(300).collect();
        let mut program = from(&growing, start_ns);
        let (mut got, mut may_go_on) = (Vec::new(), true);
        while got.len() < 300 {
            // In this order: once nothing more comes, all of it is there.
            if let Some(planned) = program.next() {
                got.push(told(planned));
            } else if may_go_on {
                may_go_on = growing.may_go_on(None);
                // A recording that is followed ends later than its index has come to its end.
                let end = if is_followed && files.len() > 1 { Stage::Following } else { Stage::Over };
                let _ = files.iter_mut().any(|file| file.grow(step, end));
            } else {
                break;
            }
        }
        prop_assert_eq!(got, expected);
        prop_assert_eq!(growing.end_ns(), whole.end_ns());
        prop_assert_eq!(growing.duration_ns(), whole.duration_ns());
    }

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
        let choice = Choice { tracks: vec![0], until_ns, frames: Frames::All, is_beginning: false };
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
