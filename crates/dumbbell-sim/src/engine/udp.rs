//! UDP: it does not respond to congestion. With `echo` its receiver sends each packet back, as the far end of ping and irtt does.

use crate::config::UdpParams;
use dumbbell_core::packet::Ecn;
use dumbbell_core::protocol::{Answer, Datagram, DatagramOutlet, Protocol};
use dumbbell_core::rng::Rng;
use dumbbell_core::traffic::{OnOff, Times, UdpSource};
use dumbbell_core::units::{Duration, Instant};

/// A source of UDP.
#[derive(Clone)]
pub struct Udp {
    source: UdpSource,
    echo: bool,
}

impl Udp {
    /// Source number `index` of a run with `seed`, which has not started.
    pub fn new(params: &UdpParams, seed: u64, index: u64) -> Udp {
        let rng = Rng::stream(seed, "udp", index);
        let mut source = UdpSource::new(0, params.rate, params.size, params.ecn.into(), params.spacing, rng);
        if let (Some(on), Some(off)) = (params.on, params.off) {
            let drawn = (params.times == Times::Exponential).then(|| Rng::stream(seed, "udp on and off", index));
            source = source.with_times(OnOff::new(on, off, drawn));
        }
        Udp { source, echo: params.echo }
    }
}

impl Protocol for Udp {
    dumbbell_core::fork_by_clone!(dyn Protocol);

    fn start(&mut self, now: Instant) {
        self.source.start(now);
    }

    fn stop(&mut self, _now: Instant) {
        self.source.stop();
    }

    fn next_timer(&self) -> Instant {
        self.source.next
    }

    fn on_timer(&mut self, now: Instant, net: &mut dyn DatagramOutlet) {
        while self.source.next <= now {
            let packet = self.source.send();
            net.send(Datagram { number: packet.udp().number(), length: packet.len, ecn: packet.ecn() });
        }
    }

    fn on_datagram(&mut self, datagram: &Datagram, _now: Instant) -> Option<Answer> {
        self.echo.then_some(Answer { value: datagram.number, length: datagram.length, ecn: Ecn::NotEct })
    }

    fn on_answer(&mut self, _answer: &Answer, _rtt: Duration, _now: Instant) {}
}
