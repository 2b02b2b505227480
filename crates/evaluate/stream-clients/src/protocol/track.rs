//! What a player wants of a description (RFC 8866).

use sdp_types::{Media, Session};

/// What a track has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pictures, with all else where they come in one stream.
    Pictures,
    /// Sound.
    Sound,
}

/// A track that is played.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// What it has.
    pub kind: Kind,
    /// Its URL, whole or below the presentation's.
    pub control: String,
    /// Ticks of its timestamps in a second.
    pub clock_hz: u32,
    /// How long it plays, in seconds, where there is an end.
    pub length_s: Option<f64>,
    /// Whether the last packet of each frame is marked, which those of transport streams are not (RFC 2250).
    pub is_marked: bool,
}

impl Track {
    /// The first video and the first sound; where there is neither, the first that could be played.
    #[must_use]
    pub fn of(description: &[u8]) -> Vec<Self> {
        let Ok(session) = Session::parse(description) else { return Vec::new() };
        let playable = || session.medias.iter().filter(|media| clock_hz(media).is_some());
        let first = |kind: &str| playable().find(|media| media.media == kind);
        let mut medias: Vec<&Media> = ["video", "audio"].into_iter().filter_map(first).collect();
        if medias.is_empty() {
            medias.extend(playable().next());
        }
        medias.into_iter().filter_map(|media| Self::of_media(&session, media)).collect()
    }

    fn of_media(session: &Session, media: &Media) -> Option<Self> {
        let value = |name: &'static str| media.get_first_attribute_value(name).flatten();
        let of_session = |name: &'static str| session.get_first_attribute_value(name).flatten();
        let is_transport_stream =
            value("rtpmap").map_or(media.fmt.trim() == TRANSPORT_STREAM, |map| map.contains("MP2T"));
        Some(Self {
            kind: if media.media == "audio" { Kind::Sound } else { Kind::Pictures },
            control: value("control").unwrap_or("*").trim().to_owned(),
            clock_hz: clock_hz(media)?,
            length_s: value("range").or_else(|| of_session("range")).and_then(length_s),
            is_marked: !is_transport_stream,
        })
    }
}

/// The static type of transport streams.
const TRANSPORT_STREAM: &str = "33";

/// `rtpmap:96 H264/90000` (section 6.6); the static type of transport streams has no need of one (RFC 3551).
fn clock_hz(media: &Media) -> Option<u32> {
    let map = media.get_first_attribute_value("rtpmap").flatten();
    match map {
        Some(map) => map.split('/').nth(1)?.trim().parse().ok(),
        None => (media.fmt.trim() == TRANSPORT_STREAM).then_some(90_000),
    }
}

/// `npt=0-12.5` (RFC 2326, section 3.6).
fn length_s(range: &str) -> Option<f64> {
    let (from, to) = range.trim().strip_prefix("npt=")?.split_once('-')?;
    let from: f64 = from.trim().parse().unwrap_or(0.0);
    let to: f64 = to.trim().parse().ok()?;
    (to > from).then_some(to - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\na=range:npt=0-61.5\r\n";

    #[test]
    fn the_video_and_the_sound_are_found_among_tracks() {
        let description = format!(
            "{HEAD}m=audio 0 RTP/AVP 97\r\na=rtpmap:97 OPUS/48000\r\na=control:a\r\n\
             m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:stream=0\r\nm=text 0 RTP/AVP 98\r\na=control:t\r\n"
        );
        let video = Track {
            kind: Kind::Pictures,
            control: "stream=0".into(),
            clock_hz: 90_000,
            length_s: Some(61.5),
            is_marked: true,
        };
        let sound = Track { kind: Kind::Sound, control: "a".into(), clock_hz: 48_000, ..video.clone() };
        assert_eq!(Track::of(description.as_bytes()), [video, sound]);
    }

    #[test]
    fn without_a_video_the_first_track_is_played_and_without_an_end_there_is_no_length() {
        let description = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\na=range:npt=now-\r\n\
             m=video 0 RTP/AVP 33\r\na=control:track1\r\n";
        let track = Track {
            kind: Kind::Pictures,
            control: "track1".into(),
            clock_hz: 90_000,
            length_s: None,
            is_marked: false,
        };
        assert_eq!(Track::of(description.as_bytes()), [track]);
        assert_eq!(Track::of(HEAD.as_bytes()), []);
        assert_eq!(Track::of(b"nonsense"), []);
    }
}
