//! Factors a dense matrix, `A = L U`, without pivoting.
//!
//! Blocks are contiguous in memory and spread over the hosts as over a torus. The method is that of S. Woo, J. P. Singh
//! and J. Hennessy, *The Performance Advantages of Integrating Block Data Transfer in Cache-Coherent Multiprocessors*,
//! ASPLOS 1994.

use forebay_millipage::{Error, Host, Placement};

use crate::kernels::{add_up, weigh};

/// Size of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Blocks in a row and in a column of the matrix.
    pub blocks: usize,
    /// Rows and columns of a block.
    pub block: usize,
}

impl Parameters {
    const fn size(&self) -> usize {
        self.blocks * self.block
    }

    const fn block_size(&self) -> usize {
        self.block * self.block
    }
}

/// The result.
pub struct Factors {
    /// Of their bits.
    pub checksum: u64,
    parameters: Parameters,
    load: Box<Load>,
}

/// Fetches the block in a row and a column.
type Load = dyn Fn(usize, usize, &mut Vec<f64>);

/// What there is to say about a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Of the bits of the factors.
    pub checksum: u64,
    /// The largest error in a solution of `A x = b`, of which all elements should be 1.
    pub error: f64,
}

impl Factors {
    /// Solves a system with them, which takes one host's time.
    #[must_use]
    pub fn check(&self) -> Outcome {
        Outcome { checksum: self.checksum, error: solve(&self.parameters, &self.load) }
    }
}

/// One host's part of the computation.
///
/// # Errors
/// As for [`Host::rows`] and [`Host::barrier`].
pub fn parallel(host: &Host, parameters: &Parameters) -> Result<Factors, Error> {
    let (blocks, size) = (parameters.blocks, parameters.block);
    let matrix = host.rows::<f64>(blocks * blocks, parameters.block_size(), Placement::Cyclic)?;
    let at = |row: usize, column: usize| matrix.row(row * blocks + column);
    let is_own = torus(host);
    let load = |row, column, values: &mut Vec<f64>| {
        values.resize(parameters.block_size(), 0.0);
        at(row, column).read(0, values);
    };
    let own =
        |first: usize| (first..blocks).flat_map(move |row| (first..blocks).map(move |column| (row, column)));
    for (row, column) in own(0).filter(&is_own) {
        at(row, column).write(0, &start(parameters, row, column));
    }
    let (mut diagonal, mut right, mut target) = (vec![], vec![], vec![]);
    let mut left = vec![vec![]; blocks];
    for step in 0..blocks {
        if is_own(&(step, step)) {
            load(step, step, &mut diagonal);
            factor(&mut diagonal, size);
            at(step, step).write(0, &diagonal);
        }
        host.barrier()?;

        load(step, step, &mut diagonal);
        for (row, column) in own(step).filter(&is_own).filter(|at| (at.0 == step) != (at.1 == step)) {
            load(row, column, &mut target);
            if row == step {
                solve_lower(&mut target, &diagonal, size);
            } else {
                solve_upper(&mut target, &diagonal, size);
            }
            at(row, column).write(0, &target);
        }
        host.barrier()?;

        left.iter_mut().for_each(Vec::clear);
        for column in step + 1..blocks {
            right.clear();
            for row in (step + 1..blocks).filter(|row| is_own(&(*row, column))) {
                if right.is_empty() {
                    load(step, column, &mut right);
                }
                if left[row].is_empty() {
                    load(row, step, &mut left[row]);
                }
                load(row, column, &mut target);
                subtract_product(&mut target, &left[row], &right, size);
                at(row, column).write(0, &target);
            }
        }
    }
    host.barrier()?;
    let mut part = 0u64;
    for (row, column) in own(0).filter(&is_own) {
        load(row, column, &mut target);
        part = part.wrapping_add(weigh_block(parameters, row, column, &target));
    }
    let (checksum, block_size) = (add_up(host, part)?, parameters.block_size());
    let load = move |row, column, values: &mut Vec<f64>| {
        values.resize(block_size, 0.0);
        matrix.row(row * blocks + column).read(0, values);
    };
    Ok(Factors { checksum, parameters: *parameters, load: Box::new(load) })
}

/// Whether a block, by its row and column, is this host's: hosts form a rectangle, and that is repeated.
fn torus(host: &Host) -> impl Fn(&(usize, usize)) -> bool + use<> {
    let (rank, hosts) = (usize::from(host.rank()), usize::from(host.hosts()));
    let rows = (1..=hosts.isqrt()).rev().find(|rows| hosts % rows == 0).unwrap_or(1);
    let columns = hosts / rows;
    move |(row, column)| (row % rows) * columns + column % columns == rank
}

/// The same on ordinary memory.
#[must_use]
pub fn sequential(parameters: &Parameters) -> Factors {
    let Parameters { blocks, block: size } = *parameters;
    let fill = |row| (0..blocks).map(|column| start(parameters, row, column)).collect();
    let mut matrix: Vec<Vec<Vec<f64>>> = (0..blocks).map(fill).collect();
    for step in 0..blocks {
        let (above, below) = matrix.split_at_mut(step + 1);
        let (head, tail) = above[step][step..].split_at_mut(1);
        let diagonal = &mut head[0];
        factor(diagonal, size);
        tail.iter_mut().for_each(|block| solve_lower(block, diagonal, size));
        for row in below {
            let (left, targets) = row[step..].split_at_mut(1);
            solve_upper(&mut left[0], diagonal, size);
            for (target, right) in targets.iter_mut().zip(&*tail) {
                subtract_product(target, &left[0], right, size);
            }
        }
    }
    let places = (0..blocks).flat_map(|row| (0..blocks).map(move |column| (row, column)));
    let checksum = places
        .map(|(row, column)| weigh_block(parameters, row, column, &matrix[row][column]))
        .fold(0, u64::wrapping_add);
    let load =
        move |row: usize, column: usize, values: &mut Vec<f64>| values.clone_from(&matrix[row][column]);
    Factors { checksum, parameters: *parameters, load: Box::new(load) }
}

