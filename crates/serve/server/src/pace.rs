//! How fast a film is played, and how many bytes a second that takes: no client can take the whole server by a high speed.

/// The fastest motion that is shown, and sent.
const SCALE_MAX: f64 = 64.0;
const SPEED_MAX: f64 = 16.0;
/// How many seconds of a film are passed in one at most, by scale and speed together.
const PACE_MAX: f64 = 64.0;
/// From this scale on, pictures are shown that need no others only. What has no pictures is played no faster.
const SYNC_ONLY_SCALE: f64 = 2.0;

/// How fast a film is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// Seconds that are shown in one.
    pub scale: f64,
    /// Seconds that are sent in one, beyond that.
    pub speed: f64,
    /// Whether pictures that need others are left out, and all sound.
    pub is_sync_only: bool,
}

impl Pace {
    /// The nearest to what a client asks for that there is. Backwards nothing is played.
    pub fn near(scale: f64, speed: f64, has_pictures: bool) -> Self {
        // Where there are no pictures to choose from, all is sent, however fast.
        let scale_max = if has_pictures { SCALE_MAX } else { SYNC_ONLY_SCALE };
        let scale = if scale > 0.0 { scale.clamp(1.0 / SCALE_MAX, scale_max) } else { 1.0 };
        let speed = speed.clamp(1.0 / SPEED_MAX, SPEED_MAX.min(PACE_MAX / scale));
        Self { scale, speed, is_sync_only: has_pictures && scale >= SYNC_ONLY_SCALE }
    }

    /// What is sent in a second of a film that has so many bytes in one of its own, and so many of them in pictures that need
    /// no others.
    pub fn bytes_per_second(&self, all: u64, sync: u64) -> u64 {
        let of_film = if self.is_sync_only { sync } else { all };
        (of_film as f64 * self.scale * self.speed) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let pace = Pace::near(scale, speed, has_pictures);
            assert_eq!((pace.scale, pace.speed), expected, "{scale} {speed}");
        }
    }

    #[test]
    fn what_is_counted_is_what_is_sent() {
        let bytes_per_second =
            |scale, speed| Pace::near(scale, speed, true).bytes_per_second(100_000, 20_000);
        assert_eq!(bytes_per_second(1.0, 4.0), 400_000);
        assert_eq!(bytes_per_second(0.5, 1.0), 50_000);
        assert_eq!(bytes_per_second(64.0, 1.0), 64 * 20_000);
        assert_eq!(bytes_per_second(64.0, 16.0), 64 * 20_000);
    }
}
