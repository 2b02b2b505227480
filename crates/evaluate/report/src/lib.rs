//! Text, tables and figures from any results in the one schema.
//!
//! Everything here is a function of the results: no input, no output, no clock. [`Results`] takes in the text of files.
//! [`page`] makes one page that needs no other file, [`figures`] and [`svg`] the figures alone. [`csv()`] and [`json`] give
//! the rows, [`markdown()`] pages of chosen rows, and [`compare`] the changes between two runs.
#![forbid(unsafe_code)]

mod case;
mod choose;
mod compare;
mod draw;
mod export;
pub mod figure;
mod interval;
mod markdown;
mod page;
mod palette;
pub mod quantity;
mod results;
mod scale;
mod section;
mod space;
mod summary;

pub use compare::{Change, Comparison, LEAST_EFFECT, NothingInCommon, Verdict, compare};
pub use draw::svg;
pub use export::{comparison_csv, csv, json};
pub use interval::Ratio;
pub use markdown::{MarkdownPage, markdown};
pub use page::{comparison_page, page};
pub use results::{Refusal, Results, Run};

use figure::Figure;

/// The figures of `results`, section by section, each with the name of its section.
#[must_use]
pub fn figures(results: &Results) -> Vec<(String, Figure)> {
    let sections = section::sections(results);
    let named = sections.into_iter().flat_map(|section| {
        let figures = choose::figures(&section.entries);
        figures.into_iter().map(move |figure| (section.title.clone(), figure))
    });
    named.collect()
}

/// The figures of a comparison.
#[must_use]
pub fn comparison_figures(comparison: &Comparison) -> Vec<Figure> {
    compare::figures(comparison)
}
