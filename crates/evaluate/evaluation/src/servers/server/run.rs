//! What came of a run: its figures, and what they say of the server.

use forebay_counters::{Reading, Refused};
use forebay_results::Tier;

use super::meters::{Counts, total};
use super::simulation::missed;
use crate::Error;
use crate::experiments::{Ceilings, Evidence, Fewer, Limit, Misses, Verdict};

/// What the group of the server used of memory, with its page cache.
pub(super) const MEMORY_USED: &str = "memory_used";
const PAGE_BYTES: f64 = 4096.0;

/// What came of a run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) figures: Vec<Figure>,
    pub(super) evidence: Evidence,
    pub(super) verdict: Verdict,
    /// What went wrong with some requests.
    pub(super) trouble: Option<String>,
    /// Counters that could not be had, and why.
    pub(super) refused: Vec<Refused>,
    /// Whether counting kept the time of the load.
    pub(super) punctual: bool,
}

/// A quantity of a run.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) value: f64,
    pub(super) tier: Tier,
}

impl Run {
    /// The verdict again, with how much there is to be served.
    pub(super) fn serving_of(&mut self, bytes: f64) {
        self.evidence.served_of_bytes = Some(bytes);
        self.verdict = Verdict::of(&self.evidence);
    }

    /// The verdict again, with what is behind the proxy in place of the proxy.
    pub(super) fn behind_proxy(&mut self, proxy: &str, dependency: &str) {
        let of_proxy = self.evidence.dependencies.iter_mut().filter(|one| one.name == proxy);
        of_proxy.for_each(|one| one.name = dependency.to_owned());
        self.verdict = Verdict::of(&self.evidence);
    }

    /// With how few clients it should be made again, where that tells more.
    pub(super) fn asks_for(&self) -> Option<Fewer> {
        self.verdict.asks_for
    }

    /// What `verdict` on this run becomes by one with fewer clients.
    pub(super) fn knowing_fewer_clients(&self, verdict: Verdict, fewer: Option<&Self>) -> Verdict {
        match fewer {
            Some(fewer) => verdict.knowing_fewer_clients(&self.evidence, &fewer.evidence),
            None => verdict,
        }
    }

    /// The verdict again, with what it takes to bring a page back.
    pub(super) fn knowing_pages(&mut self, back_s: Option<f64>) {
        self.evidence.page_back_s = back_s;
        self.verdict = Verdict::of(&self.evidence);
    }

    /// The verdict again, with what a page fault of new memory takes.
    pub(super) fn knowing_new_pages(&mut self, new_s: Option<f64>) {
        self.evidence.new_page_s = new_s;
        self.verdict = Verdict::of(&self.evidence);
    }

    /// Whether pages were not in memory, and nothing but an estimate tells whether that matters.
    pub(super) fn may_lack_memory(&self) -> bool {
        let without_estimate = Evidence { page_back_s: None, ..self.evidence.clone() };
        self.evidence.misses_memory() && Verdict::of(&without_estimate).limit != Limit::VirtualMemory
    }

    /// The verdict again, with what a request misses in caches.
    pub(super) fn knowing(&mut self, misses: Misses, ceilings: Ceilings) {
        self.evidence.misses = Some(misses);
        self.evidence.ceilings = Some(ceilings);
        self.verdict = Verdict::of(&self.evidence);
        if misses.tier == Tier::Hardware {
            return;
        }
        let figure = |metric: &str, value| Figure { tier: misses.tier, ..Figure::new(metric, "1", value) };
        self.figures.push(figure("cache_misses_per_request", misses.first));
        self.figures.push(figure("memory_loads_per_request", misses.last));
    }
}

impl Figure {
    pub(super) fn new(metric: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        Self { metric: metric.into(), unit: unit.into(), value, tier: Tier::Software }
    }
}

