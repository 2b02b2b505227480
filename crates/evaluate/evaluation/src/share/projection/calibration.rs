//! What faults, messages and calls take on this machine, told from a few small programs.

use std::time::Instant;

use crate::projection::{Costs, Event, Network};
use forebay_millipage::{Host, Placement};
use forebay_vm::{Allowed, Object, PAGE_BYTES, Views, protection};

use super::on_each;
use crate::{Error, harness::statistics::Series};

/// How often each thing is done for one value, and how many values there are.
const TIMES: usize = 128;
const VALUES: usize = 5;
/// Of the contents that are sent.
const ROW_BYTES: usize = 64;
/// What one thread copies to another.
const LOCAL_BYTES_PER_SECOND: f64 = 5e9;

/// What was told.
pub struct Calibration {
    pub costs: Costs,
    /// Between hosts within one process.
    pub local: Network,
}

/// Measures. Of what cannot be told apart each part is as large as the other.
pub fn measure() -> Result<Calibration, Error> {
    let protect_ns = protect_ns()?;
    // A host that has a copy, and needs nobody to write to it: trap, message to itself, protection, wake.
    let own_fault_ns = median_ns(1, Placement::Copies, |host, rows| {
        (0..TIMES).for_each(|index| rows.row(index).set(0, 1));
        host.barrier()
    })?;
    let call_ns = median_ns(1, Placement::Cyclic, |host, _| {
        (0..TIMES / 2).try_for_each(|_| host.lock(1).and_then(|()| host.unlock(1)))
    })?;
    // What the owner does for each of many fetches that are under way at the same time: it takes a request, protects, sends the
    // contents, and is told that they are there.
    let stream_ns = median_ns(2, Placement::On(0), |host, rows| {
        if host.rank() == 1 {
            (0..TIMES).for_each(|index| rows.row(index).prefetch());
            (0..TIMES).for_each(|index| rows.row(index).touch());
        }
        Ok(())
    })?;
    let message_ns = (stream_ns - protect_ns).max(0.0) / 3.0;
    let waking_ns = (own_fault_ns - protect_ns - message_ns).max(0.0);
    // What a trace has among what was computed, a projection must not add.
    let added_ns = (waking_ns - recorded_of_a_fault_ns()?).max(0.0);
    let costs = Costs {
        trap_ns: (added_ns / 2.0) as u64,
        wake_ns: (added_ns / 2.0) as u64,
        protect_ns: protect_ns as u64,
        receive_ns: message_ns as u64,
        send_ns: message_ns as u64,
        call_ns: call_ns as u64,
    };
    let fetch_ns = median_ns(2, Placement::On(0), |host, rows| {
        if host.rank() == 1 {
            (0..TIMES).for_each(|index| rows.row(index).touch());
        }
        Ok(())
    })?;
    // On the way to the owner and back: three messages taken, two sent, two protections.
    let on_hosts_ns = waking_ns + 5.0 * message_ns + 2.0 * protect_ns;
    let latency_ns = ((fetch_ns - on_hosts_ns) / 2.0).max(0.0) as u64;
    Ok(Calibration { costs, local: Network { latency_ns, bytes_per_second: LOCAL_BYTES_PER_SECOND } })
}

/// What a recording takes for computing of a fault: the way into its handler and back out of it.
fn recorded_of_a_fault_ns() -> Result<f64, Error> {
    let value = || {
        let each = on_each(1, 1 << 20, |host| {
            let rows = host.rows::<u64>(TIMES, ROW_BYTES / size_of::<u64>(), Placement::Copies)?;
            host.barrier()?;
            host.record(8 * TIMES);
            (0..TIMES).for_each(|index| rows.row(index).set(0, 1));
            let trace = host.trace()?;
            host.barrier()?;
            let computed = trace.hosts[0].iter().map(|event| match event {
                Event::Compute(nanoseconds) => *nanoseconds,
                _ => 0,
            });
            Ok::<_, forebay_millipage::Error>(computed.sum::<u64>() as f64 / TIMES as f64)
        })?;
        Ok(each.into_iter().sum())
    };
    (0..VALUES).map(|_| value()).collect::<Result<Series, Error>>().map(|series| series.median())
}

/// To allow a page, and to forbid it.
fn protect_ns() -> Result<f64, Error> {
    let object = Object::new(PAGE_BYTES)?;
    let views = Views::map(&object, 1, None)?;
    let protection = protection(&views)?;
    let value = || {
        let begun = Instant::now();
        for turn in 0..TIMES {
            let allowed = if turn % 2 == 0 { Allowed::Reading } else { Allowed::Nothing };
            protection.set(views.base(), PAGE_BYTES, allowed).map_err(Error::Protect)?;
        }
        Ok(each_ns(begun))
    };
    (0..VALUES).map(|_| value()).collect::<Result<Series, Error>>().map(|series| series.median())
}

/// Nanoseconds for one of [`TIMES`], of the host that took longest.
fn median_ns(
    hosts: u16,
    placement: Placement,
    act: impl Fn(&Host, &forebay_millipage::Rows<u64>) -> Result<(), forebay_millipage::Error> + Sync,
) -> Result<f64, Error> {
    let value = || {
        let each = on_each(hosts, 1 << 20, |host| {
            let rows = host.rows::<u64>(TIMES, ROW_BYTES / size_of::<u64>(), placement)?;
            host.barrier()?;
            let begun = Instant::now();
            act(host, &rows)?;
            let taken_ns = each_ns(begun);
            host.barrier()?;
            Ok::<_, forebay_millipage::Error>(taken_ns)
        })?;
        Ok(each.into_iter().fold(0.0, f64::max))
    };
    (0..VALUES).map(|_| value()).collect::<Result<Series, Error>>().map(|series| series.median())
}

fn each_ns(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e9 / TIMES as f64
}
