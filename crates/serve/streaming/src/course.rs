//! What a session plays: a program forwards, or backwards.

use crate::backwards::Backwards;
use crate::program::{Edges, Planned, Program};
use forebay_rtsp::replay::Frames;

/// An iterator over samples in the order of sending.
#[derive(Clone, Debug)]
pub struct Course {
    way: Way,
    /// Where only some pictures are sent, which one is the last is known when there is no other: the one that was looked at for that.
    ahead: Option<Planned>,
    looks_ahead: bool,
    /// What comes before is sent at once then, so that nobody waits for it.
    first_ns: i64,
}

#[derive(Clone, Debug)]
enum Way {
    Forwards(Program),
    Backwards(Backwards),
}

impl Course {
    /// Of a program.
    pub fn forwards(program: Program) -> Self {
        Self::of(program.frames(), program.first_ns(), Way::Forwards(program))
    }

    /// Of one that runs backwards.
    pub fn backwards(program: Backwards) -> Self {
        Self::of(program.frames(), i64::MIN, Way::Backwards(program))
    }

    fn of(frames: Frames, first_ns: i64, way: Way) -> Self {
        Self { way, ahead: None, looks_ahead: matches!(frames, Frames::Intra { .. }), first_ns }
    }

    /// Whether more may come when there is nothing now.
    fn may_go_on(&self) -> bool {
        match &self.way {
            Way::Forwards(program) => program.may_go_on(),
            Way::Backwards(_) => false,
        }
    }

    fn next_of_way(&mut self) -> Option<Planned> {
        let planned = match &mut self.way {
            Way::Forwards(program) => program.next(),
            Way::Backwards(program) => program.next(),
        }?;
        Some(Planned { decode_ns: planned.decode_ns.max(self.first_ns), ..planned })
    }
}

impl Iterator for Course {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if !self.looks_ahead {
            return self.next_of_way();
        }
        let planned = self.ahead.take().or_else(|| self.next_of_way())?;
        // In this order: once nothing more comes, all of it is there.
        let may_go_on = self.may_go_on();
        self.ahead = self.next_of_way();
        let is_last = self.ahead.is_none() && !may_go_on;
        let is_end = is_last && matches!(&self.way, Way::Forwards(program) if program.goes_to_the_end());
        let edges = planned.edges.with(Edges::LAST, is_last).with(Edges::END, is_end);
        Some(Planned { edges, ..planned })
    }
}
