//! The one result schema of Forebay: a [`Report`] is a machine, a command and flat [`Row`]s.
//!
//! Every command that measures writes it (`--json FILE`, `-` for standard output). Rows are flat, so exporters,
//! comparisons and pages need no knowledge of the experiment. [`Report::read`] reads files of schema 1 too.
#![forbid(unsafe_code)]

mod direction;
mod host;
mod read;
mod schema1;
mod sink;
mod spread;

use std::fmt;
use std::time::SystemTime;

pub use direction::Direction;
pub use forebay_linux::reason;
pub use host::Host;
pub use read::ReadError;
pub use sink::{Sink, SinkError};
pub use spread::{Spread, median};

use serde::{Deserialize, Serialize};

/// Value of [`Report::schema`]; changes when a field or a name changes its meaning.
pub const SCHEMA: u32 = 2;

/// Everything that one command measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Source revision of the binary that measured, or its version where that is unknown.
    pub revision: String,
    /// Command line that makes these rows again.
    pub command: String,
    /// Machine that was measured.
    pub host: Host,
    /// When the rows were there, in UTC, e.g. `2026-01-31T12:00:00Z`; empty in older results.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
    /// Share of all processors' time that other programs used meanwhile, where that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpu: Option<f64>,
    /// Results.
    pub rows: Vec<Row>,
    /// What follows from the results, in words; empty where nothing was concluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<Statement>,
}

/// A conclusion, or a reason for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// What it is about, as in [`Row::subject`].
    pub subject: String,
    /// Under which condition, as in [`Row::case`].
    pub case: String,
    /// Which kind of statement this is.
    pub kind: StatementKind,
    /// In words.
    pub text: String,
}

/// What a statement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatementKind {
    /// What was asked, answered in a sentence of its own.
    Conclusion,
    /// What limits: a name.
    Limit,
    /// Why that limits; the deciding reason stands first.
    Reason,
    /// What is odd besides.
    Finding,
    /// What could not be decided.
    Undecided,
}

impl Report {
    /// A report of `rows`, measured on this machine by `command`.
    #[must_use]
    pub fn new(revision: impl Into<String>, command: impl Into<String>, rows: Vec<Row>) -> Self {
        Self {
            schema: SCHEMA,
            revision: revision.into(),
            command: command.into(),
            host: Host::detect(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            others_cpu: None,
            rows,
            statements: Vec::new(),
        }
    }

    /// The same report with statements.
    #[must_use]
    pub fn with_statements(self, statements: Vec<Statement>) -> Self {
        Self { statements, ..self }
    }
}

/// One measured quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured, e.g. `ld`.
    pub subject: String,
    /// Under which condition, e.g. `ssd-1ms-q128/forebay`.
    pub case: String,
    /// Which quantity, e.g. `elapsed`.
    pub metric: String,
    /// Unit of the three values, e.g. `s`; `1` for a count or a ratio.
    pub unit: String,
    /// Median over the runs.
    pub value: f64,
    /// Smallest of the runs.
    pub min: f64,
    /// Largest of the runs.
    pub max: f64,
    /// Number of runs.
    pub runs: u32,
    /// Where the value comes from.
    pub tier: Tier,
    /// The value of each run, where they are more than `min` and `max` tell; empty in older results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// Whether the values agreed when they were enough, where that was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// Whether the values are samples within one run of the command, which do not tell how runs differ.
    #[serde(default, skip_serializing_if = "is_false")]
    pub of_one_run: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Row {
    /// A quantity that was measured once.
    #[must_use]
    pub fn once(
        subject: impl Into<String>,
        case: impl Into<String>,
        metric: impl Into<String>,
        unit: impl Into<String>,
        value: f64,
    ) -> Self {
        let spread = Spread { median: value, min: value, max: value, runs: 1, values: vec![value] };
        Self::of(subject, case, metric, unit, spread)
    }

    /// A quantity that was measured several times.
    #[must_use]
    pub fn of(
        subject: impl Into<String>,
        case: impl Into<String>,
        metric: impl Into<String>,
        unit: impl Into<String>,
        spread: Spread,
    ) -> Self {
        Self {
            subject: subject.into(),
            case: case.into(),
            metric: metric.into(),
            unit: unit.into(),
            value: spread.median,
            min: spread.min,
            max: spread.max,
            runs: spread.runs,
            tier: Tier::Software,
            values: if spread.values.len() > 2 { spread.values } else { Vec::new() },
            settled: None,
            of_one_run: false,
        }
    }

    /// The same row with another tier than [`Tier::Software`].
    #[must_use]
    pub fn with_tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    /// The same row of samples within one run, which agreed or did not.
    #[must_use]
    pub fn of_samples(mut self, settled: Option<bool>) -> Self {
        (self.of_one_run, self.settled) = (true, settled);
        self
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The processor's performance counters.
    Hardware,
    /// Clocks, the kernel's counters and our own.
    Software,
    /// A model.
    Simulated,
}

impl Tier {
    /// All, the most trusted first.
    pub const ALL: [Self; 3] = [Self::Hardware, Self::Software, Self::Simulated];

    /// As results have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Software => "software",
            Self::Simulated => "simulated",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_round_trip() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        let rows =
            vec![Row::of("ld", "ssd-1ms-q128/forebay", "elapsed", "s", spread).with_tier(Tier::Simulated)];
        let report = Report::new("abc", "forebay evaluate", rows);
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains("\"tier\":\"simulated\""), "{text}");
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        assert_eq!((report.rows[0].value, report.rows[0].min, report.rows[0].max), (2.0, 1.0, 3.0));
        assert_eq!(report.rows[0].values, [3.0, 1.0, 2.0]);
    }

    #[test]
    fn statements_survive_the_round_trip_and_leave_no_trace_where_there_are_none() {
        let statement = Statement {
            subject: "nginx".into(),
            case: "8 clients".into(),
            kind: StatementKind::Limit,
            text: "dependency 127.0.0.1:5432".into(),
        };
        let report = Report::new("abc", "forebay evaluate", vec![]);
        assert!(!serde_json::to_string(&report).unwrap().contains("statements"));
        let report = report.with_statements(vec![statement]);
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.contains("\"kind\":\"limit\""), "{text}");
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }

    #[test]
    fn the_values_of_the_runs_are_kept_where_the_extremes_do_not_tell_them() {
        let spread = Spread::of(&[3.0, 1.0]).unwrap();
        let text = serde_json::to_string(&Row::of("ld", "ssd-1ms-q128", "elapsed", "s", spread)).unwrap();
        assert!(!text.contains("values"), "{text}");
        assert!(serde_json::from_str::<Row>(&text).unwrap().values.is_empty());
    }
}
