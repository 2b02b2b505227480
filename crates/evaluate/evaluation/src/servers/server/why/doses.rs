//! Which doses this machine, and this experiment, allow.

use std::thread::available_parallelism;
use std::time::Duration;

use forebay_lab::{MemoryLimit, SlowDevice};
use forebay_probes::{Thief, machine};
use forebay_quantity::{bytes, number, percent, seconds};

use super::{Answer, Dose};
use crate::Error;
use crate::experiments::{Doses, Resource, Trial};
use crate::servers::server::eviction::in_memory;
use crate::servers::server::measure::{DEPENDENCY_ANSWERS, Given};
use crate::servers::server::processors::ProcessorGroup;
use crate::servers::server::run::{MEMORY_USED, Run};
use crate::servers::server::slow_files::SlowFiles;
use crate::servers::server::takers::Taken;
use crate::servers::server::{Experiment, ceilings};

/// What is taken away of processors and of memory.
const TAKEN: [f64; 3] = [0.1, 0.2, 0.4];
/// What is taken away of the page cache.
const EVICTED: f64 = 0.4;
/// By what a dependency is made later.
const LATER: f64 = 0.5;
/// A thief of throughput takes lines of so many times the last cache, so that none of them stays there.
const TIMES_LAST_CACHE: usize = 4;
/// A thief of the last cache takes such a part of it.
const PART_OF_CACHE: usize = 2;
/// A thief is known to take no more than this of what memory delivers: what it takes alone may be all of it.
const THIEF_MAX: f64 = 0.9;
/// Less on a disk in a second is none, in bytes.
const DISK_BYTES_MIN: f64 = 4096.0;

/// What packets cost is a resource without a dose.
const PACKETS: &str = "dearer packets: on the loopback they would be dearer for all programs of the machine";

/// A dose, before it has a name.
struct Part {
    dose: f64,
    of: String,
    /// The limit of memory with the dose, where that is what is taken.
    memory_bytes: Option<u64>,
    without: Given,
    with: Given,
}

/// Doses of a resource, or why there is none.
type Allowed = Result<Vec<Part>, String>;

impl Experiment<'_> {
    /// Gives `answer` all doses that there are of the resources in `only`, or of all, and tells which there are not.
    pub(super) fn allowed_doses(
        &mut self,
        answer: &mut Answer,
        run: &Run,
        only: &[Resource],
    ) -> Result<(), Error> {
        self.slow = None;
        let asked = |resource: &Resource| only.is_empty() || only.contains(resource);
        for resource in Resource::ALL.into_iter().filter(asked) {
            self.interrupt.check()?;
            let base = self.given;
            let allowed = match resource {
                Resource::Processor => processors(run, base),
                Resource::Memory => memory(run, base),
                Resource::PageCache => self.page_cache(&answer.trial, base)?,
                Resource::Bandwidth => bandwidth(base),
                Resource::LastCache => last_cache(base),
                Resource::Disk => self.disk(run, &answer.trial, base)?,
                Resource::Dependency => dependency(run, answer.dependency.as_deref(), base),
            };
            match allowed {
                Ok(parts) => answer.add(resource, parts),
                Err(why) => answer.refused.push(format!("{}: {why}", less_of(resource))),
            }
        }
        answer.refused.extend(only.is_empty().then(|| PACKETS.to_owned()));
        Ok(())
    }

    /// Pages of its files, where they are in memory.
    fn page_cache(&mut self, trial: &Trial, base: Given) -> Result<Allowed, Error> {
        let Some(documents) = self.documents(&trial.load)? else {
            return Ok(Err("the experiment has no files = \"DIR\" that the server reads".into()));
        };
        let Some((all, cached)) = in_memory(&documents.folder)? else {
            return Ok(Err("the kernel does not tell what is in memory of its files".into()));
        };
        if cached < all / 2.0 || all == 0.0 {
            let of = format!("{} of {}", bytes(cached), bytes(all));
            return Ok(Err(format!("no more than {of} of its files are in memory as it is")));
        }
        let taken = |is_twin| Given { taken: Some(Taken::PageCache { share: EVICTED, is_twin }), ..base };
        Ok(Ok(vec![Part {
            dose: EVICTED,
            of: format!("of {} of files", bytes(cached)),
            memory_bytes: None,
            without: taken(true),
            with: taken(false),
        }]))
    }

    /// The disk that its files, and what it writes, lie on.
    fn disk(&mut self, run: &Run, trial: &Trial, base: Given) -> Result<Allowed, Error> {
        let evidence = &run.evidence;
        let moved =
            [evidence.disk_read_bytes, evidence.disk_written_bytes].into_iter().flatten().sum::<f64>();
        if moved / evidence.seconds < DISK_BYTES_MIN {
            return Ok(Err("the server reads and writes nothing on a disk".into()));
        }
        if let Err(error) = SlowDevice::supported() {
            return Ok(Err(error.to_string()));
        }
        let documents = self.documents(&trial.load)?;
        let slow = match SlowFiles::start(documents.as_ref()) {
            Ok(slow) => slow,
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let (without_s, with_s) = slow.reads_s;
        self.slow = Some(slow);
        let dose = with_s / without_s - 1.0;
        if dose <= 0.0 {
            return Ok(Err(
                "a disk with a latency was as fast as without it; measure when less goes on".into()
            ));
        }
        let given = |is_slow| Given { disk_is_slow: Some(is_slow), ..base };
        Ok(Ok(vec![Part {
            dose,
            of: format!("after {}, on a disk of forebay's", seconds(without_s)),
            memory_bytes: None,
            without: given(false),
            with: given(true),
        }]))
    }
}

