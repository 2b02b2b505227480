//! `forebay evaluate cache`: what a cache costs a program, by the published formulas.

use forebay_quantity::{number, percent};
use forebay_results::{Row, Tier};

use crate::harness::table::render;
use crate::model::cache::{miss_rate, overhead, stall_cycles};

/// A program that goes through memory in order, and a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// `W`: bytes of an access.
    pub access_bytes: u32,
    /// From one access to the next; `W` where it leaves nothing out.
    pub stride_bytes: u32,
    /// `L`: bytes of a line.
    pub line_bytes: u32,
    /// `MP`: cycles of a miss.
    pub penalty_cycles: u32,
    /// `AR`: accesses for each instruction.
    pub accesses: f64,
    /// `IC`: instructions for each transaction.
    pub instructions: f64,
}

/// The published cases: the worst, the average and the best one of misses, and two bytes at a time of lines of 32.
pub const PUBLISHED: [Case; 4] = [
    Case { name: "worst", miss_ratio: 1.0, penalty_cycles: 10.0 },
    Case { name: "average", miss_ratio: 0.1, penalty_cycles: 10.0 },
    Case { name: "best", miss_ratio: 0.0, penalty_cycles: 10.0 },
    Case { name: "2 B of 32 B", miss_ratio: 1.0 / 16.0, penalty_cycles: 10.0 },
];

/// How much misses, and what a miss costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// In the table and in results.
    pub name: &'static str,
    /// `MR`.
    pub miss_ratio: f64,
    /// `MP`.
    pub penalty_cycles: f64,
}

/// What the formulas say.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    options: Options,
    cases: Vec<Case>,
}

/// The published cases, and that of the options.
#[must_use]
pub fn run(options: &Options) -> Outcome {
    let Options { access_bytes, stride_bytes, line_bytes, penalty_cycles, .. } = *options;
    let miss_ratio = miss_rate(access_bytes.into(), stride_bytes.into(), line_bytes.into());
    let own = Case { name: "given", miss_ratio, penalty_cycles: penalty_cycles.into() };
    Outcome { options: *options, cases: PUBLISHED.into_iter().chain([own]).collect() }
}

impl Outcome {
    /// The table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let Options { access_bytes, stride_bytes, line_bytes, accesses, instructions, .. } = self.options;
        let line = |case: &Case| {
            vec![
                case.name.to_owned(),
                percent(case.miss_ratio),
                number(case.penalty_cycles),
                format!("{:.3}", overhead(case.miss_ratio, case.penalty_cycles)),
                number(self.stalls(case)),
            ]
        };
        let header = ["case", "miss ratio", "penalty", "overhead", "stall cycles"];
        format!(
            "Miss ratio W/L, overhead 1 + MR MP, stall cycles IC AR MR MP. Given: {access_bytes} B at a time, every {stride_bytes} B, \
             lines of {line_bytes} B; {} instructions with {} accesses each.\n\n{}",
            number(instructions),
            number(accesses),
            render(&header, self.cases.iter().map(line))
        )
    }

    /// The rows for machines.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let of_case = |case: &Case| {
            let row = |metric, unit, value| {
                Row::once("cache", case.name, metric, unit, value).with_tier(Tier::Simulated)
            };
            [
                row("miss_ratio", "1", case.miss_ratio),
                row("cache_overhead", "1", overhead(case.miss_ratio, case.penalty_cycles)),
                row("stall_cycles", "cycles", self.stalls(case)),
            ]
        };
        self.cases.iter().flat_map(of_case).collect()
    }

    fn stalls(&self, case: &Case) -> f64 {
        stall_cycles(self.options.instructions, self.options.accesses, case.miss_ratio, case.penalty_cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_cases_and_the_given_one_are_told_with_the_same_formulas() {
        let options = Options {
            access_bytes: 8,
            stride_bytes: 16,
            line_bytes: 64,
            penalty_cycles: 40,
            accesses: 0.5,
            instructions: 1000.0,
        };
        let rows = run(&options).rows();
        let value = |case: &str, metric: &str| {
            rows.iter().find(|row| row.case == case && row.metric == metric).unwrap().value
        };
        assert_eq!((value("worst", "cache_overhead"), value("average", "cache_overhead")), (11.0, 2.0));
        assert_eq!((value("best", "cache_overhead"), value("2 B of 32 B", "miss_ratio")), (1.0, 0.0625));
        assert_eq!((value("given", "miss_ratio"), value("given", "cache_overhead")), (0.25, 11.0));
        assert_eq!((value("given", "stall_cycles"), value("worst", "stall_cycles")), (5000.0, 5000.0));
        let table = run(&options).table();
        assert!(table.contains("| given ") && table.contains("11.000"), "{table}");
        assert!(table.lines().all(|line| !line.starts_with('|') || line.len() <= 80), "{table}");
    }
}
