//! A node in the style of neqo's simulator: nodes in a ring hand datagrams to each other, and one of them is a net.

mod toy;

use dumbbell_net::{Ecn, Error, Frame, Net};
use std::time::Duration;
use toy::{Receiver, Sender};

/// A datagram between nodes.
struct Datagram {
    bytes: Vec<u8>,
    ecn: Ecn,
}

/// An output of a node.
enum Output {
    /// This goes to the next node.
    Datagram(Datagram),
    /// Call again at this time.
    At(Duration),
    /// Call again when there is something for it.
    Nothing,
}

trait Node {
    /// The simulation begins.
    fn init(&mut self, _now: Duration) {}
    /// A datagram comes, or time has gone on.
    fn process(&mut self, datagram: Option<Datagram>, now: Duration) -> Output;
    /// The setup is over.
    fn prepare(&mut self, _now: Duration) {}
    /// Whether it has done what it has to.
    fn is_done(&self) -> bool {
        true
    }
    fn print_summary(&self, name: &str);
}

/// Queue, link and delay.
struct Bottleneck(Net);

impl Node for Bottleneck {
    fn process(&mut self, datagram: Option<Datagram>, now: Duration) -> Output {
        if let Some(Datagram { bytes, ecn }) = datagram {
            self.0.push(now, Frame::udp(bytes.len()).ecn(ecn), bytes);
        }
        match self.0.pop(now) {
            Some(packet) => Output::Datagram(Datagram { bytes: packet.payload, ecn: packet.frame.ecn }),
            None => self.0.next().map_or(Output::Nothing, Output::At),
        }
    }

    fn print_summary(&self, name: &str) {
        let counters = self.0.counters();
        println!(
            "{name}: {} packets, {} dropped, {:?} in the queue",
            counters.popped,
            counters.count_dropped(),
            counters.mean_sojourn()
        );
    }
}

impl Node for Sender {
    fn process(&mut self, datagram: Option<Datagram>, now: Duration) -> Output {
        if let Some(Datagram { bytes, .. }) = datagram {
            self.handle(now, &bytes);
        }
        if self.poll_timeout().is_some_and(|timeout| timeout <= now) {
            self.handle_timeout(now);
        }
        match self.poll_transmit(now) {
            Some((bytes, _)) => Output::Datagram(Datagram { bytes, ecn: Ecn::NotEct }),
            None => self.poll_timeout().map_or(Output::Nothing, Output::At),
        }
    }

    fn is_done(&self) -> bool {
        self.is_done()
    }

    fn print_summary(&self, name: &str) {
        println!("{name}: {} arrived, {} lost", self.arrived, self.lost);
    }
}

impl Node for Receiver {
    fn process(&mut self, datagram: Option<Datagram>, _now: Duration) -> Output {
        if let Some(Datagram { bytes, ecn }) = datagram {
            self.handle(&bytes, ecn);
        }
        self.poll_transmit().map_or(Output::Nothing, |bytes| Output::Datagram(Datagram { bytes, ecn: Ecn::NotEct }))
    }

    fn print_summary(&self, _name: &str) {}
}

/// Runs the ring until all nodes are done; when that was.
fn simulate(ring: &mut [(&str, &mut dyn Node)]) -> Option<Duration> {
    let mut now = Duration::ZERO;
    ring.iter_mut().for_each(|(_, node)| node.init(now));
    ring.iter_mut().for_each(|(_, node)| node.prepare(now));
    loop {
        let (mut next, mut index, mut silent) = (None, 0, 0);
        let mut datagram = None;
        // until all nodes in a row have nothing to hand on at this instant
        while silent < ring.len() {
            match ring[index].1.process(datagram.take(), now) {
                Output::Datagram(found) => (datagram, silent, next) = (Some(found), 0, None),
                Output::At(time) => (silent, next) = (silent + 1, next.into_iter().chain([time]).min()),
                Output::Nothing => silent += 1,
            }
            index = (index + 1) % ring.len();
        }
        if ring.iter().all(|(_, node)| node.is_done()) {
            return Some(now);
        }
        now = now.max(next?);
    }
}

/// 2000 packets over 10 Mbit/s, 40 ms and tail drop at 10 packets; how long that took, and how many were dropped.
pub fn run() -> Result<(Duration, u64), Error> {
    let text = r#"
        rate = "10Mbit"
        aqm = { name = "pfifo", limit = 10 }
        delay = "20ms"
    "#;
    let (mut sender, mut receiver) = (Sender::new(2000), Receiver::default());
    let (mut there, mut back) = (Bottleneck(Net::new(text)?), Bottleneck(Net::new(text)?));
    let mut ring: [(&str, &mut dyn Node); 4] =
        [("sender", &mut sender), ("there", &mut there), ("receiver", &mut receiver), ("back", &mut back)];
    let time = simulate(&mut ring).expect("the sender goes on until everything has arrived");
    ring.iter().for_each(|(name, node)| node.print_summary(name));
    let dropped = there.0.counters().count_dropped();
    assert_eq!(sender.lost, dropped, "the sender finds every loss, and no other");
    Ok((time, dropped))
}

#[allow(dead_code)] // of the test that runs this
fn main() -> Result<(), Error> {
    let (time, dropped) = run()?;
    println!("{time:?}, {dropped} dropped");
    Ok(())
}
