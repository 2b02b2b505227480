//! `forebay evaluate thesis`: the memory that streams need, which takes minutes to find.
#![forbid(unsafe_code)]

mod parts;

use parts::{here, quick};

#[test]
fn the_memory_that_streams_need_is_told_for_one_medium_and_for_many() {
    let Some((report, said)) = quick("memory") else { return };
    let enough: Vec<_> = report.rows.iter().filter(|row| row.metric == "memory_enough").collect();
    assert_eq!(enough.len(), 2, "{report:#?}");
    assert!(enough.iter().all(|row| row.value > 0.0) && said.contains("are enough"), "{said}");
    assert_ne!(here(&said, "faults/s, a medium each"), "-");
}
