//! Generic receive offload behind a NIC that moderates its interrupts: frames of a flow that one interrupt brings are one packet to TCP.
//!
//! The NIC interrupts at once if it has not done so for an `interval`, else when that is over; what came meanwhile is handled then.
//! Frames are merged as Linux does it (`tcp_gro_receive`, `skb_gro_receive`, `inet_gro_receive`): consecutive segments of one flow with
//! the same ECN field, up to 64 KiB; one with PSH or shorter than those before ends a packet, one with CWR begins one. The receiver
//! acknowledges a packet of two segments or more at once, and so sends fewer ACKs, each for more.
//!
//! Deviations: all flows share one receive queue; the NIC's interval does not adapt to the load; a poll has no budget of 64 frames.

use super::{Downstream, PathItem, Stage};
use crate::packet::{flag, Packet, HEADERS};
use crate::rng::Rng;
use crate::units::{Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "gro";
/// One line.
pub const TITLE: &str = "receive offload: frames that one interrupt brings are merged";
/// Specification and deviations.
pub const SOURCE: &str =
    "Linux tcp_offload.c tcp_gro_receive, gro.c; moderation as Intel's ITR; one queue, no adaptive interval, no budget";

crate::params! {
    /// Parameters of receive offload.
    pub struct Params {
        /// Least time between two interrupts.
        interval: Duration = Duration::from_micros(50), unit "", range Duration(0), Duration::from_millis(100), source "i40e_txrx.h: I40E_ITR_RX_DEF = I40E_ITR_20K, 50 us";
    }
}

/// Largest merged packet without its Ethernet header, bytes: the length field of IPv4 (`gro_max_size`).
const GRO_MAX_SIZE: u32 = 65_535;
/// Ethernet header, which does not count.
const ETHERNET: u16 = 14;

/// A frame that waits for the interrupt, with its flow and its number in the order of arrival.
#[derive(Clone, Debug)]
struct HeldFrame<T> {
    flow: u32,
    number: u32,
    item: T,
}

/// Holds frames until the next interrupt.
#[derive(Clone, Debug)]
pub struct State<T> {
    interval: Duration,
    /// The NIC does not interrupt before.
    earliest: Instant,
    held: Vec<HeldFrame<T>>,
}

impl<T> State<T> {
    /// With `params`.
    pub fn new(params: Params, _rng: &mut Rng) -> State<T> {
        State { interval: params.interval, earliest: Instant::ZERO, held: Vec::new() }
    }
}

/// Whether `next` is merged with what ends with `last`, began with a frame of length `full` and has `bytes` so far.
fn goes_on(last: &Packet, next: &Packet, full: u16, bytes: u32) -> bool {
    next.flow == last.flow
        && next.number() == last.number() + 1
        && next.ecn() == last.ecn()
        && last.len == full
        && next.len <= full
        && !last.has(flag::PSH | flag::NO_DATA)
        && !next.has(flag::CWR | flag::NO_DATA)
        && bytes + u32::from(next.len) - u32::from(HEADERS) <= GRO_MAX_SIZE
}

impl<T: PathItem> Stage<T> for State<T> {
    fn push(&mut self, mut item: T, now: Instant, way: &mut Downstream<T>) {
        let Some(packet) = item.packet_mut() else { return way.pass(item, now) };
        self.held.push(HeldFrame { flow: packet.flow, number: self.held.len() as u32, item });
        self.earliest = self.earliest.max(now);
    }

    fn next_timer(&self) -> Instant {
        if self.held.is_empty() {
            Instant::NEVER
        } else {
            self.earliest
        }
    }

    /// The interrupt.
    fn on_timer(&mut self, now: Instant, way: &mut Downstream<T>) {
        self.earliest = now + self.interval;
        self.held.sort_unstable_by_key(|held| (held.flow, held.number));
        // of the merged packet: length of its first frame, and what it has so far without Ethernet header
        let (mut full, mut bytes) = (0, 0);
        for index in 0..self.held.len() {
            let (before, rest) = self.held.split_at_mut(index + 1);
            let next = rest.first_mut().and_then(|held| held.item.packet_mut());
            let Some(packet) = before[index].item.packet_mut() else { continue };
            let is_first = bytes == 0;
            if is_first {
                (full, bytes) = (packet.len, u32::from(packet.len - ETHERNET));
            } else {
                bytes += u32::from(packet.len - HEADERS);
            }
            if next.is_some_and(|next| goes_on(packet, next, full, bytes)) {
                packet.add_flags(flag::MORE);
            } else {
                packet.add_flags(if is_first { 0 } else { flag::LAST });
                bytes = 0;
            }
        }
        for held in self.held.drain(..) {
            way.pass(held.item, now);
        }
    }

    fn count_items(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::DropReason;
    use crate::packet::{Ecn, MTU_FRAME};
    use crate::path::{AnyStage, Path, Sink};

    /// Times (us) and packets that left.
    #[derive(Default)]
    struct Seen(Vec<(u64, Packet)>);

    impl Sink<Packet> for Seen {
        fn arrive(&mut self, packet: Packet, now: Instant) {
            self.0.push((now.0 / 1000, packet));
        }

        fn on_drop(&mut self, _packet: Packet, _reason: DropReason, _now: Instant) {
            panic!("it drops nothing");
        }
    }

    fn frame(flow: u32, seq: u64) -> Packet {
        Packet { flow, len: MTU_FRAME, ..Packet::new_tcp(seq, Ecn::Ect0, 0) }
    }

    /// Returns the packets that leave, with times, if `packets` arrive at these times (us).
    fn pass_packets(packets: impl IntoIterator<Item = (u64, Packet)>) -> Vec<(u64, Packet)> {
        let state = State { interval: Duration::from_micros(50), earliest: Instant::ZERO, held: Vec::new() };
        let mut path = Path::new(vec![AnyStage::Gro(state)], Rng::stream(1, "test", 0));
        let mut seen = Seen::default();
        for (time, packet) in packets {
            while path.next_timer() < Instant::from_micros(time) {
                path.on_timer(path.next_timer(), &mut seen);
            }
            path.push(packet, Instant::from_micros(time), &mut seen);
        }
        while path.next_timer() < Instant::NEVER {
            path.on_timer(path.next_timer(), &mut seen);
        }
        assert_eq!(path.count_items(), 0);
        seen.0
    }

    /// How many segments each merged packet has, of `packets` that one interrupt brings.
    fn merge_packets(packets: impl IntoIterator<Item = Packet>) -> Vec<usize> {
        let left = pass_packets(packets.into_iter().map(|packet| (0, packet)));
        let mut sizes = vec![0];
        for (_, packet) in left {
            *sizes.last_mut().unwrap() += 1;
            let (more, last) = (packet.has(flag::MORE), packet.has(flag::LAST));
            assert_eq!(last, !more && *sizes.last().unwrap() > 1);
            if !more {
                sizes.push(0);
            }
        }
        assert_eq!(sizes.pop(), Some(0));
        sizes
    }

    #[test]
    fn interrupts_keep_their_distance() {
        let times = [0, 10, 49, 50, 51, 99, 130, 300, 301];
        let left = pass_packets((0..).zip(times).map(|(seq, time)| (time, frame(0, seq))));
        let left: Vec<_> = left.into_iter().map(|(time, packet)| (time, packet.number())).collect();
        // at once after idleness; 50 us later what came until then; the last one waits for 350
        assert_eq!(left, [(0, 0), (50, 1), (50, 2), (50, 3), (100, 4), (100, 5), (150, 6), (300, 7), (350, 8)]);
    }

    #[test]
    fn segments_in_a_row_are_merged_flow_by_flow() {
        assert_eq!(merge_packets((0..5).map(|seq| frame(0, seq))), [5]);
        assert_eq!(merge_packets([frame(1, 0), frame(0, 7), frame(1, 1), frame(0, 8), frame(1, 2)]), [2, 3]);
        assert_eq!(merge_packets([frame(0, 0), frame(0, 2), frame(0, 3), frame(0, 1)]), [1, 2, 1]);
        // 20 + 32 + 45 x 1448 B do not fit into 65,535
        assert_eq!(merge_packets((0..50).map(|seq| frame(0, seq))), [45, 5]);
    }

    #[test]
    fn marks_pushes_and_short_segments_end_a_packet() {
        let with = |change: fn(&mut Packet)| {
            merge_packets((0..6).map(|seq| {
                let mut packet = frame(0, seq);
                if seq == 2 {
                    change(&mut packet);
                }
                packet
            }))
        };
        assert_eq!(with(|_| ()), [6]);
        assert_eq!(with(|packet| packet.set_ecn(Ecn::Ce)), [2, 1, 3]);
        assert_eq!(with(|packet| packet.add_flags(flag::PSH)), [3, 3]);
        assert_eq!(with(|packet| packet.add_flags(flag::CWR)), [2, 4]);
        assert_eq!(with(|packet| packet.add_flags(flag::SYN)), [2, 1, 3]);
        assert_eq!(with(|packet| packet.len = 900), [3, 3]);
        // two short ones: the first ends what came before it, and the second is alone
        let short = |seq| Packet { len: 900, ..frame(0, seq) };
        assert_eq!(merge_packets([frame(0, 0), short(1), short(2), frame(0, 3)]), [2, 1, 1]);
    }
}
