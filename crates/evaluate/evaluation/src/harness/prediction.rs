//! The processor time of a transaction by the latency model, beside the measured time.
//!
//! A data unit is a document that the kernel sends from a file, or a packet of a stream. The results of
//! `forebay evaluate host` give the kernel's part. For documents it depends on their size, with full socket buffers. For
//! packets it includes the wake-ups of sender and receiver, by how long each slept.
//!
//! The server's own part (`Tcpu`) depends on the server alone. It is taken from the condition with the most transactions.
//! Where conditions send different amounts at once, the most different condition tells the part of each data unit. These
//! conditions calibrate the model and have no error; all others are predictions.

use std::path::Path;

use crate::model::{LineFill, Machine, Transaction, Transfers};
use forebay_results::{Report, Row};

use crate::Error;
use crate::machine::host::quantity;
use forebay_quantity::seconds;

/// What the loopback's largest packet has room for.
const SEGMENT_BYTES: f64 = 65_483.0;
/// A prediction that is off by more lacks a term.
const ERROR_MAX: f64 = 0.2;
/// After such a sleep it is measured beside a load what it takes to be woken, in us.
pub(crate) const SLEEP_US: f64 = 1e4;
/// As many times the data units sent at once tell what is taken for each; so many times are the same number.
const APART_MIN: f64 = 1.5;
const SAME_MAX: f64 = 1.2;
/// Of a cache.
const LINE_BYTES: f64 = 64.0;
/// A term that is missing explains so much of the error at least.
const EXPLAINED_MIN: f64 = 0.5;

/// Where `Tcpu` is from, beside a table of predictions.
pub(crate) const TCPU_FROM: &str = "Tcpu from the condition with the most transactions, and from a second one where it sends more or less at once";

/// What the kernel of a host takes for what servers do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Costs {
    /// By size, what a document takes; none in older results, where `file` has to do.
    documents: Vec<Document>,
    /// The same of a server that sends as much as a socket takes.
    at_once: Vec<Document>,
    file: Sending,
    datagram: Sending,
    /// One of many that the kernel makes of what was sent at once.
    segment: Option<Sending>,
    write: Option<Sending>,
    call_us: Option<f64>,
    switch_us: Option<f64>,
    /// By how long it slept, what it takes a thread to be woken by a timer and to go to sleep again, and to wake another one.
    wake_ups: Vec<(f64, f64)>,
    wakings: Vec<(f64, f64)>,
    minor_fault_us: Option<f64>,
    major_fault_us: Option<f64>,
    refill: Option<Refill>,
}

/// What it takes to fill the second-level cache again, which processors mostly have for themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Refill {
    /// How much longer a line takes from the next level.
    line_us: f64,
    /// So many lines it has.
    lines: f64,
}

/// What a document of one size takes, in us of processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Document {
    bytes: f64,
    server_us: f64,
    clients_us: f64,
}

/// A way to send.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sending {
    packet_us: f64,
    mb_s: f64,
}

