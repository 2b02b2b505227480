//! Lists what in the given files and folders breaks the rules of plain words: `cargo run -p forebay-tidy --example words -- docs`.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_tidy::sources::{text, written_files};
use forebay_tidy::words::offences;

fn main() -> ExitCode {
    let mut count = 0;
    for argument in std::env::args().skip(1).map(PathBuf::from) {
        let files = if argument.is_dir() { written_files(&argument) } else { vec![argument] };
        count += files.iter().map(|path| list(path)).sum::<usize>();
    }
    println!("{count} sentences break a rule");
    if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn list(path: &Path) -> usize {
    if !["md", "rs"].iter().any(|kind| path.extension().is_some_and(|found| found == *kind)) {
        return 0;
    }
    let found = offences(path, &text(path));
    for offence in &found {
        println!("{}:{}: {}: {}", path.display(), offence.line, offence.rule, offence.sentence);
    }
    found.len()
}
