//! Plain words: no sentence that people read is too long or hides which component acts.
#![forbid(unsafe_code)]

use forebay_tidy::sources::{has_extension, text, written_files};
use forebay_tidy::words::offences;
use forebay_tidy::workspace::Workspace;

#[test]
fn sentences_are_short_and_name_what_acts() {
    let workspace = Workspace::load();
    let files = written_files(&workspace.root);
    let judged = files.iter().filter(|path| has_extension(path, &["md", "rs"]));
    let broken: Vec<String> = judged
        .flat_map(|path| {
            let name = workspace.relative(path);
            let found = offences(path, &text(path));
            found.into_iter().map(move |one| format!("{name}:{}: {}: {}", one.line, one.rule, one.sentence))
        })
        .collect();
    assert!(broken.is_empty(), "{} sentences:\n  {}", broken.len(), broken.join("\n  "));
}
