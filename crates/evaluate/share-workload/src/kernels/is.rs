//! Integer sort: computes the rank of each of many keys, by counting.
//!
//! Keys, their changes from iteration to iteration and the checks are those of the NAS parallel benchmark IS (D. Bailey
//! et al., *The NAS Parallel Benchmarks*, RNR-94-007). As in TreadMarks, each host adds its counts to the shared
//! counts, one section after the other.

use std::ops::Range;

use forebay_millipage::{Error, Host, Placement, Rows};

use crate::kernels::{add_up, weigh};

/// Size of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Logarithm of how many keys there are, to base 2.
    pub keys_log2: u32,
    /// Logarithm of how many values they can have, to base 2; at most 30.
    pub values_log2: u32,
    /// How often the keys are ranked.
    pub iterations: usize,
}

impl Parameters {
    /// Those of one of the benchmark's classes.
    #[must_use]
    pub const fn of(class: Class) -> Self {
        let (keys_log2, values_log2) = match class {
            Class::S => (16, 11),
            Class::W => (20, 16),
            Class::A => (23, 19),
        };
        Self { keys_log2, values_log2, iterations: NAS_ITERATIONS }
    }

    fn class(&self) -> Option<Class> {
        [Class::S, Class::W, Class::A].into_iter().find(|class| Self::of(*class) == *self)
    }

    const fn keys(&self) -> usize {
        1 << self.keys_log2
    }

    const fn values(&self) -> usize {
        1 << self.values_log2
    }
}

/// Sizes that the benchmark has results for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// 2^16 keys of 2^11 values.
    S,
    /// 2^20 keys of 2^16 values.
    W,
    /// 2^23 keys of 2^19 values.
    A,
}

const NAS_ITERATIONS: usize = 10;

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Ranks that were as the benchmark says, and how many it says: 5 an iteration for its classes, else none.
    pub verified: usize,
    /// See [`Outcome::verified`].
    pub verifiable: usize,
    /// Of the ranks of all keys in the last iteration.
    pub checksum: u64,
}

/// One host's part of the computation.
///
/// # Errors
/// As for [`Host::rows`] and [`Host::barrier`].
pub fn parallel(host: &Host, parameters: &Parameters) -> Result<Outcome, Error> {
    let columns = columns(parameters);
    let counts = host.rows::<u32>(parameters.values() / columns, columns, Placement::Blocks)?;
    let mut ranking = Ranking::new(parameters, host.block(parameters.keys()));
    let mut counted = vec![0; parameters.values()];
    for iteration in 1..=parameters.iterations {
        ranking.change(iteration);
        ranking.count(&mut counted);
        add_in_turn(host, &counts, &counted)?;
        for (row, counted) in counted.chunks_exact_mut(columns).enumerate() {
            counts.row(row).read(0, counted);
        }
        // No host writes the counts before all have read them.
        host.barrier()?;
        ranking.rank(iteration, &mut counted);
    }
    Ok(Outcome { checksum: add_up(host, ranking.checksum())?, ..ranking.outcome() })
}

/// Adds what each host has counted to the counts: the hosts' sections go round.
fn add_in_turn(host: &Host, counts: &Rows<u32>, counted: &[u32]) -> Result<(), Error> {
    let columns = counted.len() / counts.len();
    let mut sum = vec![0; columns];
    for turn in 0..host.hosts() {
        for row in host.block_of((host.rank() + turn) % host.hosts(), counts.len()) {
            let own = &counted[row * columns..][..columns];
            if turn == 0 {
                counts.row(row).write(0, own);
            } else {
                counts.row(row).read(0, &mut sum);
                sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                counts.row(row).write(0, &sum);
            }
        }
        host.barrier()?;
    }
    Ok(())
}

/// Counts in a minipage: 64, or more where that would be more than 64 minipages.
fn columns(parameters: &Parameters) -> usize {
    (parameters.values() / 64).max(64).min(parameters.values())
}

/// The same on ordinary memory.
#[must_use]
pub fn sequential(parameters: &Parameters) -> Outcome {
    let mut ranking = Ranking::new(parameters, 0..parameters.keys());
    let mut counted = vec![0; parameters.values()];
    for iteration in 1..=parameters.iterations {
        ranking.change(iteration);
        ranking.count(&mut counted);
        ranking.rank(iteration, &mut counted);
    }
    Outcome { checksum: ranking.checksum(), ..ranking.outcome() }
}

