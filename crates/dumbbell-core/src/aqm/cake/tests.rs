//! Stories of the whole of CAKE; its parts have tests of their own.

use super::*;
use crate::packet::{Ecn, FlowKey};
use crate::record::{Counters, InternalCounters, InternalLog};
use crate::rng::Rng;

const RAW_10: Rate = Rate::from_mbit(10);

fn keys(hosts: &[(u32, u32)]) -> Vec<FlowKey> {
    (0..).zip(hosts).map(|(ports, &(src_host, dst_host))| FlowKey { src_host, dst_host, ports, dscp: 0 }).collect()
}

fn start_flows(mut cake: State, flows: &[FlowKey]) -> (State, Counters) {
    (0..).zip(flows).for_each(|(flow, key)| cake.flow_starts(flow, key));
    let internal = InternalLog::new(cake.internal_queues());
    (cake, Counters { internal, ..Counters::default() })
}

fn cake(params: Params, flows: &[FlowKey]) -> (State, Counters) {
    start_flows(State::new(params, &QueueContext::new(RAW_10, 7)), flows)
}

fn single() -> Params {
    Params { diffserv: Diffserv::BestEffort, isolation: Isolation::FlowBlind, ..Params::default() }
}

fn packet(flow: u32, seq: u64, len: u16, ecn: Ecn) -> Packet {
    Packet { flow, len, ..Packet::new_tcp(seq, ecn, 0) }
}

/// Takes packets from `now` on, waiting as the queue demands, until `until` or until nothing is left.
fn drain(state: &mut State, log: &mut Counters, mut now: Instant, until: Instant) -> Vec<(Instant, Packet)> {
    let mut sent = Vec::new();
    while now < until {
        match state.dequeue(now, log) {
            Dequeue::Packet(packet) => sent.push((now, packet)),
            Dequeue::Wait(time) => now = time,
            Dequeue::Empty => break,
        }
    }
    sent
}

