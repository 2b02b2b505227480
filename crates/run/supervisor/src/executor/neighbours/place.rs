//! A folder with its files or its folders, a tree of folders, or a large file with its blocks: which of them lie next to what the
//! program needed last.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use forebay_policy::{
    neighbours::Place as Worth,
    price::{NEIGHBOUR_BLOCKS_MIN, NEIGHBOUR_LISTINGS_MIN, NEIGHBOUR_READS_MIN, NEIGHBOURS_BEHIND_MAX},
};

use crate::executor::fetch::CHUNK_BYTES;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = CHUNK_BYTES;
/// Blocks of a file that are known, at most: those of 8 GiB.
pub const BLOCKS_MAX: u64 = 1 << 16;
/// Folders of a tree that are known and not read ahead yet, at most.
const PENDING_MAX: usize = 1 << 14;

/// Where neighbours lie.
pub struct Place {
    path: Arc<[u8]>,
    pub worth: Worth,
    /// Its members are the folders in it.
    has_folders: bool,
    members: Members,
}

enum Members {
    /// The files or folders in a folder, before they are known: what was opened last.
    Unlisted { last: Box<[u8]>, is_asked: bool },
    /// In order.
    Names { names: Vec<Name>, last: Box<[u8]> },
    /// The folders below one, as they become known.
    Tree { pending: VecDeque<Arc<[u8]>>, listings: u32 },
    Blocks {
        taken: Vec<bool>,
        last: usize,
        /// Reads elsewhere.
        apart: u32,
        /// Blocks that were read in a row, but for those that the kernel reads far ahead.
        onwards: u32,
        is_far: bool,
    },
}

struct Name {
    name: Box<[u8]>,
    is_taken: bool,
}

/// What of a place is read ahead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Of a file or folder.
    pub path: Arc<[u8]>,
    pub part: Part,
}

/// What of a member is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// What its path leads to.
    LookUp,
    /// This block of the file.
    Block(u64),
    /// Which files the folder has.
    Files,
    /// Which folders the folder has.
    Folders,
}

impl Part {
    /// The beginning of a file.
    pub const START: Self = Self::Block(0);
}

/// What a place has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Its names must be listed first.
    List,
    Member(Member),
}

impl Place {
    /// A folder with its files.
    pub fn folder(path: Arc<[u8]>) -> Self {
        Self::new(path, Members::Unlisted { last: Box::default(), is_asked: false })
    }

    /// A folder with those in it, in which files of the same role lie.
    pub fn folders(path: Arc<[u8]>) -> Self {
        Self { has_folders: true, ..Self::folder(path) }
    }

    fn new(path: Arc<[u8]>, members: Members) -> Self {
        Self { path, worth: Worth::default(), has_folders: false, members }
    }

    /// Whether its members are the folders in it.
    pub const fn has_folders(&self) -> bool {
        self.has_folders
    }

    /// The folders from this one on downwards.
    pub fn tree(root: Arc<[u8]>) -> Self {
        Self::new(root, Members::Tree { pending: VecDeque::new(), listings: 0 })
    }

    /// A file of so many bytes, on a device on which the kernel reads far ahead or does not; `None` of one that is too small.
    pub fn file(path: Arc<[u8]>, bytes: u64, is_far: bool) -> Option<Self> {
        let blocks = bytes.div_ceil(BLOCK_BYTES).min(BLOCKS_MAX);
        let taken = (blocks >= NEIGHBOUR_BLOCKS_MIN).then(|| vec![false; blocks as usize])?;
        Some(Self::new(path, Members::Blocks { taken, last: 0, apart: 0, onwards: 0, is_far }))
    }

    /// The path of the folder or file.
    pub const fn path(&self) -> &Arc<[u8]> {
        &self.path
    }

    /// What has this name in the folder was opened: a file, or one in a folder of this name.
    pub fn on_opened(&mut self, opened: &[u8]) {
        match &mut self.members {
            Members::Unlisted { last, .. } => *last = opened.into(),
            Members::Names { names, last } => {
                if let Ok(own) = names.binary_search_by(|name| name.name[..].cmp(opened)) {
                    names[own].is_taken = true;
                }
                *last = opened.into();
            }
            Members::Tree { .. } | Members::Blocks { .. } => {}
        }
    }

