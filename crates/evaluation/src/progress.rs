/// How far an experiment is; told before each step.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The share done, from 0 to 1.
    pub share: f64,
    /// What comes next, for people.
    pub doing: String,
}

impl Progress {
    pub(crate) fn new(done: usize, total: usize, doing: impl Into<String>) -> Self {
        Self { share: done as f64 / total.max(1) as f64, doing: doing.into() }
    }
}
