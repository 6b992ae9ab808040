//! UDP: it does not respond to congestion. Its receiver measures one-way delays; with `echo` it sends each packet back, as the far end of
//! ping and irtt does, and the sender measures RTTs.

use crate::config::UdpParams;
use crate::measure::Samples;
use crate::transit::Transit;
use dumbbell_core::histogram::CompactHistogram;
use dumbbell_core::packet::{Packet, UDP_HEADERS};
use dumbbell_core::rng::Rng;
use dumbbell_core::tcp::stats::ReceiverStats;
use dumbbell_core::tcp::{ack_flag, Ack};
use dumbbell_core::traffic::UdpSource;
use dumbbell_core::units::Time;

/// Answers that have come back.
pub struct Echo {
    /// Their RTTs; none are recorded after the end of the measured time.
    pub rtts: Option<CompactHistogram>,
    pub samples: Samples,
    pub least_us: u32,
}

impl Default for Echo {
    fn default() -> Echo {
        Echo { rtts: Some(CompactHistogram::default()), samples: Samples::default(), least_us: u32::MAX }
    }
}

/// A source of UDP, and what has arrived of it.
pub struct Udp {
    pub source: UdpSource,
    pub received: ReceiverStats,
    pub transit: Transit,
    pub started: bool,
    /// When it was stopped.
    pub stopped: Option<Time>,
    /// With `echo`.
    pub echo: Option<Box<Echo>>,
    /// Propagation to the receiver, which no hop has.
    half_rtt: Time,
}

impl Udp {
    /// A source for `slot` that has not started.
    pub fn new(slot: u32, params: &UdpParams, rng: Rng) -> Udp {
        Udp {
            source: UdpSource::new(slot, params.rate, params.size, params.ecn.into(), params.spacing, rng),
            received: ReceiverStats::default(),
            transit: Transit::default(),
            started: false,
            stopped: None,
            echo: params.echo.then(Box::default),
            half_rtt: Time(params.base_rtt.0 / 2),
        }
    }

    /// A packet arrives; returns the answer to it, if it gets one. Never inlined: the way of TCP's packets stays as short as it was.
    #[inline(never)]
    pub fn on_packet(&mut self, packet: &Packet, now: Time) -> Option<Ack> {
        self.received.count(packet);
        self.received.data += 1;
        self.received.bytes += u64::from(packet.len.saturating_sub(UDP_HEADERS));
        let age = packet.age(now);
        self.transit.arrived(age + self.half_rtt);
        self.echo.is_some().then(|| {
            self.received.acks += 1;
            let (ack, window, flags) = (now.0.wrapping_sub(age.0), u32::from(packet.len), ack_flag::ECHO);
            Ack { flow: packet.flow, ack, window, flags, ..Ack::default() }
        })
    }

    /// An answer comes back.
    #[cold]
    #[inline(never)]
    pub fn on_answer(&mut self, answer: &Ack, now: Time) {
        let Some(Echo { rtts, samples, least_us }) = self.echo.as_deref_mut() else { return };
        let rtt = Time(now.0.wrapping_sub(answer.ack));
        let micros = u32::try_from(rtt.0 / 1000).unwrap_or(u32::MAX).max(1);
        samples.add(micros, 0);
        *least_us = micros.min(*least_us);
        if let Some(rtts) = rtts {
            rtts.record(rtt);
        }
    }

    /// What was measured so far does not count.
    pub fn forget(&mut self) {
        self.transit.forget();
        if let Some(echo) = &mut self.echo {
            (echo.samples, echo.rtts) = (Samples::default(), Some(CompactHistogram::default()));
        }
    }
}
