//! The receiving end: when it acknowledges, what it reports, what window it offers.

use super::*;
use crate::packet::{Ecn, Timestamps, HEADERS, MTU_FRAME, SYN_FRAME};
use crate::tcp::receiver::Echo;

/// A receiver that is played to.
struct Peer {
    receiver: Receiver,
    now: Instant,
    next: u64,
    /// How long ago the ACK left that each packet answers, ms. A minute by default: no round trip ends, and the buffer is not tuned.
    answers_after: u64,
}

/// A receiver on a host with Linux's defaults.
fn receiver(options: FlowOptions) -> Receiver {
    Receiver::new(7, Arc::new(HostParams::default()), options)
}

fn packet(seq: u64, ecn: Ecn, flags: u16) -> Packet {
    let timestamps = Timestamps::new(seq as u32 + 1000, None);
    Packet { flow: 7, len: MTU_FRAME, ..Packet::new_tcp(seq, ecn, flags).with_timestamps(timestamps) }
}

impl Peer {
    /// The handshake is over at 100 ms, with a round trip of `rtt_ms` as the receiver sees it.
    fn new(options: FlowOptions, rtt_ms: u64) -> Peer {
        Peer::with_host(HostParams::default(), options, rtt_ms)
    }

    fn with_host(host: HostParams, options: FlowOptions, rtt_ms: u64) -> Peer {
        let mut peer = Peer {
            receiver: Receiver::new(7, Arc::new(host), options),
            now: Instant::from_millis(100 - rtt_ms),
            next: 0,
            answers_after: 60_000,
        };
        peer.send_bare(flag::SYN).expect("a SYN-ACK");
        peer.now = Instant::from_millis(100);
        assert!(peer.send_bare(flag::PURE_ACK).is_none());
        peer
    }

    /// With the immediate ACKs of the beginning behind it; segments 0 to 22 have arrived. The window has grown as far as the buffer allows with
    /// one segment in it: the first one out of order, which does not count yet, lets it grow once more, and is acknowledged for that.
    fn warm(options: FlowOptions) -> Peer {
        Peer::warm_on(HostParams::default(), options)
    }

    fn warm_on(host: HostParams, options: FlowOptions) -> Peer {
        let mut peer = Peer::with_host(host, options, RTT);
        for _ in 0..23 {
            assert!(peer.data().is_some());
        }
        peer
    }

    /// Returns a peer after a round trip of `rtt_us` as the receiver sees it.
    fn after_round_trip(rtt_us: u64) -> Peer {
        Peer::after_on(HostParams::default(), rtt_us)
    }

    fn after_on(host: HostParams, rtt_us: u64) -> Peer {
        let receiver = Receiver::new(7, Arc::new(host), FlowOptions::default());
        let mut peer = Peer { receiver, now: Instant::ZERO, next: 0, answers_after: 60_000 };
        assert!(peer.send_bare(flag::SYN).is_some());
        peer.now = Instant::from_micros(rtt_us);
        assert!(peer.send_bare(flag::PURE_ACK).is_none());
        assert_eq!((0..23).filter_map(|_| peer.data()).count(), 23);
        peer
    }

    fn send_bare(&mut self, flags: u16) -> Option<Ack> {
        let len = if flags == flag::SYN { SYN_FRAME } else { HEADERS };
        self.receiver
            .on_packet(&Packet { len, ..packet(0, Ecn::NotEct, flags) }.with_timestamps(Timestamps::new(5, None)), self.now)
    }

    /// The next segment in order arrives.
    fn data(&mut self) -> Option<Ack> {
        self.next += 1;
        self.arrive(self.next - 1)
    }

    fn arrive(&mut self, seq: u64) -> Option<Ack> {
        self.packet(seq, Ecn::Ect0, 0)
    }

    fn packet(&mut self, seq: u64, ecn: Ecn, flags: u16) -> Option<Ack> {
        let data = packet(seq, ecn, flags);
        let tsval = data.tcp().tsval();
        let age = (u64::from(tsval) + self.answers_after).saturating_sub(self.now.as_millis()) as u16;
        let timestamps = Timestamps::new(tsval, Some(tsval.wrapping_sub(u32::from(age))));
        self.receiver.on_packet(&data.with_timestamps(timestamps), self.now)
    }

    /// Returns the ACK and SACK blocks that `seq` must cause at once.
    fn report(&mut self, seq: u64) -> (u64, Vec<Block>) {
        let ack = self.arrive(seq).expect("an immediate ACK");
        assert_eq!(self.receiver.has_blocks(), !self.receiver.clone().blocks().as_slice().is_empty());
        (ack.ack, self.receiver.blocks().as_slice().to_vec())
    }

    fn advance(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }
}

fn has(ack: Option<Ack>, bit: u16) -> bool {
    ack.expect("an immediate ACK").has(bit)
}