impl Run {
    pub(super) fn of(
        evidence: Evidence,
        counts: &Counts,
        latencies: Vec<Figure>,
        trouble: Option<String>,
    ) -> Self {
        let mut figures = vec![Figure::new("transactions", "1/s", evidence.requests / evidence.seconds)];
        if evidence.bytes > 0.0 {
            figures.push(Figure::new("throughput", "Mbit/s", evidence.bytes * 8.0 / 1e6 / evidence.seconds));
        }
        figures.extend(latencies);
        if let Some(processor_s) = evidence.processor_s {
            let share = processor_s / (evidence.seconds * evidence.processors);
            figures.push(Figure::new("cpu", "%", share * 100.0));
            let in_kernel =
                evidence.system_s.filter(|_| processor_s > 0.0).map(|system_s| system_s / processor_s);
            figures.extend(in_kernel.map(|share| Figure::new("kernel_share", "%", share.min(1.0) * 100.0)));
        }
        let of_server = |names: &[&str]| total(&counts.server, names, evidence.seconds);
        let switches = of_server(&["voluntary_switches", "involuntary_switches"])
            .or_else(|| of_server(&["context_switches"]));
        let totals = [
            ("cpu_time", "s", evidence.processor_s),
            ("minor_faults", "1", of_server(&["minor_faults"])),
            ("major_faults", "1", of_server(&["major_faults"])),
            ("context_switches", "1", switches),
            ("disk_read", "B", evidence.disk_read_bytes),
            ("refaults", "1", evidence.refaults),
        ];
        for (metric, unit, total) in
            totals.into_iter().filter_map(|(metric, unit, total)| Some((metric, unit, total?)))
        {
            figures.extend(spread_out(metric, unit, total, &evidence, Tier::Software));
        }
        let hardware = counts.server.readings.iter().filter(|reading| reading.counter.tier == Tier::Hardware);
        for reading in hardware.clone() {
            figures.extend(spread_out(
                &reading.counter.name,
                reading.counter.unit,
                reading.value,
                &evidence,
                Tier::Hardware,
            ));
        }
        let used = counts.group.as_ref().and_then(|group| group.get("memory_bytes"));
        figures.extend(used.map(|bytes| Figure::new(MEMORY_USED, "B", bytes)));
        if let Some(pages) = counts.server.get("resident_pages") {
            figures.push(Figure::new("resident", "B", pages * PAGE_BYTES));
        }
        if let Some(pages) = counts.machine.get("file_pages_cached") {
            figures.push(Figure::new("files_in_memory", "B", pages * PAGE_BYTES));
        }
        if let Some(pages) = counts.machine.get("active_pages") {
            figures.push(Figure::new("active_pages", "pages", pages));
        }
        let hardware: Vec<Reading> = hardware.cloned().collect();
        let each = |level| missed(&hardware, level) / evidence.requests;
        let misses = Misses { first: each("first_level"), last: each("last_level"), tier: Tier::Hardware };
        let evidence = Evidence { misses: Some(misses).filter(|misses| misses.first > 0.0), ..evidence };
        let (verdict, refused) = (Verdict::of(&evidence), counts.refused.clone());
        let punctual = counts.punctual(evidence.seconds);
        let trouble = trouble.or_else(|| punctual.as_ref().err().map(Error::to_string));
        let punctual = punctual.is_ok();
        Self { figures, evidence, verdict, trouble, refused, punctual }
    }

    /// One of which nothing is known but this.
    #[cfg(test)]
    pub(super) fn told_by(evidence: Evidence) -> Self {
        let transactions = Figure::new("transactions", "1/s", evidence.requests / evidence.seconds);
        let verdict = Verdict::of(&evidence);
        Self {
            figures: vec![transactions],
            evidence,
            verdict,
            trouble: None,
            refused: vec![],
            punctual: true,
        }
    }

    pub(super) fn figure(&self, metric: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.metric == metric).map(|figure| figure.value)
    }
}

/// A total by the second, for each request and for each megabyte served.
fn spread_out(metric: &str, unit: &str, total: f64, evidence: &Evidence, tier: Tier) -> Vec<Figure> {
    let megabytes = evidence.bytes / 1e6;
    let mut figures = vec![Figure::new(metric, format!("{unit}/s"), total / evidence.seconds)];
    if evidence.requests > 0.0 {
        figures.push(Figure::new(format!("{metric}_per_request"), unit, total / evidence.requests));
    }
    if megabytes > 0.0 {
        figures.push(Figure::new(format!("{metric}_per_megabyte"), unit, total / megabytes));
    }
    figures.into_iter().map(|figure| Figure { tier, ..figure }).collect()
}
