//! Packets over the loopback, each sent and received by one thread, so no thread is woken and no other processor is needed. The
//! kernel does what a packet needs within the call that sends it, up to the other socket.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg, setsockopt, sockopt::UdpGsoSegment,
};

use crate::{Case, Error, Setting, Unsuited, size};

const COST: (&str, &str) = ("packet_cost", "us");
const UDP_BYTES: [usize; 7] = [64, 256, 512, 1024, 1400, 8 << 10, 32 << 10];
const TCP_BYTES: [usize; 7] = [64, 256, 1024, 1460, 4 << 10, 16 << 10, 32 << 10];
/// Of parts of a file; larger ones are more than a socket of the usual size takes.
const SENDFILE_BYTES: [usize; 3] = [1024, 8 << 10, 48 << 10];
/// A segment, and what is received, is a packet of an Ethernet frame at most.
const FRAME_MAX: usize = 1400;
/// Packets that are sent before they are received: a socket of the usual size holds so many, and so many bytes.
const TOGETHER: usize = 32;
const TOGETHER_BYTES: usize = 96 << 10;
/// Packets of a sample.
const PACKETS: usize = 1024;
/// For whatever should happen at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// UDP one by one, many at once, and segmented; what it takes to receive; TCP by the size of a write.
pub fn cases(setting: &Setting) -> Result<Vec<Case>, Error> {
    let some = |sizes: [usize; 7]| sizes.into_iter().step_by(if setting.quick { 2 } else { 1 });
    let mut cases = Vec::new();
    for bytes in some(UDP_BYTES) {
        let mut ways: Vec<(&str, Way)> = vec![("sendto", one_by_one), ("sendmmsg", many_at_once)];
        if bytes <= FRAME_MAX {
            ways.push(("GSO", segmented));
        }
        for (name, way) in ways {
            let sample = move || Ok(udp(way, bytes).map_err(lost)?.sent_us);
            cases.push(Case::new(format!("UDP {name}"), size(bytes), COST, sample));
        }
        if bytes <= FRAME_MAX {
            let sample = move || Ok(udp(one_by_one, bytes).map_err(lost)?.received_us);
            cases.push(Case::new("UDP recv", size(bytes), COST, sample));
        }
    }
    for bytes in some(TCP_BYTES) {
        cases.push(Case::new("TCP write", size(bytes), COST, move || tcp_us(bytes).map_err(lost)));
    }
    for bytes in SENDFILE_BYTES {
        cases.push(Case::new("TCP sendfile", size(bytes), COST, move || sendfile_us(bytes).map_err(lost)));
    }
    Ok(cases)
}

/// Sends packets of so many bytes.
type Way = fn(&UdpSocket, &[u8], usize) -> io::Result<()>;

fn one_by_one(socket: &UdpSocket, packets: &[u8], bytes: usize) -> io::Result<()> {
    packets.chunks(bytes).try_for_each(|packet| socket.send(packet).map(drop))
}

fn many_at_once(socket: &UdpSocket, packets: &[u8], bytes: usize) -> io::Result<()> {
    let slices: Vec<_> = packets.chunks(bytes).map(|packet| [IoSlice::new(packet)]).collect();
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(slices.len(), None);
    let connected = vec![None; slices.len()];
    let sent =
        sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &connected, [], MsgFlags::empty())?.count();
    if sent == slices.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
}

fn segmented(socket: &UdpSocket, packets: &[u8], bytes: usize) -> io::Result<()> {
    setsockopt(socket, UdpGsoSegment, &(bytes as i32))?;
    socket.send(packets).map(drop)
}

/// Microseconds of a packet.
struct Cost {
    sent_us: f64,
    received_us: f64,
}

fn udp(way: Way, bytes: usize) -> io::Result<Cost> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    let together = (TOGETHER_BYTES / bytes).clamp(1, TOGETHER);
    let mut packets = vec![1; bytes * together];
    let (mut sending, mut receiving) = (Duration::ZERO, Duration::ZERO);
    let rounds = PACKETS / together;
    for _ in 0..rounds {
        let begun = Instant::now();
        way(&sender, &packets, bytes)?;
        let sent = Instant::now();
        (0..together).try_for_each(|_| receiver.recv(&mut packets).map(drop))?;
        sending += sent - begun;
        receiving += sent.elapsed();
    }
    let each_us = |time: Duration| time.as_secs_f64() * 1e6 / (rounds * together) as f64;
    Ok(Cost { sent_us: each_us(sending), received_us: each_us(receiving) })
}

/// By writes from memory.
fn tcp_us(bytes: usize) -> io::Result<f64> {
    let data = vec![1; bytes];
    connected_us(bytes, |mut sender| sender.write_all(&data))
}

/// By the kernel, from a file that it has in memory.
fn sendfile_us(bytes: usize) -> io::Result<f64> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![1; bytes])?;
    connected_us(bytes, |sender| send_whole(sender, &file, bytes))
}

fn send_whole(sender: &TcpStream, file: &File, bytes: usize) -> io::Result<()> {
    let mut offset = 0;
    while (offset as usize) < bytes {
        let left = bytes - offset as usize;
        if rustix::fs::sendfile(sender, file, Some(&mut offset), left)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// What is sent is read before more is: many small ones would become one packet.
fn connected_us(bytes: usize, mut send: impl FnMut(&TcpStream) -> io::Result<()>) -> io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = TcpStream::connect_timeout(&listener.local_addr()?, PATIENCE)?;
    sender.set_nodelay(true)?;
    sender.set_write_timeout(Some(PATIENCE))?;
    let (mut receiver, _) = listener.accept()?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let mut data = vec![0; bytes];
    let mut sending = Duration::ZERO;
    for _ in 0..PACKETS {
        let begun = Instant::now();
        send(&sender)?;
        sending += begun.elapsed();
        receiver.read_exact(&mut data)?;
    }
    Ok(sending.as_secs_f64() * 1e6 / PACKETS as f64)
}

fn lost(source: io::Error) -> Error {
    if matches!(source.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        return Unsuited::LostPackets { patience: PATIENCE }.into();
    }
    Error::refused("send packets over the loopback")(source)
}