/// Sends for `seconds` with all of `flows` backlogged (each has `depth` packets queued, ECN-capable unless said otherwise);
/// returns the bytes of each.
fn share(params: Params, flows: &[FlowKey], depth: u64, seconds: u64) -> Vec<u64> {
    let (mut state, mut log) = cake(params, flows);
    for seq in 0..depth {
        for flow in 0..flows.len() as u32 {
            state.enqueue(packet(flow, seq, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
        }
    }
    let mut bytes = vec![0; flows.len()];
    let mut now = Instant::ZERO;
    while now < Instant::from_secs(seconds) {
        match state.dequeue(now, &mut log) {
            Dequeue::Packet(sent) => {
                bytes[sent.flow as usize] += u64::from(sent.len);
                state.enqueue(packet(sent.flow, 0, 1514, Ecn::Ect0), now, &mut log);
            }
            Dequeue::Wait(time) => now = time,
            Dequeue::Empty => panic!("all flows are backlogged"),
        }
    }
    bytes
}

#[test]
fn packets_leave_at_the_rate_of_the_shaper() {
    let (mut state, mut log) = cake(single(), &keys(&[(1, 2)]));
    assert!(state.shapes());
    let start = Instant::from_secs(1);
    for seq in 0..3 {
        state.enqueue(packet(0, seq, 1514, Ecn::Ect0), start, &mut log);
    }
    // 1514 B at 10 Mbit/s take 1211.2 us
    let times: Vec<u64> = drain(&mut state, &mut log, start, Instant::NEVER).iter().map(|(time, _)| time.0 - start.0).collect();
    assert_eq!(times, [0, 1_211_200, 2_422_400]);
    // Idle for 10 ms: no credit, and none of the time of the last packet is lost either
    let later = Instant::from_millis(1010);
    for seq in 3..5 {
        state.enqueue(packet(0, seq, 1514, Ecn::Ect0), later, &mut log);
    }
    let again: Vec<u64> = drain(&mut state, &mut log, later, Instant::NEVER).iter().map(|(time, _)| time.0 - later.0).collect();
    assert_eq!(again, [0, 1_211_200]);
}

#[test]
fn the_shaper_follows_the_bottleneck_unless_told_its_own_rate() {
    let follow = |params| {
        let (mut state, mut log) = cake(params, &keys(&[(1, 2)]));
        state.set_rate(Rate::from_mbit(20), Instant::ZERO);
        for seq in 0..2 {
            state.enqueue(packet(0, seq, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
        }
        drain(&mut state, &mut log, Instant::ZERO, Instant::NEVER)[1].0
    };
    assert_eq!(follow(single()), Instant(605_600));
    assert_eq!(follow(Params { bandwidth: Some(RAW_10), ..single() }), Instant(1_211_200));
    // overhead 38: 1538 B, 1230.4 us
    assert_eq!(follow(Params { bandwidth: Some(RAW_10), overhead: Some(38), ..single() }), Instant(1_230_400));
    assert_eq!(follow(Params { bandwidth: Some(Rate::UNLIMITED), ..single() }), Instant::ZERO);
}

#[test]
fn a_shaper_that_starts_in_the_middle_of_a_run_gives_no_burst() {
    let unlimited = State::new(single(), &QueueContext::new(Rate::UNLIMITED, 1));
    let (mut state, mut log) = start_flows(unlimited, &keys(&[(1, 2)]));
    assert!(!state.shapes());
    for seq in 0..5 {
        state.enqueue(packet(0, seq, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
    }
    let start = Instant::from_secs(10);
    state.set_rate(RAW_10, start);
    let times: Vec<u64> = drain(&mut state, &mut log, start, Instant::NEVER).iter().map(|(time, _)| time.0 - start.0).collect();
    assert_eq!(times, [0, 1_211_200, 2_422_400, 3_633_600, 4_844_800]);
}

/// Takes other parameters at `now`, as a change while it runs.
fn change(state: &mut State, params: Params, now: Instant) -> Result<(), ParamError> {
    state.take_params(State::new(params, &QueueContext::new(RAW_10, 7)), now)
}

#[test]
fn packets_that_wait_keep_their_overhead_and_clocks_stay_when_parameters_change() {
    // 8 Mbit/s: 1 us a byte
    let at_8 = Params { bandwidth: Some(Rate::from_mbit(8)), ..single() };
    let send = |params: Params, later: u64| {
        let (mut state, mut log) = cake(at_8.clone(), &keys(&[(1, 2)]));
        (0..3).for_each(|seq| state.enqueue(packet(0, seq, 1000, Ecn::Ect0), Instant::ZERO, &mut log));
        assert!(matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Packet(_)));
        change(&mut state, params, Instant::from_micros(500)).unwrap();
        let now = Instant::from_micros(600);
        (3..3 + later).for_each(|seq| state.enqueue(packet(0, seq, 1000, Ecn::Ect0), now, &mut log));
        let sent = drain(&mut state, &mut log, now, Instant::NEVER);
        sent.iter().map(|(time, _)| time.as_micros()).collect::<Vec<_>>()
    };
    // 114 B instead of 14: 1100 B for those that come later
    assert_eq!(send(Params { overhead: Some(114), ..at_8.clone() }, 3), [1_000, 2_000, 3_000, 4_100, 5_200]);
    // the packet that has left is charged at 8 Mbit/s, those that wait at 4
    assert_eq!(send(Params { bandwidth: Some(Rate::from_mbit(4)), ..at_8.clone() }, 0), [1_000, 3_000]);
    // to 16 Mbit/s and to 1100 B
    let both = Params { bandwidth: Some(Rate::from_mbit(16)), overhead: Some(114), ..at_8.clone() };
    assert_eq!(send(both, 2), [1_000, 1_500, 2_000, 2_550]);
}

#[test]
fn a_smaller_memory_drops_when_the_next_packet_comes_and_thresholds_follow_the_rtt() {
    let (mut state, mut log) = cake(single(), &keys(&[(1, 2)]));
    (0..10).for_each(|seq| state.enqueue(packet(0, seq, 1514, Ecn::Ect0), Instant::ZERO, &mut log));
    let each = state.store.memory() / 10;
    change(&mut state, Params { memlimit: Some(3 * each as u32), rtt: Duration::from_millis(20), ..single() }, Instant::ZERO)
        .unwrap();
    assert_eq!((state.packets(), log.queue.drops_overflow), (10, 0));
    state.enqueue(packet(0, 10, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
    assert_eq!((state.packets(), log.queue.drops_overflow), (3, 8));
    // 1.5 times 1211.2 us are more than 20 ms / 20; the interval is longer by the difference
    let Tin { thresholds, .. } = &state.tins[0];
    assert_eq!((thresholds.target.0, thresholds.interval.0), (1_816_800, 20_816_800));
}

#[test]
fn a_shaper_may_begin_by_a_change_but_not_end() {
    let unlimited = Params { bandwidth: Some(Rate::UNLIMITED), ..single() };
    let (mut state, mut log) = cake(unlimited.clone(), &keys(&[(1, 2)]));
    (0..5).for_each(|seq| state.enqueue(packet(0, seq, 1514, Ecn::Ect0), Instant::ZERO, &mut log));
    let start = Instant::from_millis(2);
    change(&mut state, single(), start).unwrap();
    // its clock stands where the queue got its first packet, as in Linux: 1211.2 us for each packet from then on
    let times: Vec<u64> = drain(&mut state, &mut log, start, Instant::NEVER).iter().map(|(time, _)| time.0).collect();
    assert_eq!(times, [2_000_000, 2_000_000, 2_422_400, 3_633_600, 4_844_800]);
    let refused = change(&mut state, unlimited, start).unwrap_err();
    assert_eq!(refused.to_string(), "bandwidth: found no limit, allowed: a rate: what shapes cannot stop while it runs");
    assert!(state.shapes());
}

#[test]
fn memory_limits() {
    let limit = |mbit: u64, params: Params| buffer_limit(&params, Rate::from_mbit(mbit).bytes(), 1514);
    // 4 * 1.25 MB/s * 0.1 s = 500 kB < 4 MiB
    assert_eq!(limit(10, Params::default()), 4_194_304);
    // 4 * 25 MB/s * 0.1 s
    assert_eq!(limit(200, Params::default()), 10_000_000);
    // 50 MB > 10240 * 1514
    assert_eq!(limit(1000, Params::default()), 15_503_360);
    assert_eq!(limit(0, Params::default()), 15_503_360);
    assert_eq!(limit(1000, Params { memlimit: Some(20_000_000), ..Params::default() }), 20_000_000);
    // with a frame of 526 B the same rate, 10240 of them
    assert_eq!(buffer_limit(&Params::default(), 125_000_000, 526), 10_240 * 526);
}

#[test]
fn full_memory_drops_the_head_of_the_longest_queue_and_wakes_blue() {
    // 10 frames of 2304 B fit. Flow 0 has 8, flow 1 has 2; the 11th, of flow 1, costs flow 0 its head.
    let params = Params { memlimit: Some(23_040), isolation: Isolation::Flows, ..Params::default() };
    let (mut state, mut log) = cake(params, &keys(&[(1, 2), (1, 2)]));
    for seq in 0..8 {
        state.enqueue(packet(0, seq, 1514, Ecn::Ect0), Instant::from_millis(10), &mut log);
    }
    for seq in 0..3 {
        state.enqueue(packet(1, seq, 1514, Ecn::Ect0), Instant::from_millis(10), &mut log);
    }
    assert_eq!((log.queue.drops_overflow, log.flows.flow_counters(0).dropped_overflow, state.packets()), (1, 1, 10));
    let slot = state.table.slot(0) as usize;
    assert_eq!((state.table.flows[slot].cobalt.p_drop, state.table.flows[slot].cobalt.count), (1 << 24, 1));
    let sent = drain(&mut state, &mut log, Instant::from_millis(10), Instant::NEVER);
    let first = sent.iter().find(|(_, packet)| packet.flow == 0).unwrap();
    assert_eq!(first.1.number(), 1, "the head was dropped");
}

#[test]
fn a_limit_below_one_packet_drops_everything() {
    let (mut state, mut log) = cake(Params { memlimit: Some(1000), ..Params::default() }, &keys(&[(1, 2)]));
    state.enqueue(packet(0, 0, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
    assert_eq!((state.packets(), state.store.memory(), log.queue.drops_overflow), (0, 0, 1));
    assert!(matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Empty));
}

#[test]
fn flows_share_equally_and_hosts_first_in_the_dual_modes() {
    // Source 1 has three flows, source 2 has one; each flow has its own destination.
    let flows = keys(&[(1, 11), (1, 12), (1, 13), (2, 14)]);
    let shares = |isolation| {
        let bytes = share(Params { isolation, ..Params::default() }, &flows, 20, 10);
        let total: u64 = bytes.iter().sum();
        // 10 s at 10 Mbit/s
        assert!((12_498_000..12_503_000).contains(&total), "{total}");
        bytes.iter().map(|&b| b as f64 / total as f64).collect::<Vec<_>>()
    };
    let close = |got: &[f64], expected: [f64; 4]| {
        for (g, e) in got.iter().zip(expected) {
            assert!((g - e).abs() < 0.01, "{got:?}, not {expected:?}");
        }
    };
    let sixth = 1.0 / 6.0;
    close(&shares(Isolation::Flows), [0.25; 4]);
    close(&shares(Isolation::DualDstHost), [0.25; 4]);
    close(&shares(Isolation::DualSrcHost), [sixth, sixth, sixth, 0.5]);
    close(&shares(Isolation::TripleIsolate), [sixth, sixth, sixth, 0.5]);
}

#[test]
fn a_sparse_flow_passes_bulk_flows() {
    let (mut state, mut log) = cake(Params::default(), &keys(&[(1, 2), (3, 4)]));
    for seq in 0..100 {
        state.enqueue(packet(0, seq, 1514, Ecn::NotEct), Instant::ZERO, &mut log);
    }
    let sent = drain(&mut state, &mut log, Instant::ZERO, Instant::from_millis(40));
    assert!(sent.len() > 30);
    let arrival = Instant::from_millis(41);
    state.enqueue(packet(1, 0, 100, Ecn::NotEct), arrival, &mut log);
    let next = drain(&mut state, &mut log, arrival, Instant::from_millis(45));
    let (time, _) = next.iter().find(|(_, packet)| packet.flow == 1).expect("it was sent");
    // The frame on the link may take 1.2112 ms, and that is all.
    assert!(time.0 - arrival.0 <= 1_211_200, "{time}");
}

#[test]
fn states_of_a_flow() {
    let flows = keys(&[(1, 2), (3, 4)]);
    let (mut state, mut log) = cake(Params { isolation: Isolation::Flows, rtt: Duration::from_millis(10), ..single() }, &flows);
    let slot = state.table.slot(0) as usize;
    let mut now = Instant::from_secs(1);
    assert_eq!(state.table.flows[slot].state, FlowState::None);
    state.enqueue(packet(0, 0, 1514, Ecn::Ect0), now, &mut log);
    assert_eq!(state.table.flows[slot].state, FlowState::Sparse);
    // 1514 B against a quantum of 305 B: the deficit is spent, but the flow is still on the new list
    assert!(matches!(state.dequeue(now, &mut log), Dequeue::Packet(_)));
    assert_eq!((state.table.flows[slot].state, state.tins[0].sparse_flows), (FlowState::Sparse, 1));
    // The other flow's packet makes it be looked at: empty and out of deficit, it waits in the old list
    now += Duration::from_millis(2);
    state.enqueue(packet(1, 0, 100, Ecn::Ect0), now, &mut log);
    assert!(matches!(state.dequeue(now, &mut log), Dequeue::Packet(Packet { flow: 1, .. })));
    assert_eq!((state.table.flows[slot].state, state.tins[0].sparse_flows), (FlowState::SparseWait, 2));
    // and counts as bulk when it has a packet again
    state.enqueue(packet(0, 1, 1514, Ecn::Ect0), now, &mut log);
    assert_eq!((state.table.flows[slot].state, state.tins[0].bulk_flows), (FlowState::Bulk, 1));
    now += Duration::from_millis(2);
    drain(&mut state, &mut log, now, now + Duration::from_millis(4));
    // Served empty, it decays, since drop_next is an interval (11.3 ms at this rate) after its last packet; then it leaves
    now += Duration::from_millis(4);
    for seq in 0..20 {
        state.enqueue(packet(1, seq, 100, Ecn::Ect0), now, &mut log);
        drain(&mut state, &mut log, now, now + Duration::from_micros(100));
        now += Duration::from_micros(100);
    }
    // (the other flow has used up its quantum meanwhile: it is the one that counts as bulk)
    assert_eq!((state.table.flows[slot].state, state.tins[0].bulk_flows), (FlowState::Decaying, 1));
    now += Duration::from_millis(30);
    for seq in 0..20 {
        state.enqueue(packet(1, seq, 100, Ecn::Ect0), now, &mut log);
        drain(&mut state, &mut log, now, now + Duration::from_millis(1));
        now += Duration::from_millis(1);
    }
    assert_eq!(state.table.flows[slot].state, FlowState::None);
}

#[test]
fn voice_goes_first_within_its_rate_and_bulk_goes_last() {
    let mut flows = keys(&[(1, 11), (2, 12), (3, 13)]);
    flows[1].dscp = 8; // CS1: bulk, 10/16 Mbit/s
    flows[2].dscp = 46; // EF: voice, 2.5 Mbit/s
    let bytes = share(Params { isolation: Isolation::Flows, ..Params::default() }, &flows, 20, 10);
    let total: u64 = bytes.iter().sum();
    let part: Vec<f64> = bytes.iter().map(|&b| b as f64 / total as f64).collect();
    // Voice and bulk get their threshold rates (1/4 and 1/16), the rest is best effort's.
    assert!((part[2] - 0.25).abs() < 0.02 && part[1] < 0.0725 && part[0] > 0.66, "{part:?}");
    // Alone, bulk may use all of the link.
    let alone = share(Params::default(), &flows[1..2], 20, 10);
    assert!(alone[0] > 12_498_000, "{alone:?}");
}

#[test]
fn unlimited_tins_share_by_their_quanta() {
    let mut flows = keys(&[(1, 11), (2, 12), (3, 13)]);
    flows[1].dscp = 8;
    flows[2].dscp = 46;
    let params = Params { bandwidth: Some(Rate::UNLIMITED), isolation: Isolation::Flows, ..Params::default() };
    let (mut state, mut log) = cake(params, &flows);
    let mut sent = [0_u32; 3];
    for flow in [0, 1, 2] {
        state.enqueue(packet(flow, 0, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
    }
    for _ in 0..21_000 {
        let Dequeue::Packet(got) = state.dequeue(Instant::ZERO, &mut log) else { panic!("an unlimited queue never waits") };
        sent[got.flow as usize] += 1;
        state.enqueue(packet(got.flow, 0, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
    }
    // 1024 : 64 : 256 = 16 : 1 : 4
    for (got, expected) in sent.iter().zip([16_000, 1_000, 4_000]) {
        assert!(got.abs_diff(expected) < 30, "{sent:?}");
    }
}

/// Drives one queue at 120 % of 10 Mbit/s for `seconds`; returns the sojourn times (ms) and the log.
fn overload(params: Params, ecn: Ecn, seconds: u64) -> (Vec<f64>, Counters, usize) {
    let (mut state, mut log) = cake(params, &keys(&[(1, 2)]));
    let gap = 1_211_200 * 5 / 6;
    let (mut arrival, mut seq, mut now, mut sojourns) = (Instant::ZERO, 0, Instant::ZERO, Vec::new());
    while now < Instant::from_secs(seconds) {
        while arrival <= now {
            state.enqueue(packet(0, seq, 1514, ecn), arrival, &mut log);
            arrival += Duration(gap);
            seq += 1;
        }
        match state.dequeue(now, &mut log) {
            Dequeue::Packet(sent) => sojourns.push((now.0 - sent.enqueue_time.0) as f64 / 1e6),
            Dequeue::Wait(time) => now = time.min(arrival.max(Instant(now.0 + 1))),
            Dequeue::Empty => now = arrival,
        }
    }
    (sojourns, log, state.packets())
}

#[test]
fn an_overload_of_a_flow_that_does_not_respond_is_dropped_down_to_the_target() {
    let (sojourns, log, _) = overload(single(), Ecn::NotEct, 20);
    // 20 % above the rate: 165 drops/s = sqrt(count)/0.1 s need count 272, whose sum of gaps is about 0.2 * sqrt(272) = 3.3 s
    let late: f64 = sojourns[sojourns.len() / 2..].iter().sum::<f64>() / (sojourns.len() - sojourns.len() / 2) as f64;
    assert!(late < 12.0, "{late} ms");
    assert!(
        log.queue.drops_aqm > 2_000 && log.queue.ce_marks == 0 && log.queue.drops_overflow == 0,
        "{} drops",
        log.queue.drops_aqm
    );
}

#[test]
fn a_flow_that_ignores_marks_fills_the_memory_and_meets_blue() {
    let (_, log, queued) = overload(single(), Ecn::Ect1, 20);
    // 4 MiB hold 1820 frames of 2304 B; at 165 frames/s of surplus they are full after 11 s. From then on BLUE drops too.
    assert!(log.queue.ce_marks > 1_000 && log.queue.drops_overflow > 10 && log.queue.drops_aqm > 100, "{log:?}");
    assert!(queued <= 1820);
}

/// Sojourn times (ms) of 120 % of the rate with SCE, of one flow that is ECT(0) and ignores marks.
fn with_sce(params: Params, ecn: Ecn) -> (Vec<f64>, Counters) {
    let (sojourns, log, _) = overload(Params { sce: sce::SceMode::On, ..params }, ecn, 3);
    (sojourns, log)
}

#[test]
fn sce_marks_with_one_queue_and_with_a_queue_for_every_flow() {
    for params in [single(), Params::default()] {
        let (sojourns, log) = with_sce(params, Ecn::Ect0);
        // Beyond the target all that is not CE is SCE.
        let over = sojourns.iter().filter(|&&ms| ms > 5.0).count() as u64;
        let marks = log.queue.sce_marks + log.queue.ce_marks;
        assert!(marks >= over && marks <= over + 10 && log.queue.ce_marks > 10, "{marks} marks of {over}");
        assert_eq!((log.flows.flow_counters(0).sce, log.flows.flow_counters(0).sce_dropped), (log.queue.sce_marks, 0));
    }
}

#[test]
fn sce_marks_a_sparse_flow_too() {
    let params = Params { sce: sce::SceMode::On, ..Params::default() };
    let (mut state, mut log) = cake(params, &keys(&[(1, 2)]));
    state.enqueue(packet(0, 0, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
    // over the target of 5 ms and four frames (4.84 ms)
    let Dequeue::Packet(sent) = state.dequeue(Instant::from_millis(6), &mut log) else { panic!("a packet is queued") };
    assert_eq!((sent.ecn(), log.queue.sce_marks, log.queue.ce_marks), (Ecn::Ect1, 1, 0));
}

#[test]
fn sce_changes_nothing_but_ect0() {
    for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
        let (sojourns, log) = with_sce(single(), ecn);
        let (plain_sojourns, plain, _) = overload(single(), ecn, 3);
        assert_eq!(log.queue.sce_marks, 0);
        assert_eq!(
            (sojourns, log.queue.ce_marks, log.queue.drops_aqm),
            (plain_sojourns, plain.queue.ce_marks, plain.queue.drops_aqm),
            "{ecn:?}"
        );
    }
}

#[test]
fn sce_disturbs_no_other_draw() {
    // Full memory: BLUE draws, and the flow's marks change nothing else.
    let params = Params { memlimit: Some(100_000), ..single() };
    let (sojourns, log) = with_sce(params.clone(), Ecn::Ect0);
    let (plain_sojourns, plain, _) = overload(params, Ecn::Ect0, 3);
    assert!(plain.queue.drops_aqm > 10 && plain.queue.sce_marks == 0 && log.queue.sce_marks > 100, "{plain:?} {log:?}");
    assert_eq!(
        (sojourns, log.queue.ce_marks, log.queue.drops_aqm),
        (plain_sojourns, plain.queue.ce_marks, plain.queue.drops_aqm)
    );
}

#[test]
fn the_threshold_sets_the_share_of_marks_at_the_target() {
    // 300 times a packet that waited for exactly the target (5 ms): 1/4 is marked; 75 +- 5 sqrt(300 / 4 * 3 / 4) = 75 +- 37.5
    let params = Params { sce: sce::SceMode::Thresh, sce_thresh: 4, ..single() };
    let (mut state, mut log) = cake(params, &keys(&[(1, 2)]));
    for seq in 0..300 {
        let now = Instant::from_millis(20 * seq);
        state.enqueue(packet(0, seq, 1514, Ecn::Ect0), now, &mut log);
        assert!(matches!(state.dequeue(now + Duration::from_millis(5), &mut log), Dequeue::Packet(_)));
    }
    assert!((38..=112).contains(&log.queue.sce_marks) && log.queue.ce_marks == 0, "{}", log.queue.sce_marks);
}

#[test]
fn ingress_charges_what_it_drops() {
    // The rate that arrives (sent and dropped) is held at 10 Mbit/s, so less is sent.
    let sent = |ingress| {
        let (sojourns, log, _) = overload(Params { ingress, ..single() }, Ecn::NotEct, 20);
        (sojourns.len() as f64 * 1_211_200.0 / 20e9, log.queue.drops_aqm as f64 * 1_211_200.0 / 20e9)
    };
    let (egress_sent, _) = sent(false);
    let (ingress_sent, ingress_dropped) = sent(true);
    assert!((egress_sent - 1.0).abs() < 0.01, "{egress_sent}");
    // The failsafe keeps what is sent above 2/3.
    assert!(ingress_sent < 0.97 && ingress_sent > 0.66 && ingress_dropped > 0.03, "{ingress_sent} {ingress_dropped}");
}

#[test]
fn the_last_packet_of_a_flow_is_marked_but_not_dropped() {
    for (ecn, expected) in [(Ecn::NotEct, Ecn::NotEct), (Ecn::Ect0, Ecn::Ce)] {
        let (mut state, mut log) = cake(single(), &keys(&[(1, 2)]));
        let slot = state.table.slot(0) as usize;
        state.table.flows[slot].cobalt.queue_full(&state.tins[0].thresholds, Instant::ZERO);
        state.enqueue(packet(0, 0, 1514, ecn), Instant::ZERO, &mut log);
        let Dequeue::Packet(sent) = state.dequeue(Instant::from_millis(50), &mut log) else { panic!("a packet is queued") };
        assert_eq!((sent.ecn(), log.queue.drops_aqm), (expected, 0));
        assert_eq!(log.queue.ce_marks, u64::from(ecn == Ecn::Ect0));
    }
}

#[test]
fn places_of_packets_are_used_again() {
    let (mut state, mut log) = cake(Params::default(), &keys(&[(1, 2)]));
    let mut now = Instant::ZERO;
    for seq in 0..10_000 {
        state.enqueue(packet(0, seq, 1514, Ecn::Ect0), now, &mut log);
        if seq >= 20 {
            let Dequeue::Packet(sent) = state.dequeue(now, &mut log) else { panic!("the shaper is slower than this story") };
            assert_eq!(sent.number(), seq - 20);
        }
        now += Duration(1_211_200);
    }
    assert_eq!((state.store.places(), state.packets()), (21, 20));
}

#[test]
fn an_idle_tin_saves_no_credit() {
    let mut flows = keys(&[(1, 11), (2, 12)]);
    flows[1].dscp = 46;
    let (mut state, mut log) = cake(Params::default(), &flows);
    for seq in 0..1500 {
        state.enqueue(packet(0, seq, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
    }
    drain(&mut state, &mut log, Instant::ZERO, Instant::from_millis(500));
    let start = Instant::from_millis(500);
    for seq in 0..300 {
        state.enqueue(packet(1, seq, 1514, Ecn::Ect0), start, &mut log);
    }
    let sent = drain(&mut state, &mut log, start, Instant::from_millis(1000));
    let voice = sent.iter().filter(|(_, packet)| packet.flow == 1).count();
    // 2.5 Mbit/s for 0.5 s are 103 frames; the half second before would be as many again
    assert!((100..=106).contains(&voice), "{voice}");
}

#[test]
fn ingress_charges_what_does_not_fit() {
    let next = |ingress| {
        let params = Params { ingress, memlimit: Some(2304), ..single() };
        let (mut state, mut log) = cake(params, &keys(&[(1, 2)]));
        for seq in 0..3 {
            state.enqueue(packet(0, seq, 1514, Ecn::Ect0), Instant::ZERO, &mut log);
        }
        assert_eq!(log.queue.drops_overflow, 2);
        state.tins[0].next
    };
    // The tin's clock runs at most one packet ahead.
    assert_eq!((next(false), next(true)), (Instant::ZERO, Instant(1_211_200)));
}

#[test]
fn hosts_are_counted_as_often_as_they_have_bulk_flows() {
    // 3000 flows of 50 sources and 40 destinations over 1024 queues: collisions are the rule
    let hosts: Vec<(u32, u32)> = (0..3000).map(|i| (i % 50, i % 40)).collect();
    let flows = keys(&hosts);
    for isolation in [Isolation::TripleIsolate, Isolation::DualSrcHost, Isolation::DualDstHost, Isolation::Flows] {
        let params =
            Params { isolation, bandwidth: Some(Rate::from_mbit(100)), rtt: Duration::from_millis(1), ..Params::default() };
        let (mut state, mut log) = cake(params, &flows);
        let (mut rng, mut now) = (Rng::stream(3, "test", 0), Instant::ZERO);
        for round in 0..200 {
            for _ in 0..100 {
                state.enqueue(packet(rng.draw_below(3000) as u32, round, 1514, Ecn::Ect0), now, &mut log);
            }
            let until = now + Duration::from_millis(if round % 20 == 19 { 200 } else { 2 });
            drain(&mut state, &mut log, now, until);
            now = until;
            assert!(state.table.hosts_are_counted_right(), "{isolation:?}, round {round}");
        }
        let bulk = state.table.flows.iter().filter(|flow| flow.state == FlowState::Bulk).count();
        assert_eq!(bulk as u32, state.tins.iter().map(|tin| tin.bulk_flows).sum::<u32>());
    }
}

#[test]
fn tins_count_what_they_sent_and_marked() {
    // two flows of best effort and voice at a tenth of what they offer: both tins mark, and together as much as the log
    let keys = [0_u8, 46].map(|dscp| FlowKey { src_host: 1, dst_host: 2, ports: u32::from(dscp), dscp });
    let (mut cake, mut log) = cake(Params { sce: sce::SceMode::On, ..Params::default() }, &keys);
    let (mut sent, mut now) = (0, Instant::ZERO);
    for step in 0..20_000_u64 {
        now = Instant::from_micros(200 * step);
        for flow in 0..2 {
            let packet = Packet { flow, len: 1514, ..Packet::new_tcp(step, Ecn::Ect0, 0) };
            cake.enqueue(packet, now, &mut log);
        }
        while let Dequeue::Packet(_) = cake.dequeue(now, &mut log) {
            sent += 1;
        }
    }
    let tins: Vec<_> = log.internal.iter().collect();
    assert_eq!(tins.iter().map(|tin| tin.0).collect::<Vec<_>>(), ["tin0", "tin1", "tin2"]);
    let sum = |of: fn(&InternalCounters) -> u64| tins.iter().map(|tin| of(tin.1)).sum::<u64>();
    assert!(now > Instant::ZERO && sent > 0);
    assert_eq!(sum(|tin| tin.packets), sent);
    assert_eq!(sum(|tin| tin.sojourn_ns), log.queue.sojourn_ns);
    assert_eq!(sum(|tin| tin.ce_marks), log.queue.ce_marks);
    assert_eq!(sum(|tin| tin.sce_marks), log.queue.sce_marks);
    assert_eq!(sum(|tin| tin.drops), log.queue.drops_overflow + log.queue.drops_aqm);
    assert!(tins[0].1.ce_marks > 0 && tins[2].1.sce_marks > 0, "{tins:?}");
}
