//! The server decides which user may watch which path. Every way to a file asks here: RTSP, pages, lists, playlists and segments of HTTP, sessions after a reload.
//!
//! ```text
//!   path --> rule of its folder --> public? ----------------------------> yes
//!                  |                                                       ^
//!                  +--> is the user one of the folder's? --> paths of the user
//! ```

use forebay_rtsp::authentication::{Secret, Users};

use crate::settings::{Settings, User};

/// Users, and the rules of folders.
pub(crate) struct Access {
    users: Vec<User>,
    rules: Vec<Rule>,
}

/// What holds in a folder.
struct Rule {
    folder: String,
    is_public: bool,
    /// Those that may watch; all without it.
    users: Option<Vec<String>>,
}

impl Access {
    /// `None` if there are no users: then everybody may watch everything.
    pub fn of(settings: &Settings) -> Option<Self> {
        let rules = settings.folders.iter().map(|folder| Rule {
            folder: folder.name.clone(),
            is_public: folder.is_public,
            users: folder.users.clone(),
        });
        let access = Self { users: settings.users.clone(), rules: rules.collect() };
        (!access.users.is_empty()).then_some(access)
    }

    /// The rule of the folder that a path is in; `None` if there is no such folder.
    fn rule(&self, path: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| is_in(path, &rule.folder))
    }
}

impl Users for Access {
    fn secret(&self, user: &str) -> Option<Secret> {
        self.users.iter().find(|one| one.name == user).map(|one| one.secret.clone())
    }

    fn all_have_sha256(&self) -> bool {
        self.users.iter().all(|one| !matches!(one.secret, Secret::Hashed { sha256: None, .. }))
    }

    fn may_watch(&self, user: Option<&str>, path: &str) -> bool {
        let rule = self.rule(path);
        if rule.is_some_and(|rule| rule.is_public) {
            return true;
        }
        let known = user.and_then(|user| self.users.iter().find(|one| one.name == user));
        known.is_some_and(|user| {
            let of_folder = rule.and_then(|rule| rule.users.as_ref());
            of_folder.is_none_or(|users| users.contains(&user.name))
                && (user.paths.is_empty() || user.paths.iter().any(|folder| is_in(path, folder)))
        })
    }

    fn is_open(&self, folder: &str) -> bool {
        let mut open = self.rules.iter().filter(|rule| rule.is_public);
        open.any(|rule| folder.is_empty() || is_in(folder, &rule.folder))
    }
}

/// Whether a path is that of a folder or file, or lies in it. Paths that are written otherwise lie nowhere.
fn is_in(path: &str, folder: &str) -> bool {
    let folder = folder.trim_matches('/');
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Folder;

    fn user(name: &str, paths: &[&str]) -> User {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        User { name: name.to_owned(), secret: Secret::Password("x".to_owned()), paths }
    }

    fn access(folders: Vec<Folder>, users: Vec<User>) -> Access {
        Access::of(&Settings { folders, users, ..Settings::new("films".into()) }).expect("users")
    }

    #[test]
    fn what_one_user_has_no_hash_of_is_offered_to_none() {
        let hashed = |md5: Option<&str>, sha256: Option<&str>| User {
            secret: Secret::Hashed { md5: md5.map(str::to_owned), sha256: sha256.map(str::to_owned) },
            ..user("ada", &[])
        };
        let all_have_sha256 = |users| access(vec![Folder::sole("films".into())], users).all_have_sha256();
        assert!(all_have_sha256(vec![
            hashed(Some("1"), Some("2")),
            user("bob", &[]),
            hashed(None, Some("2"))
        ]));
        assert!(!all_have_sha256(vec![user("bob", &[]), hashed(Some("1"), None)]));
    }

    #[test]
    fn users_see_their_paths_and_no_others() {
        let users = vec![user("ada", &["films/old", "/news.mp4"]), user("bob", &[])];
        let access = access(vec![Folder::sole("films".into())], users);
        for (user, path, may) in [
            ("ada", "films/old/a.mp4", true),
            ("ada", "films/older.mp4", false),
            ("ada", "films/new/a.mp4", false),
            ("ada", "films//old/a.mp4", false),
            ("ada", "films/./old/a.mp4", false),
            ("ada", "news.mp4", true),
            ("bob", "films/new/a.mp4", true),
            ("eve", "news.mp4", false),
        ] {
            assert_eq!(access.may_watch(Some(user), path), may, "{user} {path}");
        }
        assert!(!access.may_watch(None, "news.mp4") && !access.is_open(""));
    }

    #[test]
    fn a_folder_is_for_its_users_for_all_users_or_for_everybody() {
        let folder = |name: &str, is_public, users: Option<&[&str]>| Folder {
            name: name.to_owned(),
            path: name.into(),
            is_public,
            users: users.map(|users| users.iter().map(|user| (*user).to_owned()).collect()),
        };
        let folders = vec![
            folder("films", false, None),
            folder("music", true, None),
            folder("home", false, Some(&["ada"])),
        ];
        let users = vec![user("ada", &[]), user("bob", &["films/old", "home"])];
        let access = access(folders, users);
        for (path, without, ada, bob) in [
            ("films/old/a.mp4", false, true, true),
            ("films/a.mp4", false, true, false),
            ("music/a.mp4", true, true, true),
            ("musical/a.mp4", false, true, false),
            ("home/a.mp4", false, true, false),
            ("home", false, true, false),
            ("nowhere/a.mp4", false, true, false),
            ("", false, true, false),
        ] {
            let may = [None, Some("ada"), Some("bob"), Some("eve")].map(|user| access.may_watch(user, path));
            assert_eq!(may, [without, ada, bob, without], "{path}");
        }
        let open = ["", "music", "music/old", "musical", "films"].map(|folder| access.is_open(folder));
        assert_eq!(open, [true, true, true, false, false]);
    }
}
