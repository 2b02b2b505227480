//! `forebay doctor`: what this machine supports, what does not work without it, and the step that enables it.

mod features;
mod probes;

use std::{borrow::Cow, io::Write, process::ExitCode};

use clap::ValueEnum;
use features::FEATURES;
use forebay_results::{Host, Sink};
use serde::Serialize;

use crate::{
    FAILURE,
    args::{Doctor, Job},
    results::REVISION,
};

/// A feature of the machine that a command uses.
struct Feature {
    job: Job,
    name: &'static str,
    /// What the command uses it for, and what happens without it.
    purpose: &'static str,
    /// The step that enables it.
    remedy: &'static str,
    need: Need,
    look: Look,
}

/// The step that enables a feature, in words or as a command.
type Remedy = Cow<'static, str>;

/// How doctor looks for a feature.
#[derive(Clone, Copy)]
enum Look {
    /// The feature is present or not.
    For(fn() -> bool),
    /// The remedy for what is missing of the feature; `None` where it is present.
    Why(fn() -> Option<Remedy>),
}

/// Whether the command works without the feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Need {
    Required,
    Optional,
}

/// A feature in the JSON.
#[derive(Serialize)]
struct Finding {
    #[serde(rename = "command")]
    job: Job,
    name: &'static str,
    need: Need,
    present: bool,
    purpose: &'static str,
    remedy: Remedy,
}

#[derive(Serialize)]
struct Findings {
    schema: u32,
    revision: &'static str,
    host: Host,
    features: Vec<Finding>,
}

/// Version of what `--json` writes.
const SCHEMA: u32 = 1;

/// Prints the list; fails if a required feature is missing.
pub fn run(doctor: &Doctor) -> anyhow::Result<ExitCode> {
    let sink = doctor.json.as_deref().map(Sink::open).transpose()?;
    let is_asked = |job: &Job| doctor.commands.is_empty() || doctor.commands.contains(job);
    let asked = FEATURES.iter().filter(|feature| is_asked(&feature.job));
    let features: Vec<Finding> = asked.map(Feature::look).collect();
    let is_missing = |finding: &Finding| !finding.present && finding.need == Need::Required;
    let status = if features.iter().any(is_missing) { FAILURE.into() } else { ExitCode::SUCCESS };
    let is_text_wanted = doctor.json.as_deref().is_none_or(|path| path.as_os_str() != "-");
    if is_text_wanted {
        std::io::stdout().write_all(text(&features).as_bytes())?;
    }
    if let Some(sink) = sink {
        let findings = Findings { schema: SCHEMA, revision: REVISION, host: Host::detect(), features };
        sink.write_text(&(serde_json::to_string_pretty(&findings)? + "\n"))?;
    }
    Ok(status)
}

impl Feature {
    fn look(&self) -> Finding {
        let Self { job, name, purpose, remedy, need, look } = *self;
        let (present, remedy) = match look {
            Look::For(is_present) => (is_present(), remedy.into()),
            Look::Why(why_not) => why_not().map_or((true, remedy.into()), |remedy| (false, remedy)),
        };
        Finding { job, name, need, present, purpose, remedy }
    }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for job in Job::value_variants() {
        let own: Vec<_> = findings.iter().filter(|finding| finding.job == *job).collect();
        if !own.is_empty() {
            let heading = job.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
            text.push_str(&heading.unwrap_or_default());
            text.push('\n');
            own.into_iter().for_each(|finding| text.push_str(&describe(finding)));
        }
    }
    text
}

fn describe(finding: &Finding) -> String {
    let Finding { name, purpose, remedy, need, present, .. } = finding;
    match (present, need) {
        (true, _) => format!("  yes      {name}: {purpose}\n"),
        (false, Need::Required) => format!("  MISSING  {name}: {purpose}\n           {remedy}\n"),
        (false, Need::Optional) => format!("  no       {name}: {purpose}\n           {remedy}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_its_remedy() {
        for feature in FEATURES {
            let mut finding = feature.look();
            finding.present = false;
            assert!(describe(&finding).contains(&*finding.remedy));
            finding.present = true;
            assert!(!describe(&finding).contains(&*finding.remedy));
        }
    }

    #[test]
    fn every_job_has_features_and_no_feature_is_named_twice() {
        for job in Job::value_variants() {
            let mut names: Vec<_> =
                FEATURES.iter().filter(|feature| feature.job == *job).map(|feature| feature.name).collect();
            assert!(!names.is_empty(), "{job:?}");
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{job:?}");
        }
    }
}
