//! Faults of a camera: which of its pictures, packets and times are wrong.

use forebay_rtsp::range::SECOND_NS;

use crate::chance::{Purpose, below, draw, happens};

/// Times at which something is so, in nanoseconds from the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub from_ns: u64,
    /// For how long; `None`: until the next time, or for ever.
    pub lasts_ns: Option<u64>,
    /// How long from one beginning to the next.
    pub every_ns: Option<u64>,
}

impl Times {
    /// Whether it is so at a time.
    pub fn contain(&self, at_ns: u64) -> bool {
        let Some(since_ns) = at_ns.checked_sub(self.from_ns) else { return false };
        let in_turn_ns = self.every_ns.map_or(since_ns, |every_ns| since_ns % every_ns.max(1));
        self.lasts_ns.is_none_or(|lasts_ns| in_turn_ns < lasts_ns)
    }

    /// The first beginning at a time or after.
    pub fn begin_from(&self, at_ns: u64) -> Option<u64> {
        match (at_ns.checked_sub(self.from_ns), self.every_ns) {
            (None | Some(0), _) => Some(self.from_ns),
            (Some(_), None) => None,
            (Some(since_ns), Some(every_ns)) => {
                since_ns.div_ceil(every_ns.max(1)).checked_mul(every_ns)?.checked_add(self.from_ns)
            }
        }
    }

    /// The first beginning or end at a time or after.
    pub fn turn_from(&self, at_ns: u64) -> Option<u64> {
        // An end is a beginning that comes so much later.
        let end_ns = self.lasts_ns.and_then(|lasts_ns| self.shifted(lasts_ns).begin_from(at_ns));
        self.begin_from(at_ns).into_iter().chain(end_ns).min()
    }

    /// So much later.
    pub fn shifted(self, ns: u64) -> Self {
        Self { from_ns: self.from_ns.saturating_add(ns), ..self }
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Packets are lost, each with a probability.
    Loss { chance: f64 },
    /// So many packets in a row are lost, once in every `distance` packets.
    Bursts { length: u64, distance: u64 },
    /// Packets come late by a time, each with a probability, so others overtake them.
    Reorder { chance: f64, by_ns: u64 },
    /// Samples leave late by up to a time.
    Jitter { by_ns: u64 },
    /// The camera hangs and sends nothing.
    Freeze,
    /// Key frames are missing, each with a probability. No numbers of packets are missing.
    MissingKeyFrames { chance: f64 },
    /// RTP timestamps are wrong by a time.
    Timestamps { by_ns: i64 },
    /// All connections of viewers are dropped at each beginning.
    Drop,
    /// Clients are refused, whatever their password.
    Refuse,
    /// Only key frames are sent of pictures.
    Night,
}

impl Kind {
    /// As scripts call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss { .. } => "loss",
            Self::Bursts { .. } => "bursts",
            Self::Reorder { .. } => "reorder",
            Self::Jitter { .. } => "jitter",
            Self::Freeze => "freeze",
            Self::MissingKeyFrames { .. } => "missing-key-frames",
            Self::Timestamps { .. } => "timestamps",
            Self::Drop => "drop",
            Self::Refuse => "refuse",
            Self::Night => "night",
        }
    }
}

/// A fault of one camera.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fault {
    /// Which of the script: its draws are its own.
    pub number: u64,
    pub kind: Kind,
    pub times: Times,
}

/// The faults of one camera, and what decides for each packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// The camera's own.
    pub seed: u64,
    pub all: Vec<Fault>,
}

impl Faults {
    fn at(&self, at_ns: u64) -> impl Iterator<Item = &Fault> {
        self.all.iter().filter(move |fault| fault.times.contain(at_ns))
    }

    /// Whether some samples may not be sent at all.
    pub fn may_omit(&self) -> bool {
        let omits =
            |fault: &Fault| matches!(fault.kind, Kind::Freeze | Kind::Night | Kind::MissingKeyFrames { .. });
        self.all.iter().any(omits)
    }

    /// Whether the camera sends nothing.
    pub fn is_frozen(&self, at_ns: u64) -> bool {
        self.has(Kind::Freeze, at_ns)
    }

    /// Whether there is a fault of a kind.
    pub fn has(&self, kind: Kind, at_ns: u64) -> bool {
        self.at(at_ns).any(|fault| fault.kind == kind)
    }

    /// Whether clients are refused.
    pub fn refuse(&self, at_ns: u64) -> bool {
        self.has(Kind::Refuse, at_ns)
    }

