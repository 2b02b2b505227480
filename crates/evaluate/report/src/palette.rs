//! Colours on a light and on a dark ground.

/// Name, on a light ground, on a dark one. Series are told apart with common kinds of colour blindness too; their
/// marks have shapes besides.
const COLOURS: [(&str, &str, &str); 16] = [
    ("ground", "#ffffff", "#0f1419"),
    ("raised", "#f6f8fa", "#171d24"),
    ("ink", "#1b1f24", "#e4e9ee"),
    ("faint", "#59636e", "#98a3af"),
    ("line", "#d5dbe1", "#313a44"),
    ("link", "#0a5bb5", "#6cb2ff"),
    ("good", "#17713f", "#56c988"),
    ("bad", "#b42318", "#ff8f83"),
    ("s0", "#2266b3", "#5aa7f2"),
    ("s1", "#c65312", "#f2934f"),
    ("s2", "#12806a", "#3fc0a3"),
    ("s3", "#8a3ea8", "#c78be0"),
    ("s4", "#6a737d", "#a3adb8"),
    ("s5", "#a8801a", "#dcb84f"),
    ("s6", "#b8336a", "#ee7fab"),
    ("s7", "#55701c", "#a9c566"),
];

/// As many series as have a colour of their own.
pub(crate) const SERIES_MAX: usize = 8;

/// The looks of figures, with colours as `var(--NAME)`.
pub(crate) const FIGURE_CSS: &str = include_str!("figure.css");

/// Declarations of the colours for a page that is light or dark as its reader likes.
pub(crate) fn variables() -> String {
    let each = COLOURS.iter().map(|(name, light, dark)| format!("--{name}:light-dark({light},{dark});"));
    let themes = ":root[data-theme=light]{color-scheme:light}:root[data-theme=dark]{color-scheme:dark}";
    format!(":root{{color-scheme:light dark;{}}}{themes}", each.collect::<String>())
}

/// The looks of a figure in a file of its own, for programs that know no variables.
pub(crate) fn figure_file_css() -> String {
    let with = |colour: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
        COLOURS
            .iter()
            .fold(FIGURE_CSS.to_owned(), |css, one| css.replace(&format!("var(--{})", one.0), colour(one)))
    };
    let (light, dark) = (with(|one| one.1), with(|one| one.2));
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_of_a_figure_is_known() {
        assert!(FIGURE_CSS.contains("var(--s7)"));
        assert!(!figure_file_css().contains("var("), "{}", figure_file_css());
        assert!((0..SERIES_MAX).all(|number| variables().contains(&format!("--s{number}:"))));
    }
}
