//! Where the dynamic loader looks for a library (ld.so(8)).

use std::{
    collections::{HashMap, VecDeque},
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    sync::Arc,
};

/// Folders that are looked through for what the cache has not.
const FOLDERS: [&[u8]; 4] = [b"/lib/x86_64-linux-gnu", b"/usr/lib/x86_64-linux-gnu", b"/lib64", b"/usr/lib"];
const CACHE: &str = "/etc/ld.so.cache";
/// A larger one is not read.
const CACHE_BYTES_MAX: u64 = 16 << 20;
const CACHE_START: &[u8] = b"glibc-ld.so.cache1.1";
/// Of the C library, for x86-64.
const CACHE_FLAGS: u32 = 0x0303;

/// Folders that a file names to search for the libraries that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Before those of the environment, for what its libraries need, too.
    old: Vec<Box<[u8]>>,
    /// After them, for its own needs.
    new: Vec<Box<[u8]>>,
}

impl Searched {
    /// As the dynamic section has them. The old kind is ignored where there is the new.
    pub fn new(old: Option<Box<[u8]>>, new: Option<Box<[u8]>>) -> Self {
        let folders = |path: Option<Box<[u8]>>| path.map_or_else(Vec::new, |path| split(&path));
        Self { old: folders(old.filter(|_| new.is_none())), new: folders(new) }
    }

    /// For the file at `path`, which a file is needed by that names `inherited`.
    pub fn from(self, path: &[u8], inherited: &Self) -> Self {
        let origin =
            path.iter().rposition(|byte| *byte == b'/').and_then(|end| path.get(..end)).unwrap_or_default();
        let at = |folders: Vec<Box<[u8]>>| folders.iter().map(|folder| at_origin(folder, origin)).collect();
        let (mut old, new): (Vec<_>, Vec<_>) = (at(self.old), at(self.new));
        if new.is_empty() {
            old.extend(inherited.old.iter().cloned());
        }
        Self { old, new }
    }

    /// What holds for what its libraries need, too.
    pub fn inherited(&self) -> Self {
        Self { old: self.old.clone(), new: Vec::new() }
    }
}

/// Paths by names.
type Cache = HashMap<Box<[u8]>, Arc<[u8]>>;

/// Where a program's libraries are.
#[derive(Default)]
pub struct Search {
    /// Of the environment.
    folders: Vec<Box<[u8]>>,
    cache: Cache,
}

impl Search {
    /// Of this machine, for a program with this `LD_LIBRARY_PATH`.
    pub fn new(library_path: Option<&OsStr>) -> Self {
        let is_usual =
            fs::metadata(CACHE).is_ok_and(|found| found.is_file() && found.len() <= CACHE_BYTES_MAX);
        let cache = if is_usual { fs::read(CACHE).unwrap_or_default() } else { Vec::new() };
        Self {
            folders: library_path.map_or_else(Vec::new, |path| split(path.as_bytes())),
            cache: entries(&cache).unwrap_or_default(),
        }
    }

    /// Where the library `name` may lie, in the loader's order.
    pub fn paths(&self, name: &[u8], searched: &Searched) -> VecDeque<Arc<[u8]>> {
        if name.contains(&b'/') {
            return name.starts_with(b"/").then(|| Arc::from(name)).into_iter().collect();
        }
        let named = searched.old.iter().chain(&self.folders).chain(&searched.new);
        let in_folder = |folder: &[u8]| Arc::from([folder, b"/", name].concat());
        let absolute = named.filter(|folder| folder.starts_with(b"/")).map(|folder| in_folder(folder));
        let mut paths: VecDeque<Arc<[u8]>> = absolute.collect();
        match self.cache.get(name) {
            Some(path) => paths.push_back(path.clone()),
            None => paths.extend(FOLDERS.map(in_folder)),
        }
        paths
    }
}

fn split(path: &[u8]) -> Vec<Box<[u8]>> {
    path.split(|byte| matches!(byte, b':' | b';')).filter(|part| !part.is_empty()).map(Into::into).collect()
}

