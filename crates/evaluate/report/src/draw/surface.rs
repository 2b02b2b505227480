//! A map of shades over two axes of numbers, such as memory throughput by stride and working set.

use maud::{Markup, html};

use super::{
    WIDTH,
    shapes::{Px, text, text_upwards, width_of, with_note},
};
use crate::{
    figure::{Axis, Cell, Figure},
    quantity::Quantity,
    scale::Scale,
};

const LEFT: f64 = 84.0;
/// For the half of the last column's number that is beyond it.
const RIGHT: f64 = 20.0;
const CELL_HEIGHT: f64 = 20.0;
const AXIS: f64 = 56.0;
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
    let (columns, rows) =
        (distinct(cells.iter().map(|cell| cell.place.0)), distinct(cells.iter().map(|cell| cell.place.1)));
    let width = (WIDTH - LEFT - RIGHT) / columns.len().max(1) as f64;
    let floor = top + 8.0 + rows.len() as f64 * CELL_HEIGHT;
    let place = |values: &[f64], value: f64| values.partition_point(|one| *one < value) as f64;
    let cell = |cell: &Cell| {
        let (left, upper) = (
            LEFT + place(&columns, cell.place.0) * width,
            floor - (place(&rows, cell.place.1) + 1.0) * CELL_HEIGHT,
        );
        let shade = SHADE_MIN + (1.0 - SHADE_MIN) * shades.at(cell.mark.value);
        with_note(
            &cell.mark,
            linked,
            html! {
                rect.mark.cell x=(Px(left)) y=(Px(upper)) width=(Px(width)) height=(Px(CELL_HEIGHT)) fill-opacity=(format!("{shade:.2}")) {}
            },
        )
    };
    let numbers = |values: &[f64], quantity: &Quantity, room: f64, upright: bool| {
        let labels: Vec<String> = values.iter().map(|value| quantity.tick(*value)).collect();
        let need =
            labels.iter().map(|label| if upright { 14.0 } else { width_of(label) + 8.0 }).fold(1.0, f64::max);
        let each = (need / room).ceil().max(1.0) as usize;
        labels.into_iter().enumerate().step_by(each).collect::<Vec<_>>()
    };
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = format!(
        "{}: from {} (faint) to {} (strong)",
        figure.axis,
        figure.quantity.show(least),
        figure.quantity.show(most)
    );
    let drawn = html! {
        @for one in cells { (cell(one)) }
        @for (number, label) in numbers(&rows, &up.quantity, CELL_HEIGHT, true) {
            (text((LEFT - 7.0, floor - (number as f64 + 0.5) * CELL_HEIGHT + 4.0), "end", "tick", &label))
        }
        @for (number, label) in numbers(&columns, &along.quantity, width, false) {
            (text((LEFT + (number as f64 + 0.5) * width, floor + 15.0), "middle", "tick", &label))
        }
        (text_upwards((12.0, (top + 8.0 + floor) / 2.0), &up.name))
        (text((LEFT + (WIDTH - LEFT - RIGHT) / 2.0, floor + 31.0), "middle", "tick", &along.name))
        (text((LEFT, floor + 47.0), "start", "tick", &range))
    };
    (floor + AXIS, drawn)
}

fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}
