//! Rounds of several programs, as far as they go.

use crate::Error;

/// The sides in the order of a round, of which the first is 1: forwards and backwards in turn. What a run leaves to the next
/// one, such as a kernel that still tidies up its memory, is then no side's alone. A side that is
/// last always runs behind the one before it or, in even rounds, behind itself.
pub(crate) fn in_turn<S: Copy>(sides: &[S], round: usize) -> Vec<S> {
    let forwards = sides.iter().copied();
    if round % 2 == 1 { forwards.collect() } else { forwards.rev().collect() }
}

/// Runs each round and tells whether the first is over: from then on a program has results, whatever ends the rounds.
pub(crate) fn rounds(
    runs: usize,
    mut round: impl FnMut(usize) -> Result<(), Error>,
) -> (bool, Result<(), Error>) {
    let mut any = false;
    let all = (1..=runs).try_for_each(|number| round(number).map(|()| any = true));
    (any, all)
}

/// What was measured of programs until `all` ended, with what ended it; an error where that is nothing.
///
/// # Errors
/// `all` is one and nothing was measured.
pub(crate) fn as_far_as_it_went<M>(
    measured: Vec<M>,
    all: Result<(), Error>,
) -> Result<(Vec<M>, Option<Error>), Error> {
    match all {
        Err(error) if measured.is_empty() => Err(error),
        all => Ok((measured, all.err())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_count_from_the_first_round_on() {
        let ended_in =
            |last: usize| rounds(3, |number| if number == last { Err(Error::Interrupted) } else { Ok(()) });
        assert!(matches!(ended_in(1), (false, Err(_))));
        assert!(matches!(ended_in(2), (true, Err(_))));
        assert!(matches!(ended_in(9), (true, Ok(()))));
        let (kept, why) = as_far_as_it_went(vec![1], Err(Error::Interrupted)).unwrap();
        assert!(kept == [1] && why.is_some());
        assert!(as_far_as_it_went(Vec::<u8>::new(), Err(Error::Interrupted)).is_err());
    }
}