#[test]
fn a_syn_ack_agrees_to_ecn_and_offers_the_first_window() {
    for ecn in [true, false] {
        let mut receiver = receiver(FlowOptions { ecn, ..FlowOptions::default() });
        let syn = Packet { len: SYN_FRAME, ..packet(0, Ecn::NotEct, flag::SYN) }.with_timestamps(Timestamps::new(3, None));
        let ack = receiver.on_packet(&syn, Instant::ZERO).expect("a SYN-ACK");
        assert!(ack.has(ack_flag::SYN_ACK));
        // 16 bits without scale, in whole segments: 45 of 1448 B
        assert_eq!((ack.has(ack_flag::ECN_SETUP), ack.window, ack.tsecr, ack.flow), (ecn, 65_160, 3, 7));
        // the SYN was lost on its way back: the same again
        assert_eq!(receiver.on_packet(&syn, Instant::from_secs(1)).map(|again| again.window), Some(65_160));
    }
}

#[test]
fn a_syn_ack_has_the_accecn_option_if_it_agrees_to_counts() {
    let refuses = FlowOptions { ecn: false, echo: Echo::Accurate };
    for (options, accecn_option, length) in [
        (FlowOptions { echo: Echo::Accurate, ..FlowOptions::default() }, true, 86),
        (FlowOptions { echo: Echo::Accurate, ..FlowOptions::default() }, false, 74),
        (FlowOptions::default(), true, 74),
        (refuses, true, 74),
    ] {
        let host = HostParams { accecn_option, ..HostParams::default() };
        let mut receiver = Receiver::new(7, Arc::new(host), options);
        let syn = Packet { len: SYN_FRAME, ..packet(0, Ecn::NotEct, flag::SYN) }.with_timestamps(Timestamps::new(3, None));
        let ack = receiver.on_packet(&syn, Instant::ZERO).expect("a SYN-ACK");
        assert_eq!((ack.frame(0), ack.has(ack_flag::ACCECN_OPTION), ack.ce_bytes), (length, length > 74, 0));
    }
}

#[test]
fn acknowledgements_are_numbered_as_they_leave() {
    let mut peer = Peer::new(FlowOptions::default(), RTT);
    let ids: Vec<u16> = (0..23).filter_map(|_| peer.data()).map(|ack| ack.id).collect();
    assert_eq!(ids, (1..=23).collect::<Vec<u16>>());
}

#[test]
fn a_connection_begins_with_23_immediate_acks_while_its_window_grows() {
    let mut peer = Peer::new(FlowOptions::default(), RTT);
    let mut windows = Vec::new();
    for n in 1..=23 {
        let ack = peer.data().expect("one of the first 23");
        assert_eq!((ack.ack, ack.flags), (n, 0));
        windows.push(ack.window);
    }
    // 16 quick ACKs, and one more for each step of 2 * 1448 from 65536 - 1448 = 64088 to the window of 131072 B of buffer less
    // the segment that has just come: (131072 - 2280) * 162 / 256 = 81501, where 162 is 1448 * 256 / 2280. (81501 - 64088) / 2896
    // = 6.01: 7 steps. Linux 6.12, seen at the sender: 66 69 72 74 77 80 80 KB, in whole ones, since 32 MB of buffer count by them
    let exact: Vec<u32> = (1..=23).map(|n| (64_088 + 2_896 * n).min(81_501)).collect();
    assert_eq!(windows, exact.iter().map(|window| window.next_multiple_of(128)).collect::<Vec<_>>());
    let mut large =
        Peer::with_host(HostParams { receive_buffer: 33_554_432, ..HostParams::default() }, FlowOptions::default(), RTT);
    let kilobytes: Vec<u32> = (0..7).map(|_| large.data().expect("one of the first 23").window / 1024).collect();
    assert_eq!(kilobytes, [66, 69, 72, 74, 77, 80, 80]);
    // every second from here on
    assert!(peer.data().is_none() && peer.data().is_some() && peer.data().is_none());
    assert_eq!(peer.data().map(|ack| (ack.ack, ack.tsecr)), Some((27, 1000 + 26 - 1)));
}

#[test]
fn without_delayed_acks_every_segment_is_acknowledged() {
    let mut peer = Peer::warm_on(HostParams { delayed_ack: false, ..HostParams::default() }, FlowOptions::default());
    assert!((0..10).all(|_| peer.data().is_some()));
}

