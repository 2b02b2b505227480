//! Plain words: finds sentences that are too long, and habits of wording that hide which component acts.
//!
//! Judged is what people read: Markdown pages, module heads (`//!`), the help of commands, and texts of errors.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::sources::has_extension;

/// The longest sentence, in words.
pub const WORDS_MAX: usize = 30;

/// A sentence that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// The line where the sentence begins, from 1.
    pub line: usize,
    /// Which rule.
    pub rule: &'static str,
    /// The sentence.
    pub sentence: String,
}

/// Each habit with the pattern that shows it.
static HABITS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    const VERBS: &str = "wait|sleep|run|go|come|start|stop|end|take|taken|give|do|done|be|read|send|sent|write|\
        written|look|looked|tell|told|say|said|serve|served|make|made|meet|fault|fork|forked|fetch|fetched|follow|\
        put|set|ask|asked|find|know|invalidated|carried|handed|counted|measured";
    let habits = [
        ("names no component", r"(?i)\b(nobody|somebody|whoever|no one)\b".to_owned()),
        ("names no component", r"(^|[.:;,] )[Ww]ho\b[^?]*$|\b(for|of|by|to|from|with|than|but|as) who\b".to_owned()),
        (
            "causative",
            format!(r"\b(has|have|had|having) (it|them|itself|others|all( other)?( \w+s)?|each|every \w+|an? \w+|the \w+( \w+)?|its \w+|\w+s) ({VERBS})\b"),
        ),
        ("come to", r"(?i)\b(come|comes|came|coming) to\b".to_owned()),
        ("inverted", r"\b[Oo]f (what|which|that|these|those|it|them|\w+s?) (it|they) (know|knows|has|have|take|takes|need|needs|see|sees)\b".to_owned()),
        ("chain of pronouns", r"\b(those|that|which|what) (it|they|them) \w+( \w+){0,4} (of|from|to|for) (them|it|those|these)\b".to_owned()),
        ("history", r"(^|[.:;] )(Before|Until now|Formerly|Previously|So far), |\b(formerly|any more|anymore)\b".to_owned()),
    ];
    let compiled = habits.into_iter().map(|(rule, pattern)| {
        (rule, Regex::new(&pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")))
    });
    compiled.collect()
});

/// What breaks the rules in the file `path` with this `text`; nothing for kinds of files that are not judged.
#[must_use]
pub fn offences(path: &Path, text: &str) -> Vec<Offence> {
    let blocks = if has_extension(path, &["md"]) {
        markdown_blocks(
            &text.lines().zip(1..).map(|(line, number)| (line.to_owned(), number)).collect::<Vec<_>>(),
        )
    } else if has_extension(path, &["rs"]) {
        rust_blocks(path, text)
    } else {
        Vec::new()
    };
    blocks.into_iter().flat_map(|(block, line)| judged(&block, line)).collect()
}

fn judged(block: &str, line: usize) -> Vec<Offence> {
    let mut found = Vec::new();
    for sentence in sentences(block) {
        let mut add = |rule| found.push(Offence { line, rule, sentence: sentence.clone() });
        if sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
            > WORDS_MAX
        {
            add("too long");
        }
        for (rule, pattern) in HABITS.iter() {
            if pattern.is_match(&sentence) {
                add(rule);
            }
        }
    }
    found
}

/// The sentences of a paragraph: a full stop, question or exclamation mark ends one where a capital or nothing follows.
fn sentences(block: &str) -> Vec<String> {
    static END: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"[.?!][)"'*_]*\s+(?:[A-Z`"'(\[*_0-9-]|$)"#).expect("a pattern"));
    let mut rest = block.trim();
    let mut all = Vec::new();
    while let Some(end) = END.find(rest) {
        // The sign that opens the next sentence stays with it.
        let next = rest[..end.end()]
            .char_indices()
            .next_back()
            .map_or(end.end(), |(at, sign)| if sign.is_whitespace() { end.end() } else { at });
        let sentence = rest[..next].trim();
        rest = &rest[next..];
        let abbreviated = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "No.", "St."]
            .iter()
            .any(|short| sentence.ends_with(short));
        if abbreviated {
            let joined = format!("{sentence} {rest}");
            let mut others = sentences_after(&joined, sentence.len() + 1);
            all.append(&mut others);
            return all;
        }
        all.push(sentence.to_owned());
    }
    if !rest.trim().is_empty() {
        all.push(rest.trim().to_owned());
    }
    all
}

/// As [`sentences`], where the first one ends after byte `from` at the earliest.
fn sentences_after(block: &str, from: usize) -> Vec<String> {
    let mut later = sentences(&block[from..]);
    match later.first_mut() {
        Some(first) => *first = format!("{}{first}", &block[..from]),
        None => later.push(block.to_owned()),
    }
    later
}

