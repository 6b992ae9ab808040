//! Every registered congestion control, driven through random sequences of what a sender may do to it.
//!
//! The sender here does what Linux's does around its congestion control (`tcp_ack`, `tcp_enter_cwr`, `tcp_enter_loss`,
//! `tcp_undo_cwnd_reduction`), without packets. What holds for all algorithms whose window grows in `cong_avoid` is
//! checked after every step; an algorithm that is exempt from something says so in [`exempt`].

use crate::cc::conn::{CaEvent, CaState, Congestion, Conn, INFINITE_SSTHRESH};
use crate::cc::driver::conn;
use crate::cc::{self, AckEvent, AnyCc, CcContext, CongestionControl, Control, RateSample};
use crate::param::{AlgorithmSpec, ParamKind};
use crate::units::{Duration, Instant};
use proptest::prelude::*;
use serde_json::{json, Map, Value};

/// A property that an algorithm may be exempt from, where its own documentation says so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// At a reduction `ssthresh` is at most `cwnd` (and at least 2).
    Reduction,
    /// Growth: none of a window that is not used; at most what was acknowledged in slow start; at most half of it in
    /// congestion avoidance.
    Growth,
    /// An ACK leaves the window alone before it is processed, unless it carries ESCE; then the window only falls.
    BeforeAck,
}

/// Exemptions by name, which may be followed by a choice (see [`variants`]).
fn exempt(name: &str, rule: Rule) -> bool {
    match rule {
        // they hold the window that they were given
        _ if name.starts_with("constant") || name.starts_with("external") => true,
        // the module leaves `ssthresh` where it was or at half of the peak, and cuts when PRR is over: cc/sce.rs
        Rule::Reduction => ["reno-sce", "dctcp-sce"].iter().any(|n| name.starts_with(n)) && !name.ends_with("documented"),
        Rule::Growth => false,
        // they do what others do in `cong_avoid`, and up to 1448/536 times as much, in `in_ack_event`: cc/sce.rs
        Rule::BeforeAck => ["reno-sce", "dctcp-sce"].iter().any(|n| name.starts_with(n)),
    }
}

/// The configurations of an algorithm that differ from its defaults in one choice, labelled.
fn variants(spec: &AlgorithmSpec) -> Vec<(String, Map<String, Value>)> {
    let mut variants = vec![(spec.name.to_string(), config(spec.name))];
    for param in &spec.params {
        let words = match &param.kind {
            ParamKind::Choice(words) => words.iter().map(|word| json!(word)).collect(),
            ParamKind::Bool => vec![json!(true), json!(false)],
            _ => vec![],
        };
        for word in words.into_iter().filter(|word| *word != param.default) {
            let label = format!("{} {} {}", spec.name, param.name, word.as_str().unwrap_or("other"));
            let mut config = config(spec.name);
            config.insert(param.name.to_string(), word);
            variants.push((label, config));
        }
    }
    variants
}

/// The algorithm `name` with its defaults.
fn config(name: &str) -> Map<String, Value> {
    [("name".to_string(), json!(name))].into_iter().collect()
}

/// An event in the life of the sender.
#[derive(Clone, Debug)]
enum Step {
    /// Something is acknowledged.
    Ack(Ack),
    /// A congestion episode begins.
    Congestion(Congestion),
    /// The episode is over.
    Recovered,
    /// The last reduction was spurious.
    Undo,
    /// Nothing to send for this time.
    Idle(Duration),
    /// Another control takes over: its place among all, as far as there are so many.
    Replace(usize),
}

/// An ACK.
#[derive(Clone, Copy, Debug)]
struct Ack {
    /// Time since the step before.
    gap: Duration,
    /// Segments it acknowledges, as far as there are so many in flight.
    acked: u32,
    rtt_us: Option<u32>,
    ece: bool,
    esce: bool,
    /// The window was the limit of what was sent.
    limited: bool,
}

