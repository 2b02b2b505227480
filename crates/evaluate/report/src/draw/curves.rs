//! Lines over an axis of sizes, numbers of clients, and the like.

use maud::{Markup, html};

use super::{
    WIDTH,
    bars::axis_name,
    shapes::{line, mark_shape, points_text, series_class, text, text_upwards, values, with_note, with_room},
};
use crate::{
    figure::{Axis, Figure, Mark, Point},
    quantity::Quantity,
    scale::Scale,
};

const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 16.0;
const PLOT: f64 = 190.0;
const AXIS: f64 = 42.0;

pub(super) fn draw(
    figure: &Figure,
    along: &Axis,
    lines: &[Vec<Point>],
    top: f64,
    linked: bool,
) -> (f64, Markup) {
    let quantity = &figure.quantity;
    let own = lines.iter().flatten().flat_map(|point| point.mark.values());
    let binary = *quantity == Quantity::Bytes;
    // Programs, servers and the like differ more among themselves than along the axis: an axis for each panel.
    let up = match quantity {
        Quantity::Share => Scale::of_shares(values(figure)),
        _ => Scale::of_lengths(values(figure), quantity.origin(), binary),
    };
    let up =
        up.narrowed(own.chain(figure.reference.iter().map(|(value, _)| *value)), quantity.origin()).rounded();
    let mut places: Vec<f64> = lines.iter().flatten().map(|point| point.place).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let across = Scale::of_points(places.iter().copied(), along.quantity == Quantity::Bytes);
    let (floor, inset) = (top + 8.0 + PLOT, 10.0);
    let x_of = |place: f64| LEFT + inset + across.at(place) * (RIGHT - LEFT - 2.0 * inset);
    let y_of = |value: f64| floor - up.at(value) * PLOT;

    let point = |number: usize, place: f64, mark: &Mark| {
        let (x, y) = (x_of(place), y_of(mark.value));
        let drawn = html! {
            @if mark.range.0 < mark.range.1 { (line("range", (x, y_of(mark.range.0)), (x, y_of(mark.range.1)))) }
            (mark_shape(number, (x, y), 3.5))
        };
        with_note(mark, linked, drawn)
    };
    let drawn = html! {
        @for tick in up.ticks() {
            (line("grid", (LEFT, y_of(tick)), (RIGHT, y_of(tick))))
            (text((LEFT - 7.0, y_of(tick) + 4.0), "end", "tick", &quantity.tick(tick)))
        }
        @for (place, label) in place_labels(&places, &across, &along.quantity, x_of) {
            (line("base", (x_of(place), floor), (x_of(place), floor + 4.0)))
            (text((x_of(place), floor + 17.0), "middle", "tick", &label))
        }
        (line("base", (LEFT, floor), (RIGHT, floor)))
        @if let Some((value, _)) = figure.reference { (line("reference", (LEFT, y_of(value)), (RIGHT, y_of(value)))) }
        @for (number, points) in lines.iter().enumerate() {
            @let class = format!("curve {}", series_class(number));
            polyline class=(class) points=(points_text(points.iter().map(|one| (x_of(one.place), y_of(one.mark.value))))) {}
        }
        @for (number, points) in lines.iter().enumerate() {
            @for one in points { (point(number, one.place, &one.mark)) }
        }
        (text_upwards((12.0, top + 8.0 + PLOT / 2.0), &axis_name(figure, up.logarithmic)))
        (text(((LEFT + RIGHT) / 2.0, floor + 34.0), "middle", "tick", &along.name))
    };
    (floor + AXIS, drawn)
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
