//! Pictures that came whole (RFC 6184, section 5.1: the last packet of a picture is marked).

use std::collections::VecDeque;

use crate::protocol::packet::Head;

/// A picture is judged when so many have begun after it, so that packets that were overtaken still count.
const OPEN: usize = 4;

/// The pictures of a track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pictures {
    open: VecDeque<Picture>,
    /// The last number of the picture that was judged last.
    last_before: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Picture {
    timestamp: u32,
    first: u16,
    last: u16,
    came: u16,
    is_marked: bool,
}

impl Pictures {
    /// Takes a packet that did not come before. Says of a picture that is judged now whether it came whole.
    pub(crate) fn take(&mut self, head: Head, is_overtaken: bool) -> Option<bool> {
        let Head { sequence, timestamp, is_marked, .. } = head;
        let open = self.open.iter_mut().rev().find(|picture| picture.timestamp == timestamp);
        match open {
            Some(picture) => {
                let is_before = |one: u16, other: u16| (one.wrapping_sub(other) as i16) < 0;
                picture.first = if is_before(sequence, picture.first) { sequence } else { picture.first };
                picture.last = if is_before(picture.last, sequence) { sequence } else { picture.last };
                picture.came += 1;
                picture.is_marked |= is_marked;
            }
            // Its picture was judged without it.
            None if is_overtaken => {}
            None => {
                let picture = Picture { timestamp, first: sequence, last: sequence, came: 1, is_marked };
                self.open.push_back(picture);
            }
        }
        if self.open.len() <= OPEN {
            return None;
        }
        self.open.pop_front().map(|picture| self.is_whole(picture))
    }

    /// What is missing before a picture may be its beginning.
    fn is_whole(&mut self, picture: Picture) -> bool {
        let Picture { first, last, came, is_marked, .. } = picture;
        let follows = self.last_before.is_none_or(|before| first == before.wrapping_add(1));
        self.last_before = Some(last);
        follows && is_marked && came == last.wrapping_sub(first).wrapping_add(1)
    }

    /// What comes next has other numbers.
    pub(crate) fn restart(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten pictures of three packets each, as `order` has them.
    fn whole(order: impl Iterator<Item = u16>) -> (usize, usize) {
        let mut pictures = Pictures::default();
        let mut newest = 0;
        let judged: Vec<bool> = order
            .filter_map(|number| {
                let (sequence, timestamp) = (65_530u16.wrapping_add(number), u32::from(number / 3) * 40);
                let head = Head { sequence, timestamp, ssrc: 1, is_marked: number % 3 == 2 };
                let is_overtaken = number < newest;
                newest = newest.max(number);
                pictures.take(head, is_overtaken)
            })
            .collect();
        (judged.len(), judged.iter().filter(|is_whole| **is_whole).count())
    }

    #[test]
    fn a_picture_is_whole_if_all_its_packets_came_in_whatever_order() {
        assert_eq!(whole(0..30), (6, 6));
        assert_eq!(whole([0, 1, 2, 3, 5, 6, 4].into_iter().chain(7..30)), (6, 6));
    }

    #[test]
    fn a_picture_without_its_beginning_middle_or_end_is_not_whole() {
        assert_eq!(whole((0..30).filter(|number| *number != 4)), (6, 5));
        assert_eq!(whole((0..30).filter(|number| *number != 3)), (6, 5));
        // Whether the end of one is missing or the beginning of the next, its receiver cannot tell.
        assert_eq!(whole((0..30).filter(|number| *number != 5)), (6, 4));
    }
}
