//! Company: a machine that asks for a minipage gets neighbours of it too, for as long as their users agree. What it is not asked for
//! costs no fault and no message.
//!
//! The manager of neighbours sees all requests for them. It knows the *user* of each one: the machine that last asked for it to
//! write, at first the one that added it. Neighbours with one user travel in company. A machine that asks for a single one to write
//! becomes the user of that one alone. So neighbours that machines use apart come apart.
//!
//! A use is not seen where a minipage is there already. So a user may lose in company what it still uses. Then it asks for that
//! again, and the minipage has *returned*: it keeps apart until another machine asks for it. All that returns with it does too, so
//! that the page is split, unless machines have asked for what had returned there.
//!
//! A third machine that asks for what went along takes it alone, since the machine that has it may use the rest. Where it asks for
//! half of a page, and no other machine asks meanwhile, the rest goes along.
//!
//! What returned and was then not asked for by others was in false sharing. Where much was, new minipages of the kind begin apart.

use std::collections::BTreeMap;

use crate::message::{HostId, Minipage, Want};

/// Neighbours of a minipage on its page, as their manager knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// The one with the lowest number.
    pub first: Minipage,
    /// Of those from the first on, a bit for each that is in use.
    pub used: [u64; 4],
    /// What they have in common: how many share a page.
    pub kind: u16,
}

impl Neighbours {
    /// Those that are in use.
    pub(crate) fn iter(self) -> impl Iterator<Item = Minipage> {
        let is_used = move |index: &u32| self.used[(index / 64) as usize] >> (index % 64) & 1 != 0;
        (0..4 * 64).filter(is_used).map_while(move |index| self.first.0.checked_add(index).map(Minipage))
    }
}

/// How a minipage stands to its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bond {
    user: HostId,
    standing: Standing,
}

/// What is known of all neighbours on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Page {
    /// Who asked last for one of them, for which, and for how many in a row.
    asker: HostId,
    last: Minipage,
    count: u16,
    /// What had returned was then asked for by others.
    agrees: bool,
}

impl Page {
    /// Before the first request.
    pub const fn new() -> Self {
        Self { asker: HostId(0), last: Minipage(0), count: 0, agrees: false }
    }

    /// A machine asks for a neighbour.
    pub const fn note(&mut self, asker: HostId, minipage: Minipage) {
        if self.asker.0 != asker.0 {
            (self.asker, self.count) = (asker, 1);
        } else if self.last.0 != minipage.0 {
            self.count = self.count.saturating_add(1);
        }
        self.last = minipage;
    }

    /// Whether one machine has asked for half of the neighbours, of which so many share the page.
    pub const fn is_swept(&self, kind: u16) -> bool {
        2 * self.count as u32 >= kind as u32
    }
}

/// Whose neighbours go along with a request, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Company {
    user: HostId,
    /// Those too that went along to another machine.
    with_gone: bool,
    /// What comes back to its user keeps apart.
    splits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// It travels in company.
    Joined,
    /// It did so, away from its user.
    Gone,
    /// It keeps apart, until another machine asks for it.
    Apart,
    /// The same, since its user has asked for it again.
    Returned,
}

/// What a request tells of a kind of minipages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Company took away what its user still uses.
    Returned,
    /// Another machine wants that too: it would have been right.
    Followed,
}

impl Bond {
    /// Of a minipage that a host adds.
    pub const fn new(user: HostId, is_apart: bool) -> Self {
        Self { user, standing: if is_apart { Standing::Apart } else { Standing::Joined } }
    }