impl Costs {
    /// From the results of `forebay evaluate host`; `None` where they lack what packets cost.
    pub(crate) fn of(rows: &[Row]) -> Option<Self> {
        let sending = |subject: &str| {
            let of = |metric: &str| {
                rows.iter().find(|row| row.subject == subject && row.metric == metric).map(|row| row.value)
            };
            let (packet_us, byte_ns) = (of("cost_of_a_packet")?, of("cost_of_a_byte")?);
            Some(Sending { packet_us: packet_us.max(0.0), mb_s: 1e3 / byte_ns.max(f64::MIN_POSITIVE) })
        };
        let cost_us = |subject: &str, case: &str| {
            let mut own = rows.iter().filter(|row| row.subject == subject && row.case.starts_with(case));
            own.find(|row| row.metric == "cost").map(|row| match row.unit.as_str() {
                "ns" => row.value / 1e3,
                _ => row.value,
            })
        };
        let side = |subject: &'static str, side: &'static str| {
            let own = rows.iter().filter(move |row| row.subject == subject && row.metric == "cost");
            own.filter_map(move |row| {
                let (amount, whose) = row.case.split_once('/')?;
                (whose == side).then_some((quantity(amount)?, row.value))
            })
        };
        let sized = |subject: &'static str| {
            side(subject, "server").filter_map(move |(bytes, server_us)| {
                let (_, clients_us) = side(subject, "clients").find(|(size, _)| *size == bytes)?;
                Some(Document { bytes, server_us, clients_us })
            })
        };
        let sorted =
            |documents: &mut Vec<Document>| documents.sort_by(|one, other| one.bytes.total_cmp(&other.bytes));
        let by_sleep = |which: &'static str| {
            let mut costs: Vec<(f64, f64)> = side("wake-up", which).collect();
            // Older results have one, after a millisecond.
            costs.extend(cost_us("wake-up", which).filter(|_| costs.is_empty()).map(|us| (1e3, us)));
            costs.sort_by(|one, other| one.0.total_cmp(&other.0));
            costs
        };
        let mut documents: Vec<Document> = sized("TCP documents").collect();
        // Small ones have one turn anyway.
        let mut at_once: Vec<Document> = sized("TCP documents, at once").collect();
        let least = at_once.iter().map(|document| document.bytes).fold(f64::INFINITY, f64::min);
        at_once.extend(documents.iter().filter(|document| document.bytes < least));
        sorted(&mut documents);
        sorted(&mut at_once);
        let level = |subject: &str, metric: &str| {
            let mut own = rows.iter().filter(|row| row.subject == subject && row.case == "found");
            own.find(|row| row.metric == metric).map(|row| row.value)
        };
        let refill = || {
            let (latency_ns, capacity) =
                (level("cache level 2", "latency")?, level("cache level 2", "capacity")?);
            let line_us = (level("cache level 3", "latency")? - latency_ns) / 1e3;
            Some(Refill { line_us, lines: capacity / LINE_BYTES })
        };
        Some(Self {
            documents,
            at_once,
            refill: refill(),
            file: sending("TCP sendfile")?,
            datagram: sending("UDP sendto")?,
            segment: sending("UDP GSO"),
            write: sending("TCP write"),
            call_us: cost_us("system call", "getppid"),
            switch_us: cost_us("context switch", ""),
            wake_ups: by_sleep("by a timer"),
            wakings: by_sleep("of another"),
            minor_fault_us: cost_us("page fault", "minor, anonymous"),
            major_fault_us: cost_us("page fault", "major"),
        })
    }

    /// What the kernel takes for the server's part in a data unit; infinite where it is not known.
    fn kernel_us(&self, one: &Observed, way: Way) -> f64 {
        let Observed { bytes, together, .. } = *one;
        match way {
            Way::Documents | Way::DocumentsAtOnce => self
                .document_us(bytes, way, |document| document.server_us)
                .unwrap_or_else(|| linear_us(bytes, self.file, (bytes / SEGMENT_BYTES).ceil())),
            Way::Datagrams => linear_us(bytes, self.datagram, 1.0),
            Way::Segments => {
                // The first pays for the call, and for its way through the kernel; the others are cut from it.
                let first = linear_us(bytes, self.datagram, 1.0);
                let others = self.segment.map_or(first, |segment| linear_us(bytes, segment, 1.0));
                (first + (together - 1.0) * others) / together
            }
            Way::Writes => {
                self.write.map_or(f64::INFINITY, |write| linear_us(bytes * together, write, 1.0) / together)
            }
        }
    }

    /// What it takes a server of streams, which sleeps until the next frame is due, to be woken, and to wake who receives it, which
    /// each data unit does once at most.
    fn waking_us(&self, one: &Observed, way: Way) -> Option<f64> {
        let sleeps = matches!(way, Way::Datagrams | Way::Segments | Way::Writes);
        let switches = one.counts[1].filter(|switches| sleeps && *switches > 0.0)?;
        let asleep_us = 1e6 / (switches * one.transactions_s);
        let own_us = switches * after(&self.wake_ups, asleep_us)?;
        let others_us = switches.min(1.0) * after(&self.wakings, asleep_us).unwrap_or(0.0);
        Some(own_us + others_us)
    }

    /// How much more of it there was by what being woken took just then.
    fn dearer_us(&self, one: &Observed, way: Way) -> Option<f64> {
        Some(self.waking_us(one, way)? * (one.wake_up_us? / after(&self.wake_ups, SLEEP_US)? - 1.0))
    }

    /// The most that it can take because what threads use had to come back to caches each time that they woke.
    fn cold_us(&self, one: &Observed, way: Way) -> Option<f64> {
        self.waking_us(one, way)?;
        Some(one.counts[1]? * self.refill.map(|refill| refill.line_us * refill.lines)?)
    }

    /// What of it is because threads slept.
    fn slept_us(&self, one: &Observed, way: Way) -> f64 {
        let switches_us = one.counts[1].zip(self.switch_us).map_or(0.0, |(switches, us)| switches * us);
        self.waking_us(one, way).map_or(0.0, |us| (us - switches_us).max(0.0))
    }

    /// A cost of a document of any size: on the line through those of the sizes next to it.
    fn document_us(&self, bytes: f64, way: Way, of: fn(&Document) -> f64) -> Option<f64> {
        let documents = if way == Way::DocumentsAtOnce { &self.at_once } else { &self.documents };
        let known: Vec<(f64, f64)> =
            documents.iter().map(|document| (document.bytes, of(document))).collect();
        let next = known.iter().position(|(size, _)| *size >= bytes).unwrap_or(known.len());
        let next = next.clamp(1, known.len().checked_sub(1)?.max(1));
        let (&(below, below_us), &(above, above_us)) = (known.get(next - 1)?, known.get(next)?);
        Some((below_us + (above_us - below_us) * (bytes - below) / (above - below)).max(0.0))
    }
}

