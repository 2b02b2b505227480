//! Bars from left to right, one below another; dots where values span decades, since the length of a bar means nothing
//! on a logarithmic axis unless it is a ratio's.

use maud::{Markup, html};

use super::{
    WIDTH,
    shapes::{Px, fitted, line, mark_shape, series_class, text, values, width_of, with_note, with_room},
};
use crate::{
    figure::{Category, Figure, Mark, Plot},
    quantity::Quantity,
    scale::Scale,
};

/// Heights of a bar and of the gaps after it and between categories.
const BAR: f64 = 12.0;
const BAR_GAP: f64 = 4.0;
pub(super) const CATEGORY_GAP: f64 = 10.0;
/// The most room that labels get, and what the written values take.
pub(super) const LABEL_MAX: f64 = 165.0;
pub(super) const VALUE: f64 = 62.0;
/// Room for the axis.
pub(super) const AXIS: f64 = 40.0;

pub(super) fn draw(figure: &Figure, categories: &[Category], top: f64, linked: bool) -> (f64, Markup) {
    let quantity = &figure.quantity;
    let scale = Scale::of_lengths(values(figure), quantity.origin(), *quantity == Quantity::Bytes).rounded();
    let left = room_for_labels(figure);
    let right = WIDTH - VALUE;
    let x_of = |value: f64| left + scale.at(value) * (right - left);
    let each = figure.series.len().max(1) as f64 * (BAR + BAR_GAP) - BAR_GAP;
    let floor = top + categories.len() as f64 * (each + CATEGORY_GAP) + CATEGORY_GAP / 2.0;
    let origin = x_of(quantity.origin());
    let bars = !scale.logarithmic || *quantity == Quantity::Factor;

    let mark = |number: usize, mark: &Mark, y: f64| {
        let (middle, x) = (y + BAR / 2.0, x_of(mark.value));
        let (low, high) = (x_of(mark.range.0), x_of(mark.range.1));
        let class = format!("mark bar {}", series_class(number));
        let drawn = html! {
            @if bars {
                rect class=(class) x=(Px(origin.min(x))) y=(Px(y)) width=(Px((x - origin).abs().max(1.0))) height=(Px(BAR)) rx="1.5" {}
            } @else {
                (mark_shape(number, (x, middle), 4.5))
            }
            @if mark.range.0 < mark.range.1 { (line("range", (low, middle), (high, middle))) }
            (text((high.max(x).max(origin) + 7.0, middle + 4.0), "start", "value", &quantity.show(mark.value)))
        };
        with_note(mark, linked, drawn)
    };
    let drawn = html! {
        @for tick in scale.ticks() { (line("grid", (x_of(tick), top), (x_of(tick), floor))) }
        @for (tick, label) in with_room(&scale.ticks(), quantity, x_of) {
            (text((x_of(tick), floor + 15.0), "middle", "tick", &label))
        }
        @if bars { (line("base", (origin, top), (origin, floor))) }
        @if let Some((value, _)) = figure.reference { (line("reference", (x_of(value), top), (x_of(value), floor))) }
        @for (place, category) in categories.iter().enumerate() {
            @let y = top + CATEGORY_GAP / 2.0 + place as f64 * (each + CATEGORY_GAP);
            (label_of(category, (left - 10.0, y + each / 2.0 + 4.0)))
            @for (number, one) in category.marks.iter().enumerate() {
                @if let Some(one) = one { (mark(number, one, y + number as f64 * (BAR + BAR_GAP))) }
            }
        }
        (text(((left + right) / 2.0, floor + 33.0), "middle", "tick", &axis_name(figure, scale.logarithmic)))
    };
    (floor + AXIS, drawn)
}

/// Where bars begin: right of the labels of all panels.
pub(super) fn room_for_labels(figure: &Figure) -> f64 {
    let labels = figure.panels.iter().flat_map(|panel| match &panel.plot {
        Plot::Bars(categories) | Plot::Stacks(categories) => categories.as_slice(),
        Plot::Curves { .. } | Plot::Surface { .. } => &[],
    });
    labels.map(|one| width_of(&one.label)).fold(24.0, f64::max).min(LABEL_MAX) + 10.0
}

/// The label of a category, left of its bars.
pub(super) fn label_of(category: &Category, (right, y): (f64, f64)) -> Markup {
    let label = fitted(&category.label, LABEL_MAX);
    html! {
        g {
            @if label != category.label { title { (category.label) } }
            (text((right, y), "end", "", &label))
        }
    }
}

/// What is written beside the axis of values.
pub(super) fn axis_name(figure: &Figure, logarithmic: bool) -> String {
    let scale = if logarithmic { " (logarithmic)" } else { "" };
    format!("{}{scale}", figure.axis)
}
