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

    /// Tells that the last step has ended.
    pub(crate) fn end(self) {
        (self.progress)(Progress { share: 1.0, doing: "done".to_owned() });
    }
}
