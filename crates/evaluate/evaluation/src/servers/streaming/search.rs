//! The last number of clients that a server holds, by doubling and halving.

/// Neighbours are no further from each other than this share of the smaller.
const CLOSE: f64 = 0.03;

/// A search, from its first number on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Search {
    /// The most that is known to hold; 0 at first.
    held: u32,
    /// The least that is known not to.
    failed: Option<u32>,
    first: u32,
    most: u32,
}

impl Search {
    /// Begins with `first`, and goes no further than `most`.
    pub(super) fn new(first: u32, most: u32) -> Self {
        let most = most.max(1);
        Self { held: 0, failed: None, first: first.clamp(1, most), most }
    }

    /// What to try next; `None` when it is known well enough.
    pub(super) fn next(&self) -> Option<u32> {
        match self.failed {
            None if self.held == 0 => Some(self.first),
            None if self.held >= self.most => None,
            None => Some(self.held.saturating_mul(2).min(self.most)),
            Some(failed) => {
                let close = ((f64::from(self.held) * CLOSE) as u32).max(1);
                (failed - self.held > close).then(|| self.held + (failed - self.held) / 2)
            }
        }
    }

    /// Takes what came of it.
    pub(super) fn learn(&mut self, clients: u32, holds: bool) {
        if holds {
            self.held = self.held.max(clients);
        } else {
            self.failed = Some(self.failed.map_or(clients, |failed| failed.min(clients)));
        }
        // A server may hold more than it did not hold before, on a machine that others use too.
        self.failed = self.failed.filter(|failed| *failed > self.held);
    }

    /// The most that was held.
    pub(super) fn held(&self) -> u32 {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(capacity: u32, first: u32, most: u32) -> (u32, u32) {
        let mut search = Search::new(first, most);
        let mut tries = 0;
        while let Some(clients) = search.next() {
            assert!((1..=most).contains(&clients));
            search.learn(clients, clients <= capacity);
            tries += 1;
            assert!(tries < 40, "{search:?}");
        }
        (search.held(), tries)
    }

    #[test]
    fn the_last_number_that_holds_is_found_within_a_few_percent() {
        for capacity in [1, 2, 7, 100, 137, 999, 3_000] {
            for first in [1, 64, 5_000] {
                let (held, _) = find(capacity, first, 10_000);
                assert!(
                    held <= capacity && f64::from(held) >= f64::from(capacity) * 0.96 - 1.0,
                    "{capacity} {held}"
                );
            }
        }
        assert!(find(1_000, 128, 10_000).1 <= 9);
    }

    #[test]
    fn a_server_that_holds_all_or_nothing_ends_the_search() {
        assert_eq!(find(u32::MAX, 64, 1_000), (1_000, 5));
        assert_eq!(find(0, 64, 1_000).0, 0);
    }
}
