//! The published figure of the cost of views. An object is read in as many parts a page as there are views, each part through
//! a view of its own. The same loop through one view is the base.
//!
//! A. Itzkovitz and A. Schuster, "MultiView and Millipage: Fine-Grain Sharing in Page-Based DSMs", OSDI 1999, Figure 5.

mod breaking;
mod limits;
mod report;

use std::hint::black_box;
use std::time::Instant;

use forebay_vm::{Element, Object, PAGE_BYTES, Through, Views};

use crate::harness::interrupt::{Interrupt, kept};
use crate::harness::progress::Steps;
use crate::harness::statistics::Series;
use crate::{Error, Progress};
use limits::Limits;

/// Views that are too many for any object: their parts of a page would be less than a byte.
pub const VIEWS_LIMIT: usize = PAGE_BYTES;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes of the objects; whole pages.
    pub sizes_bytes: Vec<usize>,
    /// The most views; smaller counts are the powers of two below it.
    pub views_max: usize,
    /// Rounds; each reads each object once more both ways.
    pub runs: usize,
    /// What is read at least in a round, so that it takes some ten milliseconds.
    pub read_bytes: usize,
}

impl Options {
    /// The published sizes and view counts, in nine rounds.
    pub fn new() -> Self {
        let sizes_bytes = (19..=24).map(|power| 1 << power).collect();
        Self { sizes_bytes, views_max: 512, runs: 9, read_bytes: 64 << 20 }
    }

    /// Larger objects too, and more views.
    pub fn full() -> Self {
        let mut full = Self { views_max: 2048, ..Self::new() };
        full.sizes_bytes.extend([64 << 20, 256 << 20]);
        full
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// What was measured.
#[derive(Debug)]
pub struct Outcome {
    /// One entry for each size and kind of element.
    pub curves: Vec<Curve>,
    /// What could not be measured, and why: a sentence each.
    pub refused: Vec<String>,
    limits: Limits,
    /// Why not all of it was.
    pub stopped: Option<Error>,
}

/// One object, read by one kind of element.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Size of the object.
    pub bytes: usize,
    /// What was read at a time.
    pub element: Element,
    /// One entry for each number of views, in ascending order.
    pub points: Vec<Point>,
}

/// Two ways to read an object once.
#[derive(Clone, Debug)]
pub struct Point {
    /// Views, and parts of a page.
    pub views: usize,
    /// Seconds with each part of a page through a view of its own, one value a round.
    pub all_views_s: Series,
    /// Seconds with all parts through one view, one value a round.
    pub one_view_s: Series,
}

impl Point {
    /// All views over one less one, round by round: 0.01 is one per cent.
    pub fn overhead(&self) -> Series {
        let extra = self.all_views_s.per_round_difference(&self.one_view_s);
        extra.per_round_ratio(&self.one_view_s)
    }

    /// Seconds more for each part of a page, round by round.
    fn visit_s(&self, bytes: usize) -> Series {
        let visits = vpages(bytes, self.views) as f64;
        let extra = self.all_views_s.per_round_difference(&self.one_view_s);
        extra.values().iter().map(|extra_s| extra_s / visits).collect()
    }
}

/// Pages of all views together. Each has an entry in the page tables.
const fn vpages(bytes: usize, views: usize) -> usize {
    bytes / PAGE_BYTES * views
}

/// Measures. What the machine has no room for is left out, and told in the outcome.
///
/// # Errors
///
/// An interrupt.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    measure(options, Limits::of_this_machine(), progress)
}

