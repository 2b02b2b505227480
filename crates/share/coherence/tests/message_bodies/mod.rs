//! What any bytes from other hosts do to a host. The fuzz target runs the same.

use forebay_coherence::{
    Access, Barrier, Effects, Host, HostId, Lock, MESSAGE_BYTES, Message, Minipage, Neighbours, Waiter,
};

const HOSTS: u16 = 3;
/// One message may cause as many as this.
const SENT_MAX: usize = 64;

#[derive(Default)]
struct Sent(usize);

impl Effects for Sent {
    fn send(&mut self, to: HostId, _: Message) {
        assert!((1..HOSTS).contains(&to.0), "a host sends to the other hosts alone, and not to {to:?}");
        self.0 += 1;
    }

    fn protect(&mut self, _: Minipage, _: Access) {}

    fn wake(&mut self, _: Waiter) {}

    fn pass(&mut self, _: Waiter, _: bool) {}

    fn neighbours(&self, _: Minipage) -> Option<Neighbours> {
        Some(Neighbours { first: ALONE, used: [0b1011, 0, 0, u64::MAX], kind: 3 })
    }
}

/// The first minipage that the host adds alone.
const ALONE: Minipage = Minipage(5);

/// A host takes messages of the other hosts, however little sense they make, between calls of its own.
pub fn messages(data: &[u8]) {
    let mut host = Host::new(HostId(0), HOSTS);
    let mut sent = Sent::default();
    for index in 0..4 {
        host.add_owned(HostId(index % HOSTS));
    }
    host.add_shared(HostId(0));
    host.make_room(5..8);
    host.add_alone(ALONE, 3, 0, Waiter(u64::MAX), &mut sent);
    for (step, bytes) in data.chunks_exact(1 + MESSAGE_BYTES).enumerate() {
        let (&[from, ref message @ ..], waiter) = (bytes, Waiter(step as u64)) else { return };
        let number = u32::from(message[4]);
        sent.0 = 0;
        match from {
            0..64 => host.fault(Minipage(number), Access::Write, waiter, &mut sent),
            64..72 => host.lock(Lock(number.into()), waiter, &mut sent),
            72..80 => host.try_lock(Lock(number.into()), waiter, &mut sent),
            80..96 => _ = host.unlock(Lock(number.into()), &mut sent),
            96..112 => _ = host.arrive(Barrier(number), 7, waiter, &mut sent),
            112..118 => host.resumed(Minipage(number), &mut sent),
            118 => host.free_together(number..number.saturating_add(2), waiter, &mut sent),
            119 => host.forget(number..number.saturating_add(2)),
            120..128 => host.free(Minipage(number), waiter, &mut sent),
            _ => {
                let Ok(message) = message.try_into() else { return };
                if let Some(message) = Message::from_bytes(message) {
                    assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
                    host.receive(HostId(1 + u16::from(from % 2)), message, &mut sent);
                }
            }
        }
        host.settle(&mut sent);
        assert!(sent.0 <= SENT_MAX, "{} messages", sent.0);
    }
}
