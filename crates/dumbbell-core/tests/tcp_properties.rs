//! Sender and receiver over a path that loses, marks, duplicates and delays, with every registered congestion control; and
//! a sender whose peer is hostile.
//!
//! The path keeps the order of packets, as a dumbbell does. What must hold is checked after every event.
//! `fuzz/fuzz_targets/receiver_sender.rs` runs the same checks of hostile peers.

use dumbbell_core::cc::{self, AnyCc, CcContext, CongestionControl};
use dumbbell_core::packet::{flag, Ecn, Packet, Timestamps};
use dumbbell_core::rng::mix;
use dumbbell_core::tcp::host::{EcnReduction, HostParams, Offload, Pacing, Prr};
use dumbbell_core::tcp::receiver::{Echo, Receiver};
use dumbbell_core::tcp::sender::{Application, Phase, Sender};
use dumbbell_core::tcp::stats::{ReceiverStats, SenderStats};
use dumbbell_core::tcp::{ack_flag, Ack, Block, FlowOptions, Outlet};
use dumbbell_core::units::{Duration, Instant};
use proptest::prelude::*;
use serde_json::{json, Map, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// Events after which a transfer counts as stuck.
const MOST_EVENTS: usize = 200_000;
/// Segments in flight from which on a hostile peer gets no further: each step looks at all of them.
const MOST_OUT: u32 = 4_000;

/// As many cases as take a second or so, whatever the number of congestion controls.
fn cases() -> ProptestConfig {
    ProptestConfig::with_cases((512 / cc::specs().len() as u32).max(48))
}

#[derive(Default)]
struct Wire(Vec<Packet>);

impl Outlet for Wire {
    fn send(&mut self, packet: Packet) {
        self.0.push(packet);
    }
}

/// Effect of the path on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Lose,
    /// CE.
    Mark,
    /// SCE.
    Hint,
    Duplicate,
    /// The packet and its successors wait for this number of milliseconds.
    Stall(u16),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Pass),
        3 => Just(Fate::Lose),
        2 => Just(Fate::Mark),
        2 => Just(Fate::Hint),
        1 => Just(Fate::Duplicate),
        1 => (1_u16..50).prop_map(Fate::Stall),
    ]
}

/// Single fates, runs of losses, and now and then a long stall.
fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let run = prop_oneof![
        20 => fate().prop_map(|fate| vec![fate]),
        4 => (1_usize..30).prop_map(|n| vec![Fate::Pass; n]),
        1 => (1_usize..30).prop_map(|n| vec![Fate::Lose; n]),
        1 => (100_u16..3000).prop_map(|ms| vec![Fate::Stall(ms)]),
    ];
    prop::collection::vec(run, 0..60).prop_map(|runs| runs.concat())
}

/// One transfer.
#[derive(Clone, Debug)]
struct Transfer {
    size: u64,
    /// Switches of the sender, and of the receiver.
    host: HostParams,
    peer: HostParams,
    options: FlowOptions,
    peer_ecn: bool,
    /// Time on the wire of a packet.
    gap: Duration,
    one_way: Duration,
    /// Fates of the first data packets (SYN included) and ACKs; afterwards all pass.
    data: Vec<Fate>,
    acks: Vec<Fate>,
    /// Afterwards: share of packets lost in either direction, of 256, drawn with this seed.
    loss: u8,
    seed: u64,
}

prop_compose! {
    fn host()(
        (ecn, usual) in any::<(bool, bool)>(),
        initial_window in prop_oneof![Just(10_u32), 1_u32..4, 1_u32..50],
        mss in prop_oneof![Just(1448_u32), 88_u32..8949],
        offload in prop::sample::select(&[Offload::None, Offload::Tso, Offload::Gso][..]),
        (tso_rtt, tso_defer_near) in any::<(bool, bool)>(),
        push_bursts in any::<bool>(),
        pacing in prop::sample::select(&[Pacing::Cc, Pacing::Fq][..]),
        send_buffer in prop_oneof![Just(4_194_304_u64), 8_192_u64..100_000],
        prr in prop::sample::select(&[Prr::Rfc6937, Prr::Rfc6937bis][..]),
        ecn_reduction in prop::sample::select(&[EcnReduction::Prr, EcnReduction::Immediate][..]),
        frto in any::<bool>(),
        slow_start_after_idle in any::<bool>(),
        rto_min in prop_oneof![Just(200_000_u64), 1_000_u64..1_000_000].prop_map(Duration::from_micros),
    ) -> HostParams {
        let host = HostParams {
            ecn, initial_window, mss, pacing, send_buffer, frto, slow_start_after_idle, rto_min, ..HostParams::default()
        };
        if usual {
            // the controls that most flows use have code of their own for it
            return host;
        }
        HostParams { offload, tso_rtt, tso_defer_near, push_bursts, prr, ecn_reduction, ..host }
    }
}

