//! Levels that the command line gives instead of those of the file.

use serde::Deserialize;

use super::{Description, Error};

/// Factors of each section, which have levels.
const WEB: [&str; 5] = ["servers", "document", "clients", "rate", "memory"];
const STREAMING: [&str; 5] = ["servers", "bitrate", "clients", "media", "memory"];
const ROUTER: [&str; 2] = ["layout", "message"];
pub(super) const ANY: [&str; 3] = ["clients", "rate", "memory"];

/// The experiment of `text` with other levels (`--set`).
pub(super) fn with(text: &str, set: &[String]) -> Result<Description, Error> {
    let mut table: toml::Table = toml::from_str(text)?;
    let described = Description::deserialize(table.clone())?;
    let own = described.any.as_ref().map(|any| &any.factors);
    for what in set {
        let wrong = |why: String| Error::Set { what: what.clone(), why };
        let (name, levels) =
            what.split_once('=').ok_or_else(|| wrong("give NAME=LEVEL or NAME=LEVEL,LEVEL".into()))?;
        // A factor of one's own is text for the command lines.
        let own = match name.strip_prefix("factors.") {
            Some(name) if own.is_some() => Some(name),
            _ => Some(name).filter(|name| own.is_some_and(|own| own.contains_key(*name))),
        };
        let level =
            |level| if own.is_some() { toml::Value::String(String::from(level)) } else { value(level) };
        let list = || levels.split(',').map(level).collect();
        let levels = if levels.contains(',') { toml::Value::Array(list()) } else { level(levels) };
        let of_all = ["title", "runs", "seconds", "warm_up"].contains(&name);
        let section = table.iter_mut().find_map(|(_, value)| value.as_table_mut()).filter(|_| !of_all);
        let place = match (section, own) {
            (Some(section), Some(_)) => {
                let factors = section.entry("factors").or_insert_with(|| toml::Table::new().into());
                factors.as_table_mut().expect("the text has been read")
            }
            (Some(section), None) => section,
            (None, _) => &mut table,
        };
        place.insert(own.unwrap_or(name).to_owned(), levels);
        // Each by itself, so that the error names the right one.
        Description::deserialize(table.clone()).map_err(|error| match error.message() {
            unknown if unknown.starts_with("unknown field") => {
                wrong(format!("there is no factor {name}; there are {}", factors_of(&described).join(", ")))
            }
            message => wrong(message.to_owned()),
        })?;
    }
    Ok(Description::deserialize(table)?)
}

/// The factors of an experiment.
fn factors_of(described: &Description) -> Vec<&str> {
    let of = |there: bool, factors: &'static [&'static str]| if there { factors } else { &[] };
    let built_in = [
        of(described.web.is_some(), &WEB),
        of(described.streaming.is_some(), &STREAMING),
        of(described.router.is_some(), &ROUTER),
        of(described.any.is_some(), &ANY),
    ];
    let own = described.any.iter().flat_map(|any| any.factors.keys().map(String::as_str));
    built_in.concat().into_iter().chain(own).collect()
}

/// A number where it is one.
fn value(level: &str) -> toml::Value {
    let integer = level.parse().map(toml::Value::Integer);
    let number = integer.or_else(|_| level.parse().map(toml::Value::Float));
    number.unwrap_or_else(|_| toml::Value::String(level.to_owned()))
}
