//! Replay of recordings (ONVIF Streaming Specification, section Replay): what a client asks for beside a range and a scale.
//! Packets also say when their samples were recorded.

use crate::message::{Headers, Request};
use crate::rtcp::ntp;

/// What a client that wants replay requires.
pub const FEATURE: &str = "onvif-replay";

/// What the extension takes in a packet.
pub const EXTENSION_BYTES: usize = 16;
/// The profile that tells it from other extensions.
const PROFILE: u16 = 0xABAC;
/// How long it is behind its own head, in words of 32 bits.
const WORDS: u16 = 3;

const MS_NS: u64 = 1_000_000;

/// Which pictures are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// All.
    #[default]
    All,
    /// Without those that no other picture needs.
    Predicted,
    /// Only those that need no others.
    Intra {
        /// At least so far from each other in the recording.
        interval_ns: u64,
    },
}

/// What a PLAY of a replay asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Whether the server keeps time; otherwise it sends as fast as its client takes packets (`Rate-Control`).
    pub is_paced: bool,
    /// Which pictures (`Frames`).
    pub frames: Frames,
    /// The lowest byte of the request's number, which all packets of this PLAY carry.
    pub cseq: u8,
}

/// Fields that have to do with replay cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// Whether a request requires replay, and what else it requires.
pub(crate) fn required(request: &Request) -> (bool, Vec<&str>) {
    let fields = request.headers.all("Require").chain(request.headers.all("Proxy-Require"));
    let tags = fields.flat_map(|field| field.split(',')).map(str::trim).filter(|tag| !tag.is_empty());
    let (known, unknown): (Vec<&str>, Vec<&str>) = tags.partition(|tag| tag.eq_ignore_ascii_case(FEATURE));
    (!known.is_empty(), unknown)
}

/// Whether a PLAY says how it is to be replayed. Clients that do so mean replay, even if they do not require it: GStreamer's does not.
pub(crate) fn is_told(headers: &Headers) -> bool {
    ["Rate-Control", "Frames", "Immediate"].iter().any(|name| headers.get(name).is_some())
}

impl Replay {
    /// Of a PLAY. Each takes effect at once, be it `Immediate` or not.
    pub(crate) fn of(request: &Request) -> Result<Self, Unreadable> {
        let is_yes = |name, otherwise| match request.headers.get(name).map(str::trim) {
            None => Ok(otherwise),
            Some(word) if word.eq_ignore_ascii_case("yes") => Ok(true),
            Some(word) if word.eq_ignore_ascii_case("no") => Ok(false),
            Some(_) => Err(Unreadable),
        };
        is_yes("Immediate", false)?;
        let frames = request.headers.get("Frames").map_or(Ok(Frames::All), Frames::parse)?;
        Ok(Self {
            is_paced: is_yes("Rate-Control", true)?,
            frames,
            cseq: request.cseq().unwrap_or_default() as u8,
        })
    }
}

impl Frames {
    /// `all`, `predicted`, `intra`, or `intra/4000`, which has an interval in milliseconds.
    fn parse(field: &str) -> Result<Self, Unreadable> {
        let (word, interval) = match field.trim().split_once('/') {
            Some((word, interval)) => (word, Some(interval)),
            None => (field.trim(), None),
        };
        match (word.trim().to_ascii_lowercase().as_str(), interval) {
            ("all", None) => Ok(Self::All),
            ("predicted", None) => Ok(Self::Predicted),
            ("intra", interval) => {
                let ms: u64 = interval.map_or(Ok(0), |ms| ms.trim().parse().map_err(|_| Unreadable))?;
                Ok(Self::Intra { interval_ns: ms.saturating_mul(MS_NS) })
            }
            _ => Err(Unreadable),
        }
    }
}

/// What the first packet of a sample says in its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When the sample was recorded, since 1970.
    pub unix_ns: u64,
    /// Decoding can begin here.
    pub is_clean: bool,
    /// A gap in the recording, or its end, comes after this sample in the direction of playing.
    pub ends_section: bool,
    /// The sample does not follow the one that was sent before.
    pub is_apart: bool,
    /// It is the track's last one of this PLAY.
    pub is_last: bool,
    /// As in [`Replay`].
    pub cseq: u8,
}

