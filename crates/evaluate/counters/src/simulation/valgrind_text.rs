//! What Valgrind's tools write, read: functions of text alone.

use crate::readings::Reading;

use super::reading;

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its first byte.
    pub address: u64,
    /// How much of it.
    pub bytes: u64,
    /// Whether it writes; what reads and writes in one does.
    pub is_store: bool,
}

/// The access to data of a line of `--tool=lackey --trace-mem=yes`; `None` of another line, such as an instruction's.
#[must_use]
pub fn access(line: &str) -> Option<Access> {
    let (kind, rest) = line.split_at_checked(3)?;
    let is_store = match kind {
        " L " => false,
        " S " | " M " => true,
        _ => return None,
    };
    let (address, bytes) = rest.trim_end().split_once(',')?;
    Some(Access { address: u64::from_str_radix(address, 16).ok()?, bytes: bytes.parse().ok()?, is_store })
}

/// What cachegrind counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// In the order of its summary: executed, missed, missed by the last cache; of instructions, of loads, of stores.
    counts: [u64; 9],
}

impl CacheCounts {
    /// By the text of a file that cachegrind wrote; `None` of another.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let find = |key| text.lines().rev().find_map(|line: &str| line.strip_prefix(key));
        let wanted = "Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw";
        find("events: ").filter(|events| events.trim() == wanted)?;
        let numbers = find("summary: ")?.split_whitespace().map_while(|number| number.parse().ok());
        Some(Self { counts: numbers.collect::<Vec<u64>>().try_into().ok()? })
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        Self { counts: std::array::from_fn(|index| self.counts[index] + more.counts[index]) }
    }

    /// What was counted.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        let names = [
            "instructions",
            "instruction_cache_misses",
            "last_level_cache_instruction_misses",
            "first_level_cache_loads",
            "first_level_cache_load_misses",
            "last_level_cache_load_misses",
            "first_level_cache_stores",
            "first_level_cache_store_misses",
            "last_level_cache_store_misses",
        ];
        names.into_iter().zip(self.counts).map(|(name, count)| reading(name, count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_accesses_are_read_and_others_are_not() {
        let of = |address, bytes, is_store| Some(Access { address, bytes, is_store });
        assert_eq!(access(" S 1fff000688,8"), of(0x1f_ff00_0688, 8, true));
        assert_eq!(access(" L 04aa,32\n"), of(0x4aa, 32, false));
        assert_eq!(access(" M 04aa,4"), of(0x4aa, 4, true));
        for other in [
            "I  0401ab70,3",
            "==11802== Command: /bin/true",
            "",
            " L",
            " L x,8",
            " L 12",
            "\u{e9}\u{e9}\u{e9}",
        ] {
            assert_eq!(access(other), None, "{other}");
        }
    }

    #[test]
    fn the_summary_of_a_file_is_read_and_added_up() {
        let text = "desc: D1 cache:         49152 B, 64 B, 12-way associative\ncmd: /bin/ls\n\
            events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw \nfl=a.c\n128 2 1 1 2 0 0 0 0 0\n\
            summary: 3436411 2341 2039 1040497 15512 2803 644347 8812 7664\n";
        let counts = CacheCounts::parse(text).unwrap();
        let value = |counts: &CacheCounts, name: &str| {
            counts.readings().iter().find(|one| one.counter.name == name).map(|one| one.value)
        };
        assert_eq!(value(&counts, "instructions"), Some(3_436_411.0));
        assert_eq!(value(&counts, "last_level_cache_load_misses"), Some(2803.0));
        assert_eq!(value(&counts.plus(&counts), "first_level_cache_store_misses"), Some(17_624.0));
        assert_eq!(CacheCounts::parse("summary: 1 2 3\n"), None);
        assert_eq!(CacheCounts::parse(""), None);
    }
}
