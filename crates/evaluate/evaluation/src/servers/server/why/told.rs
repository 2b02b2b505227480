//! What doses tell, for people and as rows.

use std::fmt::Write as _;

use forebay_quantity::percent;
use forebay_results::{Row, Spread, Statement, StatementKind};

use super::{Answer, Dose, Why};
use crate::Error;
use crate::experiments::{Elasticity, Limit, Resource, binding};
use crate::harness::table::render;
use crate::servers::server::Told;

/// What an elasticity is of.
#[derive(Clone, Copy)]
enum Of {
    Answers,
    P99,
}

impl Of {
    const ALL: [Self; 2] = [Self::Answers, Self::P99];

    fn of(self, dose: &Dose) -> Option<Elasticity> {
        match self {
            Self::Answers => dose.measured.of_answers(),
            Self::P99 => dose.measured.of_p99(),
        }
    }

    /// What a tenth more of a resource brings.
    fn gain(self, elasticity: &Elasticity) -> String {
        match self {
            Self::Answers => format!("about {} more answers", percent(elasticity.with_a_tenth_more())),
            Self::P99 => format!("a p99 about {} shorter", percent(elasticity.shorter_with_a_tenth_more())),
        }
    }

    fn metric(self) -> &'static str {
        match self {
            Self::Answers => "elasticity",
            Self::P99 => "elasticity_of_p99",
        }
    }
}

impl Answer {
    fn elasticities(&self, of: Of) -> Vec<(Resource, Elasticity)> {
        let each = self.doses.iter();
        each.filter_map(|dose| Some((dose.measured.resource, of.of(dose)?))).collect()
    }

    /// The resource that binds answers, and what a tenth more of it would bring.
    fn binding(&self, of: Of) -> Option<(Resource, String)> {
        let all = self.elasticities(of);
        let (resource, elasticity) = binding(&all)?;
        Some((*resource, of.gain(elasticity)))
    }

    /// What binds, with what a tenth more of it would bring.
    fn conclusion(&self) -> String {
        let all = self.elasticities(Of::Answers);
        let more = |resource: Resource| {
            if resource.is_delay() { "a tenth more speed of it" } else { "a tenth more of it" }
        };
        match (self.binding(Of::Answers), self.binding(Of::P99)) {
            (Some((resource, answers)), Some((same, p99))) if resource == same => {
                format!("{} binds: {} would bring {answers}, and {p99}", self.named(resource), more(resource))
            }
            (Some((resource, answers)), other) => {
                let also = other.map(|(other, p99)| {
                    format!("; of the p99 {} binds: {} would bring {p99}", self.named(other), more(other))
                });
                let binds = self.named(resource);
                format!("{binds} binds: {} would bring {answers}{}", more(resource), also.unwrap_or_default())
            }
            (None, Some((resource, p99))) => {
                format!("{} binds the p99: {} would bring {p99}", self.named(resource), more(resource))
            }
            (None, None) if all.is_empty() => "no dose was measured".into(),
            (None, None) if all.iter().all(|(_, elasticity)| elasticity.is_free()) => {
                "none of the doses has a part in its speed: what binds is another resource".into()
            }
            (None, None) => {
                "which resource binds is not decided: the intervals are too wide; measure more rounds".into()
            }
        }
    }

    /// Where experiment and counting say different things, a sentence.
    fn disagreement(&self) -> Option<String> {
        let (resource, _) = self.binding(Of::Answers)?;
        let counted = self.counted.limit;
        let differs = counted != Limit::Undecided && !resource.is_meant_by(counted);
        differs.then(|| {
            format!(
                "experiment and counting disagree: {} binds, and what was counted says {}",
                self.named(resource),
                self.counted.limit_in_words()
            )
        })
    }

    fn named(&self, resource: Resource) -> String {
        match (resource, &self.dependency) {
            (Resource::Dependency, Some(dependency)) => format!("dependency {dependency}"),
            (Resource::Dependency, None) => "the dependency".into(),
            (Resource::Processor, _) => "processor time".into(),
            (Resource::Memory, _) => "memory".into(),
            (Resource::PageCache, _) => "page cache of its files".into(),
            (Resource::Bandwidth, _) => "throughput of memory".into(),
            (Resource::LastCache, _) => "the last cache".into(),
            (Resource::Disk, _) => "the disk".into(),
        }
    }

