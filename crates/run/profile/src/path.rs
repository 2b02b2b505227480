//! Paths as bytes: which ones a profile may have, their order, and what lies below what.

/// The longest path in bytes that the kernel takes.
pub const PATH_BYTES_MAX: usize = 4095;
/// The longest name of a file in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Whether a profile may have `path`: absolute, with a name, without `.`, `..`, empty parts and NUL, short enough.
#[must_use]
pub fn is_proper(path: &[u8]) -> bool {
    path.len() <= PATH_BYTES_MAX
        && path.strip_prefix(b"/").is_some_and(|names| names.split(|byte| *byte == b'/').all(is_name))
}

/// Whether `name` can be one part of a path.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
        && name.len() <= NAME_BYTES_MAX
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// What a profile's entries are sorted by: what lies higher is first, and what lies in one folder is together.
#[must_use]
pub fn order(path: &[u8]) -> (usize, Vec<u8>) {
    // A slash sorts before every byte of a name, so that a folder's name ends before a longer one goes on.
    let key: Vec<u8> = path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect();
    (key.iter().filter(|byte| **byte == 0).count(), key)
}

/// The folder and the name of a proper path. The folder of what lies in the root is empty.
#[must_use]
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    (&path[..slash], path.get(slash + 1..).unwrap_or_default())
}

/// Whether `path` is `folder` or lies below it.
#[must_use]
pub fn is_below(path: &[u8], folder: &[u8]) -> bool {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// `path` as seen from `folder`, in words alone: symbolic links are not looked at, so `..` may lead elsewhere than the kernel.
#[must_use]
pub fn absolute(folder: &[u8], path: &[u8]) -> Vec<u8> {
    let whole = if path.starts_with(b"/") { path.to_vec() } else { [folder, b"/", path].concat() };
    let mut names: Vec<&[u8]> = Vec::new();
    for name in whole.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    let mut path = Vec::with_capacity(whole.len());
    for name in names {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}