#[test]
fn a_lone_segment_is_acknowledged_after_40_ms() {
    let mut peer = Peer::warm(FlowOptions::default());
    peer.now += Duration::from_micros(700);
    assert!(peer.data().is_none());
    let due = timer_wheel(peer.now, Duration::from_micros(40_000));
    assert_eq!(peer.receiver.next_timer(), due);
    assert!(peer.receiver.on_timer(due - Duration(1)).is_none());
    let ack = peer.receiver.on_timer(due).expect("the delayed ACK");
    // the timestamp is that of the segment that is acknowledged
    assert_eq!((ack.ack, ack.tsecr, peer.receiver.next_timer()), (24, 1023, Instant::NEVER));
    assert!(peer.receiver.on_timer(due).is_none());
    // the timer ran out: the estimate doubles, up to the round trip of 40 ms, which is the least as well
    peer.now = due + Duration::from_millis(5);
    assert!(peer.data().is_none());
    assert_eq!(peer.receiver.next_timer(), timer_wheel(peer.now, Duration::from_micros(40_000)));
}

#[test]
fn the_delay_adapts_to_the_gap_between_segments_within_the_round_trip() {
    // a round trip of 90 ms
    let mut peer = Peer::new(FlowOptions::default(), 90);
    for _ in 0..23 {
        peer.data();
    }
    peer.advance(30);
    // 40 / 2 + 30 = 50 ms
    assert!(peer.data().is_none());
    assert_eq!(peer.receiver.next_timer(), timer_wheel(peer.now, Duration::from_micros(50_000)));
    // it ran out: 100 ms, of which the round trip allows 90; the gap of 200 ms is too long to count
    peer.now = peer.receiver.next_timer();
    assert!(peer.receiver.on_timer(peer.now).is_some());
    peer.advance(150);
    assert!(peer.data().is_none());
    assert_eq!(peer.receiver.next_timer(), timer_wheel(peer.now, Duration::from_micros(90_000)));
}

#[test]
fn what_is_out_of_order_does_not_feed_the_delay() {
    let mut peer = Peer::after_round_trip(90_000);
    peer.advance(30);
    peer.arrive(24);
    peer.advance(30);
    peer.arrive(23);
    peer.advance(25);
    // a gap of 60 ms is longer than 40 and changes nothing; that of 25: 40 / 2 + 25 = 45 ms
    assert!(peer.arrive(25).is_none());
    assert_eq!(peer.receiver.next_timer(), timer_wheel(peer.now, Duration::from_millis(45)));
}

#[test]
fn the_round_trip_that_bounds_the_delay_counts_in_whole_milliseconds_rounded_up() {
    let mut peer = Peer::after_round_trip(90_300);
    peer.advance(30);
    assert!(peer.data().is_none());
    // the timer of 50 ms ran out: 100 ms, of which the round trip allows 91
    peer.now = peer.receiver.next_timer();
    assert!(peer.receiver.on_timer(peer.now).is_some());
    peer.advance(150);
    assert!(peer.data().is_none());
    let jiffy = Instant::from_millis(peer.now.as_millis());
    assert_eq!(peer.receiver.next_timer(), timer_wheel(jiffy, Duration::from_millis(91)));
}

#[test]
fn the_delay_ends_before_the_peers_shortest_timeout_since_linux_6_12() {
    for (ack_delay_bound, rto_min, delay) in [(true, 200, 199), (true, 150, 149), (false, 200, 200)] {
        let rto_min = Duration::from_millis(rto_min);
        let mut peer = Peer::after_on(HostParams { ack_delay_bound, rto_min, ..HostParams::default() }, 300_000);
        // 40 / 2 + 30 = 50, 70, 100, 145, 212; every second segment is acknowledged at once
        for gap in [30, 45, 65, 95, 140] {
            peer.advance(gap);
            peer.data();
        }
        assert_eq!(peer.receiver.next_timer(), timer_wheel(peer.now, Duration::from_millis(delay)));
        // 200 / 2 + 110 is bounded by 200 again, and 200 / 2 + 50; without a bound 212 / 2 + 110 = 216, and 216 / 2 + 50
        peer.advance(110);
        peer.data();
        peer.advance(50);
        peer.data();
        let next = if ack_delay_bound { 150 } else { 158 };
        assert_eq!(peer.receiver.next_timer(), timer_wheel(peer.now, Duration::from_millis(next.min(delay))));
    }
}

#[test]
fn silence_longer_than_an_rto_brings_immediate_acks_again() {
    // 40 + 200 = 240 ms; 150.3 + 2 * 150.3 = 450.9 ms, 451 in whole ones
    for (rtt_us, silence, acknowledged) in [(40_000, 240, 0), (40_000, 241, 16), (150_300, 451, 0), (150_300, 452, 16)] {
        let mut peer = Peer::after_round_trip(rtt_us);
        peer.advance(silence);
        let count = (0..30).take_while(|_| peer.data().is_some()).count();
        assert_eq!(count, acknowledged, "after {silence} ms");
    }
}

