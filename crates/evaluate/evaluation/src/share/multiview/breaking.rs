//! Where views begin to cost, and what of the processor is too small from there on.

use forebay_probes::machine::Told;

use super::limits::{ENTRY_BYTES, Limits};
use super::{Curve, vpages};
use crate::harness::statistics::Series;

/// The most that the overhead is on its plateau. The published one was below 4 %.
pub const PLATEAU: f64 = 0.05;

/// The place in a curve, with views in ascending order, from which on every overhead is above [`PLATEAU`]. One point
/// above it among others below is noise, and no breaking point.
pub fn breaking_point(overheads: &[f64]) -> Option<usize> {
    let flat = overheads.iter().rposition(|overhead| *overhead <= PLATEAU).map_or(0, |last| last + 1);
    (flat < overheads.len()).then_some(flat)
}

/// What the entries in use at a breaking point no longer fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The processor's table of recent translations (TLB): all caches still hold the entries.
    Tlb,
    /// This cache: its size is between the entries at the breaking point and those before it.
    Cache(Told),
    /// Nothing of about this size.
    Unknown,
}

/// Where one curve breaks, if that can be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// There.
    Break(Break),
    /// It stays on its plateau.
    Plateau,
    /// The control scatters by this share: with one view both sides are the same, and yet differ.
    Scattered(f64),
}

impl Found {
    /// That of a curve.
    pub fn of(curve: &Curve, limits: &Limits) -> Self {
        let control = curve.points.iter().find(|point| point.views == 1);
        let scatter = control.map_or(0.0, |point| scatter(&point.overhead()));
        if scatter > PLATEAU {
            return Self::Scattered(scatter);
        }
        Break::of(curve, limits).map_or(Self::Plateau, Self::Break)
    }
}

/// How far from nothing half of the rounds of a control are, at most.
fn scatter(control: &Series) -> f64 {
    let (low, high) = control.middle_half();
    low.abs().max(high.abs())
}

/// Where one curve breaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Break {
    /// The first view count beyond the plateau.
    pub views: usize,
    /// Pages of all these views.
    pub vpages: usize,
    /// What is too small for them.
    pub cause: Cause,
}

impl Break {
    /// That of a curve; `None` where it never leaves its plateau.
    fn of(curve: &Curve, limits: &Limits) -> Option<Self> {
        let overheads: Vec<f64> = curve.points.iter().map(|point| point.overhead().median()).collect();
        let views = curve.points[breaking_point(&overheads)?].views;
        let vpages = vpages(curve.bytes, views);
        Some(Self { views, vpages, cause: cause(vpages, &limits.caches) })
    }
}

/// View counts double from point to point, so half of the entries still did fit.
fn cause(vpages: usize, caches: &[Told]) -> Cause {
    let entries_bytes = vpages * ENTRY_BYTES;
    let exceeded = |cache: &&Told| (entries_bytes / 2..entries_bytes).contains(&cache.bytes);
    match caches.iter().find(exceeded) {
        Some(cache) => Cause::Cache(*cache),
        None if caches.first().is_some_and(|smallest| entries_bytes <= smallest.bytes) => Cause::Tlb,
        None => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use forebay_vm::Element;

    use super::*;
    use crate::share::multiview::Point;

    #[test]
    fn a_curve_breaks_where_it_leaves_its_plateau_for_good() {
        for (overheads, place) in [
            (&[0.0, 0.01, 0.04, 0.3, 0.6, 1.2][..], Some(3)),
            (&[0.0, 0.08, 0.02, 0.03, 0.2, 0.4], Some(4)),
            (&[0.01, 0.03, -0.02, 0.04], None),
            (&[0.2, 0.4, 0.8], Some(0)),
            (&[0.0, 0.0, 0.9], Some(2)),
            (&[], None),
        ] {
            assert_eq!(breaking_point(overheads), place, "{overheads:?}");
        }
    }

    #[test]
    fn where_the_control_scatters_nothing_is_told() {
        let series = |values: &[f64]| values.iter().copied().collect::<Series>();
        let point = |views, all: &[f64]| Point {
            views,
            all_views_s: series(all),
            one_view_s: series(&[1.0, 1.0, 1.0, 1.0]),
        };
        let curve = |control: &[f64]| Curve {
            bytes: 1 << 20,
            element: Element::Byte,
            points: vec![point(1, control), point(2, &[1.0; 4]), point(4, &[1.5; 4])],
        };
        let limits = Limits { mappings_max: 65_530, available_bytes: usize::MAX, caches: vec![] };
        let found = |control| Found::of(&curve(control), &limits);
        assert!(matches!(found(&[0.99, 1.0, 1.01, 1.3]), Found::Break(Break { views: 4, .. })));
        let Found::Scattered(scatter) = found(&[0.77, 0.78, 1.0, 1.23]) else { panic!() };
        assert!((scatter - 0.23).abs() < 1e-9, "{scatter}");
    }

    #[test]
    fn the_cause_is_what_the_entries_have_just_outgrown() {
        let caches = [(48 << 10, 1), (2 << 20, 2), (64 << 20, 3)].map(|(bytes, level)| Told { level, bytes });
        // 16 KiB of entries, 64 KiB, 512 KiB, 4 MiB: of 8 bytes each.
        assert_eq!(cause(2 << 10, &caches), Cause::Tlb);
        assert_eq!(cause(8 << 10, &caches), Cause::Cache(caches[0]));
        assert_eq!(cause(64 << 10, &caches), Cause::Unknown);
        assert_eq!(cause(512 << 10, &caches), Cause::Cache(caches[1]));
        // What exactly fits is not outgrown.
        assert_eq!(cause(256 << 10, &caches), Cause::Unknown);
        assert_eq!(cause(2 << 10, &[]), Cause::Unknown);
    }
}
