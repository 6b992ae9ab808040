//! When packets leave, by shaper.

use super::*;
use dumbbell_config::Shaper;
use dumbbell_core::aqm::{bfifo, pfifo, QueueContext};
use dumbbell_core::link_layer::{Framing, Preset};
use dumbbell_core::packet::{Ecn, FlowKey, MTU_FRAME};
use dumbbell_core::units::Rate;

/// Time of a full frame at 10 Mbit/s: 1514 * 8 / 10^7 s.
const FRAME: u64 = 1_211_200;

fn bottleneck(shaper: Shaper, burst: u32) -> Bottleneck<pfifo::State> {
    let rate = Rate::from_mbit(10);
    let fifo = pfifo::State::new(pfifo::Params::default(), &QueueContext::new(rate, 1));
    let mut bottleneck = Bottleneck::new(fifo, 1, &BottleneckParams { rate, shaper, burst, ..BottleneckParams::default() }, ());
    bottleneck.flow_starts(0, &FlowKey::default(), 0);
    bottleneck
}

fn packet(seq: u64) -> Packet {
    Packet { len: MTU_FRAME, ..Packet::new_tcp(seq, Ecn::NotEct, 0) }
}

/// Lets the bottleneck work until it is idle; (time, segment) of what leaves.
fn departures(bottleneck: &mut Bottleneck<pfifo::State>) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    while bottleneck.next != Instant::NEVER {
        let now = bottleneck.next;
        while bottleneck.next <= now {
            left.extend(bottleneck.advance(now).map(|gone| (now.0, gone.number())));
        }
    }
    left
}

#[test]
fn a_link_takes_its_time_for_every_frame() {
    let mut link = bottleneck(Shaper::Link, 1514);
    (0..3).for_each(|seq| link.arrive(packet(seq), Instant(1_000)));
    assert_eq!(link.count_packets(), 3);
    assert_eq!(departures(&mut link), [(1_000 + FRAME, 0), (1_000 + 2 * FRAME, 1), (1_000 + 3 * FRAME, 2)]);
    // idle again: the next waits for nothing but itself
    link.arrive(packet(3), Instant::from_secs(1));
    assert_eq!(departures(&mut link), [(1_000_000_000 + FRAME, 3)]);
    assert_eq!(
        (
            link.count_packets(),
            link.log.counters.queue.packets,
            link.log.counters.queue.bytes,
            link.log.counters.flows.flow_counters(0).departed
        ),
        (0, 4, 4 * 1514, 4)
    );
}

#[test]
fn a_token_bucket_passes_two_after_an_idle_time_then_one_a_frame() {
    let mut bucket = bottleneck(Shaper::Htb, 1514);
    // full: one frame. The first leaves it empty, the second in debt by one frame
    (0..4).for_each(|seq| bucket.arrive(packet(seq), Instant(1_000)));
    assert_eq!(departures(&mut bucket), [(1_000, 0), (1_000, 1), (1_000 + FRAME, 2), (1_000 + 2 * FRAME, 3)]);
    // a pause of one frame: it is out of debt, but empty
    let later = 1_000 + 3 * FRAME;
    (4..6).for_each(|seq| bucket.arrive(packet(seq), Instant(later)));
    assert_eq!(departures(&mut bucket), [(later, 4), (later + FRAME, 5)]);
    // a long one: it holds no more than one frame
    let idle = 1_000_000_000;
    (6..9).for_each(|seq| bucket.arrive(packet(seq), Instant(idle)));
    assert_eq!(departures(&mut bucket), [(idle, 6), (idle, 7), (idle + FRAME, 8)]);
}

