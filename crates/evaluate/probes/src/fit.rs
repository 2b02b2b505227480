//! A cost for each thing and a cost for each byte of it, from costs of several sizes.

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Where there are no bytes.
    pub each: f64,
    /// For each byte.
    pub per_byte: f64,
}

impl Line {
    /// The line through costs by bytes. What counts is how far it is from each cost as a share of that cost: large costs have
    /// large errors. None with fewer than two sizes.
    #[must_use]
    pub fn through(costs: &[(f64, f64)]) -> Option<Self> {
        let weighted =
            costs.iter().filter(|(_, cost)| *cost > 0.0).map(|&(bytes, cost)| (bytes, cost, cost.powi(-2)));
        let sum = |of: fn(f64, f64) -> f64| {
            weighted.clone().map(|(bytes, cost, weight)| weight * of(bytes, cost)).sum::<f64>()
        };
        let (all, bytes, cost) = (sum(|_, _| 1.0), sum(|bytes, _| bytes), sum(|_, cost| cost));
        let (squares, products) = (sum(|bytes, _| bytes * bytes), sum(|bytes, cost| bytes * cost));
        let determinant = all * squares - bytes * bytes;
        if determinant.is_nan() || determinant <= 1e-9 * all * squares {
            return None;
        }
        let per_byte = (all * products - bytes * cost) / determinant;
        let each = (cost - per_byte * bytes) / all;
        // Nothing takes less than no time, however the costs scatter.
        Some(match (each < 0.0, per_byte < 0.0) {
            (_, true) => Self { each: cost / all, per_byte: 0.0 },
            (true, false) => Self { each: 0.0, per_byte: products / squares },
            (false, false) => Self { each, per_byte },
        })
    }

    /// The cost of one of `bytes`.
    #[must_use]
    pub fn at(&self, bytes: f64) -> f64 {
        self.each + self.per_byte * bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again_and_noise_in_large_costs_does_not_move_its_beginning() {
        let exact = [64.0, 512.0, 4096.0, 65_536.0].map(|bytes| (bytes, 2.0 + 0.001 * bytes));
        let line = Line::through(&exact).unwrap();
        assert!((line.each - 2.0).abs() < 1e-9 && (line.per_byte - 0.001).abs() < 1e-12, "{line:?}");
        let mut noisy = exact;
        noisy[3].1 *= 1.1;
        let line = Line::through(&noisy).unwrap();
        assert!((line.each - 2.0).abs() < 0.05, "{line:?}");
        assert!((line.at(64.0) - 2.064).abs() < 0.05, "{line:?}");
    }

    #[test]
    fn nothing_takes_less_than_no_time() {
        let falling = Line::through(&[(64.0, 3.0), (65_536.0, 2.5)]).unwrap();
        assert!(falling.per_byte == 0.0 && (2.5..3.0).contains(&falling.each), "{falling:?}");
        let steep = Line::through(&[(1_000.0, 1.0), (2_000.0, 4.0)]).unwrap();
        assert!(steep.each == 0.0 && (0.001..0.002).contains(&steep.per_byte), "{steep:?}");
    }

    #[test]
    fn one_size_tells_no_line() {
        assert_eq!(Line::through(&[]), None);
        assert_eq!(Line::through(&[(64.0, 2.0), (64.0, 2.1)]), None);
    }
}