/// Factors a block in place. Below the diagonal `L`, whose own diagonal is 1, the rest `U`.
fn factor(block: &mut [f64], size: usize) {
    for step in 0..size {
        let (above, below) = block.split_at_mut((step + 1) * size);
        let pivot = &above[step * size..];
        for row in below.chunks_exact_mut(size) {
            row[step] /= pivot[step];
            let factor = row[step];
            subtract_multiple(&mut row[step + 1..], factor, &pivot[step + 1..]);
        }
    }
}

/// `L^-1 block`, with the `L` of a factored block.
fn solve_lower(block: &mut [f64], factored: &[f64], size: usize) {
    for step in 0..size {
        let (above, below) = block.split_at_mut((step + 1) * size);
        let pivot = &above[step * size..];
        for (row, factors) in below.chunks_exact_mut(size).zip(factored.chunks_exact(size).skip(step + 1)) {
            subtract_multiple(row, factors[step], pivot);
        }
    }
}

/// `block U^-1`, with the `U` of a factored block.
fn solve_upper(block: &mut [f64], factored: &[f64], size: usize) {
    for row in block.chunks_exact_mut(size) {
        for (step, pivot) in factored.chunks_exact(size).enumerate() {
            row[step] /= pivot[step];
            let factor = row[step];
            subtract_multiple(&mut row[step + 1..], factor, &pivot[step + 1..]);
        }
    }
}

/// `target - left right`.
fn subtract_product(target: &mut [f64], left: &[f64], right: &[f64], size: usize) {
    for (row, factors) in target.chunks_exact_mut(size).zip(left.chunks_exact(size)) {
        for (factor, other) in factors.iter().zip(right.chunks_exact(size)) {
            subtract_multiple(row, *factor, other);
        }
    }
}

fn subtract_multiple(row: &mut [f64], factor: f64, other: &[f64]) {
    row.iter_mut().zip(other).for_each(|(value, other)| *value -= factor * other);
}

/// A block of the matrix: between -1 and 1, by chance, but for a diagonal that is larger than the rest of its row together.
fn start(parameters: &Parameters, row: usize, column: usize) -> Vec<f64> {
    let (size, all) = (parameters.block, parameters.size());
    let value = |index: usize| {
        let (row, column) = (row * size + index / size, column * size + index % size);
        if row == column { all as f64 } else { chance((row * all + column) as u64) }
    };
    (0..parameters.block_size()).map(value).collect()
}

/// Some number between -1 and 1 for each place (the mixing of G. Steele et al., *Fast Splittable Pseudorandom Number
/// Generators*, OOPSLA 2014).
fn chance(place: u64) -> f64 {
    let mut bits = (place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ bits >> 31) as i64 as f64 / (1u64 << 63) as f64
}

/// Solves `A x = b` with the factors, where `b` is such that all of `x` is 1. The largest error.
fn solve(parameters: &Parameters, load: impl Fn(usize, usize, &mut Vec<f64>)) -> f64 {
    let Parameters { blocks, block: size } = *parameters;
    let mut x: Vec<f64> = (0..blocks).flat_map(|row| row_sums(parameters, row)).collect();
    let mut block = vec![];
    for row in 0..blocks {
        for column in 0..=row {
            load(row, column, &mut block);
            for (inner, factors) in block.chunks_exact(size).enumerate() {
                let known = if column == row { inner } else { size };
                let known: f64 = factors[..known].iter().zip(&x[column * size..]).map(|(a, x)| a * x).sum();
                x[row * size + inner] -= known;
            }
        }
    }
    for row in (0..blocks).rev() {
        for column in (row..blocks).rev() {
            load(row, column, &mut block);
            for (inner, factors) in block.chunks_exact(size).enumerate().rev() {
                let first = if column == row { inner + 1 } else { 0 };
                let known = factors[first..].iter().zip(&x[column * size + first..]);
                let known: f64 = known.map(|(a, x)| a * x).sum();
                x[row * size + inner] -= known;
                if column == row {
                    x[row * size + inner] /= factors[inner];
                }
            }
        }
    }
    x.iter().map(|x| (x - 1.0).abs()).fold(0.0, f64::max)
}

/// Sums of the rows of the matrix in a row of blocks.
fn row_sums(parameters: &Parameters, row: usize) -> Vec<f64> {
    let mut sums = vec![0.0; parameters.block];
    for column in 0..parameters.blocks {
        let block = start(parameters, row, column);
        let rows = block.chunks_exact(parameters.block);
        sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum += row.iter().sum::<f64>());
    }
    sums
}

fn weigh_block(parameters: &Parameters, row: usize, column: usize, values: &[f64]) -> u64 {
    let first = (row * parameters.blocks + column) * parameters.block_size();
    weigh(first, values.iter().map(|value| value.to_bits()))
}
