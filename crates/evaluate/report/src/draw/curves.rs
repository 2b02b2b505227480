//! Lines over an axis of sizes, numbers of clients, and the like.

use maud::{Markup, html};

use super::{
    WIDTH,
    bars::axis_name,
    shapes::{
        line, lines as words, mark_shape, points_text, series_class, text, tick_width, values, with_note,
        with_room,
    },
};
use crate::{
    figure::{Axis, Figure, Mark, Point},
    quantity::Quantity,
    scale::Scale,
};

const PLOT: f64 = 170.0;
/// Between the ends of the plot and the first and last point.
const INSET: f64 = 10.0;

pub(super) fn draw(
    figure: &Figure,
    along: &Axis,
    lines: &[Vec<Point>],
    top: f64,
    linked: bool,
) -> (f64, Markup) {
    let quantity = &figure.quantity;
    let up = scale_of_values(figure, lines);
    let places = distinct(lines.iter().flatten().map(|point| point.place));
    let across = if along.ranks {
        Scale::of_lengths(places.iter().copied().filter(|place| *place > 1.0).chain([0.0]), 0.0, false)
    } else {
        Scale::of_points(places.iter().copied(), along.quantity == Quantity::Bytes)
    };
    let (title, name) =
        words((2.0, top + 10.0), WIDTH - 2.0, ("start", "tick axis"), &axis_name(figure, up.logarithmic));
    let ceiling = top + title + 8.0;
    let floor = ceiling + PLOT;
    let left = up.ticks().iter().map(|tick| tick_width(&quantity.tick(*tick))).fold(12.0, f64::max) + 9.0;
    let half = places.iter().map(|place| tick_width(&along.quantity.tick(*place)) / 2.0).fold(0.0, f64::max);
    let right = WIDTH - (half - INSET).max(2.0);
    let x_of = |place: f64| left + INSET + across.at(place) * (right - left - 2.0 * INSET);
    let y_of = |value: f64| floor - up.at(value) * PLOT;

    let point = |number: usize, place: f64, mark: &Mark| {
        let (x, y) = (x_of(place), y_of(mark.value));
        let drawn = html! {
            @if mark.range.0 < mark.range.1 { (line("range", (x, y_of(mark.range.0)), (x, y_of(mark.range.1)))) }
            (mark_shape(number, (x, y), if places.len() > 40 { 2.0 } else { 3.5 }))
        };
        with_note(mark, linked, drawn)
    };
    let (below, across_name) = words(
        ((left + right) / 2.0, floor + 32.0),
        right - left,
        ("middle", "tick axis"),
        &with_scale(along.title(), across.logarithmic),
    );
    let drawn = html! {
        (name)
        @for tick in up.ticks() {
            (line("grid", (left, y_of(tick)), (right, y_of(tick))))
            (text((left - 6.0, y_of(tick) + 4.0), "end", "tick", &quantity.tick(tick)))
        }
        @for (place, label) in place_labels(&places, &across, &along.quantity, x_of) {
            (line("base", (x_of(place), floor), (x_of(place), floor + 4.0)))
            (text((x_of(place), floor + 17.0), "middle", "tick", &label))
        }
        (line("base", (left, floor), (right, floor)))
        @if let Some((value, _)) = figure.reference { (line("reference", (left, y_of(value)), (right, y_of(value)))) }
        @for (number, points) in lines.iter().enumerate().filter(|(_, points)| !points.is_empty()) {
            @let class = format!("curve {}", series_class(number));
            polyline class=(class) points=(points_text(points.iter().map(|one| (x_of(one.place), y_of(one.mark.value))))) {}
        }
        @for (number, points) in lines.iter().enumerate() {
            @for one in points { (point(number, one.place, &one.mark)) }
        }
        (across_name)
    };
    (floor + 24.0 + below, drawn)
}

/// Programs, servers and the like differ more among themselves than along the axis: an axis for each panel.
fn scale_of_values(figure: &Figure, lines: &[Vec<Point>]) -> Scale {
    let quantity = &figure.quantity;
    let own = lines.iter().flatten().flat_map(|point| point.mark.values());
    let all = match quantity {
        Quantity::Share => Scale::of_shares(values(figure)),
        _ => Scale::of_lengths(values(figure), quantity.origin(), *quantity == Quantity::Bytes),
    };
    all.narrowed(own.chain(figure.reference.iter().map(|(value, _)| *value)), quantity.origin()).rounded()
}

fn with_scale(title: String, logarithmic: bool) -> String {
    if logarithmic { format!("{title} (logarithmic)") } else { title }
}

/// `values` in their order, each once.
pub(super) fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// The measured places, or where hardly any of them have room, places that lie well.
fn place_labels(
    places: &[f64],
    across: &Scale,
    quantity: &Quantity,
    x_of: impl Fn(f64) -> f64,
) -> Vec<(f64, String)> {
    let own = with_room(places, quantity, &x_of);
    if 2 * own.len() >= places.len() { own } else { with_room(&across.ticks(), quantity, x_of) }
}
