//! Molecular dynamics of water: all pairs of molecules within a cutoff attract or repel each other.
//!
//! The sharing pattern is that of SPLASH's program Water-nsquared (J. P. Singh, W.-D. Weber and A. Gupta, *SPLASH:
//! Stanford Parallel Applications for Shared Memory*, 1992). Each host moves its own molecules. It computes the forces
//! between them and the half of all molecules that follows them, and sums these forces in private memory. It then adds
//! the sums to the molecules, under locks.
//!
//! The model is a flexible SPC (Y. Wu, H. Tepper and G. Voth, J. Chem. Phys. 124, 2006), with all forces between
//! molecules zero at the cutoff. Lengths are in angstrom, times in picoseconds, masses in atomic units, energies in
//! kcal/mol.

use forebay_millipage::{Error, Host, Placement};

use crate::kernels::gather;

/// Size of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Molecules along each edge of the cube that they begin in: at least 4.
    pub side: usize,
    /// Times that they move.
    pub steps: usize,
    /// Molecules that share a minipage: the chunking level.
    pub chunk: usize,
}

impl Parameters {
    /// How many there are in all.
    #[must_use]
    pub const fn molecules(&self) -> usize {
        self.side * self.side * self.side
    }
}

/// The result. It depends on the order in which forces are added up, in the last few digits of its values at first and in
/// more after more steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The energy in the beginning, which should stay the same.
    pub energy_before: f64,
    /// The energy in the end.
    pub energy: f64,
    /// The part of it that is in the molecules' motion.
    pub kinetic: f64,
}

/// One host's part of the computation.
///
/// # Errors
/// As for [`Host::rows`], [`Host::barrier`] and [`Host::lock`].
pub fn parallel(host: &Host, parameters: &Parameters) -> Result<Outcome, Error> {
    let count = parameters.molecules();
    let molecules = host.rows_in_chunks::<f64>(count, MOLECULE, parameters.chunk, Placement::Blocks)?;
    let cell = Cell::new(parameters);
    let own = host.block(count);
    let update = |index: usize, change: &mut dyn FnMut(&mut Molecule)| {
        let mut words = [0.0; MOLECULE];
        molecules.row(index).read(0, &mut words);
        let mut molecule = Molecule::of(&words);
        change(&mut molecule);
        molecules.row(index).write(0, &molecule.words());
    };
    own.clone().for_each(|index| molecules.row(index).write(0, &cell.molecule(index).words()));

    // Those that own ones are paired with follow them, round in a circle.
    let near = if own.is_empty() { 0 } else { count.min(own.len() + count / 2) };
    let (mut atoms, mut forces) = (vec![[0.0; 9]; count], vec![[0.0; 9]; count]);
    let mut energies = vec![];
    for step in 0..=parameters.steps {
        for index in own.clone() {
            update(index, &mut |molecule| molecule.begin_step(step > 0));
        }
        host.barrier()?;

        for index in (own.start..own.start + near).map(|index| index % count) {
            molecules.row(index).read(0, &mut atoms[index]);
        }
        forces.iter_mut().for_each(|force| *force = [0.0; 9]);
        let mut energy = Energy::default();
        for index in own.clone() {
            energy.potential += cell.attract(index, &atoms, &mut forces);
        }
        add_under_locks(host, parameters, own.start, &mut forces, |index, force| {
            update(index, &mut |molecule| molecule.push(force));
        })?;
        host.barrier()?;

        for index in own.clone() {
            update(index, &mut |molecule| energy.add(molecule.end_step(step > 0)));
        }
        energies.push(energy);
    }
    let total = |energy: Energy| -> Result<Energy, Error> {
        let parts = gather(host, [energy.potential, energy.kinetic])?;
        let sum = |part: usize| parts.iter().map(|energy| energy[part]).sum();
        Ok(Energy { potential: sum(0), kinetic: sum(1) })
    };
    Ok(Outcome::of(total(energies[0])?, total(energies[parameters.steps])?))
}

/// Has the forces added to the molecules that they act on, each chunk of them under its lock. Hosts begin at different ones.
fn add_under_locks(
    host: &Host,
    parameters: &Parameters,
    first: usize,
    forces: &mut [Atoms],
    add: impl Fn(usize, &Atoms),
) -> Result<(), Error> {
    let chunk = parameters.chunk.max(1);
    let chunks = forces.len().div_ceil(chunk);
    for number in (0..chunks).map(|number| (first / chunk + number) % chunks) {
        let range = number * chunk..((number + 1) * chunk).min(forces.len());
        let acting = || range.clone().filter(|index| forces[*index] != [0.0; 9]);
        if acting().next().is_some() {
            host.lock(number as u32)?;
            acting().for_each(|index| add(index, &forces[index]));
            host.unlock(number as u32)?;
        }
    }
    Ok(())
}

