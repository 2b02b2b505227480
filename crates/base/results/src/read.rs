//! Results of this schema and of earlier ones.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::{Report, SCHEMA, schema1};

/// Commands whose values are all samples within one run.
const SAMPLING: [&str; 2] = ["forebay evaluate host", "forebay evaluate meter "];

/// A value is no report that can be read.
#[derive(Debug)]
pub enum ReadError {
    /// It is something else.
    NotResults(String),
    /// Its schema is unknown, as that of a later version is.
    UnknownSchema(Value),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotResults(reason) => write!(f, "it is not results ({reason})"),
            Self::UnknownSchema(found) => {
                write!(f, "it has results of schema {found}, and this forebay reads schemas 1 to {SCHEMA}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

impl Report {
    /// The report that `value` holds, with the names of [`SCHEMA`].
    ///
    /// # Errors
    /// It is something else, or of an unknown schema.
    pub fn read(value: Value) -> Result<Self, ReadError> {
        // First, because the fields of another schema may be different ones.
        let no_schema = || ReadError::NotResults("it has no field 'schema'".into());
        let schema = value.get("schema").ok_or_else(no_schema)?.clone();
        if schema != 1 && schema != SCHEMA {
            return Err(ReadError::UnknownSchema(schema));
        }
        let mut report =
            Self::deserialize(value).map_err(|error| ReadError::NotResults(error.to_string()))?;
        // These had no mark before there was one.
        if SAMPLING.iter().any(|command| report.command.starts_with(command)) {
            report.rows.iter_mut().for_each(|row| row.of_one_run = true);
        }
        if schema == 1 {
            schema1::rename(&mut report);
            report.schema = SCHEMA;
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Row;

    fn value(schema: u32) -> Value {
        let rows = vec![Row::once("xds", "disk4/forebay", "resyncs", "1", 3.0)];
        let mut value = serde_json::to_value(Report::new("r", "forebay evaluate speculation", rows)).unwrap();
        value["schema"] = json!(schema);
        value
    }

    #[test]
    fn the_first_schema_is_read_with_the_names_of_today() {
        let report = Report::read(value(1)).unwrap();
        let row = &report.rows[0];
        let names = [row.subject.as_str(), row.case.as_str(), row.metric.as_str()];
        assert_eq!((report.schema, names), (SCHEMA, ["random-reads", "raid-12ms-q4/forebay", "forks"]));
    }

    #[test]
    fn samples_of_one_run_are_told_from_runs() {
        let mut host = value(SCHEMA);
        host["command"] = json!("forebay evaluate host --quick");
        assert!(Report::read(host).unwrap().rows[0].of_one_run);
        assert!(!Report::read(value(SCHEMA)).unwrap().rows[0].of_one_run);
    }

    #[test]
    fn names_of_the_present_schema_stay() {
        assert_eq!(Report::read(value(SCHEMA)).unwrap().rows[0].subject, "xds");
    }

    #[test]
    fn a_schema_that_is_not_known_is_refused_before_its_fields_are_read() {
        let error = Report::read(json!({ "schema": 7, "new": true })).unwrap_err().to_string();
        assert_eq!(error, "it has results of schema 7, and this forebay reads schemas 1 to 2");
        assert!(Report::read(json!({})).unwrap_err().to_string().contains("no field 'schema'"));
        assert!(Report::read(json!({ "schema": 1 })).unwrap_err().to_string().contains("missing field"));
    }
}
