//! Whole connections over a path that a test may change on the way.

use crate::cc::conn::CaState;
use crate::cc::{self, AnyCc, CcContext, CongestionControl, Model};
use crate::packet::{flag, Packet};
use crate::tcp::host::HostParams;
use crate::tcp::receiver::Receiver;
use crate::tcp::sender::{Application, Sender};
use crate::tcp::{Ack, Block, FlowOptions, Outlet};
use crate::units::{Duration, Instant, Rate};
use serde_json::{json, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Fate of a packet ahead of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Lose,
    /// The packet comes later by this time, behind its successors.
    Late(Duration),
}

/// Says what becomes of a packet that is sent now.
type Judge = dyn FnMut(&Packet, Instant) -> Fate;

/// A link with a queue of `limit` packets, half of the round trip ahead of it and half behind.
pub struct Path {
    pub now: Instant,
    pub rate: Rate,
    pub limit: usize,
    /// Nothing leaves before this.
    pub stalled_until: Instant,
    half_rtt: Duration,
    /// Departures of what is in the queue.
    queue: VecDeque<Instant>,
    /// Packets on their way to the receiver.
    wire: BTreeMap<(Instant, u64), Packet>,
    sent: u64,
    pub drops: u64,
    pub fate: Box<Judge>,
}

impl Outlet for Path {
    fn send(&mut self, packet: Packet) {
        let fate = (self.fate)(&packet, self.now);
        let now = self.now;
        while self.queue.front().is_some_and(|&departure| departure <= now) {
            self.queue.pop_front();
        }
        if fate == Fate::Lose || self.queue.len() >= self.limit {
            self.drops += 1;
            return;
        }
        let free_at = self.queue.back().map_or(now, |&last| last.max(now)).max(self.stalled_until);
        let departure = free_at + self.rate.serialise(u64::from(packet.len));
        self.queue.push_back(departure);
        self.sent += 1;
        let late = if let Fate::Late(time) = fate { time } else { Duration::ZERO };
        self.wire.insert((departure + self.half_rtt + late, self.sent), packet);
    }
}

/// After an ACK.
#[derive(Clone, Debug)]
pub struct Look {
    pub at: Instant,
    pub model: Model,
    pub in_flight: u32,
    pub cwnd: u32,
    pub ca: CaState,
}

/// A connection, what carries it, and what it looked like.
pub struct Story {
    pub sender: Sender,
    receiver: Receiver,
    pub path: Path,
    acks: VecDeque<(Instant, Ack, Vec<Block>)>,
    pub looks: Vec<Look>,
}

impl Story {
    pub fn new(params: Value, mbit: f64, rtt: Duration, limit: usize, app: Application) -> Story {
        let mut config = params;
        config["name"] = json!(crate::cc::bbr_draft::NAME);
        let cc = cc::build(config.as_object().unwrap(), &CcContext::default()).unwrap();
        let host = Arc::new(HostParams { send_buffer: 1 << 30, receive_buffer: 1 << 30, ..HostParams::default() });
        let mut path = Path {
            now: Instant::ZERO,
            rate: Rate((mbit * 1e6) as u64),
            limit,
            stalled_until: Instant::ZERO,
            half_rtt: rtt / 2,
            queue: VecDeque::new(),
            wire: BTreeMap::new(),
            sent: 0,
            drops: 0,
            fate: Box::new(|_, _| Fate::Pass),
        };
        let mut sender = Sender::new(0, cc, Arc::clone(&host), FlowOptions::default(), app);
        sender.start(Instant::ZERO, &mut path);
        let receiver = Receiver::new(0, host, FlowOptions::default());
        Story { sender, receiver, path, acks: VecDeque::new(), looks: Vec::new() }
    }

    pub fn bulk(mbit: f64, rtt_ms: u64, limit: usize) -> Story {
        Story::new(json!({}), mbit, Duration::from_millis(rtt_ms), limit, Application::Bulk)
    }

