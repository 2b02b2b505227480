//! The travelling salesman: finds the shortest round trip through cities on a plane, by branch and bound.
//!
//! Hosts take tours through the first few cities from a shared pool, the most promising first. All hosts read the
//! length of the shortest round trip all the time; a host that improves it pushes it to all.

use std::{cell::Cell, sync::atomic::Ordering::SeqCst};

use forebay_millipage::{Error, Host, Placement};

/// Size of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// From 3 to 31; the time may double with each one more.
    pub cities: usize,
    /// Cities on the tours in the pool, with the first one, which all begin at: at most all.
    pub level: usize,
    /// Tells one problem from another.
    pub seed: u64,
}

/// Tours that a host takes at a time, and that share a minipage.
const TOGETHER: usize = 4;

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Length of the shortest round trip.
    pub length: u32,
    /// Tours that this host took from the pool.
    pub taken: usize,
}

/// One host's part of the computation.
///
/// # Errors
/// As for [`Host::rows`] and [`Host::barrier`].
pub fn parallel(host: &Host, parameters: &Parameters) -> Result<Outcome, Error> {
    let map = Map::new(parameters);
    let pool = host.rows_in_chunks::<u32>(map.tours(parameters.level), 4, TOGETHER, Placement::On(0))?;
    let next = host.rows::<u32>(1, 1, Placement::On(0))?.row(0);
    let shortest = host.value::<u32>(Placement::On(0))?;
    if host.rank() == 0 {
        shortest.set(map.greedy());
        for (index, tour) in map.pool(parameters.level).iter().enumerate() {
            pool.row(index).write(0, &tour.words());
        }
    }
    host.barrier()?;
    shortest.row().prefetch();
    let mut taken = 0;
    // Tours that are taken and not gone through.
    let mut own = 0..0;
    loop {
        let index = own.next().unwrap_or_else(|| {
            let first = next.atomic(0).fetch_add(TOGETHER as u32, SeqCst) as usize;
            own = first + 1..first + TOGETHER;
            first
        });
        if index >= pool.len() {
            break;
        }
        let mut words = [0; 4];
        pool.row(index).read(0, &mut words);
        let tour = Tour::of(words);
        if tour.bound() >= shortest.get() {
            // The others are no better.
            break;
        }
        taken += 1;
        let improve = |length| {
            shortest.row().atomic(0).fetch_min(length, SeqCst);
            shortest.row().push();
        };
        map.search(tour, &|| shortest.get(), &improve);
    }
    host.barrier()?;
    let length = shortest.get();
    // No host leaves while others read.
    host.barrier()?;
    Ok(Outcome { length, taken })
}

/// The same on ordinary memory.
#[must_use]
pub fn sequential(parameters: &Parameters) -> Outcome {
    let map = Map::new(parameters);
    let shortest = Cell::new(map.greedy());
    let mut taken = 0;
    for tour in map.pool(parameters.level) {
        if tour.bound() >= shortest.get() {
            break;
        }
        taken += 1;
        map.search(tour, &|| shortest.get(), &|length| shortest.set(length));
    }
    Outcome { length: shortest.get(), taken }
}

/// The same by dynamic programming: the shortest way through each set of cities to each of them (M. Held and R. Karp, *A
/// Dynamic Programming Approach to Sequencing Problems*, J. SIAM 10, 1962). Takes `cities * 2^cities` words of memory.
#[must_use]
pub fn held_karp(parameters: &Parameters) -> u32 {
    let Map { distances, .. } = Map::new(parameters);
    let others = parameters.cities - 1;
    let mut ways = vec![u32::MAX; others << others];
    for visited in 1usize..1 << others {
        for last in (0..others).filter(|city| visited >> city & 1 == 1) {
            let before = visited & !(1 << last);
            let way = |city: usize| ways[before * others + city] + distances[city + 1][last + 1];
            let shortest = (0..others).filter(|city| before >> city & 1 == 1).map(way).min();
            ways[visited * others + last] = shortest.unwrap_or(distances[0][last + 1]);
        }
    }
    let all = (1 << others) - 1;
    (0..others).map(|last| ways[all * others + last] + distances[last + 1][0]).min().unwrap_or(0)
}