/// Gaps from nothing to centuries, mostly such as occur.
fn gap() -> impl Strategy<Value = Duration> {
    prop_oneof![
        2 => Just(0),
        8 => 1_u64..2_000_000,
        4 => 1_000_000_u64..300_000_000,
        1 => 0_u64..4_000_000_000_000,
        1 => 0_u64..=u64::MAX,
    ]
    .prop_map(Duration)
}

/// RTT samples of any size, mostly such as occur.
fn rtt_us() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(0)),
        8 => (100_u32..200_000).prop_map(Some),
        1 => any::<u32>().prop_map(Some),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let segments = prop_oneof![8 => 1_u32..=2, 3 => 1_u32..100, 1 => 1_u32..100_000];
    let marks = (prop::bool::weighted(0.1), prop::bool::weighted(0.2));
    let ack = (gap(), segments, rtt_us(), marks, prop::bool::weighted(0.9));
    let cause = prop_oneof![4 => Just(Congestion::Ecn), 4 => Just(Congestion::Loss), 1 => Just(Congestion::Timeout)];
    prop_oneof![
        40 => ack.prop_map(|(gap, acked, rtt_us, (ece, esce), limited)| {
            Step::Ack(Ack { gap, acked, rtt_us, ece, esce, limited })
        }),
        2 => cause.prop_map(Step::Congestion),
        2 => Just(Step::Recovered),
        1 => Just(Step::Undo),
        2 => gap().prop_map(Step::Idle),
        1 => any::<usize>().prop_map(Step::Replace),
    ]
}

/// Where a sequence begins.
#[derive(Clone, Debug)]
struct Start {
    now: Instant,
    cwnd: u32,
    cwnd_clamp: u32,
    ssthresh: u32,
    pacing_rate: u64,
    paced: bool,
}

fn start() -> impl Strategy<Value = Start> {
    (
        prop_oneof![Just(0), 0_u64..1_000_000_000_000, any::<u64>()],
        1_u32..=100,
        prop_oneof![Just(u32::MAX), 100_u32..10_000],
        prop_oneof![Just(INFINITE_SSTHRESH), 2_u32..2_000],
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(now, cwnd, cwnd_clamp, ssthresh, pacing_rate, paced)| {
            // rates of all magnitudes
            let pacing_rate = pacing_rate >> (pacing_rate % 64);
            Start { now: Instant(now), cwnd, cwnd_clamp, ssthresh, pacing_rate, paced }
        })
}

struct Sender {
    name: String,
    conn: Conn,
    cc: AnyCc,
    last_sent: Instant,
}

impl Sender {
    fn new(name: &str, config: &Map<String, Value>, start: &Start) -> Sender {
        let mut cc = cc::build(config, &CcContext::default()).expect("a registered name, with what it allows");
        let Start { now, cwnd, cwnd_clamp, ssthresh, pacing_rate, paced } = *start;
        let snd_nxt = u64::from(cwnd);
        let mut conn = Conn { now, cwnd, snd_nxt, max_packets_out: cwnd, cwnd_clamp, ssthresh, pacing_rate, paced, ..conn() };
        cc.init(&mut conn);
        Sender { name: name.to_string(), conn, cc, last_sent: start.now }
    }

