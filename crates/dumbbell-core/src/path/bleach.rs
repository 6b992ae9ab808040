//! ECN bleaching: a router on the path clears the ECN field of what passes.
//!
//! A packet that is bleached is Not-ECT from then on: queues behind drop it where they would have marked it, and marks that it had are
//! gone. The flags of TCP headers stay, so that both ends believe in ECN (RFC 9331 section 5.2 and RFC 3168 section 18 speak of such
//! paths; draft-ietf-ccwg-bbr and QUIC's ECN validation, RFC 9000 section 13.4.2, of what a sender makes of them).

use super::{Downstream, PathItem, Stage};
use crate::packet::Ecn;
use crate::rng::Rng;
use crate::units::Instant;

/// Name in experiment files.
pub const NAME: &str = "bleach";
/// One line.
pub const TITLE: &str = "a router that clears the ECN field";
/// Specification and deviations.
pub const SOURCE: &str = "RFC 3168 section 18.1.1 (erasing the ECN field); RFC 9000 section 13.4.2";

crate::params! {
    /// Parameters of bleaching.
    pub struct Params {
        /// Probability that a packet loses its codepoint.
        probability: f64 = 1.0, unit "probability", range 0.0, 1.0, source "the default is ours: all of them";
        /// Packets that get here from this time on.
        from: Instant = Instant::ZERO, unit "", range Instant(0), Instant::from_secs(86_400), source "the default is ours: always";
        /// Until this time.
        to: Option<Instant> = None, unit "", range Instant(0), Instant::from_secs(86_400), source "the default is ours: always";
    }
}

/// Clears the ECN field.
#[derive(Clone, Debug)]
pub struct State {
    probability: f64,
    from: Instant,
    to: Instant,
}

impl State {
    /// With `params`.
    pub fn new(params: Params, _rng: &mut Rng) -> State {
        State { probability: params.probability, from: params.from, to: params.to.unwrap_or(Instant::NEVER) }
    }
}

impl<T: PathItem> Stage<T> for State {
    #[inline]
    fn push(&mut self, mut item: T, now: Instant, way: &mut Downstream<T>) {
        if self.from <= now && now < self.to && way.rng.next_f64() < self.probability {
            way.erase(&item, now);
            if let Some(packet) = item.packet_mut() {
                packet.set_ecn(Ecn::NotEct);
            }
        }
        way.pass(item, now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AnyStage, Path, Sink};
    use super::*;
    use crate::log::DropReason;
    use crate::packet::Packet;

    #[derive(Default)]
    struct Arrived(Vec<Packet>);

    impl Sink<Packet> for Arrived {
        fn arrive(&mut self, packet: Packet, _now: Instant) {
            self.0.push(packet);
        }

        fn on_drop(&mut self, packet: Packet, reason: DropReason, _now: Instant) {
            panic!("{packet:?} dropped: {reason:?}");
        }
    }

    fn pass_packets(state: State, times: std::ops::Range<u64>) -> Vec<Packet> {
        let mut path = Path::new(vec![AnyStage::Bleach(state)], Rng::stream(1, "test", 0));
        let mut seen = Arrived::default();
        for time in times {
            path.push(Packet::new_tcp(time, Ecn::Ce, 0), Instant(time), &mut seen);
        }
        seen.0
    }

    #[test]
    fn a_codepoint_is_gone_in_its_time_and_nothing_else_is_touched() {
        let state = State { probability: 1.0, from: Instant(5), to: Instant(8) };
        for packet in pass_packets(state, 0..20) {
            let expected = if (5..8).contains(&packet.number()) { Ecn::NotEct } else { Ecn::Ce };
            assert_eq!(packet.to_words(), Packet::new_tcp(packet.number(), expected, 0).to_words());
        }
    }

    #[test]
    fn the_share_that_is_bleached_is_the_probability() {
        let bleached = pass_packets(State { probability: 0.25, from: Instant::ZERO, to: Instant::NEVER }, 0..100_000);
        let share = bleached.iter().filter(|packet| packet.ecn() == Ecn::NotEct).count() as f64 / 1e5;
        // standard error: sqrt(0.25 * 0.75 / 100000) = 0.0014
        assert!((share - 0.25).abs() < 0.006, "{share}");
    }
}
