//! Where the members of a team wait for each other, and learn whether all called the same.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::{
    Error,
    host::{COLLECTIVE, Shared, digest},
    shared::Row,
    sync::Place,
    vain::ALL,
};

/// Bytes of a slot in which a member writes what it calls: the size of a text, and the text.
pub const CALL_BYTES: usize = 128;
const SIZE_BYTES: usize = size_of::<u64>();

/// Words of a team: how many members have come to the round, with the number of rounds above; and for rounds of even and of odd
/// number the sum of what all members called so far.
pub const WORDS: usize = 3;
const ROUND: u64 = 1 << 32;

/// What one member knows of the rounds of its team.
pub struct Meeting {
    shared: &'static Shared,
    /// Without them the members are all hosts, which meet as at a barrier.
    words: Option<Words>,
    /// Which team it is among those of the job.
    number: u64,
    members: u64,
    rounds: u64,
    /// The sums as they were.
    sums: [u64; 2],
}

struct Words {
    arrived: Place,
    sums: [&'static AtomicU64; 2],
}

impl Meeting {
    pub fn new(shared: &'static Shared, words: Option<Row<u64>>, members: &[u16]) -> Self {
        let words =
            words.map(|row| Words { arrived: Place::of(&row, 0), sums: [row.atomic(1), row.atomic(2)] });
        let number = words.as_ref().map_or(ALL, |Words { arrived, .. }| {
            let arrived = *arrived;
            shared.together().add_team(members.to_vec(), move || arrived.now() / ROUND)
        });
        Self { shared, words, number, members: members.len() as u64, rounds: 0, sums: [0; 2] }
    }

    /// Which slots the next round takes.
    pub const fn parity(&self) -> usize {
        (self.rounds % 2) as usize
    }

    /// Waits until all members have come to this round. `slot` is that of a member.
    ///
    /// # Errors
    /// Another member called something else, or a host is lost.
    pub fn meet(
        &mut self,
        call: &str,
        me: usize,
        members: &[u16],
        slot: impl Fn(usize) -> Row<u8>,
    ) -> Result<(), Error> {
        let parity = self.parity();
        self.rounds += 1;
        let Some(Words { arrived, sums }) = &self.words else {
            return self.shared.meet(COLLECTIVE, digest(&call), call);
        };
        let mut waiting = self.shared.waiting(self.number, call)?;
        write(&slot(me), call);
        let word = digest(&call);
        sums[parity].fetch_add(word, SeqCst);
        let last = self.members - 1;
        let arrive = |word: u64| {
            let has_all = word % ROUND == last;
            Some((
                if has_all { (word - last).wrapping_add(ROUND) } else { word + 1 },
                (word / ROUND, has_all),
            ))
        };
        let (round, has_all) = arrived.change(arrive).unwrap_or_default();
        if has_all {
            arrived.ring();
        } else {
            waiting.begin(round);
            let is_over = || arrived.now() / ROUND != round;
            let waited =
                arrived.wait(|| if is_over() { Some(true) } else { waiting.is_in_vain().then_some(false) });
            if matches!(waited, Err(Error::Interrupted)) {
                waiting.interrupt();
            }
            if !matches!(waited, Ok(true)) {
                return Err(waiting.failure().or(waited.err()).unwrap_or(Error::Left));
            }
        }
        let sum = sums[parity].load(SeqCst);
        let wanted = self.sums[parity].wrapping_add(word.wrapping_mul(self.members));
        self.sums[parity] = sum;
        if sum == wanted {
            return Ok(());
        }
        let mut called = members.iter().enumerate().map(|(place, host)| (host, read(&slot(place))));
        let other = called.find(|(_, text)| text.as_str() != shortened(call));
        let other = other.map(|(host, text)| format!("host {host} called {text}"));
        Err(self.shared.disagreement(call).beside(other))
    }
}

/// As much of a text as there is room for.
fn shortened(call: &str) -> &str {
    let mut ends = (0..=call.len().min(CALL_BYTES - SIZE_BYTES)).rev();
    let end = ends.find(|end| call.is_char_boundary(*end)).unwrap_or(0);
    &call[..end]
}

fn write(slot: &Row<u8>, call: &str) {
    let text = shortened(call).as_bytes();
    slot.write(0, &(text.len() as u64).to_le_bytes());
    slot.write(SIZE_BYTES, text);
}

fn read(slot: &Row<u8>) -> String {
    let mut size = [0; SIZE_BYTES];
    slot.read(0, &mut size);
    let mut text = vec![0; (u64::from_le_bytes(size) as usize).min(CALL_BYTES - SIZE_BYTES)];
    slot.read(SIZE_BYTES, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
