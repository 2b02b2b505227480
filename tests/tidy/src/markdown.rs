//! Links and headings of Markdown pages.

/// The targets of the links in a page, with their lines (from 1). Code, fenced or in line, has no links.
pub fn links(page: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (line, number) in prose(page) {
        let line = without_code(line);
        let inline =
            line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for target in inline.chain(definition(&line)) {
            // A title may follow the target.
            found.extend(target.split_whitespace().next().map(|target| (target.to_owned(), number)));
        }
    }
    found
}

/// The line with the text between back quotes blanked, so that a link's text may be code and code is no link.
fn without_code(line: &str) -> String {
    let mut in_code = false;
    line.chars()
        .map(|sign| {
            in_code ^= sign == '`';
            if in_code { '`' } else { sign }
        })
        .collect()
}

/// The anchors that a page's headings make: lower case, spaces to hyphens, other signs dropped.
pub fn anchors(page: &str) -> Vec<String> {
    prose(page)
        .filter(|(line, _)| line.starts_with('#'))
        .map(|(line, _)| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            heading
                .chars()
                .filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign))
                .map(|sign| if sign == ' ' { '-' } else { sign })
                .collect()
        })
        .collect()
}

/// `[name]: target`
fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.strip_prefix('[')?.split_once("]: ")?;
    (!name.contains(']')).then_some(target)
}

fn prose(page: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut fenced = false;
    page.lines().zip(1..).filter(move |(line, _)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_not_links() {
        let page = "see [a](A.md#part) and [`b`](b.rs)\n```\n[c](c.md)\n```\n`[d](d.md)`\n[e]: E.md\n";
        let found = [("A.md#part", 1), ("b.rs", 1), ("E.md", 6)];
        assert_eq!(links(page), found.map(|(target, line)| (target.to_owned(), line)));
    }

    #[test]
    fn headings_make_anchors() {
        assert_eq!(
            anchors("# The life of a stall\n```\n# no\n```\n## `run`, told\n"),
            ["the-life-of-a-stall", "run-told"]
        );
    }
}