    /// Keeps the window full, as far as sequence numbers go.
    fn send(&mut self) {
        self.conn.snd_nxt = self.conn.snd_nxt.max(self.conn.snd_una + u64::from(self.conn.cwnd));
        self.last_sent = self.conn.now;
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Ack(ack) => self.ack(ack)?,
            Step::Congestion(cause) => self.congestion(cause)?,
            Step::Recovered => {
                if self.conn.state != CaState::Open {
                    let by_prr = self.cc.control() != Control::Both;
                    if by_prr && matches!(self.conn.state, CaState::Cwr | CaState::Recovery) {
                        if self.conn.ssthresh < INFINITE_SSTHRESH {
                            // below the clamp but for those that are exempt from `Rule::Reduction`
                            self.conn.cwnd = self.conn.ssthresh.min(self.conn.cwnd_clamp);
                        }
                        self.cc.cwnd_event(&mut self.conn, CaEvent::CompleteCwr);
                    }
                    self.enter(CaState::Open);
                }
            }
            Step::Undo => {
                if self.conn.state >= CaState::Recovery {
                    let before = self.conn.cwnd;
                    self.conn.cwnd = self.cc.undo_cwnd(&mut self.conn);
                    // what BBRv2 and v3 saved may be less than the window that grew since
                    let own = self.cc.control() == Control::Both;
                    prop_assert!(
                        own || self.conn.cwnd >= before,
                        "{}: undo took cwnd from {before} to {}",
                        self.name,
                        self.conn.cwnd
                    );
                    self.conn.ssthresh = self.conn.ssthresh.max(self.conn.prior_cwnd);
                    self.enter(CaState::Open);
                }
            }
            Step::Idle(time) => {
                self.conn.now = self.conn.now.saturating_add(time);
                let idle = self.conn.now.saturating_since(self.last_sent);
                self.cc.cwnd_event(&mut self.conn, CaEvent::TxStart { idle, app_limited: false });
                self.send();
            }
            Step::Replace(pick) => {
                let known = cc::specs();
                let name = known[pick % known.len()].name;
                self.cc.release(&mut self.conn);
                self.cc = cc::build(&config(name), &CcContext::default()).expect("a registered name");
                self.name = name.to_string();
                self.cc.init(&mut self.conn);
            }
        }
        prop_assert!(self.conn.cwnd >= 1, "{}: cwnd 0 after {step:?}", self.name);
        prop_assert!(self.conn.cwnd <= self.conn.cwnd_clamp, "{}: cwnd {} > clamp", self.name, self.conn.cwnd);
        Ok(())
    }

    fn enter(&mut self, state: CaState) {
        self.cc.set_state(&mut self.conn, state);
        self.conn.state = state;
    }

    fn ack(&mut self, ack: Ack) -> Result<(), TestCaseError> {
        let conn = &mut self.conn;
        conn.now = conn.now.saturating_add(ack.gap);
        let acked = ack.acked.min(conn.packets_out()).max(1);
        conn.is_cwnd_limited = ack.limited;
        conn.max_packets_out = if ack.limited { conn.cwnd } else { conn.cwnd / 4 };
        let before_ack = conn.cwnd;
        let (advanced, una) = (u64::from(acked), conn.snd_una + u64::from(acked));
        // any delay, of clocks that disagree
        let one_way_ms = ack.rtt_us.map_or(0, |rtt_us| (rtt_us as i32) / 1000);
        self.cc.in_ack_event(conn, &AckEvent { ece: ack.ece, esce: ack.esce, advanced, una, new_ce: None, one_way_ms });
        prop_assert!(
            conn.cwnd == before_ack || (ack.esce && conn.cwnd < before_ack) || exempt(&self.name, Rule::BeforeAck),
            "{}: cwnd from {before_ack} to {} before {ack:?}",
            self.name,
            conn.cwnd
        );
        conn.snd_una += u64::from(acked);
        conn.snd_nxt = conn.snd_nxt.max(conn.snd_una);
        conn.delivered += u64::from(acked);
        conn.delivered_ce += u64::from(if ack.ece { acked } else { 0 });
        if let Some(rtt_us) = ack.rtt_us {
            // the estimator's own range ends at the largest RTO
            let sample = rtt_us.min(120_000_000);
            conn.rtt.sample(sample, conn.snd_una, conn.snd_nxt);
            conn.rtt.sample_min(sample, conn.now);
        }
        self.cc.pkts_acked(conn, acked, ack.rtt_us);
        if self.cc.control() == Control::Both {
            let rtt_us = ack.rtt_us;
            let newly_marked = if ack.ece { acked } else { 0 };
            let newly_delivered = acked;
            let sample = RateSample {
                ack_delivered: newly_delivered,
                ack_marked: newly_marked,
                rtt_us,
                ece: ack.ece,
                sample_delivered: Some(acked),
                ..RateSample::default()
            };
            self.cc.cong_control(conn, &sample);
        } else if !matches!(conn.state, CaState::Cwr | CaState::Recovery) {
            let (before, limited, slow_start) = (conn.cwnd, conn.cwnd_limited(), conn.in_slow_start());
            self.cc.cong_avoid(conn, acked);
            let grown = conn.cwnd.saturating_sub(before);
            // old credit may give one segment more
            let most = match (limited, slow_start) {
                (false, _) => 0,
                (true, true) if conn.cwnd <= conn.ssthresh => acked,
                (true, true) => acked + 1,
                (true, false) => acked / before.min(2) + 1,
            };
            prop_assert!(
                grown <= most || exempt(&self.name, Rule::Growth),
                "{}: cwnd {before} + {grown} for {acked} segments, ssthresh {}",
                self.name,
                conn.ssthresh
            );
        }
        self.send();
        Ok(())
    }

    fn congestion(&mut self, cause: Congestion) -> Result<(), TestCaseError> {
        let state = match cause {
            Congestion::Ecn => CaState::Cwr,
            Congestion::Loss => CaState::Recovery,
            Congestion::Timeout => CaState::Loss,
        };
        if self.conn.state >= state {
            return Ok(());
        }
        let conn = &mut self.conn;
        conn.high_seq = conn.snd_nxt;
        conn.cwnd_cnt = 0;
        conn.prior_cwnd = conn.cwnd;
        let before = conn.ssthresh;
        conn.ssthresh = self.cc.ssthresh(conn, cause);
        // who controls all may leave the threshold alone
        let kept = conn.ssthresh == before && self.cc.control() == Control::Both;
        prop_assert!(
            kept || (2..=conn.cwnd.max(2)).contains(&conn.ssthresh) || exempt(&self.name, Rule::Reduction),
            "{}: ssthresh {} at cwnd {}",
            self.name,
            conn.ssthresh,
            conn.cwnd
        );
        if cause == Congestion::Timeout {
            self.cc.cwnd_event(conn, CaEvent::Loss);
            conn.cwnd = 1;
        } else if self.cc.control() != Control::Both {
            // half of the reduction at once, the rest when it is complete
            conn.cwnd = conn.cwnd.min(conn.ssthresh + conn.cwnd.saturating_sub(conn.ssthresh) / 2);
        }
        self.enter(state);
        Ok(())
    }
}