    pub fn state(&self) -> &crate::cc::bbr_draft::State {
        let AnyCc::BbrDraft(state) = &self.sender.cc else { panic!("another control") };
        state
    }

    pub fn model(&self) -> Model {
        self.sender.cc.model(&self.sender.conn).unwrap()
    }

    /// Until `until`, or until `stop` says so after an ACK. Returns whether it did.
    pub fn run(&mut self, until: Instant, mut stop: impl FnMut(&Look) -> bool) -> bool {
        let half_rtt = self.path.half_rtt;
        loop {
            let arrival = self.path.wire.keys().next().map_or(Instant::NEVER, |key| key.0);
            let ack_at = self.acks.front().map_or(Instant::NEVER, |head| head.0);
            let next = arrival.min(ack_at).min(self.sender.next_timer()).min(self.receiver.next_timer());
            if next > until {
                return false;
            }
            self.path.now = next;
            let mut taken = false;
            let ack = if arrival == next {
                let (_, packet) = self.path.wire.pop_first().unwrap();
                self.receiver.on_packet(&packet, next)
            } else if ack_at == next {
                let (_, ack, blocks) = self.acks.pop_front().unwrap();
                self.sender.on_ack(&ack, &blocks, next, &mut self.path);
                taken = true;
                None
            } else if self.receiver.next_timer() == next {
                self.receiver.on_timer(next)
            } else {
                self.sender.on_timer(next, &mut self.path);
                None
            };
            if let Some((early, blocks)) = self.receiver.take_early() {
                self.acks.push_back((next + half_rtt, early, blocks.as_slice().to_vec()));
            }
            if let Some(ack) = ack {
                let blocks = if self.receiver.has_blocks() { self.receiver.blocks().as_slice().to_vec() } else { Vec::new() };
                self.acks.push_back((next + half_rtt, ack, blocks));
            }
            if taken {
                let conn = &self.sender.conn;
                let look = Look { at: next, model: self.model(), in_flight: conn.in_flight(), cwnd: conn.cwnd, ca: conn.state };
                self.looks.push(look);
                if stop(&self.looks[self.looks.len() - 1]) {
                    return true;
                }
            }
        }
    }

    pub fn run_to(&mut self, seconds: f64) {
        self.run(Instant((seconds * 1e9) as u64), |_| false);
    }

    /// Until the state is `state`.
    pub fn reach(&mut self, state: &str, seconds: f64) {
        let reached = self.run(Instant((seconds * 1e9) as u64), |look| look.model.state == state);
        assert!(reached, "no {state} within {seconds} s: {:?}", self.visits());
    }

