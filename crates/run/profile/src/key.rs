//! Which profiles a command has: one of the whole command line, and general ones that it shares with others.
//!
//! | level | shared by runs of the same |
//! |---|---|
//! | whole | program, arguments and working directory |
//! | subject | program and subject: the first argument that is no option |
//! | program | program |
//!
//! A run replays the most specific profile that exists, and teaches all of them. The subject is a script, a module, a
//! sub-command or a file, so no list of interpreters is needed. A rebuilt program keeps its profiles, because each file in
//! them is checked by itself.
//!
//! Names that change from run to run are one and the same in a key: numbers and random names below folders for temporary
//! files, and numbers of processes.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::path::{absolute, is_below};

/// Folders whose files have names that change from run to run.
const PASSING_FOLDERS: [&[u8]; 5] = [b"/dev/shm", b"/proc", b"/run", b"/tmp", b"/var/tmp"];
/// What stands for a passing part of a name: a byte that no argument can have.
const PLACEHOLDER: u8 = 0;
/// Letters and digits in a row that may be random: mktemp(3) has six.
const RANDOM_BYTES_MIN: usize = 6;

/// A command as it is about to be executed.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// Absolute path of the executable, symbolic links not resolved.
    pub program: &'a [u8],
    /// Without the program's own name.
    pub arguments: &'a [&'a [u8]],
    /// The working directory, absolute.
    pub directory: &'a [u8],
}

/// How much of a command line a profile is bound to; ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The program alone.
    Program,
    /// The program and the first argument that is no option.
    Subject,
    /// The whole command line and the working directory.
    Whole,
}

impl Level {
    /// From its number in the format.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Program, Self::Subject, Self::Whole].get(usize::from(number)).copied()
    }

    /// What all runs that share a profile of this level have in common of a command line, which begins with the program's name.
    #[must_use]
    pub fn common(self, command: &[Vec<u8>]) -> &[Vec<u8>] {
        let arguments: Vec<&[u8]> = command.iter().skip(1).map(Vec::as_slice).collect();
        let words = match self {
            Self::Whole => command.len(),
            Self::Subject => subject(&arguments).map_or(command.len(), |at| at + 2),
            Self::Program => 1,
        };
        command.get(..words).unwrap_or(command)
    }
}

/// What a profile is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// How much it is bound to.
    pub level: Level,
    /// SHA-256 over the level and the parts of the command that it is bound to.
    pub digest: [u8; 32],
}

impl Key {
    fn of(level: Level, parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        hash.update([level as u8]);
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self { level, digest: hash.finalize().into() }
    }

