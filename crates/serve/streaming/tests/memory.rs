//! How many streams a disk serves out of the same memory with one buffer each and with two, in simulated time.

mod films;

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use films::{MS, SECOND, file, film, read, setup};
use forebay_streaming::buffer::{Buffer, Scratch, next_bytes, room_for};
use forebay_streaming::depth::{Budget, PARTS, Share};
use forebay_streaming::lateness::Lateness;
use forebay_streaming::pool::Pool;
use forebay_streaming::program::Planned;
use forebay_streaming::room::Room;
use forebay_streaming::stream::{Next, Stream};

/// How long films are, and what of them is looked at: not how clients come.
const SECONDS: u64 = 16;
const WARM_UP_NS: u64 = 4 * SECOND;
const PICTURE_BYTES: u64 = 2_000;
const MEMORY_BYTES: u64 = 2 << 20;
const FIRST_BYTES: u64 = 16 << 10;
/// What the disk takes for a read, whatever its size; one after the other.
const READ_NS: u64 = 12 * MS;
/// What is late.
const LATE_NS: u64 = 100 * MS;

/// A client's stream.
struct Client {
    stream: Stream,
    program: Peekable<IntoIter<Planned>>,
    share: Share,
    lead_ns: u64,
    comes_ns: u64,
    has_started: bool,
}

/// All of them.
struct World {
    clients: Vec<Client>,
    budget: Budget,
    pool: Pool,
    disk: usize,
    /// Streams that want a buffer, the most urgent first, and streams that have got memory for it.
    wanting: BTreeMap<(u64, usize), ()>,
    queue: BTreeMap<(u64, usize), Buffer>,
    /// What is read at present, until when, and since when.
    reading: Option<(u64, usize, Buffer, u64)>,
    /// What is to be looked at when.
    due: BTreeMap<(u64, usize), ()>,
    file: Vec<u8>,
    lateness: Lateness,
    reads: u64,
}

impl World {
    fn new(streams: usize, buffers: usize) -> Self {
        let mut budget = Budget::new(MEMORY_BYTES, buffers);
        let disk = budget.add_device();
        let film = film(SECONDS, PICTURE_BYTES);
        let file = file(&film);
        let rate = file.len() as u64 / SECONDS;
        let client = |number: usize| {
            let mut stream = Stream::new(buffers);
            stream.add_sender(setup(0, false));
            stream.add_sender(setup(1, false));
            let share = budget.enter(disk, rate);
            let comes_ns = number as u64 * 16 * MS;
            let program = film.clone().into_iter().peekable();
            Client { stream, program, share, lead_ns: 0, comes_ns, has_started: false }
        };
        let clients: Vec<_> = (0..streams).map(client).collect();
        let due =
            clients.iter().enumerate().map(|(number, client)| ((client.comes_ns, number), ())).collect();
        Self {
            clients,
            budget,
            pool: Pool::new(MEMORY_BYTES),
            disk,
            wanting: BTreeMap::new(),
            queue: BTreeMap::new(),
            reading: None,
            due,
            file,
            lateness: Lateness::default(),
            reads: 0,
        }
    }

