//! Where access units begin (ITU-T H.264, 7.4.1.2.3; H.265, 7.4.2.4.4).

use super::Role;

/// A picture that has been found: whether decoding can begin at it, and where it comes in the order of presentation, as in
/// [`Picture`](crate::reorder::Picture).
pub(crate) type FoundPicture = (bool, (u64, i64));

/// Cuts a stream of NAL units into access units. A place is where a unit begins.
#[derive(Debug)]
pub(crate) struct AccessUnits<P> {
    /// Where the one begins that is being read, and its picture when that has come.
    begin: Option<P>,
    picture: Option<FoundPicture>,
    /// Where the next one begins, if a picture follows. Between the fields of a frame there may be a delimiter, too.
    next: Option<P>,
}

/// An access unit that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended<P> {
    pub begin: P,
    /// Where the next one begins; `None` at the end of the stream.
    pub end: Option<P>,
    pub picture: FoundPicture,
}

impl<P> Default for AccessUnits<P> {
    fn default() -> Self {
        Self { begin: None, picture: None, next: None }
    }
}

impl<P: Copy> AccessUnits<P> {
    /// Takes a unit, and returns the access unit that has ended with it.
    pub fn take(&mut self, place: P, role: Role) -> Option<Ended<P>> {
        match role {
            Role::Before if self.picture.is_some() => self.next = self.next.or(Some(place)),
            Role::Before => self.begin = self.begin.or(Some(place)),
            Role::Slice => self.next = None,
            Role::More => {}
            Role::Picture { is_sync, order } => {
                let next = self.next.take().unwrap_or(place);
                let ended = self.end_at(Some(next));
                let begin = if ended.is_some() { next } else { self.begin.unwrap_or(place) };
                (self.begin, self.picture) = (Some(begin), Some((is_sync, order)));
                return ended;
            }
        }
        None
    }

    /// Nothing more comes.
    pub fn end(&mut self) -> Option<Ended<P>> {
        let ended = self.end_at(None);
        *self = Self::default();
        ended
    }

    fn end_at(&mut self, end: Option<P>) -> Option<Ended<P>> {
        let picture = self.picture.take()?;
        self.begin.map(|begin| Ended { begin, end, picture })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_unit_begins_at_what_comes_before_its_picture_and_has_both_fields() {
        let picture = |order| Role::Picture { is_sync: false, order: (0, order) };
        let roles = [
            Role::Before,
            Role::Before,
            picture(0),
            Role::Slice,
            // A delimiter before the second field.
            Role::Before,
            Role::Slice,
            Role::Before,
            Role::More,
            Role::Before,
            picture(2),
            picture(4),
        ];
        let mut units = AccessUnits::default();
        let mut ended: Vec<_> =
            (0..).zip(roles).filter_map(|(place, role)| units.take(place, role)).collect();
        ended.extend(units.end());
        let expected = [(0, Some(6), 0), (6, Some(10), 2), (10, None, 4)].map(|(begin, end, order)| Ended {
            begin,
            end,
            picture: (false, (0, order)),
        });
        assert_eq!(ended, expected);
        assert_eq!(units.end(), None);
    }
}