#[test]
fn packets_that_a_token_bucket_passes_at_once_take_no_place_in_the_queue() {
    let rate = Rate::from_mbit(10);
    let two = pfifo::Params { limit: 2 };
    let mut bucket = Bottleneck::new(
        pfifo::State::new(two, &QueueContext::new(rate, 1)),
        1,
        &BottleneckParams { rate, shaper: Shaper::Htb, burst: 1514, ..BottleneckParams::default() },
        (),
    );
    bucket.flow_starts(0, &FlowKey::default(), 0);
    // a full bucket passes two of five; two fit into the queue, and the last does not
    (0..5).for_each(|seq| bucket.arrive(packet(seq), Instant(1_000)));
    assert_eq!((bucket.aqm.packets(), bucket.count_packets(), bucket.log.counters.queue.drops_overflow), (2, 4, 1));
    assert_eq!(departures(&mut bucket), [(1_000, 0), (1_000, 1), (1_000 + FRAME, 2), (1_000 + 2 * FRAME, 3)]);
    assert_eq!(bucket.count_packets(), 0);
}

#[test]
fn a_deeper_bucket_passes_more() {
    let mut bucket = bottleneck(Shaper::Htb, 3 * 1514);
    (0..6).for_each(|seq| bucket.arrive(packet(seq), Instant::ZERO));
    let times: Vec<u64> = departures(&mut bucket).iter().map(|gone| gone.0).collect();
    assert_eq!(times, [0, 0, 0, 0, FRAME, 2 * FRAME]);
}

#[test]
fn a_frame_on_the_wire_leaves_at_the_old_rate() {
    let mut link = bottleneck(Shaper::Link, 1514);
    (0..2).for_each(|seq| link.arrive(packet(seq), Instant::ZERO));
    link.set_rate(Rate::from_mbit(5), Instant(1_000));
    assert_eq!(departures(&mut link), [(FRAME, 0), (FRAME + 2 * FRAME, 1)]);
}

#[test]
fn a_bucket_in_debt_keeps_it_and_pays_the_next_at_the_new_rate() {
    let mut bucket = bottleneck(Shaper::Htb, 1514);
    (0..4).for_each(|seq| bucket.arrive(packet(seq), Instant::ZERO));
    for _ in 0..3 {
        bucket.advance(Instant::ZERO);
    }
    assert_eq!((bucket.log.counters.queue.packets, bucket.next), (2, Instant(FRAME)));
    bucket.set_rate(Rate::from_mbit(5), Instant(1_000));
    // the debt is time; what it buys from here on is half
    assert_eq!(departures(&mut bucket), [(FRAME, 2), (3 * FRAME, 3)]);
}

#[test]
fn the_depth_of_a_bucket_is_bytes() {
    let mut bucket = bottleneck(Shaper::Htb, 1514);
    bucket.set_rate(Rate::from_mbit(5), Instant::ZERO);
    (0..4).for_each(|seq| bucket.arrive(packet(seq), Instant::from_secs(1)));
    // one frame is 2 * 1211.2 us now: two at once, the third when the debt is paid
    let times: Vec<u64> = departures(&mut bucket).iter().map(|gone| gone.0 - 1_000_000_000).collect();
    assert_eq!(times, [0, 0, 2 * FRAME, 4 * FRAME]);
}

#[test]
fn sojourn_is_the_time_in_the_queue_without_the_wire() {
    let mut link = bottleneck(Shaper::Link, 1514);
    (0..3).for_each(|seq| link.arrive(packet(seq), Instant::ZERO));
    departures(&mut link);
    // 0, 1 and 2 frames
    assert_eq!((link.log.counters.queue.sojourn_ns, link.log.counters.queue.sent), (3 * FRAME, 3));
    assert_eq!(link.log.counters.flows.sojourn[0].max(), Duration(2 * FRAME));
}

/// Packets `first` to `last` as a burst that counts as one packet.
fn burst(first: u64, last: u64) -> impl Iterator<Item = Packet> {
    (first..=last).map(move |seq| {
        let mut part = packet(seq);
        part.add_flags(if seq < last { flag::MORE } else { flag::LAST });
        part
    })
}

#[test]
fn a_burst_that_counts_as_one_packet_leaves_a_token_bucket_at_once_and_is_paid_for_after() {
    let mut bucket = bottleneck(Shaper::Htb, 1514);
    burst(0, 3).chain(burst(4, 5)).for_each(|part| bucket.arrive(part, Instant(1_000)));
    // one frame was saved: four in debt by three, and the next burst leaves when that is paid
    let later = 1_000 + 3 * FRAME;
    assert_eq!(departures(&mut bucket), [(1_000, 0), (1_000, 1), (1_000, 2), (1_000, 3), (later, 4), (later, 5)]);
}

