//! How the agent's source is built: no circle of modules, and no exclusive reference that lasts for ever.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use forebay_tidy::sources::{has_extension, text, written_files};
use forebay_tidy::tokens::RustFile;
use forebay_tidy::workspace::Workspace;

const AGENT: &str = "crates/run/agent/src";

type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_of_the_agent_form_no_circle() {
    let workspace = Workspace::load();
    let source = workspace.root.join(AGENT);
    let mut uses = Uses::new();
    for path in written_files(&source).into_iter().filter(|path| has_extension(path, &["rs"])) {
        let inner = path.strip_prefix(&source).expect("below the source");
        let first = inner.iter().next().and_then(|part| part.to_str()).expect("a name");
        let module = first.trim_end_matches(".rs").to_owned();
        let file =
            RustFile::parse(&text(&path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let named = file.crate_modules().into_iter().map(|(name, _)| name).filter(|name| *name != module);
        uses.entry(module.clone()).or_default().extend(named);
    }
    assert!(uses.len() > 10, "modules are found: {uses:?}");
    assert_eq!(circle(&uses), None);
}

/// Modules of which each uses the next, and the last one the first.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    let mut left: BTreeSet<&String> = uses.keys().collect();
    // A module that uses none of those left is in no circle of theirs.
    while let Some(leaf) = left.iter().copied().find(|module| uses[*module].is_disjoint(&owned(&left))) {
        left.remove(leaf);
    }
    let mut way = vec![(*left.first()?).clone()];
    loop {
        let next = uses[way.last()?].iter().find(|module| left.contains(module))?.clone();
        if let Some(start) = way.iter().position(|module| *module == next) {
            return Some(way.split_off(start));
        }
        way.push(next);
    }
}

fn owned(names: &BTreeSet<&String>) -> BTreeSet<String> {
    names.iter().copied().cloned().collect()
}

#[test]
fn a_circle_is_found() {
    let uses = |edges: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in edges {
            uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            uses.entry((*to).to_owned()).or_default();
        }
        uses
    };
    assert_eq!(circle(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = circle(&uses(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
    assert_eq!(found, Some(vec!["b".to_owned(), "c".to_owned()]));
}

#[test]
fn no_lint_against_exclusive_references_of_shared_ones_is_off() {
    let lint = ["mut", "from", "ref"].join("_");
    let workspace = Workspace::load();
    let sources = written_files(&workspace.root).into_iter().filter(|path| has_extension(path, &["rs"]));
    let broken: Vec<_> = sources.filter(|path| text(path).contains(&lint)).collect();
    assert!(broken.is_empty(), "{lint}: {broken:?}");
}

/// State that is reached from a static is taken from a guard, and passed down.
#[test]
fn no_exclusive_reference_of_the_agent_lasts_for_ever() {
    let workspace = Workspace::load();
    let source = workspace.root.join(AGENT);
    let mut broken = Vec::new();
    for path in written_files(&source).into_iter().filter(|path| has_extension(path, &["rs"])) {
        for (line, number) in text(&path).lines().zip(1..) {
            let code = line.split("//").next().unwrap_or_default();
            if code.contains("&'static mut") {
                broken.push(format!("{}:{number}: {}", workspace.relative(&path), line.trim()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
