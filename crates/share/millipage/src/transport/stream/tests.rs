//! Hosts that connect while strangers call, and what they say to each other then.

#[path = "../../../tests/counting/mod.rs"]
mod counting;

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    os::{linux::net::SocketAddrExt, unix::net},
    thread,
    time::{Duration, Instant},
};

use forebay_channel::{Dialing, JobKey, RANDOM_BYTES};
use forebay_coherence::{Lock, Message, Minipage, Want};

use counting::{counted, total};

use super::{address::Address, *};
use crate::{
    join::Whereabouts,
    transport::{Transport, liveness, watched::Watched},
};

const CONTENTS: Message = Message::Contents { minipage: Minipage(1), want: Want::Read, more: 0 };
/// For whatever takes milliseconds on a machine that has nothing else to do.
const LIMIT: Duration = Duration::from_secs(60);

/// Where contents arrive, and what has.
struct Memory {
    bytes: Vec<u8>,
    taken: Vec<(HostId, Message)>,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], taken: vec![] }
    }

    fn contents(&self) -> Contents {
        Contents { address: self.bytes.as_ptr() as usize, bytes: self.bytes.len() }
    }
}

impl Sink for Memory {
    fn room(&mut self, message: Message) -> Option<Contents> {
        let (address, bytes) = (self.bytes.as_mut_ptr() as usize, self.bytes.len());
        (message == CONTENTS).then_some(Contents { address, bytes })
    }

    fn take(&mut self, from: HostId, message: Message) {
        self.taken.push((from, message));
    }
}

fn elsewhere(hosts: usize) -> Vec<Whereabouts> {
    vec![
        Whereabouts {
            on_this_machine: false,
            process: None,
            is_in_this_network: false,
            is_of_this_user: false
        };
        hosts
    ]
}

/// Hosts that listen, and what each has said.
fn listening(reach: Reach, hosts: usize) -> (Vec<Listening>, Vec<Vec<u8>>) {
    let all: Vec<Listening> = (0..hosts).map(|_| Listening::new(reach, None).unwrap()).collect();
    let said = all.iter().map(Listening::to_bytes).collect();
    (all, said)
}

/// Connects hosts with each other.
fn connected(listening: Vec<Listening>, said: &[Vec<u8>]) -> Vec<Watched<Streams>> {
    let host = |(host, listening): (usize, Listening)| {
        let me = HostId(host as u16);
        let peers = listening.connect_within(me, said, LIMIT).unwrap();
        Watched::new(Streams::with(peers).unwrap(), me, &elsewhere(said.len()), liveness::SILENCE)
    };
    thread::scope(|scope| {
        let hosts: Vec<_> =
            listening.into_iter().enumerate().map(|host_| scope.spawn(move || host(host_))).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    })
}

trait Call: Read + Write + Send {}
impl<T: Read + Write + Send> Call for T {}

fn call(address: &Address) -> Box<dyn Call> {
    match address {
        Address::Tcp(address) => Box::new(TcpStream::connect(address).unwrap()),
        Address::Local(name) => {
            let name = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
            Box::new(net::UnixStream::connect_addr(&name).unwrap())
        }
    }
}

