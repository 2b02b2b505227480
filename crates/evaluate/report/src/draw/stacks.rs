//! Bars of one length from left to right, each divided into the parts of a whole; the whole is written beside its bar.

use maud::{Markup, html};

use super::{
    WIDTH,
    bars::Rows,
    shapes::{Px, line, lines, series_class, text, tick_width, with_note},
};
use crate::{
    figure::{Category, Figure, Mark},
    quantity::Quantity,
};

const BAR: f64 = 14.0;
/// A part that is not nothing can be seen.
const SLIVER: f64 = 0.5;
/// Shares that get a line.
const TICKS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

pub(super) fn draw(figure: &Figure, categories: &[Category], top: f64, linked: bool) -> (f64, Markup) {
    let rows = Rows::new(figure, (BAR, 0.0), top);
    let sum = |category: &Category| category.marks.iter().flatten().map(|mark| mark.value).sum::<f64>();
    let numbers = categories.iter().map(|one| tick_width(&figure.quantity.show(sum(one))));
    let right = WIDTH - numbers.fold(20.0, f64::max) - 8.0;
    let x_of = |share: f64| rows.left + share * (right - rows.left);
    let (places, floor) = rows.places(categories, |_| 1);
    let upper = places.first().map_or(floor, |first| first - 4.0);
    let (title, name) = lines((WIDTH / 2.0, floor + 31.0), WIDTH, ("middle", "tick axis"), &figure.axis);
    let drawn = html! {
        (rows.title(figure))
        @for tick in TICKS {
            (line("grid", (x_of(tick), upper), (x_of(tick), floor)))
            (text((x_of(tick), floor + 15.0), "middle", "tick", &Quantity::Share.tick(tick)))
        }
        @for (category, y) in categories.iter().zip(places) {
            (rows.label(category, 1, y))
            @for (number, mark, (from, to)) in shares(category, sum(category)) {
                (with_note(mark, linked, html! {
                    rect class={ "mark part " (series_class(number)) } x=(Px(x_of(from))) y=(Px(y))
                        width=(Px((x_of(to) - x_of(from)).max(SLIVER))) height=(Px(BAR)) {}
                }))
            }
            (text((right + 7.0, y + BAR / 2.0 + 4.0), "start", "value", &figure.quantity.show(sum(category))))
        }
        (name)
    };
    (floor + 22.0 + title, drawn)
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
