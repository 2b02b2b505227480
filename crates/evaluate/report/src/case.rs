//! What the parts of a case say: words, or amounts that can be put on an axis.

/// A part of a case, between slashes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part<'a> {
    /// A side, a disk, a processor.
    Word(&'a str),
    /// A number of something, such as `10 MiB`, `16 views`, `stride 8`, `views=8`.
    Amount {
        /// What it is a number of; empty where only a unit tells.
        name: &'a str,
        /// Unit of `value`: `B`, `s`, `bit/s`, or as it was written.
        unit: &'a str,
        value: f64,
    },
}

/// Units of one kind: as written, the one that stands for all of them, and how many of it.
const UNITS: [(&str, &str, f64); 18] = [
    ("B", "B", 1.0),
    ("kB", "B", 1e3),
    ("KB", "B", 1e3),
    ("MB", "B", 1e6),
    ("GB", "B", 1e9),
    ("KiB", "B", 1024.0),
    ("MiB", "B", 1_048_576.0),
    ("GiB", "B", 1_073_741_824.0),
    ("ns", "s", 1e-9),
    ("us", "s", 1e-6),
    ("ms", "s", 1e-3),
    ("s", "s", 1.0),
    ("bit/s", "bit/s", 1.0),
    ("kbit/s", "bit/s", 1e3),
    ("Mbit/s", "bit/s", 1e6),
    ("Gbit/s", "bit/s", 1e9),
    ("%", "%", 1.0),
    ("", "", 1.0),
];

/// The parts of `case`.
pub(crate) fn parts(case: &str) -> Vec<Part<'_>> {
    // A unit may have a slash of its own.
    let mut parts = Vec::new();
    let mut rest = case;
    loop {
        let mut end = rest.find('/').unwrap_or(rest.len());
        if rest[..end].ends_with("bit") && (rest[end..] == *"/s" || rest[end..].starts_with("/s/")) {
            end += 2;
        }
        parts.push(part(&rest[..end]));
        match rest.get(end + 1..) {
            Some(after) => rest = after,
            None => return parts,
        }
    }
}

/// The name of one thing: `process` for `processes` and for `process`.
pub(crate) fn singular(name: &str) -> &str {
    match name.strip_suffix("es").filter(|stem| stem.ends_with("ss")) {
        Some(stem) => stem,
        None if name.ends_with("ss") => name,
        None => name.strip_suffix('s').unwrap_or(name),
    }
}

fn part(text: &str) -> Part<'_> {
    amount(text).unwrap_or(Part::Word(text))
}

fn amount(text: &str) -> Option<Part<'_>> {
    let named = text.split_once('=').or_else(|| {
        let number = text.find(|char: char| char.is_ascii_digit())?;
        (number > 0).then(|| text[..number].strip_suffix(' ').map(|name| (name, &text[number..])))?
    });
    let (name, number) = named.unwrap_or(("", text));
    // Proper names have numbers of their own: `Pentium 4`; and several words apart are no name of an amount.
    if name.starts_with(char::is_uppercase) || name.contains(',') {
        return None;
    }
    let (number, written) = number.split_once(' ').unwrap_or((number, ""));
    let number = number.replace(',', "");
    let digits = number.starts_with(|char: char| char.is_ascii_digit());
    let value: f64 = number.parse().ok().filter(|_| digits)?;
    if written.contains(' ') {
        return None;
    }
    let known = UNITS.iter().find(|(unit, ..)| *unit == written);
    Some(match known {
        Some((_, unit, factor)) => Part::Amount { name, unit, value: value * factor },
        None if name.is_empty() => Part::Amount { name: written, unit: "", value },
        None => Part::Amount { name, unit: written, value },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(name: &'static str, unit: &'static str, value: f64) -> Part<'static> {
        Part::Amount { name, unit, value }
    }

    #[test]
    fn numbers_with_units_or_names_are_amounts() {
        assert_eq!(parts("10 MiB"), [amount("", "B", 10.0 * 1_048_576.0)]);
        assert_eq!(parts("128 B/shm"), [amount("", "B", 128.0), Part::Word("shm")]);
        assert_eq!(parts("16 views/1,024 KiB"), [amount("views", "", 16.0), amount("", "B", 1_048_576.0)]);
        assert_eq!(parts("load/stride 8"), [Part::Word("load"), amount("stride", "", 8.0)]);
        assert_eq!(parts("views=8"), [amount("views", "", 8.0)]);
        assert_eq!(parts("working set 16 KiB"), [amount("working set", "B", 16_384.0)]);
        assert_eq!(parts("4 Mbit/s/one medium"), [amount("", "bit/s", 4e6), Part::Word("one medium")]);
        assert_eq!(parts("56 kbit/s"), [amount("", "bit/s", 56e3)]);
    }

    #[test]
    fn one_and_several_have_the_same_name() {
        let all = ["process", "processes", "hosts", "host", "views", "stride", ""].map(singular);
        assert_eq!(all, ["process", "process", "host", "host", "view", "stride", ""]);
    }

    #[test]
    fn names_with_digits_are_words() {
        for name in [
            "64 MiB in all",
            "minor, anonymous, 2 MiB",
            "raid-12ms-q4",
            "ssd-1ms-q128",
            "Pentium 4",
            "RTP v2x",
            "",
            "nan",
            "inf",
            "a b",
        ] {
            assert_eq!(parts(name), [Part::Word(name)]);
        }
        assert_eq!(parts("x/"), [Part::Word("x"), Part::Word("")]);
    }
}
