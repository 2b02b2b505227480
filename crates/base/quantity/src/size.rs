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
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let each = match &text[digits.len()..] {
        "" => 1_u64,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(SizeError),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(each)).ok_or(SizeError)
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
