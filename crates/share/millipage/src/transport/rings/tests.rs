//! Rings between hosts that are in one process here.

use std::sync::atomic::AtomicBool;

use forebay_coherence::{Lock, Minipage, Want};
use forebay_vm::PAGE_BYTES;

use super::*;

/// For whatever takes microseconds on a machine that has nothing else to do.
const LIMIT: Duration = Duration::from_secs(60);
const BYTES: usize = 64 * PAGE_BYTES;

/// One host's way, and the memory that it is for.
struct Side {
    rings: Rings,
    views: Views,
    doorbell: Doorbell,
    /// Messages that have arrived.
    taken: Vec<(HostId, Message)>,
}

/// A memory object, what shows it, and what is offered to the others.
type Made = (Object, Views, Doorbell, Offer);

fn sides(hosts: u16) -> Vec<Side> {
    let make = |_| -> Made {
        let memory = Object::new(BYTES).unwrap();
        let views = Views::map(&memory, 1, None).unwrap();
        let doorbell = Doorbell::new(Box::leak(Box::new(AtomicU32::new(0)))).unwrap();
        let offer = Offer::new(hosts.into(), &memory, &doorbell).unwrap();
        (memory, views, doorbell, offer)
    };
    let made: Vec<Made> = (0..hosts).map(make).collect();
    let said: Vec<Vec<u8>> = made.iter().map(|(.., offer)| offer.to_bytes()).collect();
    // Each object stays open until all ends have it.
    let mut objects = vec![];
    let end = |(host, (memory, views, doorbell, offer)): (usize, Made)| {
        objects.push(memory);
        let rings = Rings::new(offer, HostId(host as u16), &views, &said).unwrap();
        Side { rings, views, doorbell, taken: vec![] }
    };
    made.into_iter().enumerate().map(end).collect()
}

impl Side {
    fn fill(&self, value: impl Fn(usize) -> u8) {
        for offset in 0..BYTES {
            // SAFETY: a byte of the view, which no other thread uses.
            unsafe { (self.views.privileged(offset) as *mut u8).write(value(offset)) };
        }
    }

    fn byte(&self, offset: usize) -> u8 {
        // SAFETY: as above.
        unsafe { (self.views.privileged(offset) as *const u8).read() }
    }

    fn say(&mut self, to: u16, message: Message) {
        let address = self.views.privileged(0);
        let contents = if let Message::Contents { minipage, .. } = message { minipage.index() } else { 0 };
        self.rings.say(HostId(to), Said::Message(message), Contents { address, bytes: contents }).unwrap();
    }

    fn take(&mut self) -> Result<usize, Error> {
        let mut taking = Taking { base: self.views.privileged(0), taken: &mut self.taken };
        self.rings.take(&mut taking, &mut |_| {})
    }
}

struct Taking<'a> {
    base: usize,
    taken: &'a mut Vec<(HostId, Message)>,
}

impl Sink for Taking<'_> {
    /// Of minipage `n`, the first `n` bytes of the memory.
    fn room(&mut self, message: Message) -> Option<Contents> {
        let Message::Contents { minipage, .. } = message else { return None };
        Some(Contents { address: self.base, bytes: minipage.index() })
    }

    fn take(&mut self, from: HostId, message: Message) {
        self.taken.push((from, message));
    }
}

fn acquire(number: u32) -> Message {
    Message::Acquire { lock: Lock(number.into()), waits: true }
}

#[test]
fn contents_of_all_sizes_are_the_senders() {
    let [mut one, mut other]: [Side; 2] = sides(2).try_into().ok().unwrap();
    let value = |offset: usize| (offset / 3) as u8 | 1;
    one.fill(value);
    for bytes in [1, 63, PAGE_BYTES, PAGE_BYTES + 1, BYTES] {
        other.fill(|_| 0);
        let contents = Message::Contents { minipage: Minipage(bytes as u32), want: Want::Read, more: 0 };
        one.say(1, contents);
        assert_eq!(other.take().unwrap(), 1);
        assert_eq!(std::mem::take(&mut other.taken), [(HostId(0), contents)]);
        let same = |offset| other.byte(offset) == if offset < bytes { value(offset) } else { 0 };
        assert!((0..BYTES).all(same), "{bytes} bytes");
    }
    let too_long = Message::Contents { minipage: Minipage(BYTES as u32 + 1), want: Want::Read, more: 0 };
    one.say(1, too_long);
    assert!(matches!(other.take(), Err(Error::Garbled)));
    assert!(other.taken.is_empty());
}