/// The paragraphs, list items and table cells of Markdown, code as one word each, with the lines where they begin.
fn markdown_blocks(lines: &[(String, usize)]) -> Vec<(String, usize)> {
    static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`+[^`]*`+").expect("a pattern"));
    static LINK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])?").expect("a pattern"));
    static ITEM: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\s*([-*+]|\d+\.)\s").expect("a pattern"));
    let mut blocks: Vec<(String, usize)> = Vec::new();
    let mut open = false;
    let mut fenced = false;
    for (line, number) in lines {
        let text = line.trim();
        if text.starts_with("```") || text.starts_with("~~~") {
            fenced = !fenced;
            open = false;
            continue;
        }
        if fenced || text.is_empty() || text.starts_with("<!--") {
            open = false;
            continue;
        }
        if text.starts_with('|') {
            blocks.extend(
                text.split('|').filter(|cell| !cell.trim().is_empty()).map(|cell| (cell.to_owned(), *number)),
            );
            open = false;
            continue;
        }
        let is_heading = text.starts_with('#') || text.starts_with('>') && text.len() == 1;
        if is_heading || ITEM.is_match(line) || !open {
            blocks.push((ITEM.replace(line, "").trim().to_owned(), *number));
            open = !is_heading;
        } else if let Some((block, _)) = blocks.last_mut() {
            block.push(' ');
            block.push_str(text);
        }
    }
    for (block, _) in &mut blocks {
        *block = LINK.replace_all(&CODE.replace_all(block, "C"), "$1").into_owned();
    }
    blocks
}

/// Module heads; in a file of the command's options also what is printed as help; texts of errors.
fn rust_blocks(path: &Path, text: &str) -> Vec<(String, usize)> {
    let lines = || text.lines().zip(1..);
    let part = |mark: &str| -> Vec<(String, usize)> {
        let mut found = Vec::new();
        for (line, number) in lines() {
            let Some(doc) = line.trim_start().strip_prefix(mark) else {
                found.push((String::new(), number));
                continue;
            };
            found.push((doc.strip_prefix(' ').unwrap_or(doc).to_owned(), number));
        }
        found
    };
    let mut blocks = markdown_blocks(&part("//!"));
    let is_options = path.components().any(|part| part.as_os_str() == "args");
    if is_options {
        blocks.extend(markdown_blocks(&part("///")));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if is_options || name == "error.rs" || text.contains("#[error(") {
        let all = is_options || name == "error.rs";
        blocks.extend(literals(text).into_iter().filter(|(_, _, is_error)| all || *is_error).flat_map(
            |(text, line, _)| {
                // Indented lines of a help are command lines.
                let prose = |part: &str| if part.starts_with("  ") { String::new() } else { part.to_owned() };
                let lines: Vec<_> = text.lines().map(|part| (prose(part), line)).collect();
                markdown_blocks(&lines)
            },
        ));
    }
    blocks
}

/// String literals that say a sentence, with their lines, and whether they are an error's text. Tests are left out.
fn literals(text: &str) -> Vec<(String, usize, bool)> {
    static LITERAL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?s)"((?:[^"\\]|\\.)*)""#).expect("a pattern"));
    static JOINED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").expect("a pattern"));
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    let mut found = Vec::new();
    for literal in LITERAL.captures_iter(&text[..end]) {
        let (Some(whole), Some(inner)) = (literal.get(0), literal.get(1)) else { continue };
        let line_start = text[..whole.start()].rfind('\n').map_or(0, |at| at + 1);
        let before = &text[line_start..whole.start()];
        if before.trim_start().starts_with("//") || inner.as_str().split_whitespace().count() < 4 {
            continue;
        }
        let line = text[..whole.start()].matches('\n').count() + 1;
        let is_error = text[..whole.start()].trim_end().ends_with("#[error(");
        found.push((
            JOINED.replace_all(inner.as_str(), "").replace("\\n", "\n").replace("\\\"", "'"),
            line,
            is_error,
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<&'static str> {
        offences(Path::new("page.md"), text).into_iter().map(|offence| offence.rule).collect()
    }

    #[test]
    fn each_habit_is_found() {
        assert_eq!(rules("Nobody waits for it."), ["names no component"]);
        assert_eq!(rules("The server forgets it. Who comes late is refused."), ["names no component"]);
        assert_eq!(rules("The manager has all other copies invalidated."), ["causative"]);
        assert_eq!(rules("The program has it wait for the disk."), ["causative"]);
        assert_eq!(rules("The reader comes to the page later."), ["come to"]);
        assert_eq!(rules("Of streams it knows the rate."), ["inverted"]);
        assert_eq!(rules("Before, a program took twice its time."), ["history"]);
    }

    #[test]
    fn plain_sentences_pass() {
        let page = "# The agent\n\nThe agent forks the speculator at a stall. Before the fork, the agent reads `who comes to`.\n\n\
                    | nobody's table | fine |\n";
        assert_eq!(rules(&page.replace("nobody's", "a")), [""; 0]);
    }

    #[test]
    fn a_sentence_of_thirty_one_words_is_too_long_wherever_its_lines_break() {
        let words = |count| (0..count).map(|_| "word").collect::<Vec<_>>().join("\n");
        assert_eq!(rules(&format!("{}.", words(WORDS_MAX))), [""; 0]);
        assert_eq!(rules(&format!("{}.", words(WORDS_MAX + 1))), ["too long"]);
        assert_eq!(rules(&format!("{}. Word {}.", words(16), words(16))), [""; 0]);
    }

    #[test]
    fn code_is_one_word_and_fences_are_not_read() {
        assert_eq!(rules("See `nobody comes to it`.\n\n```\nNobody comes to it.\n```\n"), [""; 0]);
    }

    #[test]
    fn of_rust_the_heads_and_texts_of_errors_are_read() {
        let file = "//! Nobody waits.\n\n/// Nobody.\nfn f() {}\n#[error(\"nobody came to the barrier\")]\n";
        let found = offences(Path::new("src/x.rs"), file);
        let found: Vec<_> = found.iter().map(|offence| (offence.line, offence.rule)).collect();
        assert_eq!(found, [(1, "names no component"), (5, "names no component"), (5, "come to")]);
    }
}
