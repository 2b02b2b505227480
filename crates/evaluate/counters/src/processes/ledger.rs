//! What a set of processes used, while some of them end and others come: arithmetic alone.

use std::collections::BTreeMap;

/// A process: its number may be another's later. In the order of their starts, so parents come before children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id {
    /// Clock ticks after boot.
    pub(super) started: u64,
    pub(super) pid: u32,
}

/// What a process came to from its own start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) id: Id,
    pub(super) parent: u32,
    /// Times and faults of the children that it waited for, and of theirs.
    pub(super) reaped: [f64; 4],
    /// What whoever waits for it will have on top: times and faults as in `reaped`, then bytes read and written.
    pub(super) handed_on: [f64; 6],
    /// What is gone when it ends.
    pub(super) private: [f64; 5],
}

/// What the set came to since the first update.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Used {
    pub(super) handed_on: [f64; 6],
    pub(super) private: [f64; 5],
}

impl Used {
    fn add(&mut self, more: &Self, sign: f64) {
        self.handed_on.iter_mut().zip(more.handed_on).for_each(|(sum, more)| *sum += sign * more);
        self.private.iter_mut().zip(more.private).for_each(|(sum, more)| *sum += sign * more);
    }
}

/// The accounts of the set.
#[derive(Debug)]
pub(super) struct Ledger {
    /// When the first update was, in clock ticks after boot.
    since: u64,
    living: BTreeMap<Id, Account>,
    /// On top of what the living have.
    kept: Used,
    blank: bool,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    last: Seen,
    /// What it had when the set began to count it.
    base: Used,
}

impl Account {
    fn used(&self) -> Used {
        Used { handed_on: self.last.handed_on, private: self.last.private }
    }
}

impl Ledger {
    pub(super) fn new(since: u64) -> Self {
        Self { since, living: BTreeMap::new(), kept: Used::default(), blank: true }
    }

    /// Whether nobody has been seen yet.
    pub(super) fn is_blank(&self) -> bool {
        self.blank
    }

    /// Those of the set that lived last.
    pub(super) fn living(&self) -> impl Iterator<Item = Id> {
        self.living.keys().copied()
    }

    /// Takes what all living processes of the set have come to, and tells what the set has.
    pub(super) fn update(&mut self, seen: &[Seen]) -> Used {
        let before = std::mem::take(&mut self.living);
        for one in seen {
            let here_before = self.blank || one.id.started < self.since;
            let used = Used { handed_on: one.handed_on, private: one.private };
            let base = match before.get(&one.id) {
                Some(account) => account.base,
                None if here_before => used,
                None => Used::default(),
            };
            self.living.insert(one.id, Account { last: *one, base });
        }
        self.blank = false;
        self.bury(&before);
        let mut used = self.kept;
        for account in self.living.values() {
            used.add(&account.used(), 1.0);
            used.add(&account.base, -1.0);
        }
        used
    }

    /// Keeps what those that have ended used and nobody else has now. The nearest of those that a process comes from and that
    /// still live has taken over what it used, if all between waited: who took over less did not wait for it. Of those that may
    /// all have been waited for, but not together, at least what is beyond what was taken over is in no account.
    fn bury(&mut self, before: &BTreeMap<Id, Account>) {
        let by_number: BTreeMap<u32, Id> = before.keys().map(|id| (id.pid, *id)).collect();
        let mut ended: BTreeMap<Option<Id>, Vec<&Account>> = BTreeMap::new();
        for account in before.values().filter(|account| !self.living.contains_key(&account.last.id)) {
            ended.entry(self.heir(&account.last, before, &by_number)).or_default().push(account);
        }
        for (heir, ended) in ended {
            let taken = heir.map(|heir| grown(&before[&heir].last, &self.living[&heir].last));
            let mut left = taken.unwrap_or_default();
            let mut claimed = [0.0; 4];
            for account in ended {
                let claim = account.last.handed_on;
                let fits = |room: &[f64; 4]| room.iter().zip(claim).all(|(room, claim)| *room >= claim);
                let mut kept = account.used();
                if taken.as_ref().is_some_and(fits) {
                    kept.handed_on[..4].fill(0.0);
                    claimed.iter_mut().zip(claim).for_each(|(sum, claim)| *sum += claim);
                    // Nothing tells how many bytes were taken over: of one after the other, as long as they fit.
                    if fits(&left) {
                        kept.handed_on[4..].fill(0.0);
                        left.iter_mut().zip(claim).for_each(|(left, claim)| *left -= claim);
                    }
                }
                self.kept.add(&kept, 1.0);
                // What is from before it was counted.
                self.kept.add(&account.base, -1.0);
            }
            for (index, taken) in taken.into_iter().flatten().enumerate() {
                self.kept.handed_on[index] += (claimed[index] - taken).max(0.0);
            }
        }
    }

    fn heir(
        &self,
        ended: &Seen,
        before: &BTreeMap<Id, Account>,
        by_number: &BTreeMap<u32, Id>,
    ) -> Option<Id> {
        let mut parent = ended.parent;
        // Each is older than the one before, so this ends.
        for _ in 0..before.len() {
            let id = *by_number.get(&parent)?;
            if self.living.contains_key(&id) {
                return Some(id);
            }
            parent = before[&id].last.parent;
        }
        None
    }
}

