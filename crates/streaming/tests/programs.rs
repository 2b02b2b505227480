//! Which samples come when, of films that are played after each other and again.

use std::sync::Arc;

use forebay_media::Media;
use forebay_streaming::program::{Choice, Planned, Reel};

/// A frame of AAC with its header (ADTS): 44.1 kHz, one channel, 32 bytes.
const FRAME: [u8; 32] = {
    let mut frame = [0x21; 32];
    let header = [0xFF, 0xF1, 0x50, 0x40, 0x04, 0x1F, 0xFC];
    frame.split_at_mut(header.len()).0.copy_from_slice(&header);
    frame
};

/// A second of sound, and a bit.
fn reel(is_endless: bool) -> Arc<Reel> {
    let media = Media::read(&FRAME.repeat(44)).expect("sound");
    Arc::new(Reel::new(vec![Arc::new(media)], is_endless).expect("a reel"))
}

fn from(reel: &Arc<Reel>, position_ns: u64) -> impl Iterator<Item = Planned> {
    let choice = Choice { tracks: vec![0], until_ns: None, is_sync_only: false };
    reel.program(choice, reel.seek(&[0], position_ns))
}

#[test]
fn times_go_on_from_round_to_round() {
    let samples: Vec<Planned> = from(&reel(true), 100_000_000_000).take(1000).collect();
    let decode_ns = |at: usize| samples[at].decode_ns;
    assert!((99_900_000_000..=100_000_000_000).contains(&decode_ns(0)));
    assert!(
        samples
            .windows(2)
            .all(|two| (23_000_000..24_000_000).contains(&(two[1].decode_ns - two[0].decode_ns)))
    );
    assert_eq!(from(&reel(false), 0).count(), 44);
}

/// Where samples could not be told apart in time, none may come: all would be due at once, and for ever.
#[test]
fn nothing_comes_from_beyond_all_numbers() {
    for position_ns in [i64::MAX as u64 + 1, 9_300_000_000_000_000_000, u64::MAX - 1, u64::MAX] {
        for is_endless in [false, true] {
            let samples: Vec<Planned> = from(&reel(is_endless), position_ns).take(1000).collect();
            assert!(samples.len() < 1000, "{position_ns}");
            assert!(samples.iter().all(|one| one.decode_ns < i64::MAX));
        }
    }
}
