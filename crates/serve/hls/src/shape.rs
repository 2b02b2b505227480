//! What a browser has to know of a track before it plays it: the codec by its name (RFC 6381), and the size of pictures.

use forebay_media::av1;
use forebay_rtsp::presentation::Codec;
use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};
use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, ByteReader};

use crate::frames::Frames;

/// A track as browsers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// As in a `codecs` parameter.
    pub codec: String,
    /// Width and height in pixels, for pictures.
    pub size: Option<(u16, u16)>,
    /// Bits of a colour's value.
    pub depth: u8,
    /// How colours are sampled: 0 for grey, 1 for 4:2:0, 2 for 4:2:2, 3 for 4:4:4.
    pub chroma: u8,
    /// What frames of sound say, where the file does not.
    pub(crate) frames: Option<Frames>,
}

impl Shape {
    /// Whether the first sample has to be known, too.
    pub fn needs_sample(codec: &Codec) -> bool {
        matches!(
            codec,
            Codec::Av1 { .. } | Codec::Vp9 { .. } | Codec::MpegAudio | Codec::Ac3 { .. } | Codec::Eac3 { .. }
        )
    }

    /// Whether only some browsers play it.
    pub(crate) fn is_for_some(&self) -> bool {
        self.frames.is_some()
    }

    /// `None` if browsers do not play the codec in MP4, or if its headers are damaged.
    pub fn of(codec: &Codec, first_sample: &[u8]) -> Option<Self> {
        match codec {
            Codec::H264 { sps, .. } => h264(sps.first()?),
            Codec::H265 { sps, .. } => H265::read(sps.first()?).map(|set| set.shape()),
            Codec::Av1 { profile, level, tier } => {
                let av1::Sequence { width, height, depth, chroma, .. } = av1::Sequence::of(first_sample)?;
                let size = size(width, height)?;
                let tier = if *tier == 0 { 'M' } else { 'H' };
                let codec = format!("av01.{profile}.{level:02}{tier}.{depth:02}");
                Some(Self { codec, size: Some(size), depth, chroma, frames: None })
            }
            Codec::Vp9 { .. } => {
                let (profile, Pictures { size, depth, chroma }) = vp9(first_sample).ok().flatten()?;
                let codec = format!("vp09.{profile:02}.{}.{depth:02}", vp9_level(size));
                Some(Self { codec, size: Some(size), depth, chroma, frames: None })
            }
            Codec::Aac { config, .. } => {
                let kind = match *config.as_slice() {
                    [first, second, ..] if first >> 3 == 31 => 32 + ((first & 7) << 3 | second >> 5),
                    [first, ..] => first >> 3,
                    [] => return None,
                };
                Some(Self::of_sound(format!("mp4a.40.{kind}")))
            }
            Codec::Opus { .. } | Codec::MultiOpus(_) => Some(Self::of_sound("opus".to_owned())),
            Codec::MpegAudio => Frames::mp3(first_sample).map(Self::of_frames),
            Codec::Ac3 { .. } => Frames::ac3(first_sample).map(Self::of_frames),
            Codec::Eac3 { clock_rate, .. } => Frames::eac3(first_sample, *clock_rate).map(Self::of_frames),
            _ => None,
        }
    }

    fn of_sound(codec: String) -> Self {
        Self { codec, size: None, depth: 0, chroma: 0, frames: None }
    }

