//! What the hosts of a machine may do with each minipage, where there are other machines.
//!
//! A word for each minipage says what the machine may do. Only the thread that serves the machine changes it. The pages of each
//! host allow that much or less. A thread that faults lets the pages of its host allow more, if the machine may. Where the
//! machine is to do less, all hosts forbid it first: the thread that serves the machine tells them, and waits.

use std::{
    ops::Range,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
};

use forebay_coherence::{Access, HostId, Minipage, PagesWord};
use forebay_sigsafe::{general as n, sys};

use crate::{
    Error,
    board::{Board, CUT_OFF, sleep, wake},
    memory::Memory,
    parts::{Parts, Words},
};

/// The words of all minipages.
pub struct Rights {
    /// The place of this host on its machine.
    me: usize,
    machine: &'static [Word],
    /// For each host, by place.
    pages: Vec<&'static [Word]>,
}

/// A word of a minipage.
#[repr(transparent)]
struct Word(AtomicU32);

// SAFETY: an atomic word.
unsafe impl Words for Word {}

/// How a thread fared that lets pages allow more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The pages allow what was wanted.
    Yes,
    /// The machine may do less than that.
    TooMuch,
    /// The kernel refuses.
    Refused,
}

impl Rights {
    /// What the words take, for so many hosts and minipages.
    pub const fn bytes(hosts: usize, minipages: usize) -> usize {
        (hosts + 1) * Parts::bytes::<Word>(minipages)
    }

    /// Those of the hosts on a board; the machine may do nothing at first.
    pub fn new(memory: &mut Parts, board: &Board, minipages: usize) -> Self {
        let machine = memory.take(minipages);
        Self {
            me: board.place(),
            machine,
            pages: board.hosts().iter().map(|_| memory.take(minipages)).collect(),
        }
    }

    /// What the machine may do with a minipage.
    pub fn access(&self, minipage: Minipage) -> Access {
        Access::from_number(self.machine[minipage.index()].0.load(SeqCst))
    }

    /// Lets the pages around an address, which are a minipage's, allow what the machine may do, if that is as much as is `wanted`.
    /// In a signal handler too.
    pub fn raise(&self, memory: &Memory, minipage: Minipage, address: usize, wanted: Access) -> Raised {
        let Some(pages) = memory.pages_around(address) else { return Raised::Refused };
        // A handler of the program could wait here for a thread that waits for this one.
        let blocked = SignalsBlocked::new();
        let word = self.word(self.me, minipage);
        let before = change(word, PagesWord::begun);
        let may = self.access(minipage);
        let raised = if may < wanted {
            Raised::TooMuch
        } else {
            // Where they allow that already the kernel has taken them away, and looks at each.
            let before = if before.allowed() < may { before.allowed() } else { Access::None };
            if memory.allow(pages, before, may).is_ok() { Raised::Yes } else { Raised::Refused }
        };
        let allowed = if raised == Raised::Yes { may } else { Access::None };
        let ended = change(word, |word| word.ended(allowed)).ended(allowed);
        if ended.is_awaited() && !ended.is_raising() {
            wake(word, 1);
        }
        drop(blocked);
        raised
    }

    /// Lets the machine do so much with a minipage, and no more. Calls `meanwhile` while it waits for other hosts. By the thread
    /// that serves the machine.
    ///
    /// # Errors
    /// The kernel refuses, or a host is lost.
    pub fn allow(
        &self,
        memory: &Memory,
        board: &Board,
        minipage: Minipage,
        access: Access,
        mut meanwhile: impl FnMut(),
    ) -> Result<(), Error> {
        let before = Access::from_number(self.machine[minipage.index()].0.swap(access as u32, SeqCst));
        if access > before {
            // No message should be waited for by a thread that faults here, so its pages allow it now. The pages of other hosts
            // allow it when their threads fault.
            return self.allow_here(memory, minipage, access);
        }
        let told: Vec<usize> =
            (0..self.pages.len()).filter(|place| self.is_told(*place, minipage, access)).collect();
        told.iter().for_each(|place| board.order(*place, order(minipage, access)));
        self.allow_here(memory, minipage, access)?;
        for place in told {
            if !board.await_obeyed(place, &mut meanwhile) {
                let (HostId(host), reason) = board.loss().unwrap_or((board.hosts()[place], CUT_OFF));
                return Err(Error::Lost { host, reason: reason.into() });
            }
        }
        Ok(())
    }

    /// Nobody may do anything with minipages of these numbers, since all hosts have freed them: this host notes it, and for its machine
    /// too if it serves that. No thread raises one now.
    pub fn forget(&self, numbers: Range<u32>, serves: bool) {
        for minipage in numbers.map(Minipage) {
            self.word(self.me, minipage).store(0, SeqCst);
            if serves {
                self.machine[minipage.index()].0.store(Access::None as u32, SeqCst);
            }
        }
    }

    /// Does what the thread that serves the machine has told this host to do.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn obey(&self, memory: &Memory, order: u64) -> Result<(), Error> {
        self.allow_here(memory, Minipage((order >> 32) as u32), Access::from_number(order as u32))
    }

    /// Whether another host has pages that allow more, or is about to have such.
    fn is_told(&self, place: usize, minipage: Minipage, access: Access) -> bool {
        let pages = PagesWord(self.word(place, minipage).load(SeqCst));
        place != self.me && (pages.is_raising() || pages.allowed() > access)
    }

    /// Lets this host's pages allow so much, and no more.
    fn allow_here(&self, memory: &Memory, minipage: Minipage, access: Access) -> Result<(), Error> {
        let word = self.word(self.me, minipage);
        let mut now = PagesWord(word.load(SeqCst));
        while now.is_raising() {
            let awaited = now.awaited();
            if word.compare_exchange(now.0, awaited.0, SeqCst, SeqCst).is_ok() {
                sleep(word, awaited.0);
            }
            now = PagesWord(word.load(SeqCst));
        }
        if now.allowed() != access {
            memory.allow_minipage(minipage.0, now.allowed(), access)?;
        }
        // A thread may be about to raise it by now, and finds what the machine may do.
        change(word, |word| word.lowered(access));
        Ok(())
    }

    fn word(&self, place: usize, minipage: Minipage) -> &AtomicU32 {
        &self.pages[place][minipage.index()].0
    }
}

/// What a host is told to do: to let its pages allow no more than this.
fn order(minipage: Minipage, access: Access) -> u64 {
    u64::from(minipage.0) << 32 | access as u64
}

/// Changes a word. What it was.
fn change(word: &AtomicU32, next: impl Fn(PagesWord) -> PagesWord) -> PagesWord {
    let mut now = word.load(SeqCst);
    loop {
        match word.compare_exchange(now, next(PagesWord(now)).0, SeqCst, SeqCst) {
            Ok(before) => return PagesWord(before),
            Err(other) => now = other,
        }
    }
}

/// No signal is delivered to this thread until this is dropped.
struct SignalsBlocked(u64);

impl SignalsBlocked {
    fn new() -> Self {
        Self(mask(n::SIG_SETMASK, !0))
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        mask(n::SIG_SETMASK, self.0);
    }
}

/// Sets the signals that are blocked. Those that were.
fn mask(how: u32, signals: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: the call reads and writes locals, of the size that it is told.
    let _ =
        unsafe { sys!(n::__NR_rt_sigprocmask, how, &raw const signals, &raw mut before, size_of::<u64>()) };
    before
}
