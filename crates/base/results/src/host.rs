//! The machine that results are of.

use std::fs;

use serde::{Deserialize, Serialize};

/// What a reader must know of a machine to compare its results with another's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Release of the kernel, e.g. `6.1.0-18-amd64`.
    pub kernel: String,
    /// Model name of the processor.
    pub cpu: String,
    /// Logical processors that this process may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
}

impl Host {
    /// This machine. What `/proc` does not tell is `unknown` or 0.
    #[must_use]
    pub fn detect() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease");
        Self {
            kernel: or_unknown(kernel.trim()),
            cpu: or_unknown(field(&read("/proc/cpuinfo"), "model name").unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo"), "MemTotal").unwrap_or(0),
        }
    }
}

/// Value of `name` in the text of `/proc/meminfo` (proc_meminfo(5)), in bytes.
fn memory_bytes(text: &str, name: &str) -> Option<u64> {
    let kilobytes: u64 = field(text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "unknown".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_cores_and_memory() {
        let host = Host::detect();
        assert_ne!(host.kernel, "unknown");
        assert!(host.cores >= 1);
        assert!(host.memory_bytes > 1 << 20);
    }

    #[test]
    fn fields_of_proc_are_found_by_their_whole_name() {
        let text = "MemTotal:       24681234 kB\nMemFree:  1 kB\n";
        assert_eq!(memory_bytes(text, "MemTotal"), Some(24_681_234 * 1024));
        assert_eq!(memory_bytes(text, "Mem"), None);
        assert_eq!(memory_bytes("", "MemTotal"), None);
    }
}
