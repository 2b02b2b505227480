//! Which NAL units make a picture of H.265 (ITU-T H.265, 7.4.2.4.4), and when it comes in the order of presentation.

use std::num::NonZeroUsize;

use forebay_rtsp::presentation::Codec;
use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, ByteReader};

use super::h265_sequence::Sequence;
use super::{OrderCount, Role, keep};
use crate::time::TimeBase;

const HEADER_BYTES: NonZeroUsize = NonZeroUsize::new(2).expect("a header has bytes");
const SPS_COUNT: usize = 16;
const PPS_COUNT: usize = 64;

type Bits<'a> = BitReader<ByteReader<&'a [u8]>>;

pub(super) struct Pictures {
    vps: Vec<Vec<u8>>,
    sps: Vec<Vec<u8>>,
    pps: Vec<Vec<u8>>,
    sequences: [Option<Sequence>; SPS_COUNT],
    pictures: [Option<Picture>; PPS_COUNT],
    picture_time: Option<TimeBase>,
    /// How many pictures there were that nothing crosses.
    sequence: u64,
    order: OrderCount,
    /// Whether there has been a picture that decoding can begin at, since the beginning or an end.
    has_begun: bool,
}

impl Default for Pictures {
    fn default() -> Self {
        let [vps, sps, pps] = [const { Vec::new() }; 3];
        Self {
            vps,
            sps,
            pps,
            sequences: [None; SPS_COUNT],
            pictures: [None; PPS_COUNT],
            picture_time: None,
            sequence: 0,
            order: OrderCount::default(),
            has_begun: false,
        }
    }
}

/// Whether a unit may begin like this (7.3.1.2, table 7-1).
pub(super) fn is_possible(head: &[u8]) -> bool {
    let [first, second, ..] = *head else { return true };
    let (is_forbidden, kind, temporal) = (first & 0x80 != 0, first >> 1 & 0x3F, second & 7);
    !is_forbidden && temporal > 0 && matches!(kind, 0..=9 | 16..=21 | 32..=40 | 48..)
}

/// What a slice's header needs of a picture parameter set.
#[derive(Clone, Copy)]
struct Picture {
    sequence: usize,
    has_output_flag: bool,
    extra_bits: u32,
}

impl Pictures {
    pub fn codec(&self) -> Codec {
        Codec::H265 { vps: self.vps.clone(), sps: self.sps.clone(), pps: self.pps.clone() }
    }

    /// Whether a decoder would have what it needs before a picture.
    pub fn has_sets(&self) -> bool {
        !self.sps.is_empty() && !self.pps.is_empty()
    }

    pub fn picture_time(&self) -> Option<TimeBase> {
        self.picture_time
    }

    /// What a unit is, by its first bytes.
    pub fn role(&mut self, head: &[u8]) -> Role {
        let [first, second, third, ..] = *head else { return Role::More };
        let (kind, layer, temporal) = (first >> 1 & 0x3F, (first & 1) << 5 | second >> 3, second & 7);
        if layer > 0 {
            return Role::More;
        }
        let mut bits = BitReader::new(ByteReader::skipping_bytes(head, HEADER_BYTES));
        match kind {
            0..=31 if third & 0x80 != 0 => self.picture(kind, temporal, &mut bits),
            0..=31 => Role::Slice,
            32 => {
                keep(head, &mut self.vps);
                Role::Before
            }
            33 => {
                if let Ok(Some(sequence)) = Sequence::read(&mut bits)
                    && let Some(place) = self.sequences.get_mut(sequence.id as usize)
                {
                    self.picture_time = self.picture_time.or(sequence.picture_time);
                    *place = Some(sequence);
                    keep(head, &mut self.sps);
                }
                Role::Before
            }
            34 => {
                if self.picture_parameters(&mut bits).is_ok() {
                    keep(head, &mut self.pps);
                }
                Role::Before
            }
            35 | 39 | 41..=44 | 48..=55 => Role::Before,
            36 => {
                self.has_begun = false;
                Role::More
            }
            _ => Role::More,
        }
    }

    /// The first slice of a picture.
    fn picture(&mut self, kind: u8, temporal: u8, bits: &mut Bits) -> Role {
        const IDR: std::ops::RangeInclusive<u8> = 19..=20;
        let is_random_access = (16..=23).contains(&kind);
        // Only after a clean random access can the stream begin; another one is a picture like others.
        let is_first = is_random_access && (kind != 21 || !self.has_begun);
        if is_first {
            self.sequence += 1;
            self.has_begun = true;
            self.order.before = 0;
        }
        let low = if IDR.contains(&kind) { Ok(Some((0, 4))) } else { self.low_order(is_random_access, bits) };
        let order = match low {
            Ok(Some((low, _))) if is_first => i64::from(low),
            Ok(Some((low, order_bits))) => self.order.of(low, order_bits),
            Ok(None) | Err(_) => self.order.before + 1,
        };
        // Others refer to the order of those that are referred to themselves and are no leading pictures (8.3.1).
        let is_referred_to = temporal == 1 && !matches!(kind, 0 | 2 | 4 | 6..=10 | 12 | 14);
        if is_referred_to {
            self.order.before = order;
        }
        Role::Picture { is_sync: is_random_access, order: (self.sequence, order) }
    }

    /// The low bits of a picture's order, and how many there are (7.3.6.1); `None` if its parameter sets have not come.
    fn low_order(
        &self,
        is_random_access: bool,
        bits: &mut Bits,
    ) -> Result<Option<(u32, u32)>, BitReaderError> {
        bits.skip(1, "first_slice_segment_in_pic_flag")?;
        if is_random_access {
            bits.skip(1, "no_output_of_prior_pics_flag")?;
        }
        let id = bits.read_ue("slice_pic_parameter_set_id")? as usize;
        let Some(Some(picture)) = self.pictures.get(id) else { return Ok(None) };
        let Some(Some(sequence)) = self.sequences.get(picture.sequence) else { return Ok(None) };
        bits.skip(picture.extra_bits, "slice_reserved_flag")?;
        bits.read_ue("slice_type")?;
        if picture.has_output_flag {
            bits.skip(1, "pic_output_flag")?;
        }
        if sequence.has_separate_planes {
            bits.skip(2, "colour_plane_id")?;
        }
        let low = bits.read_var(sequence.order_bits, "slice_pic_order_cnt_lsb")?;
        Ok(Some((low, sequence.order_bits)))
    }

    /// 7.3.2.3.1, as far as it is needed.
    fn picture_parameters(&mut self, bits: &mut Bits) -> Result<(), BitReaderError> {
        let id = bits.read_ue("pps_pic_parameter_set_id")? as usize;
        let sequence = bits.read_ue("pps_seq_parameter_set_id")? as usize;
        bits.skip(1, "dependent_slice_segments_enabled_flag")?;
        let has_output_flag = bits.read_bit("output_flag_present_flag")?;
        let extra_bits = bits.read::<3, u32>("num_extra_slice_header_bits")?;
        if let Some(place) = self.pictures.get_mut(id) {
            *place = Some(Picture { sequence, has_output_flag, extra_bits });
        }
        Ok(())
    }
}
