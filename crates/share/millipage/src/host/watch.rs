//! The watching thread of a host on a machine whose hosts map one memory: it shows the others that this host is alive, and
//! notices a host that is lost. It serves no memory.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use forebay_coherence::HostId;

use super::Shared;
use crate::{
    board::Board,
    join::Whereabouts,
    transport::liveness::{ENDED, Liveness, Processes, SILENT, TICK},
};

/// What tells whether the other hosts are alive.
pub struct Vitals {
    liveness: Liveness,
    processes: Processes,
}

impl Vitals {
    /// Those of host `me` and the hosts at these places, by rank. A host that is silent for so long is lost.
    pub fn of(me: HostId, places: &[Whereabouts], silence: Duration) -> Self {
        Self { liveness: Liveness::new(me, places.len(), silence), processes: Processes::of(places) }
    }

    /// Those of a host that no other one can lose.
    pub fn none() -> Self {
        Self::of(HostId(0), &[], Duration::MAX)
    }
}

impl Shared {
    /// The watching thread.
    pub(super) fn watch(&self, mut vitals: Vitals) {
        let Some(board) = &self.board else { return };
        let (mut heard, mut last) = (board.beats(), Instant::now());
        while !self.leaving.load(Relaxed) {
            let slept = self.doorbell.sleep(None, TICK.subsec_nanos(), || self.leaving.load(Relaxed));
            if slept.is_err() {
                std::thread::sleep(TICK);
            }
            let now = Instant::now();
            board.beat();
            self.look(board, &mut vitals, &mut heard, now - last);
            last = now;
            if let Some((host, reason)) = board.loss().filter(|(host, _)| !self.can_go_without(board, *host))
            {
                return self.fail(&format!("lost host {} ({reason})", host.0));
            }
        }
    }

    /// Notices hosts that have ended, and those whose beats have stayed as they were `heard` for too long.
    fn look(&self, board: &Board, vitals: &mut Vitals, heard: &mut Vec<u32>, passed: Duration) {
        let beats = board.beats();
        for host in (0..beats.len()).filter(|host| beats[*host] != heard[*host]) {
            vitals.liveness.heard(HostId(host as u16));
        }
        *heard = beats;
        vitals.liveness.tick(passed, |_| {});
        let ended = vitals.processes.ended().into_iter().map(|host| (host, ENDED));
        let silent = vitals.liveness.all_lost().map(|host| (host, SILENT));
        let lost = ended.chain(silent).find(|(host, _)| !self.can_go_without(board, *host));
        if let Some((host, reason)) = lost {
            board.lose(host, reason);
        }
    }

    /// A host ends when all have said that they leave.
    fn can_go_without(&self, board: &Board, host: HostId) -> bool {
        board.has_left(self.me) && board.has_left(host)
    }
}