    fn table(&self) -> String {
        let rows = self.doses.iter().filter_map(|dose| {
            let told = |elasticity: Option<Elasticity>| match elasticity {
                None => ["-".to_owned(), "-".to_owned()],
                Some(Elasticity { median, low, high, .. }) => {
                    [format!("{median:.2}"), format!("{low:.2} to {high:.2}")]
                }
            };
            let of_answers = dose.measured.of_answers()?;
            let [answers, interval] = told(Some(of_answers));
            let [p99, p99_interval] = told(dose.measured.of_p99());
            let pairs = format!("{} ({})", dose.measured.pairs.len(), percent(of_answers.confidence));
            Some(vec![dose.name.clone(), answers, interval, p99, p99_interval, pairs])
        });
        render(&["dose", "answers", "interval", "p99", "interval", "pairs"], rows)
    }
}

impl Told for Why {
    fn table(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for answer in &self.answers {
            let _ = writeln!(text, "\n{}, {}:\n", answer.trial.subject, answer.trial.case());
            if answer.doses.iter().any(|dose| !dose.measured.pairs.is_empty()) {
                let _ = writeln!(text, "{}\n", answer.table());
            }
            for dose in &answer.doses {
                let _ = writeln!(text, "  - {}: {}", dose.name, dose.of);
            }
            let _ = writeln!(text, "By experiment: {}.", answer.conclusion());
            let _ = writeln!(text, "By counting: {}.", answer.counted.limit_in_words());
            if let Some(disagreement) = answer.disagreement() {
                let _ = writeln!(text, "  - {disagreement}");
            }
            for refused in &answer.refused {
                let _ = writeln!(text, "  - not measured: {refused}");
            }
        }
        if let Some(stopped) = &self.stopped {
            let _ = writeln!(text, "\nNot all of it was measured: {stopped}");
        }
        text.trim_end().to_owned()
    }

    fn rows(&self) -> Vec<Row> {
        let row = |answer: &Answer, dose: &Dose, of: Of| {
            let Elasticity { median, low, high, .. } = of.of(dose)?;
            let runs = dose.measured.pairs.len() as u32;
            let spread = Spread { median, min: low, max: high, runs, values: vec![] };
            let metric = format!("{}/{}", of.metric(), dose.metric);
            Some(Row::of(&answer.trial.subject, answer.trial.case(), metric, "1", spread).of_samples(None))
        };
        let of_answer = |answer: &Answer| {
            let each = answer.doses.iter().flat_map(|dose| Of::ALL.map(|of| row(answer, dose, of)));
            each.flatten().collect::<Vec<_>>()
        };
        self.answers.iter().flat_map(of_answer).collect()
    }

    fn statements(&self) -> Vec<Statement> {
        let of_answer = |answer: &Answer| {
            let says = |kind, text: String| Statement {
                subject: answer.trial.subject.clone(),
                case: answer.trial.case(),
                kind,
                text,
            };
            let mut all = vec![
                says(StatementKind::Conclusion, answer.conclusion()),
                says(StatementKind::Conclusion, format!("By counting: {}", answer.counted.limit_in_words())),
            ];
            all.extend(answer.disagreement().map(|text| says(StatementKind::Finding, text)));
            let refused = answer.refused.iter();
            all.extend(refused.map(|text| says(StatementKind::Undecided, text.clone())));
            all
        };
        self.answers.iter().flat_map(of_answer).collect()
    }

    fn attached_s(&self) -> f64 {
        self.attached_s
    }