/// Runs `steps`; the state at the end, printed.
fn run(name: &str, config: &Map<String, Value>, start: &Start, steps: &[Step]) -> Result<String, TestCaseError> {
    let mut sender = Sender::new(name, config, start);
    for step in steps {
        sender.take(step)?;
    }
    Ok(format!("{:?} {:?}", sender.conn, sender.cc))
}

proptest! {
    #[test]
    fn every_congestion_control_keeps_the_rules(start in start(), steps in prop::collection::vec(step(), 1..300), pick: usize) {
        for spec in cc::specs() {
            let variants = variants(&spec);
            // the defaults, and one of the others
            for (name, config) in [&variants[0], &variants[pick % variants.len()]] {
                let once = run(name, config, &start, &steps)?;
                let twice = run(name, config, &start, &steps)?;
                prop_assert_eq!(once, twice, "{} is not deterministic", name);
            }
        }
    }
}

#[test]
fn windows_of_any_size_can_be_reduced() {
    for (name, config) in cc::specs().iter().flat_map(variants) {
        for cwnd in [1, 2, 3, 4, 10, 1 << 16, 1 << 30, u32::MAX] {
            for cause in [Congestion::Ecn, Congestion::Loss, Congestion::Timeout] {
                let start =
                    Start { now: Instant::ZERO, cwnd, cwnd_clamp: u32::MAX, ssthresh: cwnd, pacing_rate: 0, paced: false };
                let ack = Step::Ack(Ack {
                    gap: Duration::from_millis(40),
                    acked: 2,
                    rtt_us: Some(40_000),
                    ece: false,
                    esce: false,
                    limited: true,
                });
                let steps = [ack.clone(), Step::Congestion(cause), Step::Recovered, ack.clone(), Step::Congestion(cause), ack];
                run(&name, &config, &start, &steps).unwrap_or_else(|error| panic!("{name} at {cwnd}: {error}"));
            }
        }
    }
}