impl Mark {
    /// The extension of an RTP header (RFC 3550, section 5.3.1).
    ///
    /// ```text
    ///  0                   1                   2                   3
    ///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    /// +-------------------------------+-------------------------------+
    /// |            0xABAC             |               3               |
    /// +-------------------------------+-------------------------------+
    /// |                                                               |
    /// +                         NTP timestamp                         +
    /// |                                                               |
    /// +-+-+-+-+-------+---------------+-------------------------------+
    /// |C|E|D|T|   0   |     CSeq      |               0               |
    /// +-+-+-+-+-------+---------------+-------------------------------+
    /// ```
    pub fn to_bytes(self) -> [u8; EXTENSION_BYTES] {
        let Self { unix_ns, is_clean, ends_section, is_apart, is_last, cseq } = self;
        let bits = [is_clean, ends_section, is_apart, is_last];
        let flags = (0..).zip(bits).fold(0, |flags, (place, bit)| flags | u8::from(bit) << (7 - place));
        let mut bytes = [0; EXTENSION_BYTES];
        bytes[..2].copy_from_slice(&PROFILE.to_be_bytes());
        bytes[2..4].copy_from_slice(&WORDS.to_be_bytes());
        bytes[4..12].copy_from_slice(&ntp(unix_ns).to_be_bytes());
        bytes[12..14].copy_from_slice(&[flags, cseq]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Method;

    fn play(fields: &[(&str, &str)]) -> Request {
        let mut request = Request {
            method: Method::Play,
            url: "rtsp://h/film.mp4".to_owned(),
            headers: Headers::default(),
            body: Vec::new(),
        };
        request.headers.push("CSeq", "259");
        fields.iter().for_each(|(name, value)| request.headers.push(*name, *value));
        request
    }

    #[test]
    fn fields_of_replay_are_read_as_clients_write_them() {
        let intra = |ms: u64| Frames::Intra { interval_ns: ms * MS_NS };
        for (fields, is_paced, frames) in [
            (&[][..], true, Frames::All),
            (&[("Rate-Control", "no"), ("Immediate", "yes")], false, Frames::All),
            (&[("rate-control", " Yes "), ("frames", "predicted")], true, Frames::Predicted),
            (&[("Frames", "Intra")], true, intra(0)),
            (&[("Frames", "intra/4000")], true, intra(4000)),
            (&[("Frames", "all")], true, Frames::All),
        ] {
            let expected = Replay { is_paced, frames, cseq: 3 };
            assert_eq!(Replay::of(&play(fields)), Ok(expected), "{fields:?}");
        }
        for field in [
            ("Rate-Control", "maybe"),
            ("Immediate", "1"),
            ("Frames", "some"),
            ("Frames", "intra/x"),
            ("Frames", "predicted/40"),
        ] {
            assert_eq!(Replay::of(&play(&[field])), Err(Unreadable), "{field:?}");
        }
    }

    #[test]
    fn what_is_required_is_known_or_told() {
        let request = play(&[("Require", "onvif-replay, time-travel"), ("Proxy-Require", "Onvif-Replay")]);
        assert_eq!(required(&request), (true, vec!["time-travel"]));
        assert_eq!(required(&play(&[])), (false, vec![]));
    }

    #[test]
    fn an_extension_is_laid_out_as_specified() {
        let mark = Mark {
            unix_ns: 1_500_000_000,
            is_clean: true,
            ends_section: false,
            is_apart: true,
            is_last: false,
            cseq: 7,
        };
        let expected = [0xAB, 0xAC, 0, 3, 0x83, 0xAA, 0x7E, 0x81, 0x80, 0, 0, 0, 0b1010_0000, 7, 0, 0];
        assert_eq!(mark.to_bytes(), expected);
        let mark = Mark { is_clean: false, ends_section: true, is_apart: false, is_last: true, ..mark };
        assert_eq!(mark.to_bytes()[12], 0b0101_0000);
    }
}