    /// The digest in hexadecimal: the name of the profile's file.
    #[must_use]
    pub fn name(&self) -> String {
        self.digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// One profile of a command, with what it may learn.
#[derive(Clone, Debug)]
pub struct Scope {
    /// What the profile is kept under.
    pub key: Key,
    /// Folders and files that belong to one run and not to what all runs share.
    left_out: BTreeSet<Vec<u8>>,
}

impl Scope {
    /// The profiles of `command`, the most specific first.
    ///
    /// `is_file` says whether a path is a regular file. It is asked at most once, for a subject without a slash.
    #[must_use]
    pub fn of(command: &Command<'_>, is_file: impl Fn(&[u8]) -> bool) -> Vec<Self> {
        let words = generalised_arguments(command.arguments);
        let directory = generalised_path(command.directory);
        let mut whole: Vec<&[u8]> = vec![command.program, &directory];
        whole.extend(words.iter().map(Vec::as_slice));
        let mut scopes = vec![Self { key: Key::of(Level::Whole, &whole), left_out: BTreeSet::new() }];
        if let Some(at) = subject(command.arguments) {
            let word = command.arguments[at];
            let path = absolute(command.directory, word);
            let is_path = word.contains(&b'/') || is_file(&path);
            let word = if is_path { generalised_path(&path) } else { words[at].clone() };
            scopes.push(Self {
                key: Key::of(Level::Subject, &[command.program, &word]),
                left_out: left_out(command, Some(path.as_slice()).filter(|_| is_path)),
            });
        }
        scopes.push(Self {
            key: Key::of(Level::Program, &[command.program]),
            left_out: left_out(command, None),
        });
        scopes
    }

    /// Whether the profile may learn of `path`. A general one leaves out what lies below the working directory or below a path
    /// among the arguments, unless its own program or subject lies there.
    #[must_use]
    pub fn admits(&self, path: &[u8]) -> bool {
        let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        self.left_out.is_empty() || !folders.chain([path]).any(|folder| self.left_out.contains(folder))
    }
}

/// Which argument is the first one that is no option.
fn subject(arguments: &[&[u8]]) -> Option<usize> {
    let first = arguments.iter().position(|argument| !is_option(argument) || *argument == b"--")?;
    let at = if arguments[first] == b"--" { first + 1 } else { first };
    (at < arguments.len()).then_some(at)
}

fn is_option(argument: &[u8]) -> bool {
    argument.first() == Some(&b'-')
}

/// The folders and files that a run names, but for those with the program or `home` in them.
fn left_out(command: &Command<'_>, home: Option<&[u8]>) -> BTreeSet<Vec<u8>> {
    let named = command.arguments.iter().filter_map(|argument| {
        let path = if is_option(argument) { option_path(argument)? } else { argument };
        Some(absolute(command.directory, path))
    });
    let all = named.chain([absolute(command.directory, b".")]);
    all.filter(|folder| {
        !is_below(command.program, folder) && !home.is_some_and(|home| is_below(home, folder))
    })
    .collect()
}

/// The path in `--option=PATH` and `-I/PATH`.
fn option_path(option: &[u8]) -> Option<&[u8]> {
    let at = |sign: u8| option.iter().position(|byte| *byte == sign);
    match (at(b'='), at(b'/')) {
        (Some(equals), slash) if slash.is_none_or(|slash| slash > equals) => option.get(equals + 1..),
        (_, slash) => option.get(slash?..),
    }
}

fn generalised_arguments(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut is_process = false;
    let general = |argument: &&[u8]| {
        let word = if std::mem::take(&mut is_process) && is_number(argument) {
            vec![PLACEHOLDER]
        } else {
            generalised_word(argument)
        };
        is_process = is_option(argument) && ends_in_pid(argument);
        word
    };
    arguments.iter().map(general).collect()
}

fn generalised_word(word: &[u8]) -> Vec<u8> {
    if let Some(equals) = word.iter().position(|byte| *byte == b'=')
        && ends_in_pid(&word[..equals])
        && is_number(&word[equals + 1..])
    {
        return [&word[..=equals], &[PLACEHOLDER]].concat();
    }
    let slash = word.iter().position(|byte| *byte == b'/').unwrap_or(word.len());
    let (head, path) = word.split_at(slash);
    [head, &generalised_path(path)].concat()
}

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

fn ends_in_pid(option: &[u8]) -> bool {
    option.len() >= 3 && option[option.len() - 3..].eq_ignore_ascii_case(b"pid")
}

/// A path whose passing names have a placeholder in place of what changes.
fn generalised_path(path: &[u8]) -> Vec<u8> {
    let Some(folder) = PASSING_FOLDERS.iter().find(|folder| is_below(path, folder)) else {
        return path.to_vec();
    };
    let (folder, mut rest) = path.split_at(folder.len());
    let mut general = folder.to_vec();
    while let Some(first) = rest.first() {
        let end = rest.iter().position(|byte| !is_of_word(*byte)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if end == 0 {
            general.push(*first);
            rest = &rest[1..];
            continue;
        }
        if is_passing(word) {
            general.push(PLACEHOLDER);
        } else {
            general.extend_from_slice(word);
        }
        rest = behind;
    }
    general
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a word below a folder for temporary files is a number or looks random: letters of both cases, letters and digits.
fn is_passing(word: &[u8]) -> bool {
    let has = |class: fn(&u8) -> bool| word.iter().any(class);
    let classes = [has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase), has(u8::is_ascii_digit)];
    let mixed = classes.into_iter().filter(|has| *has).count() >= 2;
    is_number(word) || word.len() >= RANDOM_BYTES_MIN && mixed
}
