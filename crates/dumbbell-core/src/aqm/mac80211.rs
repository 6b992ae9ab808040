//! The queues of a Linux access point: FQ-CoDel for each station, and turns of the stations by airtime, over one medium.
//!
//! Specification: `net/mac80211` of Linux: [`fq_codel`](super::fq_codel) with `version = "mac80211"` for each station, and deficit round robin of stations
//! (`ieee80211_next_txq`, `ieee80211_sta_register_airtime`, net/mac80211/tx.c and sta_info.c): a station in front whose deficit is negative gets
//! `weight` microseconds and goes to the back; otherwise it is served, and pays for the airtime that it used. A station that gets its first packet
//! comes to the front, as long as its deficit allows. Høiland-Jørgensen et al., "Ending the Anomaly: Achieving Low Latency and Airtime Fairness in
//! WiFi" (USENIX ATC 2017), describe and measure it. With `turns = "aggregates"` each station in turn sends one aggregate, whatever time that takes;
//! with `frames = 1` besides, slow stations use most of the time: the performance anomaly of 802.11.
//!
//! A station is the host at the lower end of the hop (`dst_host`); those from `slow_from` on have `slow_rate`, the others the rate of the hop. In its turn a
//! station sends one aggregate: at most the packets that wait when it begins, `frames` of them, and `longest` of airtime. The medium is then busy
//! for `overhead` and for the bytes at the station's rate, and no packet leaves.
//!
//! Deviations: stations only receive, and nothing else uses the medium: no contention, collisions, retransmissions, rate control, access categories (EDCA)
//! or headers of 802.11. Packets leave as their aggregate is sent at the rate of the hop: the last packet of a slow station leaves up to `longest` too early.
//! The limits of packets and memory hold for each station, where Linux has one for all; each station has its own hash. The airtime queue limit (AQL)
//! has no effect here, because there is no queue below.

use super::child_log::ChildLog;
use super::fq_codel::{self, FqCodelVersion};
use super::{Aqm, Dequeue, FlowKey, QueueContext};
use crate::choice;
use crate::link_layer::LinkLayer;
use crate::log::Log;
use crate::packet::Packet;
use crate::param::ParamError;
use crate::slots::SlotTable;
use crate::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// Name in experiment files.
pub const NAME: &str = "mac80211";
/// One line.
pub const TITLE: &str = "a Linux access point: FQ-CoDel for each station, turns of stations by airtime";
/// Specification and deviations.
pub const SOURCE: &str = "Linux net/mac80211/tx.c, sta_info.c, include/net/fq_impl.h; Høiland-Jørgensen et al., USENIX ATC 2017; one direction, no contention, limits for each station; compared with that paper's claim of equal airtime, not with a testbed";

choice! {
    /// How stations take turns.
    pub enum Turns {
        /// By airtime, as in Linux since 4.11.
        Airtime = "airtime",
        /// One aggregate each, as before.
        Aggregates = "aggregates",
    }
}

crate::params! {
    /// Parameters of an access point.
    pub struct Params {
        /// How stations take turns.
        turns: Turns = Turns::Airtime, unit "", source "Høiland-Jørgensen et al., USENIX ATC 2017: airtime fairness, in Linux 4.11";
        /// Number of the first host that is slow; unset: no station is.
        slow_from: Option<u32> = None, unit "host", range 0_u32, u32::MAX, source "ours";
        /// Rate of slow stations, at most that of the hop.
        slow_rate: Rate = Rate(7_200_000), unit "", range Rate(1000), Rate(10_000_000_000_000), source "IEEE 802.11-2016 section 19.5: MCS 0 of HT20 with a short guard interval";
        /// Airtime that a station gets in a turn.
        weight: Duration = Duration::from_micros(256), unit "", range Duration::from_micros(1), Duration::from_secs(1), source "Linux cfg80211.h: IEEE80211_DEFAULT_AIRTIME_WEIGHT";
        /// Most packets of an aggregate.
        frames: u32 = 64, unit "packets", range 1_u32, 1_024_u32, source "Linux ieee80211.h: IEEE80211_MAX_AMPDU_BUF_HT";
        /// Longest airtime of an aggregate, `overhead` left out; a single packet may take longer.
        longest: Duration = Duration::from_millis(4), unit "", range Duration::from_micros(1), Duration::from_secs(1), source "Linux ath9k: aggregates of at most 4 ms";
        /// Time of the medium for each aggregate besides its bytes: waiting for the medium, preamble, block acknowledgement.
        overhead: Duration = Duration::from_micros(200), unit "", range Duration::from_micros(1), Duration::from_millis(100), source "ours: about the sum of DIFS, mean backoff, preamble, SIFS and block acknowledgement of 802.11n at 5 GHz";
        /// Packets that wait for a station before its longest queue loses some.
        limit: u32 = 8_192, unit "packets", range 1_u32, 100_000_000_u32, source "fq_impl.h: fq_init, for all stations";
        /// Target of CoDel.
        target: Duration = Duration::from_millis(20), unit "", range Duration(0), Duration::from_secs(10), source "sta_info.c: cparams.target = MS2TIME(20)";
        /// Interval of CoDel.
        interval: Duration = Duration::from_millis(100), unit "", range Duration::from_micros(2), Duration::from_secs(100), source "sta_info.c: cparams.interval = MS2TIME(100)";
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = true, unit "", source "sta_info.c: cparams.ecn = true";
    }
}

