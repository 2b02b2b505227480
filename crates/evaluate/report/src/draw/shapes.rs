//! What all plots are made of.

use std::fmt::Write;

use maud::{Markup, Render, html};

use crate::{
    figure::{Figure, Mark},
    palette::SERIES_MAX,
    quantity::Quantity,
};

/// About as wide as a character is in the widest of the fonts that systems come with: of labels, of numbers along an
/// axis, and of headings.
const CHARACTER: f64 = 7.3;
pub(super) const TICK_CHARACTER: f64 = 6.7;
pub(super) const HEADING_CHARACTER: f64 = 8.6;
/// From one line of words to the next.
pub(super) const LINE: f64 = 14.0;
/// Least room between numbers along an axis.
const LABELS_APART: f64 = 8.0;

/// A length in pixels, to a tenth.
#[derive(Clone, Copy)]
pub(super) struct Px(pub(super) f64);

impl Render for Px {
    fn render_to(&self, buffer: &mut String) {
        let rounded = (self.0 * 10.0).round() / 10.0;
        let _ = write!(buffer, "{rounded}");
    }
}

/// Words; `anchor` is `start`, `middle` or `end`.
pub(super) fn text((x, y): (f64, f64), anchor: &str, class: &str, words: &str) -> Markup {
    let anchor = (anchor != "start").then_some(anchor);
    html! {
        @if !words.is_empty() {
            text class=[(!class.is_empty()).then_some(class)] x=(Px(x)) y=(Px(y)) text-anchor=[anchor] { (words) }
        }
    }
}

pub(super) fn line(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Markup {
    // Shorter than a `line`, and a page has thousands.
    html! { path class=(class) d={ "M" (Px(x1)) " " (Px(y1)) " " (Px(x2)) " " (Px(y2)) } {} }
}

/// About as wide as `words` are as a label, in pixels.
pub(super) fn width_of(words: &str) -> f64 {
    width(words, CHARACTER)
}

/// About as wide as `words` are beside an axis.
pub(super) fn tick_width(words: &str) -> f64 {
    width(words, TICK_CHARACTER)
}

/// About as wide as `words` of characters of this width are; some letters are wider than others.
fn width(words: &str, character: f64) -> f64 {
    let each = |char: char| match char {
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.6,
        one if one.is_uppercase() => 1.2,
        _ => 1.0,
    };
    words.chars().map(each).sum::<f64>() * character
}

/// `words` in lines that `width` has room for, with characters of `character` each: nothing is cut off.
pub(super) fn wrapped(words: &str, width: f64, character: f64) -> Vec<String> {
    let fits = |line: &str| self::width(line, character) <= width;
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}")).filter(|line| fits(line));
        if let Some((line, longer)) = lines.last_mut().zip(longer) {
            *line = longer;
            continue;
        }
        let mut line = String::new();
        for char in word.chars() {
            line.push(char);
            if !fits(&line) && line.chars().count() > 1 {
                line.pop();
                lines.push(std::mem::take(&mut line));
                line.push(char);
            }
        }
        lines.push(line);
    }
    lines
}

/// `words` in lines within `room`, the first of which stands on `y`, and how high they are.
pub(super) fn lines(
    (x, y): (f64, f64),
    room: f64,
    (anchor, class): (&str, &str),
    words: &str,
) -> (f64, Markup) {
    let character = match class {
        "heading" => HEADING_CHARACTER,
        "tick" | "tick axis" => TICK_CHARACTER,
        _ => CHARACTER,
    };
    let all = wrapped(words, room, character);
    let drawn = html! {
        @for (number, line) in all.iter().enumerate() {
            (text((x, y + number as f64 * LINE), anchor, class, line))
        }
    };
    (all.len() as f64 * LINE, drawn)
}

/// Those of `places` along an axis whose numbers have room beside the one before, and their numbers.
pub(super) fn with_room(
    places: &[f64],
    quantity: &Quantity,
    x_of: impl Fn(f64) -> f64,
) -> Vec<(f64, String)> {
    let mut labels: Vec<(f64, String)> = Vec::new();
    for place in places {
        let label = quantity.tick(*place);
        let fits = labels.last().is_none_or(|(last, before)| {
            x_of(*place) - x_of(*last) >= (tick_width(before) + tick_width(&label)) / 2.0 + LABELS_APART
        });
        if fits {
            labels.push((*place, label));
        }
    }
    labels
}

/// The class that colours a series.
pub(super) fn series_class(number: usize) -> String {
    format!("s{}", number % SERIES_MAX)
}

/// The mark of a series with a shape of its own, so that it can be told apart without colour too.
pub(super) fn mark_shape(number: usize, (x, y): (f64, f64), size: f64) -> Markup {
    let class = format!("mark {}", series_class(number));
    let corners: &[(f64, f64)] = match number % SERIES_MAX {
        0 => return html! { circle class=(class) cx=(Px(x)) cy=(Px(y)) r=(Px(size)) {} },
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.1), (1.1, 0.9), (-1.1, 0.9)],
        3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        4 => &[(-1.1, -0.9), (1.1, -0.9), (0.0, 1.1)],
        5 => &[(-1.2, -0.45), (1.2, -0.45), (1.2, 0.45), (-1.2, 0.45)],
        6 => &[(-0.45, -1.2), (0.45, -1.2), (0.45, 1.2), (-0.45, 1.2)],
        _ => &[
            (0.0, -1.4),
            (0.4, -0.4),
            (1.4, 0.0),
            (0.4, 0.4),
            (0.0, 1.4),
            (-0.4, 0.4),
            (-1.4, 0.0),
            (-0.4, -0.4),
        ],
    };
    let points = corners.iter().map(|(right, down)| (x + right * size, y + down * size));
    html! { polygon class=(class) points=(points_text(points)) {} }
}

/// The value of the attribute `points`.
pub(super) fn points_text(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    for (x, y) in points {
        Px(x).render_to(&mut text);
        text.push(',');
        Px(y).render_to(&mut text);
        text.push(' ');
    }
    text.truncate(text.trim_end().len());
    text
}

/// `drawn` with the note of `mark` under the pointer. In a page, where marks are `linked`, a click leads to the row, and
/// one without a note has it from there.
pub(super) fn with_note(mark: &Mark, linked: bool, drawn: Markup) -> Markup {
    html! {
        g data-r=[mark.row.filter(|_| linked)] {
            @if !(linked && mark.note.is_empty()) { title { (mark.name) ": " (mark.note) } }
            (drawn)
        }
    }
}

/// Values of all marks and the reference, which all panels' axes of values cover.
pub(super) fn values(figure: &Figure) -> impl Iterator<Item = f64> + Clone {
    figure.marks().flat_map(Mark::values).chain(figure.reference.iter().map(|(value, _)| *value))
}