    fn of_frames(frames: Frames) -> Self {
        Self { frames: Some(frames.clone()), ..Self::of_sound(frames.name()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pictures {
    size: (u16, u16),
    depth: u8,
    chroma: u8,
}

fn size(width: u32, height: u32) -> Option<(u16, u16)> {
    let is_some = width > 0 && height > 0;
    is_some.then_some((width.try_into().ok()?, height.try_into().ok()?))
}

fn h264(sps: &[u8]) -> Option<Shape> {
    let [_, profile, constraints, level, ..] = *sps else { return None };
    let set = SeqParameterSet::from_bits(RefNal::new(sps, &[], true).rbsp_bits()).ok()?;
    let (width, height) = set.pixel_dimensions().ok()?;
    Some(Shape {
        codec: format!("avc1.{profile:02x}{constraints:02x}{level:02x}"),
        size: Some(size(width, height)?),
        depth: 8 + set.chroma_info.bit_depth_luma_minus8,
        chroma: set.chroma_info.chroma_format.to_u32() as u8,
        frames: None,
    })
}

/// What a sequence parameter set of H.265 says up to its bit depth (ITU-T H.265, 7.3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct H265 {
    /// Profile, its constraints and the level: the first 12 bytes of `profile_tier_level`.
    pub profile: [u8; 12],
    pub sub_layers: u8,
    pub is_nested: bool,
    size: (u16, u16),
    pub depth: u8,
    pub depth_chroma: u8,
    pub chroma: u8,
}

impl H265 {
    pub fn read(sps: &[u8]) -> Option<Self> {
        Self::read_bits(sps.get(2..)?).ok().flatten()
    }

    fn read_bits(after_header: &[u8]) -> Result<Option<Self>, BitReaderError> {
        let mut bits = BitReader::new(ByteReader::without_skip(after_header));
        bits.skip(4, "sps_video_parameter_set_id")?;
        let sub_layers = bits.read::<3, u8>("sps_max_sub_layers_minus1")?;
        let is_nested = bits.read_bit("sps_temporal_id_nesting_flag")?;
        let mut profile = [0; 12];
        for byte in &mut profile {
            *byte = bits.read::<8, u8>("profile_tier_level")?;
        }
        skip_sub_layers(&mut bits, sub_layers.into())?;
        bits.read_ue("sps_seq_parameter_set_id")?;
        let chroma = bits.read_ue("chroma_format_idc")?;
        if chroma == 3 {
            bits.skip(1, "separate_colour_plane_flag")?;
        }
        let (mut width, mut height) = (bits.read_ue("width")?, bits.read_ue("height")?);
        if bits.read_bit("conformance_window_flag")? {
            let mut sides = [0_u32; 4];
            for side in &mut sides {
                *side = bits.read_ue("conf_win_offset")?;
            }
            let [left, right, top, bottom] = sides;
            let (across, down) =
                (if matches!(chroma, 1 | 2) { 2 } else { 1 }, if chroma == 1 { 2 } else { 1 });
            width = width.saturating_sub(left.saturating_add(right).saturating_mul(across));
            height = height.saturating_sub(top.saturating_add(bottom).saturating_mul(down));
        }
        let depth = bits.read_ue("bit_depth_luma_minus8")?;
        let depth_chroma = bits.read_ue("bit_depth_chroma_minus8")?;
        let Some(size) = size(width, height) else { return Ok(None) };
        let are_possible = chroma <= 3 && depth <= 8 && depth_chroma <= 8;
        Ok(are_possible.then(|| Self {
            profile,
            sub_layers: sub_layers + 1,
            is_nested,
            size,
            depth: 8 + depth as u8,
            depth_chroma: 8 + depth_chroma as u8,
            chroma: chroma as u8,
        }))
    }

    /// By ISO/IEC 14496-15, annex E.
    fn shape(&self) -> Shape {
        let [first, compatible @ .., level] = self.profile;
        let space = ["", "A", "B", "C"][usize::from(first >> 6)];
        let tier = if first & 0x20 == 0 { 'L' } else { 'H' };
        let [flags @ .., _, _, _, _, _, _] = compatible;
        let flags = u32::from_be_bytes(flags).reverse_bits();
        let mut codec = format!("hvc1.{space}{}.{flags:x}.{tier}{level}", first & 0x1F);
        let constraints = &compatible[4..];
        let told = constraints.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        constraints[..told].iter().for_each(|byte| codec += &format!(".{byte:x}"));
        Shape { codec, size: Some(self.size), depth: self.depth, chroma: self.chroma, frames: None }
    }
}

/// What `profile_tier_level` has of sub-layers (7.3.3).
fn skip_sub_layers(bits: &mut impl BitRead, sub_layers: u32) -> Result<(), BitReaderError> {
    let mut more = 0;
    for _ in 0..sub_layers {
        let has_profile = bits.read_bit("sub_layer_profile_present_flag")?;
        let has_level = bits.read_bit("sub_layer_level_present_flag")?;
        more += if has_profile { 88 } else { 0 } + if has_level { 8 } else { 0 };
    }
    if sub_layers > 0 {
        more += 2 * (8 - sub_layers);
    }
    bits.skip(more, "sub_layers")
}

/// The profile, and what the header of the first key frame says (VP9 bitstream, 6.2); `None` if it is no key frame.
fn vp9(sample: &[u8]) -> Result<Option<(u8, Pictures)>, BitReaderError> {
    const SYNC_CODE: u32 = 0x49_83_42;
    const RGB: u8 = 7;
    let mut bits = BitReader::new(sample);
    bits.skip(2, "frame_marker")?;
    let profile =
        u8::from(bits.read_bit("profile_low_bit")?) | u8::from(bits.read_bit("profile_high_bit")?) << 1;
    if profile == 3 {
        bits.skip(1, "reserved_zero")?;
    }
    let is_repeated = bits.read_bit("show_existing_frame")?;
    let is_other = bits.read_bit("frame_type")?;
    bits.skip(2, "show_frame, error_resilient_mode")?;
    if is_repeated || is_other || bits.read::<24, u32>("frame_sync_code")? != SYNC_CODE {
        return Ok(None);
    }
    let is_twelve = profile >= 2 && bits.read_bit("ten_or_twelve_bit")?;
    let depth = if is_twelve {
        12
    } else if profile >= 2 {
        10
    } else {
        8
    };
    let is_odd = profile & 1 == 1;
    let chroma = if bits.read::<3, u8>("color_space")? == RGB {
        bits.skip(u32::from(is_odd), "reserved_zero")?;
        3
    } else {
        bits.skip(1, "color_range")?;
        if is_odd {
            let is_half_across = bits.read_bit("subsampling_x")?;
            bits.skip(2, "subsampling_y, reserved_zero")?;
            if is_half_across { 2 } else { 3 }
        } else {
            1
        }
    };
    let width = bits.read::<16, u32>("frame_width_minus_1")? + 1;
    let height = bits.read::<16, u32>("frame_height_minus_1")? + 1;
    Ok(size(width, height).map(|size| (profile, Pictures { size, depth, chroma })))
}

/// The least level that has pictures of that size (VP9 bitstream, annex A).
pub(crate) fn vp9_level((width, height): (u16, u16)) -> u8 {
    let pixels = u32::from(width) * u32::from(height);
    let levels = [
        (36_864, 10),
        (73_728, 11),
        (122_880, 20),
        (245_760, 21),
        (552_960, 30),
        (983_040, 31),
        (2_228_224, 41),
        (8_912_896, 51),
    ];
    levels.into_iter().find(|(most, _)| pixels <= *most).map_or(61, |(_, level)| level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(codec: &str, size: Option<(u16, u16)>, depth: u8, chroma: u8) -> Option<Shape> {
        Some(Shape { codec: codec.to_owned(), size, depth, chroma, frames: None })
    }

    #[test]
    fn sound_is_named_by_its_configuration() {
        let aac = |config: &[u8]| {
            Shape::of(&Codec::Aac { config: config.to_vec(), clock_rate: 48_000, channels: 2 }, &[])
        };
        assert_eq!(aac(&[0x11, 0x90]), shape("mp4a.40.2", None, 0, 0));
        assert_eq!(aac(&[0xF9, 0x40]), shape("mp4a.40.42", None, 0, 0));
        assert_eq!(aac(&[]), None);
        assert_eq!(Shape::of(&Codec::Opus { channels: 2 }, &[]), shape("opus", None, 0, 0));
        assert_eq!(Shape::of(&Codec::Jpeg, &[]), None);
    }

    #[test]
    fn an_impossible_depth_is_none() {
        // Chroma 1, a width and height of 1, no window, a depth of 250 + 8, a chroma depth of 8.
        let sps = [&[0x42, 1, 1][..], &[1; 12], &[0xA4, 0x80, 0x3E, 0xE0]].concat();
        assert_eq!(H265::read(&sps), None);
    }

    #[test]
    fn key_frames_of_vp9_tell_their_size() {
        let key = [0x82, 0x49, 0x83, 0x42, 0x00, 0x13, 0xF0, 0x0E, 0xF0, 0x00];
        assert_eq!(
            Shape::of(&Codec::Vp9 { profile: 0 }, &key),
            shape("vp09.00.20.08", Some((320, 240)), 8, 1)
        );
        assert_eq!(Shape::of(&Codec::Vp9 { profile: 0 }, &[0x86]), None);
    }

    proptest! {
        #[test]
        fn no_headers_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let codecs = [
                Codec::H264 { sps: vec![bytes.clone()], pps: vec![] },
                Codec::H265 { vps: vec![], sps: vec![bytes.clone()], pps: vec![] },
                Codec::Av1 { profile: 0, level: 0, tier: 0 },
                Codec::Vp9 { profile: 0 },
                Codec::MpegAudio,
                Codec::Ac3 { clock_rate: 48_000, channels: 2 },
                Codec::Eac3 { clock_rate: u32::MAX, channels: 2 },
                Codec::Aac { config: bytes.clone(), clock_rate: 1, channels: 1 },
            ];
            codecs.iter().for_each(|codec| drop(Shape::of(codec, &bytes)));
        }
    }
}
