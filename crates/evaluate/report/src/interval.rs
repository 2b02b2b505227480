//! The ratio of two medians, with an interval and its confidence.
//!
//! Assume that the second runs take `r` times what the first did. Then `r` lies between the least and the largest ratio of
//! one value after to one before, unless all values of one side happened to be the larger ones. Of n and m values that is
//! one order of C(n+m, n), on either side. So the extremes alone give an interval and its confidence: that of the
//! Wilcoxon-Mann-Whitney test, whatever the distribution of the values. Where each value is known, the interval is narrower
//! and has a chosen confidence.

use forebay_results::Row;

/// The confidence that is asked of an interval where each value is known.
const CONFIDENCE: f64 = 0.95;
/// Up to as many pairs of values the orders are counted; above, their number is close to a normal distribution.
const PAIRS_COUNTED: usize = 400;
/// The normal distribution has half of `1 - CONFIDENCE` below minus this.
const NORMAL_QUANTILE: f64 = 1.96;
/// Pairs that are looked at at all.
const PAIRS_MAX: usize = 1 << 20;

/// A ratio of medians.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Of the medians.
    pub value: f64,
    /// Least ratio that is compatible with the values.
    pub low: f64,
    /// Largest ratio that is compatible with the values.
    pub high: f64,
    /// How often such an interval has the true ratio in it, as a share.
    pub confidence: f64,
}

/// After over before, of rows whose values are all above 0.
pub(crate) fn ratio(before: &Row, after: &Row) -> Ratio {
    let value = after.value / before.value;
    let pairs = before.values.len() * after.values.len();
    let complete = before.values.len() == before.runs as usize && after.values.len() == after.runs as usize;
    if !complete || pairs > PAIRS_MAX {
        let confidence = extremes_confidence(before.runs, after.runs);
        return Ratio { value, low: after.min / before.max, high: after.max / before.min, confidence };
    }
    let mut ratios: Vec<f64> = after
        .values
        .iter()
        .flat_map(|after| before.values.iter().map(move |before| after / before))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let (left_out, confidence) = ends_left_out(before.values.len(), after.values.len());
    Ratio { value, low: ratios[left_out], high: ratios[pairs - 1 - left_out], confidence }
}

/// Confidence of the interval between the extreme ratios of `n` to `m` values: 1 - 2 / C(n+m, n).
pub(crate) fn extremes_confidence(n: u32, m: u32) -> f64 {
    let many = f64::from(n.max(m));
    // Of more than 64 the orders are beyond number.
    let orders = (1..=n.min(m).min(64)).map(f64::from).fold(1.0, |orders, one| orders * (many + one) / one);
    1.0 - 2.0 / orders
}

/// How many of the sorted ratios of `n` to `m` values can be left out at each end with [`CONFIDENCE`] kept, and the
/// confidence that is had then.
fn ends_left_out(n: usize, m: usize) -> (usize, f64) {
    if n * m > PAIRS_COUNTED {
        let (n, m) = (n as f64, m as f64);
        let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
        return ((n * m / 2.0 - NORMAL_QUANTILE * deviation).floor().max(0.0) as usize, CONFIDENCE);
    }
    let orders = orders_by_inversions(n, m);
    let all: f64 = orders.iter().sum();
    let mut outside = 0.0;
    let mut left_out = 0;
    for (number, count) in orders.iter().enumerate() {
        let more = outside + 2.0 * count / all;
        if number > 0 && 1.0 - more < CONFIDENCE {
            break;
        }
        (outside, left_out) = (more, number);
    }
    (left_out, 1.0 - outside)
}

/// Of all orders of `n` and `m` values: how many have 0, 1, 2, ... pairs in which the second one is the smaller.
fn orders_by_inversions(n: usize, m: usize) -> Vec<f64> {
    let mut counts = vec![vec![0.0; n * m + 1]; n + 1];
    counts.iter_mut().for_each(|of| of[0] = 1.0);
    for seconds in 1..=m {
        for firsts in 1..=n {
            for inversions in seconds..=firsts * seconds {
                counts[firsts][inversions] += counts[firsts - 1][inversions - seconds];
            }
        }
    }
    counts.swap_remove(n)
}

#[cfg(test)]
mod tests {
    use forebay_results::Spread;

    use super::*;

    fn row(values: &[f64]) -> Row {
        Row::of("ld", "ssd-1ms-q128/forebay", "elapsed", "s", Spread::of(values).unwrap())
    }

    fn without_values(values: &[f64]) -> Row {
        Row { values: Vec::new(), ..row(values) }
    }

    #[test]
    fn orders_are_as_many_as_they_are() {
        // By hand: of two and two values there are six orders, with 0, 1, 2, 2, 3 and 4 inversions.
        assert_eq!(orders_by_inversions(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(orders_by_inversions(3, 1), [1.0; 4]);
        assert_eq!(orders_by_inversions(10, 10).iter().sum::<f64>(), 184_756.0);
    }

    #[test]
    fn extremes_alone_give_an_interval_with_its_confidence() {
        let ratio = ratio(&without_values(&[1.0, 2.0, 4.0]), &without_values(&[8.0, 9.0, 10.0]));
        assert_eq!((ratio.value, ratio.low, ratio.high), (4.5, 2.0, 10.0));
        assert!((ratio.confidence - 0.9).abs() < 1e-12, "{ratio:?}");
        assert!((extremes_confidence(5, 5) - (1.0 - 2.0 / 252.0)).abs() < 1e-12);
        assert!(extremes_confidence(1, 1).abs() < 1e-12);
        assert!(extremes_confidence(u32::MAX, 200) <= 1.0);
    }

    #[test]
    fn all_values_give_a_narrower_interval() {
        // Tabulated for n = m = 5: the critical value of U is 2 for a level of 5 %, so two ratios are left out at each end.
        let (left_out, confidence) = ends_left_out(5, 5);
        assert_eq!(left_out, 2);
        assert!((confidence - (1.0 - 8.0 / 252.0)).abs() < 1e-9, "{confidence}");
        // And 127 for n = m = 20 (exact), which the normal distribution agrees with for 21.
        assert_eq!(ends_left_out(20, 20).0, 127);
        assert!((127..=160).contains(&ends_left_out(21, 21).0));
        let (before, after) = ([1.0, 1.1, 1.2, 1.3, 1.4], [1.0, 2.0, 2.1, 2.2, 4.0]);
        let wide = ratio(&without_values(&before), &without_values(&after));
        let narrow = ratio(&row(&before), &row(&after));
        assert!(wide.low < narrow.low && narrow.high < wide.high, "{wide:?}, {narrow:?}");
    }

    #[test]
    fn the_interval_holds_the_true_ratio_as_often_as_it_says() {
        // All orders of three and three values that are equally likely: 2 of 20 leave the true ratio out.
        let mut held = 0;
        let orders: Vec<u32> = (0..64u32).filter(|order| order.count_ones() == 3).collect();
        for order in &orders {
            let side = |which: u32| -> Vec<f64> {
                (0..6).filter(|place| order >> place & 1 == which).map(|place| f64::from(place + 1)).collect()
            };
            let ratio = ratio(&row(&side(0)), &row(&side(1)));
            held += usize::from(ratio.low <= 1.0 && 1.0 <= ratio.high);
        }
        assert_eq!((held, orders.len()), (18, 20));
    }
}
