//! Text, tables and figures from any results in the one schema.
//!
//! Everything here is a function of the results: no input, no output, no clock. [`Results`] takes in the text of files.
//! [`page`] makes one page that needs no other file, [`figures`] and [`svg`] the figures alone. [`csv()`] and [`json`] give
//! the rows, [`markdown()`] pages of chosen rows, and [`compare`] the changes between two runs.
#![forbid(unsafe_code)]

mod aligned;
mod case;
mod compare;
mod conclusions;
mod draw;
mod experiment;
mod export;
pub mod figure;
mod finding;
mod interval;
mod limits;
mod markdown;
mod page;
mod palette;
mod plot;
mod quantity;
mod question;
mod rank;
mod results;
mod scale;
mod summary;
mod title;

pub use compare::{Change, Comparison, LEAST_EFFECT, NothingInCommon, Verdict, compare};
pub use draw::svg;
pub use export::{comparison_csv, csv, json};
pub use interval::Ratio;
pub use markdown::{MarkdownPage, markdown};
pub use page::{comparison_page, page};
pub use results::{Refusal, Results, Run};

use figure::Figure;

/// The figures of `results`, experiment by experiment, each with its command.
#[must_use]
pub fn figures(results: &Results) -> Vec<(String, Figure)> {
    let experiments = experiment::experiments(results);
    let named = experiments.into_iter().flat_map(|one| {
        let figures = one.questions.into_iter().filter_map(|question| question.figure);
        figures.map(move |figure| (one.command.clone(), figure)).collect::<Vec<_>>()
    });
    named.collect()
}

/// The figures of a comparison.
#[must_use]
pub fn comparison_figures(comparison: &Comparison) -> Vec<Figure> {
    compare::figures(comparison)
}
