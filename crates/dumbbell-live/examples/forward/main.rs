//! How many frames per second the forwarder moves, and what each costs, beside a bridge of the kernel's between the same namespaces.
//!
//! Frames come in at one end or at both, and whatever comes out at the other end is counted there, by the interface. Load and forwarder
//! have the priorities and the cores that they have in a run. `cargo run --release --example forward -- tap 2` measures one way
//! with one load only.
#![allow(unsafe_code)] // ways to get at frames that the product does not use

mod load;
mod tap;
mod xdp;

use dumbbell_bottleneck::Bottleneck;
use dumbbell_config::BottleneckParams;
use dumbbell_core::aqm::{codel, QueueContext};
use dumbbell_core::units::Rate;
use dumbbell_live::clock::MonotonicClock;
use dumbbell_live::direction::{Direction, FrameLog, Treatment};
use dumbbell_live::forwarder::Forwarder;
use dumbbell_live::namespaces::{bridge, gain_permission, HostPair, Namespace};
use dumbbell_live::packet_socket::PacketSocket;
use dumbbell_live::port::FramePort;
use dumbbell_live::priority;
use load::{count_received, offer, Load, SECONDS};
use nix::time::{clock_gettime, ClockId};
use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The aim: 1 Gbit/s of full frames in each direction. 82 500 frames of 1514 B are 999.2 Mbit/s.
const AIM: u64 = 82_500;
/// Rate of the links that this load passes: somewhat more, so that what a pause of the load leaves in the queue goes away again.
const LINK: Rate = Rate::from_mbit(1100);
/// Rate of the links otherwise: they hold nothing up.
const NO_LINK: Rate = Rate::from_mbit(100_000);
const LOADS: [Load; 4] = [
    Load { name: "one direction", length: 1514, both: false, rate: None },
    Load { name: "both directions", length: 1514, both: true, rate: None },
    Load { name: "both, 1 Gbit/s each", length: 1514, both: true, rate: Some(AIM) },
    Load { name: "one direction", length: 66, both: false, rate: None },
];

/// Time that the calling thread has computed, s.
fn cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0.0, |time| time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

fn print_costs(what: &str, load: &Load, frames: u64, computed: f64, more: &str) {
    let rate = frames as f64 / SECONDS as f64;
    let each = if frames > 0 { computed / frames as f64 * 1e6 } else { f64::NAN };
    let gigabit = rate * load.length as f64 * 8e-9;
    println!("  {what:20}  {rate:8.0} frames/s  {gigabit:5.2} Gbit/s  {each:5.2} us of a core each{more}");
}

/// Forwards `load` between two ports of one way, which lead to the two ends.
fn forward_load<P: FramePort + Send>(way: &str, ends: [&Namespace; 2], ports: [P; 2], load: &Load) -> Result<(), Box<dyn Error>> {
    let rate = if load.rate.is_some() { LINK } else { NO_LINK };
    let params = BottleneckParams { rate, ..BottleneckParams::default() };
    let directions = [1, 2].map(|seed| {
        let codel = codel::State::new(codel::Params::default(), &QueueContext::new(rate, seed));
        Direction::new(Some(Bottleneck::new(codel, 1, &params, FrameLog::default())), Treatment::default(), 1 << 14)
    });
    let mut forwarder = Forwarder::new(ports, directions);
    let (stop, before) = (AtomicBool::new(false), count_received(ends)?);
    let (offered, spent) = std::thread::scope(|scope| -> io::Result<_> {
        let (forwarder, halt) = (&mut forwarder, &stop);
        let thread = std::thread::Builder::new().name("forwarder".to_owned()).spawn_scoped(scope, move || {
            priority::raise(priority::FORWARDER);
            forwarder.run(&MonotonicClock::start(), &[halt], &mut ())?;
            Ok::<f64, io::Error>(cpu_seconds())
        })?;
        std::thread::sleep(Duration::from_millis(50));
        let offered = offer(ends, load);
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        let spent = thread.join().map_err(|_| io::Error::other("a panic"))?;
        Ok((offered?, spent?))
    })?;
    let left = count_received(ends)? - before;
    for direction in &forwarder.directions {
        direction.check_conservation()?;
    }
    let idle = forwarder.effort.idle.0 as f64 / 1e9;
    let working = spent - idle;
    if load.rate.is_none() {
        print_costs(way, load, left, working, "");
        return Ok(());
    }
    let dropped: u64 = forwarder.directions.iter().map(|direction| direction.counts().dropped).sum();
    let lost = offered.frames.saturating_sub(left + dropped);
    let share = working / SECONDS as f64;
    let late = forwarder.lateness.each_ref().map(|of| of.p50_p99_max()[1].0 as f64 / 1e3);
    let is_reached = lost == 0 && share < 1.0;
    let more = format!(
        ", {share:.2} of a core; lost {lost}, dropped by the queue {dropped}; P99 late {:.0} us; load paused {:.1} ms at most; aim {}",
        late[0].max(late[1]),
        offered.longest_pause * 1e3,
        if is_reached { "reached" } else { "missed" }
    );
    print_costs(way, load, left, working, &more);
    Ok(())
}

