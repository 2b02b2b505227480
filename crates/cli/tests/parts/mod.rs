//! Quick runs of parts of `forebay evaluate thesis`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use forebay_results::Report;
use forebay_testkit::skip;

pub fn forebay(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).current_dir(folder).output().unwrap()
}

/// One measurement at a time: they would take each other's processors.
static TURN: Mutex<()> = Mutex::new(());
/// Other programs can take the processors for so long that a load does not end in its time.
const ATTEMPTS_MAX: u32 = 5;

/// What a quick run of `part` gives, with what it says; nothing where this machine lacks what the part takes.
pub fn quick(part: &str) -> Option<(Report, String)> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (1..=ATTEMPTS_MAX).find_map(|attempt| measured(part, attempt == ATTEMPTS_MAX)).flatten()
}

/// Nothing where a part was left out, and it is not the last attempt.
fn measured(part: &str, is_last: bool) -> Option<Option<(Report, String)>> {
    let folder = tempfile::tempdir().unwrap();
    let output =
        forebay(&["evaluate", "thesis", "--quick", "--only", part, "--json", "results"], folder.path());
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    let lacks = ["is not installed", "it needs", "need root", "needs root"];
    if let Some(why) = said.lines().find(|line| lacks.iter().any(|lack| line.contains(lack))) {
        skip(part, why);
        return Some(None);
    }
    if said.contains("Left out") && !is_last {
        return None;
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let wide = said.lines().find(|line| line.starts_with('|') && line.chars().count() > 80);
    assert_eq!(wide, None, "{said}");
    let file = folder.path().join("results").join(part).with_extension("json");
    Some(Some((serde_json::from_slice(&fs::read(file).unwrap()).unwrap(), said)))
}

/// The third cell of the line of the table that is about `what`.
pub fn here<'a>(table: &'a str, what: &str) -> &'a str {
    let line = table.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}: {table}"));
    line.split('|').nth(3).unwrap().trim()
}
