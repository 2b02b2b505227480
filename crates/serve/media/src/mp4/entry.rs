//! Sample entries: how the samples of a track are coded (ISO/IEC 14496-12, 8.5.2; 14496-14; 14496-15).

use forebay_rtsp::packetise::Format;
use forebay_rtsp::presentation::Codec;
use mp4_atom::{Dops, Esds};

use super::Unserved;
use super::boxes::{Box, Boxes, within};
use crate::parameter_sets;
use crate::sound;

/// An esds nests its descriptors; longer ones are none.
const ESDS_BYTES_MAX: usize = 1 << 10;

/// What a picture or sound sample entry begins with, before the boxes in it.
const VISUAL_BYTES: usize = 78;
const AUDIO_BYTES: usize = 28;

pub(super) struct SampleEntry {
    pub name: String,
    pub codec: Codec,
    pub format: Format,
}

/// The first entry of a sample description box. Files whose coding changes on the way are rare, and not served beyond that.
pub(super) fn first(descriptions: &[u8]) -> Option<Box<'_>> {
    Boxes(descriptions.get(8..)?).next()
}

impl Box<'_> {
    /// What it says, if that can be served.
    pub(super) fn served(&self) -> Result<SampleEntry, Unserved> {
        let name = String::from_utf8_lossy(&self.name).trim().to_owned();
        let served = match &self.name {
            b"encv" | b"enca" => return Err(Unserved::Encrypted),
            b"avc1" | b"avc3" => self.visual(b"avcC").and_then(parameter_sets::h264),
            b"hvc1" | b"hev1" => self.visual(b"hvcC").and_then(parameter_sets::h265),
            b"mp4a" => return self.mpeg4_audio().ok_or_else(|| damaged(&name))?,
            b"Opus" => self.opus(),
            b".mp3" | b"ms\0U" => Some((Codec::MpegAudio, Format::MpegAudio)),
            _ => return Err(Unserved::Because(format!("{name}, which is no codec that can be served"))),
        };
        let (codec, format) = served.ok_or_else(|| damaged(&name))?;
        Ok(SampleEntry { name, codec, format })
    }

    fn visual(&self, name: &[u8; 4]) -> Option<&[u8]> {
        within(self.content.get(VISUAL_BYTES..)?, &[name])
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
    fn mpeg4_audio(&self) -> Option<Result<SampleEntry, Unserved>> {
        let mut esds = self.audio(&[b"esds"]).or_else(|| self.audio(&[b"wave", b"esds"]))?;
        if esds.len() > ESDS_BYTES_MAX {
            return None;
        }
        let esds: Esds = mp4_atom::Atom::decode_body(&mut esds).ok()?;
        let decoder = esds.es_desc.dec_config;
        let (name, codec, format) = match decoder.object_type_indication {
            0x40 | 0x66..=0x68 => {
                let config = decoder.dec_specific?.raw;
                ("AAC", sound::aac(config)?, Format::Aac)
            }
            0x69 | 0x6B => ("MP3", Codec::MpegAudio, Format::MpegAudio),
            other => {
                let phrase = format!("mp4a of type {other:#x}, which is no codec that can be served");
                return Some(Err(Unserved::Because(phrase)));
            }
        };
        Some(Ok(SampleEntry { name: name.to_owned(), codec, format }))
    }

    fn opus(&self) -> Option<(Codec, Format)> {
        let specific: Dops = mp4_atom::Atom::decode_body(&mut self.audio(&[b"dOps"])?).ok()?;
        sound::opus(specific.output_channel_count)
    }
}

fn damaged(name: &str) -> Unserved {
    Unserved::Because(format!("{name} whose decoder configuration cannot be read"))
}