    /// A host asks for it, which may have a copy. What goes along, and what that tells. One machine may have `swept` the page.
    pub fn asked(
        &mut self,
        by: HostId,
        want: Want,
        has_copy: bool,
        is_swept: bool,
        page: &mut Page,
    ) -> (Option<Company>, Option<Evidence>) {
        let Self { user, standing } = *self;
        if by != user {
            if want == Want::Write {
                *self = Self { user: by, standing: Standing::Joined };
            } else if standing != Standing::Gone {
                self.standing = Standing::Joined;
            }
        } else if standing == Standing::Gone {
            self.standing = Standing::Returned;
        }
        let evidence = match standing {
            Standing::Gone if by == user => Some(Evidence::Returned),
            Standing::Returned if by != user => Some(Evidence::Followed),
            _ => None,
        };
        page.agrees |= evidence == Some(Evidence::Followed);
        let splits = evidence == Some(Evidence::Returned) && !page.agrees;
        let with_gone = is_swept || by == user;
        let company = Company { user, with_gone, splits };
        let goes = Self { user, standing }.is_of(company, has_copy);
        (goes.then_some(company), evidence)
    }

    /// Whether it is of that company, of a requester that may have a copy.
    pub fn is_of(self, company: Company, has_copy: bool) -> bool {
        let goes = match self.standing {
            Standing::Joined => true,
            Standing::Gone => company.with_gone || has_copy,
            Standing::Apart | Standing::Returned => false,
        };
        self.user == company.user && goes
    }

    /// It goes along to a host.
    pub fn go(&mut self, to: HostId, company: Company) {
        self.standing = match (to == self.user, company.splits) {
            (false, _) => Standing::Gone,
            (true, false) => Standing::Joined,
            (true, true) => Standing::Apart,
        };
    }
}

/// What is learned of all kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(BTreeMap<u16, Kind>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Kind {
    /// How often minipages have returned of late that no other machine asked for since.
    conflicts: u8,
    /// How often some of them have begun apart.
    begun_apart: u8,
}

impl Kind {
    /// So many conflicts are believed, and no more are counted than twice that.
    const CONFLICTS: u8 = 4;
    /// One of so many times minipages begin in company all the same, to see whether that is right now.
    const SAMPLE: u8 = 8;
}

impl Kinds {
    /// Minipages of a kind are added. Whether they begin apart.
    pub fn begin(&mut self, kind: u16) -> bool {
        let Kind { conflicts, begun_apart } = self.0.entry(kind).or_default();
        let believed = *conflicts >= Kind::CONFLICTS;
        *begun_apart = (*begun_apart + u8::from(believed)) % Kind::SAMPLE;
        believed && *begun_apart != 0
    }

    /// Whether minipages of a kind are to begin apart, as far as is known.
    pub fn are_apart(&self, kind: u16) -> bool {
        self.0.get(&kind).is_some_and(|kind| kind.conflicts >= Kind::CONFLICTS)
    }

