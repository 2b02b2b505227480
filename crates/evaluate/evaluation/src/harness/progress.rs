/// How far an experiment is; told before each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The share done, from 0 to 1.
    pub share: f64,
    /// What comes next, for people.
    pub doing: String,
    /// Whether nothing comes next.
    pub ended: bool,
}

impl Progress {
    pub(crate) fn before(share: f64, doing: impl Into<String>) -> Self {
        Self { share, doing: doing.into(), ended: false }
    }

    pub(crate) fn at_the_end() -> Self {
        Self { share: 1.0, doing: "done".to_owned(), ended: true }
    }
}

/// The steps of an experiment, as long as each other, one after the other.
pub(crate) struct Steps<'a> {
    begun: usize,
    total: usize,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Steps<'a> {
    pub(crate) fn new(total: usize, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self { begun: 0, total, progress }
    }

    /// Tells that the next step begins.
    pub(crate) fn begin(&mut self, doing: impl Into<String>) {
        let share = self.begun as f64 / self.total.max(1) as f64;
        (self.progress)(Progress::before(share, doing));
        self.begun += 1;
    }

    /// Tells that a step begins that was not foreseen.
    pub(crate) fn add(&mut self, doing: impl Into<String>) {
        self.total += 1;
        self.begin(doing);
    }

    /// Tells that all steps are done, or that the last one was the last for another reason.
    pub(crate) fn end<T, E>(self, ended: &Result<T, E>) {
        let begun_before = self.begun.saturating_sub(1) as f64;
        let share = begun_before / self.total.max(1) as f64;
        (self.progress)(match ended {
            Ok(_) => Progress::at_the_end(),
            Err(_) => Progress { share, doing: "stopped".to_owned(), ended: true },
        });
    }
}

/// Experiments within one, which has no end before its own: each goes on where the one before was to end.
pub(crate) struct Whole<'a> {
    done: f64,
    told: f64,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Whole<'a> {
    pub(crate) fn new(progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self { done: 0.0, told: 0.0, progress }
    }

    /// Works on a part that takes `share` of the whole, and tells how far that is. That the part has ended is no news.
    pub(crate) fn part<T>(&mut self, share: f64, work: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> T {
        let begun = self.done;
        self.done = (begun + share).min(1.0);
        let end = self.done;
        work(&mut |inner| {
            if !inner.ended {
                let now = begun + inner.share.clamp(0.0, 1.0) * (end - begun);
                self.told = self.told.max(now);
                (self.progress)(Progress::before(self.told, inner.doing));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_within_one_never_go_back_and_do_not_end_it() {
        let (mut shares, mut told) = (vec![], vec![]);
        let mut tell = |progress: Progress| {
            shares.push(progress.share);
            told.push(progress.doing);
        };
        let mut whole = Whole::new(&mut tell);
        for (part, steps, ended) in [("a", 2, Ok(())), ("b", 1, Err(())), ("c", 4, Ok(()))] {
            whole.part(0.25, |tell| {
                let mut inner = Whole::new(tell);
                for _ in 0..2 {
                    inner.part(0.5, |tell| {
                        let mut experiment = Steps::new(steps, tell);
                        (0..steps).for_each(|_| experiment.begin(part));
                        experiment.end(&ended);
                    });
                }
            });
        }
        assert_eq!(told.concat(), "aaaabbcccccccc");
        assert!(shares.is_sorted() && shares[4..6] == [0.25, 0.375] && shares[6] == 0.5, "{shares:?}");
    }

    #[test]
    fn what_was_stopped_is_not_done() {
        let last = |ended: Result<(), ()>| {
            let mut last = None;
            let mut tell = |progress| last = Some(progress);
            let mut steps = Steps::new(4, &mut tell);
            steps.begin("one");
            steps.begin("two");
            steps.end(&ended);
            last.map(|progress| (progress.share, progress.doing))
        };
        assert_eq!(last(Err(())), Some((0.25, "stopped".to_owned())));
        assert_eq!(last(Ok(())), Some((1.0, "done".to_owned())));
    }
}