#[test]
fn ce_is_echoed_until_cwr_and_begins_with_two_immediate_acks() {
    let mut peer = Peer::warm(FlowOptions::default());
    assert!(peer.data().is_none() && !has(peer.data(), ack_flag::ECE));
    // CE: at once, with ECE, and so is the next; then every second
    assert!(has(peer.packet(25, Ecn::Ce, 0), ack_flag::ECE));
    assert!(has(peer.packet(26, Ecn::Ect0, 0), ack_flag::ECE));
    assert!(peer.packet(27, Ecn::Ect0, 0).is_none());
    // a second CE while the first is echoed brings no more
    assert!(has(peer.packet(28, Ecn::Ce, 0), ack_flag::ECE));
    assert!(peer.packet(29, Ecn::Ect0, 0).is_none());
    assert!(has(peer.packet(30, Ecn::Ect0, 0), ack_flag::ECE));
    // CWR: at once, without
    assert!(!has(peer.packet(31, Ecn::Ect0, flag::CWR), ack_flag::ECE));
    assert!(peer.packet(32, Ecn::Ect0, 0).is_none());
    assert!(!has(peer.packet(33, Ecn::Ect0, 0), ack_flag::ECE));
    // a packet with both: the new mark counts
    assert!(has(peer.packet(34, Ecn::Ce, flag::CWR), ack_flag::ECE));
    assert_eq!(peer.receiver.stats.ce, 3);
}

/// ACE field and CE bytes of an ACK with nothing else but the option.
fn counts(ack: Option<Ack>) -> Option<(u8, u32)> {
    ack.map(|ack| {
        assert_eq!(ack.flags & !ack_flag::ace(7), ack_flag::ACCECN_OPTION);
        (ack.ace(), ack.ce_bytes)
    })
}

#[test]
fn accecn_counts_ce_on_every_ack_and_latches_nothing() {
    let mut peer = Peer::warm(FlowOptions { echo: Echo::Accurate, ..FlowOptions::default() });
    assert!(peer.data().is_none());
    assert_eq!(counts(peer.data()), Some((5, 0)));
    // where CE begins and ends at once; in between with every second packet; CWR means nothing. A frame of 1514 B carries 1436
    assert_eq!(counts(peer.packet(25, Ecn::Ce, 0)), Some((6, 1436)));
    assert!(peer.packet(26, Ecn::Ce, flag::CWR).is_none());
    assert_eq!(counts(peer.packet(27, Ecn::Ce, 0)), Some((0, 3 * 1436)));
    assert_eq!(counts(peer.packet(28, Ecn::Ect0, 0)), Some((0, 3 * 1436)));
    assert!(peer.packet(29, Ecn::Ect0, 0).is_none());
    assert_eq!(counts(peer.packet(30, Ecn::Ect0, 0)), Some((0, 3 * 1436)));
    // a duplicate counts as well
    assert_eq!(peer.packet(30, Ecn::Ce, 0).map(|ack| (ack.ace(), ack.ce_bytes)), Some((1, 4 * 1436)));
}

#[test]
fn many_ce_packets_end_the_compression_of_acks() {
    let mut peer = Peer::warm(FlowOptions { echo: Echo::Accurate, ..FlowOptions::default() });
    // 23 is lost; the change to CE and three duplicate ACKs are sent at once, the next five are held back, and the sixth is not
    let sent: Vec<bool> = (24..38).map(|seq| peer.packet(seq, Ecn::Ce, 0).is_some()).collect();
    let expected = [true, true, true, true, false, false, false, false, false, true, false, false, false, false];
    assert_eq!(sent, expected);
}

#[test]
fn the_option_leaves_when_sack_blocks_need_its_room() {
    let mut peer = Peer::warm(FlowOptions { echo: Echo::Accurate, ..FlowOptions::default() });
    for (seq, option) in [(24, true), (26, true), (28, false)] {
        let ack = peer.packet(seq, Ecn::Ect0, 0).expect("a duplicate ACK");
        assert_eq!(ack.has(ack_flag::ACCECN_OPTION), option, "{seq}");
    }
    let without = HostParams { accecn_option: false, ..HostParams::default() };
    let mut silent = Peer::warm_on(without, FlowOptions { echo: Echo::Accurate, ..FlowOptions::default() });
    assert_eq!(silent.packet(23, Ecn::Ce, 0).map(|ack| (ack.ace(), ack.flags)), Some((6, ack_flag::ace(6))));
}

#[test]
fn without_ecn_marks_are_counted_but_not_echoed() {
    let mut peer = Peer::warm(FlowOptions { ecn: false, ..FlowOptions::default() });
    assert!(peer.packet(23, Ecn::Ce, 0).is_none());
    assert!(!has(peer.packet(24, Ecn::Ce, 0), ack_flag::ECE));
    assert_eq!((peer.receiver.stats.ce, peer.receiver.stats.ect1), (2, 0));
}

