//! Sample entries: how the samples of a track are coded (ISO/IEC 14496-12, 8.5.2; 14496-14; 14496-15).

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::{Codec, OpusStreams};
use mp4_atom::{Ac3SpecificBox, Dops, Ec3SpecificBox};

use super::boxes::{Box, within};
use super::{Unserved, esds};
use crate::media::Carriage;
use crate::{ac3, parameter_sets, sound, text, vorbis};

/// What a picture or sound sample entry begins with, before the boxes in it.
const VISUAL_BYTES: usize = 78;
const AUDIO_BYTES: usize = 28;

#[derive(Clone)]
pub(super) struct SampleEntry {
    pub name: String,
    pub codec: Codec,
    pub format: Format,
    pub carriage: Carriage,
}

impl Box<'_> {
    /// What it says, if that can be served.
    pub(super) fn served(&self) -> Result<SampleEntry, Unserved> {
        let name = String::from_utf8_lossy(&self.name).trim().to_owned();
        let served = match &self.name {
            b"encv" | b"enca" => return Err(Unserved::Encrypted),
            b"avc1" | b"avc3" => self.visual(b"avcC").and_then(parameter_sets::h264),
            b"hvc1" | b"hev1" => self.visual(b"hvcC").and_then(parameter_sets::h265),
            b"mp4a" | b"mp4v" => return self.mpeg4().ok_or_else(|| damaged(&name))?,
            b"Opus" => self.opus(),
            b".mp3" | b".mp2" | b".mp1" | b"ms\0U" | b"ms\0P" => Some((Codec::MpegAudio, Format::MpegAudio)),
            b"vp08" => Some((Codec::Vp8, Format::Vp8)),
            b"vp09" => Some((Codec::Vp9 { profile: 0 }, Format::Vp9)),
            b"av01" => Some(parameter_sets::av1(self.visual(b"av1C").unwrap_or_default())),
            b"jpeg" | b"mjpa" | b"mjpg" | b"MJPG" => Some((Codec::Jpeg, Format::Jpeg)),
            b"ac-3" | b"sac3" => self.ac3(),
            b"ec-3" => self.eac3(),
            b"ulaw" | b"alaw" | b"sowt" | b"twos" | b"in24" | b"lpcm" | b"ipcm" => {
                let unlike = || format!("{name} in values that RTP has no payload for");
                let (codec, format, carriage) = self.plain().ok_or_else(|| Unserved::Because(unlike()))?;
                return Ok(SampleEntry { name, codec, format, carriage });
            }
            b"tx3g" => {
                let ((codec, format), carriage) = (text::coding(0), Carriage::Text { has_length: true });
                return Ok(SampleEntry { name, codec, format, carriage });
            }
            _ => return Err(Unserved::Because(format!("{name}, which is no codec that can be served"))),
        };
        let (codec, format) = served.ok_or_else(|| damaged(&name))?;
        Ok(SampleEntry { name, codec, format, carriage: Carriage::Whole })
    }

    /// Width and height as a sample entry of pictures has them.
    pub(super) fn size(&self) -> Option<&[u8]> {
        self.content.get(24..28)
    }

    fn visual(&self, name: &[u8; 4]) -> Option<&[u8]> {
        within(self.content.get(VISUAL_BYTES..)?, &[name])
    }

    /// A box of a sound sample entry, which QuickTime puts into another one at times.
    fn sound(&self, name: &[u8; 4]) -> Option<&[u8]> {
        self.audio(&[name]).or_else(|| self.audio(&[b"wave", name]))
    }

    fn audio(&self, path: &[&[u8; 4]]) -> Option<&[u8]> {
        // QuickTime's versions 1 and 2 have more before the boxes.
        let more = match self.content.get(8..10)? {
            [0, 1] => 16,
            [0, 2] => 36,
            _ => 0,
        };
        within(self.content.get(AUDIO_BYTES + more..)?, path)
    }

    /// The object type tells the codec (ISO/IEC 14496-1, table 5).
    fn mpeg4(&self) -> Option<Result<SampleEntry, Unserved>> {
        let esds = if &self.name == b"mp4v" { self.visual(b"esds") } else { self.sound(b"esds") }?;
        let esds::Decoder { kind, specific } = esds::decoder(esds)?;
        let (name, codec, format) = match kind {
            0x40 | 0x66..=0x68 => ("AAC", sound::aac(specific?.to_vec())?, Format::Aac),
            0x69 | 0x6B => ("MP3", Codec::MpegAudio, Format::MpegAudio),
            0x20 => ("MPEG-4", Codec::Mpeg4 { config: specific?.to_vec() }, Format::Mpeg4),
            0x6C => ("JPEG", Codec::Jpeg, Format::Jpeg),
            0xDD => {
                let (codec, format) = vorbis::codec(specific?)?;
                ("Vorbis", codec, format)
            }
            other => {
                let name = String::from_utf8_lossy(&self.name);
                let phrase = format!("{name} of type {other:#x}, which is no codec that can be served");
                return Some(Err(Unserved::Because(phrase)));
            }
        };
        Some(Ok(SampleEntry { name: name.to_owned(), codec, format, carriage: Carriage::Whole }))
    }

    fn opus(&self) -> Option<(Codec, Format)> {
        let specific: Dops = mp4_atom::Atom::decode_body(&mut self.sound(b"dOps")?).ok()?;
        let streams = specific.channel_mapping.map(|table| OpusStreams {
            streams: table.stream_count,
            coupled: table.coupled_count,
            mapping: table.channel_mapping,
        });
        sound::opus(specific.output_channel_count, streams)
    }

    fn ac3(&self) -> Option<(Codec, Format)> {
        let specific: Ac3SpecificBox = mp4_atom::Atom::decode_body(&mut self.sound(b"dac3")?).ok()?;
        ac3::coded(false, specific.fscod, specific.acmod, specific.lfeon)
    }

    /// Channels of dependent streams are not counted: receivers see them in the frames.
    fn eac3(&self) -> Option<(Codec, Format)> {
        let specific: Ec3SpecificBox = mp4_atom::Atom::decode_body(&mut self.sound(b"dec3")?).ok()?;
        let first = specific.substreams.first()?;
        ac3::coded(true, first.fscod, first.acmod, first.lfeon)
    }

    /// Sound without compression (QuickTime file format, sound sample descriptions; ISO/IEC 23003-5).
    fn plain(&self) -> Option<sound::Plain> {
        let word = |at: usize| Some(u16::from_be_bytes(self.content.get(at..at + 2)?.try_into().ok()?));
        let double_word =
            |at: usize| Some(u32::from_be_bytes(self.content.get(at..at + 4)?.try_into().ok()?));
        const IS_FLOAT: u32 = 1;
        const IS_HIGHEST_FIRST: u32 = 2;
        let mut channels = u8::try_from(word(16)?).ok()?;
        let mut rate = double_word(24)? >> 16;
        let mut bits = u64::from(word(18)?);
        let mut is_reversed = false;
        match &self.name {
            b"ulaw" | b"alaw" => return sound::g711(&self.name == b"alaw", rate, channels),
            b"sowt" => is_reversed = true,
            b"in24" => {
                bits = 24;
                is_reversed = self.sound(b"enda") == Some(&[0, 1]);
            }
            b"ipcm" => {
                let &[_, _, _, _, flags, own_bits, ..] = self.sound(b"pcmC")? else { return None };
                (bits, is_reversed) = (own_bits.into(), flags & 1 != 0);
            }
            b"lpcm" => {
                let flags = double_word(52)?;
                rate = f64::from_be_bytes(self.content.get(32..40)?.try_into().ok()?) as u32;
                channels = u8::try_from(double_word(40)?).ok()?;
                (bits, is_reversed) = (double_word(48)?.into(), flags & IS_HIGHEST_FIRST == 0);
                if flags & IS_FLOAT != 0 {
                    return None;
                }
            }
            _ => {}
        }
        sound::pcm(bits, rate, channels, is_reversed)
    }
}

fn damaged(name: &str) -> Unserved {
    Unserved::Because(format!("{name} whose decoder configuration cannot be read"))
}
