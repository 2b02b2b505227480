//! Rust source as tokens, so that comments and strings are never mistaken for code.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// What the rules ask of one Rust file.
pub struct RustFile {
    tokens: TokenStream,
}

impl RustFile {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// With the position, where the text is not made of Rust tokens.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(tokens) => Ok(Self { tokens }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The lines (from 1) on which `word` stands as a keyword or name.
    pub fn lines_of_word(&self, word: &str) -> Vec<usize> {
        let mut lines = Vec::new();
        each_word(&self.tokens, &mut |found, line| {
            if found == word {
                lines.push(line);
            }
        });
        lines
    }

    /// Whether the file opens with `#![level(lint)]` among its inner attributes.
    pub fn has_inner_attribute(&self, level: &str, lint: &str) -> bool {
        let tokens: Vec<TokenTree> = self.tokens.clone().into_iter().collect();
        tokens.windows(3).any(|three| {
            is_punct(&three[0], '#') && is_punct(&three[1], '!') && bracket_says(&three[2], level, lint)
        })
    }

    /// The names of the modules that the file declares, inline or in a file of their own.
    pub fn modules(&self) -> Vec<String> {
        let mut words = Vec::new();
        each_word(&self.tokens, &mut |word, _| words.push(word.to_owned()));
        words.windows(2).filter(|two| two[0] == "mod").map(|two| two[1].clone()).collect()
    }

    /// Every module of the standard library that code outside `#[cfg(test)]` names, with its line: `std::fs::read`
    /// and `use std::{fs, io::Read}` both name `fs`. A name brought in by `use std::fs as files` is found where it
    /// is brought in.
    pub fn std_modules(&self) -> Vec<(String, usize)> {
        self.names_below("std")
    }

    /// The same for the modules at the top of the file's own crate.
    pub fn crate_modules(&self) -> Vec<(String, usize)> {
        self.names_below("crate")
    }

    fn names_below(&self, root: &str) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        names_below_in(root, self.tokens.clone(), &mut found);
        found
    }
}

fn each_word(tokens: &TokenStream, visit: &mut dyn FnMut(&str, usize)) {
    for tree in tokens.clone() {
        match tree {
            TokenTree::Ident(ident) => visit(&ident.to_string(), ident.span().start().line),
            TokenTree::Group(group) => each_word(&group.stream(), visit),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn is_punct(tree: &TokenTree, sign: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == sign)
}

fn bracket_says(tree: &TokenTree, level: &str, lint: &str) -> bool {
    let TokenTree::Group(attribute) = tree else { return false };
    let mut words = Vec::new();
    each_word(&attribute.stream(), &mut |word, _| words.push(word.to_owned()));
    attribute.delimiter() == Delimiter::Bracket
        && words.first().is_some_and(|first| first == level)
        && words[1..].iter().any(|word| word == lint)
}

fn names_below_in(root: &str, tokens: TokenStream, found: &mut Vec<(String, usize)>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        if is_punct(&trees[at], '#')
            && trees.get(at + 1).is_some_and(|next| bracket_says(next, "cfg", "test"))
        {
            at = after_item(&trees, at + 2);
            continue;
        }
        match &trees[at] {
            TokenTree::Ident(ident) if ident == root && follows_path_sign(&trees, at + 1) => {
                if let Some(next) = trees.get(at + 3) {
                    first_names(next, found);
                }
                at += 3;
            }
            TokenTree::Group(group) => {
                names_below_in(root, group.stream(), found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// What `#[cfg(test)]` stands before, at any depth.
pub(crate) fn only_tests(tokens: TokenStream) -> TokenStream {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = TokenStream::new();
    let mut at = 0;
    while at < trees.len() {
        if is_punct(&trees[at], '#')
            && trees.get(at + 1).is_some_and(|next| bracket_says(next, "cfg", "test"))
        {
            let end = after_item(&trees, at + 2);
            found.extend(trees[at + 2..end].iter().cloned());
            at = end;
            continue;
        }
        if let TokenTree::Group(group) = &trees[at] {
            found.extend(only_tests(group.stream()));
        }
        at += 1;
    }
    found
}

/// The place after the item that starts at `at`: it ends with a semicolon or with its braces.
fn after_item(trees: &[TokenTree], mut at: usize) -> usize {
    while let Some(tree) = trees.get(at) {
        at += 1;
        let braces = matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if braces || is_punct(tree, ';') {
            break;
        }
    }
    at
}

fn follows_path_sign(trees: &[TokenTree], at: usize) -> bool {
    let colon = |at: usize| trees.get(at).is_some_and(|tree| is_punct(tree, ':'));
    colon(at) && colon(at + 1)
}

/// The first name of each path in `tree`, which is what follows the root and its `::`: one name, or a braced list of paths.
fn first_names(tree: &TokenTree, found: &mut Vec<(String, usize)>) {
    match tree {
        TokenTree::Ident(ident) => found.push((ident.to_string(), ident.span().start().line)),
        TokenTree::Group(group) => {
            let mut starts_path = true;
            for inner in group.stream() {
                if starts_path {
                    first_names(&inner, found);
                }
                starts_path = is_punct(&inner, ',');
            }
        }
        TokenTree::Punct(_) | TokenTree::Literal(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn std_modules(text: &str) -> Vec<(String, usize)> {
        RustFile::parse(text).unwrap().std_modules()
    }

    #[test]
    fn words_in_comments_and_strings_are_not_code() {
        let file =
            RustFile::parse("// unsafe\nfn f() -> &'static str {\n    \"unsafe\"\n}\nunsafe fn g() {}\n")
                .unwrap();
        assert_eq!(file.lines_of_word("unsafe"), [5]);
    }

    #[test]
    fn std_paths_are_found_alone_and_in_lists() {
        let text = "use std::{fs, io::Read as _, collections::{BTreeMap, btree_map}};\nfn f() { ::std::net::lookup() }";
        let found = [("fs", 1), ("io", 1), ("collections", 1), ("net", 2)];
        assert_eq!(std_modules(text), found.map(|(name, line)| (name.to_owned(), line)));
    }

    #[test]
    fn what_only_tests_compile_is_left_out() {
        let text =
            "#[cfg(test)]\nmod tests { use std::fs; }\n#[cfg(test)]\nuse std::io;\nuse std::time::Instant;";
        assert_eq!(std_modules(text), [("time".to_owned(), 5)]);
    }

    #[test]
    fn inner_attributes_and_modules_are_read() {
        let file =
            RustFile::parse("#![no_std]\n#![forbid(unsafe_code)]\npub mod a;\nmod b { mod c {} }").unwrap();
        assert!(file.has_inner_attribute("forbid", "unsafe_code"));
        assert!(!file.has_inner_attribute("deny", "unsafe_code"));
        assert_eq!(file.modules(), ["a", "b", "c"]);
    }
}
