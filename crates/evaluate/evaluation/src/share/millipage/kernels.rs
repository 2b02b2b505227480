//! The five programs, by name, and how much each has to do.

use forebay_share_workload::{Program, Report};

/// One of the five programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Red-black relaxation.
    Sor,
    /// Integer sort.
    Is,
    /// Molecular dynamics.
    Water,
    /// Factors of a matrix.
    Lu,
    /// Travelling salesman.
    Tsp,
}

/// How much the programs have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Enough for 5 seconds or more on one processor.
    Full,
    /// Some hundredths of a second.
    Quick,
    /// Some tenths of a second on one host, in memory small enough for a thousand within one process.
    Thousand,
}

/// What was computed may differ by so much where sums are added up in another order.
const ROUNDING: f64 = 1e-5;

forebay_names::names! { "program": Kernel {
    Sor = "sor",
    Is = "is",
    Water = "water",
    Lu = "lu",
    Tsp = "tsp",
} }

impl Kernel {
    /// The program with its parameters.
    pub(crate) const fn program(self, size: Size) -> Program {
        match (self, size) {
            (Self::Sor, Size::Full) => Program::Sor { rows: 4_096, columns: 1_024, iterations: 1_000 },
            (Self::Sor, Size::Quick) => Program::Sor { rows: 64, columns: 1_024, iterations: 20 },
            (Self::Sor, Size::Thousand) => Program::Sor { rows: 4_096, columns: 128, iterations: 50 },
            (Self::Is, Size::Full) => Program::Is { keys_log2: 23, values_log2: 9, iterations: 400 },
            (Self::Is, Size::Quick) => Program::Is { keys_log2: 16, values_log2: 9, iterations: 10 },
            (Self::Is, Size::Thousand) => Program::Is { keys_log2: 23, values_log2: 9, iterations: 4 },
            (Self::Water, Size::Full) => Program::Water { side: 14, steps: 100, chunk: 64 },
            (Self::Water, Size::Quick) => Program::Water { side: 5, steps: 4, chunk: 4 },
            (Self::Water, Size::Thousand) => Program::Water { side: 10, steps: 2, chunk: 4 },
            (Self::Lu, Size::Full) => Program::Lu { blocks: 72, block: 48 },
            (Self::Lu, Size::Quick) => Program::Lu { blocks: 8, block: 16 },
            (Self::Lu, Size::Thousand) => Program::Lu { blocks: 32, block: 32 },
            (Self::Tsp, Size::Full) => Program::Tsp { cities: 18, level: 4, seed: 1 },
            (Self::Tsp, Size::Thousand) => Program::Tsp { cities: 15, level: 4, seed: 1 },
            (Self::Tsp, Size::Quick) => Program::Tsp { cities: 10, level: 4, seed: 1 },
        }
    }
}

/// Whether all processes of a run have computed what another run has.
pub(super) fn agrees(reports: &[Report], other: &Report) -> bool {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= ROUNDING * b.abs();
    !reports.is_empty()
        && reports.iter().all(|report| {
            report.result == other.result
                && report.energies.len() == other.energies.len()
                && report.energies.iter().zip(&other.energies).all(near)
        })
}

/// Seconds that the slowest process took.
pub(super) fn elapsed_s(reports: &[Report]) -> f64 {
    reports.iter().map(|report| report.figure("elapsed")).fold(f64::NAN, f64::max)
}

/// A figure of all processes together.
pub(super) fn sum(reports: &[Report], figure: &str) -> f64 {
    reports.iter().map(|report| report.figure(figure)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_agree_to_the_last_bit_or_but_for_rounding() {
        let report = |result: &str, energy: f64| Report {
            result: result.into(),
            energies: vec![energy],
            ..Report::default()
        };
        let one = report("a", 1.0);
        assert!(agrees(&[one.clone(), report("a", 1.000_001)], &one));
        for other in [report("b", 1.0), report("a", 1.001), Report { energies: vec![], ..one.clone() }] {
            assert!(!agrees(&[one.clone(), other], &one));
        }
        assert!(!agrees(&[], &one));
    }
}
