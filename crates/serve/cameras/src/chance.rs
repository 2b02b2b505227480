//! Chance that is the same again: draws are functions of a seed and of what they are for.

/// What a draw is for. Each purpose has numbers of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Phase,
    Drift,
    Offset,
    Report,
    Source,
    Sequence,
    Timestamp,
    /// Whether a fault concerns a camera.
    Choice,
    /// When the times of a fault begin.
    Shift,
    Loss,
    Burst,
    Late,
    Jitter,
    KeyFrame,
}

/// A number that is evenly distributed over all of its values.
pub(crate) fn draw(seed: u64, purpose: Purpose, of: [u64; 3]) -> u64 {
    let start = mix(seed ^ mix(purpose as u64 + 1));
    of.into_iter().fold(start, |state, part| mix(state ^ mix(part.wrapping_add(0x9E37_79B9_7F4A_7C15))))
}

/// Whether what happens with a probability happens.
pub(crate) fn happens(probability: f64, drawn: u64) -> bool {
    share(drawn) < probability
}

/// A number from 0 to 1, and below 1.
pub(crate) fn share(drawn: u64) -> f64 {
    // The upper 53 bits are as many as the fraction of a number has.
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number below `end`; 0 if that is 0.
pub(crate) fn below(end: u64, drawn: u64) -> u64 {
    ((u128::from(drawn) * u128::from(end)) >> 64) as u64
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): each bit of the result depends on each bit of `state`.
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_as_frequent_as_they_are_probable() {
        for probability in [0.0, 0.01, 0.25, 1.0] {
            let hits = (0..100_000)
                .filter(|number| happens(probability, draw(7, Purpose::Loss, [1, 2, *number])))
                .count();
            assert!((hits as f64 / 1e5 - probability).abs() < 0.005, "{probability}: {hits}");
        }
    }

    #[test]
    fn seeds_purposes_and_numbers_have_draws_of_their_own() {
        let mut all = vec![draw(1, Purpose::Loss, [0, 0, 0])];
        all.push(draw(2, Purpose::Loss, [0, 0, 0]));
        all.push(draw(1, Purpose::Late, [0, 0, 0]));
        all.extend((1..100).map(|number| draw(1, Purpose::Loss, [0, 0, number])));
        all.extend((1..100).map(|number| draw(1, Purpose::Loss, [0, number, 0])));
        all.extend((1..100).map(|number| draw(1, Purpose::Loss, [number, 0, 0])));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn draws_stay_the_same_in_every_version() {
        assert_eq!(draw(1, Purpose::Phase, [0, 0, 0]), 0xD0A9181F94EDA7E7);
        assert_eq!(draw(7, Purpose::Loss, [1, 2, 3]), 0x0647DDB9BA400792);
        assert_eq!((below(10, 0), below(10, u64::MAX), below(0, 5)), (0, 9, 0));
    }
}
