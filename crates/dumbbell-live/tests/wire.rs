//! A wire between namespaces carries TCP, at the rate of its bottleneck, with ECN, and goes away.
#![cfg(target_os = "linux")]

use dumbbell_bottleneck::Bottleneck;
use dumbbell_config::BottleneckParams;
use dumbbell_core::aqm::{self, codel, AnyAqm, Aqm, QueueContext};
use dumbbell_core::units::{Duration, Rate};
use dumbbell_live::clock::MonotonicClock;
use dumbbell_live::direction::{Direction, FrameLog, Treatment};
use dumbbell_live::forwarder::Forwarder;
use dumbbell_live::namespaces::{HostPair, Namespace, RIGHT, RIGHT_ECN};
use dumbbell_live::packet_socket::PacketSocket;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{self, Instant};

/// Whether this machine allows it; says why if not.
fn is_allowed() -> bool {
    match Namespace::new() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: no network namespaces here: {error}");
            false
        }
    }
}

fn bottleneck(mbit: u64) -> Bottleneck<codel::State, FrameLog> {
    let context = QueueContext::new(Rate::from_mbit(mbit), 1);
    let codel = aqm::build(json!({"name": "codel", "ecn": true}).as_object().expect("a table"), &context).expect("codel");
    let AnyAqm::Codel(codel) = codel else { unreachable!() };
    Bottleneck::new(codel, 1, &BottleneckParams { rate: context.rate, ..BottleneckParams::default() }, FrameLog::default())
}

/// Payload that arrives in `time`, bytes.
fn download(wire: &HostPair, to: Ipv4Addr, time: time::Duration) -> usize {
    let stop = Instant::now() + time;
    let (ready, heard) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            wire.right.enter().expect("a namespace");
            let listener = TcpListener::bind((to, 5001)).expect("a port");
            ready.send(()).expect("heard");
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(time::Duration::from_millis(500))).expect("a timeout");
            let (mut total, mut room) = (0, vec![0; 1 << 16]);
            while let Ok(more @ 1..) = stream.read(&mut room) {
                total += more;
            }
            total
        });
        scope.spawn(move || {
            wire.left.enter().expect("a namespace");
            heard.recv().expect("a listener");
            let mut stream = TcpStream::connect((to, 5001)).expect("a connection");
            while Instant::now() < stop && stream.write_all(&[0; 1 << 14]).is_ok() {}
        });
        receiver.join().expect("a receiver")
    })
}

#[test]
fn a_bottleneck_carries_its_rate_and_marks_those_that_ask_for_it() {
    if !is_allowed() {
        return;
    }
    let (mbit, seconds) = (20, 2);
    for to in [RIGHT, RIGHT_ECN] {
        let wire = HostPair::new().expect("a wire");
        let ports = wire.interfaces().map(|index| wire.middle.run_inside(|| PacketSocket::open(index)).expect("a packet socket"));
        let back = Treatment { delay: Duration::from_millis(10), ..Treatment::default() };
        let directions = [Direction::new(Some(bottleneck(mbit)), Treatment::default(), 4096), Direction::new(None, back, 4096)];
        let mut forwarder = Forwarder::new(ports, directions);
        let stop = AtomicBool::new(false);
        let received = std::thread::scope(|scope| {
            let (forwarder, stop) = (&mut forwarder, &stop);
            let thread = scope.spawn(move || forwarder.run(&MonotonicClock::start(), &[stop], &mut ()));
            let received = download(&wire, to, time::Duration::from_secs(seconds));
            stop.store(true, Ordering::Relaxed);
            thread.join().expect("a forwarder").expect("no error");
            received
        });
        forwarder.directions.iter().for_each(|direction| direction.check_conservation().expect("conserved"));
        let queue = forwarder.directions[0].queue().expect("a queue");
        let counters = queue.log.counters.queue;
        assert_eq!(queue.aqm.packets(), 0);
        let mbit_received = received as f64 * 8e-6 / seconds as f64;
        // half of the rate at least on a busy machine, and never more than what a full buffer adds
        assert!((0.5 * mbit as f64..1.1 * mbit as f64).contains(&mbit_received), "{mbit_received} Mbit/s");
        assert!(counters.packets > 1000, "{counters:?}");
        match to {
            RIGHT => assert_eq!(counters.ce_marks, 0),
            _ => assert!(counters.ce_marks > 0 && counters.drops_aqm == 0, "{counters:?}"),
        }
        println!(
            "{to}: {mbit_received:.2} Mbit/s, {:?}, late {:?} {:?}",
            forwarder.effort,
            forwarder.lateness[0].p50_p99_max(),
            forwarder.lateness[1].p50_p99_max()
        );
    }
}
