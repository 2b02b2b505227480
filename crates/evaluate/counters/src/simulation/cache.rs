//! The shapes of caches.

use std::fmt;
use std::fs;
use std::path::Path;

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// What it holds.
    pub bytes: u64,
    /// Places that a line can be in.
    pub ways: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
}

impl Cache {
    /// By the files of a folder `/sys/devices/system/cpu/cpu0/cache/index*`.
    fn parse(size: &str, ways: &str, line_bytes: &str) -> Option<Self> {
        let bytes = forebay_quantity::size(size.trim()).ok()?;
        let line_bytes = line_bytes.trim().parse().ok().filter(|bytes| *bytes > 0)?;
        // Where any line can be in any place, the kernel writes 0.
        let ways = match ways.trim().parse().ok()? {
            0 => bytes / line_bytes,
            ways => ways,
        };
        Some(Self { bytes, ways, line_bytes })
    }

    /// The cache most like this one that Valgrind can simulate: the number of its sets is a power of two.
    #[must_use]
    pub fn simulable(self) -> Self {
        let lines = self.bytes / self.line_bytes;
        let sets = (lines / self.ways.max(1)).max(1);
        // Fewer sets with more ways each, so that it holds about as much.
        let sets = if sets.is_power_of_two() { sets } else { sets.next_power_of_two() / 2 };
        let ways = ((lines + sets / 2) / sets).max(1);
        Self { bytes: sets * ways * self.line_bytes, ways, line_bytes: self.line_bytes }
    }
}

/// As Valgrind takes it.
impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.bytes, self.ways, self.line_bytes)
    }
}

/// The caches that Valgrind simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Of instructions, next to the processor.
    pub instructions: Cache,
    /// Of data, next to the processor.
    pub data: Cache,
    /// The last before memory.
    pub last: Cache,
}

impl Caches {
    /// Those of the first processor of this machine; `None` where the kernel does not tell.
    #[must_use]
    pub fn of_this_machine() -> Option<Self> {
        Self::described(Path::new("/sys/devices/system/cpu/cpu0/cache"))
    }

    fn described(folder: &Path) -> Option<Self> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let cache =
                Cache::parse(&read("size"), &read("ways_of_associativity"), &read("coherency_line_size"));
            if let (Some(cache), Ok(level)) = (cache, read("level").trim().parse::<u32>()) {
                found.push((level, read("type").trim().to_owned(), cache));
            }
        }
        let first = |kind: &str| {
            let mut fitting =
                found.iter().filter(|(level, of, _)| *level == 1 && (of == kind || of == "Unified"));
            fitting.next().map(|(_, _, cache)| *cache)
        };
        let last =
            found.iter().filter(|(_, kind, _)| kind != "Instruction").max_by_key(|(level, ..)| *level)?;
        Some(Self { instructions: first("Instruction")?, data: first("Data")?, last: last.2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_tell_the_caches() {
        let folder = std::env::temp_dir().join(format!("forebay-caches-{}", std::process::id()));
        let caches = [
            ("1", "Data", "48K", "12"),
            ("1", "Instruction", "32K", "8"),
            ("2", "Unified", "2048K", "16"),
            ("3", "Unified", "107520K", "15"),
        ];
        for (number, (level, kind, size, ways)) in caches.iter().enumerate() {
            let index = folder.join(format!("index{number}"));
            fs::create_dir_all(&index).unwrap();
            let files = [("level", level), ("type", kind), ("size", size), ("ways_of_associativity", ways)];
            files.iter().for_each(|(name, text)| fs::write(index.join(name), format!("{text}\n")).unwrap());
            fs::write(index.join("coherency_line_size"), "64\n").unwrap();
        }
        let found = Caches::described(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let cache = |bytes, ways| Cache { bytes, ways, line_bytes: 64 };
        let expected = Caches {
            instructions: cache(32 << 10, 8),
            data: cache(48 << 10, 12),
            last: cache(107_520 << 10, 15),
        };
        assert_eq!(found, Some(expected));
        assert_eq!(Caches::described(&folder), None);
        assert_eq!(Cache::parse("", "8", "64"), None);
        assert_eq!(Cache::parse("1M", "0", "64").map(|cache| cache.ways), Some(16384));
    }

    #[test]
    fn a_cache_that_can_be_simulated_stays_and_others_become_alike() {
        let cache = |bytes, ways| Cache { bytes, ways, line_bytes: 64 };
        assert_eq!(cache(48 << 10, 12).simulable(), cache(48 << 10, 12));
        for (bytes, ways) in
            [(107_520 << 10, 15), (33 << 20, 11), (36_608 << 10, 11), (24 << 20, 12), (640, 10)]
        {
            let simulable = cache(bytes, ways).simulable();
            let sets = simulable.bytes / simulable.line_bytes / simulable.ways;
            assert!(sets.is_power_of_two(), "{simulable}");
            let ratio = simulable.bytes as f64 / bytes as f64;
            assert!((0.95..=1.05).contains(&ratio), "{simulable}: {ratio}");
        }
    }
}
