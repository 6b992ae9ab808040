//! When packets leave a link that follows a trace: by hand, and held against a model that walks from opportunity to opportunity.

use crate::Bottleneck;
use dumbbell_config::BottleneckParams;
use dumbbell_core::aqm::{cake, codel, pfifo, Aqm, QueueContext};
use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::packet::{Ecn, FlowKey, Packet};
use dumbbell_core::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;

fn fifo() -> pfifo::State {
    pfifo::State::new(pfifo::Params { limit: 1_000_000 }, &QueueContext::new(Rate(0), 1))
}

fn link<A: Aqm>(aqm: A, params: &BottleneckParams) -> Bottleneck<A> {
    let mut bottleneck = Bottleneck::new(aqm, 1, params, ());
    bottleneck.flow_starts(0, &FlowKey::default(), 0);
    bottleneck
}

fn by_trace(text: &str) -> BottleneckParams {
    let trace = LinkTrace::parse("test", text.as_bytes()).expect("a trace");
    BottleneckParams { trace: Some(trace), ..BottleneckParams::default() }
}

fn packet(seq: u64, len: u16) -> Packet {
    Packet { len, ..Packet::new_tcp(seq, Ecn::NotEct, 0) }
}

/// Lets everything at the link happen before `until`, or until then with `and_at`; what leaves goes to `left` as (ns, number).
fn work<A: Aqm>(link: &mut Bottleneck<A>, until: u64, and_at: bool, left: &mut Vec<(u64, u64)>) {
    while link.next.0 < until || (and_at && link.next.0 == until) {
        let now = link.next;
        while link.next <= now {
            left.extend(link.advance(now).map(|gone| (now.0, gone.number())));
        }
    }
}

/// When packets leave that arrive as (ns, bytes), in order: (ns, number). At one instant arrivals come before the link if `early`, else after.
fn departures<A: Aqm>(mut link: Bottleneck<A>, arrivals: &[(u64, u16)], early: bool) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    for (seq, &(at, len)) in (0..).zip(arrivals) {
        work(&mut link, at, !early, &mut left);
        link.arrive(packet(seq, len), Instant(at));
    }
    work(&mut link, u64::MAX, false, &mut left);
    assert_eq!(link.count_packets(), 0);
    left
}

/// When packets of these lengths leave that are all there at 0, in ms.
fn burst(text: &str, lengths: &[u16]) -> Vec<u64> {
    let arrivals: Vec<(u64, u16)> = lengths.iter().map(|&len| (0, len)).collect();
    let left = departures(link(fifo(), &by_trace(text)), &arrivals, true);
    left.iter().map(|gone| gone.0 / MS).collect()
}

#[test]
fn a_burst_leaves_as_the_trace_says() {
    // opportunities at 0, 0, 5, 10, 10, 10, 15, 20, …, of 1514 B each
    let text = "0\n0\n5\n10\n";
    assert_eq!(burst(text, &[1514; 8]), [0, 0, 5, 10, 10, 10, 15, 20]);
    // 3028 B at 0 are two of 1500 B and 28 B of the third; that and 42 B of the fourth at 5; and so on
    assert_eq!(burst(text, &[1500; 8]), [0, 0, 5, 10, 10, 10, 15, 20]);
    // 30 of 100 B at 0, 28 B of the 31st; the others at 5
    assert_eq!(burst(text, &[100; 32])[28..], [0, 0, 5, 5]);
    // 1514 + 100 + 1414 B at 0, 100 + 1400 + 14 B at 5
    assert_eq!(burst(text, &[1514, 100, 1514, 1400, 14, 1500]), [0, 0, 5, 5, 5, 10]);
}

#[test]
fn a_packet_waits_for_an_opportunity_and_an_opportunity_for_none() {
    let params = by_trace("0\n0\n5\n10\n");
    // those at 0 have passed
    assert_eq!(departures(link(fifo(), &params), &[(1, 1514)], true), [(5 * MS, 0)]);
    // at the instant of an opportunity, on either side of it
    for early in [true, false] {
        let times = departures(link(fifo(), &params), &[(5 * MS, 1514), (5 * MS, 100)], early);
        assert_eq!(times, [(5 * MS, 0), (10 * MS, 1)]);
        let rest = departures(link(fifo(), &params), &[(MS, 100), (5 * MS, 1414), (6 * MS, 1)], early);
        assert_eq!(rest, [(5 * MS, 0), (5 * MS, 1), (10 * MS, 2)]);
    }
    // of the third packet, 14 of 28 B fit in at 0; it has the link until 5 ms, and then there are 1500 B for the next
    let parts = departures(link(fifo(), &params), &[(0, 1514), (0, 1500), (0, 28), (3 * MS, 1500)], true);
    assert_eq!(parts, [(0, 0), (0, 1), (5 * MS, 2), (5 * MS, 3)]);
}

