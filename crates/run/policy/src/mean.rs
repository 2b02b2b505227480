//! Exponentially weighted means.

/// Exponentially weighted mean with the weight `2^-shift` for the new sample.
pub fn mean(mean: u64, sample: u64, shift: u32) -> u64 {
    if sample >= mean {
        mean + ((sample - mean) >> shift)
    } else {
        let gap = mean - sample;
        // Rounded up, so that the mean can reach 0.
        mean - (gap >> shift) - u64::from(gap & ((1 << shift) - 1) != 0)
    }
}
