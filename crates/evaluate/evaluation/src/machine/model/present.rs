//! The present host as a machine of the model, from what `forebay evaluate host` measured: what its three servers could reach,
//! without and with what packets and calls cost.

use crate::model::{
    LineFill, Machine, Terms, Transaction,
    published::{APPLICATIONS, Application, FORWARDING, HTTP},
};
use forebay_results::{Row, Tier};

use super::{WhatIf, compared, limit, mbit_s, told};
use crate::harness::table::render;
use crate::machine::host::quantity;

/// Calls for each data unit of a server that reads it and sends it.
const SERVER_CALLS: f64 = 2.0;

/// What the model takes of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Twice the throughput of block copies, since each byte is loaded and stored, in MB/s.
    memory_mb_s: f64,
    /// Throughput of the bus to devices, in MB/s.
    bus_mb_s: f64,
    /// Of a packet on its way in or out by UDP, beside the call, in us.
    udp_us: f64,
    /// The same by TCP.
    tcp_us: f64,
    call_us: f64,
}

/// A result that the model needs is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the results have no '{0}', which the model needs; make them by forebay evaluate host --only memory,calls,packets"
)]
pub struct Missing(&'static str);

impl Host {
    /// By the `rows` of `forebay evaluate host`. Without a bus that is given it is what one thread gets into a socket of the
    /// loopback by its largest writes.
    ///
    /// # Errors
    /// A row is missing.
    pub fn of(rows: &[Row], bus_mb_s: Option<f64>) -> Result<Self, Missing> {
        let largest = |subject: &'static str| {
            let own = rows.iter().filter(|row| row.subject == subject);
            let sized = own.filter_map(|row| Some((quantity(&row.case)?, row.value)));
            sized.max_by(|one, other| one.0.total_cmp(&other.0)).ok_or(Missing(subject))
        };
        let one = |subject: &str, case: &str, metric: &str, missing| {
            let own =
                rows.iter().find(|row| row.subject == subject && row.case == case && row.metric == metric);
            own.map(|row| row.value).ok_or(Missing(missing))
        };
        let call_us = one("system call", "getppid", "cost", "system call, getppid")? / 1e3;
        // The loopback sends and receives each packet within the call.
        let way_us = |subject: &'static str| {
            Ok::<_, Missing>(((one(subject, "fit", "cost_of_a_packet", subject)? - call_us) / 2.0).max(0.0))
        };
        let (bytes, us) = largest("TCP write")?;
        Ok(Self {
            memory_mb_s: 2.0 * largest("memory block copy")?.1,
            bus_mb_s: bus_mb_s.unwrap_or(bytes / us),
            udp_us: way_us("UDP sendto")?,
            tcp_us: way_us("TCP write")?,
            call_us,
        })
    }

    fn machine(&self, application: &Application) -> Machine {
        let packet_us = if application.name == HTTP.name { self.tcp_us } else { self.udp_us };
        Machine { packet_us, call_us: self.call_us, ..Machine::of_transfers(self.memory_mb_s, self.bus_mb_s) }
    }
}

/// What the three servers could reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    host: Host,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    application: Application,
    /// By the published form.
    transfers: Terms,
    /// With packets and calls.
    whole: Terms,
    what_if: Option<Terms>,
}

/// Asks the model for data units of `bytes`, of which each is a packet.
#[must_use]
pub fn run(host: Host, bytes: u32, fill: LineFill, what_if: WhatIf) -> Outcome {
    let cell = |application: &Application| {
        let terms = |transfers, machine: Machine, packets, calls| {
            let plain = Transaction::of_transfers(bytes.into(), transfers);
            Transaction { packets, calls, ..plain }.terms(&machine, fill)
        };
        // A packet that is forwarded comes in and goes out, and no call is made.
        let forwarding = application.name == FORWARDING.name;
        let (packets, calls) = if forwarding { (2.0, 0.0) } else { (1.0, SERVER_CALLS) };
        let (transfers, machine) = (application.transfers, host.machine(application));
        Cell {
            application: *application,
            transfers: terms(transfers, machine, 0.0, 0.0),
            whole: terms(transfers, machine, packets, calls),
            what_if: (what_if != WhatIf::default())
                .then(|| terms(what_if.transfers(transfers), what_if.machine(machine), packets, calls)),
        }
    };
    Outcome { host, cells: APPLICATIONS.iter().map(cell).collect() }
}

