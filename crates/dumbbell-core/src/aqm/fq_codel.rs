//! FQ-CoDel: a CoDel for every flow queue, served by deficit round robin with new flows first.
//!
//! Specification: RFC 8290 as in Linux `net/sched/sch_fq_codel.c` (6.18), tc-fq_codel(8). The parts are [`super::drr`] and
//! [`super::codel`]. CoDel's guard against dropping the last packets looks at the bytes of all queues, as in Linux.
//!
//! Deviations: flows are hashed by hosts and ports only (no filters, no classes by priority); of the selectors of `ce_threshold`
//! there are "all packets" and "ECT(1)".
//!
//! With `version = "mac80211"` it has the values of the queues of Linux's Wi-Fi stack (`net/mac80211/tx.c`, `include/net/fq_impl.h`), and CoDel's
//! guard looks at the bytes of its own queue. Deviations of that: one station, so that there is no turn of stations by airtime, and CoDel keeps
//! the last frame of a queue, where mac80211, which sets no `mtu`, drops it.

use super::codel::{CeSelector, Codel, CodelVars, ControlLaw, Source};
use super::drr::{FlowQueues, QueuedFlow};
use super::{Aqm, Dequeue, FlowKey, QueueContext};
use crate::hint::seldom;
use crate::log::{At, DropReason, DropSite, Log};
use crate::packet::Packet;
use crate::param::ParamError;
use crate::units::{Duration, Instant};

/// Name in experiment files.
pub const NAME: &str = "fq_codel";
/// One line.
pub const TITLE: &str = "flow queues by deficit round robin, CoDel in each";
/// Specification and deviations.
pub const SOURCE: &str =
    "RFC 8290 as in Linux 6.18 sch_fq_codel.c, tc-fq_codel(8), and mac80211 of Linux 6.12; no filters, no airtime of stations";

crate::versions! {
    /// Whose FQ-CoDel.
    pub enum FqCodelVersion sets Params = { Params::default() } {
        /// The queue discipline of Linux.
        Linux = "linux" {},
        /// The queues of Linux's Wi-Fi stack: fq_init and fq_flow_drop, fq_impl.h; ieee80211_txq_setup_flows, net/mac80211/tx.c.
        Mac80211 = "mac80211" {
            limit: 8_192,
            flows: 4_096,
            quantum: 300,
            memory_limit: 16 << 20,
            drop_batch: 32,
            target: Duration::from_millis(20),
        },
    }
}

crate::params! {
    /// Parameters of FQ-CoDel.
    pub struct Params {
        /// Whose FQ-CoDel; sets what is not given.
        version: FqCodelVersion = FqCodelVersion::Linux, unit "", source "sch_fq_codel.c; net/mac80211/tx.c and include/net/fq_impl.h of Linux 6.12: 20 ms, 300 bytes";
        /// Packets that fit into all queues together; beyond, the queue with the most bytes loses a batch.
        limit: u32 = 10_240, unit "packets", range 1_u32, 100_000_000_u32, source "tc-fq_codel(8)";
        /// Queues that flows are hashed to.
        flows: u32 = 1024, unit "queues", range 1_u32, 65_536_u32, source "tc-fq_codel(8); fq_codel_init, sch_fq_codel.c";
        /// Bytes that a flow sends per turn; by default one full frame of `hosts.mss`.
        quantum: u32 = 1514, unit "bytes", range 256_u32, 1_048_576_u32, frames 1, source "psched_mtu in fq_codel_init; tc-fq_codel(8); bounds of sch_fq_codel.c";
        /// Memory that packets may occupy, as Linux accounts it.
        memory_limit: u64 = 32 << 20, unit "bytes", range 1_u64, 1_u64 << 40, source "tc-fq_codel(8): 32 MB";
        /// Largest number of packets dropped at once when the queue is full.
        drop_batch: u32 = 64, unit "packets", range 1_u32, 1_000_000_u32, source "RFC 8290 section 4.1.1; tc-fq_codel(8)";
        /// Acceptable standing delay.
        target: Duration = Duration::from_millis(5), unit "", range Duration(0), Duration::from_secs(10), source "RFC 8290 section 5.2.1; tc-fq_codel(8)";
        /// Time above target before the first signal; in the order of a worst-case RTT.
        interval: Duration = Duration::from_millis(100), unit "", range Duration::from_micros(2), Duration::from_secs(100),
            source "RFC 8290 section 5.2.1; tc-fq_codel(8)";
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = true, unit "", source "tc-fq_codel(8): ecn is the default";
        /// Marks every packet with a longer sojourn time; unset: off.
        ce_threshold: Option<Duration> = None, unit "", range Duration(0), Duration::from_secs(100), source "tc-fq_codel(8): disabled by default";
        /// Which packets `ce_threshold` marks.
        ce_threshold_selector: CeSelector = CeSelector::All, unit "", source "tc-fq_codel(8): ce_threshold_selector";
        /// A flow queue that is found empty keeps the start of its time above target, so that a sparse flow may be signalled as
        /// soon as it waits for longer than `target` again.
        stale_when_empty: bool = false, unit "", source "true for Linux until 2026; fixed in 6.1.192, 6.12.117 (codel_dequeue, codel_impl.h)";
        /// How the control law is computed.
        control_law: ControlLaw = ControlLaw::Linux, unit "", source "Linux codel_impl.h; RFC 8289 section 5";
    } over FqCodelVersion;
}

