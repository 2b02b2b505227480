//! What comes out of a projection.

use forebay_coherence::Counts;

/// A run that was projected, not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Until the last host's end.
    pub elapsed_ns: u64,
    /// Where the time of each host went.
    pub shares: Vec<Shares>,
    /// Messages between hosts.
    pub messages: u64,
    /// What was in them.
    pub bytes: u64,
    /// What the protocol counted, of all hosts together: requests, competing ones and more.
    pub counts: Counts,
}

/// Where a host's time went, in nanoseconds. All but the service add up to the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// The thread computed, or called what did not wait.
    pub compute_ns: u64,
    /// It waited for minipages to read.
    pub read_ns: u64,
    /// It waited for minipages to write to.
    pub write_ns: u64,
    /// It waited for locks.
    pub lock_ns: u64,
    /// It waited at barriers.
    pub barrier_ns: u64,
    /// It had ended, and others had not.
    pub ended_ns: u64,
    /// Meanwhile, the progress thread was busy.
    pub service_ns: u64,
}

impl Projection {
    /// All hosts' times together.
    #[must_use]
    pub fn total(&self) -> Shares {
        self.shares.iter().fold(Shares::default(), |total, host| Shares {
            compute_ns: total.compute_ns + host.compute_ns,
            read_ns: total.read_ns + host.read_ns,
            write_ns: total.write_ns + host.write_ns,
            lock_ns: total.lock_ns + host.lock_ns,
            barrier_ns: total.barrier_ns + host.barrier_ns,
            ended_ns: total.ended_ns + host.ended_ns,
            service_ns: total.service_ns + host.service_ns,
        })
    }
}