    /// The file was read in this block. The blocks that the program needed then: where it went on through blocks that were read ahead,
    /// nothing told of these.
    pub fn on_read(&mut self, block: u64) -> Range<u64> {
        let Members::Blocks { taken, last, apart, onwards, is_far } = &mut self.members else {
            return block..block + 1;
        };
        let block = usize::try_from(block).map_or(0, |block| block.min(taken.len() - 1));
        let before = std::mem::replace(last, block);
        // As far as it is read ahead: who goes to and fro finds much of it taken, too.
        let reach = if *onwards >= NEIGHBOUR_READS_MIN { behind(*onwards) + 1 } else { 1 };
        let goes_on = (before + 1..=before + reach).contains(&block)
            && taken[before + 1..block].iter().all(|taken| *taken);
        if goes_on && !*is_far {
            *onwards = onwards.saturating_add((block - before) as u32);
        } else if !goes_on && block.abs_diff(before) > 1 {
            *apart = apart.saturating_add(1);
            *onwards = 0;
        }
        (if goes_on { before as u64 + 1 } else { block as u64 })..block as u64 + 1
    }

    /// A folder of the tree was listed.
    pub const fn on_folder_listed(&mut self) {
        if let Members::Tree { listings, .. } = &mut self.members {
            *listings = listings.saturating_add(1);
        }
    }

    /// The program has listed this folder of the tree. It is listed again, for the folders in it, where no others are known.
    pub fn list_again(&mut self, folder: Arc<[u8]>) {
        if let Members::Tree { pending, .. } = &mut self.members
            && pending.len() < PENDING_MAX
        {
            pending.push_back(folder);
        }
    }

    /// The folders in a folder of the tree; those of them that there is room for.
    pub fn on_folders(&mut self, below: &[u8], names: &[Box<[u8]>]) -> Vec<Arc<[u8]>> {
        let Members::Tree { pending, .. } = &mut self.members else { return Vec::new() };
        let room = PENDING_MAX.saturating_sub(pending.len());
        let paths: Vec<Arc<[u8]>> = names.iter().take(room).map(|name| joined(below, name)).collect();
        // Most programs go down before they go on.
        paths.iter().rev().for_each(|path| pending.push_front(Arc::clone(path)));
        paths
    }

    /// The names of the folder's files, in order.
    pub fn on_listed(&mut self, listed: Vec<Box<[u8]>>) {
        if let Members::Unlisted { last, .. } = &self.members {
            let last = last.clone();
            let names = listed.into_iter().map(|name| Name { is_taken: name == last, name }).collect();
            self.members = Members::Names { names, last };
        }
    }

    /// Whether there may be something to read ahead.
    pub fn is_open(&self) -> bool {
        match self.members {
            Members::Unlisted { is_asked, .. } => !is_asked,
            Members::Names { .. } => true,
            Members::Tree { listings, .. } => listings >= NEIGHBOUR_LISTINGS_MIN,
            Members::Blocks { apart, onwards, .. } => apart.max(onwards) >= NEIGHBOUR_READS_MIN,
        }
    }

    /// Whether it is a file that is read in sequence now.
    pub const fn is_in_sequence(&self) -> bool {
        matches!(self.members, Members::Blocks { onwards, .. } if onwards >= NEIGHBOUR_READS_MIN)
    }

    /// What was not taken before and lies next to what was needed last: files of the same kind of name, or blocks.
    pub fn take(&mut self) -> Option<Next> {
        match &mut self.members {
            Members::Unlisted { is_asked, .. } => (!std::mem::replace(is_asked, true)).then_some(Next::List),
            Members::Names { names, last } => {
                let middle = names.binary_search_by(|name| name.name.cmp(last));
                let (kind, has_folders) = (kind_of(last), self.has_folders);
                let is_one = |name: &Name| !name.is_taken && (has_folders || kind_of(&name.name) == kind);
                let place = outwards(middle.unwrap_or_else(|place| place), names.len())
                    .find(|place| is_one(&names[*place]))?;
                let name = &mut names[place];
                name.is_taken = true;
                let part = if has_folders { Part::Files } else { Part::START };
                Some(Next::Member(Member { path: joined(&self.path, &name.name), part }))
            }
            Members::Tree { pending, .. } => {
                pending.pop_front().map(|path| Next::Member(Member { path, part: Part::Folders }))
            }
            Members::Blocks { taken, last, onwards, .. } => {
                if *onwards >= NEIGHBOUR_READS_MIN
                    && let Some(next) = taken.get_mut(*last + 1)
                {
                    // The kernel reads it ahead.
                    *next = true;
                }
                let is_free = |block: &usize| !taken[*block];
                let block = if *onwards >= NEIGHBOUR_READS_MIN {
                    (*last + 1..taken.len().min(*last + 2 + behind(*onwards))).find(is_free)?
                } else {
                    outwards(*last, taken.len()).find(is_free)?
                };
                taken[block] = true;
                Some(Next::Member(Member { path: self.path.clone(), part: Part::Block(block as u64) }))
            }
        }
    }
}

/// How many blocks behind those that were read in a row are read ahead.
fn behind(onwards: u32) -> usize {
    NEIGHBOURS_BEHIND_MAX.min(onwards as usize)
}

