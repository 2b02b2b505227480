//! Pictures that another reader has found: what their first bytes tell.

use forebay_rtsp::presentation;
use memchr::memmem;

use super::{Codec, Role, START_CODE, h264, h265};

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

    /// Whether decoding can begin with the access unit that begins so; `None` if its picture is not there.
    pub fn is_key(&mut self, head: &[u8]) -> Option<bool> {
        let mut starts = memmem::find_iter(head, START_CODE).map(|at| at + START_CODE.len()).peekable();
        while let Some(start) = starts.next() {
            let end = starts.peek().map_or(head.len(), |next| next - START_CODE.len());
            let unit = &head[start..end];
            let zeros = unit.iter().rev().take_while(|byte| **byte == 0).count();
            let unit = &unit[..unit.len() - zeros];
            let role = match &mut self.0 {
                Pictures::H264(pictures) => pictures.role(unit),
                Pictures::H265(pictures) => pictures.role(unit),
            };
            if let Role::Picture { is_sync, .. } = role {
                return Some(is_sync);
            }
        }
        None
    }

    /// With the parameter sets that there have been.
    pub fn codec(&self) -> presentation::Codec {
        match &self.0 {
            Pictures::H264(pictures) => pictures.codec(),
            Pictures::H265(pictures) => pictures.codec(),
        }
    }
}