    /// Something was seen of a kind. Takes no memory.
    pub fn learn(&mut self, kind: u16, evidence: Evidence) {
        let Some(Kind { conflicts, .. }) = self.0.get_mut(&kind) else { return };
        *conflicts = match evidence {
            Evidence::Returned => (*conflicts + 1).min(2 * Kind::CONFLICTS),
            Evidence::Followed => conflicts.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: HostId = HostId(0);
    const ONE: HostId = HostId(1);
    const OTHER: HostId = HostId(2);

    /// Neighbours that are written to by hosts in turn; how often a host has to ask.
    fn faults(writes: &[(HostId, usize)], is_apart: bool) -> usize {
        let mut bonds = [Bond::new(HERE, is_apart); 16];
        let (mut holders, mut page) = ([HERE; 16], Page::new());
        let mut faults = 0;
        for (host, index) in writes {
            if holders[*index] == *host {
                continue;
            }
            faults += 1;
            page.note(*host, Minipage(*index as u32));
            let is_swept = page.is_swept(16);
            let (company, _) = bonds[*index].asked(*host, Want::Write, false, is_swept, &mut page);
            holders[*index] = *host;
            for (index, holder) in holders.iter_mut().enumerate() {
                if let Some(company) =
                    company.filter(|company| *holder != *host && bonds[index].is_of(*company, false))
                {
                    bonds[index].go(*host, company);
                    *holder = *host;
                }
            }
        }
        faults
    }

    /// So many rounds, in each of which each host writes to its minipages.
    fn rounds(count: usize, users: &[(HostId, &[usize])]) -> Vec<(HostId, usize)> {
        let round = || users.iter().flat_map(|(host, all)| all.iter().map(|index| (*host, *index)));
        (0..count).flat_map(|_| round()).collect()
    }

    #[test]
    fn neighbours_go_to_one_user_at_once() {
        let all: Vec<usize> = (0..16).collect();
        assert_eq!(faults(&rounds(10, &[(ONE, &all)]), false), 1);
        assert_eq!(faults(&rounds(10, &[(ONE, &all)]), true), 16);
    }

    #[test]
    fn neighbours_that_hosts_use_in_turn_go_in_company() {
        let all: Vec<usize> = (0..16).collect();
        let in_turn = rounds(20, &[(ONE, &all), (OTHER, &all)]);
        assert_eq!(in_turn.len(), 640);
        // Each would ask for 16 in each of 40 turns.
        let asked = faults(&in_turn, false);
        assert!(asked <= 40 * 4, "{asked}");
        let asked = faults(&rounds(20, &[(HERE, &all), (ONE, &all), (OTHER, &all)]), false);
        assert!(asked <= 60 * 10, "{asked}");
    }

    #[test]
    fn neighbours_with_different_users_come_apart() {
        let (even, odd): (Vec<usize>, Vec<usize>) = (0..16).partition(|index| index % 2 == 0);
        // A third host has added them, and the first one gets all.
        let asked = faults(&rounds(50, &[(ONE, &even), (OTHER, &odd)]), false);
        assert!(asked <= 16, "{asked}");
        // One of the two has: what it still uses returns once.
        let asked = faults(&rounds(50, &[(HERE, &even), (ONE, &odd)]), false);
        assert!(asked <= 9, "{asked}");
        let by_turns: Vec<_> =
            (0..50).flat_map(|_| (0..16).map(|index| ([HERE, ONE][index % 2], index))).collect();
        let asked = faults(&by_turns, false);
        assert!(asked <= 10, "{asked}");
    }

    #[test]
    fn a_minipage_of_one_host_is_not_taken_along_with_one_of_two() {
        // Both write to the first one, and each to one of its own.
        let writes = rounds(100, &[(ONE, &[0, 1]), (OTHER, &[0, 2])]);
        let asked = faults(&writes, false);
        assert!((200..=206).contains(&asked), "{asked}");
    }

    #[test]
    fn kinds_begin_apart_after_conflicts_and_together_after_agreement() {
        let mut kinds = Kinds::default();
        assert!(!kinds.begin(16) && !kinds.begin(4));
        kinds.learn(16, Evidence::Returned);
        kinds.learn(16, Evidence::Followed);
        (0..4).for_each(|_| kinds.learn(16, Evidence::Returned));
        assert!(kinds.are_apart(16) && !kinds.are_apart(4));
        // Some begin in company all the same.
        let apart = (0..80).filter(|_| kinds.begin(16)).count();
        assert_eq!(apart, 70);
        assert!(!kinds.begin(4));
        (0..100).for_each(|_| kinds.learn(16, Evidence::Returned));
        (0..5).for_each(|_| kinds.learn(16, Evidence::Followed));
        assert!(!kinds.begin(16), "it takes long to learn that they agree");
    }

    #[test]
    fn neighbours_are_those_in_use() {
        let first = Minipage(u32::MAX - 200);
        let neighbours = Neighbours { first, used: [0b101, 1, 0, 1 << 63], kind: 1 };
        let numbers: Vec<u32> = neighbours.iter().map(|minipage| minipage.0 - first.0).collect();
        assert_eq!(numbers, [0, 2, 64]);
    }
}
