//! `forebay evaluate model`: the published table by the latency model, and what would be if a machine or a server were
//! different.

mod present;

use crate::model::{
    LineFill, Machine, Term, Terms, Transaction, Transfers,
    published::{APPLICATIONS, Application, PROCESSORS, Processor},
};
use forebay_results::{Row, Tier};

use crate::harness::table::render;
use forebay_quantity::percent;

pub use present::{Host, Missing, Outcome as HostOutcome, run as run_on_host};

/// What is asked of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Size of a data unit, in bytes.
    pub bytes: u32,
    /// What a transfer from memory to the processor moves.
    pub fill: LineFill,
    /// What differs from the published machines and servers.
    pub what_if: WhatIf,
}

/// What differs; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WhatIf {
    /// Copies of each data unit, where the application makes more.
    pub copies: Option<f64>,
    /// No copies, and no pass of the processor over the data.
    pub zero_copy: bool,
    /// Throughput of memory, in MB/s.
    pub memory_mb_s: Option<f64>,
    /// Throughput of the bus to devices, in MB/s.
    pub bus_mb_s: Option<f64>,
}

impl WhatIf {
    fn transfers(&self, mut transfers: Transfers) -> Transfers {
        transfers.copies = transfers.copies.min(self.copies.unwrap_or(f64::INFINITY));
        if self.zero_copy {
            (transfers.copies, transfers.reads) = (0.0, 0.0);
        }
        transfers
    }

    fn machine(&self, machine: Machine) -> Machine {
        Machine {
            memory_mb_s: self.memory_mb_s.unwrap_or(machine.memory_mb_s),
            bus_mb_s: self.bus_mb_s.unwrap_or(machine.bus_mb_s),
            ..machine
        }
    }
}

/// One processor with one application.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    processor: Processor,
    application: Application,
    published_mbit_s: f64,
    terms: Terms,
    what_if: Option<Terms>,
}

/// What the model says.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    cells: Vec<Cell>,
}

/// Asks the model.
#[must_use]
pub fn run(options: &Options) -> Outcome {
    let cells = PROCESSORS.iter().flat_map(|processor| {
        let applications = APPLICATIONS.iter().zip(processor.throughput_mbit_s);
        applications
            .map(|(application, published_mbit_s)| cell(options, processor, application, published_mbit_s))
    });
    Outcome { cells: cells.collect() }
}

fn cell(options: &Options, processor: &Processor, application: &Application, published_mbit_s: f64) -> Cell {
    let Options { bytes, fill, what_if } = *options;
    let terms = |transfers, machine: &Machine| {
        Transaction::of_transfers(bytes.into(), transfers).terms(machine, fill)
    };
    let (transfers, machine) = (application.transfers, processor.machine());
    Cell {
        processor: *processor,
        application: *application,
        published_mbit_s,
        terms: terms(transfers, &machine),
        what_if: (what_if != WhatIf::default())
            .then(|| terms(what_if.transfers(transfers), &what_if.machine(machine))),
    }
}

impl Outcome {
    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let asked = self.cells.iter().any(|cell| cell.what_if.is_some());
        let mut header = vec!["processor", "memory", "application", "published", "model", "unit", "limit"];
        if asked {
            header.extend(["what if", "gain", "limit then"]);
        }
        render(&header, self.cells.iter().map(Cell::line))
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
            self.processor.name.to_owned(),
            format!("{:.0} MB/s", self.processor.memory_mb_s),
            self.application.name.to_owned(),
            format!("{:.0} Mbit/s", self.published_mbit_s),
            mbit_s(&self.terms),
            format!("{:.2} us", self.terms.total_us()),
            limit(&self.terms),
        ];
        line.extend(compared(&self.terms, self.what_if.as_ref()));
        line
    }

    fn rows(&self) -> Vec<Row> {
        let name = self.processor.name;
        let sides = [(format!("{name}/model"), Some(self.terms)), (format!("{name}/what-if"), self.what_if)];
        let published = Row::once(
            self.application.name,
            format!("{name}/published"),
            "throughput",
            "Mbit/s",
            self.published_mbit_s,
        );
        let sides = sides.into_iter().filter_map(|(case, terms)| Some((case, terms?)));
        let sides = sides.flat_map(|(case, terms)| told(self.application.name, &case, &terms));
        std::iter::once(published).chain(sides).collect()
    }
}

/// What a model says of an application, as rows of results.
fn told(application: &str, case: &str, terms: &Terms) -> Vec<Row> {
    let row = |metric: &str, unit: &str, value| Row::once(application, case, metric, unit, value);
    let throughput = row("throughput", "Mbit/s", terms.throughput_mbit_s());
    let times = terms.iter().map(|(term, us)| row(&format!("time/{}", term.name()), "us", us));
    std::iter::once(throughput).chain(times).collect()
}

/// Columns of a what-if: its throughput, how much more that is, and what limits it.
fn compared(terms: &Terms, what_if: Option<&Terms>) -> Vec<String> {
    what_if.map_or_else(Vec::new, |what_if| {
        let gain = what_if.throughput_mbit_s() / terms.throughput_mbit_s();
        vec![mbit_s(what_if), format!("{gain:.2}x"), limit(what_if)]
    })
}

fn mbit_s(terms: &Terms) -> String {
    format!("{:.0} Mbit/s", terms.throughput_mbit_s())
}

fn limit(terms: &Terms) -> String {
    let says = |(term, share): (Term, f64)| format!("{} {}", term.name(), percent(share));
    terms.limit().map_or_else(|| "-".into(), says)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(what_if: WhatIf) -> Outcome {
        run(&Options { bytes: 1460, fill: LineFill::Byte, what_if })
    }

    #[test]
    fn the_published_table_comes_out() {
        let outcome = ask(WhatIf::default());
        assert_eq!(outcome.cells.len(), 12);
        for cell in &outcome.cells {
            let apart = cell.terms.throughput_mbit_s() - cell.published_mbit_s;
            assert!(apart.abs() < 1.0, "{cell:?}");
        }
        let table = outcome.table();
        assert!(table.contains("3640 Mbit/s") && !table.contains("what if"), "{table}");
        assert!(outcome.rows().iter().all(|row| row.tier == Tier::Simulated));
    }

    #[test]
    fn a_copy_less_helps_only_who_copies() {
        let outcome = ask(WhatIf { copies: Some(1.0), ..WhatIf::default() });
        for cell in &outcome.cells {
            let gain = cell.what_if.unwrap().throughput_mbit_s() / cell.terms.throughput_mbit_s();
            assert_eq!(gain > 1.3, cell.application.transfers.copies > 1.0, "{cell:?}");
        }
        assert!(outcome.table().contains("5086 Mbit/s"), "{}", outcome.table());
    }

    #[test]
    fn zero_copy_leaves_the_bus_and_a_faster_memory_helps_most_where_it_was_slow() {
        let zero = ask(WhatIf { zero_copy: true, ..WhatIf::default() });
        assert!(zero.cells.iter().all(|cell| cell.what_if.unwrap().limit().unwrap().0 == Term::Network));
        let fast = ask(WhatIf { memory_mb_s: Some(12_800.0), ..WhatIf::default() });
        let gains = fast
            .cells
            .iter()
            .map(|cell| cell.what_if.unwrap().throughput_mbit_s() / cell.terms.throughput_mbit_s());
        let most = gains.enumerate().max_by(|one, other| one.1.total_cmp(&other.1)).unwrap().0;
        assert_eq!(fast.cells[most].processor.name, "UltraSPARC III 900 MHz");
    }
}
