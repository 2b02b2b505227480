//! The machine that results are of.

use std::fs;

use forebay_linux::kernel_text;
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
            cpu: or_unknown(kernel_text::field(&read("/proc/cpuinfo"), "model name").unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kernel_text::bytes(&read("/proc/meminfo"), "MemTotal").unwrap_or(0),
        }
    }
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
}
