//! Names that options still take although something has another name today.

use std::fmt::Display;

use forebay_evaluation::{Profile, Program, servers::streaming::Disk};

use super::Chosen;

/// A disk profile.
pub fn profile(name: &str) -> Result<Profile, String> {
    let old = || Profile::of_old_name(name).map(|today| told("disk profile", name, today));
    name.parse::<Profile>().or_else(|error| old().ok_or_else(|| error.to_string()))
}

/// Where media are.
pub fn disk(name: &str) -> Result<Disk, String> {
    let old = || Profile::of_old_name(name).map(|today| Disk::Cold(told("disk profile", name, today)));
    name.parse::<Disk>().or_else(|error| old().ok_or(error))
}

/// A program of `forebay evaluate speculation`.
pub fn program(name: &str) -> Result<Chosen, String> {
    let old = || Program::of_old_name(name).map(|today| Chosen::Reading(told("program", name, today)));
    name.parse::<Chosen>().or_else(|error| old().ok_or(error))
}

fn told<T: Display>(what: &str, old: &str, today: T) -> T {
    eprintln!("forebay: the {what} '{old}' is now called '{today}'; the old name still works");
    today
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_taken_beside_those_of_today() {
        assert_eq!(
            (profile("disk4"), profile("raid-12ms-q4")),
            (Ok(Profile::Raid12Ms), Ok(Profile::Raid12Ms))
        );
        assert_eq!(disk("cloud"), Ok(Disk::Cold(Profile::Ssd1Ms)));
        assert_eq!(program("xds"), Ok(Chosen::Reading(Program::RandomReads)));
        assert!(profile("floppy").unwrap_err().contains("expected one of: local"));
        assert!(disk("floppy").unwrap_err().contains("expected one of: cached"));
        assert!(program("nm").unwrap_err().contains("expected one of: grep"));
    }
}