/// What a process has taken over from children meanwhile.
fn grown(before: &Seen, now: &Seen) -> [f64; 4] {
    std::array::from_fn(|index| now.reaped[index] - before.reaped[index])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A process as the kernel keeps it.
    #[derive(Clone, Copy, Debug)]
    struct Process {
        id: Id,
        parent: u32,
        own: [f64; 4],
        reaped: [f64; 4],
        private: [f64; 5],
    }

    impl Process {
        fn handed_on(&self) -> [f64; 4] {
            std::array::from_fn(|index| self.own[index] + self.reaped[index])
        }

        fn seen(&self) -> Seen {
            let [user, system, minor, major] = self.handed_on();
            let handed_on = [user, system, minor, major, minor * 10.0, major * 10.0];
            Seen { id: self.id, parent: self.parent, reaped: self.reaped, handed_on, private: self.private }
        }
    }

    /// A tree of processes of which some parents wait for their children.
    struct Tree {
        living: Vec<Process>,
        now: u64,
        /// What all have really used since the ledger began.
        truth: [f64; 4],
        /// What of it the kernel forgot.
        lost: [f64; 4],
    }

    impl Tree {
        fn new() -> Self {
            let id = Id { started: 1, pid: 1 };
            let root = Process {
                id,
                parent: 0,
                own: [7.0; 4],
                reaped: [100.0, 90.0, 80.0, 70.0],
                private: [3.0; 5],
            };
            Self { living: vec![root], now: 2, truth: [0.0; 4], lost: [0.0; 4] }
        }

        fn fork(&mut self, parent: usize) {
            let parent = self.living[parent % self.living.len()].id.pid;
            self.now += 1;
            let id = Id { started: self.now, pid: self.now as u32 };
            self.living.push(Process { id, parent, own: [0.0; 4], reaped: [0.0; 4], private: [0.0; 5] });
        }

        fn work(&mut self, who: usize, amount: u8) {
            let who = who % self.living.len();
            for index in 0..4 {
                let more = f64::from(amount) * (index + 1) as f64;
                self.living[who].own[index] += more;
                self.truth[index] += more;
            }
            self.living[who].private[0] += 1.0;
        }

        /// Ends any but the root, whose children are nobody's then.
        fn end(&mut self, who: usize, waited_for: bool) {
            if self.living.len() == 1 {
                return;
            }
            let ended = self.living.remove(1 + who % (self.living.len() - 1));
            for child in self.living.iter_mut().filter(|child| child.parent == ended.id.pid) {
                child.parent = 0;
            }
            match self.living.iter_mut().find(|process| process.id.pid == ended.parent) {
                Some(parent) if waited_for => {
                    parent.reaped =
                        std::array::from_fn(|index| parent.reaped[index] + ended.handed_on()[index]);
                }
                _ => self.lost = std::array::from_fn(|index| self.lost[index] + ended.handed_on()[index]),
            }
        }

        fn seen(&self) -> Vec<Seen> {
            self.living.iter().map(Process::seen).collect()
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Fork(usize),
        Work(usize, u8),
        End(usize, bool),
        Look,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..8usize).prop_map(Step::Fork),
            (0..8usize, 1..50u8).prop_map(|(who, amount)| Step::Work(who, amount)),
            (0..8usize, any::<bool>()).prop_map(|(who, waited)| Step::End(who, waited)),
            Just(Step::Look),
        ];
        prop::collection::vec(step, 0..60)
    }

    fn run(steps: Vec<Step>, all_wait: bool) -> (Tree, Vec<Used>) {
        let mut tree = Tree::new();
        let mut ledger = Ledger::new(2);
        let mut told = vec![ledger.update(&tree.seen())];
        for step in steps {
            match step {
                Step::Fork(parent) => tree.fork(parent),
                Step::Work(who, amount) => tree.work(who, amount),
                // One that nobody waits for is its parent's only where that one lives: end the youngest first.
                Step::End(_, _) if all_wait => tree.end(tree.living.len().saturating_sub(2), true),
                Step::End(who, waited_for) => tree.end(who, waited_for),
                Step::Look => told.push(ledger.update(&tree.seen())),
            }
        }
        told.push(ledger.update(&tree.seen()));
        (tree, told)
    }

    /// What the second left may be taken for that of the first, whom nobody waited for.
    #[test]
    fn what_either_may_have_left_is_counted_once() {
        let (waited_for, first) = (true, 0);
        let steps = vec![
            Step::Fork(0),
            Step::Fork(0),
            Step::Work(1, 1),
            Step::Work(2, 2),
            Step::Look,
            Step::End(first, !waited_for),
            Step::End(first, waited_for),
        ];
        let (tree, told) = run(steps, false);
        assert_eq!(&told.last().unwrap().handed_on[..4], &tree.truth[..]);
    }

    proptest! {
        #[test]
        fn nothing_is_missed_where_everybody_is_waited_for(steps in steps()) {
            let (tree, told) = run(steps, true);
            prop_assert_eq!(&told.last().unwrap().handed_on[..4], &tree.truth[..]);
        }

        #[test]
        fn nothing_is_counted_twice_and_nothing_is_taken_back(steps in steps()) {
            let (tree, told) = run(steps, false);
            for index in 0..4 {
                let values: Vec<f64> = told.iter().map(|used| used.handed_on[index]).collect();
                prop_assert!(values.is_sorted(), "{:?}", values);
                let last = values[values.len() - 1];
                prop_assert!(last <= tree.truth[index], "{} of {}", last, tree.truth[index]);
                prop_assert!(last >= tree.truth[index] - tree.lost[index], "{} of {}", last, tree.truth[index]);
            }
        }
    }

    #[test]
    fn what_was_used_before_is_not_handed_on_with_the_rest() {
        let mut tree = Tree::new();
        tree.fork(0);
        tree.work(1, 50);
        let mut ledger = Ledger::new(tree.now);
        assert_eq!(ledger.update(&tree.seen()).handed_on, [0.0; 6]);
        tree.work(1, 1);
        tree.end(0, true);
        assert_eq!(ledger.update(&tree.seen()).handed_on[..4], [1.0, 2.0, 3.0, 4.0]);
    }
}