#[test]
fn an_sce_mark_beside_accecn_acknowledges_all_that_came_before() {
    let host = HostParams { sce_feedback: true, ..HostParams::default() };
    let mut peer = Peer::warm_on(host, FlowOptions { ecn: true, echo: Echo::Accurate });
    assert!(peer.data().is_none(), "held back");
    peer.packet(24, Ecn::Ect1, 0);
    assert_eq!(peer.receiver.take_early().expect("an ACK of what came before").0.ack, 24);
}

#[test]
fn a_mark_on_what_carries_no_data_is_counted_but_not_echoed() {
    for echo in [Echo::PerPacket, Echo::UntilCwr, Echo::Accurate] {
        let mut receiver = receiver(FlowOptions { ecn: true, echo });
        for flags in [flag::SYN, flag::PURE_ACK] {
            receiver.on_packet(&packet(0, Ecn::Ce, flags), Instant::ZERO);
        }
        assert_eq!((receiver.stats.arrived, receiver.stats.ce), (2, 2));
        let ack = receiver.on_packet(&packet(0, Ecn::Ect0, 0), Instant::ZERO).expect("an ACK");
        // but for AccECN, which counts the handshake's last packet (not the SYN: RFC 9768 section 3.2.2.1)
        assert_eq!((ack.has(ack_flag::ECE), ack.ace()), (false, if echo == Echo::Accurate { 6 } else { 0 }));
    }
}

#[test]
fn what_is_not_ecn_capable_after_what_is_brings_two_immediate_acks() {
    let mut peer = Peer::warm(FlowOptions::default());
    assert!(peer.packet(23, Ecn::NotEct, 0).is_some() && peer.packet(24, Ecn::Ect0, 0).is_some());
    assert!(peer.packet(25, Ecn::Ect0, 0).is_none());
    // a connection whose packets never were: nothing special
    let mut plain = Peer::new(FlowOptions::default(), RTT);
    for seq in 0..23 {
        plain.packet(seq, Ecn::NotEct, 0);
    }
    assert!(plain.packet(23, Ecn::NotEct, 0).is_none());
}

#[test]
fn blocks_are_reported_most_recent_first_three_at_the_most() {
    let mut peer = Peer::new(FlowOptions::default(), RTT);
    assert_eq!(peer.report(1), (0, vec![(1, 2)]));
    assert_eq!(peer.report(3), (0, vec![(3, 4), (1, 2)]));
    assert_eq!(peer.report(5), (0, vec![(5, 6), (3, 4), (1, 2)]));
    assert_eq!(peer.report(7), (0, vec![(7, 8), (5, 6), (3, 4)]));
    // 2 joins 1 and 3
    assert_eq!(peer.report(2), (0, vec![(1, 4), (7, 8), (5, 6)]));
    assert_eq!(peer.report(8), (0, vec![(7, 9), (1, 4), (5, 6)]));
    assert_eq!(peer.report(4), (0, vec![(1, 6), (7, 9)]));
    // the first hole is filled, then the last
    assert_eq!(peer.report(0), (6, vec![(7, 9)]));
    assert_eq!(peer.report(6), (9, vec![]));
    assert_eq!((peer.receiver.stats.data, peer.receiver.stats.duplicates), (9, 0));
}

#[test]
fn the_block_that_does_not_fit_comes_back_when_another_closes() {
    let mut peer = Peer::new(FlowOptions::default(), RTT);
    for seq in [1, 3, 5, 7, 9] {
        peer.report(seq);
    }
    // only four are remembered in the order of reporting; all five are kept
    assert_eq!(peer.report(0), (2, vec![(9, 10), (7, 8), (5, 6)]));
    assert_eq!(peer.report(2).0, 4);
    assert_eq!(peer.report(4).0, 6);
    assert_eq!(peer.report(6).0, 8);
    assert_eq!(peer.report(8), (10, vec![]));
}

#[test]
fn duplicates_are_reported_first_and_at_once() {
    let mut peer = Peer::warm(FlowOptions::default());
    // below what is acknowledged
    let ack = peer.arrive(4).expect("at once");
    assert!(ack.has(ack_flag::DSACK));
    assert_eq!(peer.receiver.blocks().as_slice(), [(4, 5)]);
    // above, inside a block: reported before the block itself, which moves to the front
    peer.report(30);
    peer.report(32);
    let again = peer.arrive(30).expect("at once");
    assert!(again.has(ack_flag::DSACK));
    assert_eq!(peer.receiver.blocks().as_slice(), [(30, 31), (30, 31), (32, 33)]);
    // once
    let next = peer.arrive(31).expect("out of order");
    assert!(!next.has(ack_flag::DSACK));
    assert_eq!(peer.receiver.stats.duplicates, 2);
    assert_eq!(peer.receiver.rcv_nxt, 23);
}

