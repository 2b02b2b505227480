//! What was measured of a server during one run.

use forebay_results::Tier;

use crate::experiments::{Clients, Dependency, Threads, Timeouts};

/// What was measured. What is `None` nobody could tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// How long.
    pub seconds: f64,
    /// Processors of the machine.
    pub processors: f64,
    /// Requests that were answered.
    pub requests: f64,
    /// Requests that failed, which cost the server something too.
    pub failed: f64,
    /// Bytes of the answers.
    pub bytes: f64,
    /// Requests that were to be made, where there was a schedule.
    pub intended: Option<f64>,
    /// Requests under way, on the average; `None` where nobody counted them.
    pub in_flight: Option<f64>,
    /// What made the requests, where its processor time is known.
    pub generator: Option<Generator>,
    /// Whether the server is the kernel, which has no threads of its own for it.
    pub in_kernel: bool,
    /// What the server's threads did.
    pub threads: Option<Threads>,
    /// What they did before the load.
    pub threads_at_rest: Threads,
    /// Threads that were ever seen at something else than waiting for work.
    pub threads_at_work: Option<f64>,
    /// The share of the looks in which the busiest thread was on a processor or waited for one.
    pub busiest_thread: Option<f64>,
    /// Of the looks in which any thread was, the share in which only one was.
    pub one_at_a_time: Option<f64>,
    /// Threads that wait for each other for a time at most: the time may be what they wait for.
    pub timed_locks: f64,
    /// How long threads that sleep do; `None` where that cannot be told.
    pub sleeps: Option<Timeouts>,
    /// How long threads that wait for events are ready to wait.
    pub timeouts: Timeouts,
    /// The same before the load.
    pub timeouts_at_rest: Timeouts,
    /// Connections from clients; `None` where the kernel does not list them.
    pub clients: Option<Clients>,
    /// Other servers that it asks.
    pub dependencies: Vec<Dependency>,
    /// What else it may wait for, in words, where that tells no more.
    pub leads: Vec<String>,
    /// Processors that its threads may use, where that is known.
    pub allowed_processors: Option<f64>,
    /// What its control groups allow it of the processors.
    pub quota: Option<Throttled>,
    /// The disk that it used most.
    pub disk: Option<DiskQueue>,
    /// Processor time of the server.
    pub processor_s: Option<f64>,
    /// Of this in the kernel.
    pub system_s: Option<f64>,
    /// How long its threads waited for a processor, together.
    pub processor_wait_s: Option<f64>,
    /// Processor time of all that ran on the machine.
    pub machine_processor_s: Option<f64>,
    /// Its page faults that did not wait.
    pub minor_faults: Option<f64>,
    /// Its page faults that waited.
    pub major_faults: Option<f64>,
    /// Pages that came back which memory had had no room for.
    pub refaults: Option<f64>,
    /// How often the server's group reached its limit of memory.
    pub memory_limit_hits: Option<f64>,
    /// Processor time that it takes to bring one of those back, in seconds.
    pub page_back_s: Option<f64>,
    /// Processor time of a page fault of new memory, in seconds, where it was measured.
    pub new_page_s: Option<f64>,
    /// Bytes that came from disks.
    pub disk_read_bytes: Option<f64>,
    /// Bytes that went to disks.
    pub disk_written_bytes: Option<f64>,
    /// Bytes that there are to be served, again and again.
    pub served_of_bytes: Option<f64>,
    /// Time in which tasks waited for memory, in seconds (PSI).
    pub memory_pressure_s: Option<f64>,
    /// Its reading and writing calls.
    pub calls: Option<f64>,
    /// Bytes of those.
    pub call_bytes: Option<f64>,
    /// Its memory that is in no file, swapped or not, in bytes, at even distances of time.
    pub held_bytes: Vec<f64>,
    /// What a request misses in caches.
    pub misses: Option<Misses>,
    /// What the machine can do.
    pub ceilings: Option<Ceilings>,
}

/// A quota of processor time that ran out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttled {
    /// Processors that the quota allows.
    pub processors: f64,
    /// The share of the periods in which it ran out.
    pub share: f64,
}

