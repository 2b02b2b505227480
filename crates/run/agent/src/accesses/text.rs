//! Texts of the program, hashed and measured a word at a time.

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD: usize = 8;
const PAGE: usize = 4096;

/// A hash with another word.
#[inline]
pub const fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(MULTIPLIER);
    mixed ^ (mixed >> 32)
}

/// Length and hash of a text, from a hash to begin with.
///
/// # Safety
/// The text is terminated.
#[inline]
pub unsafe fn measure(text: *const u8, hash: u64) -> (usize, u64) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (mut length, mut hash) = (0, hash);
    loop {
        // SAFETY: the caller's: the terminator was not found before.
        let word = unsafe { word_at(text.add(length)) };
        let zeros = word.wrapping_sub(ONES) & !word & ONES << 7;
        if zeros != 0 {
            let bits = zeros.trailing_zeros() & !7;
            let rest = word & ((1 << bits) - 1);
            let length = length + bits as usize / 8;
            return (length, mix(mix(hash, rest), length as u64));
        }
        hash = mix(hash, word);
        length += WORD;
    }
}

/// The bytes of a text from here on, eight of them, or up to its terminator at least.
///
/// # Safety
/// The text is terminated, and `text` is not behind its terminator.
#[inline]
pub unsafe fn word_at(text: *const u8) -> u64 {
    if text.addr() % PAGE <= PAGE - WORD {
        let word;
        // SAFETY: the caller's: the first byte can be read, and so can the rest of its page. The compiler does not know what
        // is read.
        unsafe {
            core::arch::asm!(
                "mov {}, [{}]", out(reg) word, in(reg) text, options(nostack, preserves_flags, readonly)
            );
        }
        return word;
    }
    let mut word = 0;
    for index in 0..WORD {
        // SAFETY: the caller's: no terminator was found before.
        let byte = unsafe { text.add(index).read_volatile() };
        word |= u64::from(byte) << (8 * index);
        if byte == 0 {
            break;
        }
    }
    word
}
