//! Teams: some hosts, or all, which reduce, broadcast and gather values together.
//!
//! Each member has two slots in shared memory. In a round it writes a piece of its values to one of them, waits for the other
//! members, and reads theirs. The next round takes the other slots, so one wait in each is enough: the wait of the next round ends
//! when all members have read this round's slots. Between machines the slots are asked for together.

mod meeting;
mod number;

use std::{ops::Range, sync::Mutex};

use bytemuck::Pod;

use crate::{
    Error, Host, Placement,
    host::Shared,
    shared::{Row, Rows},
    vain,
};
use meeting::Meeting;

pub use number::{Number, NumberType, Reduction};

/// Bytes of a slot: as many as leave most of the memory to others, within these.
const SLOT_BYTES_MIN: usize = 1 << 12;
const SLOT_BYTES_MAX: usize = 1 << 16;
/// All slots take this part of the memory at most, unless they have the least bytes.
const PART: usize = 64;

/// Some hosts of a job, or all of them, in the order in which they were named. One thread of each member is in a call of a team at
/// a time.
pub struct Team {
    shared: &'static Shared,
    members: Vec<u16>,
    /// The place of this host among them.
    me: Option<usize>,
    /// Of each member two.
    slots: Rows<u8>,
    /// Where members wait for each other.
    meeting: Mutex<Meeting>,
}

impl Host {
    /// A team of these hosts, in any order. All hosts of the job call this, members and others.
    ///
    /// # Errors
    /// There is no such host, one is named twice, there is no room, or another host called something else.
    pub fn team(&self, members: &[u16]) -> Result<Team, Error> {
        let hosts = self.hosts();
        for (place, host) in members.iter().enumerate() {
            if *host >= hosts || members[..place].contains(host) {
                return Err(Error::NoMember { host: *host, hosts });
            }
        }
        let together = self.shared().together();
        if !together.has_rows() {
            let rows = self.rows_called("team()", hosts.into(), vain::WORDS, 1, Placement::Blocks)?;
            together.set_rows((0..rows.len()).map(|host| rows.row(host)).collect());
        }
        let home = Placement::On(members.first().copied().unwrap_or(0));
        let words = self.rows_called::<u64>("team()", 1, meeting::WORDS, 1, home)?;
        self.make_team(members.to_vec(), Some(words.row(0)))
    }

    /// The team of all hosts, whose members also meet hosts that call something else, and tell. All hosts call this the
    /// first time.
    ///
    /// # Errors
    /// There is no room, or another host called something else.
    pub fn everyone(&self) -> Result<&Team, Error> {
        if let Some(team) = self.everyone.get() {
            return Ok(team);
        }
        let team = self.make_team((0..self.hosts()).collect(), None)?;
        Ok(self.everyone.get_or_init(|| team))
    }

    fn make_team(&self, members: Vec<u16>, words: Option<Row<u64>>) -> Result<Team, Error> {
        let shared = self.shared();
        let count = 2 * members.len().max(1);
        let room = shared.memory().views().bytes() / (PART * count);
        let bytes = (room / SLOT_BYTES_MIN * SLOT_BYTES_MIN).clamp(SLOT_BYTES_MIN, SLOT_BYTES_MAX);
        let call = format!("team({members:?})");
        let slots = self.rows_called::<u8>(&call, count, bytes, 1, Placement::Blocks)?;
        let me = members.iter().position(|host| *host == self.rank());
        let meeting = Mutex::new(Meeting::new(shared, words, &members));
        Ok(Team { shared, members, me, slots, meeting })
    }
}

impl Team {
    /// The hosts in it.
    #[must_use]
    pub fn members(&self) -> &[u16] {
        &self.members
    }

    /// The place of this host among them, if it is one.
    #[must_use]
    pub const fn rank(&self) -> Option<usize> {
        self.me
    }

    /// Waits until all members have called this.
    ///
    /// # Errors
    /// This host is no member, another member called something else, or a host is lost.
    pub fn barrier(&self) -> Result<(), Error> {
        self.exchange("team_barrier()", 0, None, 0..0, |_, _, _| {})
    }

    /// Replaces `values` by those that come of the values of all members, in the members' order: the same on all. All members
    /// have as many.
    ///
    /// # Errors
    /// As for [`Team::barrier`]; or numbers of this type cannot be reduced so.
    pub fn all_reduce<T: Number>(&self, values: &mut [T], reduction: Reduction) -> Result<(), Error> {
        let what = numbers(values);
        self.reduce_bytes(&what, bytemuck::cast_slice_mut(values), T::TYPE, reduction, None)
    }

    /// The same, but only for the member at the place `root`.
    ///
    /// # Errors
    /// As for [`Team::all_reduce`]; or there is no such member.
    pub fn reduce<T: Number>(
        &self,
        values: &mut [T],
        reduction: Reduction,
        root: usize,
    ) -> Result<(), Error> {
        let what = numbers(values);
        self.reduce_bytes(&what, bytemuck::cast_slice_mut(values), T::TYPE, reduction, Some(root))
    }

