//! The time of one transaction, term by term.

/// Bytes of a line in the published form of `Tm-c`.
const LINE_BYTES: f64 = 32.0;

/// What a transfer from memory to the processor is taken to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineFill {
    /// One byte of each line: the published form.
    #[default]
    Byte,
    /// All of each line.
    Whole,
}

/// What a machine needs for each kind of transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Throughput of memory (`Bi`), in MB/s.
    pub memory_mb_s: f64,
    /// Throughput of the bus to devices (`Be`), in MB/s.
    pub bus_mb_s: f64,
    /// Processor time for each packet, beside its data, in us.
    pub packet_us: f64,
    /// Processor time for each system call, beside its data, in us.
    pub call_us: f64,
}

impl Machine {
    /// A machine on which packets and calls cost nothing, as the published ones.
    #[must_use]
    pub const fn of_transfers(memory_mb_s: f64, bus_mb_s: f64) -> Self {
        Self { memory_mb_s, bus_mb_s, packet_us: 0.0, call_us: 0.0 }
    }
}

/// How often a data unit is moved in one transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfers {
    /// `n1`: from memory to the processor.
    pub reads: f64,
    /// `n2`: from memory to memory.
    pub copies: f64,
    /// `n3`: between disk and memory.
    pub disk: f64,
    /// `n4`: between memory and network.
    pub network: f64,
}

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transaction {
    /// Size of the data unit, in bytes.
    pub bytes: f64,
    /// How often it is moved.
    pub transfers: Transfers,
    /// Processor time that depends on neither size nor packets nor calls (`Tcpu`), in us.
    pub cpu_us: f64,
    /// Packets sent and received.
    pub packets: f64,
    /// System calls.
    pub calls: f64,
}

impl Transaction {
    /// One of which only the transfers count, as in the published model.
    #[must_use]
    pub const fn of_transfers(bytes: f64, transfers: Transfers) -> Self {
        Self { bytes, transfers, cpu_us: 0.0, packets: 0.0, calls: 0.0 }
    }

    /// How long each part of it takes on `machine`.
    #[must_use]
    pub fn terms(&self, machine: &Machine, fill: LineFill) -> Terms {
        let Transfers { reads, copies, disk, network } = self.transfers;
        let through = |mb_s: f64| self.bytes / mb_s;
        let part = match fill {
            LineFill::Byte => 1.0 / LINE_BYTES,
            LineFill::Whole => 1.0,
        };
        Terms {
            bytes: self.bytes,
            us: [
                (Term::Cpu, self.cpu_us),
                (Term::Reads, reads * part * through(machine.memory_mb_s)),
                (Term::Copies, copies * 2.0 * through(machine.memory_mb_s)),
                (Term::Disk, disk * through(machine.bus_mb_s)),
                (Term::Network, network * through(machine.bus_mb_s)),
                (Term::Packets, self.packets * machine.packet_us),
                (Term::Calls, self.calls * machine.call_us),
            ],
        }
    }
}

/// What a transaction spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// The processor, whatever the size.
    Cpu,
    /// Data on its way from memory to the processor.
    Reads,
    /// Copies in memory.
    Copies,
    /// Data between disk and memory.
    Disk,
    /// Data between memory and network.
    Network,
    /// The processor, for each packet.
    Packets,
    /// The processor, for each system call.
    Calls,
}

impl Term {
    /// The word for it in tables and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Reads => "reads",
            Self::Copies => "copies",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Packets => "packets",
            Self::Calls => "calls",
        }
    }
}

/// The time of one transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    bytes: f64,
    us: [(Term, f64); 7],
}

impl Terms {
    /// Each term and its time in us, in the order of the equation.
    pub fn iter(&self) -> impl Iterator<Item = (Term, f64)> {
        self.us.into_iter()
    }

    /// The whole time, in us.
    #[must_use]
    pub fn total_us(&self) -> f64 {
        self.iter().map(|(_, us)| us).sum()
    }

    /// Mbit/s of one transaction after the other; infinite where nothing takes time.
    #[must_use]
    pub fn throughput_mbit_s(&self) -> f64 {
        8.0 * self.bytes / self.total_us()
    }

    /// Transactions a second, one after the other.
    #[must_use]
    pub fn transactions_s(&self) -> f64 {
        1e6 / self.total_us()
    }

    /// The term that takes most of the time, and its share of it; none where nothing takes time.
    #[must_use]
    pub fn limit(&self) -> Option<(Term, f64)> {
        let total = self.total_us();
        let (term, us) = self.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        (total > 0.0).then_some((term, us / total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Transfers = Transfers { reads: 1.0, copies: 2.0, disk: 0.0, network: 1.0 };

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9 * expected.abs().max(1.0), "{value} is not {expected}");
    }

    #[test]
    fn each_term_is_what_the_equation_says() {
        let machine = Machine { memory_mb_s: 1000.0, bus_mb_s: 100.0, packet_us: 2.0, call_us: 0.5 };
        let transfers = Transfers { reads: 3.0, copies: 2.0, disk: 1.0, network: 4.0 };
        let transaction = Transaction { bytes: 32_000.0, transfers, cpu_us: 7.0, packets: 22.0, calls: 4.0 };
        let terms: Vec<_> = transaction.terms(&machine, LineFill::Byte).iter().collect();
        let expected = [7.0, 3.0, 128.0, 320.0, 1280.0, 44.0, 2.0];
        for ((term, us), expected) in terms.iter().zip(expected) {
            assert!((us - expected).abs() < 1e-9, "{}: {us}", term.name());
        }
        let whole = transaction.terms(&machine, LineFill::Whole);
        close(whole.iter().nth(1).unwrap().1, 96.0);
        close(whole.total_us() - transaction.terms(&machine, LineFill::Byte).total_us(), 93.0);
    }

    #[test]
    fn throughput_does_not_depend_on_size_where_only_transfers_count() {
        let machine = Machine::of_transfers(3200.0, 1066.0);
        let at = |bytes| Transaction::of_transfers(bytes, PLAIN).terms(&machine, LineFill::Byte);
        close(at(64.0).throughput_mbit_s(), at(65_536.0).throughput_mbit_s());
        close(at(1000.0).transactions_s() * 8000.0 / 1e6, at(1000.0).throughput_mbit_s());
    }

    #[test]
    fn the_limit_moves_to_packets_where_units_are_small() {
        let machine = Machine { packet_us: 1.5, ..Machine::of_transfers(10_000.0, 16_000.0) };
        let limit = |bytes| {
            let transaction = Transaction { packets: 1.0, ..Transaction::of_transfers(bytes, PLAIN) };
            transaction.terms(&machine, LineFill::Byte).limit().unwrap().0
        };
        assert_eq!(limit(1_400.0), Term::Packets);
        assert_eq!(limit(65_536.0), Term::Copies);
    }

    #[test]
    fn nothing_that_takes_no_time_has_a_limit() {
        let nothing = Transfers { reads: 0.0, copies: 0.0, disk: 0.0, network: 0.0 };
        let terms =
            Transaction::of_transfers(1.0, nothing).terms(&Machine::of_transfers(1.0, 1.0), LineFill::Byte);
        assert_eq!(terms.limit(), None);
        assert!(terms.throughput_mbit_s().is_infinite());
    }
}