fn measure(options: &Options, limits: Limits, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Error> {
    let interrupt = Interrupt::watch();
    let counts = || std::iter::successors(Some(1), |views| Some(views * 2));
    let counts = || counts().take_while(|views| *views <= options.views_max.min(VIEWS_LIMIT));
    let mut steps = Steps::new(options.sizes_bytes.len() * counts().count(), progress);
    let (mut curves, mut refused) = (Vec::new(), Vec::new());
    for &bytes in options.sizes_bytes.iter().take_while(|_| interrupt.check().is_ok()) {
        let mut pair = [Element::Byte, Element::Word].map(|element| Curve { bytes, element, points: vec![] });
        for views in counts() {
            steps.begin(format!("{} through {views} views", report::size(bytes)));
            // More views would need more still.
            if let Err(why) =
                limits.check(bytes, views).and_then(|()| read(&mut pair, views, options, &interrupt))
            {
                refused.push(why);
                break;
            }
            if interrupt.check().is_err() {
                break;
            }
        }
        curves.extend(pair.into_iter().filter(|curve| !curve.points.is_empty()));
    }
    steps.end(&interrupt.check());
    let stopped = kept(interrupt.check(), !curves.is_empty())?;
    Ok(Outcome { curves, refused, limits, stopped })
}

/// Adds a point to each curve of an object that its parts are large enough for. A sentence on why not.
fn read(
    curves: &mut [Curve; 2],
    views: usize,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<(), String> {
    let bytes = curves[0].bytes;
    let object = Object::new(bytes).map_err(|error| format!("{error}."))?;
    let mapped = Views::map(&object, views, None).map_err(|error| format!("{error}."))?;
    for curve in curves.iter_mut().filter(|curve| curve.element.bytes() * views <= PAGE_BYTES) {
        let passes = options.read_bytes.div_ceil(bytes);
        let seconds = |through, passes: usize| {
            let begun = Instant::now();
            (0..passes).for_each(|_| {
                black_box(mapped.sum(curve.element, through));
            });
            begun.elapsed().as_secs_f64() / passes as f64
        };
        // The first pass fills the page tables.
        for through in [Through::AllViews, Through::OneView] {
            seconds(through, 1);
        }
        let mut point = Point { views, all_views_s: Series::default(), one_view_s: Series::default() };
        for round in 0..options.runs {
            if interrupt.check().is_err() {
                break;
            }
            // Each side comes first equally often.
            let mut sides =
                [(Through::AllViews, &mut point.all_views_s), (Through::OneView, &mut point.one_view_s)];
            sides.rotate_left(round % 2);
            for (through, series) in sides {
                series.push(seconds(through, passes));
            }
        }
        if !point.one_view_s.values().is_empty() && !point.all_views_s.values().is_empty() {
            curve.points.push(point);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny(limits: Limits) -> Outcome {
        let options =
            Options { sizes_bytes: vec![8 << 10, 64 << 10], views_max: 1024, runs: 2, read_bytes: 1 };
        let mut told = Vec::new();
        let outcome = measure(&options, limits, &mut |progress| told.push(progress.share)).unwrap();
        assert!(told.is_sorted() && told.last() == Some(&1.0));
        outcome
    }

    #[test]
    fn every_number_of_views_is_read_both_ways_as_far_as_elements_fit() {
        let outcome = tiny(Limits::of_this_machine());
        assert_eq!(outcome.refused, [""; 0]);
        assert_eq!(outcome.curves.len(), 4);
        for curve in &outcome.curves {
            let views: Vec<usize> = curve.points.iter().map(|point| point.views).collect();
            let most = if curve.element == Element::Byte { 11 } else { 10 };
            assert_eq!(views, (0..most).map(|power| 1 << power).collect::<Vec<_>>());
            assert!(curve.points.iter().all(|point| point.overhead().values().len() == 2));
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_refused_in_a_sentence_and_the_rest_is_measured() {
        let outcome = tiny(Limits { mappings_max: 100, ..Limits::of_this_machine() });
        assert_eq!(outcome.refused.len(), 2, "{:?}", outcome.refused);
        assert!(outcome.refused[0].contains("vm.max_map_count"), "{:?}", outcome.refused);
        assert!(outcome.curves.iter().all(|curve| curve.points.last().unwrap().views == 32));
        assert!(outcome.table().contains("vm.max_map_count"), "{}", outcome.table());
    }

    #[test]
    fn an_object_that_does_not_fit_leaves_nothing_to_show_but_why() {
        let outcome = tiny(Limits { available_bytes: 1 << 10, ..Limits::of_this_machine() });
        assert!(outcome.curves.is_empty());
        assert!(outcome.table().contains("give a smaller --size"), "{}", outcome.table());
    }
}