    /// States in order, with the first look of each.
    pub fn visits(&self) -> Vec<(&'static str, Instant)> {
        let mut visits: Vec<(&'static str, Instant)> = Vec::new();
        for look in &self.looks {
            if visits.last().is_none_or(|last| last.0 != look.model.state) {
                visits.push((look.model.state, look.at));
            }
        }
        visits
    }
}

/// Payload that a link of `mbit` carries, bytes per second: 1448 of each 1514.
fn payload(mbit: f64) -> f64 {
    mbit * 1e6 / 8.0 * 1448.0 / 1514.0
}

#[test]
fn startup_ends_on_a_plateau_and_drain_on_an_empty_queue() {
    let mut story = Story::bulk(10.0, 20, 1_000);
    story.reach("drain", 2.0);
    let looks = &story.looks;
    let (last, first) = (&looks[looks.len() - 2].model, &looks[looks.len() - 1].model);
    assert_eq!([last.full_bw_reached, first.full_bw_reached, first.full_bw_now], [Some(false), Some(true), Some(true)]);
    assert_eq!(story.state().full_bw.rounds, 3);
    assert_eq!(first.pacing_gain, 0.5);
    // within 2 % of the link
    assert!((first.max_bw as f64 / payload(10.0) - 1.0).abs() < 0.02, "{}", first.max_bw);
    story.run(Instant::from_secs(2), |look| look.model.state != "drain");
    let [.., before, after] = &story.looks[..] else { panic!("too short") };
    assert!(before.in_flight > before.model.inflight && after.in_flight <= after.model.inflight, "{before:?} {after:?}");
    assert!(matches!(after.model.state, "probe_down" | "probe_cruise"));
}

#[test]
fn startup_ends_on_loss_before_the_plateau() {
    // a queue of 10 packets overflows when 2.77 times the rate comes
    let mut story = Story::bulk(10.0, 20, 10);
    story.reach("drain", 2.0);
    let state = story.state();
    assert!(state.full_bw.rounds < 3 && state.undo.saved.left == Some(crate::cc::bbr::phase::BbrState::Startup), "{state:?}");
    assert_eq!(story.looks[story.looks.len() - 1].ca, CaState::Recovery);
    // what was delivered in a round: the BDP of 16 and what the queue holds
    assert!((16..=27).contains(&state.inflight.longterm), "{}", state.inflight.longterm);
    // one of four is lost, for an application of a tenth of the link: the rate never says that the pipe is full
    let mut slow = Story::new(json!({}), 100.0, Duration::from_millis(40), 1_000, Application::Rate(1_250_000));
    slow.run_to(2.0);
    assert_eq!((slow.model().state, slow.model().full_bw_reached), ("startup", Some(false)));
    slow.path.fate =
        Box::new(
            |packet, _| if packet.tcp().seq() % 4 == 0 && !packet.has(flag::RETRANSMISSION) { Fate::Lose } else { Fate::Pass },
        );
    slow.run_to(4.0);
    // so little is in flight that Drain is over with the ACK that begins it
    assert!(slow.model().full_bw_reached == Some(true) && slow.visits()[1].0 == "probe_cruise", "{:?}", slow.visits());
    assert!(slow.looks.iter().all(|look| look.model.state != "startup" || look.model.full_bw_reached == Some(false)));
}

#[test]
fn drain_takes_three_rounds_at_most() {
    let mut story = Story::bulk(50.0, 40, 10_000);
    story.reach("drain", 2.0);
    // it drains at half of the rate, and the link has a quarter
    story.path.rate = Rate(12_500_000);
    story.run(Instant::from_secs(60), |look| look.model.state != "drain");
    let [.., before, after] = &story.looks[..] else { panic!("too short") };
    let drained = story.looks.iter().filter(|look| look.model.state == "drain").map(|look| look.model.round).min();
    assert!(after.in_flight > after.model.inflight, "{after:?}");
    assert_eq!((before.model.state, Some(after.model.round - 4)), ("drain", drained));
}

#[test]
fn a_cycle_of_probe_bw_has_its_phases_in_order() {
    let mut story = Story::bulk(10.0, 20, 1_000);
    story.run_to(5.0);
    let visits = story.visits();
    let order = ["probe_cruise", "probe_refill", "probe_up", "probe_down"];
    // from the first cruise, which an empty queue follows at once
    for (n, visit) in visits[2..].iter().enumerate() {
        assert_eq!(visit.0, order[n % 4], "{visits:?}");
    }
    // Reno's sawtooth: 16.5 rounds of at least 20 ms in a cycle, of which one or none was drawn, and five more while it probes
    let probes: Vec<Instant> = visits.iter().filter(|visit| visit.0 == "probe_up").map(|visit| visit.1).collect();
    for pair in probes.windows(2) {
        let cycle = pair[1] - pair[0];
        assert!((Duration::from_millis(400)..Duration::from_millis(700)).contains(&cycle), "{cycle}");
    }
    // UP has a window of 2.25 BDP, two segments more, and what is aggregated
    let up = |look: &&Look| look.model.state == "probe_up";
    assert!(story.looks.iter().filter(up).all(|look| look.model.probe_up_step.is_some() && look.cwnd <= 42));
    assert_eq!(story.path.drops, 0);
}

#[test]
fn loss_ends_a_probe_and_bounds_what_is_in_flight() {
    // of 10 in the queue and one on the wire in addition to the BDP of 16.5
    let mut story = Story::bulk(10.0, 20, 10);
    story.run_to(4.0);
    let visits = story.visits();
    let ups = visits.iter().filter(|visit| visit.0 == "probe_up").count();
    assert!(ups >= 4, "{visits:?}");
    let longterm = story.model().inflight_longterm;
    assert!(longterm.is_some_and(|bound| (24..=28).contains(&bound)), "{longterm:?}");
    // with headroom while it cruises
    for look in story.looks.iter().filter(|look| look.model.state == "probe_cruise" && look.at > Instant::from_secs(1)) {
        assert!(look.cwnd <= 23, "{look:?}");
    }
    // a probe costs a packet or two, startup some tens
    assert!(story.path.drops < 80, "{}", story.path.drops);
    let goodput = story.sender.bytes_acked() as f64 / 4.0;
    assert!(goodput > 0.95 * payload(10.0), "{goodput}");
}

#[test]
fn the_minimum_is_looked_for_every_five_seconds() {
    let mut story = Story::bulk(10.0, 20, 1_000);
    story.run_to(16.0);
    let visits = story.visits();
    let stays: Vec<(Instant, Duration)> = visits
        .windows(2)
        .filter(|pair| pair[0].0 == "probe_rtt")
        .map(|pair| {
            assert_eq!(pair[1].0, "probe_cruise");
            (pair[0].1, pair[1].1 - pair[0].1)
        })
        .collect();
    assert_eq!(stays.len(), 3, "{visits:?}");
    for (n, (at, stay)) in stays.iter().enumerate() {
        // 200 ms from when half a BDP is in flight, which takes a round
        assert!((Duration::from_millis(200)..Duration::from_millis(250)).contains(stay), "{stay}");
        assert!(at.as_secs_f64() - 5.2 * n as f64 > 5.0 && at.as_secs_f64() - 5.3 * n as f64 <= 5.1, "{at}");
    }
    // half of the BDP of 16.5
    assert_eq!(story.looks.iter().filter(|look| look.model.state == "probe_rtt").map(|look| look.in_flight).min(), Some(8));
}

#[test]
fn an_application_that_pauses_is_its_own_probe_of_the_rtt() {
    // a segment every second
    let mut story = Story::new(json!({}), 10.0, Duration::from_millis(20), 100, Application::Rate(1_448));
    story.run_to(20.0);
    assert_eq!(story.visits().len(), 1, "{:?}", story.visits());
    assert!(story
        .looks
        .iter()
        .filter(|look| look.at > Instant::from_secs(2))
        .all(|look| look.model.full_bw_reached == Some(false)));
}

/// States from look `from` on.
fn states(story: &Story, from: usize) -> Vec<&'static str> {
    let mut states: Vec<&'static str> = story.looks[from..].iter().map(|look| look.model.state).collect();
    states.dedup();
    states
}