/// The same on ordinary memory.
#[must_use]
pub fn sequential(parameters: &Parameters) -> Outcome {
    let cell = Cell::new(parameters);
    let mut molecules: Vec<Molecule> =
        (0..parameters.molecules()).map(|index| cell.molecule(index)).collect();
    let mut forces = vec![[0.0; 9]; molecules.len()];
    let mut energies = vec![];
    for step in 0..=parameters.steps {
        molecules.iter_mut().for_each(|molecule| molecule.begin_step(step > 0));
        let atoms: Vec<Atoms> = molecules.iter().map(|molecule| molecule.atoms).collect();
        forces.iter_mut().for_each(|force| *force = [0.0; 9]);
        let mut energy = Energy::default();
        for index in 0..molecules.len() {
            energy.potential += cell.attract(index, &atoms, &mut forces);
        }
        for (molecule, force) in molecules.iter_mut().zip(&forces) {
            molecule.push(force);
            energy.add(molecule.end_step(step > 0));
        }
        energies.push(energy);
    }
    Outcome::of(energies[0], energies[parameters.steps])
}

#[derive(Clone, Copy, Debug, Default)]
struct Energy {
    potential: f64,
    kinetic: f64,
}

impl Energy {
    fn add(&mut self, other: Self) {
        self.potential += other.potential;
        self.kinetic += other.kinetic;
    }

    fn total(self) -> f64 {
        self.potential + self.kinetic
    }
}

impl Outcome {
    fn of(before: Energy, after: Energy) -> Self {
        Self { energy_before: before.total(), energy: after.total(), kinetic: after.kinetic }
    }
}

/// Three coordinates of the oxygen, of one hydrogen and of the other; or of what acts on them.
type Atoms = [f64; 9];

/// Words of a molecule in shared memory.
const MOLECULE: usize = 27;

#[derive(Clone, Copy, Debug)]
struct Molecule {
    atoms: Atoms,
    velocities: Atoms,
    forces: Atoms,
}

const TIME_STEP: f64 = 0.000_25;
const MASSES: [f64; 3] = [15.999, 1.008, 1.008];
/// Of a kcal/mol per angstrom on one atomic unit of mass, in angstrom per square picosecond.
const ACCELERATION: f64 = 418.4;

const BOND: f64 = 1.012;
const BOND_STIFFNESS: f64 = 1_059.162;
const ANGLE: f64 = 113.24 * std::f64::consts::PI / 180.0;
const ANGLE_STIFFNESS: f64 = 75.9;

/// Charges, as roots of energy times length.
const CHARGES: [f64; 3] = [-0.82 * COULOMB_ROOT, 0.41 * COULOMB_ROOT, 0.41 * COULOMB_ROOT];
const COULOMB_ROOT: f64 = 18.222_6;
/// Of the Lennard-Jones force between oxygens, `4 epsilon sigma^12` and `4 epsilon sigma^6`.
const REPULSION: f64 = 4.0 * 0.155_425 * SIGMA_6 * SIGMA_6;
const DISPERSION: f64 = 4.0 * 0.155_425 * SIGMA_6;
const SIGMA_6: f64 = 3.165_492 * 3.165_492 * 3.165_492 * 3.165_492 * 3.165_492 * 3.165_492;

impl Molecule {
    fn words(&self) -> [f64; MOLECULE] {
        let parts = [self.atoms, self.velocities, self.forces];
        std::array::from_fn(|index| parts[index / 9][index % 9])
    }

    fn of(words: &[f64; MOLECULE]) -> Self {
        let part = |first| std::array::from_fn(|index| words[first + index]);
        Self { atoms: part(0), velocities: part(9), forces: part(18) }
    }

    /// The first half of a step of the velocity Verlet method.
    fn begin_step(&mut self, is_moving: bool) {
        if is_moving {
            self.accelerate();
            self.atoms
                .iter_mut()
                .zip(&self.velocities)
                .for_each(|(place, velocity)| *place += velocity * TIME_STEP);
        }
        self.forces = [0.0; 9];
    }

    fn push(&mut self, forces: &Atoms) {
        self.forces.iter_mut().zip(forces).for_each(|(force, more)| *force += more);
    }

    /// The second half, when all forces of other molecules are there. Its energy within.
    fn end_step(&mut self, is_moving: bool) -> Energy {
        let potential = self.bend();
        if is_moving {
            self.accelerate();
        }
        let twice = |(index, velocity): (usize, &f64)| MASSES[index / 3] * velocity * velocity / ACCELERATION;
        Energy { potential, kinetic: 0.5 * self.velocities.iter().enumerate().map(twice).sum::<f64>() }
    }

    fn accelerate(&mut self) {
        for (index, (velocity, force)) in self.velocities.iter_mut().zip(&self.forces).enumerate() {
            *velocity += force * (0.5 * TIME_STEP * ACCELERATION / MASSES[index / 3]);
        }
    }