/// How data units are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From files, by TCP, some of one and then some of another.
    Documents,
    /// From files, by TCP, as much as a socket takes.
    DocumentsAtOnce,
    /// Each packet by itself, by UDP.
    Datagrams,
    /// Packets of a frame at once, by UDP, taken apart by the kernel.
    Segments,
    /// Packets of a frame with a write, by TCP.
    Writes,
}

/// What a condition says of one transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observed {
    /// Of the data unit.
    pub(crate) bytes: f64,
    /// Data units that are sent at once.
    pub(crate) together: f64,
    /// Of the server's processor time, in us.
    pub(crate) us: f64,
    pub(crate) transactions_s: f64,
    /// Of the clients' processor time, in us, where they are ours.
    pub(crate) clients_us: Option<f64>,
    /// What it took just then, in us, to be woken after a sleep of [`SLEEP_US`], where that was measured.
    pub(crate) wake_up_us: Option<f64>,
    /// How often for each transaction: calls, context switches, and page faults that did not wait and that did.
    pub(crate) counts: [Option<f64>; 4],
}

/// What is counted of a transaction and no term of the prediction, in the order of [`Observed::counts`].
const BESIDE: [&str; 4] = ["system calls", "context switches", "minor faults", "major faults"];

/// The kernel sends what a socket could not take when acknowledgements come: in the client's time, or in the server's where that is
/// at work on the same socket. What one side is spared the other pays.
const ACKNOWLEDGED: &str = "who sends on acknowledgement";

/// A processor is not always as fast awake as when the host was measured.
const AWAKE_THEN: &str = "being woken took more or less just then";

/// Threads of a server that are woken while its processors are at work have not slept as long as there was between them, and nothing
/// counts how many are. If nothing else explains that it took less, and no more is missing than all that being woken takes more than a
/// switch between threads, that is it.
const NOT_ASLEEP: &str = "wake-ups of threads beside others, of which none slept";

/// Where a server is at work more rarely than in the condition that `Tcpu` is from, more of its code and data is out of the caches
/// when it wakes: other programs have had them, or the machine's other guests. Nothing that is counted tells how much. If
/// nothing else explains that it took more, and no more is missing than it takes to fill the second-level cache anew
/// each time, that is it.
const COLD: &str = "caches that were cold when it woke";

/// A prediction for one condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prediction {
    measured_us: f64,
    pub(crate) predicted_us: f64,
    /// Whether `Tcpu` was taken from here.
    calibrates: bool,
    /// Where the error is large: the term that is missing, with what it takes in us, or nothing that was counted.
    missing: Option<Option<(&'static str, f64)>>,
}

impl Prediction {
    /// As a share of what was measured.
    pub(crate) fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }
}

