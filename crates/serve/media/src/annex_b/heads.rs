//! Pictures that another reader has found: what their first bytes tell.

use forebay_rtsp::presentation;
use memchr::memmem;

use super::access_units::FoundPicture;
use super::{Codec, Role, START_CODE, h264, h265};
use crate::time::TimeBase;

/// Reads the beginnings of access units, one after the other.
pub(crate) struct Heads(Pictures);

enum Pictures {
    H264(Box<h264::Pictures>),
    H265(Box<h265::Pictures>),
}

impl Heads {
    pub fn new(codec: Codec) -> Self {
        Self(match codec {
            Codec::H264 => Pictures::H264(Box::default()),
            Codec::H265 => Pictures::H265(Box::default()),
        })
    }

    /// The picture of the access unit that begins so; `None` if it is not there.
    pub fn picture(&mut self, head: &[u8]) -> Option<FoundPicture> {
        let mut starts = memmem::find_iter(head, START_CODE).map(|at| at + START_CODE.len()).peekable();
        while let Some(start) = starts.next() {
            let end = starts.peek().map_or(head.len(), |next| next - START_CODE.len());
            let unit = &head[start..end];
            let zeros = unit.iter().rev().take_while(|byte| **byte == 0).count();
            if let Role::Picture { is_sync, order } = self.role(&unit[..unit.len() - zeros]) {
                return Some((is_sync, order));
            }
        }
        None
    }

    /// The same of units with lengths of so many bytes before them.
    pub fn picture_by_lengths(&mut self, mut head: &[u8], length_bytes: usize) -> Option<FoundPicture> {
        while let Some((length, rest)) = head.split_at_checked(length_bytes) {
            let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            let (unit, after) = rest.split_at(length.min(rest.len()));
            if let Role::Picture { is_sync, order } = self.role(unit) {
                return Some((is_sync, order));
            }
            head = after;
        }
        None
    }

    /// Takes a unit, such as a parameter set.
    pub fn take(&mut self, unit: &[u8]) {
        self.role(unit);
    }

    /// What a unit is to its access unit.
    pub fn role(&mut self, unit: &[u8]) -> Role {
        match &mut self.0 {
            Pictures::H264(pictures) => pictures.role(unit),
            Pictures::H265(pictures) => pictures.role(unit),
        }
    }

    /// Whether there have been parameter sets.
    pub fn has_sets(&self) -> bool {
        match &self.0 {
            Pictures::H264(pictures) => pictures.has_sets(),
            Pictures::H265(pictures) => pictures.has_sets(),
        }
    }

    /// How long a picture lasts, if parameter sets say so.
    pub fn picture_time(&self) -> Option<TimeBase> {
        match &self.0 {
            Pictures::H264(pictures) => pictures.picture_time(),
            Pictures::H265(pictures) => pictures.picture_time(),
        }
    }

    /// With the parameter sets that there have been.
    pub fn codec(&self) -> presentation::Codec {
        match &self.0 {
            Pictures::H264(pictures) => pictures.codec(),
            Pictures::H265(pictures) => pictures.codec(),
        }
    }
}
