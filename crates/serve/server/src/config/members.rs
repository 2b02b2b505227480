//! Folders and users of a file of settings. What does not fit together is a fault at a place.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use forebay_rtsp::authentication::Secret;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use toml::Spanned;

use super::{Fault, fault};
use crate::settings::{Folder, User, is_name};

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FolderTable {
    name: Spanned<String>,
    path: PathBuf,
    #[serde(default)]
    public: bool,
    users: Option<Spanned<Vec<Spanned<Member>>>>,
}

/// A user of a folder.
#[derive(Debug)]
enum Member {
    /// One of those at the top.
    Named(String),
    /// One of this folder alone.
    Own(UserTable),
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Member;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("the name of a user, or a user of this folder as in [[users]]")
            }

            fn visit_str<E>(self, name: &str) -> Result<Member, E> {
                Ok(Member::Named(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Member, A::Error> {
                UserTable::deserialize(MapAccessDeserializer::new(map)).map(Member::Own)
            }
        }
        from.deserialize_any(Either)
    }
}

#[derive(Debug, serde::Deserialize)]
#[serde(try_from = "RawUser")]
pub(super) struct UserTable {
    user: User,
    name: Range<usize>,
    /// Where each of the user's paths stands.
    paths: Vec<Range<usize>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawUser {
    name: Spanned<String>,
    password: Option<String>,
    md5: Option<String>,
    sha256: Option<String>,
    #[serde(default)]
    paths: Vec<Spanned<String>>,
}

impl TryFrom<RawUser> for UserTable {
    type Error = String;

    fn try_from(raw: RawUser) -> Result<Self, String> {
        let RawUser { name, password, md5, sha256, paths } = raw;
        let (at, name) = (name.span(), name.into_inner());
        let is_hash = |hash: &Option<String>, digits| {
            hash.as_ref()
                .is_none_or(|hash| hash.len() == digits && hash.bytes().all(|one| one.is_ascii_hexdigit()))
        };
        let secret = match (password, md5, sha256) {
            (Some(password), None, None) => Secret::Password(password),
            (None, None, None) | (Some(_), ..) => {
                return Err(format!(
                    "user {name} needs either a password or hashes of `user:realm:password`, md5 and sha256"
                ));
            }
            (None, md5, sha256) if is_hash(&md5, 32) && is_hash(&sha256, 64) => {
                Secret::Hashed { md5, sha256 }
            }
            _ => return Err(format!("user {name}: hashes have hexadecimal digits, md5 32 and sha256 64")),
        };
        if name.is_empty() || name.contains([':', '"']) {
            return Err("a user's name has no colon and no quotation mark".to_owned());
        }
        let (spans, paths) = paths.into_iter().map(|path| (path.span(), path.into_inner())).unzip();
        Ok(Self { user: User { name, secret, paths }, name: at, paths: spans })
    }
}

/// Folders, and users of all of them.
pub(super) struct Members {
    pub folders: Vec<Folder>,
    pub users: Vec<User>,
}

impl Members {
    /// Of a folder without a name, or of tables.
    pub fn of(
        sole: Option<PathBuf>,
        tables: Vec<Spanned<FolderTable>>,
        users: Vec<UserTable>,
        beside: &Path,
    ) -> Result<Self, Fault> {
        let mut all = Gathered::default();
        users.into_iter().try_for_each(|user| all.add(user))?;
        let begin = tables.first().map_or(0, |table| table.span().start);
        let folders = match sole {
            Some(_) if !tables.is_empty() => {
                return fault(begin, "folders have names or there is one: leave out `folder` or [[folders]]");
            }
            None if tables.is_empty() => {
                return fault(
                    0,
                    "`folder` is missing: the path of a folder is wanted, or several [[folders]]",
                );
            }
            Some(folder) => vec![Folder::sole(beside.join(folder))],
            None => {
                let folders = all.folders(tables, beside)?;
                all.check_paths(&folders)?;
                folders
            }
        };
        Ok(Self { folders, users: all.users })
    }
}

/// Users, as far as tables have been read.
#[derive(Default)]
struct Gathered {
    users: Vec<User>,
    /// Where each path of a user stands.
    paths: Vec<(usize, String)>,
    names: HashSet<String>,
}

impl Gathered {
    fn folders(&mut self, tables: Vec<Spanned<FolderTable>>, beside: &Path) -> Result<Vec<Folder>, Fault> {
        let mut folders: Vec<Folder> = Vec::new();
        for table in tables {
            let at = table.get_ref().name.span().start;
            let folder = self.folder(table, beside)?;
            if folders.iter().any(|other| other.name == folder.name) {
                return fault(at, format!("another folder is called {}: names differ", folder.name));
            }
            folders.push(folder);
        }
        Ok(folders)
    }

    fn add(&mut self, UserTable { user, name, paths }: UserTable) -> Result<(), Fault> {
        if !self.names.insert(user.name.clone()) {
            return fault(name.start, format!("another user is called {}: names differ", user.name));
        }
        self.paths.extend(paths.iter().map(|path| path.start).zip(user.paths.iter().cloned()));
        self.users.push(user);
        Ok(())
    }

