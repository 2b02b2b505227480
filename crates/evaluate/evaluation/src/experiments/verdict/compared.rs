//! Servers that are measured once more, with more memory or with fewer clients, where counting does not tell.

use forebay_quantity::percent;

use super::{SEVERAL, Verdict, WAITS};
use crate::experiments::evidence::MISSED_MIN;
use crate::experiments::{Evidence, Fewer, Limit};

/// More memory limits no more where it makes the server less faster than this.
pub(super) const FASTER: f64 = 1.2;
/// Half the clients get as many answers, or half as many: below and above this ratio of the rates.
pub(super) const AS_MANY: f64 = 0.8;
const HALF_AS_MANY: f64 = 0.65;

impl Verdict {
    /// What `evidence` says, where it is known what the server does with more memory under the same load: if that makes it faster,
    /// and spares it pages that were not in memory, then memory limits, whatever it is spent on that they come. What was measured
    /// so needs no estimate of what that takes, and does not believe one; nor need anybody have seen a thread wait for a page.
    #[must_use]
    pub fn knowing(evidence: &Evidence, with_more_memory: &Evidence) -> Self {
        let mut verdict = Self::of(&Evidence { page_back_s: None, ..evidence.clone() });
        let pages = Evidence::missed_per_request;
        let faster = rate(with_more_memory) / rate(evidence);
        let spared = pages(evidence) >= MISSED_MIN.max(2.0 * pages(with_more_memory));
        if evidence.requests < 1.0 || !spared {
            return verdict;
        }
        let sentence = format!(
            "with more memory it answers {faster:.1} times as many requests, and {:.1} instead of {:.1} pages for each request \
             were not in memory",
            pages(with_more_memory),
            pages(evidence)
        );
        if faster >= FASTER {
            verdict.evidence.insert(0, sentence);
            verdict.undecided.clear();
            verdict.limit = Limit::VirtualMemory;
        } else {
            verdict.evidence.push(sentence);
        }
        verdict
    }

    /// What `evidence` says, where it is known what the server does with fewer of its clients, as many as it asks for.
    #[must_use]
    pub fn knowing_fewer_clients(self, evidence: &Evidence, with_fewer: &Evidence) -> Self {
        let (Some(all), Some(fewer)) = (evidence.in_flight, with_fewer.in_flight) else { return self };
        let compared = Compared { all, fewer, rates: rate(with_fewer) / rate(evidence) };
        if !compared.rates.is_finite() {
            return self;
        }
        match self.asks_for {
            Some(Fewer::Half) if (0.3..=0.7).contains(&(fewer / all)) => {
                self.knowing_half_the_clients(evidence, compared)
            }
            Some(Fewer::One) if fewer < SEVERAL => self.knowing_one_client(evidence, with_fewer, compared),
            _ => self,
        }
    }

    /// As many answers mean that requests wait for each other, and half as many that each has a wait of its own.
    fn knowing_half_the_clients(mut self, evidence: &Evidence, compared: Compared) -> Self {
        let Compared { all, fewer, rates } = compared;
        let sentence = format!(
            "with {fewer:.1} instead of {all:.1} requests under way it answers {} as many",
            percent(rates)
        );
        self.evidence.insert(0, sentence);
        if rates >= AS_MANY {
            let sentence = format!(
                "so the requests wait for each other, and no more than {fewer:.1} go on at a time: a lock, a pool of what each of \
                 them needs, or a limiter of their rate"
            );
            self.evidence.insert(1, sentence);
            if self.limit != Limit::Lock && !evidence.leads.is_empty() {
                // What it asks there may be where they wait for each other.
                self.limit = Limit::Undecided;
                let leads = evidence.leads.join(", ");
                self.undecided
                    .push(format!("{WAITS}: it has {leads}, and the requests may wait there as well"));
                return self;
            }
            if self.limit != Limit::Lock {
                self.name = Some("or pool or rate limiter".to_owned());
            }
            self.limit = Limit::Lock;
            self.undecided.clear();
        } else if rates <= HALF_AS_MANY {
            self.evidence.insert(1, "so each request has a wait of its own, beside the others".into());
            if self.limit == Limit::Lock {
                self.limit = Limit::Undecided;
                self.undecided.push(WAITS.to_owned());
            }
        } else {
            self.limit = Limit::Undecided;
            self.undecided.push("whether requests wait for each other: fewer clients do not tell".into());
        }
        self
    }
}

/// Runs with all and with fewer clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared {
    /// Requests under way.
    pub(super) all: f64,
    pub(super) fewer: f64,
    /// Answers with fewer clients for each one with all.
    pub(super) rates: f64,
}

/// Answers a second.
fn rate(evidence: &Evidence) -> f64 {
    evidence.requests / evidence.seconds
}
