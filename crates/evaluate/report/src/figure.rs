//! What a figure shows, apart from how it is drawn.

use crate::quantity::Quantity;

/// Panels that share a legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Heading.
    pub title: String,
    /// What the values are.
    pub quantity: Quantity,
    /// What is written beside the axis of values: the metric and its unit.
    pub axis: String,
    /// What is written above the labels of bars.
    pub labels: String,
    /// A value that all are compared with, and its name.
    pub reference: Option<(f64, String)>,
    /// Names of what is told apart by colour and shape; one empty name where nothing is.
    pub series: Vec<String>,
    /// Beside each other where there is room.
    pub panels: Vec<Panel>,
}

/// A plot with axes of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Heading; may be empty.
    pub title: String,
    /// What is in it.
    pub plot: Plot,
}

/// Ways to show numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// A bar for each series in each category, or a dot where values span decades.
    Bars(Vec<Category>),
    /// A bar in each category, divided among the series by their shares of its sum.
    Stacks(Vec<Category>),
    /// A line for each series.
    Curves {
        /// What lies along.
        along: Axis,
        /// One entry a series.
        lines: Vec<Vec<Point>>,
    },
    /// A map of shades: stronger is more.
    Surface {
        /// From left to right.
        along: Axis,
        /// From bottom to top.
        up: Axis,
        /// In any order.
        cells: Vec<Cell>,
    },
}

/// What stands beside one label.
#[derive(Clone, Debug, PartialEq)]
pub struct Category {
    /// The label.
    pub label: String,
    /// One entry a series; none where nothing was measured.
    pub marks: Vec<Option<Mark>>,
}

/// A place on a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Where it lies along.
    pub place: f64,
    /// What was measured there.
    pub mark: Mark,
}

/// A place on a surface.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Where it lies along, and how far up.
    pub place: (f64, f64),
    /// What was measured there.
    pub mark: Mark,
}

/// What an axis other than that of values shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What its numbers are of; empty where only a unit tells.
    pub name: String,
    /// What its numbers are.
    pub quantity: Quantity,
    /// Whether its numbers are places in an order, so that it is never logarithmic.
    pub ranks: bool,
}

impl Axis {
    /// What is written beside it: what its numbers are of, and their unit.
    #[must_use]
    pub fn title(&self) -> String {
        let name = match (&self.quantity, self.name.as_str()) {
            (Quantity::Bytes, "") => "size",
            (Quantity::Time(_), "") => "time",
            (Quantity::Plain(unit), "") if unit.ends_with("/s") => "rate",
            (_, "") => "number",
            (_, name) => name,
        };
        self.quantity.titled(name)
    }

    /// What is written above labels, which have their units.
    pub(crate) fn title_of_labels(&self) -> String {
        let title = self.title();
        title.split(", ").next().map_or(title.clone(), str::to_owned)
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Median.
    pub value: f64,
    /// Least and largest value.
    pub range: (f64, f64),
    /// What was measured, and under which condition.
    pub name: String,
    /// The value with all that it needs to be understood; appears under the pointer. Empty where the page's script
    /// has it from the row.
    pub note: String,
    /// The number of its row, to which a click leads.
    pub row: Option<usize>,
}

impl Figure {
    /// All marks.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> + Clone {
        self.panels.iter().flat_map(|panel| panel.plot.marks())
    }

    /// All marks, to change what is said of them.
    pub(crate) fn marks_mut(&mut self) -> impl Iterator<Item = &mut Mark> {
        self.panels.iter_mut().flat_map(|panel| -> Box<dyn Iterator<Item = &mut Mark>> {
            match &mut panel.plot {
                Plot::Bars(categories) | Plot::Stacks(categories) => {
                    Box::new(categories.iter_mut().flat_map(|one| one.marks.iter_mut().flatten()))
                }
                Plot::Curves { lines, .. } => {
                    Box::new(lines.iter_mut().flatten().map(|point| &mut point.mark))
                }
                Plot::Surface { cells, .. } => Box::new(cells.iter_mut().map(|cell| &mut cell.mark)),
            }
        })
    }
}

impl Plot {
    /// All marks.
    pub(crate) fn marks(&self) -> impl Iterator<Item = &Mark> + Clone {
        let (mut categories, mut lines, mut cells) = (&[][..], &[][..], &[][..]);
        match self {
            Self::Bars(all) | Self::Stacks(all) => categories = all,
            Self::Curves { lines: all, .. } => lines = all,
            Self::Surface { cells: all, .. } => cells = all,
        }
        let bars = categories.iter().flat_map(|category: &Category| category.marks.iter().flatten());
        let points = lines.iter().flatten().map(|point: &Point| &point.mark);
        bars.chain(points).chain(cells.iter().map(|cell: &Cell| &cell.mark))
    }
}

impl Mark {
    /// Median and extremes.
    pub(crate) fn values(&self) -> [f64; 3] {
        [self.range.0, self.value, self.range.1]
    }
}
