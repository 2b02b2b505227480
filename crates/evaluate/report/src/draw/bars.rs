//! Bars from left to right, one below another; dots where values span decades, since the length of a bar means nothing
//! on a logarithmic axis unless it is a ratio's.

use maud::{Markup, html};

use super::{
    WIDTH,
    shapes::{
        LINE, Px, line, lines, mark_shape, series_class, text, tick_width, values, width_of, with_note,
        with_room, wrapped,
    },
};
use crate::{
    figure::{Category, Figure, Mark, Plot},
    quantity::Quantity,
    scale::Scale,
};

/// Heights of a bar and of the gaps after it and between categories.
const BAR: f64 = 11.0;
const BAR_GAP: f64 = 3.0;
/// What a bar and its gap take: the number beside it is as high.
const STEP: f64 = BAR + BAR_GAP;
const CATEGORY_GAP: f64 = 8.0;
/// Labels up to this width stand left of their bars, longer ones above.
const LABEL_MAX: f64 = 118.0;
/// And have this room there.
const LABEL_ROOM: f64 = WIDTH - 2.0;
/// Numbers below the ends of an axis have room beside it.
const INSET: f64 = 16.0;

/// Where labels and bars lie.
pub(super) struct Rows {
    pub(super) left: f64,
    beside: bool,
    /// Height of a bar and the gap after it, and of the gap.
    step: (f64, f64),
    top: f64,
}

impl Rows {
    /// Of the categories of `figure`, with bars of this height and gap, below `top`, where the title of the labels stands.
    pub(super) fn new(figure: &Figure, (bar, gap): (f64, f64), top: f64) -> Self {
        let labels = figure.panels.iter().flat_map(|panel| match &panel.plot {
            Plot::Bars(categories) | Plot::Stacks(categories) => categories.as_slice(),
            Plot::Curves { .. } | Plot::Surface { .. } => &[],
        });
        let widest = labels.map(|one| width_of(&one.label)).fold(0.0, f64::max);
        let beside = widest <= LABEL_MAX;
        let left = if beside { (widest + 10.0).max(INSET) } else { INSET };
        Self { left, beside, step: (bar + gap, gap), top: top + LINE + 4.0 }
    }

    /// Height of the bars of a category that has so many; none takes no room.
    fn height(&self, bars: usize) -> f64 {
        bars.max(1) as f64 * self.step.0 - self.step.1
    }

    /// The upper end of the bars of each category, each of which has so many, and the lower end of all.
    pub(super) fn places(&self, categories: &[Category], bars: fn(&Category) -> usize) -> (Vec<f64>, f64) {
        let mut y = self.top + CATEGORY_GAP / 2.0;
        let places = categories.iter().map(|category| {
            if !self.beside {
                y += wrapped(&category.label, LABEL_ROOM, width_of(" ")).len() as f64 * LINE + 2.0;
            }
            let place = y;
            y += self.height(bars(category)) + CATEGORY_GAP;
            place
        });
        let places = places.collect();
        (places, y - CATEGORY_GAP / 2.0)
    }

    /// The title above the labels.
    pub(super) fn title(&self, figure: &Figure) -> Markup {
        text((2.0, self.top - 7.0), "start", "tick axis", &figure.labels)
    }

    /// The label of a category whose bars, so many, begin at `y`.
    pub(super) fn label(&self, category: &Category, bars: usize, y: f64) -> Markup {
        if self.beside {
            return text((self.left - 8.0, y + self.height(bars) / 2.0 + 4.0), "end", "", &category.label);
        }
        let high = wrapped(&category.label, LABEL_ROOM, width_of(" ")).len() as f64 * LINE;
        lines((2.0, y - high + 9.0), LABEL_ROOM, ("start", ""), &category.label).1
    }
}

pub(super) fn draw(figure: &Figure, categories: &[Category], top: f64, linked: bool) -> (f64, Markup) {
    let quantity = &figure.quantity;
    let scale = Scale::of_lengths(values(figure), quantity.origin(), *quantity == Quantity::Bytes).rounded();
    let mut rows = Rows::new(figure, (BAR, BAR_GAP), top);
    // The first number of the axis is not cut either.
    let first = scale.ticks().first().map_or(0.0, |tick| tick_width(&quantity.tick(*tick)) / 2.0);
    rows.left = rows.left.max(first + 2.0);
    let numbers = figure.marks().map(|mark| tick_width(&quantity.show(mark.value)));
    let right = WIDTH - numbers.fold(INSET, f64::max) - 8.0;
    let x_of = |value: f64| rows.left + scale.at(value) * (right - rows.left);
    let (places, floor) = rows.places(categories, bars_of);
    let origin = x_of(quantity.origin());
    let bars = !scale.logarithmic || *quantity == Quantity::Factor;
    let upper = rows.top;

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
    let (title, name) = lines(
        (WIDTH / 2.0, floor + 31.0),
        WIDTH,
        ("middle", "tick axis"),
        &axis_name(figure, scale.logarithmic),
    );
    let drawn = html! {
        (rows.title(figure))
        @for tick in scale.ticks() { (line("grid", (x_of(tick), upper), (x_of(tick), floor))) }
        @for (tick, label) in with_room(&scale.ticks(), quantity, x_of) {
            (text((x_of(tick), floor + 15.0), "middle", "tick", &label))
        }
        @if bars { (line("base", (origin, upper), (origin, floor))) }
        @if let Some((value, _)) = figure.reference { (line("reference", (x_of(value), upper), (x_of(value), floor))) }
        @for (category, y) in categories.iter().zip(places) {
            (rows.label(category, bars_of(category), y))
            @let marks = category.marks.iter().enumerate().filter_map(|(number, mark)| Some((number, mark.as_ref()?)));
            @for (place, (number, one)) in marks.enumerate() { (mark(number, one, y + place as f64 * STEP)) }
        }
        (name)
    };
    (floor + 22.0 + title, drawn)
}

/// How many bars a category has: what was not measured takes no room.
fn bars_of(category: &Category) -> usize {
    category.marks.iter().flatten().count()
}

/// What is written beside the axis of values.
pub(super) fn axis_name(figure: &Figure, logarithmic: bool) -> String {
    let scale = if logarithmic { " (logarithmic)" } else { "" };
    format!("{}{scale}", figure.axis)
}