    /// Adds the forces of bonds and of the angle between them. Their energy.
    fn bend(&mut self) -> f64 {
        let side = |hydrogen: usize| -> [f64; 3] {
            std::array::from_fn(|axis| self.atoms[3 * hydrogen + axis] - self.atoms[axis])
        };
        let sides = [side(1), side(2)];
        let lengths = sides.map(|side| dot(&side, &side).sqrt());
        let cosine = dot(&sides[0], &sides[1]) / (lengths[0] * lengths[1]);
        let angle = cosine.acos();
        let turn = ANGLE_STIFFNESS * (angle - ANGLE) / (1.0 - cosine * cosine).sqrt();
        let mut energy = 0.5 * ANGLE_STIFFNESS * (angle - ANGLE).powi(2);
        for (end, other) in [(0, 1), (1, 0)] {
            let stretch = lengths[end] - BOND;
            energy += 0.5 * BOND_STIFFNESS * stretch * stretch;
            for (axis, (side, other_side)) in sides[end].iter().zip(sides[other]).enumerate() {
                let along = side / lengths[end];
                let bend = turn * (other_side / lengths[other] - cosine * along) / lengths[end];
                let force = bend - BOND_STIFFNESS * stretch * along;
                self.forces[3 * (end + 1) + axis] += force;
                self.forces[axis] -= force;
            }
        }
        energy
    }
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The cube that repeats itself in all directions.
struct Cell {
    side: usize,
    length: f64,
    cutoff: f64,
    /// Oxygens that are further apart than this have no atoms within the cutoff.
    reach_squared: f64,
}

impl Cell {
    fn new(parameters: &Parameters) -> Self {
        // Water has 33.3 molecules in a cubic nanometre.
        let length = parameters.side as f64 * (1_000.0 / 33.3f64).cbrt();
        let apart = 2.5;
        let cutoff = (length / 2.0 - apart).min(8.0);
        Self { side: parameters.side, length, cutoff, reach_squared: (cutoff + apart).powi(2) }
    }

    /// Molecules begin on a lattice, turned in different ways.
    fn molecule(&self, index: usize) -> Molecule {
        let spacing = self.length / self.side as f64;
        let place = [index % self.side, index / self.side % self.side, index / self.side.pow(2)];
        let turn = index as f64 * 2.4;
        let mut atoms = [0.0; 9];
        for axis in 0..3 {
            let oxygen = place[axis] as f64 * spacing;
            let hydrogen = |angle: f64| BOND * [angle.cos(), angle.sin(), 0.0][(axis + index) % 3];
            atoms[axis] = oxygen;
            atoms[3 + axis] = oxygen + hydrogen(turn);
            atoms[6 + axis] = oxygen + hydrogen(turn + ANGLE);
        }
        Molecule { atoms, velocities: [0.0; 9], forces: [0.0; 9] }
    }

    /// Adds the forces between a molecule and the half of all others that follow it. Their energy.
    fn attract(&self, index: usize, atoms: &[Atoms], forces: &mut [Atoms]) -> f64 {
        let count = atoms.len();
        // Where that is not half exactly, each pair is the task of one of the two.
        let others = if count.is_multiple_of(2) && index >= count / 2 { count / 2 - 1 } else { count / 2 };
        let mut energy = 0.0;
        let mut own = [0.0; 9];
        for other in
            (index + 1..=index + others).map(|other| if other < count { other } else { other - count })
        {
            energy += self.pair(&atoms[index], &atoms[other], &mut own, &mut forces[other]);
        }
        forces[index].iter_mut().zip(&own).for_each(|(force, more)| *force += more);
        energy
    }

    /// Adds the forces between two molecules, or the nearest images of them. Their energy.
    fn pair(&self, a: &Atoms, b: &Atoms, force_a: &mut Atoms, force_b: &mut Atoms) -> f64 {
        let shift: [f64; 3] =
            std::array::from_fn(|axis| self.length * ((a[axis] - b[axis]) / self.length).round());
        let apart: [f64; 3] = std::array::from_fn(|axis| a[axis] - b[axis] - shift[axis]);
        if dot(&apart, &apart) > self.reach_squared {
            return 0.0;
        }
        let mut energy = 0.0;
        for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
            let apart: [f64; 3] = std::array::from_fn(|axis| a[3 * i + axis] - b[3 * j + axis] - shift[axis]);
            let squared = dot(&apart, &apart);
            if squared >= self.cutoff * self.cutoff {
                continue;
            }
            let distance = squared.sqrt();
            let (potential, force) = force_at(distance, i, j);
            let (last_potential, last_force) = force_at(self.cutoff, i, j);
            energy += potential - last_potential + (distance - self.cutoff) * last_force;
            for axis in 0..3 {
                let along = (force - last_force) * apart[axis] / distance;
                force_a[3 * i + axis] += along;
                force_b[3 * j + axis] -= along;
            }
        }
        energy
    }
}

/// Potential and force between two atoms.
fn force_at(distance: f64, i: usize, j: usize) -> (f64, f64) {
    let coulomb = CHARGES[i] * CHARGES[j] / distance;
    if (i, j) != (0, 0) {
        return (coulomb, coulomb / distance);
    }
    let sixth = distance.powi(-6);
    let (repulsion, dispersion) = (REPULSION * sixth * sixth, DISPERSION * sixth);
    (coulomb + repulsion - dispersion, (coulomb + 12.0 * repulsion - 6.0 * dispersion) / distance)
}
