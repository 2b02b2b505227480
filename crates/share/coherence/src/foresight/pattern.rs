//! How epochs recur. A loop with several barriers repeats what it fetches after as many epochs, or moves on by as much each time.
//!
//! The past tells which: what would have foretold the epoch of one period ago best foretells the next one. So no barrier needs
//! a name, which calls from several languages do not have, and which two colours of one loop share.

use std::collections::VecDeque;

use super::epoch::{Epoch, Fetch, Tally};
use crate::message::{Access, Minipage};

/// The longest period, in epochs.
const PERIOD_MAX: usize = 8;
/// What a period is judged by: an epoch that is over, and the two from which it could have been foretold.
pub const EPOCHS_MAX: usize = 3 * PERIOD_MAX;
/// A set of more rows of minipages at equal distances is an irregular one.
const ROWS_MAX: usize = 8;
/// How alike sets are that are the same but for a few.
const ALIKE: f64 = 0.5;

/// How an epoch follows from those of one and two periods ago.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It fetches the same as the last one.
    Same,
    /// It fetches what lies as far from that as that from the one before.
    Moved,
}

/// What the next epoch fetches, and how often it was right to foretell the epoch that it was told from.
pub fn recurring(past: &VecDeque<Epoch>) -> Option<(Vec<Fetch>, Tally)> {
    let mut best = None;
    let mut most = ALIKE;
    for period in 1..=PERIOD_MAX {
        let before = |periods| before(past, periods * period);
        let Some(last) = before(1).filter(|last| !last.fetches.is_empty()) else { continue };
        for way in [Way::Same, Way::Moved] {
            let told = match way {
                Way::Same => before(2).map(|epoch| epoch.fetches.clone()),
                Way::Moved => before(3).zip(before(2)).and_then(|(one, other)| moved(one, other)),
            };
            let Some(told) = told else { continue };
            let alike = alike(&told, &last.fetches);
            if alike > most {
                let right = in_both(&told, &last.fetches).count();
                let tally = if last.tally.is_new() { Tally::of(right, told.len()) } else { last.tally };
                (most, best) = (alike, Some((way, before(2)?, last, tally)));
            }
        }
        if most == 1.0 {
            break;
        }
    }
    let (way, before, last, tally) = best?;
    let fetches = match way {
        // What was fetched once may have been chance.
        Way::Same => in_both(&before.fetches, &last.fetches).copied().collect(),
        Way::Moved => moved(before, last)?,
    };
    Some((fetches, tally))
}

/// The epoch so many before the one that begins.
fn before(past: &VecDeque<Epoch>, epochs: usize) -> Option<&Epoch> {
    past.get(past.len().checked_sub(epochs)?)
}

fn in_both<'a>(one: &'a [Fetch], other: &[Fetch]) -> impl Iterator<Item = &'a Fetch> {
    one.iter().filter(|fetch| other.binary_search(fetch).is_ok())
}

/// How much of two sets is in both: 1 where they are equal (L. R. Dice, *Ecology* 26, 1945).
fn alike(one: &[Fetch], other: &[Fetch]) -> f64 {
    2.0 * in_both(one, other).count() as f64 / (one.len() + other.len()).max(1) as f64
}

/// Minipages at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    first: i64,
    distance: i64,
    count: i64,
    access: Access,
}

/// What comes after two sets, if each is a few rows, as many in both.
fn moved(before: &Epoch, last: &Epoch) -> Option<Vec<Fetch>> {
    let (before, last) = (rows(&before.fetches)?, rows(&last.fetches)?);
    if before.len() != last.len() || before == last {
        return None;
    }
    let mut fetches = vec![];
    for (before, last) in before.iter().zip(&last) {
        let (first, count) = (2 * last.first - before.first, 2 * last.count - before.count);
        let row = (0..count).map(|index| u32::try_from(first + index * last.distance));
        let row = row.map(|minipage| Some((Minipage(minipage.ok()?), last.access)));
        fetches.extend(row.collect::<Option<Vec<Fetch>>>()?);
    }
    fetches.sort_unstable();
    fetches.dedup_by_key(|(minipage, _)| *minipage);
    Some(fetches)
}