    /// Plays all films to their end.
    fn run(mut self) -> Self {
        loop {
            let read_ns = self.reading.as_ref().map(|reading| reading.0);
            let due_ns = self.due.keys().next().map(|due| due.0);
            let Some(now_ns) = [read_ns, due_ns].into_iter().flatten().min() else {
                assert!(self.wanting.is_empty() && self.queue.is_empty(), "a stream waits for ever");
                return self;
            };
            if let Some((_, number, mut buffer, begun_ns)) = self.reading.take_if(|one| one.0 <= now_ns) {
                read(&mut buffer, &self.file);
                let device = self.budget.device(self.disk).expect("a disk");
                device.note(buffer.room() as u64, now_ns - begun_ns);
                self.clients[number].stream.put_filled(buffer);
                self.due.insert((now_ns, number), ());
            }
            while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now_ns) {
                let number = entry.remove_entry().0.1;
                self.look_at(number, now_ns);
            }
            self.lend();
            assert!(self.pool.bytes() <= MEMORY_BYTES);
            if self.reading.is_none()
                && let Some(((_, number), buffer)) = self.queue.pop_first()
            {
                self.reads += 1;
                self.reading = Some((now_ns + READ_NS, number, buffer, now_ns));
            }
        }
    }

    fn look_at(&mut self, number: usize, now_ns: u64) {
        let Client { stream, lead_ns, has_started, .. } = &mut self.clients[number];
        if !*has_started && stream.is_ready() {
            *has_started = true;
            stream.cue(0, 0, 1.0, 1.0);
            stream.start(now_ns);
        }
        if *has_started {
            let next = stream.advance(now_ns, Room::ENDLESS);
            let mut early = Lateness::default();
            stream.has_sent(now_ns, if now_ns < WARM_UP_NS { &mut early } else { &mut self.lateness });
            if let Next::At(ns) = next {
                self.due.insert((ns.max(now_ns + 1), number), ());
            }
        }
        stream.take_over().for_each(|part| self.pool.give_back(part));
        match stream.wish_ns(*lead_ns) {
            Some(ns) if ns > now_ns => drop(self.due.insert((ns, number), ())),
            Some(_) => {
                stream.begin_filling();
                let deadline_ns = stream.runs_dry_ns().unwrap_or(now_ns + LATE_NS);
                self.wanting.insert((deadline_ns, number), ());
            }
            None => {}
        }
    }

    fn lend(&mut self) {
        while let Some(entry) = self.wanting.first_entry() {
            let (deadline_ns, number) = *entry.key();
            let Client { program, share, lead_ns, has_started, .. } = &mut self.clients[number];
            let mut depth = self.budget.depth(*share, None);
            if !*has_started {
                (depth.bytes, depth.part_bytes) = (FIRST_BYTES, FIRST_BYTES);
            }
            let next_bytes = room_for(next_bytes(program) as usize) as u64;
            let free_bytes = self.pool.free_bytes();
            if free_bytes < next_bytes.max(depth.bytes / PARTS) {
                return;
            }
            entry.remove();
            *lead_ns = depth.lead_ns;
            let bytes_max = depth.bytes.max(next_bytes).min(free_bytes) as usize;
            let mut buffer =
                Buffer::gather(program, bytes_max, depth.part_bytes as usize, &mut Scratch::default());
            assert!(self.pool.lend(&mut buffer));
            self.queue.insert((deadline_ns, number), buffer);
        }
    }
}

/// The most streams that are never late once all have come.
fn most(buffers: usize) -> usize {
    let (mut held, mut failed) = (10, 120);
    while failed - held > 1 {
        let streams = (held + failed) / 2;
        let world = World::new(streams, buffers).run();
        if world.lateness.max_ns() <= LATE_NS { held = streams } else { failed = streams }
    }
    held
}

/// Twice as many reads out of halves of the memory would be fewer streams, by a square root: seven for ten.
#[test]
fn two_buffers_serve_more_streams_than_one_out_of_the_same_memory() {
    let (one, two) = (most(1), most(2));
    assert!(two * 10 >= one * 12, "{one} {two}");
    assert!(World::new(two, 2).run().reads < World::new(two, 1).run().reads * 3 / 4);
}

#[test]
fn far_too_many_streams_have_no_more_memory_than_there_is_and_all_come_to_their_end() {
    for buffers in 1..=3 {
        let world = World::new(200, buffers).run();
        assert!(world.clients.iter().all(|client| client.stream.level() == 0));
        let packets = world.clients.iter().map(|client| client.stream.counts().packets).sum::<u64>();
        // A large picture, the others, and sound.
        assert_eq!((world.pool.lent_bytes(), packets), (0, 200 * SECONDS * (8 + 24 * 2 + 25)));
    }
}