/// Flow queues of a station: 4096 for all stations in Linux, here for each.
const QUEUES: u32 = 256; // fq_impl.h: fq_init(fq, 4096) for the whole device; ours for a station

/// A station.
#[derive(Clone, Debug)]
struct Station {
    host: u32,
    queue: fq_codel::State,
    is_slow: bool,
    is_active: bool,
    /// Airtime that it may use, ns.
    deficit: i64,
}

/// The aggregate that leaves now.
#[derive(Clone, Copy, Debug)]
struct Aggregate {
    station: usize,
    begins: Instant,
    /// Packets that may still join.
    left: u32,
    bytes: u64,
}

/// Airtime and aggregates of fast or slow stations.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    nanos: u64,
    aggregates: u64,
}

/// Stations with their queues, and the medium.
#[derive(Clone, Debug)]
pub struct State {
    params: Params,
    context: QueueContext,
    layer: LinkLayer,
    rate: Rate,
    stations: Vec<Station>,
    /// Station of each flow.
    of_flow: SlotTable<u32>,
    /// Stations with packets, the next one first.
    active: VecDeque<u32>,
    aggregate: Option<Aggregate>,
    /// Until when the medium is busy.
    busy_until: Instant,
    packets: usize,
    bytes: u64,
    /// By whether stations are slow.
    used: [Used; 2],
}

impl State {
    /// An access point without stations.
    pub fn new(params: Params, context: &QueueContext) -> State {
        State {
            context: *context,
            layer: context.link_layer,
            rate: context.rate,
            stations: Vec::new(),
            of_flow: SlotTable::default(),
            active: VecDeque::new(),
            aggregate: None,
            busy_until: Instant::ZERO,
            packets: 0,
            bytes: 0,
            used: [Used::default(); 2],
            params,
        }
    }

    fn build_queue(&self) -> fq_codel::State {
        let Params { limit, target, interval, ecn, .. } = self.params;
        let of_wifi = fq_codel::Params { flows: QUEUES, limit, target, interval, ecn, ..FqCodelVersion::Mac80211.sets() };
        fq_codel::State::new(of_wifi, &self.context)
    }

    fn is_slow(&self, host: u32) -> bool {
        self.params.slow_from.is_some_and(|first| host >= first)
    }

    /// Returns the number of the station of `host`, which is new if no flow had it.
    fn find_station(&mut self, host: u32) -> usize {
        if let Some(number) = self.stations.iter().position(|one| one.host == host) {
            return number;
        }
        let deficit = self.params.weight.0 as i64;
        let (queue, is_slow) = (self.build_queue(), self.is_slow(host));
        self.stations.push(Station { host, queue, is_slow, is_active: false, deficit });
        self.stations.len() - 1
    }

    /// Returns the airtime of `bytes` for a station, without the overhead.
    fn airtime(&self, is_slow: bool, bytes: u64) -> Duration {
        let rate = match (is_slow, self.rate) {
            (false, rate) => rate,
            (true, Rate::UNLIMITED) => self.params.slow_rate,
            (true, rate) => rate.min(self.params.slow_rate),
        };
        rate.serialise(bytes)
    }

    /// Chooses the station whose turn it is, and begins its aggregate. Returns whether there is one.
    fn begin_aggregate(&mut self, now: Instant) -> bool {
        while let Some(&number) = self.active.front() {
            let one = &mut self.stations[number as usize];
            let waiting = one.queue.packets();
            if waiting == 0 {
                one.is_active = false;
                self.active.pop_front();
                continue;
            }
            if self.params.turns == Turns::Airtime && one.deficit < 0 {
                one.deficit += self.params.weight.0 as i64;
                self.active.rotate_left(1);
                continue;
            }
            let left = u32::try_from(waiting).unwrap_or(u32::MAX).min(self.params.frames);
            self.aggregate = Some(Aggregate { station: number as usize, begins: now, left, bytes: 0 });
            return true;
        }
        false
    }

