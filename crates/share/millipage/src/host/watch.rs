//! The watching thread of a host that is not alone on its machine: it shows the others that this host is alive, and notices a
//! host that is lost. Where there are other machines, it does what the first host tells it: it forbids pages.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use forebay_coherence::HostId;

use super::Shared;
use crate::{
    board::CUT_OFF,
    join::Whereabouts,
    scheduling::set_realtime,
    transport::liveness::{ENDED, Liveness, Processes, SILENT, TICK},
};

/// What tells whether the other hosts of the machine are alive.
pub struct Vitals {
    liveness: Liveness,
    processes: Processes,
}

impl Vitals {
    /// Those of the hosts of a machine, of which this one is at the place `me`. A host that is silent for so long is lost.
    pub fn of(me: usize, hosts: &[Whereabouts], silence: Duration) -> Self {
        let liveness = Liveness::new(HostId(me as u16), hosts.len(), silence);
        Self { liveness, processes: Processes::of(hosts) }
    }

    /// Those of a host that no other one can lose.
    pub fn none() -> Self {
        Self::of(0, &[], Duration::MAX)
    }
}

impl Shared {
    /// The watching thread.
    pub(super) fn watch(&self, mut vitals: Vitals) {
        let board = &self.board;
        if self.between().is_some() {
            // The thread that serves the machine waits for this one.
            set_realtime();
        }
        let (mut heard, mut last) = (board.beats(), Instant::now());
        while !self.leaving.load(Relaxed) {
            if let Some(order) = board.next_order(|| self.leaving.load(Relaxed)) {
                self.obey(order);
            }
            let now = Instant::now();
            if now - last >= TICK / 2 {
                board.beat();
                self.look(&mut vitals, &mut heard, now - last);
                last = now;
            }
            let loss = board.loss().filter(|_| !board.is_over());
            // Where this host serves the machine its progress thread sees to that.
            if let Some((host, reason)) = loss.filter(|_| self.service().is_none()) {
                return self.fail(&format!("lost host {} ({reason})", host.0));
            }
        }
    }

    fn obey(&self, order: u64) {
        let between = self.between();
        let obeyed = between.map_or(Ok(()), |between| between.desk.rights.obey(&self.memory, order));
        if obeyed.is_err() {
            // Its pages would show what they may not.
            self.board.lose(self.me, CUT_OFF);
        } else {
            self.board.obeyed();
        }
    }

    /// Notices hosts that have ended, and those whose beats have stayed as they were `heard` for too long.
    fn look(&self, vitals: &mut Vitals, heard: &mut Vec<u32>, passed: Duration) {
        let beats = self.board.beats();
        for place in (0..beats.len()).filter(|place| beats[*place] != heard[*place]) {
            vitals.liveness.heard(HostId(place as u16));
        }
        *heard = beats;
        vitals.liveness.tick(passed, |_| {});
        let ended = vitals.processes.ended().into_iter().map(|place| (place, ENDED));
        let silent = vitals.liveness.lost(&vitals.processes).map(|place| (place, SILENT));
        let lost = ended.chain(silent).next().filter(|_| !self.board.is_over());
        if let Some((place, reason)) = lost {
            self.board.lose(self.board.hosts()[place.index()], reason);
        }
    }
}
