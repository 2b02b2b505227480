//! Sequence parameter sets of H.265 (ITU-T H.265, 7.3.2.2 and E.2.1), up to how long a picture lasts: what comes before has to be
//! read, since it has no lengths.

use h264_reader::rbsp::{BitRead, BitReaderError};

use crate::time::TimeBase;

/// What a slice's header needs of a sequence parameter set, and how long a picture lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub id: u32,
    pub has_separate_planes: bool,
    /// How many low bits of its order a picture tells.
    pub order_bits: u32,
    pub picture_time: Option<TimeBase>,
}

impl Sequence {
    /// `None` if it says what cannot be.
    pub fn read(bits: &mut impl BitRead) -> Result<Option<Self>, BitReaderError> {
        bits.skip(4, "sps_video_parameter_set_id")?;
        let sub_layers = bits.read::<3, u32>("sps_max_sub_layers_minus1")?;
        bits.skip(1, "sps_temporal_id_nesting_flag")?;
        skip_profile(bits, sub_layers)?;
        let id = bits.read_ue("sps_seq_parameter_set_id")?;
        let chroma = bits.read_ue("chroma_format_idc")?;
        let has_separate_planes = chroma == 3 && bits.read_bit("separate_colour_plane_flag")?;
        skip_numbers(bits, 2)?;
        if bits.read_bit("conformance_window_flag")? {
            skip_numbers(bits, 4)?;
        }
        skip_numbers(bits, 2)?;
        let order_bits = bits.read_ue("log2_max_pic_order_cnt_lsb_minus4")?.saturating_add(4);
        if order_bits > 16 {
            return Ok(None);
        }
        // A stream can be served without what follows.
        let picture_time = picture_time(bits, sub_layers, order_bits).unwrap_or_default();
        Ok(Some(Self { id, has_separate_planes, order_bits, picture_time }))
    }
}

/// What `vui_timing_info` says, after all that comes before it.
fn picture_time(
    bits: &mut impl BitRead,
    sub_layers: u32,
    order_bits: u32,
) -> Result<Option<TimeBase>, BitReaderError> {
    let has_all = bits.read_bit("sps_sub_layer_ordering_info_present_flag")?;
    skip_numbers(bits, 3 * if has_all { sub_layers + 1 } else { 1 })?;
    skip_numbers(bits, 6)?;
    if bits.read_bit("scaling_list_enabled_flag")? && bits.read_bit("sps_scaling_list_data_present_flag")? {
        skip_scaling_lists(bits)?;
    }
    bits.skip(2, "amp_enabled_flag, sample_adaptive_offset_enabled_flag")?;
    if bits.read_bit("pcm_enabled_flag")? {
        bits.skip(8, "pcm_sample_bit_depths")?;
        skip_numbers(bits, 2)?;
        bits.skip(1, "pcm_loop_filter_disabled_flag")?;
    }
    let sets = bits.read_ue("num_short_term_ref_pic_sets")?.min(64);
    let mut distances = Vec::new();
    for number in 0..sets {
        distances = reference_set(bits, (number > 0).then_some(&distances))?;
    }
    if bits.read_bit("long_term_ref_pics_present_flag")? {
        for _ in 0..bits.read_ue("num_long_term_ref_pics_sps")?.min(32) {
            bits.skip(order_bits + 1, "lt_ref_pic_poc_lsb_sps, used_by_curr_pic_lt_sps_flag")?;
        }
    }
    bits.skip(2, "sps_temporal_mvp_enabled_flag, strong_intra_smoothing_enabled_flag")?;
    if !bits.read_bit("vui_parameters_present_flag")? {
        return Ok(None);
    }
    if bits.read_bit("aspect_ratio_info_present_flag")? && bits.read::<8, u32>("aspect_ratio_idc")? == 255 {
        bits.skip(32, "sar_width, sar_height")?;
    }
    if bits.read_bit("overscan_info_present_flag")? {
        bits.skip(1, "overscan_appropriate_flag")?;
    }
    if bits.read_bit("video_signal_type_present_flag")? {
        bits.skip(4, "video_format, video_full_range_flag")?;
        if bits.read_bit("colour_description_present_flag")? {
            bits.skip(24, "colour_primaries, transfer_characteristics, matrix_coeffs")?;
        }
    }
    if bits.read_bit("chroma_loc_info_present_flag")? {
        skip_numbers(bits, 2)?;
    }
    bits.skip(3, "neutral_chroma_indication_flag, field_seq_flag, frame_field_info_present_flag")?;
    if bits.read_bit("default_display_window_flag")? {
        skip_numbers(bits, 4)?;
    }
    if !bits.read_bit("vui_timing_info_present_flag")? {
        return Ok(None);
    }
    let units = bits.read::<32, u32>("vui_num_units_in_tick")?;
    let scale = bits.read::<32, u32>("vui_time_scale")?;
    Ok(TimeBase::new(units.into(), scale.into()))
}