    /// The aggregate is complete: its station pays for it, and the medium is busy until all of it is sent.
    fn end_aggregate(&mut self, aggregate: Aggregate) {
        let is_slow = self.stations[aggregate.station].is_slow;
        let used = self.params.overhead + self.airtime(is_slow, aggregate.bytes);
        self.stations[aggregate.station].deficit -= used.0 as i64;
        self.busy_until = aggregate.begins + used;
        let of = &mut self.used[usize::from(is_slow)];
        of.nanos += used.0;
        of.aggregates += 1;
        if self.params.turns == Turns::Aggregates {
            self.active.rotate_left(1);
        }
        self.aggregate = None;
    }

    /// Takes the next packet of the aggregate; ends it if it has no further one.
    #[inline]
    fn take<L: Log>(&mut self, mut aggregate: Aggregate, now: Instant, log: &mut L) -> Option<Packet> {
        let one = &mut self.stations[aggregate.station];
        let before = (one.queue.packets(), one.queue.bytes());
        let next = one.queue.dequeue(now, &mut ChildLog { log, first: aggregate.station as u32 * QUEUES });
        self.packets -= before.0 - one.queue.packets();
        self.bytes -= before.1 - one.queue.bytes();
        let is_slow = one.is_slow;
        let Dequeue::Packet(packet) = next else {
            // all that waited was dropped
            if aggregate.bytes > 0 {
                self.end_aggregate(aggregate);
            }
            self.aggregate = None;
            return None;
        };
        aggregate.bytes += u64::from(self.layer.wire_bytes(packet.len));
        aggregate.left -= 1;
        let with_another = aggregate.bytes + u64::from(self.layer.wire_bytes(self.context.full_frame));
        let is_full = aggregate.left == 0 || self.airtime(is_slow, with_another) > self.params.longest;
        if is_full || self.stations[aggregate.station].queue.packets() == 0 {
            self.end_aggregate(aggregate);
        } else {
            self.aggregate = Some(aggregate);
        }
        Some(packet)
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        let number = self.find_station(key.dst_host);
        *self.of_flow.entry(flow) = number as u32;
        self.stations[number].queue.flow_starts(flow, key);
    }

