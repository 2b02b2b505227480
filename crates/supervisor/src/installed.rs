//! Files that are installed with this executable.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::Error;

/// Folders that are searched, relative to the executable's own: as installed in one folder, as built, as packaged.
const FOLDERS: [&str; 3] = [".", "../agent", "../lib/forebay"];

/// Finds the file called `name`, which is `part` to the user.
///
/// # Errors
/// It is in none of the folders.
pub fn find(part: &'static str, name: &str) -> Result<PathBuf, Error> {
    // The link is resolved: an alias of forebay in a folder of PATH works too.
    let executable = env::current_exe().unwrap_or_default();
    let home = executable.parent().unwrap_or(Path::new("/"));
    let places: Vec<PathBuf> = FOLDERS
        .iter()
        .map(|folder| match (*folder, home.parent()) {
            (".", _) | (_, None) => home.join(name),
            (folder, Some(above)) => above.join(folder.trim_start_matches("../")).join(name),
        })
        .collect();
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.clone()),
        None => Err(Error::Missing { part, places }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nowhere_is_told_with_all_places() {
        let error = find("the test's own part", "forebay-no-such-part").unwrap_err();
        let Error::Missing { places, .. } = &error else { panic!("{error}") };
        assert_eq!(places.len(), FOLDERS.len());
        let sentence = error.to_string();
        assert!(sentence.starts_with("the test's own part is missing (looked for '/"), "{sentence}");
        assert!(places.iter().all(|place| sentence.contains(&*place.to_string_lossy())), "{sentence}");
    }
}