fn skip_numbers(bits: &mut impl BitRead, count: u32) -> Result<(), BitReaderError> {
    (0..count).try_for_each(|_| bits.read_ue("a number").map(drop))
}

/// 7.3.3.
fn skip_profile(bits: &mut impl BitRead, sub_layers: u32) -> Result<(), BitReaderError> {
    const PROFILE_BITS: u32 = 88;
    const LEVEL_BITS: u32 = 8;
    bits.skip(PROFILE_BITS + LEVEL_BITS, "general_profile, general_level_idc")?;
    let mut more = 0;
    for _ in 0..sub_layers {
        let has_profile = bits.read_bit("sub_layer_profile_present_flag")?;
        let has_level = bits.read_bit("sub_layer_level_present_flag")?;
        more += if has_profile { PROFILE_BITS } else { 0 } + if has_level { LEVEL_BITS } else { 0 };
    }
    if sub_layers > 0 {
        more += 2 * (8 - sub_layers);
    }
    bits.skip(more, "sub_layers")
}

/// 7.3.4.
fn skip_scaling_lists(bits: &mut impl BitRead) -> Result<(), BitReaderError> {
    for size in 0..4 {
        for _ in (0..6).step_by(if size == 3 { 3 } else { 1 }) {
            if bits.read_bit("scaling_list_pred_mode_flag")? {
                let has_middle = u32::from(size > 1);
                skip_numbers(bits, has_middle + 64.min(1 << (4 + 2 * size)))?;
            } else {
                skip_numbers(bits, 1)?;
            }
        }
    }
    Ok(())
}

/// The distances of the pictures in a reference set (7.3.7), which tell how many bits the next set has.
fn reference_set(bits: &mut impl BitRead, before: Option<&Vec<i32>>) -> Result<Vec<i32>, BitReaderError> {
    const PICTURES_MAX: u32 = 16;
    let mut distances = Vec::new();
    if let Some(before) = before
        && bits.read_bit("inter_ref_pic_set_prediction_flag")?
    {
        let is_negative = bits.read_bit("delta_rps_sign")?;
        let distance = bits.read_ue("abs_delta_rps_minus1")?.min(1 << 15) as i32 + 1;
        let distance = if is_negative { -distance } else { distance };
        // The set before, and the picture itself at the end, each moved by the distance.
        for moved in before.iter().chain([&0]).map(|one| one + distance) {
            let is_used = bits.read_bit("used_by_curr_pic_flag")?;
            if (is_used || bits.read_bit("use_delta_flag")?) && moved != 0 {
                distances.push(moved);
            }
        }
    } else {
        let negative = bits.read_ue("num_negative_pics")?.min(PICTURES_MAX);
        let positive = bits.read_ue("num_positive_pics")?.min(PICTURES_MAX);
        for (count, sign) in [(negative, -1), (positive, 1)] {
            let mut distance = 0;
            for _ in 0..count {
                distance += sign * (bits.read_ue("delta_poc_minus1")?.min(1 << 15) as i32 + 1);
                bits.skip(1, "used_by_curr_pic_flag")?;
                distances.push(distance);
            }
        }
    }
    sort(&mut distances);
    Ok(distances)
}

/// Those before the picture from the nearest to the farthest, then those after it in the same way (7.4.8).
fn sort(distances: &mut Vec<i32>) {
    distances.sort_by_key(|distance| (*distance > 0, distance.abs()));
    distances.dedup();
    distances.truncate(32);
}
