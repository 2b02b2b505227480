//! A map of shades over two axes of numbers, such as memory throughput by stride and working set.

use maud::{Markup, html};

use super::{
    WIDTH,
    curves::distinct,
    shapes::{Px, lines, text, tick_width, with_note},
};
use crate::{
    figure::{Axis, Cell, Figure},
    quantity::Quantity,
    scale::Scale,
};

const CELL_HEIGHT: f64 = 16.0;
/// Shade of the least value; that of the largest is 1.
const SHADE_MIN: f64 = 0.06;

pub(super) fn draw(
    figure: &Figure,
    (along, up): (&Axis, &Axis),
    cells: &[Cell],
    top: f64,
    linked: bool,
) -> (f64, Markup) {
    let all: Vec<f64> = figure.marks().map(|mark| mark.value).collect();
    let shades = Scale::of_points(all.iter().copied(), false);
    let columns = distinct(cells.iter().map(|cell| cell.place.0));
    let rows = distinct(cells.iter().map(|cell| cell.place.1));
    let left = rows.iter().map(|row| tick_width(&up.quantity.tick(*row))).fold(0.0, f64::max) + 9.0;
    // For the half of the last column's number that is beyond it.
    let right = WIDTH - columns.last().map_or(0.0, |last| tick_width(&along.quantity.tick(*last)) / 2.0);
    let width = (right - left) / columns.len().max(1) as f64;
    let (title, up_name) = lines((2.0, top + 10.0), WIDTH - 2.0, ("start", "tick axis"), &up.title());
    let floor = top + title + 4.0 + rows.len() as f64 * CELL_HEIGHT;
    let place = |values: &[f64], value: f64| values.partition_point(|one| *one < value) as f64;
    let cell = |cell: &Cell| {
        let (left, upper) = (
            left + place(&columns, cell.place.0) * width,
            floor - (place(&rows, cell.place.1) + 1.0) * CELL_HEIGHT,
        );
        let shade = SHADE_MIN + (1.0 - SHADE_MIN) * shades.at(cell.mark.value);
        let drawn = html! {
            rect.mark.cell x=(Px(left)) y=(Px(upper)) width=(Px(width)) height=(Px(CELL_HEIGHT)) fill-opacity=(format!("{shade:.2}")) {}
        };
        with_note(&cell.mark, linked, drawn)
    };
    let numbers = |values: &[f64], quantity: &Quantity, room: f64, upright: bool| {
        let labels: Vec<String> = values.iter().map(|value| quantity.tick(*value)).collect();
        let need = labels
            .iter()
            .map(|label| if upright { 14.0 } else { tick_width(label) + 8.0 })
            .fold(1.0, f64::max);
        let each = (need / room).ceil().max(1.0) as usize;
        labels.into_iter().enumerate().step_by(each).collect::<Vec<_>>()
    };
    let (least, most) = (
        all.iter().copied().fold(f64::INFINITY, f64::min),
        all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let (least, most) = (figure.quantity.show(least), figure.quantity.show(most));
    let range = format!("{}: from {least} (faint) to {most} (strong)", figure.axis);
    let (below, along_name) =
        lines(((left + right) / 2.0, floor + 30.0), right - left, ("middle", "tick axis"), &along.title());
    let (last, range) = lines((2.0, floor + 34.0 + below), WIDTH - 2.0, ("start", "tick axis"), &range);
    let drawn = html! {
        (up_name)
        @for one in cells { (cell(one)) }
        @for (number, label) in numbers(&rows, &up.quantity, CELL_HEIGHT, true) {
            (text((left - 6.0, floor - (number as f64 + 0.5) * CELL_HEIGHT + 4.0), "end", "tick", &label))
        }
        @for (number, label) in numbers(&columns, &along.quantity, width, false) {
            (text((left + (number as f64 + 0.5) * width, floor + 15.0), "middle", "tick", &label))
        }
        (along_name) (range)
    };
    (floor + 24.0 + below + last, drawn)
}