/// The load by itself, and the kernel's bridge.
fn kernel(load: &Load) -> Result<(), Box<dyn Error>> {
    let wire = HostPair::new()?;
    let ends = [&wire.left, &wire.right];
    let alone = offer(ends, load)?;
    print_costs("sent, not forwarded", load, alone.frames, alone.computed, "");
    wire.middle.run_inside(bridge)?;
    let before = count_received(ends)?;
    let offered = offer(ends, load)?;
    let left = count_received(ends)? - before;
    // the bridge works in the time of those that send
    let spent = offered.computed - alone.computed / alone.frames.max(1) as f64 * left as f64;
    let share = spent / SECONDS as f64;
    let more =
        load.rate.map(|_| format!(", {share:.2} of a core; lost {}", offered.frames.saturating_sub(left))).unwrap_or_default();
    print_costs("kernel's bridge", load, left, spent, &more);
    Ok(())
}

/// The two ports in the middle of a wire.
fn middle<P: Send>(wire: &HostPair, open: impl Fn(u32) -> io::Result<P> + Sync) -> io::Result<[P; 2]> {
    let [left, right] = wire.interfaces();
    Ok([wire.middle.run_inside(|| open(left))?, wire.middle.run_inside(|| open(right))?])
}

fn measure(way: &str, load: &Load) -> Result<(), Box<dyn Error>> {
    if way == "bridge" {
        return kernel(load);
    }
    if way == "tap" {
        let ends = [Namespace::new()?, Namespace::new()?];
        let ports = [ends[0].run_inside(tap::Tap::open)?, ends[1].run_inside(tap::Tap::open)?];
        return forward_load("TAP", [&ends[0], &ends[1]], ports, load);
    }
    let wire = HostPair::new()?;
    let ends = [&wire.left, &wire.right];
    match way {
        "packet" => forward_load("packet sockets", ends, middle(&wire, PacketSocket::open)?, load),
        "xdp" => forward_load("AF_XDP, generic", ends, middle(&wire, |index| xdp::Xdp::open(index, xdp::Mode::Generic))?, load),
        "veth-xdp" => {
            forward_load("AF_XDP, in veth", ends, middle(&wire, |index| xdp::Xdp::open(index, xdp::Mode::Native))?, load)
        }
        _ => Err(format!("found {way}, allowed: bridge, packet, tap, xdp, veth-xdp").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    gain_permission()?;
    // as in a run
    let _awake = priority::Awake::keep();
    priority::own_session();
    let (numbers, mut ways): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.parse::<usize>().is_ok());
    if ways.is_empty() {
        ways = ["bridge", "packet", "tap", "xdp", "veth-xdp"].map(str::to_owned).to_vec();
    }
    let loads = LOADS.iter().zip(1..).filter(|(_, number)| numbers.is_empty() || numbers.contains(&format!("{number}")));
    for (load, _) in loads {
        println!("{}, {} B", load.name, load.length);
        for way in &ways {
            if let Err(error) = measure(way, load) {
                println!("  {way}: {error}");
            }
        }
    }
    Ok(())
}
