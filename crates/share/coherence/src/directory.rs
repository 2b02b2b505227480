//! The directory entry of a minipage at its manager: the copy set, the transaction in progress, and the requests that
//! wait for its end.

use std::collections::VecDeque;

use crate::company::{Bond, Company, Page};
use crate::copies::Copies;
use crate::message::{HostId, Message, Minipage, Want};

/// Of one minipage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    owner: HostId,
    copies: Copies,
    transaction: Option<Transaction>,
    /// Competing requests.
    waiting: VecDeque<(HostId, Want)>,
    /// Pushes that hosts have asked for.
    pushes: u32,
    /// To its neighbours.
    pub bond: Bond,
    /// For it and its neighbours, where it is the first of them.
    pub page: Page,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transaction {
    requester: HostId,
    want: Want,
    /// Copies that are being invalidated.
    invalidations: u16,
    /// Hosts whose Done is awaited after that.
    dones: u16,
}

/// Messages to send.
pub type Outgoing = Vec<(HostId, Message)>;

impl Entry {
    /// A minipage that `owner` alone may write.
    pub fn owned(hosts: u16, owner: HostId) -> Self {
        Self::new(owner, Copies::only(hosts, owner))
    }

    /// A minipage that all hosts have copies of.
    pub fn shared(hosts: u16, owner: HostId) -> Self {
        Self::new(owner, Copies::all(hosts))
    }

    const fn new(owner: HostId, copies: Copies) -> Self {
        let (bond, page) = (Bond::new(owner, false), Page::new());
        Self { owner, copies, transaction: None, waiting: VecDeque::new(), pushes: 0, bond, page }
    }

    /// How many pushes hosts have asked for. After many they are counted from 0 again.
    pub const fn pushes(&self) -> u32 {
        self.pushes
    }

    /// Whether nothing is asked for.
    pub const fn is_calm(&self) -> bool {
        self.transaction.is_none()
    }

    /// Whether requests wait for the one that is under way.
    pub fn is_contended(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a host has a copy.
    pub fn has_copy(&self, host: HostId) -> bool {
        self.copies.has(host)
    }

    /// Whether a requester is to have this one in company with another one.
    pub fn goes_along(&self, company: Company, requester: HostId, want: Want) -> bool {
        let is_missed = match want {
            Want::Read => !self.copies.has(requester),
            Want::Write => !self.copies.are_only(requester),
            Want::Push => false,
        };
        is_missed && self.is_calm() && self.bond.is_of(company, self.has_copy(requester))
    }

    /// Whether one more request needs no more memory.
    pub fn has_room(&self) -> bool {
        self.transaction.is_none() || self.waiting.len() < self.waiting.capacity()
    }

    /// `requester` wants something. Whether that is a competing request.
    pub fn request(&mut self, minipage: Minipage, requester: HostId, want: Want, out: &mut Outgoing) -> bool {
        self.pushes = self.pushes.wrapping_add((want == Want::Push).into());
        if self.transaction.is_some() {
            self.waiting.push_back((requester, want));
            return true;
        }
        self.begin(minipage, requester, want, out);
        false
    }

    /// A copy is given up.
    pub fn invalidated(&mut self, minipage: Minipage, out: &mut Outgoing) {
        let Some(transaction) = &mut self.transaction else { return };
        transaction.invalidations = transaction.invalidations.saturating_sub(1);
        if transaction.invalidations == 0 {
            self.hand_over(minipage, out);
        }
    }

    /// A host has what it was granted, or what was pushed to it.
    pub fn done(&mut self, minipage: Minipage, out: &mut Outgoing) {
        let Some(transaction) = &mut self.transaction else { return };
        transaction.dones = transaction.dones.saturating_sub(1);
        if transaction.dones > 0 {
            return;
        }
        match transaction.want {
            Want::Read => self.copies.insert(transaction.requester),
            Want::Write => {
                self.owner = transaction.requester;
                self.copies.become_only(self.owner);
            }
            Want::Push => self.copies.become_all(),
        }
        self.transaction = None;
        // A push that every host has seen to already ends at once.
        while self.transaction.is_none() {
            let Some((requester, want)) = self.waiting.pop_front() else { return };
            self.begin(minipage, requester, want, out);
        }
    }

    fn begin(&mut self, minipage: Minipage, requester: HostId, want: Want, out: &mut Outgoing) {
        if want == Want::Push && self.copies.are_all() {
            return;
        }
        let mut invalidations = 0;
        if want == Want::Write {
            // The one that the contents come from gives its copy up with them.
            let kept = if self.copies.has(requester) { requester } else { self.owner };
            for host in self.copies.without(requester, kept) {
                invalidations += 1;
                out.push((host, Message::Invalidate { minipage, more: 0 }));
            }
        }
        let dones = if want == Want::Push { self.copies.hosts() - 1 } else { 1 };
        self.transaction = Some(Transaction { requester, want, invalidations, dones });
        if invalidations == 0 {
            self.hand_over(minipage, out);
        }
    }

    /// No copy is in the way now.
    fn hand_over(&mut self, minipage: Minipage, out: &mut Outgoing) {
        let Some(Transaction { requester, want, .. }) = self.transaction else { return };
        let next = if want != Want::Push && self.copies.has(requester) {
            (requester, Message::Grant { minipage, want, more: 0 })
        } else {
            (self.owner, Message::Forward { minipage, want, requester, more: 0 })
        };
        out.push(next);
    }
}