/// One flow queue.
struct Guarded<'a> {
    queue: QueuedFlow<'a>,
    number: u32,
    /// CoDel's guard looks at its bytes alone.
    guards_itself: bool,
}

impl Source for Guarded<'_> {
    #[inline(always)]
    fn head(&mut self) -> Option<&mut Packet> {
        self.queue.head_mut()
    }
    #[inline(always)]
    fn discard(&mut self, _len: u16) {
        self.queue.pop();
    }
    #[inline(always)]
    fn backlog(&self) -> u64 {
        if self.guards_itself {
            seldom();
            self.queue.backlog()
        } else {
            self.queue.all_bytes()
        }
    }
    #[inline(always)]
    fn number(&self) -> u32 {
        self.number
    }
}

/// Flow queues with their parameters.
#[derive(Clone, Debug)]
pub struct State {
    limit: usize,
    memory_limit: u64,
    drop_batch: u32,
    codel: Codel,
    queues: FlowQueues<CodelVars>,
    guards_itself: bool,
}

impl State {
    /// Empty queues.
    pub fn new(params: Params, context: &QueueContext) -> State {
        let queues = FlowQueues::new(params.flows, params.quantum, context, "fq_codel hash");
        let codel = Codel::new(params.control_law, params.target, params.interval, params.ecn, context.full_frame)
            .with_ce_threshold(params.ce_threshold, params.ce_threshold_selector)
            .with_stale_when_empty(params.stale_when_empty);
        State {
            limit: params.limit as usize,
            memory_limit: params.memory_limit,
            drop_batch: params.drop_batch,
            codel,
            queues,
            guards_itself: params.version == FqCodelVersion::Mac80211,
        }
    }

    /// Drops from the head of the queue with the most bytes, until half of them or a batch of packets has gone.
    #[cold]
    fn drop_batch<L: Log>(&mut self, now: Instant, log: &mut L) {
        let index = self.queues.longest();
        let at = At { now, queue: index as u32 };
        let enough = self.queues.backlog_and_vars(index).0 / 2;
        let (mut packets, mut bytes) = (0, 0);
        while let Some(packet) = self.queues.take(index) {
            log.on_drop(&packet, DropReason::Overflow, DropSite::Queue, at);
            packets += 1;
            bytes += u64::from(packet.len);
            if packets >= self.drop_batch || bytes >= enough {
                break;
            }
        }
        let (_, vars) = self.queues.backlog_and_vars(index);
        vars.count = vars.count.wrapping_add(packets);
    }
}

impl Aqm for State {
    crate::fork_by_clone!();