/// A way through some cities, from the first one.
#[derive(Clone, Copy, Debug)]
struct Tour {
    length: u32,
    last: u32,
    /// As bits.
    unvisited: u32,
    /// Sum of the distances from the last city and from each that is not visited to its nearest one.
    rest: u32,
}

impl Tour {
    /// Any round trip that begins so is at least as long.
    const fn bound(&self) -> u32 {
        self.length + self.rest
    }

    /// As it is in shared memory.
    const fn words(&self) -> [u32; 4] {
        [self.length, self.last, self.unvisited, self.rest]
    }

    const fn of([length, last, unvisited, rest]: [u32; 4]) -> Self {
        Self { length, last, unvisited, rest }
    }
}

struct Map {
    distances: Vec<Vec<u32>>,
    /// Of each city, the others, the nearest first.
    neighbours: Vec<Vec<u32>>,
}

impl Map {
    /// Cities somewhere on a square with sides of 1,000.
    fn new(parameters: &Parameters) -> Self {
        let mut state = parameters.seed | 1;
        let mut coordinate = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as i32 % 1_000
        };
        let cities: Vec<_> = (0..parameters.cities).map(|_| (coordinate(), coordinate())).collect();
        let distance =
            |a: &(i32, i32), b: &(i32, i32)| f64::from(a.0 - b.0).hypot(f64::from(a.1 - b.1)).round() as u32;
        let distances: Vec<Vec<_>> =
            cities.iter().map(|from| cities.iter().map(|to| distance(from, to)).collect()).collect();
        let near = |(city, distances): (usize, &Vec<u32>)| {
            let mut others: Vec<_> =
                (0..cities.len() as u32).filter(|other| *other as usize != city).collect();
            others.sort_by_key(|other| distances[*other as usize]);
            others
        };
        let neighbours = distances.iter().enumerate().map(near).collect();
        Self { distances, neighbours }
    }

    fn distance(&self, from: u32, to: u32) -> u32 {
        self.distances[from as usize][to as usize]
    }

    fn to_nearest(&self, city: u32) -> u32 {
        self.distance(city, self.neighbours[city as usize][0])
    }

    fn root(&self) -> Tour {
        let cities = self.distances.len() as u32;
        let rest = (0..cities).map(|city| self.to_nearest(city)).sum();
        Tour { length: 0, last: 0, unvisited: ((1 << cities) - 1) & !1, rest }
    }

    fn extend(&self, tour: &Tour, city: u32) -> Tour {
        Tour {
            length: tour.length + self.distance(tour.last, city),
            last: city,
            unvisited: tour.unvisited & !(1 << city),
            rest: tour.rest - self.to_nearest(tour.last),
        }
    }

    /// The longer tours that a tour can become by one city, the shortest first.
    fn extensions(&self, tour: Tour) -> impl Iterator<Item = Tour> {
        let unvisited = self.neighbours[tour.last as usize].iter();
        let unvisited = unvisited.filter(move |city| tour.unvisited >> **city & 1 == 1);
        unvisited.map(move |city| self.extend(&tour, *city))
    }

    /// How many tours have `level` cities.
    fn tours(&self, level: usize) -> usize {
        (1..level).map(|visited| self.distances.len() - visited).product()
    }

    /// All tours of `level` cities, the most promising first.
    fn pool(&self, level: usize) -> Vec<Tour> {
        let mut tours = vec![self.root()];
        for _ in 1..level {
            tours = tours.into_iter().flat_map(|tour| self.extensions(tour)).collect();
        }
        tours.sort_by_key(Tour::bound);
        tours
    }

    /// Length of a round trip that always goes on to the nearest city.
    fn greedy(&self) -> u32 {
        let mut tour = self.root();
        while let Some(next) = self.extensions(tour).next() {
            tour = next;
        }
        tour.length + self.distance(tour.last, 0)
    }

    /// Goes through all round trips that begin so and may be shorter than the shortest one.
    fn search(&self, tour: Tour, shortest: &impl Fn() -> u32, improve: &impl Fn(u32)) {
        if tour.unvisited == 0 {
            let length = tour.length + self.distance(tour.last, 0);
            if length < shortest() {
                improve(length);
            }
            return;
        }
        for next in self.extensions(tour) {
            if next.bound() >= shortest() {
                // The others are longer.
                return;
            }
            self.search(next, shortest, improve);
        }
    }
}
