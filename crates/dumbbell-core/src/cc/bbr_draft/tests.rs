//! Vectors reckoned by hand, section by section, and stories of whole connections.

use super::*;
use crate::cc::driver::conn;
use serde_json::{json, Value};

mod output;
mod path;
mod states;
mod stories;

/// With `params`, on a connection of 10 segments, all in flight, whose RTT is 20 ms.
fn start_connection(params: Value) -> (State, Conn) {
    let params = Params::from_json(params.as_object().unwrap()).unwrap();
    let mut state = State::new(params, &CcContext { seed: 1, flow: 0 });
    let mut conn = Conn { now: Instant::from_secs(1), delivered: 1, ..conn() };
    conn.rtt.sample(20_000, 0, 10);
    state.init(&mut conn);
    (state, conn)
}

fn bbr() -> (State, Conn) {
    start_connection(json!({}))
}

/// In `state`, as if it had just begun, with a wait of 2.5 s.
fn in_state(state: BbrState, conn: &Conn) -> BbrPhase<Instant, Climb> {
    let climb = Climb { rounds: 0, acked: 0.0, acked_per_inc: f64::INFINITY };
    BbrPhase::in_state(state, conn.now + Duration::from_millis(2_500), climb)
}

/// In `phase`, with an estimate of 1000 segments per second and 20 ms: a BDP of 20 segments, all in flight under a window of 40.
fn start_phase(phase: BbrState) -> (State, Conn) {
    let (mut state, mut conn) = bbr();
    state.bw.max = BbrRate(state.bw.filter.update(1_000.0));
    state.bw.estimate = BbrRate(1_000.0);
    state.full_bw.reached = phase != BbrState::Startup;
    state.phase = in_state(phase, &conn);
    (conn.cwnd, conn.delivered) = (40, 1_000);
    (conn.snd_una, conn.snd_nxt) = (1_000, 1_020);
    // no round ends by itself
    state.round.next_delivered = u64::MAX;
    state.loss_round.delivered = u64::MAX;
    (state, conn)
}

/// An ACK of 2 segments whose sample is of 20 segments in 20 ms, 20 of them in flight when it was sent.
fn ack() -> RateSample {
    RateSample {
        ack_delivered: 2,
        sample_delivered: Some(20),
        interval_us: Some(20_000),
        prior_delivered: 980,
        tx_in_flight: 20,
        rtt_us: Some(21_000),
        ..RateSample::default()
    }
}

fn rs() -> Rs {
    Rs::new(&ack())
}

fn loss_event(seq: u64, lost: u32, tx_in_flight: u32) -> LossEvent {
    LossEvent { seq, tx_in_flight, lost, is_app_limited: false, sent: Instant::ZERO }
}

/// The congestion machine goes to `ca`.
fn enter(state: &mut State, conn: &mut Conn, ca: CaState) {
    state.set_state(conn, ca);
    conn.state = ca;
}

// ---- 2 to 4: parameters, samples, ECN

#[test]
fn a_sample_that_is_too_short_has_no_rate_but_counts_what_it_delivered() {
    assert_eq!((rs().delivery_rate, rs().delivered), (BbrRate(1_000.0), 20));
    let short = Rs::new(&RateSample { interval_us: None, ..ack() });
    assert_eq!((short.delivery_rate, short.delivered, short.has_data), (BbrRate::ZERO, 20, true));
    let none = Rs::new(&RateSample { sample_delivered: None, interval_us: None, ..ack() });
    assert_eq!((none.delivery_rate, none.delivered, none.has_data), (BbrRate::ZERO, 0, false));
}

#[test]
fn it_does_not_ask_for_ecn() {
    assert_eq!((bbr().0.ecn().codepoint, bbr().0.ecn().required), (Ecn::NotEct, false));
}

// ---- 5.2: initialisation

#[test]
fn it_begins_with_the_rtt_of_the_handshake_or_none() {
    let (state, conn) = bbr();
    assert_eq!((state.min_rtt.rtt, state.probe_rtt_min.rtt, state.min_rtt.stamp), (20_000.0, 20_000.0, conn.now));
    // 2.77 * 10 * 1448 B / 20 ms, and over 1 ms
    assert_eq!(conn.pacing_rate, 2_005_480);
    let mut blank = Conn { pacing_rate: 5, ..crate::cc::driver::conn() };
    let mut without = State::new(Params::default(), &CcContext::default());
    without.init(&mut blank);
    assert_eq!((blank.pacing_rate, without.min_rtt.rtt), (40_109_600, f64::INFINITY));
    // BDPMultiple before the first RTT: the initial window, whatever the gain
    assert_eq!(without.bdp_multiple(BbrRate(1_000.0), 2.0), 10.0);
}
