//! Folders that the steps of a replay lie in. Until the kernel has a folder in memory, all look-ups in it wait for the same blocks.
//! One look-up opens the folder. The other steps are held until then, so that they keep no threads waiting.

use std::{collections::HashMap, mem};

use super::Fetch;

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
        match self.0.get_mut(parent) {
            Some(Folder::Opening { held, .. }) => {
                held.push(number);
                Entry::Held
            }
            Some(Folder::Open) => Entry::Free,
            None => {
                self.0.insert(parent.to_vec(), Folder::Opening { by: number, held: Vec::new() });
                Entry::Opens
            }
        }
    }

    /// The step opens its folder, and is held for the rest of its work.
    pub fn hold(&mut self, number: usize, step: &Fetch) {
        if let Some(Folder::Opening { held, .. }) = parent(step).and_then(|parent| self.0.get_mut(parent)) {
            held.push(number);
        }
    }

    /// The step is done, or takes too long. Those that were held for it.
    pub fn leave(&mut self, number: usize, step: &Fetch) -> Vec<usize> {
        let Some(folder) = parent(step).and_then(|parent| self.0.get_mut(parent)) else { return Vec::new() };
        match folder {
            Folder::Opening { by, held } if *by == number => {
                let held = mem::take(held);
                *folder = Folder::Open;
                held
            }
            _ => Vec::new(),
        }
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
    use crate::executor::Wanted;

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
