//! NAL units in the pieces of a stream: start codes may lie across pieces, which have other streams between them.

use super::Piece;

/// A start code: two zeros and a one. A third zero before it is its own.
const CODE_BYTES: usize = 4;

/// What a start code needs of the bytes before.
#[derive(Debug, Default)]
pub(super) struct StartCodes {
    /// The last bytes, each with where it lies.
    last: Vec<(u8, u64)>,
}

/// A start code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartCode {
    /// Where it begins in the file.
    pub at: u64,
    /// Where what comes before it ends, which may lie in another packet.
    pub before: u64,
    /// Where in the piece its unit begins.
    pub unit: usize,
}

impl StartCodes {
    /// Those that end in the next piece of the stream.
    pub fn take(&mut self, piece: Piece) -> Vec<StartCode> {
        let ones = memchr::memchr_iter(1, piece.bytes);
        let codes = ones.filter_map(|one| self.code(piece, one)).collect();
        let new = piece.bytes.iter().copied().zip(piece.at..);
        self.last.extend(new.skip(piece.bytes.len().saturating_sub(CODE_BYTES)));
        self.last.drain(..self.last.len().saturating_sub(CODE_BYTES));
        codes
    }

    /// Where the last byte ends.
    pub fn end(&self) -> Option<u64> {
        self.last.last().map(|(_, at)| at + 1)
    }

    /// The code whose one is at a place of the piece.
    fn code(&self, piece: Piece, one: usize) -> Option<StartCode> {
        let before = |count: usize| match one.checked_sub(count) {
            Some(at) => Some((piece.bytes[at], piece.at + at as u64)),
            None => self.last.iter().rev().nth(count - one - 1).copied(),
        };
        let zero = |count: usize| before(count).filter(|(byte, _)| *byte == 0).map(|(_, at)| at);
        zero(1)?;
        let (at, bytes) = match (zero(2)?, zero(3)) {
            (_, Some(at)) => (at, 3),
            (at, None) => (at, 2),
        };
        let before = before(bytes + 1).map_or(at, |(_, last)| last + 1);
        Some(StartCode { at, before, unit: one + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_codes_are_found_across_pieces() {
        let stream = [9, 0, 0, 1, 7, 1, 0, 0, 0, 0, 1, 8];
        for cut in 0..=stream.len() {
            // The second piece lies elsewhere.
            let place = |at: usize| if at < cut { at as u64 } else { 1_000 + at as u64 };
            let mut codes = StartCodes::default();
            let (first, second) = stream.split_at(cut);
            let mut found = codes.take(Piece { at: 0, bytes: first });
            let more = codes.take(Piece { at: 1_000 + cut as u64, bytes: second });
            found.extend(more.into_iter().map(|code| StartCode { unit: code.unit + cut, ..code }));
            let expected = [(1, 4), (7, 11)].map(|(at, unit)| StartCode {
                at: place(at),
                before: place(at - 1) + 1,
                unit,
            });
            assert_eq!(found, expected, "{cut}");
            assert_eq!(codes.end(), Some(place(stream.len() - 1) + 1));
        }
    }
}