fn at_origin(folder: &[u8], origin: &[u8]) -> Box<[u8]> {
    for name in [&b"$ORIGIN"[..], b"${ORIGIN}"] {
        if let Some(rest) = folder.strip_prefix(name) {
            return [origin, rest].concat().into();
        }
    }
    folder.into()
}

/// The entries of a cache for any processor. `None` of bytes that are no cache. An older form may come first in the file.
fn entries(bytes: &[u8]) -> Option<Cache> {
    const HEADER_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;
    let start = bytes.windows(CACHE_START.len()).step_by(4).position(|window| window == CACHE_START)? * 4;
    let cache = bytes.get(start..)?;
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes)
    };
    let text = |at: u32| {
        let rest = cache.get(at as usize..)?;
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    };
    let count = word(cache, 20)? as usize;
    let list = cache.get(HEADER_BYTES..)?.chunks_exact(ENTRY_BYTES).take(count);
    let mut paths = HashMap::new();
    for entry in list {
        let is_for_any = word(entry, 16) == Some(0) && word(entry, 20) == Some(0);
        if word(entry, 0) == Some(CACHE_FLAGS)
            && is_for_any
            && let Some((name, path)) = text(word(entry, 4)?).zip(text(word(entry, 8)?))
            && path.starts_with(b"/")
        {
            // Of several the loader takes the first.
            paths.entry(name.into()).or_insert_with(|| path.into());
        }
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paths: VecDeque<Arc<[u8]>>) -> Vec<String> {
        paths.iter().map(|path| String::from_utf8(path.to_vec()).unwrap()).collect()
    }

    fn some(text: &str) -> Option<Box<[u8]>> {
        Some(text.as_bytes().into())
    }

    #[test]
    fn this_machine_s_cache_has_the_c_library() {
        let search = Search::new(None);
        let paths = texts(search.paths(b"libc.so.6", &Searched::default()));
        assert!(paths.iter().any(|path| fs::metadata(path).is_ok()), "{paths:?}");
    }

    #[test]
    fn folders_are_searched_in_the_order_of_the_loader() {
        let mut search = Search { folders: split(b"/environment:relative"), ..Search::default() };
        search.cache.insert(b"a.so"[..].into(), Arc::from(&b"/cached/a.so"[..]));
        let own =
            Searched::new(some("/old:$ORIGIN/lib"), None).from(b"/opt/bin/program", &Searched::default());
        assert_eq!(
            texts(search.paths(b"a.so", &own)),
            ["/old/a.so", "/opt/bin/lib/a.so", "/environment/a.so", "/cached/a.so"]
        );
        let below = Searched::new(None, None).from(b"/old/a.so", &own.inherited());
        assert_eq!(texts(search.paths(b"b.so", &below))[..2], ["/old/b.so", "/opt/bin/lib/b.so"]);
        let new = Searched::new(some("/old"), some("${ORIGIN}/../lib")).from(b"/opt/bin/program", &own);
        assert_eq!(
            texts(search.paths(b"a.so", &new)),
            ["/environment/a.so", "/opt/bin/../lib/a.so", "/cached/a.so"]
        );
        assert!(new.inherited() == Searched::default());
    }

    #[test]
    fn a_path_is_taken_as_it_is() {
        assert_eq!(texts(Search::default().paths(b"/x/a.so", &Searched::default())), ["/x/a.so"]);
        assert!(Search::default().paths(b"./a.so", &Searched::default()).is_empty());
    }

    #[test]
    fn a_cache_that_is_cut_or_garbled_is_read_without_harm() {
        let whole = fs::read(CACHE).unwrap_or_default();
        assert_eq!(entries(b"nothing of the kind"), None);
        for length in (0..whole.len()).step_by(97) {
            let _ = entries(&whole[..length]);
        }
        for index in (0..whole.len().min(2000)).chain((2000..whole.len()).step_by(211)) {
            let mut bytes = whole.clone();
            bytes[index] ^= 0xff;
            let _ = entries(&bytes);
        }
    }
}
