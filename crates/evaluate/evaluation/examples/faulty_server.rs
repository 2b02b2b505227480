//! A web server with a known fault, to see whether `forebay evaluate server` finds it.
//!
//! `faulty_server FAULT PORT [FILE]`: a thread for each connection, 1 KiB for each answer.
#![forbid(unsafe_code)]

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_vm::Words;
use rustix::fs::{Advice, fadvise};

const BODY: [u8; 1024] = [b'x'; 1024];
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n";
const PAGE: usize = 4096;
/// More than second-level caches hold.
const STRIDDEN: usize = 16 << 20;
/// Another line of another page each time, and all lines in the end.
const STRIDE: usize = PAGE + 64;
/// More than the memory that it is given.
const WORKING_SET: usize = 96 << 20;

struct Server {
    fault: String,
    file: Option<File>,
    /// The next place of each place of a walk.
    walk: Vec<u32>,
    place: AtomicUsize,
    memory: Vec<u8>,
    /// The file, mapped, with memory read nowhere else.
    mapped: Option<Words>,
    kept: Mutex<Vec<Vec<u8>>>,
    log: Mutex<u64>,
    answered: AtomicUsize,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: faulty_server FAULT PORT [FILE]");
    let fault = arguments.next().ok_or_else(usage)?;
    let port: u16 = arguments.next().and_then(|port| port.parse().ok()).ok_or_else(usage)?;
    let file = arguments.next().map(File::open).transpose()?;
    let mut server = Server {
        file,
        walk: vec![],
        place: AtomicUsize::new(0),
        memory: vec![],
        mapped: None,
        kept: Mutex::new(vec![]),
        log: Mutex::new(0),
        answered: AtomicUsize::new(0),
        fault,
    };
    match server.fault.as_str() {
        "stride" => {
            server.walk = vec![0; STRIDDEN / 4];
            (0..STRIDDEN / 64).for_each(|line| {
                let place = line * 64;
                server.walk[place / 4] = (((place + STRIDE) % STRIDDEN) / 4) as u32;
            });
        }
        "cold-read" => {
            if let Some(file) = &server.file {
                fadvise(file, 0, None, Advice::Random)?;
            }
        }
        "swap" => server.memory = vec![1; WORKING_SET],
        "mapped" => {
            let file = server.file.as_ref().ok_or_else(|| io::Error::other("give a FILE"))?;
            server.mapped = Some(Words::of_file(file).map_err(io::Error::other)?);
        }
        _ => {}
    }
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let server = &server;
            scope.spawn(move || stream.and_then(|stream| server.serve(stream)));
        }
        Ok(())
    })
}

impl Server {
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let length = stream.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            request.extend_from_slice(&buffer[..length]);
            if !request.ends_with(b"\r\n\r\n") {
                continue;
            }
            request.clear();
            self.work(self.answered.fetch_add(1, Ordering::Relaxed))?;
            if self.fault == "small-writes" {
                stream.write_all(HEAD)?;
                stream.write_all(&BODY)?;
            } else {
                stream.write_all(&[HEAD, &BODY].concat())?;
            }
        }
    }

    fn work(&self, number: usize) -> io::Result<()> {
        let random = |bound: usize| (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % bound;
        match self.fault.as_str() {
            "busy-loop" => {
                black_box(
                    (0..200_000u64).fold(number as u64, |sum, step| black_box(sum.rotate_left(5) ^ step)),
                );
            }
            "stride" => {
                let mut place = self.place.load(Ordering::Relaxed);
                (0..20_000).for_each(|_| place = self.walk[place] as usize);
                self.place.store(place, Ordering::Relaxed);
            }
            "convoy" => {
                let mut log = self.log.lock().expect("nobody panics");
                *log += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            "leak" => {
                let mut kept = self.kept.lock().expect("nobody panics");
                kept.push(vec![1; 256 << 10]);
                let all = kept.len();
                // What it has, it uses.
                (0..32).for_each(|step| {
                    let block = &mut kept[(random(all) + step * 7) % all];
                    let byte = random(63) * PAGE;
                    block[byte] = block[byte].wrapping_add(1);
                });
            }
            "swap" => {
                let sum = (0..16).map(|step| {
                    u32::from(self.memory[(random(WORKING_SET) + step * 5_000_011) % WORKING_SET])
                });
                black_box(sum.sum::<u32>());
            }
            "slow-disk" => {
                let file = self.file.as_ref().ok_or_else(|| io::Error::other("give a FILE"))?;
                let pages = file.metadata()?.len() as usize / PAGE;
                let mut page = [0; PAGE];
                file.read_exact_at(&mut page, (random(pages) * PAGE) as u64)?;
                fadvise(file, 0, None, Advice::DontNeed)?;
            }
            "mapped" => {
                let mapped = self.mapped.as_ref().ok_or_else(|| io::Error::other("give a FILE"))?;
                let sum = (0..8).map(|step| {
                    let place = (random(mapped.len()) + step * 4_000_037) % mapped.len();
                    mapped[place].load(Ordering::Relaxed)
                });
                black_box(sum.fold(0u64, u64::wrapping_add));
            }
            "cold-read" => {
                let file = self.file.as_ref().ok_or_else(|| io::Error::other("give a FILE"))?;
                let mut page = [0; PAGE];
                let pages = file.metadata()?.len() as usize / PAGE;
                // Each page once, in no order.
                file.read_exact_at(&mut page, (number.wrapping_mul(7919) % pages * PAGE) as u64)?;
            }
            "small-buffer" => {
                let file = self.file.as_ref().ok_or_else(|| io::Error::other("give a FILE"))?;
                let mut piece = [0; 16];
                for place in 0..4096u64 {
                    file.read_exact_at(&mut piece, place * 16)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
