//! AC-3 (RFC 4184) and E-AC-3 (RFC 4598): a frame alone, or in parts. The marker ends a frame.
//!
//! ```text
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
//! +-----------+---+---------------+
//! |     0     |FT |      NF       |   AC-3: whole frames (0), the first part (1: five eighths and more, 2: less), another (3)
//! +-----------+-+-+---------------+
//! |     0       |F|      NF       |   E-AC-3: whole frames (0), a part (1)
//! +-------------+-+---------------+
//! ```
//!
//! NF counts the frames, or the parts of the frame.

use std::ops::Range;

use super::{Packet, Packetiser, Sample, Unsendable, check_length};

const HEADER_BYTES: usize = 2;
const PARTS_MAX: usize = u8::MAX as usize;

/// What is in a packet.
#[derive(Clone, Copy)]
enum Content {
    Frame,
    FirstPart { is_most: bool },
    LaterPart,
}

impl Packetiser {
    pub(super) fn ac3(&mut self, samples: &[Sample], packets: &mut Vec<Packet>) -> Result<(), Unsendable> {
        let kind = |content| match content {
            Content::Frame => 0,
            Content::FirstPart { is_most: true } => 1,
            Content::FirstPart { is_most: false } => 2,
            Content::LaterPart => 3,
        };
        self.frames(samples, kind, packets)
    }

    pub(super) fn eac3(&mut self, samples: &[Sample], packets: &mut Vec<Packet>) -> Result<(), Unsendable> {
        self.frames(samples, |content| u8::from(!matches!(content, Content::Frame)), packets)
    }

    fn frames(
        &mut self,
        samples: &[Sample],
        kind: impl Fn(Content) -> u8,
        packets: &mut Vec<Packet>,
    ) -> Result<(), Unsendable> {
        let room = self.payload_bytes_max - HEADER_BYTES;
        let header = |packet: &mut Packet, sample: &Sample, part: &Range<usize>| {
            let count = sample.at.len().div_ceil(room) as u8;
            packet.say(&[kind(content(&sample.at, part)), count]);
        };
        for sample in samples {
            check_length(sample, room * PARTS_MAX)?;
            self.divided(std::slice::from_ref(sample), HEADER_BYTES, header, packets);
        }
        Ok(())
    }
}

fn content(frame: &Range<usize>, part: &Range<usize>) -> Content {
    if part == frame {
        Content::Frame
    } else if part.start == frame.start {
        Content::FirstPart { is_most: 8 * part.len() >= 5 * frame.len() }
    } else {
        Content::LaterPart
    }
}
