//! How fast a film is played, and how many bytes a second that takes: no client can take the whole server by a high speed.

use forebay_rtsp::replay::Frames;

use crate::sessions::Part;

/// The fastest motion that is shown, and sent.
const SCALE_MAX: f64 = 64.0;
const SPEED_MAX: f64 = 16.0;
/// How many seconds of a film are passed in one at most, by scale and speed together.
const PACE_MAX: f64 = 64.0;
/// From this scale on, pictures are shown that need no others only. What has no pictures is played no faster. Clients that replay
/// recordings say themselves which pictures they want.
const SYNC_ONLY_SCALE: f64 = 2.0;

/// How fast a film is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Seconds that are shown in one; negative backwards.
    pub scale: f64,
    /// Seconds that are sent in one, beyond that.
    pub speed: f64,
    /// Which pictures are sent. Sound is left out with pictures that need others.
    pub frames: Frames,
    /// Whether the server keeps that pace, and does not send as fast as the client takes it.
    pub is_kept: bool,
}

impl Pace {
    /// As it was recorded.
    pub const USUAL: Self = Self { scale: 1.0, speed: 1.0, frames: Frames::All, is_kept: true };

    /// The nearest to what a client asks for that there is. Only recordings that are replayed are played backwards, and only over
    /// TCP does a client tell how much it takes.
    pub fn near(part: &Part, has_pictures: bool, is_tcp: bool) -> Self {
        // Where there are no pictures to choose from, all is sent, however fast.
        let scale_max = if has_pictures { SCALE_MAX } else { SYNC_ONLY_SCALE };
        let magnitude = part.scale.abs().clamp(1.0 / SCALE_MAX, scale_max);
        let scale = match (part.scale > 0.0, part.is_backwards()) {
            (true, _) => magnitude,
            (false, true) => -magnitude,
            (false, false) => 1.0,
        };
        let speed = part.speed.clamp(1.0 / SPEED_MAX, SPEED_MAX.min(PACE_MAX / scale.abs()));
        let frames = match part.replay {
            _ if !has_pictures => Frames::All,
            Some(replay) => replay.frames,
            None if scale >= SYNC_ONLY_SCALE => Frames::Intra { interval_ns: 0 },
            None => Frames::All,
        };
        let is_kept = part.replay.is_none_or(|replay| replay.is_paced) || !is_tcp;
        Self { scale, speed, frames, is_kept }
    }

    pub fn is_backwards(&self) -> bool {
        self.scale < 0.0
    }

    /// Whether what is in buffers does for another pace, too.
    pub fn goes_on_as(&self, other: &Self) -> bool {
        let without_speed = |pace: &Self| Self { speed: 1.0, ..*pace };
        without_speed(self) == without_speed(other)
    }

    /// What is sent in a second of a film that has so many bytes in one of its own, and so many of them in pictures that need
    /// no others. A client that takes as much as it can is counted as one that takes it at its time.
    pub fn bytes_per_second(&self, all: u64, sync: u64) -> u64 {
        let of_film = if matches!(self.frames, Frames::Intra { .. }) { sync } else { all };
        let rate = if self.is_kept { self.scale.abs() * self.speed } else { 1.0 };
        (of_film as f64 * rate) as u64
    }
}

#[cfg(test)]
mod tests {
    use forebay_rtsp::replay::Replay;

    use super::*;

    fn near(scale: f64, speed: f64, replay: Option<Replay>, has_pictures: bool, is_tcp: bool) -> Pace {
        let part = Part { from_ns: None, until_ns: None, scale, speed, replay };
        Pace::near(&part, has_pictures, is_tcp)
    }

    #[test]
    fn scale_and_speed_have_bounds_each_and_together() {
        for (scale, speed, has_pictures, expected) in [
            (1.0, 1.0, true, (1.0, 1.0)),
            (1.0, 1000.0, true, (1.0, 16.0)),
            (0.0001, 0.0001, true, (1.0 / 64.0, 1.0 / 16.0)),
            (8.0, 16.0, true, (8.0, 8.0)),
            (1000.0, 16.0, true, (64.0, 1.0)),
            (1000.0, 1000.0, false, (2.0, 16.0)),
            (-1.0, 1.0, true, (1.0, 1.0)),
        ] {
            let pace = near(scale, speed, None, has_pictures, true);
            assert_eq!((pace.scale, pace.speed), expected, "{scale} {speed}");
        }
    }

    #[test]
    fn what_is_counted_is_what_is_sent() {
        let bytes_per_second =
            |scale, speed| near(scale, speed, None, true, true).bytes_per_second(100_000, 20_000);
        assert_eq!(bytes_per_second(1.0, 4.0), 400_000);
        assert_eq!(bytes_per_second(0.5, 1.0), 50_000);
        assert_eq!(bytes_per_second(64.0, 1.0), 64 * 20_000);
        assert_eq!(bytes_per_second(64.0, 16.0), 64 * 20_000);
    }

    #[test]
    fn a_replay_goes_either_way_with_the_pictures_that_its_client_wants() {
        let all = Replay { is_paced: true, frames: Frames::All, cseq: 1 };
        let backwards = near(-8.0, 1.0, Some(all), true, true);
        assert_eq!((backwards.scale, backwards.frames, backwards.is_kept), (-8.0, Frames::All, true));
        assert_eq!(backwards.bytes_per_second(100_000, 20_000), 800_000);
        let intra = Frames::Intra { interval_ns: 7 };
        let free = Replay { is_paced: false, frames: intra, ..all };
        let free_backwards = near(-8.0, 1.0, Some(free), true, true);
        assert_eq!((free_backwards.frames, free_backwards.is_kept), (intra, false));
        assert_eq!(free_backwards.bytes_per_second(100_000, 20_000), 20_000);
        assert!(near(-8.0, 1.0, Some(free), true, false).is_kept, "UDP has to be paced");
        assert!(!backwards.goes_on_as(&free_backwards));
        assert!(backwards.goes_on_as(&near(-8.0, 2.0, Some(all), true, true)));
    }
}