#[test]
fn more_messages_than_a_ring_has_room_for_arrive_once_each_in_their_order() {
    const MANY: u32 = 20 * ROOM;
    let hosts: Vec<Side> = sides(3);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let all: Vec<_> = hosts
            .into_iter()
            .enumerate()
            .map(|(me, mut end)| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let others = (0..3u16).filter(|other| usize::from(*other) != me);
                    let deadline = Instant::now() + LIMIT;
                    for number in 0..MANY {
                        others.clone().for_each(|other| end.say(other, acquire(number)));
                    }
                    let is_done =
                        |end: &Side| end.taken.len() == 2 * MANY as usize && !end.rings.has_waiting();
                    while !is_done(&end) && !is_over.load(SeqCst) {
                        let is_late = Instant::now() > deadline;
                        is_over.fetch_or(is_late, SeqCst);
                        assert!(!is_late, "{} of {}", end.taken.len(), 2 * MANY);
                        // A host that sleeps is rung for messages, and for room.
                        let nothing_is_left =
                            |end: &mut Side| end.take().unwrap() == 0 && end.rings.may_sleep();
                        if nothing_is_left(&mut end) {
                            end.doorbell.sleep(None, 50_000_000, || false).unwrap();
                        }
                    }
                    for other in others {
                        let from = end.taken.iter().filter(|(from, _)| from.0 == other);
                        assert!(from.map(|(_, message)| *message).eq((0..MANY).map(acquire)));
                    }
                    end
                })
            })
            .collect();
        all.into_iter().for_each(|end| drop(end.join().unwrap()));
    });
}

#[test]
fn a_host_that_sleeps_is_rung_and_one_that_is_awake_is_not() {
    let [mut one, mut other]: [Side; 2] = sides(2).try_into().ok().unwrap();
    one.say(1, acquire(0));
    assert_eq!(other.rings.inbox.head.listens.load(SeqCst), 0);
    assert!(!other.rings.may_sleep(), "something is left to take");
    assert_eq!(other.take().unwrap(), 1);
    assert!(other.rings.may_sleep());
    assert_eq!(other.rings.inbox.head.listens.load(SeqCst), 1);
    one.say(1, acquire(1));
    assert_eq!(other.rings.inbox.head.listens.load(SeqCst), 0, "rung");
    assert_eq!(other.take().unwrap(), 1);
}

#[test]
fn room_that_is_made_wakes_a_host_that_waits_for_it() {
    let [mut one, mut other]: [Side; 2] = sides(2).try_into().ok().unwrap();
    (0..=ROOM).for_each(|number| one.say(1, acquire(number)));
    assert!(one.rings.has_waiting());
    assert!(one.rings.may_sleep());
    assert_eq!(other.take().unwrap(), ROOM as usize);
    assert_eq!(one.rings.inbox.head.listens.load(SeqCst), 0, "rung");
    assert_eq!(one.take().unwrap(), 0);
    assert!(!one.rings.has_waiting());
    assert_eq!(other.take().unwrap(), 1);
}

#[test]
fn what_is_said_is_heard_and_anything_else_is_an_error() {
    let forward =
        Message::Forward { minipage: Minipage(9), want: Want::Write, requester: HostId(2), more: 3 };
    for said in [Said::Here, Said::Lost(HostId(2)), Said::Message(acquire(7)), Said::Message(forward)] {
        assert_eq!(from_words(to_words(said), 3), Some(said));
        let is_about_a_host = [Said::Lost(HostId(2)), Said::Message(forward)].contains(&said);
        assert_eq!(from_words(to_words(said), 2).is_none(), is_about_a_host, "{said:?}");
    }
    for words in
        [[3, 0, 0], [255, 1, 1], [LOST | 1 << 40, 0, 0], [MESSAGE, 0, 0], [MESSAGE, u64::MAX, u64::MAX]]
    {
        assert_eq!(from_words(words, 3), None, "{words:?}");
    }
    let [one, mut other]: [Side; 2] = sides(2).try_into().ok().unwrap();
    let peer = one.rings.peers[1].as_ref().unwrap();
    // Counts and marks that no sender of this version writes.
    peer.ring(HostId(0)).sender.count.store(5, SeqCst);
    peer.end.inbox.marks[0].0.store(!0, SeqCst);
    peer.ring(HostId(0)).entries[3][0].store(99, SeqCst);
    assert!(matches!(other.take(), Err(Error::Garbled)));
}

#[test]
fn a_loss_that_is_told_does_not_hide_what_was_said_before_and_after() {
    let [mut one, mut other]: [Side; 2] = sides(2).try_into().ok().unwrap();
    one.say(1, acquire(0));
    one.rings.say(HostId(1), Said::Lost(HostId(0)), Contents { address: 0, bytes: 0 }).unwrap();
    one.say(1, Message::Leaving);
    let error = other.take().unwrap_err().to_string();
    assert_eq!(error, "lost host 0 (it has failed)");
    assert_eq!(other.taken, [(HostId(0), acquire(0)), (HostId(0), Message::Leaving)]);
}