    /// Takes a folder's users from its table.
    fn folder(&mut self, table: Spanned<FolderTable>, beside: &Path) -> Result<Folder, Fault> {
        let begin = table.span().start;
        let FolderTable { name, path, public, users } = table.into_inner();
        let (at, name) = (name.span().start, name.into_inner());
        if !is_name(&name) {
            return fault(
                at,
                "a folder's name is a part of URLs: without /, ? and #, and without a dot at its beginning",
            );
        }
        let Some(users) = users else {
            return Ok(Folder { name, path: beside.join(path), is_public: public, users: None });
        };
        if public {
            return fault(begin, "a public folder is for everybody: leave out its users, or public = true");
        }
        let (at, members) = (users.span().start, users.into_inner());
        if members.is_empty() {
            return fault(at, "at least one user is wanted: without `users` the folder is for all users");
        }
        let mut of_folder = Vec::new();
        for member in members {
            let at = member.span().start;
            match member.into_inner() {
                Member::Named(user) if self.names.contains(&user) => of_folder.push(user),
                Member::Named(user) => return fault(at, format!("no user in [[users]] is called {user}")),
                Member::Own(mut own) => {
                    of_folder.push(own.user.name.clone());
                    let paths = std::mem::take(&mut own.user.paths);
                    own.paths.clear();
                    self.add(own)?;
                    // Folders without users are not for the user of another one.
                    let within = |path: &String| format!("{name}/{}", path.trim_matches('/'));
                    let paths = if paths.is_empty() {
                        vec![name.clone()]
                    } else {
                        paths.iter().map(within).collect()
                    };
                    self.users.last_mut().into_iter().for_each(|user| user.paths.clone_from(&paths));
                }
            }
        }
        Ok(Folder { name, path: beside.join(path), is_public: false, users: Some(of_folder) })
    }

    /// With folders, a path begins with the name of one.
    fn check_paths(&self, folders: &[Folder]) -> Result<(), Fault> {
        for (at, path) in &self.paths {
            let first = path.trim_matches('/').split('/').next().unwrap_or_default();
            if !first.is_empty() && !folders.iter().any(|folder| folder.name == first) {
                return fault(
                    *at,
                    format!("a path begins with the name of a folder, and none is called {first}"),
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::settings::Settings;

    fn parse(text: &str) -> Result<Settings> {
        Settings::parse(Path::new("/etc/forebay/serve.toml"), text)
    }

    #[test]
    fn folders_have_names_and_users_of_their_own() {
        let text = r#"
[[users]]
name = "ada"
password = "x"

[[folders]]
name = "films"
path = "films"

[[folders]]
name = "home"
path = "/srv/home"
users = ["ada", { name = "eve", password = "x" }, { name = "kid", password = "x", paths = ["/young"] }]

[[folders]]
name = "music"
path = "music"
public = true
"#;
        let settings = parse(text).expect("settings");
        let folders: Vec<_> = settings
            .folders
            .iter()
            .map(|one| (one.name.as_str(), one.path.to_str(), one.is_public))
            .collect();
        let expected = [
            ("films", Some("/etc/forebay/films"), false),
            ("home", Some("/srv/home"), false),
            ("music", Some("/etc/forebay/music"), true),
        ];
        assert_eq!(folders, expected);
        let of_home = ["ada", "eve", "kid"].map(str::to_owned).to_vec();
        assert_eq!(
            settings.folders.iter().map(|one| one.users.clone()).collect::<Vec<_>>(),
            [None, Some(of_home), None]
        );
        let paths: Vec<_> =
            settings.users.iter().map(|user| (user.name.as_str(), user.paths.join(" "))).collect();
        let path = |name, path: &str| (name, path.to_owned());
        assert_eq!(paths, [path("ada", ""), path("eve", "home"), path("kid", "home/young")]);
    }

    #[test]
    fn what_is_wrong_with_folders_is_said_with_line_and_column() {
        let ada = "[[users]]\nname = \"ada\"\npassword = \"x\"\n";
        for (text, place, words) in [
            ("memory = \"64M\"\n", "1:1", "several [[folders]]"),
            ("folder = \"a\"\n[[folders]]\nname = \"b\"\npath = \"b\"\n", "2:1", "leave out"),
            ("[[folders]]\nname = \"a/b\"\npath = \"b\"\n", "2:8", "without /"),
            ("[[folders]]\nname = \"a\"\n", "1:1", "path"),
            ("[[folders]]\nname = \"a\"\npath = \"b\"\npublic = 1\n", "4:10", "boolean"),
            ("[[folders]]\nname = \"a\"\npath = \"b\"\nusers = [\"ada\"]\n", "4:10", "called ada"),
            ("[[folders]]\nname = \"a\"\npath = \"b\"\nusers = []\n", "4:9", "at least one"),
            ("[[folders]]\nname = \"a\"\npath = \"b\"\nusers = [\n  7]\n", "5:3", "name of a user"),
            ("[[folders]]\nname = \"a\"\npath = \"b\"\n[[folders.users]]\nname = \"x\"\n", "4:1", "password"),
            (
                "[[folders]]\nname = \"a\"\npath = \"b\"\n[[folders]]\nname = \"a\"\npath = \"c\"\n",
                "5:8",
                "differ",
            ),
        ] {
            let error = parse(text).expect_err("it is wrong").to_string();
            assert!(error.starts_with(&format!("/etc/forebay/serve.toml:{place}: ")), "{text}: {error}");
            assert!(error.contains(words), "{text}: {error}");
        }
        for (folder, place, words) in [
            ("public = true\nusers = [\"ada\"]\n", "4:1", "for everybody"),
            ("users = [{ name = \"ada\", password = \"y\" }]\n", "7:19", "another user"),
            ("[[users]]\nname = \"bob\"\npassword = \"x\"\npaths = [\"a\", \"öl\"]\n", "10:15", "called öl"),
        ] {
            let text = format!("{ada}[[folders]]\nname = \"a\"\npath = \"b\"\n{folder}");
            let error = parse(&text).expect_err("it is wrong").to_string();
            assert!(error.starts_with(&format!("/etc/forebay/serve.toml:{place}: ")), "{text}: {error}");
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
