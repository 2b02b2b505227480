//! Figures as SVG: in a page, where a style sheet colours them, or as files of their own.

mod bars;
mod curves;
mod shapes;
mod surface;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    figure::{Figure, Panel, Plot},
    palette,
};
use shapes::{Px, mark_shape, text};

/// Width of a panel in pixels, where it is not scaled.
const WIDTH: f64 = 440.0;
/// Room for the heading of a panel.
const HEAD: f64 = 26.0;
/// Room between panels in a file, and around them.
const GAP: f64 = 24.0;
/// Panels beside each other in a file.
const ACROSS: usize = 2;
/// Height of the title and the legend of a file.
const TITLE: f64 = 34.0;
const LEGEND: f64 = 26.0;

/// The panels of `figure`, each an element of a page.
pub(crate) fn panels(figure: &Figure) -> Vec<Markup> {
    figure.panels.iter().map(|panel| panel_element(figure, panel)).collect()
}

fn panel_element(figure: &Figure, panel: &Panel) -> Markup {
    let (height, drawn) = draw(figure, panel, true);
    let label = if panel.title.is_empty() {
        figure.title.clone()
    } else {
        format!("{}: {}", figure.title, panel.title)
    };
    html! {
        svg viewBox={ "0 0 " (Px(WIDTH)) " " (Px(height)) } role="img" aria-label=(label) { (drawn) }
    }
}

/// What tells the series of `figure` apart, for a page; nothing where there is nothing to tell.
pub(crate) fn legend(figure: &Figure) -> Option<Markup> {
    let entries = legend_entries(figure);
    (!entries.is_empty()).then(|| {
        html! {
            ul.legend {
                @for (symbol, name) in entries {
                    li { svg viewBox="0 0 20 14" aria-hidden="true" { (symbol) } (name) }
                }
            }
        }
    })
}

/// `figure` as a whole SVG document.
#[must_use]
pub fn svg(figure: &Figure) -> String {
    let drawn: Vec<(f64, Markup)> = figure.panels.iter().map(|panel| draw(figure, panel, false)).collect();
    let across = drawn.len().clamp(1, ACROSS);
    let width = across as f64 * (WIDTH + GAP) + GAP;
    let legend = legend_entries(figure);
    let mut top = GAP + TITLE + if legend.is_empty() { 0.0 } else { LEGEND };
    let mut placed = Vec::new();
    for row in drawn.chunks(across) {
        for (column, (_, markup)) in row.iter().enumerate() {
            placed.push((GAP + column as f64 * (WIDTH + GAP), top, markup));
        }
        top += row.iter().map(|(height, _)| *height).fold(0.0, f64::max) + GAP;
    }
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (Px(width)) " " (Px(top)) } width=(Px(width))
            height=(Px(top)) role="img" aria-labelledby="title" {
            title id="title" { (figure.title) }
            style { (PreEscaped(palette::figure_file_css())) }
            (text((GAP, GAP + 12.0), "start", "heading", &figure.title))
            @let mut x = GAP;
            @for (symbol, name) in legend {
                g transform={ "translate(" (Px(x)) " " (Px(GAP + TITLE - 10.0)) ")" } {
                    (symbol) (text((26.0, 11.5), "start", "", &name))
                }
                @let _ = x += 50.0 + shapes::width_of(&name);
            }
            @for (x, y, markup) in placed {
                g transform={ "translate(" (Px(x)) " " (Px(y)) ")" } { (*markup) }
            }
        }
    };
    markup.into_string() + "\n"
}

/// Height and content of a panel. Links are of use within a page only.
fn draw(figure: &Figure, panel: &Panel, linked: bool) -> (f64, Markup) {
    let head = if panel.title.is_empty() { 8.0 } else { HEAD };
    let (height, plot) = match &panel.plot {
        Plot::Bars(categories) => bars::draw(figure, categories, head, linked),
        Plot::Curves { along, lines } => curves::draw(figure, along, lines, head, linked),
        Plot::Surface { along, up, cells } => surface::draw(figure, (along, up), cells, head, linked),
    };
    let content = html! {
        @if !panel.title.is_empty() { (text((0.0, 15.0), "start", "heading", &panel.title)) }
        (plot)
    };
    (height, content)
}

/// A symbol of 20 by 14 pixels and a name for each series and for the reference.
fn legend_entries(figure: &Figure) -> Vec<(Markup, String)> {
    let surface = figure.panels.iter().any(|panel| matches!(panel.plot, Plot::Surface { .. }));
    if surface {
        return Vec::new();
    }
    let named = figure.series.iter().enumerate().filter(|(_, name)| !name.is_empty());
    let mut entries: Vec<_> = named
        .map(|(number, name)| (html! { (mark_shape(number, (10.0, 7.0), 4.5)) }, name.clone()))
        .collect();
    if let Some((_, name)) = &figure.reference {
        entries.push((html! { line.reference x1="0" x2="20" y1="7" y2="7" {} }, name.clone()));
    }
    entries
}

/// `DOCTYPE` of pages, so that one place knows the markup library.
pub(crate) const HTML: PreEscaped<&str> = DOCTYPE;
