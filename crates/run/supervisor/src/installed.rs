//! Files that are installed with this executable.

use std::{
    env,
    ffi::{CString, OsString},
    path::{Path, PathBuf},
};

use forebay_linux::process::{StartError, become_other, environment, executed_as, terminated};

use crate::Error;

/// A file of Forebay's own beside the executable that runs.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// What it is to the user.
    pub what: &'static str,
    /// How it is called.
    pub file: &'static str,
    /// Where it is searched for, relative to the executable's own folder.
    pub folders: &'static [&'static str],
}

/// What is loaded into programs: beside the executable, as built, as installed.
pub const AGENT: Part = Part {
    what: "the agent library",
    file: "libforebay_agent.so",
    folders: &[".", "../agent", "../lib/forebay"],
};

/// The program that has every command.
pub const COMMANDS: Part = Part {
    what: "the program of the other commands",
    file: "forebay-commands",
    folders: &[".", "../lib/forebay"],
};

/// The program that runs programs, and starts [`COMMANDS`] for everything else.
pub const FRONT: Part = Part { what: "the command", file: "forebay", folders: &[".", "../../bin"] };

/// The library for C, whose wrappers of system calls hosts get: as built, as installed with either executable.
pub const C_LIBRARY: Part = Part {
    what: "the library for C",
    file: "libforebay.so",
    folders: &[".", "../lib", "../lib/x86_64-linux-gnu", "..", "../x86_64-linux-gnu"],
};

impl Part {
    /// Finds it.
    ///
    /// # Errors
    /// It is in none of the folders.
    pub fn find(&self) -> Result<PathBuf, Error> {
        // The link is resolved: an alias of forebay in a folder of PATH works too.
        let executable = env::current_exe().ok().or_else(executed_as).unwrap_or_default();
        let home = executable.parent().unwrap_or(Path::new("/"));
        let places: Vec<PathBuf> =
            self.folders.iter().map(|folder| below(home, folder).join(self.file)).collect();
        match places.iter().find(|place| place.is_file()) {
            Some(place) => Ok(place.clone()),
            None => Err(Error::Missing { part: self.what, places }),
        }
    }

    /// Becomes it, with these arguments, its name first, in the state that this process was started in. Returns why not.
    pub fn execute(&self, arguments: impl Iterator<Item = OsString>) -> Error {
        let path = match self.find() {
            Ok(path) => path,
            Err(error) => return error,
        };
        let arguments: Vec<CString> = arguments.map(|argument| terminated(&argument)).collect();
        let source = become_other(&terminated(path.as_os_str()), &arguments, &environment());
        StartError::NotExecutable { path, is_folder: false, source }.into()
    }
}

/// The folder called `relative` from `home`, without dots.
fn below(home: &Path, relative: &str) -> PathBuf {
    relative.split('/').fold(home.to_owned(), |folder, step| match step {
        "." => folder,
        ".." => folder.parent().unwrap_or(Path::new("/")).to_owned(),
        name => folder.join(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nowhere_is_told_with_all_places() {
        let folders = &[".", "../elsewhere"];
        let part = Part { what: "the test's own part", file: "forebay-no-such-part", folders };
        let error = part.find().unwrap_err();
        let Error::Missing { places, .. } = &error else { panic!("{error}") };
        assert_eq!(places.len(), folders.len());
        let sentence = error.to_string();
        assert!(sentence.starts_with("the test's own part is missing (looked for '/"), "{sentence}");
        assert!(places.iter().all(|place| sentence.contains(&*place.to_string_lossy())), "{sentence}");
    }

    #[test]
    fn parts_are_where_they_are_installed() {
        let bin = Path::new("/usr/local/bin");
        assert_eq!(below(bin, "."), bin);
        assert_eq!(below(bin, "../lib/forebay"), Path::new("/usr/local/lib/forebay"));
        assert_eq!(below(Path::new("/usr/local/lib/forebay"), "../../bin"), bin);
        assert_eq!(below(Path::new("/"), "../../bin"), Path::new("/bin"));
    }
}
