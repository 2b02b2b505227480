//! Folders that lie beside one another, in which the program needs files of the same role. What it needed first in the last one of
//! them, it may need in the others.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use super::place::{Part, joined};

/// Folders that are remembered, at most.
const FOLDERS_MAX: usize = 1 << 16;

/// See the module.
#[derive(Debug, Default)]
pub struct Siblings {
    /// Folders in which the program has needed files: looked up, or opened, too.
    entered: HashMap<Arc<[u8]>, Part>,
    /// The folders above these.
    above: HashMap<Arc<[u8]>, Above>,
}

#[derive(Debug)]
struct Above {
    first: First,
    /// The program has needed files in more than one folder.
    has_several: bool,
    place: Option<usize>,
}

/// What the program needed first in the last folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// The name of a file.
    pub name: Box<[u8]>,
    /// [`Part::LookUp`] as long as none was opened.
    pub part: Part,
}

/// A folder beside others was entered.
#[derive(Debug, PartialEq, Eq)]
pub struct Entered {
    /// The place whose members these folders are.
    pub place: usize,
    /// The name of the folder.
    pub name: Box<[u8]>,
}

impl Siblings {
    /// The program needed a file of this name in a folder. A folder beside others in which it had needed none, if it is one: `add` makes
    /// the folder above a place, if it may be one.
    pub fn on_needed(
        &mut self,
        folder: &Arc<[u8]>,
        first: First,
        add: impl FnOnce(Arc<[u8]>) -> Option<usize>,
    ) -> Option<Entered> {
        let end = folder.iter().rposition(|byte| *byte == b'/').filter(|end| *end > 0)?;
        let (path, name) = (&folder[..end], &folder[end + 1..]);
        let room = self.entered.len() < FOLDERS_MAX;
        let is_new = match self.entered.entry(folder.clone()) {
            Entry::Vacant(entry) if room => {
                entry.insert(first.part);
                true
            }
            // What is opened was looked up before.
            Entry::Occupied(mut entry) if *entry.get() == Part::LookUp && first.part != Part::LookUp => {
                entry.insert(first.part);
                false
            }
            Entry::Vacant(_) | Entry::Occupied(_) => return None,
        };
        let Some(above) = self.above.get_mut(path) else {
            self.above.insert(path.into(), Above { first, has_several: false, place: None });
            return None;
        };
        if first.part != Part::LookUp || above.first.part == Part::LookUp {
            above.first = first;
        }
        above.has_several |= is_new;
        let is_place = above.place.is_some();
        if !is_place && above.has_several {
            above.place = add(path.into());
        }
        // It is told of each folder once.
        let above = above.place.filter(|_| is_new || !is_place);
        above.map(|place| Entered { place, name: name.into() })
    }

    /// What was needed first in the last folder of this one.
    pub fn first(&self, path: &[u8]) -> Option<&First> {
        self.above.get(path).map(|above| &above.first)
    }

    /// The folders of these names in a folder, in order, without those that were entered. They come as the file system has them.
    pub fn not_entered(&self, path: &[u8], mut names: Vec<Box<[u8]>>) -> Vec<Box<[u8]>> {
        names.retain(|name| !self.entered.contains_key(&joined(path, name)));
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &[u8], part: Part) -> First {
        First { name: name.into(), part }
    }

    #[test]
    fn the_second_folder_that_is_entered_makes_the_one_above_a_place() {
        let mut siblings = Siblings::default();
        let mut open = |folder: &[u8], name: &[u8]| {
            siblings.on_needed(&folder.into(), of(name, Part::START), |above| {
                assert_eq!(&*above, b"/f");
                Some(7)
            })
        };
        assert_eq!(open(b"/f/a", b"x"), None);
        assert_eq!(open(b"/f/a", b"y"), None, "again");
        assert_eq!(open(b"/g/a", b"y"), None, "elsewhere");
        assert_eq!(open(b"/a", b"y"), None, "the root has all kinds of folders");
        assert_eq!(open(b"/f/c", b"z"), Some(Entered { place: 7, name: (*b"c").into() }));
        assert_eq!(open(b"/f/c", b"y"), None);
        assert_eq!(siblings.first(b"/f"), Some(&of(b"z", Part::START)));
        let names = [b"d", b"a", b"b", b"c"].map(|name| name[..].into()).into();
        assert_eq!(siblings.not_entered(b"/f", names), [b"b"[..].into(), b"d"[..].into()] as [Box<[u8]>; 2]);
    }

    #[test]
    fn what_is_opened_says_more_than_what_is_looked_up() {
        let mut siblings = Siblings::default();
        let mut need = |folder: &[u8], first: First| {
            let is_entered = siblings.on_needed(&folder.into(), first, |_| Some(7)).is_some();
            (is_entered, siblings.first(b"/f").cloned().unwrap())
        };
        let (x, y, z) = (of(b"x", Part::LookUp), of(b"y", Part::LookUp), of(b"z", Part::START));
        assert_eq!(need(b"/f/a", x.clone()), (false, x));
        assert_eq!(need(b"/f/b", y.clone()), (true, y.clone()));
        assert_eq!(need(b"/f/b", z.clone()), (false, z.clone()), "entered by a look-up before");
        assert_eq!(need(b"/f/c", y), (true, z.clone()));
        let mut siblings = Siblings::default();
        let mut need = |folder: &[u8], part: Part, place: Option<usize>| {
            siblings.on_needed(&folder.into(), First { part, ..z.clone() }, |_| place)
        };
        let parts = [Part::LookUp, Part::START];
        assert_eq!(parts.map(|part| need(b"/f/a", part, Some(7))), [None, None], "one folder");
        let entered = Some(Entered { place: 7, name: (*b"b").into() });
        assert_eq!(need(b"/f/b", Part::LookUp, None), None, "it may be none yet");
        assert_eq!(need(b"/f/b", Part::START, Some(7)), entered);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut siblings = Siblings::default();
        for number in 0..FOLDERS_MAX {
            let folder = format!("/{number}/f").into_bytes();
            assert_eq!(siblings.on_needed(&folder.into(), of(b"x", Part::START), |_| None), None);
        }
        let more = siblings.on_needed(&(*b"/0/g").into(), of(b"x", Part::START), |_| panic!("no room"));
        assert_eq!(more, None);
    }
}