/// A cost after so long a sleep: between the next shorter and the next longer one that are known, by their logarithms.
fn after(costs: &[(f64, f64)], asleep_us: f64) -> Option<f64> {
    let next = costs.iter().position(|(us, _)| *us >= asleep_us).unwrap_or(costs.len());
    let (below, above) = (costs.get(next.saturating_sub(1))?, costs.get(next).or(costs.last())?);
    if above.0 <= below.0 {
        return Some(below.1);
    }
    let part = (asleep_us / below.0).ln() / (above.0 / below.0).ln();
    Some(below.1 + (above.1 - below.1) * part)
}

/// What the kernel takes for one transaction, by packets and bytes alone.
fn linear_us(bytes: f64, sending: Sending, packets: f64) -> f64 {
    let transfers = Transfers { reads: 0.0, copies: 0.0, disk: 0.0, network: 1.0 };
    let machine =
        Machine { packet_us: sending.packet_us, ..Machine::of_transfers(f64::INFINITY, sending.mb_s) };
    let transaction = Transaction { packets, ..Transaction::of_transfers(bytes, transfers) };
    transaction.terms(&machine, LineFill::Byte).total_us()
}

/// What a server takes itself, in us.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Own {
    /// For all that it sends at once, however much that is.
    at_once_us: f64,
    /// For each data unit.
    unit_us: f64,
}

impl Own {
    fn of(&self, one: &Observed) -> f64 {
        self.at_once_us / one.together + self.unit_us
    }
}

/// How often threads of a server are woken in a second.
fn wakes_s(one: &Observed) -> f64 {
    one.counts[1].unwrap_or(0.0) * one.transactions_s
}

/// How unlike two conditions are in how much is sent at once.
fn apart(one: &Observed, other: &Observed) -> f64 {
    (one.together / other.together).ln().abs()
}

/// What the server takes itself, if it does the same in both conditions, of which `kernel_us` is not its own. Where none is
/// above what the kernel takes, all of it is for the other.
fn divided(one: &Observed, other: &Observed, kernel_us: impl Fn(&Observed) -> f64) -> Own {
    let at_once = |observed: &Observed| (observed.us - kernel_us(observed)) * observed.together;
    let most_us = at_once(one).max(0.0);
    let unit_us = (at_once(one) - at_once(other)) / (one.together - other.together);
    let unit_us = unit_us.clamp(0.0, most_us / one.together);
    Own { at_once_us: most_us - unit_us * one.together, unit_us }
}

/// Predictions for one server under loads of one kind; none where it is not known what the kernel takes.
pub(crate) fn predictions(observed: &[Observed], costs: &Costs, way: Way) -> Vec<Prediction> {
    let kernel_us = |one: &Observed| costs.kernel_us(one, way) + costs.waking_us(one, way).unwrap_or(0.0);
    let most = |one: &&Observed, other: &&Observed| one.transactions_s.total_cmp(&other.transactions_s);
    let Some(base) = observed.iter().max_by(most).filter(|base| kernel_us(base).is_finite()) else {
        return Vec::new();
    };
    let furthest = observed.iter().map(|one| apart(one, base)).fold(0.0, f64::max);
    let is_far = |one: &&Observed| apart(one, base) >= APART_MIN.ln().max(furthest - SAME_MAX.ln());
    let second = observed.iter().filter(is_far).max_by(most);
    let undivided = || Own { at_once_us: (base.us - kernel_us(base)).max(0.0) * base.together, unit_us: 0.0 };
    let own = second.map_or_else(undivided, |second| divided(base, second, kernel_us));
    let predict = |one: &Observed| {
        let predicted_us = own.of(one) + kernel_us(one);
        let error_us = one.us - predicted_us;
        // Where less was measured than the kernel takes, or what cannot be divided so, it is a prediction like others.
        let calibrates = (one == base || second == Some(one)) && error_us.abs() < one.us * 1e-6;
        let large = !calibrates && error_us.abs() > ERROR_MAX * one.us;
        let not_asleep =
            || Some((NOT_ASLEEP, error_us)).filter(|_| (-costs.slept_us(one, way)..0.0).contains(&error_us));
        let next = second.filter(|second| apart(one, second) < apart(one, base)).unwrap_or(base);
        let is_rarer = wakes_s(one) < wakes_s(next);
        let could_be_cold =
            || is_rarer && costs.cold_us(one, way).is_some_and(|most_us| (0.0..most_us).contains(&error_us));
        let cold = || could_be_cold().then_some((COLD, error_us));
        let missing =
            large.then(|| missing(one, next, costs, way, error_us).or_else(not_asleep).or_else(cold));
        Prediction { measured_us: one.us, predicted_us, calibrates, missing }
    };
    observed.iter().map(predict).collect()
}