impl Answer {
    fn add(&mut self, resource: Resource, parts: Vec<Part>) {
        for Part { dose, of, memory_bytes, without, with } in parts {
            let subject = match (&self.dependency, resource) {
                (Some(dependency), Resource::Dependency) => dependency.clone(),
                _ => resource.name().to_owned(),
            };
            let sign = if resource.is_delay() { '+' } else { '-' };
            let name = format!("{subject} {sign}{}", percent(dose));
            self.doses.push(Dose {
                measured: Doses { resource, dose, pairs: vec![] },
                metric: if is_found(resource) { subject } else { name.clone() },
                name,
                of,
                trial: Trial { memory_bytes: memory_bytes.or(self.trial.memory_bytes), ..self.trial.clone() },
                without,
                with,
                ended_by: None,
            });
        }
    }
}

/// Whether the machine tells how large a dose is, which differs from run to run then.
fn is_found(resource: Resource) -> bool {
    matches!(resource, Resource::Bandwidth | Resource::Disk)
}

/// A dose of it, in words.
fn less_of(resource: Resource) -> &'static str {
    match resource {
        Resource::Processor => "less processor time",
        Resource::Memory => "less memory",
        Resource::PageCache => "less page cache",
        Resource::Bandwidth => "less throughput of memory",
        Resource::LastCache => "less of the last cache",
        Resource::Disk => "a later disk",
        Resource::Dependency => "a later dependency",
    }
}

/// What load and others leave to the server.
fn processors(run: &Run, base: Given) -> Allowed {
    ProcessorGroup::supported()?;
    let evidence = &run.evidence;
    let counted = evidence.processor_s.zip(evidence.machine_processor_s);
    let (used_s, machine_s) = counted.ok_or("the server's is not counted")?;
    let used = used_s / evidence.seconds;
    let there = (evidence.processors - (machine_s - used_s) / evidence.seconds).max(used);
    let part = |dose| Part {
        dose,
        of: format!("of {} processors, of which it used {}", number(there), number(used)),
        memory_bytes: None,
        without: base,
        with: Given { processors: Some(there * (1.0 - dose)), ..base },
    };
    Ok(TAKEN.map(part).into())
}

/// What the server's group used, with its page cache.
fn memory(run: &Run, base: Given) -> Allowed {
    MemoryLimit::supported().map_err(|error| error.to_string())?;
    let used = run.figure(MEMORY_USED).filter(|used| *used > 0.0);
    let used = used.ok_or("what the server uses is not counted")?;
    let part = |dose| Part {
        dose,
        of: format!("of {}", bytes(used)),
        memory_bytes: Some((used * (1.0 - dose)) as u64),
        without: base,
        with: base,
    };
    Ok(TAKEN.map(part).into())
}

