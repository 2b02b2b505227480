//! Which NAL units make a picture of H.264 (ITU-T H.264, 7.4.1.2), and when it comes in the order of presentation.

use forebay_rtsp::presentation::Codec;
use h264_reader::Context;
use h264_reader::nal::pps::PicParameterSet;
use h264_reader::nal::slice::{Field, FieldPic, PicOrderCountLsb, SliceHeader};
use h264_reader::nal::sps::{PicOrderCntType, SeqParameterSet};
use h264_reader::nal::{Nal, NalHeader, RefNal};

use super::{OrderCount, Role, keep};
use crate::time::TimeBase;

#[derive(Default)]
pub(super) struct Pictures {
    sets: Context,
    sps: Vec<Vec<u8>>,
    pps: Vec<Vec<u8>>,
    picture_time: Option<TimeBase>,
    /// How many pictures there were that nothing crosses, and how many since.
    sequence: u64,
    in_sequence: i64,
    order: OrderCount,
    /// A field that waits for its other half, and the number of its frame.
    half: Option<(Field, u16)>,
    /// Decoding can begin at the next picture, though some before it may refer to others.
    is_recovery_point: bool,
}

impl Pictures {
    pub fn codec(&self) -> Codec {
        Codec::H264 { sps: self.sps.clone(), pps: self.pps.clone() }
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
        let Some(&header) = head.first() else { return Role::More };
        match header & 0x1F {
            1 | 2 => self.slice(head, false),
            5 => self.slice(head, true),
            3 | 4 => Role::Slice,
            6 => {
                self.is_recovery_point |= is_recovery_point(head);
                Role::Before
            }
            7 => {
                self.sequence_parameters(head);
                Role::Before
            }
            8 => {
                if let Ok(set) =
                    PicParameterSet::from_bits(&self.sets, RefNal::new(head, &[], true).rbsp_bits())
                {
                    self.sets.put_pic_param_set(set);
                    keep(head, &mut self.pps);
                }
                Role::Before
            }
            9 | 14..=18 => Role::Before,
            _ => Role::More,
        }
    }

    fn sequence_parameters(&mut self, unit: &[u8]) {
        let Ok(set) = SeqParameterSet::from_bits(RefNal::new(unit, &[], true).rbsp_bits()) else { return };
        let timing = set.vui_parameters.as_ref().and_then(|parameters| parameters.timing_info.as_ref());
        let told = timing.and_then(|timing| {
            // Ticks are of fields (E.2.1).
            TimeBase::new(2 * u64::from(timing.num_units_in_tick), timing.time_scale.into())
        });
        self.picture_time = self.picture_time.or(told);
        self.sets.put_seq_param_set(set);
        keep(unit, &mut self.sps);
    }

    fn slice(&mut self, head: &[u8], is_idr: bool) -> Role {
        let Ok(header) = NalHeader::new(head[0]) else { return Role::More };
        let nal = RefNal::new(head, &[], true);
        let parsed = SliceHeader::from_bits(&self.sets, &mut nal.rbsp_bits(), header, None);
        let Ok((slice, sps, _)) = parsed else {
            // The first bit is set where the first macroblock is 0.
            let is_first = head.get(1).is_some_and(|byte| byte & 0x80 != 0);
            return if is_first { self.picture(is_idr, None) } else { Role::Slice };
        };
        if slice.first_mb_in_slice != 0 || completes_frame(&mut self.half, &slice) {
            return Role::Slice;
        }
        if is_idr {
            self.order.before = 0;
        }
        let order = match (&sps.pic_order_cnt, &slice.pic_order_cnt_lsb) {
            (PicOrderCntType::TypeZero { log2_max_pic_order_cnt_lsb_minus4: bits }, Some(low)) => {
                let bits = u32::from(*bits) + 4;
                match *low {
                    PicOrderCountLsb::Frame(low) => Some((self.order.of(low, bits), 0)),
                    PicOrderCountLsb::FieldsAbsolute { pic_order_cnt_lsb, delta_pic_order_cnt_bottom } => {
                        Some((self.order.of(pic_order_cnt_lsb, bits), delta_pic_order_cnt_bottom.min(0)))
                    }
                    PicOrderCountLsb::FieldsDelta(_) => None,
                }
            }
            // The other types are for streams that are presented in the order of decoding.
            _ => None,
        };
        if let Some((order, _)) = order.filter(|_| header.nal_ref_idc() != 0) {
            self.order.before = order;
        }
        self.picture(is_idr, order.map(|(order, earlier)| order + i64::from(earlier)))
    }

    /// A picture begins. Where its order is not known, it is that of decoding.
    fn picture(&mut self, is_idr: bool, order: Option<i64>) -> Role {
        if is_idr {
            self.sequence += 1;
            self.in_sequence = 0;
        }
        let order = order.unwrap_or(2 * self.in_sequence);
        self.in_sequence += 1;
        let is_recovery_point = std::mem::take(&mut self.is_recovery_point);
        Role::Picture { is_sync: is_idr || is_recovery_point, order: (self.sequence, order) }
    }
}

/// Whether a unit may begin like this (7.3.1, table 7-1): others do not refer to what need not be kept, and they do to parameter
/// sets and to pictures that nothing crosses.
pub(super) fn is_possible(head: &[u8]) -> bool {
    let Some(header) = head.first() else { return true };
    let (is_forbidden, is_referred_to) = (header & 0x80 != 0, header & 0x60 != 0);
    match header & 0x1F {
        _ if is_forbidden => false,
        5 | 7 | 8 => is_referred_to,
        1..=16 | 19..=21 => true,
        _ => false,
    }
}

/// Whether it is the second field of a frame; both are one sample.
fn completes_frame(half: &mut Option<(Field, u16)>, slice: &SliceHeader) -> bool {
    let before = half.take();
    let field = match &slice.field_pic {
        FieldPic::Frame => return false,
        FieldPic::Field(Field::Top) => Field::Top,
        FieldPic::Field(Field::Bottom) => Field::Bottom,
    };
    if before.is_some_and(|(other, frame)| other != field && frame == slice.frame_num) {
        return true;
    }
    *half = Some((field, slice.frame_num));
    false
}

/// Whether a unit of supplemental information begins with a recovery point (D.1.8), where nothing before is needed.
fn is_recovery_point(unit: &[u8]) -> bool {
    const RECOVERY_POINT: u8 = 6;
    let mut rest = unit.get(1..).unwrap_or_default();
    while let [kind, bytes, after @ ..] = rest {
        // Types and lengths of 255 and more are none of those that come before.
        if *kind == 255 || *bytes == 255 {
            return false;
        }
        if *kind == RECOVERY_POINT {
            // The first bit is set where the recovery takes no frames.
            return after.first().is_some_and(|byte| byte & 0x80 != 0);
        }
        rest = after.get(usize::from(*bytes)..).unwrap_or_default();
    }
    false
}