    fn stopped(self) -> Option<Error> {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiments::{Doses, Evidence, Load, Prints, Server, Speed, Trial, Verdict};
    use crate::servers::server::measure::Given;

    fn dose(resource: Resource, with: f64, p99: f64) -> Dose {
        let run = |answers, p99_s| Speed { answers, p99_s: Some(p99_s) };
        let pairs = vec![(run(100.0, 0.01), run(with, 0.01 * p99)); 6];
        Dose {
            measured: Doses { resource, dose: 0.2, pairs },
            name: format!("{resource} -20 %"),
            metric: format!("{resource} -20 %"),
            of: "of all".into(),
            trial: trial(),
            without: Given::default(),
            with: Given::default(),
            ended_by: None,
        }
    }

    fn trial() -> Trial {
        Trial {
            subject: "s".into(),
            levels: vec![],
            server: Server::Command(vec!["s".into()]),
            load: Load::Command {
                arguments: vec![],
                with_fewer_clients: BTreeMap::new(),
                prints: Prints::default(),
            },
            memory_bytes: None,
        }
    }

    fn answer(limit: Limit, doses: Vec<Dose>) -> Answer {
        let counted = Verdict { limit, ..Verdict::of(&Evidence::default()) };
        Answer {
            trial: trial(),
            dependency: None,
            counted,
            doses,
            refused: vec!["a later disk: none".into()],
        }
    }

    #[test]
    fn what_binds_answers_and_what_binds_the_p99_are_told_apart() {
        let both = answer(Limit::Processor, vec![dose(Resource::Processor, 80.0, 1.25)]);
        let said = both.conclusion();
        assert!(
            said.starts_with("processor time binds: a tenth more of it would bring about 10.0 % more"),
            "{said}"
        );
        assert!(said.contains("and a p99 about 9"), "{said}");
        let each = [dose(Resource::Processor, 80.0, 1.0), dose(Resource::LastCache, 100.0, 1.25)];
        let said = answer(Limit::Processor, each.into()).conclusion();
        assert!(said.contains("more answers; of the p99 the last cache binds: a tenth more"), "{said}");
        let said = answer(Limit::Processor, vec![dose(Resource::Memory, 100.0, 1.25)]).conclusion();
        assert!(said.starts_with("memory binds the p99"), "{said}");
        let said = answer(Limit::Processor, vec![dose(Resource::Memory, 100.0, 1.0)]).conclusion();
        assert!(said.starts_with("none of the doses"), "{said}");
        assert_eq!(answer(Limit::Processor, vec![]).conclusion(), "no dose was measured");
    }

    #[test]
    fn a_disagreement_is_told_with_both_sides_and_where_counting_decides_nothing_there_is_none() {
        let binds = || vec![dose(Resource::Bandwidth, 80.0, 1.0)];
        let said = answer(Limit::Network, binds()).disagreement().unwrap();
        assert!(said.contains("throughput of memory binds") && said.contains("network"), "{said}");
        assert_eq!(answer(Limit::MainMemory, binds()).disagreement(), None);
        assert_eq!(answer(Limit::Undecided, binds()).disagreement(), None);
        assert_eq!(answer(Limit::Network, vec![dose(Resource::Bandwidth, 100.0, 1.0)]).disagreement(), None);
    }

    #[test]
    fn a_table_has_at_most_80_columns_and_says_what_was_not_measured() {
        let doses = Resource::ALL.map(|resource| dose(resource, 90.0, 1.1)).into();
        let why = Why {
            title: "t".into(),
            answers: vec![answer(Limit::Network, doses)],
            stopped: None,
            attached_s: 0.0,
        };
        let table = why.table();
        let wide = table.lines().filter(|line| line.starts_with('|')).find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{table}");
        assert!(table.contains("not measured: a later disk: none") && table.contains("disagree"), "{table}");
        assert_eq!(why.rows().len(), 2 * Resource::ALL.len());
        assert!(why.rows().iter().any(|row| row.metric == "elasticity_of_p99/last-cache -20 %"));
        assert!(why.rows().iter().all(|row| row.of_one_run));
        let kinds: Vec<StatementKind> = why.statements().iter().map(|statement| statement.kind).collect();
        let [both, odd, refused] =
            [StatementKind::Conclusion, StatementKind::Finding, StatementKind::Undecided];
        assert_eq!(kinds, [both, both, odd, refused]);
    }
}
