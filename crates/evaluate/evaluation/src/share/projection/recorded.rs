//! The five programs on hosts within this process, timed or recorded.

use std::time::Instant;

use crate::projection::Trace;
use forebay_share_workload::{Error as Failure, Program, Report};

use super::on_each;
use crate::Error;

/// What a host may do in a run, at most.
const EVENTS_MAX: usize = 1 << 20;
/// As where hosts are processes.
const VIEWS: usize = 16;

/// Seconds that it takes.
pub fn measure(hosts: u16, program: Program) -> Result<f64, Error> {
    let each = on_each(hosts, program.shared_bytes(VIEWS), |host| {
        host.barrier()?;
        let begun = Instant::now();
        program.compute(host, &mut Report::new(host.rank()))?;
        let elapsed_s = begun.elapsed().as_secs_f64();
        host.barrier()?;
        Ok::<_, Failure>(elapsed_s)
    })?;
    Ok(each.into_iter().fold(0.0, f64::max))
}

/// What each host does.
pub fn record(hosts: u16, program: Program) -> Result<Trace, Error> {
    let each = on_each(hosts, program.shared_bytes(VIEWS), |host| {
        host.record(EVENTS_MAX);
        program.compute(host, &mut Report::new(host.rank()))?;
        let trace = host.trace()?;
        // Nobody leaves what others may still be at.
        host.barrier()?;
        Ok::<_, Failure>(trace)
    })?;
    Ok(Trace::of_hosts(each))
}
