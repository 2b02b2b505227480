//! Rows that hosts allocate alone, and tell each other of.

use forebay_millipage::{Host, Placement, Row};

/// So many rows of so many zeros, each allocated by the host that `from` names. All hosts call this.
pub fn rows_alone(host: &Host, rows: usize, columns: usize, from: impl Fn(usize) -> u16) -> Vec<Row<u64>> {
    let offsets = host.rows_in_chunks::<u64>(rows, 1, rows, Placement::On(0)).unwrap();
    let base = host.area().start;
    for index in (0..rows).filter(|index| from(*index) == host.rank()) {
        let row = host.malloc::<u64>(columns).unwrap();
        offsets.row(index).set(0, (row.as_ptr() as usize - base) as u64);
    }
    host.barrier().unwrap();
    let row = |index| host.row_at(base + offsets.row(index).get(0) as usize, columns).unwrap();
    let all = (0..rows).map(row).collect();
    host.barrier().unwrap();
    all
}