/// What memory delivers, less what a thief takes of it on a processor of its own.
fn bandwidth(base: Given) -> Allowed {
    check_processors()?;
    let thief_bytes = TIMES_LAST_CACHE * last_cache_bytes()?;
    let delivered = ceilings::measured().memory_bytes_per_s;
    let thief = Thief::start(thief_bytes, false).map_err(|error| error.to_string())?;
    let takes = thief.bytes_per_s();
    let dose = (takes / delivered).min(THIEF_MAX);
    if dose <= 0.0 {
        return Err("a thief of it had no processor; measure when less goes on".into());
    }
    Ok(vec![Part {
        dose,
        of: format!("of {}/s, by a thief on a processor of its own", bytes(delivered)),
        ..beside_thief(thief_bytes, base)
    }])
}

/// The last cache, less what a thief keeps for itself.
fn last_cache(base: Given) -> Allowed {
    check_processors()?;
    let all = last_cache_bytes()?;
    let dose = 1.0 / PART_OF_CACHE as f64;
    let of = format!("of {}, by a thief on a processor of its own", bytes(all as f64));
    Ok(vec![Part { dose, of, ..beside_thief(all / PART_OF_CACHE, base) }])
}

/// The same work on another processor on both sides.
fn beside_thief(bytes: usize, base: Given) -> Part {
    let taken = |is_twin| Given { taken: Some(Taken::Lines { bytes, is_twin }), ..base };
    Part { dose: 0.0, of: String::new(), memory_bytes: None, without: taken(true), with: taken(false) }
}

fn check_processors() -> Result<(), String> {
    match available_parallelism() {
        Ok(processors) if processors.get() < 2 => {
            Err("this machine has one processor, and a thief would take its time".into())
        }
        _ => Ok(()),
    }
}

fn last_cache_bytes() -> Result<usize, String> {
    let last = machine::caches().last().map(|cache| cache.bytes);
    last.ok_or_else(|| "the kernel does not tell the size of the last cache".into())
}

/// The time that the dependency takes for an answer.
fn dependency(run: &Run, dependency: Option<&str>, base: Given) -> Allowed {
    let dependency = dependency
        .ok_or("the experiment has no dependency = \"HOST:PORT\" with {dependency} in its server")?;
    let answers_s = run.figure(DEPENDENCY_ANSWERS);
    let answers_s =
        answers_s.ok_or_else(|| format!("{dependency} was not asked; use {{dependency}} in the server"))?;
    Ok(vec![Part {
        dose: LATER,
        of: format!("after {}", seconds(answers_s)),
        memory_bytes: None,
        without: base,
        with: Given { dependency_later: Some(Duration::from_secs_f64(answers_s * LATER)), ..base },
    }])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::experiments::{Evidence, Load, Prints, Server, Verdict};
    use crate::servers::server::run::Figure;

    #[test]
    fn a_tenth_a_fifth_and_two_fifths_are_taken_of_memory() {
        let mut run = Run::told_by(Evidence::default());
        run.figures.push(Figure::new(MEMORY_USED, "B", 100e6));
        let parts = match memory(&run, Given::default()) {
            Ok(parts) => parts,
            Err(why) => {
                return forebay_testkit::skip("a_tenth_a_fifth_and_two_fifths_are_taken_of_memory", &why);
            }
        };
        let left: Vec<_> = parts.iter().filter_map(|part| part.memory_bytes).collect();
        assert_eq!(left, [90_000_000, 80_000_000, 60_000_000]);
    }

    #[test]
    fn results_of_several_runs_name_a_dose_alike() {
        let load = Load::Command {
            arguments: vec![],
            with_fewer_clients: BTreeMap::new(),
            prints: Prints::default(),
        };
        let trial = Trial {
            subject: "s".into(),
            levels: vec![],
            server: Server::Command(vec!["s".into()]),
            load,
            memory_bytes: None,
        };
        let counted = Verdict::of(&Evidence::default());
        let mut answer = Answer { trial, dependency: None, counted, doses: vec![], refused: vec![] };
        let given = Given::default;
        let part =
            |dose| Part { dose, of: String::new(), memory_bytes: None, without: given(), with: given() };
        answer.add(Resource::Disk, vec![part(1.37)]);
        answer.add(Resource::Memory, vec![part(0.2), part(0.4)]);
        let named: Vec<_> =
            answer.doses.iter().map(|dose| (dose.name.as_str(), dose.metric.as_str())).collect();
        let memory = ["memory -20 %", "memory -40 %"];
        assert_eq!(named, [("disk +137 %", "disk"), (memory[0], memory[0]), (memory[1], memory[1])]);
    }
}
