//! What is wanted of figures, and whether they are so.

/// The least or the most that a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

/// Where nothing is judged.
pub(super) const TOO_LITTLE: &str = "There was too little to do for a verdict: leave --quick out.";

/// A sentence on a figure.
pub(super) fn verdict(what: &str, found: f64, wanted: Wanted, unit: &str) -> String {
    let (is_met, words, limit) = match wanted {
        Wanted::AtMost(limit) => (found <= limit, "at most", limit),
        Wanted::AtLeast(limit) => (found >= limit, "at least", limit),
    };
    let verdict = if is_met { "reached" } else { "MISSED" };
    format!("{what}: {found:.2}{unit}, wanted {words} {limit}{unit}: {verdict}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_reached_or_missed_and_what_was_not_measured_is_missed() {
        assert_eq!(
            verdict("Speedup", 1.9, Wanted::AtLeast(1.8), "x"),
            "Speedup: 1.90x, wanted at least 1.8x: reached."
        );
        assert!(verdict("Barrier", 7.01, Wanted::AtMost(7.0), " us").ends_with("MISSED."));
        for wanted in [Wanted::AtMost(1.0), Wanted::AtLeast(1.0)] {
            assert!(verdict("Nothing", f64::NAN, wanted, "").ends_with("MISSED."));
        }
    }
}
