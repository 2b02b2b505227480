//! The measurement as tables, sentences and rows of the result schema.

use forebay_probes::machine::Told;
use forebay_quantity::{bytes, exact_bytes};
use forebay_results::{Row, median};
use forebay_vm::Element;

use super::breaking::{Break, Cause, Found, PLATEAU};
use super::limits::ENTRY_BYTES;
use super::{Curve, Outcome, Point, vpages};
use crate::harness::table::render;

const ELEMENTS: [Element; 2] = [Element::Byte, Element::Word];

const NOTE: &str = "Overhead of reading an object once, each part of a page through a view of its own, over the same loop \
                    through one view: medians, in brackets the extremes. With one view both sides are the same.";

const PUBLISHED: &str = "Published in 1999: below 4 % up to n x N = 512 MiB, where 128 K entries of 4 bytes outgrew the \
                         second-level cache; from there on linear in n.";

impl Outcome {
    /// Overheads by element, size and view count, where they break and why, and what was left out.
    pub fn table(&self) -> String {
        let mut parts = Vec::new();
        if !self.curves.is_empty() {
            parts.push(NOTE.to_owned());
            parts.extend(ELEMENTS.iter().map(|element| self.overheads(*element)));
            parts.push(
                "What a part of a page costs more, by what holds the page-table entries of all views:"
                    .to_owned(),
            );
            parts.push(self.visits());
            parts.push(self.breaks().join("\n"));
            parts.push(PUBLISHED.to_owned());
        }
        parts.extend(self.refused.iter().map(|why| format!("Left out: {why}")));
        parts.join("\n\n")
    }

    fn of(&self, element: Element) -> impl Iterator<Item = &Curve> {
        self.curves.iter().filter(move |curve| curve.element == element)
    }

    fn overheads(&self, element: Element) -> String {
        let mut header = vec![format!("{}, views", name(element))];
        header.extend(self.of(element).map(|curve| size(curve.bytes)));
        let most = self.of(element).max_by_key(|curve| curve.points.len());
        let rows = most.into_iter().flat_map(|curve| &curve.points).enumerate().map(|(place, point)| {
            let cells =
                self.of(element).map(|curve| curve.points.get(place).map_or_else(String::new, overhead));
            [point.views.to_string()].into_iter().chain(cells).collect()
        });
        render(&header.iter().map(String::as_str).collect::<Vec<_>>(), rows)
    }

    /// Medians over all objects and view counts whose entries the same cache holds.
    fn visits(&self) -> String {
        let mut bounds: Vec<(String, usize)> =
            self.limits.caches.iter().map(|cache| (holder(cache), cache.bytes)).collect();
        bounds.push(("memory".to_owned(), usize::MAX));
        let mut smallest = 0;
        let rows = bounds.into_iter().filter_map(|(held_in, largest)| {
            let cost = |element| {
                let points =
                    self.of(element).flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
                let costs = points.filter(|(curve, point)| {
                    let entries_bytes = vpages(curve.bytes, point.views) * ENTRY_BYTES;
                    point.views > 1 && (smallest + 1..=largest).contains(&entries_bytes)
                });
                let costs: Vec<f64> =
                    costs.map(|(curve, point)| point.visit_s(curve.bytes).median()).collect();
                median(&costs).map(cost_ns)
            };
            let cells = ELEMENTS.map(cost);
            smallest = largest;
            let shown = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
            cells.iter().any(Option::is_some).then(|| [held_in].into_iter().chain(cells.map(shown)).collect())
        });
        let rows: Vec<Vec<String>> = rows.collect();
        render(&["entries fit", name(ELEMENTS[0]), name(ELEMENTS[1])], rows)
    }

    /// A sentence on each curve.
    fn breaks(&self) -> Vec<String> {
        let curves = ELEMENTS.iter().flat_map(|element| self.of(*element));
        let breaks: Vec<(&Curve, Found)> =
            curves.map(|curve| (curve, Found::of(curve, &self.limits))).collect();
        let of_tlb = breaks.iter().filter_map(|(_, found)| match found {
            Found::Break(found) if found.cause == Cause::Tlb => Some(found.vpages),
            _ => None,
        });
        let tlb_vpages = of_tlb.min();
        breaks.into_iter().map(|(curve, found)| sentence(curve, found, tlb_vpages)).collect()
    }

    /// Rows by the result schema: a subject for each element, cases named `SIZE/VIEWS`.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for curve in &self.curves {
            let subject = format!("read {}", name(curve.element));
            for point in &curve.points {
                let case = format!("{}/{} views", size(curve.bytes), point.views);
                let visit_ns =
                    point.visit_s(curve.bytes).values().iter().map(|seconds| seconds * 1e9).collect();
                for (metric, unit, series) in [
                    ("elapsed", "s", &point.all_views_s),
                    ("elapsed_through_one_view", "s", &point.one_view_s),
                    ("overhead", "1", &point.overhead()),
                    ("visit_cost", "ns", &visit_ns),
                ] {
                    rows.extend(series.spread().map(|spread| Row::of(&subject, &case, metric, unit, spread)));
                }
            }
            if let Found::Break(Break { views, vpages, .. }) = Found::of(curve, &self.limits) {
                let mut once = |metric, unit, value: usize| {
                    rows.push(Row::once(&subject, size(curve.bytes), metric, unit, value as f64));
                };
                once("breaking_point", "1", views);
                once("breaking_point_entries", "B", vpages * ENTRY_BYTES);
            }
        }
        rows
    }
}