/// What strangers say who know how forebay's hosts talk, and do not know the key.
fn lies() -> Vec<Vec<u8>> {
    let wrong = JobKey::of(&[[9; RANDOM_BYTES]]);
    let hello = |from, to| Dialing::new(&wrong, from, to, [1; RANDOM_BYTES]).hello().to_vec();
    let random: Vec<u8> =
        (0..200_000u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    vec![
        vec![],
        vec![0],
        vec![0xff; 4_096],
        random,
        hello(1, 0)[..20].to_vec(),
        hello(1, 0),
        hello(0, 1),
        hello(2, 65_535),
        [hello(2, 0), vec![0; 20]].concat(),
        [hello(2, 1), vec![0xff; 4_096]].concat(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ]
}

#[test]
fn hosts_find_each_other_among_strangers_and_hear_nothing_of_them() {
    for reach in [Reach::Machine, Reach::Loopback] {
        let (hosts, said) = listening(reach, 3);
        let text = |said: &Vec<u8>| String::from_utf8(said[RANDOM_BYTES..].to_vec()).unwrap();
        let addresses: Vec<Address> = said
            .iter()
            .flat_map(|said| text(said).lines().map(|line| line.parse().unwrap()).collect::<Vec<_>>())
            .collect();
        // They come first, and some stay.
        let mut strangers = vec![];
        for address in &addresses {
            for lie in lies() {
                let mut stranger = call(address);
                let _ = stranger.write_all(&lie);
                strangers.push(stranger);
            }
            drop(call(address));
        }
        let mut hosts = connected(hosts, &said);
        for (from, host) in (0..3).zip(&mut hosts) {
            for to in (0..3).filter(|to| *to != from) {
                host.send(HostId(to), Message::Acquire { lock: Lock(from.into()), waits: true }, None)
                    .unwrap();
            }
        }
        for (host, streams) in hosts.iter_mut().enumerate() {
            let (mut memory, deadline) = (Memory::new(0), Instant::now() + LIMIT);
            while memory.taken.len() < 2 {
                streams.receive(&mut memory).unwrap();
                assert!(Instant::now() < deadline);
            }
            memory.taken.sort();
            let others = (0..3u16).filter(|other| usize::from(*other) != host);
            let sent = |from: u16| (HostId(from), Message::Acquire { lock: Lock(from.into()), waits: true });
            assert_eq!(memory.taken, others.map(sent).collect::<Vec<_>>());
        }
        // No host listens any more.
        for address in addresses {
            if let Address::Tcp(address) = address {
                assert!(TcpStream::connect(address).is_err(), "{address}");
            }
        }
        thread::scope(|scope| hosts.into_iter().for_each(|host| drop(scope.spawn(move || drop(host)))));
    }
}

#[test]
fn hosts_that_have_different_keys_do_not_connect_and_name_each_other() {
    let (hosts, said) = listening(Reach::Loopback, 2);
    let mut other = said.clone();
    other[0][3] ^= 1;
    let patience = Duration::from_secs(1);
    let errors = thread::scope(|scope| {
        let hosts: Vec<_> = hosts
            .into_iter()
            .zip([&said, &other])
            .enumerate()
            .map(|(me, (host, said))| {
                scope.spawn(move || host.connect_within(HostId(me as u16), said, patience).err().unwrap())
            })
            .collect();
        hosts.into_iter().map(|host| host.join().unwrap().to_string()).collect::<Vec<_>>()
    });
    for (error, other) in errors.iter().zip([1, 0]) {
        assert!(
            error.starts_with(&format!("join() has no connection with host {other} after 1 s")),
            "{error}"
        );
        assert!(error.contains("key") && error.contains("start all hosts by one launcher"), "{error}");
    }
}

#[test]
fn a_host_that_is_not_there_is_named_with_the_address_that_was_tried() {
    let (mut hosts, said) = listening(Reach::Loopback, 2);
    let late = hosts.pop().unwrap();
    drop(hosts);
    let error = late.connect_within(HostId(1), &said, Duration::from_secs(1)).err().unwrap().to_string();
    assert!(error.contains("host 0") && error.contains("tcp 127.0.0.1:"), "{error}");
}

#[test]
fn contents_of_all_sizes_arrive_both_ways_at_once() {
    for bytes in [1, 4_096, 65_536, 65_537, 5_000_000] {
        let (hosts, said) = listening(Reach::Machine, 2);
        let hosts = connected(hosts, &said);
        thread::scope(|scope| {
            for (host, mut streams) in hosts.into_iter().enumerate() {
                scope.spawn(move || {
                    let value = |host: u16, index: usize| (index / 7 + usize::from(host)) as u8;
                    let (me, other) = (HostId(host as u16), HostId(1 - host as u16));
                    let mut sent = Memory::new(bytes);
                    sent.bytes = (0..bytes).map(|index| value(me.0, index)).collect();
                    let (mut got, deadline) = (Memory::new(bytes), Instant::now() + LIMIT);
                    streams.send(other, CONTENTS, Some(sent.contents())).unwrap();
                    streams.send(other, Message::Leaving, None).unwrap();
                    while got.taken.len() < 2 {
                        streams.receive(&mut got).unwrap();
                        assert!(Instant::now() < deadline);
                    }
                    assert_eq!(got.taken, [(other, CONTENTS), (other, Message::Leaving)]);
                    assert!((0..bytes).all(|index| got.bytes[index] == value(other.0, index)));
                    // Contents stay until they are sent.
                    drop(streams);
                    drop(sent);
                });
            }
        });
    }
}

/// Whether the event of a host that sleeps tells of something within this time.
fn is_rung(host: &Watched<Streams>, limit: Duration) -> bool {
    let event = host.event().unwrap();
    let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::from_borrowed_fd(event, PollFlags::IN)], Some(&limit)).unwrap() > 0
}

fn take_one(host: &mut Watched<Streams>, memory: &mut Memory, wanted: Message) -> Next {
    let deadline = Instant::now() + LIMIT;
    loop {
        match counted(|| host.take_one(memory, &|message| message == wanted)) {
            Next::Nothing => assert!(Instant::now() < deadline),
            next => return next,
        }
    }
}

