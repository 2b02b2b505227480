//! What an AV1 stream says of itself in its sequence header (AV1 bitstream, 5.5).

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError};

/// How many OBUs of a sample are looked at.
const OBUS_MAX: usize = 16;

/// A sequence header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// `seq_profile`.
    pub profile: u8,
    /// `seq_level_idx` of the first operating point.
    pub level: u8,
    /// `seq_tier` of the first operating point.
    pub tier: u8,
    /// In pixels, of the largest picture.
    pub width: u32,
    /// In pixels, of the largest picture.
    pub height: u32,
    /// Bits of a colour's value.
    pub depth: u8,
    /// How colours are sampled: 0 for grey, 1 for 4:2:0, 2 for 4:2:2, 3 for 4:4:4.
    pub chroma: u8,
}

impl Sequence {
    /// The sequence header in a sample; `None` if there is none.
    pub fn of(sample: &[u8]) -> Option<Self> {
        const SEQUENCE_HEADER: u8 = 1;
        let mut rest = sample;
        for _ in 0..OBUS_MAX {
            let (&header, after) = rest.split_first()?;
            let (kind, has_extension, has_size) = (header >> 3 & 15, header & 4 != 0, header & 2 != 0);
            let mut payload = after.get(usize::from(has_extension)..)?;
            let bytes = if has_size { leb128(&mut payload)? } else { payload.len() };
            let (unit, after) = payload.split_at_checked(bytes)?;
            if kind == SEQUENCE_HEADER {
                return Self::read(unit).ok();
            }
            rest = after;
        }
        None
    }

    fn read(unit: &[u8]) -> Result<Self, BitReaderError> {
        let mut bits = BitReader::new(unit);
        let profile = bits.read::<3, u8>("seq_profile")?;
        bits.skip(1, "still_picture")?;
        let is_reduced = bits.read_bit("reduced_still_picture_header")?;
        let (level, tier) =
            if is_reduced { (bits.read::<5, u8>("seq_level_idx")?, 0) } else { operating_points(&mut bits)? };
        let width_bits = bits.read::<4, u32>("frame_width_bits_minus_1")? + 1;
        let height_bits = bits.read::<4, u32>("frame_height_bits_minus_1")? + 1;
        let width = read_bits(&mut bits, width_bits)? + 1;
        let height = read_bits(&mut bits, height_bits)? + 1;
        if !is_reduced && bits.read_bit("frame_id_numbers_present_flag")? {
            bits.skip(7, "delta_frame_id_length, additional_frame_id_length")?;
        }
        bits.skip(3, "use_128x128_superblock, enable_filter_intra, enable_intra_edge_filter")?;
        if !is_reduced {
            bits.skip(4, "enable_interintra_compound and others")?;
            if bits.read_bit("enable_order_hint")? {
                bits.skip(2, "enable_jnt_comp, enable_ref_frame_mvs")?;
                skip_screen_content(&mut bits)?;
                bits.skip(3, "order_hint_bits_minus_1")?;
            } else {
                skip_screen_content(&mut bits)?;
            }
        }
        bits.skip(3, "enable_superres, enable_cdef, enable_restoration")?;
        let is_high = bits.read_bit("high_bitdepth")?;
        let depth = match (is_high, profile) {
            (true, 2) if bits.read_bit("twelve_bit")? => 12,
            (true, _) => 10,
            (false, _) => 8,
        };
        let is_grey = profile != 1 && bits.read_bit("mono_chrome")?;
        let chroma = match (is_grey, profile) {
            (true, _) => 0,
            (_, 0) => 1,
            (_, 1) => 3,
            (_, _) => 2,
        };
        Ok(Self { profile, level, tier, width, height, depth, chroma })
    }
}

fn leb128(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in (0..56).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Level and tier of the first operating point.
fn operating_points(bits: &mut impl BitRead) -> Result<(u8, u8), BitReaderError> {
    let (mut has_model, mut delay_bits) = (false, 0);
    if bits.read_bit("timing_info_present_flag")? {
        bits.skip(64, "num_units_in_display_tick, time_scale")?;
        if bits.read_bit("equal_picture_interval")? {
            bits.read_ue("num_ticks_per_picture_minus_1")?;
        }
        has_model = bits.read_bit("decoder_model_info_present_flag")?;
        if has_model {
            delay_bits = bits.read::<5, u32>("buffer_delay_length_minus_1")? + 1;
            bits.skip(32 + 10, "num_units_in_decoding_tick and others")?;
        }
    }
    let has_display_delay = bits.read_bit("initial_display_delay_present_flag")?;
    let points = bits.read::<5, u32>("operating_points_cnt_minus_1")?;
    let mut first = None;
    for _ in 0..=points {
        bits.skip(12, "operating_point_idc")?;
        let level = bits.read::<5, u8>("seq_level_idx")?;
        let tier = u8::from(level > 7 && bits.read_bit("seq_tier")?);
        first.get_or_insert((level, tier));
        if has_model && bits.read_bit("decoder_model_present_for_this_op")? {
            bits.skip(2 * delay_bits + 1, "decoder_buffer_delay and others")?;
        }
        if has_display_delay && bits.read_bit("initial_display_delay_present_for_this_op")? {
            bits.skip(4, "initial_display_delay_minus_1")?;
        }
    }
    Ok(first.unwrap_or_default())
}

fn skip_screen_content(bits: &mut impl BitRead) -> Result<(), BitReaderError> {
    let is_chosen = bits.read_bit("seq_choose_screen_content_tools")?;
    let has_tools = is_chosen || bits.read_bit("seq_force_screen_content_tools")?;
    if has_tools && !bits.read_bit("seq_choose_integer_mv")? {
        bits.skip(1, "seq_force_integer_mv")?;
    }
    Ok(())
}

fn read_bits(bits: &mut impl BitRead, count: u32) -> Result<u32, BitReaderError> {
    (0..count).try_fold(0, |value, _| Ok(value << 1 | u32::from(bits.read_bit("a bit")?)))
}