prop_compose! {
    fn transfer(shares: std::ops::Range<u8>)(
        host in host(),
        (ecn, delayed_ack, sack_compression, ack_push) in any::<(bool, bool, bool, bool)>(),
        (sce, per_packet) in any::<(bool, bool)>(),
        buffer in prop_oneof![Just(6_291_456_u64), 8_192_u64..200_000],
        base_ms in prop_oneof![Just(20_u64), 0_u64..300],
        gap_us in prop_oneof![Just(1_211_u64), 0_u64..5_000],
        segments in prop_oneof![1_u64..20, 1_u64..400],
        short in 0_u64..88,
        data in fates(),
        acks in fates(),
        loss in shares,
        seed in any::<u64>(),
    ) -> Transfer {
        let echo = if per_packet { Echo::PerPacket } else { Echo::UntilCwr };
        let peer = HostParams {
            sce_feedback: sce, delayed_ack, sack_compression, ack_push, receive_buffer: buffer, mss: host.mss, ..HostParams::default()
        };
        let options = FlowOptions { ecn: host.ecn, echo };
        let size = segments * u64::from(host.mss) - short;
        let one_way = Duration::from_micros(base_ms * 500);
        Transfer { size, host, peer, options, peer_ecn: ecn, gap: Duration::from_micros(gap_us), one_way, data, acks, loss, seed }
    }
}

/// A direction of the path, in order.
struct TestLine<T> {
    queue: VecDeque<(Instant, T)>,
    fates: VecDeque<Fate>,
    gap: Duration,
    delay: Duration,
    free: Instant,
    loss: u8,
    random: u64,
}

impl<T: Clone> TestLine<T> {
    fn new(fates: &[Fate], gap: Duration, delay: Duration, loss: u8, seed: u64) -> TestLine<T> {
        TestLine {
            queue: VecDeque::new(),
            fates: fates.iter().copied().collect(),
            gap,
            delay,
            free: Instant::ZERO,
            loss,
            random: seed,
        }
    }

    fn send(&mut self, item: T, now: Instant, mark: impl FnOnce(&mut T, Fate)) {
        let fate = self.fates.pop_front().unwrap_or_else(|| {
            self.random = mix(self.random);
            if self.random as u8 >= self.loss {
                Fate::Pass
            } else {
                Fate::Lose
            }
        });
        let mut item = item;
        let mut copies = 1;
        self.free = self.free.max(now);
        match fate {
            Fate::Pass => {}
            Fate::Lose => return,
            Fate::Mark | Fate::Hint => mark(&mut item, fate),
            Fate::Duplicate => copies = 2,
            Fate::Stall(ms) => self.free += Duration::from_millis(u64::from(ms)),
        }
        for _ in 0..copies {
            self.free += self.gap;
            self.queue.push_back((self.free + self.delay, item.clone()));
        }
    }

    fn next(&self) -> Instant {
        self.queue.front().map_or(Instant::NEVER, |item| item.0)
    }
}

fn build(name: &str) -> AnyCc {
    let config: Map<String, Value> = [("name".to_string(), json!(name))].into_iter().collect();
    cc::build(&config, &CcContext::default()).expect("a registered name, with defaults")
}

/// Checks what must hold of a sender at any time.
fn check_sender(sender: &Sender) -> Result<(), TestCaseError> {
    let conn = &sender.conn;
    prop_assert!(conn.snd_una() <= conn.snd_nxt());
    prop_assert_eq!(
        sender.recount(),
        (conn.sacked_out(), conn.lost_out(), conn.retrans_out()),
        "recounted: SACKed, lost, sent again"
    );
    prop_assert!(!sender.overlooks_losses(), "losses that nobody looks for");
    let (all, gone) = (conn.packets_out() + conn.retrans_out(), conn.sacked_out() + conn.lost_out());
    prop_assert!(gone <= all, "in flight would be {} - {}", all, gone);
    prop_assert_eq!(conn.in_flight(), all - gone);
    prop_assert!(conn.cwnd >= 1 && conn.cwnd <= conn.cwnd_clamp(), "cwnd {}", conn.cwnd);
    // Prague rounds it down when its segments grow, as the module does; it reads it as "slow start is over" only
    prop_assert!(conn.ssthresh >= 1 || matches!(sender.cc, AnyCc::Prague(_)), "ssthresh {}", conn.ssthresh);
    Ok(())
}

