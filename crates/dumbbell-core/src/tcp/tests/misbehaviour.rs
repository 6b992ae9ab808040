//! Receivers that misbehave, and what the sender does with what they say.

use super::*;
use crate::packet::{Ecn, Timestamps, MTU_FRAME, SYN_FRAME};
use crate::tcp::receiver::{Echo, Misbehaviour};

/// A receiver that misbehaves, after a handshake with a round trip of 40 ms that was over at 100 ms.
struct Liar {
    receiver: Receiver,
    now: Instant,
}

impl Liar {
    fn new(kind: Misbehaviour, echo: Echo) -> Liar {
        let mut receiver = Receiver::new(7, Arc::new(HostParams::default()), FlowOptions { ecn: true, echo });
        receiver.misbehave(kind);
        let mut liar = Liar { receiver, now: Instant::from_millis(60) };
        let syn = Packet { flow: 7, len: SYN_FRAME, ..Packet::new_tcp(0, Ecn::NotEct, flag::SYN) };
        assert!(liar.receiver.on_packet(&syn.with_timestamps(Timestamps::new(60, None)), liar.now).is_some());
        liar.now = Instant::from_millis(100);
        let last = Packet { flow: 7, len: 66, ..Packet::new_tcp(0, Ecn::NotEct, flag::PURE_ACK) };
        assert!(liar.receiver.on_packet(&last.with_timestamps(Timestamps::new(100, Some(60))), liar.now).is_none());
        liar
    }

    /// Segment `seq` arrives a millisecond later. Returns the numbers of all ACKs that it causes, and whether each is for a part.
    fn take(&mut self, seq: u64, ecn: Ecn) -> Vec<Ack> {
        self.now += Duration::from_millis(1);
        let timestamps = Timestamps::new(self.now.as_millis() as u32 - 20, Some(60));
        let packet = Packet { flow: 7, len: MTU_FRAME, ..Packet::new_tcp(seq, ecn, 0) }.with_timestamps(timestamps);
        let ack = self.receiver.on_packet(&packet, self.now);
        let early = self.receiver.take_early().map(|(early, _)| early);
        let copies = usize::from(self.receiver.take_copies());
        early.into_iter().flat_map(|early| vec![early; copies + 1]).chain(ack).collect()
    }
}

#[test]
fn ack_division_acknowledges_each_segment_in_ten_parts() {
    let mut liar = Liar::new(Misbehaviour::Divides, Echo::UntilCwr);
    for seq in 0..50 {
        let acks = liar.take(seq, Ecn::Ect0);
        let said: Vec<(u64, bool)> = acks.iter().map(|ack| (ack.ack, ack.has(ack_flag::PART))).collect();
        // nine within the segment, which is the next one as long as it is not complete, and one for the whole of it
        assert_eq!(said, [vec![(seq, true); 9], vec![(seq + 1, false)]].concat());
    }
    assert_eq!(liar.receiver.stats.acks, 500);
    // what is out of order is reported as by any receiver, once
    assert_eq!(liar.take(60, Ecn::Ect0).iter().map(|ack| ack.ack).collect::<Vec<_>>(), [50]);
    assert!(liar.receiver.has_blocks());
}

#[test]
fn parts_of_segments_do_not_open_the_window() {
    // Linux counts what an ACK delivers in segments, and a part delivers none: ten ACKs for a segment let slow start grow by one, as one ACK does
    let [mut divided, mut plain] = [(), ()].map(|()| Story::reno(10));
    for story in [&mut divided, &mut plain] {
        story.advance(RTT);
    }
    for seq in 0..10 {
        for _ in 0..9 {
            assert!(divided.answer(seq, ack_flag::PART, &[]).is_empty());
        }
        assert_eq!(divided.ack(seq + 1), plain.ack(seq + 1));
        // ten parts are no duplicate ACKs either: nothing is taken for lost
        assert_eq!(divided.cwnd(), (10 + seq as u32 + 1, crate::cc::conn::INFINITE_SSTHRESH, CaState::Open));
    }
    assert_eq!(divided.conn().delivered, plain.conn().delivered);
}

#[test]
fn an_optimistic_receiver_is_half_a_round_trip_of_segments_ahead() {
    let mut liar = Liar::new(Misbehaviour::Optimistic, Echo::UntilCwr);
    let mut ahead = Vec::new();
    for seq in 0..200 {
        if let Some(ack) = liar.take(seq, Ecn::Ect0).last() {
            ahead.push((seq, ack.ack - (seq + 1)));
        }
    }
    // the first segment, at 101 ms, begins a round trip of 40 ms, in which one more arrives each millisecond. At 141 ms that are 40: then it may be
    // 20 ahead, one more with each segment, until 160 ms
    let of = |seq: u64| ahead.iter().rev().find(|(at, _)| *at <= seq).map(|(_, ahead)| *ahead);
    assert_eq!(of(30), Some(0));
    assert!(ahead.iter().all(|&(seq, ahead)| ahead <= 20 && (seq > 39 || ahead == 0)), "{ahead:?}");
    assert_eq!(of(199), Some(20));
    // a loss leaves no gap, and no SACK tells of it
    let acks = liar.take(205, Ecn::Ect0);
    assert!(!liar.receiver.has_blocks() && acks.iter().all(|ack| ack.ack >= 206));
    // what comes again has been lost or was the last: the guess begins from 0
    assert_eq!(liar.take(150, Ecn::Ect0).last().map(|ack| ack.ack), Some(206));
}

#[test]
fn what_was_never_sent_is_not_acknowledged() {
    let mut story = Story::reno(10);
    story.advance(RTT);
    // 10 segments are out; an ACK of 11 of them is not looked at
    assert!(story.ack(11).is_empty());
    assert_eq!((story.conn().snd_una(), story.conn().cwnd), (0, 10));
    assert_eq!(story.ack(10).len(), 20);
}

#[test]
fn concealed_marks_are_not_echoed() {
    for (echo, codepoint) in [(Echo::UntilCwr, Ecn::Ect0), (Echo::PerPacket, Ecn::Ect0), (Echo::Accurate, Ecn::Ect1)] {
        let mut liar = Liar::new(Misbehaviour::Conceals, echo);
        let mut acks = Vec::new();
        for seq in 0..60 {
            acks.extend(liar.take(seq, if seq % 3 == 2 { Ecn::Ce } else { codepoint }));
        }
        assert_eq!(liar.receiver.stats.ce, 20, "they are counted where they are measured");
        let first = acks[0].ace();
        assert!(acks.iter().all(|ack| !ack.has(ack_flag::ECE) && ack.ace() == first && ack.ce_bytes == 0), "{echo:?}");
    }
}