#[test]
fn the_queue_is_asked_at_the_opportunity() {
    // 40 packets at 0 and an opportunity every 50 ms. CoDel (target 5 ms, interval 100 ms) sees the first that waited too long at 50 ms, and drops
    // when it is asked after 150 ms: the head, at 200 ms, and the next one leaves
    let aqm = codel::State::new(codel::Params::default(), &QueueContext::new(Rate::from_mbit(1), 1));
    let mut bottleneck = link(aqm, &by_trace("50\n"));
    (0..40).for_each(|seq| bottleneck.arrive(packet(seq, 1514), Instant::ZERO));
    let mut left = Vec::new();
    work(&mut bottleneck, 199 * MS, true, &mut left);
    assert_eq!((left.clone(), bottleneck.log.counters.queue.drops_aqm), (vec![(50 * MS, 0), (100 * MS, 1), (150 * MS, 2)], 0));
    work(&mut bottleneck, 200 * MS, true, &mut left);
    assert_eq!((left[3], bottleneck.log.counters.queue.drops_aqm), ((200 * MS, 4), 1));
    // times in queue: 50 + 100 + 150 + 200 ms
    assert_eq!(bottleneck.log.counters.queue.sojourn_ns, 500 * MS);
}

#[test]
fn a_queue_with_a_rate_of_its_own_leaves_opportunities_unused() {
    // Cake at 1514 * 8 bit / 4 ms = 3.028 Mbit/s over one opportunity a millisecond
    let params = cake::Params { bandwidth: Some(Rate(3_028_000)), rtt: Duration::from_secs(1), ..cake::Params::default() };
    let aqm = cake::State::new(params, &QueueContext::new(Rate(12_112_000), 1));
    let times = departures(link(aqm, &by_trace("1")), &[(1, 1514); 10], true);
    let span = times[9].0 - times[0].0;
    assert!((35 * MS..=37 * MS).contains(&span), "{span}");
    assert!(times.iter().all(|(at, _)| at % MS == 0), "{times:?}");
}

/// Plays a trace in the way of mahimahi's packet queue: from one opportunity to the next, arrivals up to it first, then its bytes. The packet whose
/// first part has left is apart from the queue. Written for these tests from the description in mm-link(1).
fn model(times_ms: &[u64], arrivals: &[(u64, u16)]) -> Vec<(u64, u64)> {
    let (mut waiting, mut coming) = (VecDeque::new(), (0_u64..).zip(arrivals).peekable());
    let mut in_part: Option<(u64, u64)> = None;
    let mut left = Vec::new();
    for pass in 0_u64.. {
        for at in times_ms.iter().map(|time| (pass * times_ms[times_ms.len() - 1] + time) * MS) {
            while let Some((seq, &(_, len))) = coming.next_if(|(_, (arrival, _))| *arrival <= at) {
                waiting.push_back((seq, u64::from(len)));
            }
            let mut bytes = 1514;
            while bytes > 0 {
                let Some((seq, rest)) = in_part.take().or_else(|| waiting.pop_front()) else { break };
                let sent = rest.min(bytes);
                bytes -= sent;
                if sent == rest {
                    left.push((at, seq));
                } else {
                    in_part = Some((seq, rest - sent));
                }
            }
        }
        if left.len() == arrivals.len() {
            break;
        }
    }
    left
}

/// (ns, bytes), by time; many of them on a whole millisecond.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u16)>> {
    let gap = prop_oneof![4 => Just(0), 2 => (0..4_u64).prop_map(|n| n * MS), 2 => 0..3 * MS, 1 => 0..60 * MS];
    let len = prop_oneof![3 => Just(1514_u16), 1 => Just(1500), 1 => Just(66), 1 => 60..4_000_u16];
    prop::collection::vec((gap, len), 1..150).prop_map(|all| {
        let mut at = 0;
        let add = |(after, bytes)| {
            at += after;
            (at, bytes)
        };
        all.into_iter().map(add).collect()
    })
}

fn times() -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![3 => Just(0_u64), 3 => 0..3_u64, 1 => 0..40_u64];
    (prop::collection::vec(gap, 1..30), 1..30_u64).prop_map(|(gaps, last)| {
        let mut at = 0;
        let mut times: Vec<u64> = Vec::new();
        for after in gaps {
            at += after;
            times.push(at);
        }
        times.push(at + last);
        times
    })
}

proptest! {
    #[test]
    fn packets_leave_as_in_a_model_that_walks_from_opportunity_to_opportunity(times in times(), arrivals in arrivals()) {
        let text: String = times.iter().map(|at| format!("{at}\n")).collect();
        let params = by_trace(&text);
        let expected = model(&times, &arrivals);
        // whichever comes first at one instant
        for early in [true, false] {
            prop_assert_eq!(&departures(link(fifo(), &params), &arrivals, early), &expected);
        }
        // no more bytes than there were opportunities for
        let mut sent = 0;
        for (at, seq) in expected {
            sent += u64::from(arrivals[seq as usize].1);
            prop_assert!(sent <= params.trace.as_ref().expect("a trace").bytes_until(Instant(at)));
        }
    }

    #[test]
    fn one_opportunity_a_millisecond_is_a_link_of_that_rate_but_for_one_opportunity(arrivals in arrivals()) {
        let constant = BottleneckParams { rate: Rate(12_112_000), ..BottleneckParams::default() };
        let serial = departures(link(fifo(), &constant), &arrivals, true);
        let traced = departures(link(fifo(), &by_trace("1")), &arrivals, true);
        for ((serial_at, one), (traced_at, other)) in serial.into_iter().zip(traced) {
            prop_assert_eq!(one, other);
            prop_assert!(serial_at.abs_diff(traced_at) <= MS, "{} {} {}", one, serial_at, traced_at);
        }
    }
}