#[test]
fn a_duplicate_of_what_lies_out_of_order_is_held_back_like_any_other() {
    let mut peer = Peer::warm(FlowOptions::default());
    for seq in [24, 30, 25, 26] {
        assert!(peer.arrive(seq).is_some(), "{seq}");
    }
    assert!(peer.arrive(30).is_none());
    peer.now = peer.receiver.next_timer();
    assert!(has(peer.receiver.on_timer(peer.now), ack_flag::DSACK));
    assert_eq!(peer.receiver.blocks().as_slice(), [(30, 31), (30, 31), (24, 27)]);
    // no immediate ACKs follow: what is in order waits for a second segment
    assert!(peer.arrive(23).is_some());
    for seq in 27..30 {
        peer.arrive(seq);
    }
    assert!(peer.arrive(31).is_none());
}

#[test]
fn a_filled_hole_is_acknowledged_at_once() {
    let mut peer = Peer::warm(FlowOptions::default());
    // one segment is out of order: with the one that fills the hole two are new; a lone one is not delayed either
    peer.arrive(24);
    assert_eq!(peer.report(23), (25, vec![]));
    // quick ACKs play no part
    let mut single = Peer::warm(FlowOptions::default());
    assert!(single.data().is_none());
    single.arrive(25);
    assert_eq!(single.report(24), (26, vec![]));
}

#[test]
fn acks_of_what_is_out_of_order_are_held_back_after_three() {
    for (rtt, delay_us) in [(RTT, 1000 + 100), (10, 500 + 100)] {
        let mut peer = Peer::new(FlowOptions::default(), rtt);
        for _ in 0..23 {
            peer.data();
        }
        // 23 is missing. With 24 the window grows; three more at once, then for 1 ms or a twentieth of the round trip, and 100 us of slack
        for seq in 24..28 {
            assert!(peer.arrive(seq).is_some(), "{seq}");
        }
        assert!(peer.arrive(28).is_none());
        assert_eq!(peer.receiver.next_timer(), peer.now + Duration::from_micros(delay_us));
        peer.now += Duration::from_micros(100);
        assert!(peer.arrive(29).is_none());
        peer.now = peer.receiver.next_timer();
        let ack = peer.receiver.on_timer(peer.now).expect("what was held back");
        assert_eq!(ack.ack, 23);
        assert_eq!(peer.receiver.blocks().as_slice(), [(24, 30)]);
        assert_eq!(peer.receiver.next_timer(), Instant::NEVER);
        // the hole is filled before the time is over
        assert!(peer.arrive(30).is_none());
        assert_eq!(peer.report(23), (31, vec![]));
        assert_eq!(peer.receiver.next_timer(), Instant::NEVER);
    }
}

/// A receiver that has answered `syns` SYNs, 5 ms apart from 100 ms on, and to which `then` comes 60 ms after the last.
fn handshake(syns: u64, then: &Packet) -> Peer {
    let mut peer =
        Peer { receiver: receiver(FlowOptions::default()), now: Instant::from_millis(100), next: 0, answers_after: 60_000 };
    for _ in 0..syns {
        peer.send_bare(flag::SYN).expect("a SYN-ACK");
        peer.advance(5);
    }
    peer.advance(55);
    peer.receiver.on_packet(then, peer.now);
    peer
}

#[test]
fn data_completes_a_handshake_whose_ack_was_lost() {
    let mut peer = handshake(1, &packet(0, Ecn::Ect0, 0));
    peer.next = 1;
    for _ in 0..22 {
        peer.data();
    }
    // 23 is missing: four ACKs at once, the next is held back for a twentieth of 60 ms, but for 1 ms at the most, and its slack
    for seq in [24, 25, 26, 27] {
        assert!(peer.arrive(seq).is_some(), "{seq}");
    }
    assert!(peer.arrive(28).is_none());
    assert_eq!(peer.receiver.next_timer(), peer.now + Duration::from_micros(1_100));
}

#[test]
fn a_repeated_syn_ack_leaves_the_round_trip_to_timestamps() {
    // answered at 100 and 105 ms; at 165 ms comes what answers the first, or the second
    for age in [65, 60] {
        let timestamps = Timestamps::new(165, Some(165 - age));
        let ack = Packet { len: HEADERS, ..packet(0, Ecn::NotEct, flag::PURE_ACK) }.with_timestamps(timestamps);
        assert_eq!(handshake(2, &ack).receiver.srtt_us, age * 1000);
    }
}

#[test]
fn at_most_44_acks_are_held_back() {
    let mut peer = Peer::warm(FlowOptions::default());
    for seq in 24..28 {
        peer.arrive(seq);
    }
    let held = (28..).take_while(|&seq| peer.arrive(seq).is_none()).count();
    assert_eq!(held, 44);
    // none without compression
    let mut plain = Peer::warm_on(HostParams { sack_compression: false, ..HostParams::default() }, FlowOptions::default());
    assert!((24..100).all(|seq| plain.arrive(seq).is_some()));
}

