//! Red-black successive over-relaxation with the factor 1: each point of a grid becomes the mean of its four
//! neighbours. The points of one colour of a chessboard are updated first, then those of the other colour. The points
//! on the edge stay as they are.
//!
//! The two colours are separate matrices, as in TreadMarks' program (C. Amza et al., *TreadMarks: Shared Memory
//! Computing on Networks of Workstations*, IEEE Computer 29, 1996). Row and column `(i, 2 k + (i + colour) % 2)` of the
//! grid is `(i, k)` of its colour's matrix.

use std::ops::Range;

use forebay_millipage::{Error, Host, Placement, Row};

use crate::kernels::{add_up, weigh};

/// Size of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Rows of the grid, without the first and the last, which do not change.
    pub rows: usize,
    /// Points of one colour in a row: half of the grid's columns, at least 2.
    pub columns: usize,
    /// How often each point is computed.
    pub iterations: usize,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of the bits of all points.
    pub checksum: u64,
}

/// One host's part of the computation.
///
/// # Errors
/// As for [`Host::rows`] and [`Host::barrier`].
pub fn parallel(host: &Host, parameters: &Parameters) -> Result<Outcome, Error> {
    let Parameters { rows, columns, iterations } = *parameters;
    let colours = [
        host.rows::<f32>(rows + 2, columns, Placement::Blocks)?,
        host.rows(rows + 2, columns, Placement::Blocks)?,
    ];
    let own = host.block(rows + 2);
    for (colour, points) in colours.iter().enumerate() {
        own.clone().for_each(|row| points.row(row).write(0, &start(colour, row, columns)));
    }
    host.barrier()?;
    let inner = own.start.max(1)..own.end.min(rows + 1);
    for _ in 0..iterations {
        for colour in [0, 1] {
            let (points, others) = (&colours[colour], &colours[1 - colour]);
            if !inner.is_empty() {
                let [mut above, mut beside] = [inner.start - 1, inner.start].map(|row| others.row(row));
                let below = others.range(inner.start + 1..inner.end + 1);
                for ((row, points), below) in inner.clone().zip(points.range(inner.clone())).zip(below) {
                    relax_shared((row + colour) % 2, [above, beside, below], points);
                    (above, beside) = (beside, below);
                }
            }
            host.barrier()?;
        }
    }
    let mut values = vec![0.0; columns];
    let mut part = 0u64;
    for (colour, points) in colours.iter().enumerate() {
        for row in own.clone() {
            points.row(row).read(0, &mut values);
            part = part.wrapping_add(weigh_row(parameters, colour, row, &values));
        }
    }
    Ok(Outcome { checksum: add_up(host, part)? })
}

/// New values for the points of a row with these neighbours, four at a time.
fn relax_shared(parity: usize, [above, beside, below]: [Row<f32>; 3], points: Row<f32>) {
    let Range { start, end } = changing(parity, points.len());
    let count = (end - start) / 4;
    let vectors = |row: Row<f32>, column| row.vectors::<4>(column, count);
    let [up, down, new] = [above, below, points].map(|row| vectors(row, start));
    let [left, right] = [0, 1].map(|column| vectors(beside, column));
    for index in 0..count {
        let [up, down, left, right] = [up, down, left, right].map(|row| row.load(index));
        let mean = |lane: usize| 0.25 * ((up[lane] + down[lane]) + (left[lane] + right[lane]));
        new.store(index, std::array::from_fn(mean));
    }
    for column in start + 4 * count..end {
        let sides = beside.get(column - start) + beside.get(column - start + 1);
        points.set(column, 0.25 * ((above.get(column) + below.get(column)) + sides));
    }
}

/// The same on ordinary memory.
#[must_use]
pub fn sequential(parameters: &Parameters) -> Outcome {
    let Parameters { rows, columns, iterations } = *parameters;
    let fill = |colour| (0..rows + 2).flat_map(|row| start(colour, row, columns)).collect::<Vec<f32>>();
    let [mut red, mut black] = [0, 1].map(fill);
    for _ in 0..iterations {
        sweep(0, &mut red, &black, columns);
        sweep(1, &mut black, &red, columns);
    }
    let mut checksum = 0u64;
    for (colour, points) in [red, black].iter().enumerate() {
        for (row, values) in points.chunks_exact(columns).enumerate() {
            checksum = checksum.wrapping_add(weigh_row(parameters, colour, row, values));
        }
    }
    Outcome { checksum }
}

/// All points of one colour, in place.
fn sweep(colour: usize, points: &mut [f32], others: &[f32], columns: usize) {
    let inner = points.chunks_exact_mut(columns).enumerate().skip(1);
    for ((row, points), three) in inner.zip(others.windows(3 * columns).step_by(columns)) {
        let (above, rest) = three.split_at(columns);
        let (beside, below) = rest.split_at(columns);
        relax((row + colour) % 2, above, beside, below, points);
    }
}

/// New values for the points of a row whose neighbours of the other colour are these.
fn relax(parity: usize, above: &[f32], beside: &[f32], below: &[f32], points: &mut [f32]) {
    let range = changing(parity, points.len());
    let points = &mut points[range.clone()];
    let (above, below) = (&above[range.clone()], &below[range]);
    let sides = beside[..points.len()].iter().zip(&beside[1..]);
    for (((point, above), below), (left, right)) in points.iter_mut().zip(above).zip(below).zip(sides) {
        *point = 0.25 * ((above + below) + (left + right));
    }
}

/// The points of a row that are not on the edge.
const fn changing(parity: usize, columns: usize) -> Range<usize> {
    if parity == 0 { 1..columns } else { 0..columns - 1 }
}

/// A row as it is at first: between 1 and 2, so that no value comes near zero.
fn start(colour: usize, row: usize, columns: usize) -> Vec<f32> {
    let value = |column| 1.0 + ((row * 31 + column * 17 + colour * 7) % 64) as f32 / 64.0;
    (0..columns).map(value).collect()
}

fn weigh_row(parameters: &Parameters, colour: usize, row: usize, values: &[f32]) -> u64 {
    let first = (colour * (parameters.rows + 2) + row) * parameters.columns;
    weigh(first, values.iter().map(|value| value.to_bits().into()))
}
