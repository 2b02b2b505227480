//! MPEG-4 part 2 (RFC 6416, section 5): a picture in parts, with nothing before them. The marker ends a picture.
//!
//! Headers begin a packet, since each sample begins with its own.

use super::{Packet, Packetiser, Sample, Unsendable};

impl Packetiser {
    pub(super) fn mpeg4(&mut self, samples: &[Sample], packets: &mut Vec<Packet>) -> Result<(), Unsendable> {
        self.divided(samples, 0, |_, _, _| (), packets);
        Ok(())
    }
}