impl Transfer {
    /// Runs it to its end, if `general` with a sender's code for any control and host. Returns what happened, for comparison, and the counters.
    fn run(&self, name: &str, general: bool) -> Result<(String, (SenderStats, ReceiverStats)), TestCaseError> {
        let app = Application::Size(self.size);
        let mut sender = Sender::new(3, build(name), Arc::new(self.host.clone()), self.options, app);
        if general {
            sender.use_general_code();
        }
        // it gives up its need if the peer refuses ECN
        let needs_ecn = sender.cc.ecn().required;
        let peer = FlowOptions { ecn: self.peer_ecn, ..self.options };
        let mut receiver = Receiver::new(3, Arc::new(self.peer.clone()), peer);
        let mut wire = Wire::default();
        let mut forward: TestLine<Packet> = TestLine::new(&self.data, self.gap, self.one_way, self.loss, self.seed);
        let mut back: TestLine<(Ack, Vec<Block>)> =
            TestLine::new(&self.acks, Duration::ZERO, self.one_way, self.loss, !self.seed);
        let mut now = Instant::from_micros(self.seed % 10_000);
        let mut trace = 0_u64;
        let (mut una, mut expected) = (0, 0);
        sender.start(now, &mut wire);
        for event in 0.. {
            for packet in wire.0.drain(..) {
                trace = mix(trace ^ packet.tcp().seq() ^ (u64::from(packet.flags()) << 40) ^ (packet.ecn() as u64) << 50 ^ now.0);
                let data = !packet.has(flag::NO_DATA);
                prop_assert!(
                    !data || packet.tcp().seq() < sender.conn.snd_nxt(),
                    "sent {} of {}",
                    packet.tcp().seq(),
                    sender.conn.snd_nxt()
                );
                forward.send(packet, now, |marked, fate| {
                    if fate == Fate::Mark {
                        marked.set_ce();
                    } else if marked.ecn() == Ecn::Ect0 {
                        marked.set_ecn(Ecn::Ect1);
                    }
                });
            }
            check_sender(&sender)?;
            prop_assert!(sender.conn.snd_una() >= una, "snd_una went back from {}", una);
            prop_assert!(receiver.rcv_nxt >= expected, "rcv_nxt went back from {}", expected);
            (una, expected) = (sender.conn.snd_una(), receiver.rcv_nxt);
            prop_assert!(
                una <= expected && expected <= sender.conn.snd_nxt(),
                "{} <= {} <= {}",
                una,
                expected,
                sender.conn.snd_nxt()
            );
            if sender.phase == Phase::Done {
                break;
            }
            let at = forward.next().min(back.next()).min(sender.next_timer()).min(receiver.next_timer());
            prop_assert!(at != Instant::NEVER, "{}: nothing will ever happen again at {}: {:?}", name, now, sender);
            prop_assert!(event < MOST_EVENTS, "{}: no end at {}: {:?}", name, now, sender);
            now = now.max(at);
            let ack = if forward.next() <= now {
                forward.queue.pop_front().and_then(|(_, packet)| receiver.on_packet(&Packet { enqueue_time: now, ..packet }, now))
            } else if back.next() <= now {
                if let Some((_, (ack, blocks))) = back.queue.pop_front() {
                    sender.on_ack(&ack, &blocks, now, &mut wire);
                }
                None
            } else if receiver.next_timer() <= now {
                let held = receiver.on_timer(now);
                prop_assert!(receiver.next_timer() > now, "the receiver's timer does not move");
                held
            } else {
                sender.on_timer(now, &mut wire);
                prop_assert!(sender.next_timer() > now, "the sender's timer does not move: {:?}", sender);
                None
            };
            if let Some((early, blocks)) = receiver.take_early() {
                prop_assert!(early.ack <= receiver.rcv_nxt);
                back.send((early, blocks.as_slice().to_vec()), now, |_, _| {});
            }
            if let Some(ack) = ack {
                let blocks = receiver.blocks().as_slice().to_vec();
                prop_assert!(blocks.iter().all(|&(start, end)| start < end && end <= sender.conn.snd_nxt()), "{:?}", blocks);
                back.send((ack, blocks), now, |_, _| {});
            }
        }
        let segments = self.size.div_ceil(u64::from(self.host.mss));
        prop_assert_eq!(receiver.rcv_nxt, segments);
        prop_assert_eq!(receiver.stats.data - receiver.stats.duplicates, segments, "each segment is new once");
        prop_assert_eq!(sender.bytes_acked(), self.size);
        prop_assert_eq!(sender.finished, Some(now));
        prop_assert_eq!(sender.next_timer(), Instant::NEVER);
        if !self.host.ecn && !needs_ecn || !self.peer_ecn {
            // the SYN of a control that needs ECN is ECN-capable whatever the peer answers
            let syns = if needs_ecn { sender.stats().bare } else { 0 };
            prop_assert_eq!(sender.stats().ecn_reductions, 0);
            prop_assert!(receiver.stats.ce <= syns, "{} marks, {} SYNs", receiver.stats.ce, syns);
        }
        let summary = format!("{now} {trace} {:?} {:?} {:?}", sender.stats(), receiver.stats, sender.conn);
        Ok((summary, (sender.stats(), receiver.stats)))
    }

