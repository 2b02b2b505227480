/// How far an experiment is; told before each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The share done, from 0 to 1.
    pub share: f64,
    /// What comes next, for people.
    pub doing: String,
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
        (self.progress)(Progress { share, doing: doing.into() });
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
        let (share, doing) = match ended {
            Ok(_) => (1.0, "done"),
            Err(_) => (begun_before / self.total.max(1) as f64, "stopped"),
        };
        (self.progress)(Progress { share, doing: doing.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