    #[inline]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let number = self.of_flow[packet.flow];
        let one = &mut self.stations[number as usize];
        let before = (one.queue.packets(), one.queue.bytes());
        one.queue.enqueue(packet, now, &mut ChildLog { log, first: number * QUEUES });
        let after = (one.queue.packets(), one.queue.bytes());
        self.packets = self.packets + after.0 - before.0;
        self.bytes = self.bytes + after.1 - before.1;
        if !one.is_active && after.0 > 0 {
            one.is_active = true;
            if self.params.turns == Turns::Airtime {
                self.active.push_front(number);
            } else {
                self.active.push_back(number);
            }
        }
    }

    #[inline]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        loop {
            if self.packets == 0 {
                if let Some(aggregate) = self.aggregate {
                    self.end_aggregate(aggregate);
                }
                return Dequeue::Empty;
            }
            if self.aggregate.is_none() {
                if self.busy_until > now {
                    return Dequeue::Wait(self.busy_until);
                }
                if !self.begin_aggregate(now) {
                    return Dequeue::Empty;
                }
            }
            if let Some(packet) = self.aggregate.and_then(|aggregate| self.take(aggregate, now, log)) {
                return Dequeue::Packet(packet);
            }
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn changeable(&self) -> &'static [&'static str] {
        &["slow_from", "slow_rate", "weight", "frames", "longest", "overhead", "limit", "target", "interval", "ecn"]
    }

    /// Linux changes `limit` by `ieee80211_txq_set_params`, `weight` by station (`sta_apply_airtime_params`), those of CoDel by `sta_update_codel_params`, and rates and aggregates
    /// as drivers say: packets, deficits and the aggregate that leaves stay.
    fn take_params(&mut self, fresh: State, now: Instant) -> Result<(), ParamError> {
        self.params = fresh.params;
        for number in 0..self.stations.len() {
            let queue = self.build_queue();
            self.stations[number].queue.take_params(queue, now)?;
            self.stations[number].is_slow = self.is_slow(self.stations[number].host);
        }
        Ok(())
    }

    fn set_rate(&mut self, rate: Rate, _now: Instant) {
        self.rate = rate;
    }

    fn shapes(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let [fast, slow] = self.used;
        let of = |name: &str, used: Used| {
            [(format!("{name}_airtime_us"), used.nanos / 1000), (format!("{name}_aggregates"), used.aggregates)]
        };
        [of("fast", fast), of("slow", slow)].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// An access point at 120 Mbit/s with stations 1 and 2, and station 9 at 6 Mbit/s; flow n is that of station n.
    fn access_point(params: Params) -> (State, Counters) {
        let params = Params { slow_from: Some(9), slow_rate: Rate::from_mbit(6), overhead: US(100), ..params };
        let mut state = State::new(params, &QueueContext::new(Rate::from_mbit(120), 1));
        for flow in [1, 2, 9] {
            state.flow_starts(flow, &FlowKey { src_host: 100, dst_host: flow, ports: flow, dscp: 0 });
        }
        (state, Counters::default())
    }

    fn arrive(state: &mut State, log: &mut Counters, flow: u32, count: u64) {
        (0..count).for_each(|seq| {
            let arriving = Packet { flow, len: 1500, ..packet(seq, Ecn::NotEct) };
            state.enqueue(arriving, Instant::ZERO, log);
        });
    }

    /// Lets packets leave for `time` without a link: the station and number of packets of each aggregate, and when it began.
    fn serve(state: &mut State, log: &mut Counters, until: Instant) -> Vec<(u32, u32, u64)> {
        let (mut now, mut found) = (Instant::ZERO, Vec::<(u32, u32, u64)>::new());
        while now < until {
            match state.dequeue(now, log) {
                Dequeue::Packet(packet) => match found.last_mut().filter(|last| last.2 == now.0 / 1000) {
                    Some(last) => last.1 += 1,
                    None => found.push((packet.flow, 1, now.0 / 1000)),
                },
                Dequeue::Wait(time) => now = time,
                Dequeue::Empty => break,
            }
        }
        found
    }

    #[test]
    fn an_aggregate_has_what_waits_up_to_64_packets_and_4_ms() {
        let (mut state, mut log) = access_point(Params { longest: US(10_000), ..Params::default() });
        arrive(&mut state, &mut log, 1, 100);
        // 64 packets of 1500 B at 120 Mbit/s take 6400 us, 36 take 3600
        assert_eq!(serve(&mut state, &mut log, Instant::from_millis(100)), [(1, 64, 0), (1, 36, 6_500)]);
        let (mut other, mut other_log) = access_point(Params::default());
        arrive(&mut other, &mut other_log, 1, 50);
        arrive(&mut other, &mut other_log, 9, 4);
        // 39 packets take 3900 us, and a full frame of 1514 B would take 100.9 more; at 6 Mbit/s a packet takes 2000, so that one alone fits
        let (both, slow): (Vec<_>, Vec<_>) =
            serve(&mut other, &mut other_log, Instant::from_millis(100)).into_iter().partition(|one| one.0 == 1);
        assert_eq!(both.iter().map(|one| one.1).collect::<Vec<_>>(), [39, 11]);
        assert_eq!(slow.iter().map(|one| one.1).collect::<Vec<_>>(), [1, 1, 1, 1]);
    }

    #[test]
    fn the_medium_is_busy_for_overhead_and_bytes() {
        let (mut state, mut log) = access_point(Params::default());
        arrive(&mut state, &mut log, 9, 1);
        assert!(matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Packet(_)));
        assert!(matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Empty));
        // 1500 B at 6 Mbit/s are 2000 us
        arrive(&mut state, &mut log, 1, 1);
        assert!(matches!(state.dequeue(Instant::from_micros(2_099), &mut log), Dequeue::Wait(Instant(2_100_000))));
        assert!(matches!(state.dequeue(Instant::from_micros(2_100), &mut log), Dequeue::Packet(_)));
        assert_eq!(
            state.counters().iter().map(|one| one.1).collect::<Vec<_>>(),
            // 100 us and 1500 B at 120 Mbit/s, and 2100 us
            [200, 1, 2_100, 1]
        );
    }

    /// Shares of airtime of stations 1, 2 and 9 in a second in which all have packets.
    fn shares(turns: Turns) -> [f64; 3] {
        let (mut state, mut log) = access_point(Params { turns, target: Duration::from_secs(10), ..Params::default() });
        [1, 2, 9].into_iter().for_each(|flow| arrive(&mut state, &mut log, flow, 8_000));
        let mut used = [0.0; 3];
        for (flow, count, _) in serve(&mut state, &mut log, Instant::from_secs(1)) {
            let index = [1, 2, 9].iter().position(|one| *one == flow).unwrap();
            used[index] += 100.0 + f64::from(count) * if flow == 9 { 2_000.0 } else { 100.0 };
        }
        used.map(|one| one / used.iter().sum::<f64>())
    }

    #[test]
    fn stations_share_the_airtime_or_take_turns_of_one_aggregate() {
        // within an aggregate of 4 ms in a second
        for share in shares(Turns::Airtime) {
            assert!((share - 1.0 / 3.0).abs() < 0.005, "{share}");
        }
        // 39 packets: 4000 us, twice; one packet: 2100 us
        for (share, expected) in shares(Turns::Aggregates).into_iter().zip([4_000.0, 4_000.0, 2_100.0]) {
            assert!((share - expected / 10_100.0).abs() < 0.005, "{share}");
        }
    }

    #[test]
    fn a_station_that_comes_back_goes_ahead_unless_it_owes_airtime() {
        let (mut state, mut log) = access_point(Params { target: Duration::from_secs(10), ..Params::default() });
        arrive(&mut state, &mut log, 1, 200);
        arrive(&mut state, &mut log, 2, 1);
        // station 2 came last, and is first
        let first = serve(&mut state, &mut log, Instant::from_micros(1));
        assert_eq!(first[0].0, 2);
        // 200 us of 256 are used: it goes ahead once more, and then owes 144 us
        arrive(&mut state, &mut log, 2, 1);
        let Dequeue::Packet(second) = state.dequeue(Instant::from_micros(200), &mut log) else { panic!("a packet") };
        assert_eq!((second.flow, state.stations[1].deficit), (2, -144_000));
        arrive(&mut state, &mut log, 2, 1);
        let Dequeue::Packet(third) = state.dequeue(Instant::from_micros(400), &mut log) else { panic!("a packet") };
        assert_eq!(third.flow, 1);
    }

    #[test]
    fn stations_change_their_rates_and_keep_packets_and_deficits() {
        let (mut state, mut log) = access_point(Params::default());
        arrive(&mut state, &mut log, 9, 3);
        assert!(matches!(state.dequeue(Instant::ZERO, &mut log), Dequeue::Packet(_)));
        // 2000 us at 6 Mbit/s and 100 us of overhead, of 256 us
        assert_eq!(state.stations[2].deficit, 256_000 - 2_100_000);
        let params = Params { slow_rate: Rate::from_mbit(12), limit: 1, overhead: US(150), ..state.params.clone() };
        let fresh = State::new(params.clone(), &QueueContext::new(Rate::from_mbit(120), 1));
        state.take_params(fresh, Instant::from_micros(1_000)).unwrap();
        assert_eq!((state.packets(), state.stations[2].deficit), (2, 256_000 - 2_100_000));
        assert!(matches!(state.dequeue(Instant::from_micros(2_099), &mut log), Dequeue::Wait(Instant(2_100_000))));
        // 1000 us a packet: both fit into an aggregate of 4 ms, which with 150 us of overhead ends at 4250 us
        for _ in 0..2 {
            assert!(matches!(state.dequeue(Instant::from_micros(2_100), &mut log), Dequeue::Packet(_)));
        }
        // a queue of one packet drops the others that come
        arrive(&mut state, &mut log, 9, 3);
        assert_eq!((state.packets(), log.queue.drops_overflow), (1, 2));
        assert!(matches!(state.dequeue(Instant::from_micros(2_100), &mut log), Dequeue::Wait(Instant(4_250_000))));
        // station 2 becomes slow: 1500 B take 1000 us instead of 100
        let slower = State::new(Params { slow_from: Some(2), ..params }, &QueueContext::new(Rate::from_mbit(120), 1));
        state.take_params(slower, Instant::from_micros(2_100)).unwrap();
        assert_eq!(state.stations.iter().map(|one| one.is_slow).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn a_standing_queue_of_20_ms_is_signalled() {
        let (mut state, mut log) = access_point(Params::default());
        arrive(&mut state, &mut log, 1, 5_000);
        serve(&mut state, &mut log, Instant::from_millis(90));
        assert_eq!(log.queue.drops_aqm, 0);
        serve(&mut state, &mut log, Instant::from_secs(1));
        assert!(log.queue.drops_aqm > 0);
        assert_eq!(
            (state.packets() as u64 + log.queue.sent + log.queue.drops_aqm, state.bytes()),
            (5_000, 1500 * state.packets() as u64)
        );
    }
}