fn overhead(point: &Point) -> String {
    let Some(spread) = point.overhead().spread() else { return "-".to_owned() };
    let [middle, least, most] =
        [spread.median, spread.min, spread.max].map(|share| (share * 100.0).round() + 0.0);
    format!("{middle} % ({least} - {most})")
}

/// A cost that was measured as a difference. Where that is nothing or less, none was found.
fn cost_ns(seconds: f64) -> String {
    if seconds > 0.0 { format!("{:.1} ns", seconds * 1e9) } else { "none found".to_owned() }
}

fn sentence(curve: &Curve, found: Found, tlb_vpages: Option<usize>) -> String {
    let read = format!("{} {}", size(curve.bytes), name(curve.element));
    let most = curve.points.last().map_or(0, |point| point.views);
    let Break { views, vpages: in_use, cause } = match found {
        Found::Break(found) => found,
        Found::Plateau => return format!("{read}: within {:.0} % up to {most} views.", PLATEAU * 100.0),
        Found::Scattered(scatter) => {
            return format!(
                "{read}: no breaking point can be told, as the two sides differ by up to {:.0} % with one view, where they are \
                 the same; measure when less goes on.",
                scatter * 100.0
            );
        }
    };
    let entries = bytes((in_use * ENTRY_BYTES) as f64);
    let why = match cause {
        Cause::Tlb => "which every cache holds: what they outgrow is the TLB".to_owned(),
        _ if tlb_vpages.is_some_and(|tlb| vpages(curve.bytes, 2) > tlb) => {
            "but 2 views had outgrown the TLB: here there are enough visits for it to show".to_owned()
        }
        Cause::Cache(cache) => format!("and outgrow {}", holder(&cache)),
        Cause::Unknown => "which is about the size of no cache".to_owned(),
    };
    format!(
        "{read}: breaks at {views} views, n x N = {}: {in_use} vpages, whose entries take {entries}, {why}.",
        size(curve.bytes * views)
    )
}

const fn name(element: Element) -> &'static str {
    match element {
        Element::Byte => "by byte",
        Element::Word => "by 8-byte word",
    }
}

fn holder(cache: &Told) -> String {
    format!("the level-{} cache ({})", cache.level, size(cache.bytes))
}

/// A size as cases and sentences have it.
pub fn size(bytes: usize) -> String {
    exact_bytes(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::multiview::limits::Limits;

    /// Each visit costs 10 ns once there are 2,048 vpages, a page 500 ns.
    fn made_up() -> Outcome {
        let point = |bytes: usize, views: usize| {
            let pages = (bytes / 4096) as f64;
            let visits =
                if vpages(bytes, views) >= 2048 && views > 1 { vpages(bytes, views) as f64 } else { 0.0 };
            let one_view_s: Vec<f64> = [1.0, 1.1, 0.9].iter().map(|drift| drift * pages * 500e-9).collect();
            let all_views_s = one_view_s.iter().map(|seconds| seconds + visits * 10e-9).collect();
            Point { views, all_views_s, one_view_s: one_view_s.into_iter().collect() }
        };
        let curve = |bytes, element| Curve {
            bytes,
            element,
            points: [1, 2, 4, 8, 16, 32].map(|views| point(bytes, views)).to_vec(),
        };
        let caches = [(48 << 10, 1), (2 << 20, 2)].map(|(bytes, level)| Told { level, bytes }).to_vec();
        let limits = Limits { mappings_max: 65_530, available_bytes: usize::MAX, caches };
        let curves = [64 << 10, 512 << 10, 1 << 20, 16 << 20].map(|bytes| curve(bytes, Element::Byte));
        Outcome { curves: curves.to_vec(), refused: vec!["4 GiB: no room.".into()], limits, stopped: None }
    }

    #[test]
    fn breaking_points_are_told_with_what_explains_them() {
        let table = made_up().table();
        for words in [
            "64 KiB by byte: within 5 % up to 32 views.",
            "512 KiB by byte: breaks at 16 views, n x N = 8 MiB: 2048 vpages, whose entries take 16 KiB, which every cache \
             holds: what they outgrow is the TLB.",
            "1 MiB by byte: breaks at 8 views, n x N = 8 MiB",
            "16 MiB by byte: breaks at 4 views, n x N = 64 MiB: 16384 vpages, whose entries take 128 KiB, but 2 views \
             had outgrown the TLB",
            "64 % (58 - 71)",
            "Left out: 4 GiB: no room.",
        ] {
            assert!(table.contains(words), "{words}: {table}");
        }
    }

    #[test]
    fn rows_have_both_sides_the_overhead_and_the_breaking_point() {
        let rows = made_up().rows();
        let find = |case: &str, metric: &str| {
            rows.iter().find(|row| row.case == case && row.metric == metric).unwrap()
        };
        assert!((find("512 KiB/32 views", "overhead").value - 0.64).abs() < 1e-9);
        assert!((find("512 KiB/32 views", "visit_cost").value - 10.0).abs() < 1e-6);
        assert_eq!(find("512 KiB", "breaking_point").value, 16.0);
        assert_eq!(find("16 MiB", "breaking_point_entries").value, f64::from(128 << 10));
        assert!(rows.iter().all(|row| row.subject == "read by byte"));
    }
}
