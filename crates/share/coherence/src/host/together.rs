//! Minipages that all hosts free together, as one host goes on with them.

use std::ops::Range;

use super::{Effects, Host};
use crate::forgetting::Forgetting;
use crate::message::{HostId, Message, Minipage, Waiter};

impl Host {
    /// A thread frees minipages that all hosts have added alike and free alike, and no thread of any host asks for one from now on.
    /// The waiter is woken when no message about those that this host manages is left.
    pub fn free_together(&mut self, numbers: Range<u32>, waiter: Waiter, effects: &mut impl Effects) {
        let pushes = |minipage: u32| {
            self.minipages.get(Minipage(minipage))?.entry.as_ref().map(|entry| entry.pushes())
        };
        let pushes = numbers.clone().filter_map(pushes).fold(0, u32::wrapping_add);
        let known = self.forgetting.take().filter(|known| known.numbers == numbers);
        let known = known.unwrap_or_else(|| Forgetting::of(numbers, self.hosts));
        self.forgetting = Some(known.begun(waiter, pushes));
        self.settle(effects);
    }

    /// Forgets minipages that all hosts have freed, when the waits of all of them are over; or that not all hosts have added.
    pub fn forget(&mut self, numbers: Range<u32>) {
        self.forgetting = None;
        self.minipages.remove(numbers.clone());
        self.pushes.retain(|minipage, _| !numbers.contains(&minipage.0));
    }

    /// Goes on with what a thread has freed together with all hosts. Not in a signal handler.
    pub fn settle(&mut self, effects: &mut impl Effects) {
        let Some(mut forgetting) = self.forgetting.take() else { return };
        if forgetting.has_begun && !forgetting.has_said {
            let is_done = |number| !self.is_asking_for(Minipage(number));
            forgetting.has_said = forgetting.advance(is_done);
            if forgetting.has_said {
                let numbers = forgetting.numbers.clone();
                forgetting.next = numbers.start;
                self.forgetting = Some(forgetting);
                self.say_forgotten(numbers, effects);
                // It has been told to this host itself.
                return self.settle(effects);
            }
        } else if forgetting.has_heard_all() && forgetting.advance(|number| self.is_over(Minipage(number))) {
            forgetting.waiter.take().into_iter().for_each(|waiter| effects.wake(waiter));
        }
        self.forgetting = Some(forgetting);
    }

    /// Tells all hosts that this one has asked for none of these any more.
    fn say_forgotten(&mut self, numbers: Range<u32>, effects: &mut impl Effects) {
        let (first, count) = (Minipage(numbers.start), numbers.len() as u32);
        let mut pushes = vec![0u32; self.hosts.into()];
        for (minipage, asked) in self.pushes.range(first..Minipage(numbers.end)) {
            let home = self.minipages.get(*minipage).and_then(|local| pushes.get_mut(local.home.index()));
            home.into_iter().for_each(|of_home| *of_home = of_home.wrapping_add(*asked));
        }
        let forget = |(host, pushes)| (HostId(host as u16), Message::Forget { first, count, pushes });
        self.send_all(pushes.into_iter().enumerate().map(forget), effects);
        self.drain(effects);
    }

    /// Whether no message about a minipage is left, if this host manages it and no request comes any more.
    fn is_over(&self, minipage: Minipage) -> bool {
        let entry = self.minipages.get(minipage).and_then(|local| local.entry.as_ref());
        entry.is_none_or(|entry| entry.is_calm()) && !self.unresumed.contains(&minipage)
    }

    /// Whether a thread of this host has freed a minipage together with all hosts, so that none asks for it.
    pub(super) fn is_freed(&self, minipage: Minipage) -> bool {
        self.forgetting.as_ref().is_some_and(|one| one.has_begun && one.numbers.contains(&minipage.0))
    }
}