/// Delays every `nth` packet that is sent from now on by `late`, `left` of them in all.
fn delay(story: &mut Story, nth: u64, mut left: u32, late: Duration) {
    story.path.fate = Box::new(move |packet, _| {
        if left > 0 && packet.tcp().seq() % nth == 0 && !packet.has(flag::RETRANSMISSION) {
            left -= 1;
            return Fate::Late(late);
        }
        Fate::Pass
    });
}

#[test]
fn startup_that_only_reordering_ended_goes_on() {
    let mut story = Story::bulk(20.0, 40, 1_000);
    story.run_to(0.15);
    assert_eq!(story.model().state, "startup");
    delay(&mut story, 2, 12, Duration::from_millis(100));
    story.reach("drain", 1.0);
    assert!(story.model().full_bw_reached == Some(true) && story.model().inflight_longterm.is_some());
    let (from, cwnd) = (story.looks.len(), story.state().prior_cwnd);
    story.reach("startup", 1.0);
    assert_eq!(story.sender.stats.undone, 1);
    assert!(story.model().full_bw_reached == Some(false) && story.model().inflight_longterm.is_none());
    assert!(story.sender.conn.cwnd >= cwnd, "{} of {cwnd}", story.sender.conn.cwnd);
    story.run_to(2.0);
    assert_eq!(states(&story, from)[..5], ["drain", "probe_down", "probe_cruise", "startup", "drain"]);
    assert_eq!(story.path.drops, 0);
}

