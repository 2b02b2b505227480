//! What a host of the protocol counts.

use std::ops::AddAssign;

/// Figures of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Faults of threads that wanted to read, and to write.
    pub read_faults: u64,
    /// See [`Counts::read_faults`].
    pub write_faults: u64,
    /// Minipages that the program asked for before a thread accessed them.
    pub prefetches: u64,
    /// Those that [`crate::Foresight`] asked for.
    pub foretold: u64,
    /// Faults that waited for those.
    pub foretold_late: u64,
    /// See [`crate::ForesightFigures`].
    pub foretold_sampled: u64,
    /// See [`crate::ForesightFigures`].
    pub foretold_unneeded: u64,
    /// Minipages that came in company with one that this host had asked for.
    pub in_company: u64,
    /// Requests that reached this host as their manager.
    pub requests: u64,
    /// Those of them that had to wait for another one.
    pub competing_requests: u64,
    /// Copies that this host gave up for another's write.
    pub invalidations: u64,
    /// Contents that this host sent.
    pub contents_sent: u64,
    /// Contents that this host received.
    pub contents_received: u64,
    /// Requests that were granted without contents.
    pub grants: u64,
}

impl Counts {
    /// Each with its name.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u64); 14] {
        [
            ("read faults", self.read_faults),
            ("write faults", self.write_faults),
            ("prefetches", self.prefetches),
            ("foretold", self.foretold),
            ("foretold late", self.foretold_late),
            ("foretold sampled", self.foretold_sampled),
            ("foretold unneeded", self.foretold_unneeded),
            ("in company", self.in_company),
            ("requests", self.requests),
            ("competing requests", self.competing_requests),
            ("invalidations", self.invalidations),
            ("contents sent", self.contents_sent),
            ("contents received", self.contents_received),
            ("grants", self.grants),
        ]
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.read_faults += more.read_faults;
        self.write_faults += more.write_faults;
        self.prefetches += more.prefetches;
        self.foretold += more.foretold;
        self.foretold_late += more.foretold_late;
        self.foretold_sampled += more.foretold_sampled;
        self.foretold_unneeded += more.foretold_unneeded;
        self.in_company += more.in_company;
        self.requests += more.requests;
        self.competing_requests += more.competing_requests;
        self.invalidations += more.invalidations;
        self.contents_sent += more.contents_sent;
        self.contents_received += more.contents_received;
        self.grants += more.grants;
    }
}