/// The rows of a set, if they are few. What is between two rows is a row of one.
fn rows(fetches: &[Fetch]) -> Option<Vec<Row>> {
    let number = |index: usize| fetches.get(index).map(|(minipage, access)| (i64::from(minipage.0), *access));
    let mut rows = vec![];
    let mut index = 0;
    while let Some((first, access)) = number(index) {
        if rows.len() == ROWS_MAX {
            return None;
        }
        let next = number(index + 1).filter(|(_, other)| *other == access);
        let distance = next.map_or(0, |(next, _)| next - first);
        let in_row = (1..).take_while(|count| {
            distance > 0 && number(index + count) == Some((first + *count as i64 * distance, access))
        });
        let mut count = 1 + in_row.count();
        if count == 2 && number(index + 2).is_some() {
            count = 1;
        }
        let distance = if count == 1 { 0 } else { distance };
        rows.push(Row { first, distance, count: count as i64, access });
        index += count;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reads(minipages: impl IntoIterator<Item = u32>) -> Vec<Fetch> {
        minipages.into_iter().map(|minipage| (Minipage(minipage), Access::Read)).collect()
    }

    fn past(epochs: &[Vec<Fetch>]) -> VecDeque<Epoch> {
        epochs.iter().map(|fetches| Epoch { fetches: fetches.clone(), tally: Tally::default() }).collect()
    }

    fn next(epochs: &[Vec<Fetch>]) -> Vec<Fetch> {
        recurring(&past(epochs)).map(|(fetches, _)| fetches).unwrap_or_default()
    }

    #[test]
    fn two_colours_of_one_loop_are_told_apart() {
        let (red, black) = (reads([1, 7]), reads([2, 9]));
        let epochs = [&red, &black, &red, &black].map(Clone::clone);
        assert_eq!(next(&epochs), red);
        assert_eq!(next(&epochs[1..]), vec![], "nothing tells that black came before");
    }

    #[test]
    fn a_column_and_a_row_of_blocks_move_on_with_the_steps() {
        let blocks = 40;
        // What the second of two hosts fetches at each step: a diagonal block, and the column below it.
        let epochs: Vec<Vec<Fetch>> = (0..20)
            .flat_map(|step| match step % 2 {
                0 => {
                    [reads([step * blocks + step]), reads((step + 1..blocks).map(|row| row * blocks + step))]
                }
                _ => [vec![], vec![]],
            })
            .collect();
        for step in (12..epochs.len()).filter(|step| !epochs[*step].is_empty()) {
            assert_eq!(next(&epochs[..step]), epochs[step], "{step}");
        }
    }

    #[test]
    fn of_a_set_that_changes_a_little_what_was_fetched_twice_is_foretold() {
        let with = |other: u32| reads((0..50).chain([other]));
        assert_eq!(next(&[with(50), with(61), with(73)]), reads(0..50));
    }

    #[test]
    fn what_does_not_recur_is_not_foretold() {
        assert_eq!(next(&[reads([1, 5, 8]), reads([2, 30, 31]), reads([11, 17, 40])]), vec![]);
        assert_eq!(next(&[vec![], vec![], vec![]]), vec![]);
    }

    fn set() -> impl Strategy<Value = Vec<Fetch>> {
        let fetch = (0..200u32, prop_oneof![Just(Access::Read), Just(Access::Write)]);
        prop::collection::btree_map(
            fetch.clone().prop_map(|(minipage, _)| Minipage(minipage)),
            fetch.prop_map(|(_, access)| access),
            0..30,
        )
        .prop_map(|set| set.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_set_is_what_its_rows_are(set in set()) {
            if let Some(rows) = rows(&set) {
                let all = rows.iter().flat_map(|row| {
                    (0..row.count).map(|index| (Minipage((row.first + index * row.distance) as u32), row.access))
                });
                prop_assert_eq!(all.collect::<Vec<_>>(), set);
            }
        }

        #[test]
        fn what_recurs_with_any_period_is_foretold(sets in prop::collection::vec(set(), 1..=PERIOD_MAX)) {
            let epochs: Vec<_> = sets.iter().cycle().take(3 * sets.len()).cloned().collect();
            prop_assert_eq!(next(&epochs), sets[0].clone());
        }

        #[test]
        fn what_is_foretold_is_in_order_and_each_minipage_once(epochs in prop::collection::vec(set(), 0..EPOCHS_MAX)) {
            let told = next(&epochs);
            prop_assert!(told.is_sorted_by(|(one, _), (other, _)| one < other));
        }
    }
}