#[test]
fn a_probe_that_only_reordering_ended_begins_again() {
    let mut story = Story::bulk(10.0, 40, 1_000);
    story.run_to(1.0);
    story.reach("probe_up", 5.0);
    let from = story.looks.len() - 1;
    delay(&mut story, 3, 3, Duration::from_millis(60));
    let until = story.path.now.as_secs_f64() + 0.3;
    story.run_to(until);
    assert_eq!(story.sender.stats.undone, 1);
    assert_eq!(states(&story, from)[..4], ["probe_up", "probe_down", "probe_refill", "probe_up"]);
    // no bound remains
    assert_eq!((story.model().inflight_longterm, story.model().inflight_shortterm), (None, None));
    assert_eq!(story.path.drops, 0);
}

#[test]
fn a_probe_that_only_a_stall_ended_begins_again() {
    let mut story = Story::bulk(10.0, 40, 1_000);
    story.run_to(1.0);
    story.reach("probe_up", 5.0);
    let from = story.looks.len() - 1;
    let window = story.sender.conn.cwnd;
    story.path.stalled_until = story.path.now + Duration::from_millis(600);
    let until = story.path.now.as_secs_f64() + 1.0;
    story.run_to(until);
    // the timeout marks what is in flight as lost; what arrives after it was sent before it (F-RTO)
    assert_eq!((story.sender.stats.timeouts, story.sender.stats.undone), (1, 1));
    assert_eq!(states(&story, from)[..3], ["probe_up", "probe_refill", "probe_up"]);
    assert_eq!(story.model().inflight_longterm, None);
    let back = story.looks[from..].iter().find(|look| look.model.state == "probe_refill").expect("a look in refill");
    assert!(back.cwnd >= window - 2, "{back:?}");
}

#[test]
fn a_tenfold_link_is_found_in_few_rounds() {
    let mut story = Story::bulk(10.0, 40, 400);
    story.run_to(3.0);
    story.path.rate = Rate::from_mbit(100);
    let round = story.model().round;
    let found = story.run(Instant::from_secs(20), |look| look.model.max_bw as f64 > 0.95 * payload(100.0));
    assert!(found, "{:?}", story.model());
    // at most a cycle of 33 rounds before the next probe; in it a quarter more each round is 11 of them
    assert!(story.model().round - round < 80, "{}", story.model().round - round);
}

#[test]
fn a_tenth_of_the_link_is_all_that_remains_after_two_cycles() {
    let mut story = Story::bulk(100.0, 40, 200);
    story.run_to(3.0);
    story.path.rate = Rate::from_mbit(10);
    story.run_to(5.0);
    // by 0.7 a round, and rounds take up to 0.5 s now
    let lowered = story.looks.iter().any(|look| look.model.bw_shortterm.is_some_and(|bw| (bw as f64) < 0.3 * payload(100.0)));
    assert!(lowered, "{:?}", story.model());
    // two probes later, the first of which the filter still shares with the old rate
    story.run_to(16.0);
    assert!((story.model().max_bw as f64 / payload(10.0) - 1.0).abs() < 0.02, "{:?}", story.model());
}
