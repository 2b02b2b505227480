//! Folders that jobs lie in. Until the kernel has a folder in memory, all look-ups in it wait for the same blocks. One look-up opens
//! the folder. The other jobs are held until then, so that they keep no threads waiting, nor the device's turns.

use std::{collections::HashMap, mem};

/// Folders that are known, at most. Those that are open are forgotten then.
const FOLDERS_MAX: usize = 1 << 14;

/// What is known of the folders of jobs.
#[derive(Clone, Debug)]
pub struct Folders<T>(HashMap<Box<[u8]>, Folder<T>>);

#[derive(Clone, Debug)]
enum Folder<T> {
    /// The job of this number is under way and opens it.
    Opening {
        by: u64,
        held: Vec<T>,
    },
    Open,
}

/// What a job may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<T> {
    /// Its folder is open.
    Free(T),
    /// It opens its folder.
    Opens(T),
    /// It is held until its folder is open.
    Held,
}

impl<T> Default for Folders<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Folders<T> {
    /// A job of this number on `path` is about to be carried out.
    pub fn enter(&mut self, path: &[u8], number: u64, job: T) -> Entry<T> {
        let Some(parent) = parent(path) else { return Entry::Free(job) };
        match self.0.get_mut(parent) {
            Some(Folder::Opening { held, .. }) => {
                held.push(job);
                Entry::Held
            }
            Some(Folder::Open) => Entry::Free(job),
            None => {
                if self.0.len() >= FOLDERS_MAX {
                    self.0.retain(|_, folder| matches!(folder, Folder::Opening { .. }));
                }
                self.0.insert(parent.into(), Folder::Opening { by: number, held: Vec::new() });
                Entry::Opens(job)
            }
        }
    }

    /// The job opens its folder, and is held for the rest of its work.
    pub fn hold(&mut self, path: &[u8], job: T) {
        if let Some(Folder::Opening { held, .. }) = parent(path).and_then(|parent| self.0.get_mut(parent)) {
            held.push(job);
        }
    }

    /// The job of this number is done, or takes too long. Those that were held for it.
    pub fn leave(&mut self, path: &[u8], number: u64) -> Vec<T> {
        let Some(folder) = parent(path).and_then(|parent| self.0.get_mut(parent)) else { return Vec::new() };
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

/// The folder that a path lies in.
fn parent(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte == b'/')?;
    Some(&path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_opens_a_folder_and_the_others_are_held_until_then() {
        let mut folders = Folders::default();
        let mut enter = |number, path: &str| folders.enter(path.as_bytes(), number, number);
        assert_eq!(
            [enter(0, "/a/1"), enter(1, "/a/2"), enter(2, "/b/1"), enter(3, "/a/3")],
            [Entry::Opens(0), Entry::Held, Entry::Opens(2), Entry::Held]
        );
        assert!(folders.leave(b"/b/1", 2).is_empty());
        assert_eq!(folders.leave(b"/a/1", 0), [1, 3]);
        assert_eq!(folders.enter(b"/a/2", 1, 1), Entry::Free(1));
        assert!(folders.leave(b"/a/2", 1).is_empty());
    }

    #[test]
    fn a_job_that_opens_its_folder_may_do_the_rest_later() {
        let mut folders = Folders::default();
        assert_eq!(folders.enter(b"/a/b", 0, 0), Entry::Opens(0));
        folders.hold(b"/a/b", 0);
        assert_eq!(folders.leave(b"/a/b", 0), [0]);
        assert_eq!(folders.enter(b"/a/b", 0, 0), Entry::Free(0));
        assert_eq!(folders.enter(b"relative", 1, 1), Entry::Free(1));
    }

    #[test]
    fn folders_that_are_known_are_bounded() {
        let mut folders = Folders::default();
        assert_eq!(folders.enter(b"/opening/x", 0, 0), Entry::Opens(0));
        for number in 1..2 * FOLDERS_MAX as u64 {
            let path = format!("/{number}/x").into_bytes();
            assert_eq!(folders.enter(&path, number, number), Entry::Opens(number));
            assert!(folders.leave(&path, number).is_empty());
            assert!(folders.0.len() <= FOLDERS_MAX);
        }
        assert_eq!(folders.enter(b"/opening/y", 1, 1), Entry::Held);
    }
}