#[test]
fn a_burst_that_counts_as_one_packet_is_queued_or_dropped_as_a_whole() {
    let rate = Rate::from_mbit(10);
    let fifo = bfifo::State::new(bfifo::Params { limit: 4 * 1514 }, &QueueContext::new(rate, 1));
    let mut link = Bottleneck::new(fifo, 1, &BottleneckParams { rate, ..BottleneckParams::default() }, ());
    link.flow_starts(0, &FlowKey::default(), 0);
    // the first is on the wire, three wait; two more would be one too many, one alone fits
    link.arrive(packet(0), Instant::ZERO);
    burst(1, 3).chain(burst(4, 5)).chain(burst(6, 6)).for_each(|part| link.arrive(part, Instant::ZERO));
    assert_eq!((link.count_packets(), link.log.counters.queue.drops_overflow), (5, 2));
}

#[test]
fn a_burst_ends_where_the_rest_is_missing_or_comes_later() {
    let mut bucket = bottleneck(Shaper::Htb, 1514);
    // 2 is missing
    burst(0, 3).filter(|part| part.number() != 2).for_each(|part| bucket.arrive(part, Instant::ZERO));
    let mut goes_on = Vec::new();
    while let Some(part) = bucket.advance(Instant::ZERO) {
        goes_on.push(bucket.burst_goes_on(&part, Instant::ZERO));
    }
    assert_eq!(goes_on, [true, false, false]);
    // a link sends one after the other
    let mut link = bottleneck(Shaper::Link, 1514);
    burst(0, 2).for_each(|part| link.arrive(part, Instant::ZERO));
    while link.next != Instant::NEVER {
        let now = link.next;
        let part = link.advance(now).expect("a packet leaves");
        assert!(!link.burst_goes_on(&part, now));
    }
}

#[test]
fn a_packet_whose_rest_was_dropped_on_the_way_ends_its_burst() {
    // the hop before has dropped 2, the last: 1 came without a word of more, and 0 waits for it
    let mut link = bottleneck(Shaper::Link, 1514);
    let first = burst(0, 2).take(1);
    first.chain([packet(1)]).for_each(|part| link.arrive(part, Instant::ZERO));
    assert_eq!((link.count_packets(), link.log.counters.flows.flow_counters(0).arrived), (2, 2));
    assert_eq!(departures(&mut link), [(FRAME, 0), (2 * FRAME, 1)]);
}

#[test]
fn what_a_frame_takes_on_the_link_takes_time() {
    // 1500 + 38 = 1538 B at 10 Mbit/s; 33 cells of 53 B
    for (link_layer, each) in [(Preset::Ethernet, 1_230_400), (Preset::PppoeLlcsnap, 1_399_200)] {
        for shaper in [Shaper::Link, Shaper::Htb] {
            let (rate, burst) = (Rate::from_mbit(10), 1514);
            let fifo = pfifo::State::new(pfifo::Params::default(), &QueueContext::new(rate, 1));
            let params = BottleneckParams { rate, shaper, burst, link_layer, ..BottleneckParams::default() };
            let mut link = Bottleneck::new(fifo, 1, &params, ());
            link.flow_starts(0, &FlowKey::default(), 0);
            (0..12).for_each(|seq| link.arrive(packet(seq), Instant::ZERO));
            let left = departures(&mut link);
            let gaps: Vec<u64> = left[4..].windows(2).map(|two| two[1].0 - two[0].0).collect();
            assert_eq!(gaps, [each; 7], "{link_layer:?} {shaper:?}");
            // a key of its own replaces that of the kind
            let bare = BottleneckParams { overhead: Some(14), framing: Some(Framing::None), ..params };
            assert_eq!(bare.layer().wire_bytes(MTU_FRAME), 1514);
        }
    }
}