/// Of what was counted, and is more or less often than in `base`, where `Tcpu` is from, what explains the error best.
fn missing(
    one: &Observed,
    base: &Observed,
    costs: &Costs,
    way: Way,
    error_us: f64,
) -> Option<(&'static str, f64)> {
    let switch_us = costs.switch_us.filter(|_| costs.waking_us(one, way).is_none());
    let prices = [costs.call_us, switch_us, costs.minor_fault_us, costs.major_fault_us];
    let terms = BESIDE.iter().zip(prices).zip(one.counts.iter().zip(base.counts));
    let priced =
        terms.filter_map(|((name, price), (count, before))| Some((*name, price? * ((*count)? - before?))));
    // What the clients are spared, beside what they take themselves.
    let spared_us = |one: &Observed| {
        Some(costs.document_us(one.bytes, way, |document| document.clients_us)? - one.clients_us?)
    };
    let acknowledged = || Some((ACKNOWLEDGED, spared_us(one)? - spared_us(base)?));
    let acknowledged = matches!(way, Way::Documents | Way::DocumentsAtOnce).then(acknowledged).flatten();
    let dearer =
        || Some((AWAKE_THEN, costs.dearer_us(one, way)? - costs.dearer_us(base, way).unwrap_or(0.0)));
    let unexplained = |us: f64| (error_us - us).abs();
    let best = priced
        .chain(acknowledged)
        .chain(dearer())
        .min_by(|one, other| unexplained(one.1).total_cmp(&unexplained(other.1)))?;
    (unexplained(best.1) < (1.0 - EXPLAINED_MIN) * error_us.abs()).then_some(best)
}

impl Prediction {
    /// The cells of a table's line: measured, predicted, error, and what is missing.
    pub(crate) fn line(&self) -> [String; 4] {
        let missing = match self.missing {
            None => "-".to_owned(),
            Some(None) => "nothing counted".to_owned(),
            Some(Some((term, us))) => format!("{term}: {}", seconds(us.abs() / 1e6)),
        };
        let error =
            if self.calibrates { "Tcpu".to_owned() } else { format!("{:+.0} %", self.error() * 100.0) };
        [seconds(self.measured_us / 1e6), seconds(self.predicted_us / 1e6), error, missing]
    }
}