/// Some of the keys.
struct Ranking {
    parameters: Parameters,
    first: usize,
    keys: Vec<u32>,
    ranks: Vec<u32>,
    expected: Vec<Expected>,
    verified: usize,
    verifiable: usize,
}

impl Ranking {
    fn new(parameters: &Parameters, own: Range<usize>) -> Self {
        let mut random = Random::at(4 * own.start as u64);
        let keys: Vec<_> = own.clone().map(|_| random.key(parameters.values_log2)).collect();
        let ranks = vec![0; keys.len()];
        let expected =
            parameters.class().map_or_else(Vec::new, |class| expected(class, parameters.values_log2));
        let parameters = *parameters;
        Self { parameters, first: own.start, keys, ranks, expected, verified: 0, verifiable: 0 }
    }

    /// Two keys are others in each iteration.
    fn change(&mut self, iteration: usize) {
        let values = self.parameters.values();
        let value = iteration % values;
        let changes = [(iteration, value), (iteration + NAS_ITERATIONS, (values - value) % values)];
        for (index, value) in changes {
            if let Some(key) = index.checked_sub(self.first).and_then(|index| self.keys.get_mut(index)) {
                *key = value as u32;
            }
        }
    }

    fn count(&self, counted: &mut [u32]) {
        counted.fill(0);
        self.keys.iter().for_each(|key| counted[*key as usize] += 1);
    }

    /// A key's rank is how many keys are smaller. `counts` become those.
    fn rank(&mut self, iteration: usize, counts: &mut [u32]) {
        let mut smaller = 0;
        for count in counts.iter_mut() {
            smaller += std::mem::replace(count, smaller);
        }
        self.ranks.iter_mut().zip(&self.keys).for_each(|(rank, key)| *rank = counts[*key as usize]);
        self.verifiable += self.expected.len();
        let is_right = |expected: &&Expected| {
            i64::from(counts[expected.key as usize]) == expected.rank + expected.slope * iteration as i64
        };
        self.verified += self.expected.iter().filter(is_right).count();
    }

    fn checksum(&self) -> u64 {
        weigh(self.first, self.ranks.iter().map(|rank| u64::from(*rank)))
    }

    const fn outcome(&self) -> Outcome {
        Outcome { verified: self.verified, verifiable: self.verifiable, checksum: 0 }
    }
}

/// A rank that the benchmark publishes: that of a key, `rank + slope * iteration`.
struct Expected {
    key: u32,
    rank: i64,
    slope: i64,
}

/// The partial verification of a class: of five keys, by their index, with the rank in iteration 0 and its change.
fn expected(class: Class, values_log2: u32) -> Vec<Expected> {
    let ranks: [(u64, i64, i64); 5] = match class {
        Class::S => {
            [(48_427, 0, 1), (17_148, 18, 1), (23_627, 346, 1), (62_548, 64_917, -1), (4_431, 65_463, -1)]
        }
        Class::W => [
            (357_773, 1_249 - 2, 1),
            (934_767, 11_698 - 2, 1),
            (875_723, 1_039_987, -1),
            (898_999, 1_043_896, -1),
            (404_505, 1_048_018, -1),
        ],
        Class::A => [
            (2_112_377, 104 - 1, 1),
            (662_041, 17_523 - 1, 1),
            (5_336_171, 123_928 - 1, 1),
            (3_642_833, 8_288_932 + 1, -1),
            (4_250_760, 8_388_264 + 1, -1),
        ],
    };
    let expect = |(index, rank, slope)| Expected { key: Random::at(4 * index).key(values_log2), rank, slope };
    ranks.map(expect).into()
}

/// The benchmark's random numbers: `x * 5^13 mod 2^46`.
struct Random(u64);

impl Random {
    const FACTOR: u64 = 1_220_703_125;
    const MASK: u64 = (1 << 46) - 1;

    /// Behind the first `count` numbers.
    fn at(count: u64) -> Self {
        let (mut state, mut factor, mut left) = (314_159_265u64, Self::FACTOR, count);
        while left > 0 {
            if left % 2 == 1 {
                state = state.wrapping_mul(factor) & Self::MASK;
            }
            factor = factor.wrapping_mul(factor) & Self::MASK;
            left /= 2;
        }
        Self(state)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(Self::FACTOR) & Self::MASK;
        self.0
    }

    /// A quarter of the sum of four numbers between 0 and 1, as a part of all values.
    fn key(&mut self, values_log2: u32) -> u32 {
        let sum: u64 = (0..4).map(|_| self.next()).sum();
        (sum >> (48 - values_log2)) as u32
    }
}