#[test]
fn a_thread_in_a_fault_takes_what_it_wants_without_memory_and_leaves_the_rest() {
    let (hosts, said) = listening(Reach::Loopback, 2);
    let mut hosts = connected(hosts, &said);
    let (mut faults, mut other) = (hosts.remove(0), hosts.remove(0));
    let (me, to) = (HostId(0), HostId(1));
    for bytes in [64, 4_096] {
        let (mut sent, mut got) = (Memory::new(bytes), Memory::new(bytes));
        sent.bytes.fill(7);
        got.taken.reserve(4);
        // It is not rung for what comes now, and what it sends goes at once.
        assert!(counted(|| faults.take_over()));
        counted(|| faults.send(to, CONTENTS, Some(got.contents()))).unwrap();
        let mut heard = Memory::new(bytes);
        while heard.taken.is_empty() {
            other.receive(&mut heard).unwrap();
        }
        let lock = Message::Acquire { lock: Lock(1), waits: true };
        for (message, contents) in
            [(CONTENTS, Some(sent.contents())), (lock, None), (CONTENTS, Some(sent.contents()))]
        {
            other.send(me, message, contents).unwrap();
        }
        assert_eq!(take_one(&mut faults, &mut got, CONTENTS), Next::Taken);
        assert_eq!((&got.taken[..], &got.bytes), (&[(to, CONTENTS)][..], &sent.bytes));
        assert!(!is_rung(&faults, Duration::ZERO));
        // The next is for the progress thread, and so is what comes behind it.
        for _ in 0..2 {
            assert_eq!(take_one(&mut faults, &mut got, CONTENTS), Next::Other);
        }
        assert!(!faults.may_sleep());
        let deadline = Instant::now() + LIMIT;
        while got.taken.len() < 3 {
            faults.receive(&mut got).unwrap();
            assert!(Instant::now() < deadline);
        }
        assert_eq!(got.taken, [(to, CONTENTS), (to, lock), (to, CONTENTS)]);
        assert!(faults.may_sleep());
    }
    assert_eq!(total(), 0);
    thread::scope(|scope| [faults, other].map(|host| drop(scope.spawn(move || drop(host)))));
}

#[test]
fn what_a_thread_in_a_fault_has_no_room_for_is_left_to_who_is_rung() {
    const BYTES: usize = 3_000_000;
    let (hosts, said) = listening(Reach::Loopback, 2);
    let mut hosts = connected(hosts, &said);
    let (mut faults, mut other) = (hosts.remove(0), hosts.remove(0));
    let (mut sent, mut got) = (Memory::new(BYTES), Memory::new(BYTES));
    sent.bytes.fill(7);
    for _ in 0..2 {
        assert!(counted(|| faults.take_over()));
        counted(|| faults.send(HostId(1), CONTENTS, Some(sent.contents()))).unwrap();
        assert!(!faults.may_sleep() || is_rung(&faults, LIMIT));
        let deadline = Instant::now() + LIMIT;
        while got.taken.is_empty() {
            faults.receive(&mut Memory::new(0)).unwrap();
            other.receive(&mut got).unwrap();
            assert!(Instant::now() < deadline);
        }
        assert_eq!((got.taken.pop(), &got.bytes), (Some((HostId(0), CONTENTS)), &sent.bytes));
    }
    // The same where it is the other way round.
    other.send(HostId(0), CONTENTS, Some(sent.contents())).unwrap();
    assert!(faults.take_over());
    let mut back = Memory::new(BYTES);
    assert_eq!(take_one(&mut faults, &mut back, CONTENTS), Next::Other);
    let deadline = Instant::now() + LIMIT;
    while back.taken.is_empty() {
        other.receive(&mut Memory::new(0)).unwrap();
        faults.receive(&mut back).unwrap();
        assert!(Instant::now() < deadline);
    }
    assert_eq!((&back.taken[..], &back.bytes), (&[(HostId(1), CONTENTS)][..], &sent.bytes));
    assert_eq!(total(), 0);
    thread::scope(|scope| [faults, other].map(|host| drop(scope.spawn(move || drop(host)))));
}

#[test]
fn what_a_host_says_last_arrives_and_its_end_is_told_as_one() {
    let (hosts, said) = listening(Reach::Loopback, 2);
    let mut hosts = connected(hosts, &said);
    let (mut stays, mut goes) = (hosts.remove(0), hosts.remove(0));
    // Nothing of what came is taken before it ends.
    (0..50).for_each(|_| stays.send(HostId(1), Message::Leaving, None).unwrap());
    goes.send(HostId(0), Message::Leaving, None).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || drop(goes));
        let (mut memory, deadline) = (Memory::new(0), Instant::now() + LIMIT);
        let error = loop {
            match stays.receive(&mut memory) {
                Ok(_) => assert!(Instant::now() < deadline),
                Err(error) => break error.to_string(),
            }
        };
        assert_eq!(memory.taken, [(HostId(1), Message::Leaving)]);
        assert_eq!(error, "lost host 1 (its connection has ended)");
    });
}

#[test]
fn bytes_that_the_other_host_did_not_send_are_no_message() {
    let (hosts, said) = listening(Reach::Loopback, 2);
    let mut hosts = connected(hosts, &said);
    let (mut hears, injects) = (hosts.remove(0), hosts.remove(0));
    let peer = injects.way.peers[0].as_ref().unwrap();
    let mut socket = TcpStream::from(peer.socket.try_clone().unwrap());
    socket.write_all(&[&[40, 0, 0, 0][..], &[7; 56]].concat()).unwrap();
    let (mut memory, deadline) = (Memory::new(0), Instant::now() + LIMIT);
    let error = loop {
        match hears.receive(&mut memory) {
            Ok(_) => assert!(Instant::now() < deadline),
            Err(error) => break error.to_string(),
        }
    };
    assert!(memory.taken.is_empty());
    assert!(error.contains("lost host 1") && error.contains("was not sent by a host of this job"), "{error}");
    let _ = socket.shutdown(Shutdown::Both);
}