/// The ACK that goes ahead: what it acknowledges, and its blocks.
fn early(peer: &mut Peer) -> Option<(u64, Vec<Block>)> {
    peer.receiver.take_early().map(|(ack, blocks)| (ack.ack, blocks.as_slice().to_vec()))
}

#[test]
fn an_ack_that_is_held_back_goes_ahead_of_a_third_block() {
    let mut peer = Peer::warm(FlowOptions::default());
    // 23 is missing; four ACKs at once, 28 is held back, and so is a second block
    for seq in 24..28 {
        assert!(peer.arrive(seq).is_some(), "{seq}");
    }
    assert!(peer.arrive(28).is_none() && peer.arrive(31).is_none());
    assert_eq!(early(&mut peer), None);
    // a third one would push the first two back: they are reported before it, and it is held back
    assert!(peer.arrive(34).is_none());
    assert_eq!(early(&mut peer), Some((23, vec![(31, 32), (24, 29)])));
    // the first two of three touch no block that waits in third place; the third does
    assert!(peer.arrive(35).is_none() && peer.arrive(32).is_none());
    assert_eq!(early(&mut peer), None);
    assert!(peer.arrive(29).is_none());
    assert_eq!(early(&mut peer), Some((23, vec![(31, 33), (34, 36), (24, 29)])));
    peer.now = peer.receiver.next_timer();
    assert!(peer.receiver.on_timer(peer.now).is_some());
    assert_eq!(peer.receiver.blocks().as_slice(), [(24, 30), (31, 33), (34, 36)]);
    // nothing is held back: nothing goes ahead
    assert!(peer.arrive(23).is_some());
    assert_eq!(early(&mut peer), None);
}

#[test]
fn before_linux_5_8_a_fifth_block_sends_the_ack_that_is_held_back() {
    let mut peer = Peer::warm_on(HostParams { sack_blocks_held: 4, ..HostParams::default() }, FlowOptions::default());
    for seq in 24..28 {
        assert!(peer.arrive(seq).is_some(), "{seq}");
    }
    for seq in [30, 33, 36, 24] {
        assert!(peer.arrive(seq).is_none(), "{seq}");
        assert_eq!(early(&mut peer), None);
    }
    assert!(peer.arrive(40).is_none());
    assert_eq!(early(&mut peer), Some((23, vec![(24, 25), (24, 28), (36, 37)])));
}

#[test]
fn a_block_that_was_forgotten_begins_again_with_what_arrives() {
    let mut peer = Peer::warm(FlowOptions::default());
    for seq in [24, 27, 30, 33, 36] {
        peer.arrive(seq);
        peer.receiver.take_early();
    }
    // 25 lies next to 24, which is no longer among the four
    peer.arrive(25);
    peer.now = peer.receiver.next_timer();
    assert!(peer.receiver.on_timer(peer.now).is_some());
    assert_eq!(peer.receiver.blocks().as_slice(), [(25, 26), (36, 37), (33, 34)]);
}

#[test]
fn a_push_is_acknowledged_at_once() {
    let mut peer = Peer::warm(FlowOptions::default());
    assert!(peer.packet(23, Ecn::Ect0, flag::PSH).is_some());
    assert!(peer.packet(24, Ecn::Ect0, 0).is_none());
    // before Linux 6.6 only short segments
    let mut older = Peer::warm_on(HostParams { ack_push: false, ..HostParams::default() }, FlowOptions::default());
    assert!(older.packet(23, Ecn::Ect0, flag::PSH).is_none());
    let short = |seq| Packet { len: HEADERS + 100, ..packet(seq, Ecn::Ect0, flag::PSH) };
    assert!(older.receiver.on_packet(&short(24), older.now).is_some());
    let mut lone = Peer::warm_on(HostParams { ack_push: false, ..HostParams::default() }, FlowOptions::default());
    assert!(lone.receiver.on_packet(&short(23), lone.now).is_some());
}

#[test]
fn a_push_out_of_order_is_not_acknowledged_at_once() {
    // the application reads nothing of it: after four ACKs it is held back, with PSH as without
    for flags in [0, flag::PSH] {
        let mut peer = Peer::warm(FlowOptions::default());
        for seq in 24..28 {
            assert!(peer.packet(seq, Ecn::Ect0, flags).is_some(), "{seq}");
        }
        for seq in 28..40 {
            assert!(peer.packet(seq, Ecn::Ect0, flags).is_none(), "{seq} with flags {flags}");
        }
        assert_eq!(peer.receiver.next_timer(), peer.now + Duration::from_micros(1_100));
        // in order behind the hole it is, although 23 is not the second segment of two
        assert!(peer.arrive(23).is_some());
        assert!(peer.packet(40, Ecn::Ect0, flags).is_some() == (flags == flag::PSH));
    }
}

