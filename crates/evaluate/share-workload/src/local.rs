//! Measures the parts of a program that need one host only.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use forebay_coherence::{HostId, Minipage};
use forebay_millipage::Error;
use forebay_vm::{
    Allowed, Element, Object, PAGE_BYTES, Protection, Through, Views,
    fault::{Fault, Serve, serve},
    layout::{Grain, Layout},
    protection,
};

use crate::Report;

/// What is too short for the clock is done so often for one value.
const AT_ONCE: u32 = 1_000;

/// A page that may be read as soon as a thread does.
struct Page {
    views: Views,
    protection: Box<dyn Protection>,
}

impl Page {
    fn allow(&self, allowed: Allowed) -> bool {
        self.protection.set(self.views.base(), PAGE_BYTES, allowed).is_ok()
    }

    fn read(&self) -> Duration {
        let begun = Instant::now();
        black_box(self.views.sum(Element::Word, Through::OneView));
        begun.elapsed()
    }
}

impl Serve for Page {
    fn serve(&self, _: Fault) -> bool {
        self.allow(Allowed::Reading)
    }
}

/// Adds faults, protections and look-ups to a report.
pub fn measure(times: usize, report: &mut Report) -> Result<(), Error> {
    let object = Object::new(PAGE_BYTES)?;
    let views = Views::map(&object, 1, None)?;
    let protection = protection(&views)?;
    // The handler may be called for as long as the process lives.
    let page: &Page = Box::leak(Box::new(Page { views, protection }));
    let base = page.views.base();
    let _served = serve(base..base + PAGE_BYTES, page.protection.signal(), page)?;
    let (mut faults, mut reads, mut grants, mut revocations) = (vec![], vec![], vec![], vec![]);
    for _ in 0..times {
        let forbid = || {
            let begun = Instant::now();
            page.allow(Allowed::Nothing);
            begun.elapsed()
        };
        revocations.push(forbid());
        faults.push(page.read());
        reads.push(page.read());
        forbid();
        let begun = Instant::now();
        page.allow(Allowed::Reading);
        grants.push(begun.elapsed());
    }
    // The page is read as a whole either way; the handler allows that, and the rest is the fault.
    let read = median(&mut reads);
    let served = median(&mut faults);
    let grant = median(&mut grants);
    report.add("fault", served.saturating_sub(read + grant).as_secs_f64());
    report.add("grant", grant.as_secs_f64());
    report.add_median("revocation", revocations);
    look_up(times, report);
    Ok(())
}

fn look_up(times: usize, report: &mut Report) {
    let mut layout = Layout::new(AT_ONCE as usize, 16);
    let array = layout.allocate_array(AT_ONCE as usize, 256, Grain::Parts(1));
    let vpages = layout.vpages();
    let mut host = forebay_coherence::Host::new(HostId(0), 2);
    let minipages: Vec<Minipage> = (0..AT_ONCE).map(|_| host.add_owned(HostId(0))).collect();
    let each = |act: &dyn Fn(u32)| {
        let begun = Instant::now();
        (0..AT_ONCE).for_each(act);
        begun.elapsed()
    };
    let (mut lookups, mut accesses) = (vec![], vec![]);
    if let Ok(array) = array {
        for _ in 0..times {
            lookups.push(each(&|index| {
                let place = array.place(index as usize);
                black_box(vpages.at(place.view, place.offset));
            }));
            accesses.push(each(&|index| {
                black_box(host.access(minipages[index as usize]));
            }));
        }
    }
    report.add("look-up", median(&mut lookups).as_secs_f64() / f64::from(AT_ONCE));
    report.add("access", median(&mut accesses).as_secs_f64() / f64::from(AT_ONCE));
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