/// The results of `forebay evaluate host --json`.
///
/// # Errors
/// The file is none.
pub(crate) fn read_host(path: &Path) -> Result<Report, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let wrong = |why: String| Error::HostResults { path: path.to_owned(), why };
    let value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    Report::read(value).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        let row = |subject, case, metric, unit, value| Row::once(subject, case, metric, unit, value);
        let rows = [
            row("TCP sendfile", "fit", "cost_of_a_packet", "us", 2.0),
            row("TCP sendfile", "fit", "cost_of_a_byte", "ns", 0.1),
            row("UDP sendto", "fit", "cost_of_a_packet", "us", 1.0),
            row("UDP sendto", "fit", "cost_of_a_byte", "ns", 0.5),
            row("UDP GSO", "fit", "cost_of_a_packet", "us", 0.5),
            row("UDP GSO", "fit", "cost_of_a_byte", "ns", 0.5),
            row("system call", "getppid", "cost", "ns", 100.0),
            row("context switch", "0 B", "cost", "us", 3.0),
        ];
        Costs::of(&rows).unwrap()
    }

    fn observed(bytes: f64, us: f64, transactions_s: f64, switches: f64) -> Observed {
        Observed {
            bytes,
            together: 1.0,
            us,
            transactions_s,
            clients_us: None,
            wake_up_us: None,
            counts: [None, Some(switches), None, None],
        }
    }

    #[test]
    fn what_a_server_takes_itself_is_known_from_one_condition_and_the_rest_is_predicted() {
        // 20 us of its own, 2 for each packet, 0.1 for each 1,000 bytes.
        let all = [observed(10_000.0, 23.0, 9e3, 1.0), observed(1_000_000.0, 150.0, 2e3, 1.0)];
        let predictions = predictions(&all, &costs(), Way::Documents);
        assert!(predictions[0].calibrates && predictions[0].error().abs() < 1e-9);
        // 16 packets, and 100 us for the bytes.
        assert!((predictions[1].predicted_us - 152.0).abs() < 1e-6, "{predictions:?}");
        assert_eq!(predictions[1].missing, None);
    }

    #[test]
    fn a_term_that_is_missing_is_named_by_what_was_counted() {
        let all = [
            observed(200.0, 11.1, 9e3, 1.0),
            observed(200.0, 41.1, 1e3, 11.0),
            observed(200.0, 99.0, 1e3, 2.0),
        ];
        let predictions = predictions(&all, &costs(), Way::Datagrams);
        let missing: Vec<_> = predictions.iter().map(|prediction| prediction.missing).collect();
        assert_eq!(missing[..2], [None, Some(Some(("context switches", 30.0)))]);
        // Three microseconds more of switches do not explain 88.
        assert_eq!(missing[2], Some(None));
    }

    fn with_documents() -> Costs {
        let document = |bytes, server_us, clients_us| Document { bytes, server_us, clients_us };
        let documents =
            vec![document(1e4, 10.0, 8.0), document(1e6, 300.0, 200.0), document(1e7, 2000.0, 2500.0)];
        let at_once = vec![documents[0], documents[1], document(1e7, 1100.0, 3400.0)];
        Costs { documents, at_once, ..costs() }
    }

    #[test]
    fn a_document_costs_what_those_of_the_next_sizes_do() {
        let kernel_us = |bytes| with_documents().kernel_us(&observed(bytes, 1.0, 1.0, 1.0), Way::Documents);
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-6, "{one} {other}");
        close(kernel_us(1e4), 10.0);
        close(kernel_us(505_000.0), 155.0);
        close(kernel_us(1e7), 2000.0);
        // Beyond the largest as from the last but one to the last.
        close(kernel_us(1.9e7), 3700.0);
        let at_once =
            |bytes| with_documents().kernel_us(&observed(bytes, 1.0, 1.0, 1.0), Way::DocumentsAtOnce);
        close(at_once(1e6), 300.0);
        close(at_once(1e7), 1100.0);
    }

    #[test]
    fn what_clients_are_spared_is_named_where_it_explains_the_error() {
        let (base, large) = (observed(1e4, 15.0, 9e3, 1.0), observed(1e7, 3005.0, 400.0, 1.0));
        let all = |clients_us| {
            let base = Observed { clients_us: Some(9.0), ..base };
            [base, Observed { clients_us: Some(clients_us), ..large }]
        };
        let predictions = |clients_us| predictions(&all(clients_us), &with_documents(), Way::Documents);
        // 1,000 us are missing, and the clients take 1,099 less than those of the probe.
        let named = predictions(1_402.0)[1].missing.unwrap().unwrap();
        assert_eq!(named.0, ACKNOWLEDGED);
        assert!((named.1 - 1_099.0).abs() < 1e-6, "{named:?}");
        assert_eq!(predictions(2_501.0)[1].missing, Some(None));
    }

    #[test]
    fn packets_of_a_frame_share_the_call_and_the_way_through_the_kernel() {
        let frame = |together| Observed { together, ..observed(1000.0, 1.0, 1.0, 1.0) };
        let us = |together, way| costs().kernel_us(&frame(together), way);
        // 1 us and 0.5 for the bytes; then 0.5 and 0.5.
        assert!((us(1.0, Way::Segments) - 1.5).abs() < 1e-9);
        assert!((us(5.0, Way::Segments) - (1.5 + 4.0) / 5.0).abs() < 1e-9);
        assert!((us(5.0, Way::Datagrams) - 1.5).abs() < 1e-9);
        // Nobody knows what a write costs here.
        assert!(us(5.0, Way::Writes).is_infinite());
    }

    /// Frames of so many packets of 1,000 bytes.
    fn frames(together: f64, us: f64, transactions_s: f64, switches: f64) -> Observed {
        Observed { together, ..observed(1000.0, us, transactions_s, switches) }
    }

    #[test]
    fn a_server_of_streams_is_woken_and_does_some_for_a_frame_and_some_for_a_packet() {
        let wake_ups = vec![(100.0, 5.0), (1_000.0, 8.0), (10_000.0, 16.0)];
        let wakings = wake_ups.iter().map(|(us, cost)| (*us, cost / 4.0)).collect();
        let costs = Costs { wake_ups, wakings, ..costs() };
        // The kernel, 10 or 20 us for being woken and waking, 30 us for a frame, and 2 for a packet.
        let all = [
            frames(10.0, 1.05 + 1.0 + 3.0 + 2.0, 1e4, 0.1),
            frames(2.0, 1.25 + 10.0 + 15.0 + 2.0, 200.0, 0.5),
            frames(2.1, 1.25 + 10.0 + 15.0 + 2.0, 100.0, 1.0),
            frames(5.0, 1.1 + 2.0 + 6.0 + 2.0, 1e3, 0.1),
        ];
        let predicted = predictions(&all, &costs, Way::Segments);
        assert_eq!(
            predicted.iter().map(|one| one.calibrates).collect::<Vec<_>>(),
            [true, true, false, false]
        );
        let errors = [0, 1, 3].map(|number| predicted[number].error().abs());
        assert!(errors.iter().all(|error| *error < 1e-9), "{predicted:?}");
        // A processor that is awake three times as late, where it is woken for each packet.
        let woken = |us, wake_up_us| Observed { wake_up_us: Some(wake_up_us), ..frames(2.0, us, 100.0, 1.0) };
        let base = Observed { wake_up_us: Some(16.0), ..all[0] };
        let dear =
            predictions(&[base, all[1], woken(78.25, 48.0), woken(78.25, 16.0)], &costs, Way::Segments);
        assert_eq!(dear[2].missing, Some(Some((AWAKE_THEN, 40.0))));
        assert_eq!(dear[3].missing, Some(None));
        // Threads that were woken beside others: less by up to what 3 us of switches leave of 20.
        let all = [all[0], all[1], frames(2.0, 25.0, 100.0, 1.0), frames(2.0, 15.0, 100.0, 1.0)];
        let predicted = predictions(&all, &costs, Way::Segments);
        let missing = predicted.iter().map(|one| one.missing.map(|named| named.map(|(term, _)| term)));
        assert_eq!(missing.collect::<Vec<_>>(), [None, None, Some(Some(NOT_ASLEEP)), Some(None)]);
        // Caches that have gone cold: more by up to what it takes to fill one, each time, where that is more rarely.
        let costs = Costs { refill: Some(Refill { line_us: 0.03, lines: 2_000.0 }), ..costs };
        let rare = |us| frames(2.0, 38.25 + us, 50.0, 1.0);
        let often = Observed { transactions_s: 150.0, ..rare(50.0) };
        let all = [all[0], all[1], rare(50.0), rare(70.0), often];
        let predicted = predictions(&all, &costs, Way::Segments);
        let missing = predicted.iter().map(|one| one.missing);
        let none = Some(None);
        assert_eq!(missing.collect::<Vec<_>>(), [None, None, Some(Some((COLD, 50.0))), none, none]);
    }

    #[test]
    fn no_packet_and_no_frame_takes_less_than_nothing() {
        let own = |us| divided(&frames(10.0, 5.0, 1e4, 0.1), &frames(2.0, us, 200.0, 0.5), |_| 1.0);
        assert_eq!(own(100.0), Own { at_once_us: 40.0, unit_us: 0.0 });
        assert_eq!(own(1.0), Own { at_once_us: 0.0, unit_us: 4.0 });
        assert_eq!(own(11.0), Own { at_once_us: 15.0, unit_us: 2.5 });
    }

    #[test]
    fn what_follows_a_sleep_lies_between_what_follows_a_shorter_and_a_longer_one() {
        let known = [(100.0, 5.0), (10_000.0, 25.0)];
        let cost = |us| after(&known, us).unwrap();
        assert_eq!([10.0, 100.0, 10_000.0, 1e6].map(cost), [5.0, 5.0, 25.0, 25.0]);
        assert!((cost(1_000.0) - 15.0).abs() < 1e-9);
        assert_eq!((after(&[], 1.0), after(&known[..1], 1e9)), (None, Some(5.0)));
    }

    #[test]
    fn results_without_packets_predict_nothing() {
        assert_eq!(Costs::of(&[]), None);
    }
}
