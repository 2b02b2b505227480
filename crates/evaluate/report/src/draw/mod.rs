//! Figures as SVG: in a page, where a style sheet colours them, or as files of their own.

mod bars;
mod curves;
mod shapes;
mod stacks;
mod surface;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{
    figure::{Figure, Panel, Plot},
    palette,
};
use shapes::{LINE, Px, mark_shape};

/// Width of a panel in pixels, where it is not scaled: what a phone has room for.
const WIDTH: f64 = 340.0;
/// Room between panels in a file, and around them.
const GAP: f64 = 24.0;
/// Panels beside each other in a file.
const ACROSS: usize = 2;
/// Height of a line of the legend of a file.
const LEGEND: f64 = 22.0;

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
        svg viewBox={ "0 0 " (Px(WIDTH)) " " (Px(height)) } role="img" aria-label=(label) { (PreEscaped(shortened(&drawn))) }
    }
}

/// Elements without content end themselves, which a page reads as well, and a page has tens of thousands.
fn shortened(drawn: &Markup) -> String {
    let empty = ["line", "rect", "circle", "polygon", "polyline", "path"];
    empty.iter().fold(drawn.0.clone(), |text, name| text.replace(&format!("></{name}>"), "/>"))
}

/// What tells the series of `figure` apart, for a page; nothing where there is nothing to tell.
pub(crate) fn legend(figure: &Figure) -> Option<Markup> {
    let entries = legend_entries(figure);
    (!entries.is_empty()).then(|| {
        html! {
            ul.legend {
                @for (symbol, name) in entries {
                    li { svg viewBox="0 0 20 14" role="img" aria-label={ "symbol of " (name) } { (symbol) } (name) }
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
    let inner = width - 2.0 * GAP;
    let (title, heading) = shapes::lines((GAP, GAP + 12.0), inner, ("start", "heading"), &figure.title);
    let mut top = GAP + title + 10.0;
    let mut legend = Vec::new();
    let mut right = GAP;
    for (symbol, name) in legend_entries(figure) {
        let (high, words) = shapes::lines((26.0, 11.5), inner - 26.0, ("start", ""), &name);
        let wide = 50.0 + shapes::width_of(&name);
        if right > GAP && right + wide > width {
            (right, top) = (GAP, top + LEGEND);
        }
        legend.push((right, top, symbol, words));
        right += wide;
        if high > LINE {
            (right, top) = (GAP, top + high + 6.0);
        }
    }
    top += if legend.is_empty() { 0.0 } else { LEGEND + 8.0 };
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
            (heading)
            @for (left, top, symbol, words) in legend {
                g transform={ "translate(" (Px(left)) " " (Px(top)) ")" } { (symbol) (words) }
            }
            @for (x, y, markup) in placed {
                g transform={ "translate(" (Px(x)) " " (Px(y)) ")" } { (*markup) }
            }
        }
    };
    markup.into_string().replace(is_no_xml, "\u{FFFD}") + "\n"
}

/// Whether XML 1.0 has no place for the character, which a program's name may have: readers refuse the whole file then.
const fn is_no_xml(character: char) -> bool {
    matches!(character, '\0'..'\t' | '\u{B}' | '\u{C}' | '\u{E}'..' ' | '\u{FFFE}' | '\u{FFFF}')
}

/// Height and content of a panel. Links are of use within a page only.
fn draw(figure: &Figure, panel: &Panel, linked: bool) -> (f64, Markup) {
    let (height, heading) = shapes::lines((2.0, 13.0), WIDTH - 2.0, ("start", "heading"), &panel.title);
    let head = if panel.title.is_empty() { 0.0 } else { height + 4.0 };
    let (height, plot) = match &panel.plot {
        Plot::Bars(categories) => bars::draw(figure, categories, head, linked),
        Plot::Stacks(categories) => stacks::draw(figure, categories, head, linked),
        Plot::Curves { along, lines } => curves::draw(figure, along, lines, head, linked),
        Plot::Surface { along, up, cells } => surface::draw(figure, (along, up), cells, head, linked),
    };
    (height, html! { (heading) (plot) })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        figure::{Axis, Category, Cell, Mark, Point},
        quantity::Quantity,
    };

    fn mark(value: f64) -> Mark {
        let note = format!("{value} & more");
        Mark { value, range: (value, value), name: "a < b".into(), note, row: Some(1) }
    }

    fn figure(quantity: Quantity, plot: Plot) -> Figure {
        Figure {
            title: "Title".into(),
            quantity,
            axis: "axis".into(),
            labels: "labels".into(),
            reference: None,
            series: vec!["on".into(), "off".into()],
            panels: vec![Panel { title: "Panel".into(), plot }],
        }
    }

    fn bars(quantity: Quantity, marks: [Option<f64>; 2]) -> String {
        let marks = marks.map(|value| value.map(mark)).into();
        svg(&figure(quantity, Plot::Bars(vec![Category { label: "a <i> label".into(), marks }])))
    }

    /// Values of an attribute of the elements that have `mark`.
    fn attributes(svg: &str, class: &str, name: &str) -> Vec<f64> {
        let elements = svg.split('<').filter(|element| element.contains(class));
        let value =
            |element: &str| element.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?.parse().ok();
        elements.filter_map(value).collect()
    }

    /// Every element that begins ends, in order, as XML wants it.
    fn is_well_formed(svg: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        for tag in svg.split('<').skip(1) {
            let name = tag.split([' ', '>']).next().unwrap_or_default();
            match name.strip_prefix('/') {
                Some(name) if open.pop() != Some(name) => return false,
                Some(_) => {}
                None => open.push(name),
            }
        }
        open.is_empty()
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_missing_ones_are_missing() {
        let both =
            attributes(&bars(Quantity::Plain(String::new()), [Some(4.0), Some(1.0)]), "mark bar", "width");
        assert_eq!(both.len(), 2);
        assert!((both[0] / both[1] - 4.0).abs() < 0.02, "{both:?}");
        assert_eq!(attributes(&bars(Quantity::Share, [Some(4.0), None]), "mark bar", "width").len(), 1);
    }

    #[test]
    fn bars_of_ratios_begin_at_one_and_are_as_long_either_way() {
        let widths = attributes(&bars(Quantity::Factor, [Some(0.25), Some(4.0)]), "mark bar", "width");
        assert!((widths[0] - widths[1]).abs() < 0.2, "{widths:?}");
    }

    #[test]
    fn values_over_decades_are_dots() {
        let svg = bars(Quantity::Time(1.0), [Some(0.01), Some(10.0)]);
        assert_eq!(attributes(&svg, "mark bar", "width"), [0.0; 0]);
        assert!(svg.contains("<circle ") && svg.contains("axis (logarithmic)"), "{svg}");
    }

    #[test]
    fn the_parts_of_a_whole_lie_beside_each_other_and_fill_the_bar() {
        let marks = vec![Some(mark(3.0)), Some(mark(1.0))];
        let plot = Plot::Stacks(vec![Category { label: "x".into(), marks }]);
        let svg = svg(&figure(Quantity::Time(1.0), plot));
        let (places, widths) = (attributes(&svg, "mark part", "x"), attributes(&svg, "mark part", "width"));
        assert!((widths[0] / widths[1] - 3.0).abs() < 0.02, "{widths:?}");
        assert!((places[1] - places[0] - widths[0]).abs() < 0.2, "{places:?}");
        assert!(svg.contains(">4.00 s</text>") && is_well_formed(&svg), "{svg}");
    }

    #[test]
    fn no_name_of_a_legend_is_cut_or_beyond_the_file() {
        let mut wide = figure(Quantity::Share, Plot::Bars(vec![]));
        wide.series = vec!["a name of many words".repeat(2), "another name of many words".repeat(2)];
        let text = svg(&wide);
        let width = attributes(&text, "svg xmlns", "width")[0];
        let legend = text.split("<g transform=\"translate(").skip(1);
        let lefts: Vec<f64> = legend.filter_map(|one| one.split(' ').next()?.parse().ok()).collect();
        assert!(lefts.len() >= 2 && lefts.iter().all(|left| *left < width), "{lefts:?} in {width}");
        assert!(!text.contains('\u{2026}') && text.matches("many").count() >= 4, "{text}");
    }

    #[test]
    fn lines_fall_where_values_do() {
        let along = Axis { name: "clients".into(), quantity: Quantity::Plain(String::new()), ranks: false };
        let points = |values: [f64; 3]| {
            [1.0, 2.0, 3.0]
                .into_iter()
                .zip(values)
                .map(|(place, value)| Point { place, mark: mark(value) })
                .collect()
        };
        let lines = vec![points([3.0, 2.0, 1.0]), points([1.0, 1.0, 1.0])];
        let svg = svg(&figure(Quantity::Time(1.0), Plot::Curves { along, lines }));
        let heights = attributes(&svg, "circle class=\"mark s0\"", "cy");
        // The symbol of the legend is the first.
        assert!(heights[1] < heights[2] && heights[2] < heights[3], "{heights:?}");
        assert!(svg.contains(">clients, count</text>") && is_well_formed(&svg), "{svg}");
    }

    #[test]
    fn a_surface_is_stronger_where_values_are_larger() {
        let axis = || Axis { name: "stride".into(), quantity: Quantity::Bytes, ranks: false };
        let cells = [(1.0, 1.0, 5.0), (2.0, 1.0, 9.0), (1.0, 8.0, 1.0)];
        let cells = cells.map(|(along, up, value)| Cell { place: (along, up), mark: mark(value) }).into();
        let svg = svg(&figure(Quantity::Share, Plot::Surface { along: axis(), up: axis(), cells }));
        assert_eq!(attributes(&svg, "mark cell", "fill-opacity"), [0.53, 1.0, 0.06]);
        assert!(is_well_formed(&svg), "{svg}");
    }

    #[test]
    fn what_xml_cannot_say_is_replaced() {
        let mut figure = figure(Quantity::Share, Plot::Bars(Vec::new()));
        figure.title = "a\u{1}b\u{1b}[31m\tc".into();
        let svg = svg(&figure);
        assert!(svg.contains("a\u{FFFD}b\u{FFFD}[31m\tc") && !svg.chars().any(is_no_xml), "{svg}");
    }

    #[test]
    fn words_are_escaped_and_a_file_leads_nowhere() {
        let svg = bars(Quantity::Share, [Some(0.5), None]);
        for word in [
            "a &lt;i&gt; label",
            "a &lt; b: 0.5 &amp; more",
            ">Panel<",
            ">on<",
            ">off<",
            "prefers-color-scheme",
        ] {
            assert!(svg.contains(word), "{word}: {svg}");
        }
        assert!(is_well_formed(&svg) && !svg.contains("href"), "{svg}");
        let page = panels(&figure(
            Quantity::Share,
            Plot::Bars(vec![Category { label: "x".into(), marks: vec![Some(mark(0.5))] }]),
        ));
        assert!(page[0].0.contains("data-r=\"1\""), "{}", page[0].0);
    }
}