    fn run_all(&self) -> Result<(), TestCaseError> {
        for spec in cc::specs() {
            let once = self.run(spec.name, false)?;
            prop_assert_eq!(once.0, self.run(spec.name, true)?.0, "{}, by code for its control and by general code", spec.name);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_transfer_completes_in_order_and_once(transfer in transfer(0..1)) {
        transfer.run_all()?;
    }

    #[test]
    fn every_transfer_completes_at_random_loss_up_to_a_third(transfer in transfer(0..85)) {
        transfer.run_all()?;
    }

    // but for tail loss probes: a first burst that takes longer than twice the round trip of the handshake and 2 ms is probed
    #[test]
    fn a_clean_path_sees_every_segment_once(transfer in transfer(0..1), marked in any::<u64>()) {
        let host = HostParams { rto_min: Duration::from_millis(200), ..transfer.host };
        let data = (0..64).map(|n| if marked >> n & 1 == 1 { Fate::Mark } else { Fate::Hint }).collect();
        let clean = Transfer { host, data, acks: Vec::new(), ..transfer };
        for spec in cc::specs() {
            let (sender, receiver) = clean.run(spec.name, false)?.1;
            prop_assert_eq!(sender.timeouts, 0, "{}", spec.name);
            prop_assert!(sender.retransmissions <= sender.probes, "{}: {:?}", spec.name, sender);
            prop_assert!(receiver.duplicates <= sender.probes, "{}: {:?}", spec.name, receiver);
        }
    }
}

/// An action of a hostile peer, or of the clock.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// An ACK, all numbers relative to `snd_una`.
    Ack { after_us: u64, ack: i64, blocks: Vec<(i64, i64)>, flags: u16, window: u32, tsecr: u32, ce_bytes: u32 },
    /// The ACK of everything.
    AckAll { after_us: u64 },
    /// The next timer.
    Timer,
    /// No new data from here on.
    Stop,
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![12 => 0_i64..12, 4 => -5_i64..60, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => any::<i64>()]
}

fn step() -> impl Strategy<Value = Step> {
    let after = || prop_oneof![8 => 0_u64..3_000, 4 => 0_u64..100_000, 1 => 0_u64..10_000_000_000];
    let windows = prop_oneof![8 => Just(u32::MAX), 2 => 0_u32..100_000];
    let echoes = prop_oneof![4 => any::<u32>(), 4 => 0_u32..1_000, 4 => Just(u32::MAX)];
    // mostly flags that a data ACK may carry
    let kinds =
        prop_oneof![6 => Just(0), 3 => Just(ack_flag::ECE), 3 => Just(ack_flag::DSACK), 1 => any::<u8>().prop_map(u16::from)];
    let lists = prop::collection::vec((number(), number()), 0..6);
    prop_oneof![
        20 => (after(), number(), lists, kinds, windows, echoes, any::<u8>())
            .prop_map(|(after_us, ack, blocks, flags, window, tsecr, ce_bytes)| {
                Step::Ack { after_us, ack, blocks, flags, window, tsecr, ce_bytes: u32::from(ce_bytes) * 1000 }
            }),
        3 => after().prop_map(|after_us| Step::AckAll { after_us }),
        5 => Just(Step::Timer),
        1 => Just(Step::Stop),
    ]
}

/// Lets `steps` happen to a sender whose connection is open.
pub(crate) fn attack(cc: AnyCc, host: &HostParams, app: Application, steps: &[Step]) -> Result<(), TestCaseError> {
    let echo = cc.ecn().echo;
    let options = FlowOptions { ecn: host.ecn, echo };
    let mut sender = Sender::new(0, cc, Arc::new(host.clone()), options, app);
    let mut wire = Wire::default();
    sender.start(Instant::ZERO, &mut wire);
    let mut now = Instant::from_millis(20);
    let counts = if echo == Echo::Accurate { ack_flag::ACCECN_SETUP | ack_flag::ACCECN_OPTION } else { 0 };
    let syn_ack = Ack { window: u32::MAX, flags: ack_flag::SYN_ACK | ack_flag::ECN_SETUP | counts, ..Ack::default() };
    sender.on_ack(&syn_ack, &[], now, &mut wire);
    for step in steps {
        let una = sender.conn.snd_una();
        let absolute = |relative: i64| una.saturating_add_signed(relative);
        match step {
            Step::Ack { after_us, ack, blocks, flags, window, tsecr, ce_bytes } => {
                now += Duration::from_micros(*after_us);
                let blocks: Vec<Block> = blocks.iter().map(|&(start, end)| (absolute(start), absolute(end))).collect();
                let ack = Ack {
                    ack: absolute(*ack),
                    flow: 0,
                    tsecr: *tsecr,
                    tsval: *tsecr,
                    window: *window,
                    ce_bytes: *ce_bytes,
                    flags: *flags | ack_flag::ace((*ce_bytes / 1000) as u8),
                    id: 0,
                };
                sender.on_ack(&ack, &blocks, now, &mut wire);
            }
            Step::AckAll { after_us } => {
                now += Duration::from_micros(*after_us);
                let ack = Ack { ack: sender.conn.snd_nxt(), window: u32::MAX, ..Ack::default() };
                sender.on_ack(&ack, &[], now, &mut wire);
            }
            Step::Timer => {
                if sender.next_timer() != Instant::NEVER {
                    now = now.max(sender.next_timer());
                    sender.on_timer(now, &mut wire);
                    prop_assert!(sender.next_timer() > now, "a timer that does not move: {:?}", sender);
                }
            }
            Step::Stop => sender.stop(now),
        }
        check_sender(&sender)?;
        if sender.conn.packets_out() > MOST_OUT {
            break;
        }
        prop_assert!(sender.conn.snd_una() >= una);
        prop_assert!(wire.0.iter().all(|packet| packet.tcp().seq() < sender.conn.snd_nxt().max(1)));
        // not more than the window allows, but for probes, timeouts and the first retransmission
        wire.0.clear();
        if sender.phase == Phase::Established && sender.conn.packets_out() > 0 {
            prop_assert!(sender.next_timer() != Instant::NEVER, "segments are out and no timer runs: {:?}", sender);
        }
        if matches!(step, Step::Stop) && sender.phase == Phase::Done {
            prop_assert_eq!(sender.conn.packets_out(), 0);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_acknowledgement_whatever_breaks_a_sender(
        host in host(),
        kind in 0_u8..3,
        amount in 1_u64..2_000_000,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let app = &[Application::Bulk, Application::Size(amount), Application::Rate(amount)][usize::from(kind)];
        for spec in cc::specs() {
            attack(build(spec.name), &host, app.clone(), &steps)?;
        }
    }
}

/// Cases that once failed.
#[test]
fn regressions() {
    let ack = |after_us, ack, blocks: &[(i64, i64)], flags| {
        let blocks = blocks.to_vec();
        Step::Ack { after_us, ack, blocks, flags, window: u32::MAX, tsecr: u32::MAX, ce_bytes: 0 }
    };
    let cases = [
        // a DSACK that reports nothing: index out of bounds
        vec![ack(20_000, 1, &[], ack_flag::DSACK)],
        // a reversed one during recovery: subtraction below zero
        vec![ack(20_000, 2, &[(2, 8)], 0), ack(0, 3, &[], 0), ack(0, 0, &[(9, 0)], ack_flag::DSACK)],
        // round trips of half an hour: srtt and RTO beyond 32 bits
        vec![
            ack(1_372_503_884, 5, &[], 0),
            ack(1_604_352_483, 0, &[(1, 2)], 0),
            Step::AckAll { after_us: 3_000_000_000 },
            Step::Timer,
        ],
    ];
    for steps in cases {
        for spec in cc::specs() {
            attack(build(spec.name), &HostParams::default(), Application::Bulk, &steps)
                .unwrap_or_else(|error| panic!("{steps:?}: {error}"));
        }
    }
}

/// Flags that a packet of TCP may have.
pub(crate) const OF_TCP: u16 =
    flag::SYN | flag::CWR | flag::RETRANSMISSION | flag::PURE_ACK | flag::PSH | flag::MORE | flag::LAST;

/// A packet that a network may deliver to a receiver.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) after_us: u64,
    pub(crate) seq: u64,
    pub(crate) flags: u16,
    pub(crate) ecn: Ecn,
    pub(crate) len: u16,
    pub(crate) tsval: u32,
    pub(crate) tsecr_age: u16,
}

prop_compose! {
    fn arrival()(
        after_us in 0_u64..100_000,
        seq in prop_oneof![8 => 0_u64..40, 1 => any::<u64>()],
        flags in any::<u16>().prop_map(|bits| bits & OF_TCP),
        ecn in prop::sample::select(&[Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][..]),
        len in 66_u16..9000,
        tsval in prop_oneof![4 => Just(0), 1 => any::<u32>()],
        tsecr_age in any::<u16>(),
    ) -> Arrival {
        Arrival { after_us, seq, flags, ecn, len, tsval, tsecr_age }
    }
}

/// Lets `arrivals` happen to a receiver.
pub(crate) fn receive(host: HostParams, options: FlowOptions, arrivals: &[Arrival]) -> Result<(), TestCaseError> {
    let mut receiver = Receiver::new(0, Arc::new(host), options);
    let mut now = Instant::ZERO;
    let mut seen = std::collections::BTreeSet::new();
    for &Arrival { after_us, seq, flags, ecn, len, tsval, tsecr_age } in arrivals {
        now += Duration::from_micros(after_us);
        let timestamps = Timestamps::new(tsval, Some(tsval.wrapping_sub(u32::from(tsecr_age))));
        let packet = Packet { enqueue_time: now, len, ..Packet::new_tcp(seq, ecn, flags).with_timestamps(timestamps) };
        while receiver.next_timer() < now {
            let at = receiver.next_timer();
            prop_assert!(receiver.on_timer(at).is_some() && receiver.next_timer() > at);
        }
        let ack = receiver.on_packet(&packet, now);
        if flags & flag::NO_DATA == 0 {
            seen.insert(seq);
        }
        if let Some((early, blocks)) = receiver.take_early() {
            prop_assert!(early.ack <= receiver.rcv_nxt);
            let reported = &blocks.as_slice()[usize::from(early.has(ack_flag::DSACK))..];
            prop_assert!(reported.iter().all(|&(start, end)| start < end && (start..end).all(|held| seen.contains(&held))));
        }
        let contiguous = (0..).find(|next| !seen.contains(next)).expect("a gap");
        prop_assert_eq!(receiver.rcv_nxt, contiguous);
        let Some(ack) = ack.filter(|ack| !ack.has(ack_flag::SYN_ACK)) else { continue };
        prop_assert_eq!(ack.ack, contiguous);
        let blocks = receiver.blocks();
        let reported = if ack.has(ack_flag::DSACK) { &blocks.as_slice()[1..] } else { blocks.as_slice() };
        for &(start, end) in reported {
            // what it reports it has
            prop_assert!(start > contiguous && start < end && (start..end).all(|held| seen.contains(&held)));
        }
        // something is missing: it says so
        prop_assert_eq!(reported.is_empty(), seen.range(contiguous..).next().is_none());
    }
    prop_assert_eq!(receiver.stats.data - receiver.stats.duplicates, seen.len() as u64);
    Ok(())
}

proptest! {
    #[test]
    fn no_packet_whatever_breaks_a_receiver(
        arrivals in prop::collection::vec(arrival(), 1..200),
        (delayed_ack, sce) in any::<(bool, bool)>(),
        echo in prop::sample::select(&[Echo::UntilCwr, Echo::PerPacket, Echo::Accurate][..]),
    ) {
        let host = HostParams { delayed_ack, sce_feedback: sce, ..HostParams::default() };
        receive(host, FlowOptions { echo, ..FlowOptions::default() }, &arrivals)?;
    }
}
