//! Sizes as people type them.

use std::fmt;

/// A text is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError;

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size is a number of bytes, or a number with K, M or G, such as 64M")
    }
}

impl std::error::Error for SizeError {}

/// A number of bytes, with K, M or G for its binary multiples.
pub fn size(text: &str) -> Result<u64, SizeError> {
    let (number, power) = multiple(text).ok_or(SizeError)?;
    number.checked_mul(1 << (10 * power)).ok_or(SizeError)
}

/// A number as typed, and the power of a thousand or of 1024 behind it: 1 to 3 for K, M and G, else 0.
#[must_use]
pub fn multiple(text: &str) -> Option<(u64, u32)> {
    const NAMES: [char; 3] = ['K', 'M', 'G'];
    let power = NAMES.iter().position(|name| text.ends_with(*name)).map_or(0, |place| place + 1);
    let digits = text.strip_suffix(NAMES).unwrap_or(text);
    Some((digits.parse().ok()?, power as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_binary_multiples() {
        let sizes = ["0", "4096", "1K", "64M", "3G"].map(size);
        assert_eq!(sizes, [0, 4096, 1024, 64 << 20, 3 << 30].map(Ok));
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["", "M", "64 M", "64k", "64MM", "64MB", "-1", "1.5G", "99999999999G"] {
            assert_eq!(size(text), Err(SizeError), "{text}");
        }
        assert!(SizeError.to_string().contains("such as 64M"));
    }
}
