//! How much memory is enough: a search over limits, of which each is tried.
//!
//! The *knee* is where less memory begins to miss pages. It is looked for from both sides, because what a kernel drives out of
//! memory on the way down need not be what it brings back on the way up.

use forebay_results::median;

/// Steps are this part of the memory: the knee is known no better.
const PRECISION: f64 = 0.02;
/// Each step of the first way down leaves so much.
const DOWN: f64 = 0.75;
/// The same from the knee on: just below it most programs answer much later, and others far below as soon.
const DOWN_FROM_KNEE: [f64; 4] = [0.96, 0.92, 0.85, DOWN];
/// Below this no program runs.
const LEAST_BYTES: f64 = (256u32 << 10) as f64;
/// From one side to the other there are no more steps than this.
const STEPS_MAX: usize = 16;
/// What is looked for lies between two limits of which the one is no larger than this many times the other.
const AS_FAR: f64 = 1.04;

/// Where less memory begins to miss pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Enough by the median of all ways.
    pub bytes: f64,
    /// The largest limit that is too little on some way is above this, and this one was too little on all.
    pub low_bytes: f64,
    /// So much was enough on all ways.
    pub high_bytes: f64,
}

/// A limit that was too little, and the next one that was enough.
type Bracket = (f64, f64);

/// The knee below `used_bytes`, or above where that is too little; on one way by halves and on so many more down and up again.
/// `enough` tells of a limit whether it is. `None` where all limits are enough, or none up to `most_bytes` is.
///
/// # Errors
/// Those of `enough`.
pub fn knee<E>(
    used_bytes: f64,
    most_bytes: f64,
    rounds: u16,
    mut enough: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<Knee>, E> {
    let Some(first) = bracket(used_bytes, &[DOWN], 1.0 + PRECISION, &mut enough)? else { return Ok(None) };
    // Nothing was tried yet that is enough: what is used may still grow.
    let first = if first.1 < used_bytes {
        first
    } else {
        let above = enough_above(used_bytes, most_bytes, &mut enough)?;
        let Some((low, high)) = above else { return Ok(None) };
        halves((low.max(first.0), high), 1.0 + PRECISION, &mut enough)?
    };
    let mut brackets = vec![first];
    for _ in 1..rounds {
        let (_, high) = brackets[brackets.len() - 1];
        let down = steps(high, 1.0 - PRECISION, |bytes| enough(bytes).map(|is| !is))?;
        let Some(down) = down else { continue };
        let too_little = down.1;
        brackets.push((too_little, down.0));
        let up = steps(too_little, 1.0 + PRECISION, &mut enough)?;
        brackets.extend(up);
    }
    let of = |side: fn(&Bracket) -> f64| brackets.iter().map(side).collect::<Vec<_>>();
    let low_bytes = of(|bracket| bracket.0).into_iter().fold(f64::INFINITY, f64::min);
    let high_bytes = of(|bracket| bracket.1).into_iter().fold(0.0, f64::max);
    let middles = of(|bracket| (bracket.0 + bracket.1) / 2.0);
    Ok(median(&middles).map(|bytes| Knee { bytes, low_bytes, high_bytes }))
}

/// The least limit below one that is enough by which `bears` still holds.
///
/// # Errors
/// Those of `bears`.
pub fn least<E>(enough_bytes: f64, mut bears: impl FnMut(f64) -> Result<bool, E>) -> Result<f64, E> {
    let found = bracket(enough_bytes, &DOWN_FROM_KNEE, AS_FAR, &mut bears)?;
    Ok(found.map_or(LEAST_BYTES, |(_, high)| high))
}

/// `bytes`, or more where that is too little, up to `most_bytes`, with the limit tried before: each step is twice as large as the
/// one before.
fn enough_above<E>(
    bytes: f64,
    most_bytes: f64,
    enough: &mut impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<Bracket>, E> {
    let (mut before, mut at, mut step) = (0.0, bytes, 2.0 * PRECISION);
    while !enough(at)? {
        if at >= most_bytes {
            return Ok(None);
        }
        (before, at) = (at, (at * (1.0 + step)).min(most_bytes));
        step *= 2.0;
    }
    Ok(Some((before, at)))
}

/// Down from a limit that is enough by factors, of which the last goes on, then by halves.
fn bracket<E>(
    top: f64,
    factors: &[f64],
    as_far: f64,
    enough: &mut impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<Bracket>, E> {
    let mut factors = factors.iter().copied();
    let mut factor = factors.next().unwrap_or(DOWN);
    let (mut low, mut high) = (top * factor, top);
    while enough(low)? {
        factor = factors.next().unwrap_or(factor);
        (low, high) = (low * factor, low);
        if low < LEAST_BYTES {
            return Ok(None);
        }
    }
    halves((low, high), as_far, enough).map(Some)
}

/// By halves until the two sides are `as_far` from each other.
fn halves<E>(
    (mut low, mut high): Bracket,
    as_far: f64,
    enough: &mut impl FnMut(f64) -> Result<bool, E>,
) -> Result<Bracket, E> {
    while high > as_far * low {
        let middle = (low + high) / 2.0;
        if enough(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok((low, high))
}

/// From `begin` by factors to the first limit of which `holds` is true, with the one before it.
fn steps<E>(
    begin: f64,
    factor: f64,
    mut holds: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<Bracket>, E> {
    let mut at = begin;
    for _ in 0..STEPS_MAX {
        let next = at * factor;
        if holds(next)? {
            return Ok(Some((at, next)));
        }
        at = next;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const MIB: f64 = 1_048_576.0;
    const MOST: f64 = 16_384.0 * MIB;

    #[test]
    fn the_knee_is_found_within_its_interval_wherever_it_is() {
        for need in [3.0, 16.3, 61.0, 64.0, 1024.0] {
            for used in [0.01, 0.4, 1.0, 1.01, 1.7, 30.0] {
                let mut tries = 0;
                let found = knee::<Infallible>(need * used * MIB, MOST, 3, |bytes| {
                    tries += 1;
                    Ok(bytes >= need * MIB)
                });
                let found = found.unwrap().unwrap();
                assert!(found.low_bytes < need * MIB && found.high_bytes >= need * MIB, "{need}: {found:?}");
                assert!((found.bytes / MIB / need - 1.0).abs() < 0.025, "{need}: {found:?}");
                assert!(tries < 40, "{tries}");
            }
        }
    }

    #[test]
    fn what_differs_on_the_ways_down_and_up_is_in_the_interval() {
        // After too little memory it takes a tenth more until all is back.
        let mut is_short = false;
        let found = knee::<Infallible>(40.0 * MIB, MOST, 3, |bytes| {
            let need = if is_short { 22.0 } else { 20.0 } * MIB;
            is_short = bytes < need;
            Ok(!is_short)
        });
        let found = found.unwrap().unwrap();
        assert!(found.low_bytes < 20.0 * MIB && found.high_bytes >= 22.0 * MIB, "{found:?}");
    }

    #[test]
    fn a_program_that_needs_nothing_or_never_has_enough_has_no_knee() {
        assert_eq!(knee::<Infallible>(64.0 * MIB, MOST, 3, |_| Ok(true)), Ok(None));
        assert_eq!(knee::<Infallible>(64.0 * MIB, MOST, 3, |_| Ok(false)), Ok(None));
        assert_eq!(knee(64.0 * MIB, MOST, 3, |_| Err("interrupted")), Err("interrupted"));
    }

    #[test]
    fn what_is_borne_goes_below_the_knee_where_misses_cost_little() {
        let least = |need: f64| least::<Infallible>(20.0 * MIB, |bytes| Ok(bytes >= need * MIB)).unwrap();
        assert!((12.0..12.6).contains(&(least(12.0) / MIB)), "{}", least(12.0));
        assert_eq!(least(20.0), 20.0 * MIB);
    }
}
