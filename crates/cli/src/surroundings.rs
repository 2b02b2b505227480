//! What else goes on on this machine while something is measured.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use forebay_linux::kernel_text::{ProcessStat, ProcessorTime};
use forebay_quantity::percent;
use rustix::param::clock_ticks_per_second;

/// How long is looked at the machine before anything is measured.
const LOOK: Duration = Duration::from_millis(200);
/// From this share of the processors on, others disturb.
const MUCH: f64 = 0.25;

/// What others use of the processors, from its beginning on.
pub struct Surroundings {
    begin: Option<Ticks>,
    /// Whether it was much when nothing was measured yet.
    was_much: bool,
}

impl Surroundings {
    /// Looks for a moment, and tells where others use much.
    pub fn look(tell: impl FnOnce(&str)) -> Self {
        let before = Ticks::now();
        sleep(LOOK);
        let begin = Ticks::now();
        let share = before.zip(begin).and_then(|(before, now)| now.others_since(before));
        let was_much = share.is_some_and(|share| share >= MUCH);
        if let Some(share) = share.filter(|_| was_much) {
            tell(&sentence("use", share));
        }
        Self { begin, was_much }
    }

    /// The share that others used since then, without the `measured_s` that were measured besides children. Tells where it was
    /// much and was not told already.
    pub fn end(self, measured_s: f64, tell: impl FnOnce(&str)) -> Option<f64> {
        let now = Ticks::now()?;
        let own = now.own + measured_s * clock_ticks_per_second() as f64;
        let share = Ticks { own, ..now }.others_since(self.begin?)?;
        if share >= MUCH && !self.was_much {
            tell(&sentence("used", share));
        }
        Some(share)
    }
}

fn sentence(verb: &str, share: f64) -> String {
    format!(
        "other programs {verb} {} of the processors, so results are worse than without them; measure when less goes on",
        percent(share)
    )
}

/// Processor time in ticks, since the machine started.
#[derive(Clone, Copy)]
struct Ticks {
    /// All that there was.
    all: f64,
    /// Of it in use, by this machine's programs or by another machine.
    busy: f64,
    /// Of it used by this process, and by its children that have ended.
    own: f64,
}

impl Ticks {
    fn now() -> Option<Self> {
        let time = ProcessorTime::parse(&fs::read_to_string("/proc/stat").ok()?)?;
        let own = ProcessStat::parse(&fs::read_to_string("/proc/self/stat").ok()?)?;
        let ProcessorTime { user, system, idle, disk_wait, interrupts, soft_interrupts, stolen } = time;
        let busy = user + system + interrupts + soft_interrupts + stolen;
        let own = [own.own, own.reaped].map(|usage| (usage.user + usage.system) as f64);
        Some(Self { all: busy + idle + disk_wait, busy, own: own[0] + own[1] })
    }

    /// The share of all that others used.
    fn others_since(self, before: Self) -> Option<f64> {
        let all = self.all - before.all;
        let others = (self.busy - before.busy) - (self.own - before.own);
        (all > 0.0).then(|| (others / all).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_use_is_what_is_busy_without_what_is_ours() {
        let before = Ticks { all: 1000.0, busy: 500.0, own: 100.0 };
        let after = |busy, own| Ticks { all: 1200.0, busy, own };
        assert_eq!(after(600.0, 200.0).others_since(before), Some(0.0));
        assert_eq!(after(650.0, 150.0).others_since(before), Some(0.5));
        // Ticks of the two files are not of one moment.
        assert_eq!(after(500.0, 110.0).others_since(before), Some(0.0));
        assert_eq!(before.others_since(before), None);
    }

    #[test]
    fn much_is_told_once() {
        let told = |was_much, busy, measured| {
            let begin = Ticks::now().map(|now| Ticks { all: now.all - 1e6, busy: now.busy - busy, ..now });
            let mut said = String::new();
            let measured_s = measured / clock_ticks_per_second() as f64;
            let share = Surroundings { begin, was_much }.end(measured_s, |text| said = text.to_owned());
            (share.is_some_and(|share| share > 0.85), said.contains("other programs used"))
        };
        assert_eq!(told(false, 0.9e6, 0.0), (true, true));
        assert_eq!(told(true, 0.9e6, 0.0), (true, false));
        assert!(!told(false, 0.0, 0.0).1);
        // A server that was measured is none of the others, whatever started it.
        assert_eq!(told(false, 0.9e6, 0.8e6), (false, false));
    }
}
