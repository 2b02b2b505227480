//! Whether a process loads the libraries that it looks up. A loader of modules does, and a program that lists folders does not.

use std::{collections::HashSet, fs};

use forebay_policy::price::LIBRARIES_TRUSTED;

use super::Told;

/// The libraries that a process has looked up.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Their names without folders: a path may be through links.
    names: Vec<Box<[u8]>>,
    is_refused: bool,
}

impl Loaded {
    /// Whether this one is to be read ahead, too: at least half of those before it were mapped when it was last looked at.
    pub fn may_add(&mut self, told: &Told) -> bool {
        self.may_add_of(&told.path, || fs::read(format!("/proc/{}/maps", told.process)).unwrap_or_default())
    }

    fn may_add_of(&mut self, path: &[u8], maps: impl FnOnce() -> Vec<u8>) -> bool {
        if self.is_refused {
            return false;
        }
        let count = self.names.len();
        if count >= LIBRARIES_TRUSTED
            && (count / LIBRARIES_TRUSTED).is_power_of_two()
            && count.is_multiple_of(LIBRARIES_TRUSTED)
        {
            self.is_refused = self.mapped(&maps()) < count / 2;
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        self.names.push(name.into());
        !self.is_refused
    }

    /// How many are in this list of mappings (proc_pid_maps(5)).
    fn mapped(&self, maps: &[u8]) -> usize {
        let mapped: HashSet<&[u8]> = maps
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.rsplit(|byte| *byte == b'/').next())
            .collect();
        self.names.iter().filter(|name| mapped.contains(&name[..])).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(names: &[String]) -> Vec<u8> {
        names
            .iter()
            .map(|name| format!("7f00-7f01 r-xp 00000000 08:01 7  /usr/lib/{name}\n"))
            .collect::<String>()
            .into()
    }

    #[test]
    fn a_process_that_loads_what_it_looks_up_goes_on_and_one_that_does_not_is_refused() {
        let names: Vec<String> = (0..100).map(|number| format!("{number}.so")).collect();
        let (mut loads, mut lists) = (Loaded::default(), Loaded::default());
        for (number, name) in names.iter().enumerate() {
            let path = format!("/lib/{name}");
            assert!(loads.may_add_of(path.as_bytes(), || maps(&names[..number])), "{name}");
            assert_eq!(
                lists.may_add_of(path.as_bytes(), || maps(&["0.so".into()])),
                number < LIBRARIES_TRUSTED
            );
        }
    }

    #[test]
    fn mappings_are_looked_at_when_the_libraries_have_doubled() {
        let mut loaded = Loaded::default();
        let looked: Vec<usize> = (0..70)
            .filter(|number| {
                let mut has_looked = false;
                let _ = loaded.may_add_of(format!("/lib/{number}.so").as_bytes(), || {
                    has_looked = true;
                    maps(&(0..*number).map(|number| format!("{number}.so")).collect::<Vec<_>>())
                });
                has_looked
            })
            .collect();
        assert_eq!(looked, [4, 8, 16, 32, 64]);
    }
}