impl Outcome {
    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let Host { memory_mb_s, bus_mb_s, udp_us, tcp_us, call_us } = self.host;
        let mut header = vec!["application", "transfers only", "with packets and calls", "unit", "limit"];
        if self.cells.iter().any(|cell| cell.what_if.is_some()) {
            header.extend(["what if", "gain", "limit then"]);
        }
        let table = render(&header, self.cells.iter().map(Cell::line));
        format!(
            "This host: memory {memory_mb_s:.0} MB/s, bus {bus_mb_s:.0} MB/s; a packet one way {udp_us:.2} us by UDP and \
             {tcp_us:.2} us by TCP, a call {call_us:.3} us.\n\n{table}"
        )
    }

    /// The rows for machines.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.cells.iter().flat_map(Cell::rows).map(|row| row.with_tier(Tier::Simulated)).collect()
    }
}

impl Cell {
    fn line(&self) -> Vec<String> {
        let mut line = vec![
            self.application.name.to_owned(),
            mbit_s(&self.transfers),
            mbit_s(&self.whole),
            format!("{:.2} us", self.whole.total_us()),
            limit(&self.whole),
        ];
        line.extend(compared(&self.whole, self.what_if.as_ref()));
        line
    }

    fn rows(&self) -> Vec<Row> {
        let name = self.application.name;
        let sides = [
            ("transfers", Some(&self.transfers)),
            ("model", Some(&self.whole)),
            ("what-if", self.what_if.as_ref()),
        ];
        let sides = sides.into_iter().filter_map(|(side, terms)| Some((format!("this host/{side}"), terms?)));
        sides.flat_map(|(case, terms)| told(name, &case, terms)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Term;

    fn rows() -> Vec<Row> {
        vec![
            Row::once("memory block copy", "64 KiB", "throughput", "MB/s", 40_000.0),
            Row::once("memory block copy", "420 MiB", "throughput", "MB/s", 10_000.0),
            Row::once("system call", "getppid", "cost", "ns", 100.0),
            Row::once("UDP sendto", "fit", "cost_of_a_packet", "us", 1.3),
            Row::once("TCP write", "fit", "cost_of_a_packet", "us", 1.7),
            Row::once("TCP write", "64 B", "packet_cost", "us", 1.7),
            Row::once("TCP write", "32 KiB", "packet_cost", "us", 4.0),
        ]
    }

    #[test]
    fn a_host_is_what_was_measured_of_it() {
        let expected =
            Host { memory_mb_s: 20_000.0, bus_mb_s: 8192.0, udp_us: 0.6, tcp_us: 0.8, call_us: 0.1 };
        let host = Host::of(&rows(), None).unwrap();
        let close = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(close(host.udp_us, expected.udp_us) && close(host.tcp_us, expected.tcp_us), "{host:?}");
        assert_eq!(Host { udp_us: 0.6, tcp_us: 0.8, ..host }, expected);
        assert_eq!(Host::of(&rows(), Some(1066.0)).unwrap().bus_mb_s, 1066.0);
        let refusal = Host::of(&rows()[..2], None).unwrap_err().to_string();
        assert!(
            refusal.contains("'system call, getppid'") && refusal.contains("evaluate host --only"),
            "{refusal}"
        );
    }

    #[test]
    fn packets_and_calls_are_added_to_the_transfers() {
        let host = Host::of(&rows(), None).unwrap();
        let outcome = run(host, 1460, LineFill::Byte, WhatIf { zero_copy: true, ..WhatIf::default() });
        let extra: Vec<f64> =
            outcome.cells.iter().map(|cell| cell.whole.total_us() - cell.transfers.total_us()).collect();
        // In and out; by TCP with two calls; by UDP with two calls.
        for (extra, expected) in extra.iter().zip([1.2, 1.0, 0.8]) {
            assert!((extra - expected).abs() < 1e-9, "{extra}");
        }
        assert_eq!(outcome.cells[2].whole.limit().unwrap().0, Term::Packets);
        let table = outcome.table();
        assert!(table.contains("memory 20000 MB/s") && table.contains("gain"), "{table}");
        assert!(
            outcome
                .rows()
                .iter()
                .all(|row| row.tier == Tier::Simulated && row.case.starts_with("this host/"))
        );
    }
}