    /// Whether a sample is not sent, and takes no numbers of packets. `number` is another one for each sample of a camera.
    pub fn omit(&self, at_ns: u64, number: u64, needs_sync: bool, is_sync: bool) -> bool {
        self.at(at_ns).any(|fault| match fault.kind {
            Kind::Freeze => true,
            Kind::Night => needs_sync && !is_sync,
            Kind::MissingKeyFrames { chance } => {
                let drawn = || draw(self.seed, Purpose::KeyFrame, [fault.number, number, 0]);
                needs_sync && is_sync && happens(chance, drawn())
            }
            _ => false,
        })
    }

    /// Whether a packet of a track is lost.
    pub fn lose(&self, at_ns: u64, track: usize, ordinal: u64) -> bool {
        let drawn = |purpose, fault: &Fault, of| draw(self.seed, purpose, [fault.number, track as u64, of]);
        self.at(at_ns).any(|fault| match fault.kind {
            Kind::Loss { chance } => happens(chance, drawn(Purpose::Loss, fault, ordinal)),
            Kind::Bursts { length, distance } => {
                let turn = ordinal / distance;
                let begin = below(distance - length + 1, drawn(Purpose::Burst, fault, turn));
                (begin..begin + length).contains(&(ordinal % distance))
            }
            _ => false,
        })
    }

    /// How much later than its sample a packet leaves; 0 if it is on time.
    pub fn late_ns(&self, at_ns: u64, track: usize, ordinal: u64) -> u64 {
        let late = self.at(at_ns).filter_map(|fault| match fault.kind {
            Kind::Reorder { chance, by_ns } => {
                let drawn = draw(self.seed, Purpose::Late, [fault.number, track as u64, ordinal]);
                happens(chance, drawn).then_some(by_ns)
            }
            _ => None,
        });
        late.max().unwrap_or(0)
    }

    /// How much later than planned a sample leaves.
    pub fn jitter_ns(&self, at_ns: u64, number: u64) -> u64 {
        let jitter = self.at(at_ns).filter_map(|fault| match fault.kind {
            Kind::Jitter { by_ns } => {
                Some(below(by_ns + 1, draw(self.seed, Purpose::Jitter, [fault.number, number, 0])))
            }
            _ => None,
        });
        jitter.max().unwrap_or(0)
    }

    /// How wrong RTP timestamps are, in ticks of a clock.
    pub fn wrong_ticks(&self, at_ns: u64, clock_rate: u32) -> u32 {
        let wrong = self.at(at_ns).filter_map(|fault| match fault.kind {
            Kind::Timestamps { by_ns } => Some(by_ns),
            _ => None,
        });
        let ticks = wrong.map(|by_ns| i128::from(by_ns) * i128::from(clock_rate) / i128::from(SECOND_NS));
        // Timestamps wrap around.
        ticks.sum::<i128>() as u32
    }

    /// When connections are next dropped, at a time or after.
    pub fn drop_from(&self, at_ns: u64) -> Option<u64> {
        let drops = self.all.iter().filter(|fault| fault.kind == Kind::Drop);
        drops.filter_map(|fault| fault.times.begin_from(at_ns)).min()
    }

    /// How much later than planned an event can be.
    pub fn late_ns_max(&self) -> u64 {
        let late = |fault: &Fault| match fault.kind {
            // The lateness of one sample may hold up those after it.
            Kind::Jitter { by_ns } => 2 * by_ns,
            Kind::Reorder { by_ns, .. } => by_ns,
            _ => 0,
        };
        self.all.iter().map(late).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_again_and_end() {
        let once = Times { from_ns: 10, lasts_ns: Some(5), every_ns: None };
        assert_eq!([9, 10, 14, 15].map(|at| once.contain(at)), [false, true, true, false]);
        assert_eq!([0, 10, 11].map(|at| once.begin_from(at)), [Some(10), Some(10), None]);
        assert_eq!([0, 11, 16].map(|at| once.turn_from(at)), [Some(10), Some(15), None]);
        let again = Times { every_ns: Some(20), ..once };
        assert_eq!([10, 11, 16, 31].map(|at| again.turn_from(at)), [Some(10), Some(15), Some(30), Some(35)]);
        assert_eq!([9, 30, 34, 35].map(|at| again.contain(at)), [false, true, true, false]);
        assert_eq!([11, 30, 31].map(|at| again.begin_from(at)), [Some(30), Some(30), Some(50)]);
    }

    #[test]
    fn every_turn_has_one_burst_of_its_length() {
        let times = Times { from_ns: 0, lasts_ns: None, every_ns: None };
        let fault = Fault { number: 3, kind: Kind::Bursts { length: 7, distance: 100 }, times };
        let faults = Faults { seed: 9, all: vec![fault] };
        for turn in 0..200 {
            let lost: Vec<u64> = (0..100).filter(|at| faults.lose(0, 0, turn * 100 + at)).collect();
            assert_eq!(lost.len(), 7);
            assert_eq!(lost[6] - lost[0], 6, "they follow each other");
        }
    }
}
