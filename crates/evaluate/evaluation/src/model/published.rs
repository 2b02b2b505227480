//! The machines and applications of the published table.
//!
//! The numbers of transfers are the only ones up to five each that give its twelve cells, with a bus of 64 bits at 133 MHz
//! ([`BUS_MB_S`]).

use crate::model::{Machine, Transfers};

/// Throughput of the bus to devices, in MB/s.
pub const BUS_MB_S: f64 = 1066.0;

/// A processor of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processor {
    /// Its name.
    pub name: &'static str,
    /// Throughput of its memory, in MB/s.
    pub memory_mb_s: f64,
    /// Published throughput of each of [`APPLICATIONS`], in Mbit/s.
    pub throughput_mbit_s: [f64; 3],
}

impl Processor {
    /// As a machine of the model.
    #[must_use]
    pub const fn machine(&self) -> Machine {
        Machine::of_transfers(self.memory_mb_s, BUS_MB_S)
    }
}

/// An application of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Application {
    /// The name in results.
    pub name: &'static str,
    /// How often it moves a data unit.
    pub transfers: Transfers,
}

/// The processors.
pub const PROCESSORS: [Processor; 4] = [
    Processor {
        name: "Pentium 4 3.06 GHz",
        memory_mb_s: 3200.0,
        throughput_mbit_s: [4264.0, 3640.0, 3640.0],
    },
    Processor { name: "Athlon XP 3000", memory_mb_s: 2700.0, throughput_mbit_s: [4264.0, 3291.0, 3291.0] },
    Processor {
        name: "MIPS R16000 700 MHz",
        memory_mb_s: 3200.0,
        throughput_mbit_s: [4264.0, 3640.0, 3640.0],
    },
    Processor {
        name: "UltraSPARC III 900 MHz",
        memory_mb_s: 1200.0,
        throughput_mbit_s: [4264.0, 1862.0, 1862.0],
    },
];

/// Packets come in and go out by DMA; nothing else touches them.
pub const FORWARDING: Application = Application {
    name: "ip-forwarding",
    transfers: Transfers { reads: 0.0, copies: 0.0, disk: 0.0, network: 2.0 },
};

/// Files that are in memory are copied to the program and back to the kernel, read once for a checksum, and go out by DMA.
pub const HTTP: Application =
    Application { name: "http", transfers: Transfers { reads: 1.0, copies: 2.0, disk: 0.0, network: 1.0 } };

/// The same.
pub const RTP: Application = Application { name: "rtp-streaming", ..HTTP };

/// The applications, in the order of [`Processor::throughput_mbit_s`].
pub const APPLICATIONS: [Application; 3] = [FORWARDING, HTTP, RTP];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LineFill, Transaction};

    fn throughput(processor: &Processor, transfers: Transfers, fill: LineFill) -> f64 {
        Transaction::of_transfers(1500.0, transfers).terms(&processor.machine(), fill).throughput_mbit_s()
    }

    #[test]
    fn all_twelve_cells_within_a_megabit() {
        for processor in &PROCESSORS {
            for (application, published) in APPLICATIONS.iter().zip(processor.throughput_mbit_s) {
                let ours = throughput(processor, application.transfers, LineFill::Byte);
                assert!((ours - published).abs() < 1.0, "{} {}: {ours}", processor.name, application.name);
            }
        }
    }

    #[test]
    fn whole_lines_and_fewer_copies() {
        let [pentium, athlon, _, sparc] = PROCESSORS;
        let with = |processor: &Processor, copies, fill| {
            throughput(processor, Transfers { copies, ..HTTP.transfers }, fill).round()
        };
        let whole = [pentium, athlon, sparc].map(|processor| with(&processor, 2.0, LineFill::Whole));
        assert_eq!(whole, [3199.0, 2867.0, 1567.0]);
        let one_copy = [pentium, athlon, sparc].map(|processor| with(&processor, 1.0, LineFill::Byte));
        assert_eq!(one_copy, [5086.0, 4733.0, 3041.0]);
        let none = Transfers { reads: 0.0, copies: 0.0, ..HTTP.transfers };
        assert_eq!(throughput(&pentium, none, LineFill::Byte).round(), 8528.0);
    }
}
