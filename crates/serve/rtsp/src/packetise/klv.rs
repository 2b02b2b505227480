//! KLV units (RFC 6597): a unit in parts, with nothing before them. The marker ends a unit.

use super::{Packet, Packetiser, Sample, Unsendable};

impl Packetiser {
    pub(super) fn klv(&mut self, samples: &[Sample], packets: &mut Vec<Packet>) -> Result<(), Unsendable> {
        self.divided(samples, 0, |_, _, _| (), packets);
        Ok(())
    }
}