/// The path of what has this name in a folder.
pub fn joined(folder: &[u8], name: &[u8]) -> Arc<[u8]> {
    let between: &[u8] = if folder.ends_with(b"/") { b"" } else { b"/" };
    [folder, between, name].concat().into()
}

/// What follows the last dot of a name.
pub fn kind_of(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte == b'.') {
        Some(dot) if dot > 0 => &name[dot..],
        _ => b"",
    }
}

/// The places below `count`, from `middle` on, by their distance.
fn outwards(middle: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..=count.max(middle)).flat_map(move |distance| {
        let above = middle.checked_add(distance);
        let below = (distance > 0).then(|| middle.checked_sub(distance)).flatten();
        above.into_iter().chain(below).filter(move |place| *place < count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(place: &mut Place) -> Vec<String> {
        std::iter::from_fn(|| place.take())
            .map(|next| match next {
                Next::List => "list".to_owned(),
                Next::Member(Member { path, part: Part::Block(block) }) => {
                    format!("{} {block}", String::from_utf8_lossy(&path))
                }
                Next::Member(Member { path, part }) => format!("{} {part:?}", String::from_utf8_lossy(&path)),
            })
            .collect()
    }

    #[test]
    fn files_of_a_folder_come_by_their_distance_from_the_last_one_once_each() {
        let mut folder = Place::folder((*b"/f").into());
        folder.on_opened(b"c.py");
        assert_eq!(taken(&mut folder), ["list"]);
        assert!(!folder.is_open());
        folder.on_listed(
            ["a.py", "b.py", "c.py", "d.c", "e.py", "f.py"].map(|name| name.as_bytes().into()).into(),
        );
        assert!(folder.is_open());
        assert_eq!(taken(&mut folder), ["/f/b.py 0", "/f/e.py 0", "/f/a.py 0", "/f/f.py 0"]);
        folder.on_opened(b"x.c");
        assert_eq!(taken(&mut folder), ["/f/d.c 0"]);
    }

    #[test]
    fn blocks_of_a_file_come_once_it_is_read_in_several_places() {
        assert!(Place::file((*b"/small").into(), 3 * BLOCK_BYTES, false).is_none());
        let mut file = Place::file((*b"/f").into(), 3 * BLOCK_BYTES + 1, false).unwrap();
        for block in [0, 1, 1, 3, 0, 9, 1] {
            assert!(!file.is_open());
            let _ = file.on_read(block);
        }
        assert!(file.is_open());
        assert_eq!(taken(&mut file), ["/f 1", "/f 2", "/f 0", "/f 3"]);
    }

    #[test]
    fn blocks_behind_those_that_are_read_in_sequence_come_in_order() {
        let mut file = Place::file((*b"/f").into(), 12 * BLOCK_BYTES, false).unwrap();
        for block in 0..5 {
            assert!(!file.is_open());
            assert_eq!(file.on_read(block), block..block + 1);
        }
        assert_eq!(taken(&mut file), ["/f 6", "/f 7", "/f 8", "/f 9"], "as many as were read, but the next");
        assert_eq!(file.on_read(8), 5..9, "it has gone through those that were read ahead");
        assert_eq!(taken(&mut file), ["/f 10", "/f 11"]);
        let _ = file.on_read(0);
        assert!(!file.is_open());
        assert_eq!(file.on_read(8), 8..9, "far away, though all in between is taken");

        let mut far = Place::file((*b"/f").into(), 12 * BLOCK_BYTES, true).unwrap();
        (0..12).for_each(|block| assert_eq!(far.on_read(block), block..block + 1));
        assert!(!far.is_open(), "the kernel reads far ahead");
    }

    #[test]
    fn folders_of_a_tree_come_as_they_become_known_once_two_were_listed() {
        let mut tree = Place::tree((*b"/t").into());
        for _ in 0..2 {
            assert!(!tree.is_open());
            tree.on_folder_listed();
        }
        assert!(tree.is_open());
        let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().into()).collect::<Vec<_>>();
        assert_eq!(tree.on_folders(b"/t", &names(&["a", "b"])).len(), 2);
        let _ = tree.on_folders(b"/t/a", &names(&["c"]));
        assert_eq!(taken(&mut tree), ["/t/a/c Folders", "/t/a Folders", "/t/b Folders"]);
        assert_eq!(&*joined(b"/", b"x"), b"/x");
    }

    #[test]
    fn an_empty_folder_has_nothing() {
        let mut folder = Place::folder((*b"/f").into());
        let _ = folder.take();
        folder.on_listed(Vec::new());
        folder.on_opened(b"gone");
        assert_eq!(folder.take(), None);
    }
}
