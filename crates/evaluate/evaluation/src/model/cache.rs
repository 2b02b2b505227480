//! What cache misses cost a program, as a part of its time.

/// Cycles in which the processor waits for memory: `IC * AR * MR * MP`.
///
/// `accesses` are those to memory for each instruction (`AR`), `miss_rate` the misses for each access (`MR`),
/// `penalty_cycles` what one costs (`MP`).
#[must_use]
pub fn stall_cycles(instructions: f64, accesses: f64, miss_rate: f64, penalty_cycles: f64) -> f64 {
    instructions * accesses * miss_rate * penalty_cycles
}

/// How many times as long a program takes as it would without misses, where each instruction takes one cycle and makes one
/// access: `1 + MR * MP`.
#[must_use]
pub fn overhead(miss_rate: f64, penalty_cycles: f64) -> f64 {
    1.0 + miss_rate * penalty_cycles
}

/// The share of accesses that miss where a program goes once through memory, `access_bytes` at a time and `stride_bytes`
/// from one to the next, with lines of `line_bytes`: `W / L` where it leaves nothing out, and never more than 1.
#[must_use]
pub fn miss_rate(access_bytes: f64, stride_bytes: f64, line_bytes: f64) -> f64 {
    (stride_bytes.max(access_bytes) / line_bytes).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
    }

    #[test]
    fn the_published_cases() {
        // All accesses miss, one in ten, none; a miss costs 10 cycles.
        close(overhead(1.0, 10.0), 11.0);
        close(overhead(0.1, 10.0), 2.0);
        close(overhead(0.0, 10.0), 1.0);
        // Two bytes at a time of lines of 32.
        close(miss_rate(2.0, 2.0, 32.0), 1.0 / 16.0);
    }

    #[test]
    fn stalls_and_overhead_agree() {
        let instructions = 1e6;
        close(
            (instructions + stall_cycles(instructions, 1.0, 0.1, 10.0)) / instructions,
            overhead(0.1, 10.0),
        );
    }

    #[test]
    fn a_stride_of_a_line_misses_always() {
        close(miss_rate(8.0, 64.0, 64.0), 1.0);
        close(miss_rate(8.0, 4096.0, 64.0), 1.0);
        close(miss_rate(8.0, 16.0, 64.0), 0.25);
    }
}
