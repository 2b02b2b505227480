//! The command lines of the corpus, by what kind of program they are. None has anything to do with how forebay works.

mod build;
mod databases;
mod files;
mod history;
mod interpreters;
mod media;
mod science;

use super::case::{Case, Need};

/// All, in the order in which they are measured.
pub fn all() -> &'static [Case] {
    static ALL: std::sync::LazyLock<Vec<Case>> = std::sync::LazyLock::new(|| {
        let groups: [&[Case]; 7] = [
            files::CASES,
            history::CASES,
            build::CASES,
            interpreters::CASES,
            databases::CASES,
            science::CASES,
            media::CASES,
        ];
        groups.concat()
    });
    &ALL
}

const COREUTILS: Need = Need::Debian("coreutils", "cat");
const SHELL: Need = Need::Debian("dash", "sh");
const GREP: Need = Need::Debian("grep", "grep");
const GAWK: Need = Need::Debian("gawk", "gawk");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::run::corpus::case::Kind;

    #[test]
    fn the_corpus_is_large_and_has_every_kind() {
        let names: BTreeSet<&str> = all().iter().map(|case| case.name).collect();
        assert!(names.len() >= 60, "{} command lines", names.len());
        assert_eq!(names.len(), all().len(), "two have one name");
        let kinds: BTreeSet<Kind> = all().iter().map(|case| case.kind).collect();
        assert_eq!(kinds, Kind::ALL.into_iter().collect());
    }

    #[test]
    fn names_are_words_that_fit_a_table() {
        let is_plain = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '-';
        for case in all() {
            assert!(case.name.chars().all(is_plain) && case.name.len() <= 20, "{}", case.name);
            assert!(!case.command.is_empty() && !case.needs.is_empty(), "{}", case.name);
        }
    }

    #[test]
    fn what_is_written_lies_among_the_data() {
        for case in all() {
            let inside = |name: &&str| !name.starts_with('/') && !name.contains("..") && !name.is_empty();
            assert!(case.writes.iter().all(inside), "{}", case.name);
        }
    }
}