    /// The same for languages without types: `values` are numbers of that type, aligned or not. `what` tells their shape and type as
    /// the program has them, and is the same on all members.
    ///
    /// # Errors
    /// As for [`Team::reduce`].
    pub fn reduce_bytes(
        &self,
        what: &str,
        values: &mut [u8],
        number: NumberType,
        reduction: Reduction,
        root: Option<usize>,
    ) -> Result<(), Error> {
        number.check(reduction, values.len())?;
        let (call, from) = match root {
            None => (format!("all_reduce({what}, {reduction:?})"), 0..self.members.len()),
            Some(root) => (format!("reduce({what}, {reduction:?}, root={root})"), self.sources_at(root)?),
        };
        let mine = values.to_vec();
        self.exchange(&call, values.len(), Some(&mine), from, |member, first, theirs| {
            let into = &mut values[first..first + theirs.len()];
            if member == 0 { into.copy_from_slice(theirs) } else { number.reduce(reduction, into, theirs) }
        })
    }

    /// Replaces `values` by those of the member at the place `root`. All members have as many.
    ///
    /// # Errors
    /// As for [`Team::barrier`]; or there is no such member.
    pub fn broadcast<T: Pod>(&self, values: &mut [T], root: usize) -> Result<(), Error> {
        let values: &mut [u8] = bytemuck::cast_slice_mut(values);
        self.broadcast_bytes(&format!("{} bytes", values.len()), values, root)
    }

    /// The same for languages without types: `what` is as for [`Team::reduce_bytes`].
    ///
    /// # Errors
    /// As for [`Team::broadcast`].
    pub fn broadcast_bytes(&self, what: &str, values: &mut [u8], root: usize) -> Result<(), Error> {
        self.sources_at(root)?;
        let call = format!("broadcast({what}, root={root})");
        let is_root = self.me == Some(root);
        let from = if is_root { 0..0 } else { root..root + 1 };
        let mine = is_root.then(|| values.to_vec());
        self.exchange(&call, values.len(), mine.as_deref(), from, |_, first, theirs| {
            values[first..first + theirs.len()].copy_from_slice(theirs);
        })
    }

    /// Fills `all` with the values of all members, in the members' order. All members have as many.
    ///
    /// # Errors
    /// As for [`Team::barrier`].
    ///
    /// # Panics
    /// There is not as much room as there are values.
    pub fn all_gather<T: Pod>(&self, mine: &[T], all: &mut [T]) -> Result<(), Error> {
        let (mine, all): (&[u8], &mut [u8]) = (bytemuck::cast_slice(mine), bytemuck::cast_slice_mut(all));
        self.all_gather_bytes(&format!("{} bytes", mine.len()), mine, all)
    }

    /// The same for languages without types: `what` is as for [`Team::reduce_bytes`].
    ///
    /// # Errors
    /// As for [`Team::barrier`].
    ///
    /// # Panics
    /// As for [`Team::all_gather`].
    pub fn all_gather_bytes(&self, what: &str, mine: &[u8], all: &mut [u8]) -> Result<(), Error> {
        assert_eq!(all.len(), mine.len() * self.members.len(), "room for the values of all members");
        let call = format!("all_gather({what})");
        self.exchange(&call, mine.len(), Some(mine), 0..self.members.len(), |member, first, theirs| {
            let first = member * mine.len() + first;
            all[first..first + theirs.len()].copy_from_slice(theirs);
        })
    }

    /// All members, if this host is the one at the place `root`; else none.
    fn sources_at(&self, root: usize) -> Result<Range<usize>, Error> {
        if root >= self.members.len() {
            return Err(Error::NoRoot { root, members: self.members.len() });
        }
        Ok(if self.me == Some(root) { 0..self.members.len() } else { 0..0 })
    }

    /// Exchanges so many bytes in rounds: writes this host's own, if it has such, and calls `take` with those `from` these members, piece
    /// by piece in their order.
    fn exchange(
        &self,
        call: &str,
        bytes: usize,
        mine: Option<&[u8]>,
        from: Range<usize>,
        mut take: impl FnMut(usize, usize, &[u8]),
    ) -> Result<(), Error> {
        let me = self.me.ok_or(Error::NotOfTeam { host: self.shared.me().0 })?;
        let mut meeting = self.meeting.try_lock().map_err(|_| Error::TeamTaken)?;
        let room = self.slots.row(0).len() - meeting::CALL_BYTES;
        let mut buffer = vec![0; room.min(bytes)];
        let mut first = 0;
        loop {
            let piece = first..(first + room).min(bytes);
            let parity = meeting.parity();
            let at = |member: usize| self.slots.row(2 * member + parity);
            if let Some(mine) = mine {
                at(me).write(meeting::CALL_BYTES, &mine[piece.clone()]);
            }
            meeting.meet(call, me, &self.members, at)?;
            let theirs = &mut buffer[..piece.len()];
            from.clone().filter(|member| *member != me).for_each(|member| at(member).prefetch());
            for member in from.clone() {
                at(member).read(meeting::CALL_BYTES, theirs);
                take(member, piece.start, theirs);
            }
            first = piece.end;
            if first >= bytes {
                return Ok(());
            }
        }
    }
}

/// How many numbers of which type.
fn numbers<T: Number>(values: &[T]) -> String {
    format!("{} {:?}", values.len(), T::TYPE)
}