/// A disk, and how many of its requests were under way.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskQueue {
    /// Such as `sda`.
    pub name: String,
    /// Its requests under way, on the average.
    pub under_way: f64,
    /// The share of the time in which it had any.
    pub busy: f64,
    /// Bytes that it moved.
    pub bytes: f64,
}

/// What made the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generator {
    /// Its threads, or as many as would be as busy as the busiest one.
    pub threads: f64,
    /// Their processor time.
    pub processor_s: f64,
    /// How long they waited for a processor.
    pub queued_s: f64,
}

/// Cache misses of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misses {
    /// Of the first level, which may be found in a later one.
    pub first: f64,
    /// Of the last level, which come from memory.
    pub last: f64,
    /// Who says so.
    pub tier: Tier,
}

/// What the machine can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Time of a miss that a later cache answers.
    pub cache_s: f64,
    /// Time of one that memory answers.
    pub memory_s: f64,
    /// What memory can deliver in all.
    pub memory_bytes_per_s: f64,
}

/// Growth is what goes on: the second half of the time has this share of the first half's, at least. A cache that fills slows
/// down, because more and more is found in it.
const GOES_ON: f64 = 0.75;
/// The same for a server that waits for memory: such waits slow down whatever grows.
const GOES_ON_WAITING: f64 = 1.0 / 3.0;
const PAGE_BYTES: f64 = 4096.0;
/// Less growth than this is a cache that fills, or a pool.
const GROWTH_BYTES_MIN: f64 = (4u32 << 20) as f64;
/// One of several dependencies is named where so many requests wait for it beside the latest one.
const NAMED_OF_LATEST: f64 = 0.25;
/// And so many of them at most.
const NAMED_MAX: usize = 4;
/// A round trip within a machine is far shorter than this, in seconds.
pub(crate) const LINK_S_MIN: f64 = 0.5e-3;
/// Pages that come back for each request, below which they are no matter.
pub(crate) const REFAULTS_MIN: f64 = 0.1;
/// The same for pages that were not in memory when they were asked for.
pub(crate) const MISSED_MIN: f64 = 0.1;

impl Evidence {
    /// Bytes by which the server grew for each request, where it went on growing.
    pub(crate) fn growth_per_request(&self) -> Option<f64> {
        let (first, last) = (self.held_bytes.first()?, self.held_bytes.last()?);
        let middle = self.held_bytes[self.held_bytes.len() / 2];
        let share = if self.comes_back() || self.major_faults.is_some_and(|faults| faults > self.seconds) {
            GOES_ON_WAITING
        } else {
            GOES_ON
        };
        let goes_on = last - middle >= share * (middle - first) && last - first >= GROWTH_BYTES_MIN;
        (goes_on && self.requests > 0.0).then(|| (last - first) / self.requests)
    }

    /// Pages that came back which memory had had no room for. The kernel forgets soon which pages of small files it had (it keeps
    /// that in the nodes of the files' trees, and few of those); but of what is read beyond all that there is, all came back.
    pub(crate) fn pages_back(&self) -> Option<f64> {
        let beyond = self.disk_read_bytes.zip(self.served_of_bytes);
        let beyond = beyond.map(|(read, there_is)| ((read - there_is) / PAGE_BYTES).max(0.0));
        self.refaults.into_iter().chain(beyond).reduce(f64::max)
    }

    /// Whether waits for files may be for what memory had had before: no more is written than read.
    pub(crate) fn mostly_reads(&self) -> bool {
        self.disk_read_bytes >= self.disk_written_bytes
    }

    /// The share of what came from disks that memory had had before.
    pub(crate) fn refault_share(&self) -> Option<f64> {
        let (back, read) = (self.pages_back()?, self.disk_read_bytes?);
        (read > 0.0).then(|| (back * PAGE_BYTES / read).min(1.0))
    }

    /// Pages that come back for each request.
    pub(crate) fn refaults_per_request(&self) -> f64 {
        self.pages_back().unwrap_or(0.0) / self.requests.max(1.0)
    }

    /// Pages for each request that were not in memory when they were asked for, whether or not the kernel knows that they had
    /// been there before.
    pub(crate) fn missed_per_request(&self) -> f64 {
        let read = self.disk_read_bytes.map(|bytes| bytes / PAGE_BYTES);
        let missed = [self.pages_back(), self.major_faults, read].into_iter().flatten().fold(0.0, f64::max);
        missed / self.requests.max(1.0)
    }

