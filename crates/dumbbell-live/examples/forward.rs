//! How many frames a second the forwarder moves, and what each costs, beside a bridge of the kernel's between the same namespaces.
//!
//! One thread floods the left end with frames of one flow; whatever comes out of the right end is counted there, by the interface.

use dumbbell_core::aqm::{codel, pfifo, Aqm, QueueContext};
use dumbbell_core::units::Rate;
use dumbbell_live::clock::Clock;
use dumbbell_live::direction::{Direction, Dropped, Treatment};
use dumbbell_live::forwarder::Forwarder;
use dumbbell_live::frame::updated;
use dumbbell_live::namespaces::{bridge, gain_permission, Wire, INTERFACE};
use dumbbell_live::packet_socket::PacketSocket;
use dumbbell_live::port::{Port, BATCH};
use dumbbell_sim::bottleneck::Bottleneck;
use dumbbell_sim::config::BottleneckParams;
use nix::time::{clock_gettime, ClockId};
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(2);

/// A frame of UDP over IPv4 to a hardware address that nobody has, so that the right end throws it away at once.
fn frame(length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 9]);
    frame[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 200, 0, 1, 10, 200, 0, 2]);
    frame[16..18].copy_from_slice(&((length - 14) as u16).to_be_bytes());
    // a bridge that asks the packet filter looks at the checksum
    let words: Vec<u16> = frame[14..34].chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let checksum = words.into_iter().fold(0xffff, |sum, word| updated(sum, 0, word));
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// Time that the calling thread has computed, s.
fn computed() -> f64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0.0, |time| time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// Frames that the right end's interface has received.
fn received(wire: &Wire) -> io::Result<u64> {
    wire.right.within(|| {
        let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("db{INTERFACE}:")));
        Ok(line.and_then(|line| line.split_whitespace().nth(2)).and_then(|word| word.parse().ok()).unwrap_or(0))
    })
}

/// Floods the left end. Returns frames sent, and seconds that this thread computed.
fn flood(wire: &Wire, length: usize) -> io::Result<(u64, f64)> {
    wire.left.within(|| {
        let mut port = PacketSocket::open(INTERFACE)?;
        let frame = frame(length);
        let batch = [&frame[..]; BATCH];
        let (end, before, mut sent) = (Instant::now() + TIME, computed(), 0);
        while Instant::now() < end {
            sent += port.send(&batch)? as u64;
        }
        Ok((sent, computed() - before))
    })
}

fn say(what: &str, length: usize, frames: u64, computed: f64) {
    let rate = frames as f64 / TIME.as_secs_f64();
    let each = if frames > 0 { computed / frames as f64 * 1e9 } else { f64::NAN };
    println!(
        "{what:24} {length:5} B  {rate:9.0} frames/s  {:6.2} Gbit/s  {each:6.0} ns of a core each",
        rate * length as f64 * 8e-9
    );
}

fn forwarded<A: Aqm + Send>(what: &str, aqm: A, length: usize) -> Result<(), Box<dyn Error>> {
    let wire = Wire::new()?;
    let mut ports = Vec::new();
    for index in wire.interfaces() {
        ports.push(wire.middle.within(|| PacketSocket::open(index))?);
    }
    let ports: [PacketSocket; 2] = ports.try_into().map_err(|_| "two ports")?;
    let queue = Bottleneck::new(
        aqm,
        1,
        &BottleneckParams { rate: Rate::from_mbit(100_000), ..BottleneckParams::default() },
        Dropped::default(),
    );
    let directions = [Direction::new(Some(queue), Treatment::default(), 4096), Direction::new(None, Treatment::default(), 4096)];
    let mut forwarder = Forwarder::new(ports, directions);
    let stop = AtomicBool::new(false);
    let spent = std::thread::scope(|scope| -> io::Result<f64> {
        let (forwarder, halt) = (&mut forwarder, &stop);
        let thread = scope.spawn(move || {
            forwarder.run(&Clock::start(), &[halt], &mut ())?;
            Ok::<f64, io::Error>(computed())
        });
        let flooded = flood(&wire, length);
        stop.store(true, Ordering::Relaxed);
        let spent = thread.join().map_err(|_| io::Error::other("a panic"))?;
        flooded.and(spent)
    })?;
    say(what, length, received(&wire)?, spent);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    gain_permission()?;
    let context = QueueContext { rate: Rate::from_mbit(100_000), seed: 1 };
    for length in [1514, 66] {
        let wire = Wire::new()?;
        let (sent, alone) = flood(&wire, length)?;
        say("sent, not forwarded", length, sent, alone);
        let each = alone / sent.max(1) as f64;
        wire.middle.within(bridge)?;
        let before = received(&wire)?;
        let (bridged, both) = flood(&wire, length)?;
        // the bridge works in the sender's time
        say("kernel's bridge", length, received(&wire)? - before, both - each * bridged as f64);
        forwarded("forwarder, pfifo", pfifo::State::new(pfifo::Params::default(), &context), length)?;
        forwarded("forwarder, codel", codel::State::new(codel::Params::default(), &context), length)?;
    }
    Ok(())
}