    fn changeable(&self) -> &'static [&'static str] {
        &["limit", "quantum", "memory_limit", "drop_batch", "target", "interval", "ecn", "ce_threshold"]
    }

    fn take_params(&mut self, fresh: State, _now: Instant) -> Result<(), ParamError> {
        self.queues.take_quantum(&fresh.queues);
        let State { limit, memory_limit, drop_batch, codel, .. } = fresh;
        (self.limit, self.memory_limit, self.drop_batch, self.codel) = (limit, memory_limit, drop_batch, codel);
        Ok(())
    }

    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        self.queues.flow_starts(flow, key, CodelVars::default());
    }

    #[inline(always)]
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let index = self.queues.of_flow(packet.flow);
        self.queues.push(index, packet, now, log);
        if self.queues.packets() > self.limit || self.queues.memory() > self.memory_limit {
            self.drop_batch(now, log);
        }
    }

    #[inline(always)]
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        while let Some(index) = self.queues.turn() {
            let number = index as u32;
            let (queue, vars) = self.queues.queue_and_vars(index);
            let mut source = Guarded { queue, number, guards_itself: self.guards_itself };
            if self.codel.judge(vars, &mut source, now, log) {
                if let Some(packet) = source.queue.send() {
                    log.on_dequeue(&packet, At { now, queue: number });
                    self.queues.prefetch_next();
                    return Dequeue::Packet(packet);
                }
            }
            self.queues.went_empty(index);
        }
        Dequeue::Empty
    }

    look_at_queues!();

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("count", f64::from(self.queues.iter_vars().map(|vars| vars.count).max().unwrap_or(0)));
        tell("dropping", self.queues.iter_vars().filter(|vars| vars.is_dropping()).count() as f64);
    }

    fn counters(&self) -> Vec<(String, u64)> {
        vec![("new_flows".into(), self.queues.new_flows)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{context, packet, start_flows};
    use super::*;
    use crate::packet::Ecn;
    use crate::record::Counters;

    #[test]
    fn the_queues_of_wifi_have_their_own_values() {
        let read = |value: serde_json::Value| Params::from_json(value.as_object().unwrap()).unwrap();
        let of_wifi = read(serde_json::json!({"version": "mac80211"}));
        assert_eq!(
            (of_wifi.target, of_wifi.interval, of_wifi.quantum),
            (Duration::from_millis(20), Duration::from_millis(100), 300)
        );
        assert_eq!((of_wifi.limit, of_wifi.flows, of_wifi.memory_limit, of_wifi.ecn), (8_192, 4_096, 16 << 20, true));
        assert_eq!(read(serde_json::json!({"version": "mac80211", "target": 5_000_000})).target, Duration::from_millis(5));
        assert_eq!(read(serde_json::json!({})).target, Duration::from_millis(5));
    }

    #[test]
    fn wifi_guards_the_last_frame_of_each_queue() {
        // a flow whose queue never holds more than a frame, behind one that holds many: CoDel signals it, unless the guard looks at its own queue
        let marked = |version: FqCodelVersion| {
            let params = Params { version, quantum: 1_514, target: Duration::from_millis(5), ..Params::default() };
            let mut state = state(params);
            let mut counters = Counters::default();
            for number in 0..60 {
                let now = Instant::from_millis(20 * number);
                if number == 0 {
                    (0..200).for_each(|_| state.enqueue(packet(0, Ecn::Ect0), now, &mut counters));
                }
                state.enqueue(Packet { flow: 1, ..packet(number, Ecn::Ect0) }, now, &mut counters);
                for _ in 0..2 {
                    if let Dequeue::Packet(packet) = state.dequeue(now + Duration::from_millis(15), &mut counters) {
                        if packet.flow == 1 && packet.ecn() == Ecn::Ce {
                            return true;
                        }
                    }
                }
            }
            false
        };
        assert!(marked(FqCodelVersion::Linux) && !marked(FqCodelVersion::Mac80211));
    }

    /// Two flows, which do not collide.
    fn state(params: Params) -> State {
        let mut state = State::new(params, &context(10));
        start_flows(&mut state, 2);
        assert_eq!(state.queues.len(), 2);
        state
    }

    fn fill_queue(packets: u64, limit: u32) -> (State, Counters) {
        let mut state = state(Params { limit, ..Params::default() });
        let mut log = Counters::default();
        (0..packets).for_each(|seq| state.enqueue(packet(seq, Ecn::Ect0), Instant::ZERO, &mut log));
        (state, log)
    }

    #[test]
    fn a_batch_is_half_of_the_bytes_or_64_packets() {
        // 101 * 1514 B, half 76457 B: 50 packets are 75700 B, 51 are enough; 100 * 1514 B: 50 are half; 64 are less than half of 300
        for (queued, dropped) in [(101, 51), (100, 50), (300, 64)] {
            let (mut state, mut log) = fill_queue(queued, 10_240);
            state.drop_batch(Instant::ZERO, &mut log);
            assert_eq!((log.queue.drops_overflow, state.queues.backlog_and_vars(0).1.count), (dropped, dropped as u32));
            assert_eq!(state.packets() as u64, queued - dropped);
        }
        // one packet too many
        assert_eq!(fill_queue(101, 100).1.queue.drops_overflow, 51);
    }

    #[test]
    fn a_lone_packet_beyond_the_limit_is_dropped() {
        // 2 packets, limit 1: half of the bytes is one packet
        let (state, log) = fill_queue(2, 1);
        assert_eq!((log.queue.drops_overflow, state.packets()), (1, 1));
    }

    #[test]
    fn memory_counts_as_linux_accounts_it() {
        let params = Params { memory_limit: 10 * 2280, ..Params::default() };
        let mut state = state(params);
        let mut log = Counters::default();
        (0..10).for_each(|seq| state.enqueue(packet(seq, Ecn::Ect0), Instant::ZERO, &mut log));
        assert_eq!(log.queue.drops_overflow, 0);
        state.enqueue(packet(10, Ecn::Ect0), Instant::ZERO, &mut log);
        // 11 packets, half of 16654 B is 8327 B: 6 packets
        assert_eq!(log.queue.drops_overflow, 6);
    }

    #[test]
    fn a_batch_before_the_first_signal_does_not_make_a_drop_rate() {
        let (mut state, mut log) = fill_queue(101, 100);
        // half of 101 * 1514 B are 51 packets: the count says so, but the first signal, after 100 ms above target, is the first
        assert_eq!(state.queues.backlog_and_vars(0).1.count, 51);
        assert!(matches!(state.dequeue(Instant::from_millis(10), &mut log), Dequeue::Packet(_)));
        assert!(matches!(state.dequeue(Instant::from_millis(111), &mut log), Dequeue::Packet(_)));
        assert_eq!((state.queues.backlog_and_vars(0).1.count, log.queue.ce_marks), (1, 1));
    }

    #[test]
    fn a_flow_with_few_bytes_is_left_alone_only_if_all_queues_are_nearly_empty() {
        // two flows, 2 packets each, all too old: the guard looks at all queues, so the first flow is marked down to 1514 B in all
        let mut state = state(Params::default());
        let mut log = Counters::default();
        for flow in [0, 1] {
            (0..3).for_each(|seq| state.enqueue(Packet { flow, ..packet(seq, Ecn::Ect0) }, Instant::ZERO, &mut log));
        }
        for ms in [10, 10, 120, 120, 240, 240] {
            let _ = state.dequeue(Instant::from_millis(ms), &mut log);
        }
        // the first packets start the interval, the second are marked; the third of flow 0 leaves 1514 B behind and is let through
        assert_eq!((log.flows.flow_counters(0).ce, log.flows.flow_counters(1).ce), (1, 1));
    }

    #[test]
    fn the_threshold_marks_what_is_selected() {
        for (selector, ecn, marked) in [
            (CeSelector::All, Ecn::Ect0, true),
            (CeSelector::All, Ecn::Ect1, true),
            (CeSelector::Ect1, Ecn::Ect0, false),
            (CeSelector::Ect1, Ecn::Ect1, true),
        ] {
            let ce_threshold = Some(Duration::from_millis(1));
            let mut state = state(Params { ce_threshold, ce_threshold_selector: selector, ..Params::default() });
            let mut log = Counters::default();
            state.enqueue(packet(0, ecn), Instant::ZERO, &mut log);
            let _ = state.dequeue(Instant::from_millis(2), &mut log);
            assert_eq!(log.queue.ce_marks == 1, marked, "{selector:?} {ecn:?}");
        }
    }
}
