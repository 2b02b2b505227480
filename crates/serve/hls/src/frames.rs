//! What frames of MP3, AC-3 and E-AC-3 say of themselves, as MP4 wants it: most containers tell only which codec it is.

use mp4_atom::{Ac3SpecificBox, Ec3IndependentSubstream, Ec3SpecificBox};

/// Sound whose first frame tells how it is coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frames {
    Mp3 {
        /// The object type of MPEG-1, or of MPEG-2 (<https://mp4ra.org/registered-types/object-types>).
        object_type: u8,
        clock_rate: u32,
        channels: u8,
    },
    /// ETSI TS 102 366, annex F.4.
    Ac3(Ac3SpecificBox),
    /// ETSI TS 102 366, annex F.6.
    Eac3(Ec3SpecificBox),
}

impl Frames {
    /// By the header of a frame of MPEG audio (ISO/IEC 11172-3, 2.4.2.3); `None` for layers I and II, which browsers do not play.
    pub fn mp3(frame: &[u8]) -> Option<Self> {
        const LAYER_III: u8 = 1;
        let &[0xFF, second, third, fourth, ..] = frame else { return None };
        let (version, layer, rate) = (second >> 3 & 3, second >> 1 & 3, usize::from(third >> 2 & 3));
        let rate = [44_100, 48_000, 32_000].get(rate).copied();
        let (object_type, clock_rate) = match version {
            3 => (0x6B, rate?),
            2 => (0x69, rate? / 2),
            0 => (0x69, rate? / 4),
            _ => return None,
        };
        let channels = if fourth >> 6 == 3 { 1 } else { 2 };
        (second >= 0xE0 && layer == LAYER_III).then_some(Self::Mp3 { object_type, clock_rate, channels })
    }

    /// By the header of a frame (ETSI TS 102 366, 4.3).
    pub fn ac3(frame: &[u8]) -> Option<Self> {
        let &[0x0B, 0x77, _, _, size, id, mode, more, ..] = frame else { return None };
        let acmod = mode >> 5;
        // Levels of mixing stand before the mark of low frequencies, where the mode has such channels.
        let has_centre = acmod & 1 != 0 && acmod != 1;
        let levels = [has_centre, acmod & 4 != 0, acmod == 2];
        let skipped = 3 + 2 * levels.iter().filter(|has_level| **has_level).count();
        Some(Self::Ac3(Ac3SpecificBox {
            fscod: size >> 6,
            bsid: id >> 3,
            bsmod: id & 7,
            acmod,
            lfeon: u16::from_be_bytes([mode, more]) << skipped & 0x8000 != 0,
            bit_rate_code: (size & 0x3F) >> 1,
        }))
    }

    /// By the header of a frame (ETSI TS 102 366, E.1.2).
    pub fn eac3(frame: &[u8], clock_rate: u32) -> Option<Self> {
        const BLOCK_SAMPLES: u64 = 256;
        let &[0x0B, 0x77, first, second, mode, id, ..] = frame else { return None };
        let bytes = 2 * (u64::from(u16::from_be_bytes([first & 7, second])) + 1);
        let fscod = mode >> 6;
        let blocks = if fscod == 3 { 6 } else { [1, 2, 3, 6][usize::from(mode >> 4 & 3)] };
        let kilobits = bytes * 8 * u64::from(clock_rate) / (blocks * BLOCK_SAMPLES) / 1000;
        let substream = Ec3IndependentSubstream {
            fscod,
            bsid: id >> 3,
            asvc: false,
            bsmod: 0,
            acmod: mode >> 1 & 7,
            lfeon: mode & 1 != 0,
            num_dep_sub: 0,
            chan_loc: None,
        };
        // The field has 13 bits.
        let data_rate = u16::try_from(kilobits).unwrap_or(u16::MAX).min(0x1FFF);
        Some(Self::Eac3(Ec3SpecificBox { data_rate, substreams: vec![substream] }))
    }

    /// As in a `codecs` parameter (RFC 6381).
    pub fn name(&self) -> String {
        match self {
            Self::Mp3 { object_type, .. } => format!("mp4a.{object_type:02X}"),
            Self::Ac3(_) => "ac-3".to_owned(),
            Self::Eac3(_) => "ec-3".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_frames_tell_what_decoders_need() {
        let mp3 = |object_type, clock_rate, channels| Some(Frames::Mp3 { object_type, clock_rate, channels });
        assert_eq!(Frames::mp3(&[0xFF, 0xFB, 0x90, 0x64]), mp3(0x6B, 44_100, 2));
        assert_eq!(Frames::mp3(&[0xFF, 0xF3, 0x84, 0xC4]), mp3(0x69, 24_000, 1));
        assert_eq!(Frames::mp3(&[0xFF, 0xFD, 0x90, 0x64]), None, "layer II");
        // 48 kHz, 384 kbit/s, three front and two back, low frequencies.
        let Some(Frames::Ac3(told)) = Frames::ac3(&[0x0B, 0x77, 0, 0, 0x1C, 0x40, 0xE1, 0]) else { panic!() };
        assert_eq!((told.fscod, told.bsid, told.acmod, told.lfeon, told.bit_rate_code), (0, 8, 7, true, 14));
        // 48 kHz, six blocks, two channels, 768 bytes.
        let told = Frames::eac3(&[0x0B, 0x77, 0x01, 0x7F, 0x34, 0x80], 48_000);
        let Some(Frames::Eac3(told)) = told else { panic!() };
        assert_eq!((told.data_rate, told.substreams[0].acmod, told.substreams[0].bsid), (192, 2, 16));
    }
}
