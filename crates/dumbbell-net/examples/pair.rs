//! A harness in the style of quinn's `Pair`: two endpoints without I/O in lock-step, with a net each way between them.

mod toy;

use dumbbell_net::{Config, Error, Frame, Net, NetCounters};
use std::time::Duration;
use toy::{Receiver, Sender};

/// Both endpoints and what lies between them.
struct Pair {
    client: Sender,
    server: Receiver,
    up: Net,
    down: Net,
    time: Duration,
}

impl Pair {
    fn new(client: Sender, text: &str) -> Result<Pair, Error> {
        let config = Config::parse(text)?;
        let down = config.clone().seed(2).build()?;
        Ok(Pair { client, server: Receiver::default(), up: config.build()?, down, time: Duration::ZERO })
    }

    /// Both endpoints take what has arrived, and send what they have.
    fn drive_both(&mut self) {
        while let Some(packet) = self.up.pop(self.time) {
            self.server.handle(&packet.payload, packet.frame.ecn);
        }
        while let Some(packet) = self.down.pop(self.time) {
            self.client.handle(self.time, &packet.payload);
        }
        if self.client.poll_timeout().is_some_and(|timeout| timeout <= self.time) {
            self.client.handle_timeout(self.time);
        }
        while let Some((datagram, ecn)) = self.client.poll_transmit(self.time) {
            self.up.push(self.time, Frame::udp(datagram.len()).ecn(ecn), datagram);
        }
        while let Some(datagram) = self.server.poll_transmit() {
            self.down.push(self.time, Frame::udp(datagram.len()), datagram);
        }
    }

    /// Goes on to whatever is due next. Returns whether anything is.
    fn advance_time(&mut self) -> bool {
        let next = [self.up.next(), self.down.next(), self.client.poll_timeout()].into_iter().flatten().min();
        self.time = next.map_or(self.time, |next| next.max(self.time));
        next.is_some()
    }

    /// Until nothing is left to happen.
    fn drive(&mut self) {
        self.drive_both();
        while self.advance_time() {
            self.drive_both();
        }
    }
}

/// 5000 packets over 10 Mbit/s, 20 ms and CoDel, which marks; how long that took, and what the net has counted.
pub fn run() -> Result<(Duration, NetCounters), Error> {
    let mut pair = Pair::new(
        Sender::new(5000),
        r#"
            rate = "10Mbit"
            aqm = { name = "codel", ecn = true }
            delay = "10ms"
        "#,
    )?;
    pair.drive();
    assert!(pair.client.is_done());
    assert_eq!((pair.client.lost, pair.up.counters().count_dropped()), (0, 0), "CoDel marks and does not drop");
    assert_eq!(pair.client.marked, pair.up.counters().ce_marks);
    Ok((pair.time, pair.up.counters()))
}

#[allow(dead_code)] // of the test that runs this
fn main() -> Result<(), Error> {
    let (time, counters) = run()?;
    println!("{time:?}: {counters:#?}");
    Ok(())
}
