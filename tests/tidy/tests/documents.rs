//! The rules of the documents: how long pages are, that the site has all of them, and that no variable is undocumented.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use forebay_tidy::markdown;
use forebay_tidy::sources::{has_extension, text, written_files};
use forebay_tidy::workspace::Workspace;

/// The longest that a page below `docs` may be, in lines.
const PAGE_LINES_MAX: usize = 250;

/// Pages at the top, with the most lines that each may have.
const TOP_PAGES: &[(&str, usize)] = &[("README.md", 150), ("ARCHITECTURE.md", 250)];

/// The contents of the site. It is no page of it.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The page that lists every environment variable.
const ENVIRONMENT: &str = "docs/reference/environment.md";

/// Lists the measured results, with the command of each.
const RESULTS_LIST: &str = "benches/README.md";

/// Declares names for C that begin as variables do.
const HEADER: &str = "crates/share/capi/include/forebay.h";

fn pages(root: &Path) -> Vec<PathBuf> {
    written_files(&root.join("docs")).into_iter().filter(|path| has_extension(path, &["md"])).collect()
}

#[test]
fn pages_are_short_enough_to_read() {
    let workspace = Workspace::load();
    let top = TOP_PAGES.iter().map(|(page, lines_max)| (workspace.root.join(page), *lines_max));
    let below = pages(&workspace.root).into_iter().map(|path| (path, PAGE_LINES_MAX));
    let broken = top.chain(below).filter_map(|(path, lines_max)| {
        let lines = text(&path).lines().count();
        let name = workspace.relative(&path);
        (lines > lines_max).then(|| format!("{name}: {lines} lines, at most {lines_max}"))
    });
    assert_none(broken.collect());
}

#[test]
fn the_site_has_every_page_once() {
    let workspace = Workspace::load();
    let summary = workspace.root.join(SUMMARY);
    let listed: Vec<String> = markdown::links(&text(&summary)).into_iter().map(|(page, _)| page).collect();
    let once: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let mut broken = Vec::new();
    if once.len() < listed.len() {
        broken.push(format!("{SUMMARY} lists a page twice"));
    }
    for path in pages(&workspace.root).into_iter().filter(|path| *path != summary) {
        let name = workspace.relative(&path);
        if !once.contains(name.trim_start_matches("docs/")) {
            broken.push(format!("{SUMMARY} does not list {name}"));
        }
    }
    assert_none(broken);
}

#[test]
fn every_result_file_has_its_command() {
    let workspace = Workspace::load();
    let list = text(&workspace.root.join(RESULTS_LIST));
    let results = written_files(&workspace.root.join("benches/results")).into_iter();
    let names = results.filter(|path| has_extension(path, &["json"])).filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        (!list.contains(&format!("| `{name}`"))).then(|| format!("{RESULTS_LIST} does not list {name}"))
    });
    assert_none(names.collect());
}

#[test]
fn every_environment_variable_is_documented() {
    let workspace = Workspace::load();
    let documented = names(&text(&workspace.root.join(ENVIRONMENT)));
    let of_c = names(&text(&workspace.root.join(HEADER)));
    let mut broken = BTreeSet::new();
    let mut found = 0;
    for folder in ["crates", "tests"] {
        let files = written_files(&workspace.root.join(folder)).into_iter();
        for path in files.filter(|path| has_extension(path, &["rs", "c", "py", "sh"])) {
            for name in names(&text(&path)).difference(&of_c) {
                found += 1;
                if !is_documented(name, &documented) {
                    broken.insert(format!("{}: {name} is not in {ENVIRONMENT}", workspace.relative(&path)));
                }
            }
        }
    }
    assert!(found > 20, "only {found} variables were found in the sources");
    assert_none(broken.into_iter().collect());
}

/// Whether a variable is documented, or a prefix of variables is; a prefix in the page stands for all that begin so.
fn is_documented(name: &str, documented: &BTreeSet<String>) -> bool {
    let is_prefix_of = |prefix: &str, name: &str| prefix.ends_with('_') && name.starts_with(prefix);
    documented.iter().any(|one| one == name || is_prefix_of(one, name) || is_prefix_of(name, one))
}

/// The names of variables in a text, and their prefixes: `FOREBAY_`, and capitals, digits and underscores after it.
fn names(text: &str) -> BTreeSet<String> {
    // Put together here, so that this file has no such name itself.
    let prefix = ["FOREBAY", "_"].concat();
    let is_part = |sign: char| sign.is_ascii_uppercase() || sign.is_ascii_digit() || sign == '_';
    let found = text.match_indices(&prefix).map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|sign| !is_part(sign)).unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    found.filter(|name| name.len() > prefix.len()).collect()
}

#[test]
fn names_of_variables_end_where_they_end() {
    let text = ["let a = FOREBAY", "_A_B1; FOREBAY", "_C=2 FOREBAY", "_", "{x} FOREBAY", "_D_{y}"].concat();
    let found: Vec<String> = names(&text).into_iter().collect();
    assert_eq!(found, ["_A_B1", "_C", "_D_"].map(|rest| ["FOREBAY", rest].concat()));
}

#[test]
fn a_prefix_stands_for_the_variables_that_begin_so() {
    let documented: BTreeSet<String> = ["X_OLD_", "X_NEW_A"].map(String::from).into();
    for (name, expected) in
        [("X_OLD_B", true), ("X_NEW_A", true), ("X_NEW_", true), ("X_NEW_AB", false), ("X_NEW", false)]
    {
        assert_eq!(is_documented(name, &documented), expected, "{name}");
    }
}

/// Each line of the tables of invariants names the tests that hold it.
#[test]
fn invariants_name_tests_that_there_are() {
    let workspace = Workspace::load();
    let sources =
        written_files(&workspace.root).into_iter().filter(|path| has_extension(path, &["rs", "py"]));
    let sources: Vec<String> = sources.map(|path| text(&path)).collect();
    let there_is = |test: &str| {
        let defined = [format!("fn {test}("), format!("def {test}(")];
        sources.iter().any(|source| defined.iter().any(|defined| source.contains(defined)))
    };
    let page = text(&workspace.root.join("ARCHITECTURE.md"));
    let holders = page.split("| held by |").skip(1).flat_map(|table| {
        let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
        rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next())
    });
    let named: BTreeSet<&str> = holders
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|name| name.contains('_'))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    let broken = named.into_iter().filter(|test| !there_is(test));
    assert_none(broken.map(|test| format!("ARCHITECTURE.md names {test}, which is no test")).collect());
}

#[track_caller]
fn assert_none(broken: Vec<String>) {
    assert!(broken.is_empty(), "{} times:\n  {}", broken.len(), broken.join("\n  "));
}
