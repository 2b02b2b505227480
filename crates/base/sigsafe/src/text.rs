//! Numbers and strings without formatting machinery.

/// Writes `number` in decimal into the end of `digits` and returns the used part.
pub fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    for (index, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start = index;
        if number == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

/// Reads a decimal number from the front of `text`: the number and what follows it.
#[must_use]
pub fn parse_decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    parse(text, 10)
}

/// Reads a hexadecimal number from the front of `text`: the number and what follows it.
#[must_use]
pub fn parse_hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    parse(text, 16)
}

fn parse(text: &[u8], radix: u32) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let Some(digit) = char::from(first).to_digit(radix) else { break };
        number = number.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))?;
        rest = tail;
    }
    (rest.len() < text.len()).then_some((number, rest))
}

/// Length of the zero-terminated string at `text`.
///
/// # Safety
/// `text` points at readable bytes up to and including a zero.
#[must_use]
pub unsafe fn length(text: *const u8) -> usize {
    let mut length = 0;
    // Volatile, lest the compiler makes it a call of libc's strlen.
    // SAFETY: the caller's; stops at the terminator.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}

/// The bytes of the zero-terminated string at `text`, without the zero.
///
/// # Safety
/// As [`length`], and the string is not written to while the slice is in use.
#[must_use]
pub unsafe fn bytes<'a>(text: *const u8) -> &'a [u8] {
    // SAFETY: the caller's.
    unsafe { core::slice::from_raw_parts(text, length(text)) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn decimals_survive_the_round_trip() {
        for number in [0, 1, 9, 10, 4096, u64::MAX] {
            let mut digits = [0; 20];
            let text = decimal(number, &mut digits);
            assert_eq!(text, number.to_string().as_bytes());
            assert_eq!(parse_decimal(text), Some((number, &b""[..])));
        }
    }

    #[test]
    fn numbers_stop_at_the_first_other_byte() {
        assert_eq!(parse_decimal(b"12:34"), Some((12, &b":34"[..])));
        assert_eq!(parse_hexadecimal(b"7f00-8000"), Some((0x7f00, &b"-8000"[..])));
        assert_eq!(parse_decimal(b":"), None);
        assert_eq!(parse_decimal(b"99999999999999999999999"), None);
    }
}
