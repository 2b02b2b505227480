//! Lines that are a name and a value.

use std::collections::HashMap;

/// The value behind `name` and a colon (`/proc/cpuinfo`, `/proc/PID/status`, `/proc/PID/io`), from the first such line.
#[must_use]
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim_end() == name).then(|| value.trim())
    })
}

/// The bytes behind `name` and a colon, where the kernel writes kB (`/proc/meminfo`, `/proc/PID/status`,
/// `/proc/PID/smaps_rollup`; proc_meminfo(5)).
#[must_use]
pub fn bytes(text: &str, name: &str) -> Option<u64> {
    let kibibytes: u64 = field(text, name)?.strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The number behind `key` and a blank (`/proc/vmstat`, `memory.stat`, `memory.events`; proc_vmstat(5)).
#[must_use]
pub fn number(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?.trim().parse().ok()
}

/// All lines of a key, blanks and a number (`/proc/vmstat`, `memory.stat`, `cpu.stat`; proc_vmstat(5)). A key may end in a
/// colon, and units behind the number are left out (`/proc/PID/status`, `/proc/PID/io`).
#[must_use]
pub fn keyed(text: &str) -> HashMap<&str, f64> {
    let field = |line| {
        let (key, rest) = str::split_once(line, char::is_whitespace)?;
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some((key.trim_end_matches(':'), value))
    };
    text.lines().filter_map(field).collect()
}

/// The sum of these fields, where all are there.
#[must_use]
pub fn sum(fields: &HashMap<&str, f64>, keys: &[&str]) -> Option<f64> {
    keys.iter().map(|key| fields.get(key).copied()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "MemTotal:       24681234 kB\nMemFree:  1 kB\nmodel name\t: A B: C\nSeccomp_filters:\t2\n";
        assert_eq!(bytes(text, "MemTotal"), Some(24_681_234 * 1024));
        assert_eq!(field(text, "model name"), Some("A B: C"));
        assert_eq!(field(text, "Seccomp_filters"), Some("2"));
        assert_eq!(bytes(text, "Seccomp_filters"), None, "it has no unit");
        for absent in ["Mem", "emTotal", "", "model"] {
            assert_eq!(field(text, absent), None, "{absent}");
        }
        assert_eq!(bytes("", "MemTotal"), None);
        assert_eq!(
            bytes("MemTotal: 18446744073709551615 kB\n", "MemTotal"),
            None,
            "it is more than a number can be"
        );
    }

    #[test]
    fn the_proportional_size_is_not_taken_for_another_that_begins_alike() {
        let text = "55d1-7ffe ---p 00000000 00:00 0 [rollup]\nRss:  900 kB\nPss_Dirty: 7 kB\nPss:   512 kB\n";
        assert_eq!(bytes(text, "Pss"), Some(524_288));
    }

    #[test]
    fn numbers_are_found_by_their_whole_key() {
        let text = "low 0\noom_kill 3\noom_kill_disable 0\noom 1\n";
        assert_eq!(number(text, "oom_kill"), Some(3));
        assert_eq!(number(text, "oom"), Some(1));
        assert_eq!(number(text, "oom_"), None);
        assert_eq!(number("oom_kill x\n", "oom_kill"), None);
    }

    #[test]
    fn keys_have_their_numbers_with_or_without_colons_and_units() {
        let text =
            "pgfault 1831819233\nVmRSS:\t    1776 kB\nName:\tcat\nvoluntary_ctxt_switches:\t146\nTotal 0\n";
        let fields = keyed(text);
        assert_eq!(fields["pgfault"], 1_831_819_233.0);
        assert_eq!((fields["VmRSS"], fields["voluntary_ctxt_switches"]), (1776.0, 146.0));
        assert!(!fields.contains_key("Name"));
        assert_eq!(sum(&fields, &["VmRSS", "Total"]), Some(1776.0));
        assert_eq!(sum(&fields, &["VmRSS", "VmSwap"]), None);
    }
}
