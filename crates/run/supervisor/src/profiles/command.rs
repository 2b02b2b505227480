//! The profiles of a command that is not started.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use forebay_linux::process::{StartError, check_executable, start_first};
use forebay_profile::{Key, Level, Origin, Profile, Scope};

use super::{Recorded, learning::Started, store::Store};

/// The profiles that a run of the command would use, the most specific first.
///
/// # Errors
/// The command is not found, or cannot be executed.
pub fn scopes_of(command: &[OsString]) -> Result<Vec<Scope>, StartError> {
    start_first(command, |path, arguments| {
        check_executable(path)?;
        Ok(Started::new(path, arguments).map(|started| started.scopes()).unwrap_or_default())
    })
}

/// What one run of the command needed, as a profile of that run alone. `now_s` is in seconds since 1970.
#[must_use]
pub fn profile_of(command: &[OsString], recorded: &Recorded, now_s: u64) -> Profile {
    let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
    let key = Key { level: Level::Whole, digest: [0; 32] };
    let identity_of = |path: &[u8]| recorded.identities.get(path).copied();
    Profile::new(key, Origin::new(&words, b"")).learn(&recorded.needs, identity_of, now_s)
}

impl Store {
    /// The most specific profile that is kept of a command, also while profiles are off. It is not marked as used.
    ///
    /// # Errors
    /// As of [`scopes_of`].
    pub fn of_command(&self, command: &[OsString]) -> Result<Option<Profile>, StartError> {
        Ok(scopes_of(command)?.iter().find_map(|scope| self.look_up(&scope.key)))
    }

    /// The profile of the whole command line that was recorded last.
    #[must_use]
    pub fn latest(&self) -> Option<Profile> {
        self.profiles().max_by_key(|profile| (profile.last_use_s(), profile.key().level))
    }
}
