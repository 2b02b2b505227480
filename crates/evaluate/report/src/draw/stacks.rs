//! Bars of one length from left to right, each divided into the parts of a whole; the whole is written beside its bar.

use maud::{Markup, html};

use super::{
    WIDTH,
    bars::{AXIS, CATEGORY_GAP, VALUE, label_of, room_for_labels},
    shapes::{Px, line, series_class, text, with_note},
};
use crate::{
    figure::{Category, Figure, Mark},
    quantity::Quantity,
};

const BAR: f64 = 16.0;
/// A part that is not nothing can be seen.
const SLIVER: f64 = 0.5;
/// Shares that get a line.
const TICKS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

pub(super) fn draw(figure: &Figure, categories: &[Category], top: f64, linked: bool) -> (f64, Markup) {
    let (left, right) = (room_for_labels(figure), WIDTH - VALUE);
    let x_of = |share: f64| left + share * (right - left);
    let floor = top + categories.len() as f64 * (BAR + CATEGORY_GAP) + CATEGORY_GAP / 2.0;
    let drawn = html! {
        @for tick in TICKS {
            (line("grid", (x_of(tick), top), (x_of(tick), floor)))
            (text((x_of(tick), floor + 15.0), "middle", "tick", &Quantity::Share.tick(tick)))
        }
        @for (place, category) in categories.iter().enumerate() {
            @let y = top + CATEGORY_GAP / 2.0 + place as f64 * (BAR + CATEGORY_GAP);
            @let sum = category.marks.iter().flatten().map(|mark| mark.value).sum::<f64>();
            (label_of(category, (left - 10.0, y + BAR / 2.0 + 4.0)))
            @for (number, mark, (from, to)) in shares(category, sum) {
                (with_note(mark, linked, html! {
                    rect class={ "mark part " (series_class(number)) } x=(Px(x_of(from))) y=(Px(y))
                        width=(Px((x_of(to) - x_of(from)).max(SLIVER))) height=(Px(BAR)) {}
                }))
            }
            (text((right + 7.0, y + BAR / 2.0 + 4.0), "start", "value", &figure.quantity.show(sum)))
        }
        (text(((left + right) / 2.0, floor + 33.0), "middle", "tick", &figure.axis))
    };
    (floor + AXIS, drawn)
}

/// The marks of a category with the number of their series, and where each begins and ends as a share of `sum`.
fn shares(category: &Category, sum: f64) -> Vec<(usize, &Mark, (f64, f64))> {
    let mut end = 0.0;
    let marks = category.marks.iter().enumerate();
    let marks = marks.filter_map(|(number, mark)| mark.as_ref().map(|mark| (number, mark)));
    let placed = marks.filter(|(_, mark)| mark.value > 0.0 && sum > 0.0).map(|(number, mark)| {
        let start = end;
        end += mark.value / sum;
        (number, mark, (start, end))
    });
    placed.collect()
}
