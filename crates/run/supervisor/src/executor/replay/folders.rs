//! Folders that the steps of a replay lie in. Until the kernel has a folder in memory, all look-ups in it wait for the same blocks.
//! One step opens the folder. The others are held until then, so that they keep no threads waiting.

use std::collections::HashMap;

use super::{Fetch, Wanted};

/// What is known of the folders of a replay.
#[derive(Clone, Debug, Default)]
pub struct Folders(HashMap<Vec<u8>, Folder>);

#[derive(Clone, Debug)]
enum Folder {
    /// One step is under way that opens it.
    Opening {
        by: usize,
        held: Vec<usize>,
    },
    Open,
}

/// What a step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Its folder is open.
    Free,
    /// It opens its folder.
    Opens,
    /// It is held until its folder is open.
    Held,
}

impl Folders {
    /// The step of this number is about to be carried out.
    pub fn enter(&mut self, number: usize, step: &Fetch) -> Entry {
        let Some(parent) = parent(step) else { return Entry::Free };
        let entry = match self.0.get_mut(parent) {
            Some(Folder::Opening { held, .. }) => {
                held.push(number);
                return Entry::Held;
            }
            Some(Folder::Open) => Entry::Free,
            None => {
                self.open(parent, number);
                Entry::Opens
            }
        };
        if step.wanted == Wanted::Directory && !self.0.contains_key(&*step.path) {
            self.open(&step.path, number);
        }
        entry
    }

    /// The step opens its folder, and is held for the rest of its work.
    pub fn hold(&mut self, number: usize, step: &Fetch) {
        if let Some(Folder::Opening { held, .. }) = parent(step).and_then(|parent| self.0.get_mut(parent)) {
            held.push(number);
        }
    }

    /// The step is done, or takes too long. Those that were held for it.
    pub fn leave(&mut self, number: usize, step: &Fetch) -> Vec<usize> {
        let mut released = Vec::new();
        for path in [parent(step), Some(&*step.path)].into_iter().flatten() {
            if let Some(folder) = self.0.get_mut(path)
                && let Folder::Opening { by, held } = folder
                && *by == number
            {
                released.append(held);
                *folder = Folder::Open;
            }
        }
        released
    }

    fn open(&mut self, path: &[u8], by: usize) {
        self.0.insert(path.to_vec(), Folder::Opening { by, held: Vec::new() });
    }
}

/// The folder that its path lies in.
fn parent(step: &Fetch) -> Option<&[u8]> {
    let end = step.path.iter().rposition(|byte| *byte == b'/')?;
    Some(&step.path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(path: &str, wanted: Wanted) -> Fetch {
        Fetch { path: path.as_bytes().into(), wanted, at_us: 0 }
    }

    fn look_up(path: &str) -> Fetch {
        step(path, Wanted::LookUp { follow: true })
    }

    #[test]
    fn one_step_opens_a_folder_and_the_others_are_held_until_then() {
        let mut folders = Folders::default();
        let steps = [look_up("/a/1"), look_up("/a/2"), look_up("/b/1"), look_up("/a/3")];
        let entries: Vec<Entry> =
            steps.iter().enumerate().map(|(number, step)| folders.enter(number, step)).collect();
        assert_eq!(entries, [Entry::Opens, Entry::Held, Entry::Opens, Entry::Held]);
        assert!(folders.leave(2, &steps[2]).is_empty());
        assert_eq!(folders.leave(0, &steps[0]), [1, 3]);
        assert_eq!(folders.enter(1, &steps[1]), Entry::Free);
        assert!(folders.leave(1, &steps[1]).is_empty());
    }

    #[test]
    fn a_listing_opens_the_folder_itself_too() {
        let mut folders = Folders::default();
        let (listing, inside, beside) = (step("/a/b", Wanted::Directory), look_up("/a/b/c"), look_up("/a/c"));
        assert_eq!(folders.enter(0, &listing), Entry::Opens);
        assert_eq!([folders.enter(1, &inside), folders.enter(2, &beside)], [Entry::Held; 2]);
        assert_eq!(folders.leave(0, &listing), [2, 1]);
    }

    #[test]
    fn a_step_that_opens_its_folder_may_do_the_rest_later() {
        let mut folders = Folders::default();
        let data = step("/a/b", Wanted::Data { offset: 0, length: 1, expected: None });
        assert_eq!(folders.enter(0, &data), Entry::Opens);
        folders.hold(0, &data);
        assert_eq!(folders.leave(0, &data), [0]);
        assert_eq!(folders.enter(0, &data), Entry::Free);
        assert_eq!(folders.enter(1, &look_up("relative")), Entry::Free);
    }
}
