//! Fixed sleeps in tests: those that are not the pause between two looks of a loop.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tokens::only_tests;

/// Lines (from 1) of `text` with a call of `sleep` outside of every loop. With `whole_file`, all of the file is tests, else
/// only what `#[cfg(test)]` stands before.
///
/// # Errors
///
/// With the position, where the text is not made of Rust tokens.
pub fn fixed_sleeps(text: &str, whole_file: bool) -> Result<Vec<usize>, String> {
    let tokens: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| error.to_string())?;
    let mut lines = Vec::new();
    let tests = if whole_file { tokens } else { only_tests(tokens) };
    walk(tests, false, &mut lines);
    Ok(lines)
}

fn walk(tokens: TokenStream, in_loop: bool, lines: &mut Vec<usize>) {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    // Whether the next braces are a loop's body, and whether a `for` belongs to an `impl`.
    let (mut begins_loop, mut in_impl) = (false, false);
    for (at, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(word) if word == "impl" => in_impl = true,
            TokenTree::Ident(word) if word == "for" && in_impl => {}
            TokenTree::Ident(word) if word == "loop" || word == "while" || word == "for" => {
                begins_loop = true
            }
            TokenTree::Ident(word) if word == "sleep" => {
                let is_call = matches!(trees.get(at + 1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                if is_call && !in_loop {
                    lines.push(word.span().start().line);
                }
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                walk(group.stream(), in_loop || begins_loop, lines);
                (begins_loop, in_impl) = (false, false);
            }
            TokenTree::Group(group) => walk(group.stream(), in_loop, lines),
            TokenTree::Punct(sign) if sign.as_char() == ';' => (begins_loop, in_impl) = (false, false),
            TokenTree::Punct(_) | TokenTree::Literal(_) | TokenTree::Ident(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_in_a_loop_is_a_poll_and_another_one_a_fixed_sleep() {
        let text = "impl A for B {\n fn f() {\n sleep(T);\n while !done() { thread::sleep(T); }\n loop { if a { sleep(T) } }\n thread::sleep(T)\n } }";
        assert_eq!(fixed_sleeps(text, true), Ok(vec![3, 6]));
    }

    #[test]
    fn product_code_is_left_out() {
        let text =
            "fn f() { sleep(T); }\n#[cfg(test)]\nmod tests {\n fn g() { sleep(T); }\n}\nfn h() { sleep(T) }";
        assert_eq!(fixed_sleeps(text, false), Ok(vec![4]));
    }
}