    /// Whether so much was not in memory that a run with more memory tells whether that matters.
    pub(crate) fn misses_memory(&self) -> bool {
        self.missed_per_request() >= MISSED_MIN
    }

    /// Whether so much comes back that what this takes should be known.
    #[must_use]
    pub fn comes_back(&self) -> bool {
        self.refaults_per_request() >= REFAULTS_MIN
    }

    /// The share of the processor time that it takes to bring back what memory had no room for.
    pub(crate) fn back_share(&self) -> Option<f64> {
        let processor_s = self.processor_s.filter(|seconds| *seconds > 0.0)?;
        Some((self.pages_back()? * self.page_back_s? / processor_s).min(1.0))
    }

    /// The share of the processor time for each request that misses explain.
    pub(crate) fn miss_share(&self) -> Option<f64> {
        let (misses, ceilings) = (self.misses?, self.ceilings?);
        let found_later = (misses.first - misses.last).max(0.0);
        let stall_s = found_later * ceilings.cache_s + misses.last * ceilings.memory_s;
        // What the kernel takes is no part of what a simulation saw.
        let request_s = self.processor_s? * (1.0 - self.unseen_share()) / self.requests;
        (request_s > 0.0).then(|| stall_s / request_s)
    }

    /// The share of its processor time that a simulation does not see: what the kernel does for it.
    pub(crate) fn unseen_share(&self) -> f64 {
        let simulated = self.misses.is_some_and(|misses| misses.tier == Tier::Simulated);
        let share = self.system_s.zip(self.processor_s).map_or(0.0, |(system, all)| system / all);
        if simulated { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Requests under way: counted by clients of forebay's own, or else as many as there are connections. A load that keeps to a
    /// schedule has connections without a request.
    pub(crate) fn under_way(&self) -> Option<f64> {
        let connections = self.clients.map(|clients| clients.connections).filter(|number| *number > 0.0);
        self.in_flight.or(connections.filter(|_| self.intended.is_none()))
    }

    /// Requests that are known to wait for nothing of the server's: for their clients, for a link, or for another server.
    pub(crate) fn elsewhere(&self) -> f64 {
        let others = self.dependencies.iter().filter(|one| !one.own).map(|one| one.waiting).sum::<f64>();
        let on_the_way = |clients: Clients| clients.sending.max(self.on_the_link());
        let clients =
            self.clients.map_or(0.0, |clients| clients.turned_away + on_the_way(clients) + clients.untaken);
        (others + clients).min(self.under_way().unwrap_or(0.0))
    }

    /// Requests and answers that are on their way over a link which is no part of this machine: each request takes a round trip.
    pub(crate) fn on_the_link(&self) -> f64 {
        let round_trip_s = self.clients.map_or(0.0, |clients| clients.round_trip_s);
        if round_trip_s < LINK_S_MIN {
            return 0.0;
        }
        let requests = self.under_way().unwrap_or(0.0);
        requests * (round_trip_s / self.latency_s().max(f64::MIN_POSITIVE)).min(1.0)
    }

    /// How long a request takes, in seconds, by how many are under way.
    pub(crate) fn latency_s(&self) -> f64 {
        self.under_way().unwrap_or(0.0) * self.seconds / self.requests.max(1.0)
    }

    /// The dependency that most requests wait for: a part of the server itself, or another one.
    pub(crate) fn latest_dependency(&self, own: bool) -> Option<&Dependency> {
        let those = self.dependencies.iter().filter(|one| one.own == own);
        those.max_by(|one, other| one.waiting.total_cmp(&other.waiting))
    }

    /// All other servers that it asks as one, which has the names of the latest ones.
    pub(crate) fn late_dependencies(&self) -> Option<Dependency> {
        let mut others: Vec<&Dependency> = self.dependencies.iter().filter(|one| !one.own).collect();
        others.sort_by(|one, other| other.waiting.total_cmp(&one.waiting));
        Some(Dependency {
            name: names(&others)?,
            connections: others.iter().map(|one| one.connections).sum(),
            waiting: others.iter().map(|one| one.waiting).sum(),
            own: false,
            round_trip_s: others.iter().map(|one| one.round_trip_s).reduce(f64::min).unwrap_or(0.0),
        })
    }

    /// Processors without anything to do, on the average.
    pub(crate) fn idle_processors(&self) -> Option<f64> {
        self.machine_processor_s.map(|used_s| (self.processors - used_s / self.seconds).max(0.0))
    }
}

impl Generator {
    /// Of a load whose busiest thread ran or wanted to for so long. No more threads than there are processors run at a time.
    pub(crate) fn with_busiest(processor_s: f64, queued_s: f64, busiest_s: f64, processors: f64) -> Self {
        let as_busy = (processor_s + queued_s) / busiest_s.max(f64::MIN_POSITIVE);
        Self { threads: as_busy.clamp(1.0, processors.max(1.0)), processor_s, queued_s }
    }

    /// The share of its time that it ran or wanted to.
    pub(crate) fn share(&self, seconds: f64) -> f64 {
        (self.processor_s + self.queued_s) / (self.threads * seconds)
    }
}

/// The names of these, the latest first, in words; a request waits for the others too seldom to name them.
pub(crate) fn names(latest_first: &[&Dependency]) -> Option<String> {
    let least = NAMED_OF_LATEST * latest_first.first()?.waiting;
    let late = latest_first.iter().filter(|one| one.waiting >= least).map(|one| one.name.clone());
    let mut names: Vec<String> = late.collect();
    if names.len() > NAMED_MAX {
        let left_out = names.split_off(NAMED_MAX - 1).len();
        names.push(format!("{left_out} others"));
    }
    let last = names.pop()?;
    Some(if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(mebibytes: &[f64]) -> Option<f64> {
        let held_bytes = mebibytes.iter().map(|mebibytes| mebibytes * 1_048_576.0).collect();
        Evidence { held_bytes, requests: 1024.0, ..Evidence::default() }.growth_per_request()
    }

    #[test]
    fn what_is_read_beyond_all_that_there_is_came_back() {
        let small_files = Evidence {
            refaults: Some(100.0),
            disk_read_bytes: Some(4_096_000.0),
            served_of_bytes: Some(1_024_000.0),
            ..Evidence::default()
        };
        assert_eq!((small_files.pages_back(), small_files.refault_share()), (Some(750.0), Some(0.75)));
        let once = Evidence { served_of_bytes: Some(8_192_000.0), ..small_files };
        assert_eq!((once.pages_back(), once.refault_share()), (Some(100.0), Some(0.1)));
    }

    #[test]
    fn a_load_is_as_busy_as_its_busiest_thread_and_no_more_threads_run_than_there_are_processors() {
        let share = |processor_s, queued_s, busiest_s| {
            Generator::with_busiest(processor_s, queued_s, busiest_s, 2.0).share(10.0)
        };
        // One thread that computes beside one that waits for it, two, and twenty that share two processors.
        assert_eq!((share(9.0, 0.0, 9.0), share(18.0, 0.0, 9.0), share(18.0, 0.0, 1.0)), (0.9, 0.9, 0.9));
        assert_eq!((share(0.0, 0.0, 0.0), share(2.0, 1.0, 3.0)), (0.0, 0.3));
    }

    #[test]
    fn what_grows_slower_because_it_waits_for_memory_still_grows() {
        let held_bytes = [10.0, 30.0, 40.0].map(|mebibytes| mebibytes * 1_048_576.0).to_vec();
        let waiting = Evidence {
            held_bytes,
            requests: 10.0,
            seconds: 1.0,
            major_faults: Some(50.0),
            ..Evidence::default()
        };
        assert!(waiting.growth_per_request().is_some());
    }

    #[test]
    fn growth_that_goes_on_is_no_cache_that_fills() {
        assert_eq!(holding(&[10.0, 20.0, 30.0]), Some(20.0 * 1024.0));
        assert_eq!(holding(&[10.0, 30.0, 30.0]), None);
        assert_eq!(holding(&[10.0, 30.0, 42.0]), None);
        assert_eq!(holding(&[10.0, 10.5, 11.0]), None);
        assert_eq!(holding(&[]), None);
    }
}