#[test]
fn acks_of_what_is_out_of_order_leave_every_1100_us() {
    // a segment every 100 us, each third one the end of a burst
    let mut peer = Peer::warm(FlowOptions::default());
    let mut acks = Vec::new();
    for seq in 24..124 {
        peer.now += Duration::from_micros(100);
        if peer.receiver.next_timer() <= peer.now {
            acks.push(peer.receiver.next_timer());
            assert!(peer.receiver.on_timer(peer.now).is_some());
        }
        let flags = if seq % 3 == 0 { flag::PSH } else { 0 };
        if peer.packet(seq, Ecn::Ect0, flags).is_some() {
            acks.push(peer.now);
        }
    }
    let gaps: Vec<u64> = acks.windows(2).map(|two| (two[1] - two[0]).as_micros()).collect();
    // four at once; the timer starts with the fifth segment, and then with the one that comes as it ends
    assert_eq!(gaps, [100, 100, 100, 1_200, 1_100, 1_100, 1_100, 1_100, 1_100, 1_100, 1_100]);
}

/// A receiver over 50 ms to which 10 segments come in the first round trip, 20 in the second; the windows offered on the
/// way, after each round of 40 in the third.
fn tune_buffer(buffer: u64) -> Vec<u32> {
    let host = HostParams { receive_buffer: buffer, ..HostParams::default() };
    let mut peer = Peer { answers_after: 50, ..Peer::with_host(host, FlowOptions::default(), 50) };
    let mut windows = Vec::new();
    for count in [10, 20, 40, 80] {
        let mut window = 0;
        for _ in 0..count {
            window = peer.data().map_or(window, |ack| ack.window);
        }
        windows.push(window);
        peer.advance(50);
    }
    windows
}

#[test]
fn the_window_follows_what_arrives_in_a_round_trip_up_to_the_buffer() {
    let windows = tune_buffer(6_291_456);
    // what the first buffer allows: 64088 + 10 * 2896 is more than 81501, in units of 128
    assert_eq!(windows[..2], [81_536, 81_536]);
    assert!(windows[2] > windows[1] && windows[3] > windows[2], "{windows:?}");
    // with 200000 B: (200000 - 2280) * 162 / 256 = 125119, in units of 4
    assert_eq!(tune_buffer(200_000)[3], 125_120);
    // a largest buffer below the first one does not cut it: what 131072 B allow, in units of 4
    assert_eq!(tune_buffer(40_000), [81_504; 4]);
}

#[test]
fn a_round_trip_that_brings_more_makes_room_for_twice_that_and_its_growth() {
    let mut peer = Peer { answers_after: 50, ..Peer::new(FlowOptions::default(), 50) };
    // the handshake is over at 100 ms; the application reads the first packet of 150 ms a round trip later
    for _ in 0..19 {
        peer.data();
    }
    peer.advance(50);
    peer.data();
    // 10 were assumed before, and 20 came. Window 2 * 20 * 1448 + 16 * 1448 = 81088, growth 81088 * (20 - 10) / 10 = 81088; buffer
    // 3 * 81088 * 256 / 162 = 384415, of which 162 / 256 of all but one segment are offered: (384415 - 2280) * 162 / 256 = 241819, step by step
    let mut window = 0;
    for _ in 0..100 {
        let before = window;
        window = peer.data().map_or(window, |ack| ack.window);
        assert!(before == 0 || window - before <= 2896 + 127, "each step is acknowledged");
    }
    assert_eq!(window, 241_819_u32.next_multiple_of(128));
}

#[test]
fn the_smallest_buffer_offers_jumbo_frames_what_any_other_does() {
    // tcp_rmem[2] = 8192 does not cut tcp_rmem[1] = 131072: 65536 B in whole segments of 8934
    let host = HostParams { receive_buffer: 8192, mss: 8934, ..HostParams::default() };
    let mut receiver = Receiver::new(0, Arc::new(host), FlowOptions::default());
    let ack = receiver.on_packet(&packet(0, Ecn::NotEct, flag::SYN), Instant::ZERO).expect("a SYN-ACK");
    assert_eq!(ack.window, 7 * 8934);
}

#[test]
fn a_burst_that_counts_as_one_packet_is_acknowledged_once() {
    let mut peer = Peer::warm(FlowOptions::default());
    for seq in 23..26 {
        assert!(peer.packet(seq, Ecn::Ect0, flag::MORE).is_none());
    }
    let ack = peer.packet(26, Ecn::Ect0, 0).expect("more than one segment came");
    assert_eq!((ack.ack, peer.receiver.next_timer()), (27, Instant::NEVER));
}
