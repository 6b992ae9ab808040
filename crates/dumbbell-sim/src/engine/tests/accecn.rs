//! Whole runs with AccECN (RFC 9768): no mark is lost between the queue and the sender, whatever happens to ACKs.

use super::*;
use dumbbell_bottleneck::queue_disciplines;
use dumbbell_core::with_aqm;

/// Fates of the marks of a flow that is over, and of the flow.
#[derive(Debug)]
struct Seen {
    /// CE marks that the queue set.
    marked: u64,
    /// CE marks on what was dropped behind that.
    dropped: u64,
    /// CE packets that arrived at the receiver.
    received: u64,
    /// CE packets that were reported to the sender.
    heard: u64,
    reductions: u64,
    retransmissions: u64,
    drops: u64,
    goodput: f64,
}

/// Runs one flow of 20 MB over 20 Mbit/s, event by event. Between two reductions by ECN, everything that was in flight at the first must
/// be acknowledged.
fn transfer(cc: &str, echo: &str, aqm: Value, mut hosts: Value, path: Value, ack_path: Value) -> Seen {
    hosts["ecn"] = json!(true);
    let flow = json!({"cc": {"name": cc}, "base_rtt": 20 * MS, "size": 20_000_000, "ecn_echo": echo, "path": path, "ack_path": ack_path});
    let config = json!({"duration": 600_000_000_000_u64, "seed": 5, "bottleneck": {"rate": 20_000_000, "aqm": aqm}, "hosts": hosts,
        "flows": [flow], "record": {"series": false}});
    let config = Arc::new(RunConfig::from_json(&config).expect("a valid configuration"));
    let mut aqms = queue_disciplines(&config).expect("queues");
    with_aqm!(aqms.remove(0), aqm => {
        let mut engine = Box::new(Engine::<SingleHop<_, _, false>>::new(config, aqm, ()));
        let (mut reductions, mut round_ends) = (0, 0);
        while engine.advance(Instant::NEVER, 1).expect("no broken invariant") != RunState::Over {
            let Tcp { sender, .. } = engine.arena.get(0).tcp().expect("a connection");
            if sender.stats().ecn_reductions > reductions {
                assert_eq!(sender.stats().ecn_reductions, reductions + 1);
                assert!(sender.conn.snd_una() >= round_ends, "{cc} {echo}: reduced at {} and before {round_ends}", sender.conn.snd_una());
                (reductions, round_ends) = (sender.stats().ecn_reductions, sender.conn.high_seq());
            }
        }
        let Tcp { sender, receiver, .. } = engine.arena.get(0).tcp().expect("a connection");
        assert!(sender.phase == Phase::Done, "{cc} {echo}: not over");
        let counters = engine.net.entrance.hop.bottleneck.log.counters.flows.flow_counters(0);
        let drops = counters.dropped_overflow + counters.dropped_aqm + counters.lost_ahead;
        let seconds = sender.finished.expect("it is over").as_secs_f64();
        let seen = Seen { marked: counters.ce, dropped: counters.ce_dropped, received: receiver.stats.ce, heard: sender.conn.delivered_ce(),
            reductions, retransmissions: sender.stats().retransmissions, drops, goodput: 160.0 / seconds };
        engine.finish().expect("no broken invariant");
        seen
    })
}

fn codel() -> Value {
    json!({"name": "codel", "ecn": true})
}

fn step() -> Value {
    json!({"name": "step"})
}

/// Marks set = marks received = marks reported, and more than `least`.
fn check_conservation(seen: &Seen, least: u64, what: &str) {
    assert_eq!((seen.marked - seen.dropped, seen.received), (seen.received, seen.heard), "{what}: {seen:?}");
    assert!(seen.marked > least, "{what}: {seen:?}");
}

#[test]
fn every_mark_reaches_the_sender() {
    for profile in ["linux-6.12", "linux-5.10"] {
        for (cc, aqm, least) in
            [("cubic", codel(), 5), ("reno", codel(), 5), ("cubic", step(), 50), ("dctcp", codel(), 50), ("dctcp", step(), 200)]
        {
            let seen = transfer(cc, "accecn", aqm.clone(), json!({"profile": profile}), json!([]), json!([]));
            check_conservation(&seen, least, &format!("{profile} {cc} {aqm}"));
            // nothing is lost: what the marks do is all that happens
            assert_eq!((seen.drops, seen.retransmissions), (0, 0), "{cc} {aqm}: {seen:?}");
            assert!(seen.reductions > 2, "{cc} {aqm}: {seen:?}");
        }
    }
}

#[test]
fn no_mark_is_lost_with_acks_that_are_lost_held_or_reordered() {
    let loss = json!({"name": "loss", "probability": 0.3});
    let batch = json!({"name": "batch", "interval": 5 * MS});
    let reorder = json!({"name": "reorder", "probability": 0.2, "delay": 3 * MS});
    for ack_path in [json!([loss]), json!([batch]), json!([reorder]), json!([reorder, loss, batch])] {
        for (cc, aqm, least) in [("cubic", codel(), 5), ("dctcp", step(), 200)] {
            let what = format!("{cc} {aqm} {ack_path}");
            let seen = transfer(cc, "accecn", aqm, json!({}), json!([]), ack_path.clone());
            check_conservation(&seen, least, &what);
        }
    }
}

#[test]
fn no_mark_is_lost_with_data_that_is_lost_or_reordered() {
    let loss = json!({"name": "loss", "probability": 0.001});
    let reorder = json!({"name": "reorder", "probability": 0.01, "delay": 4 * MS});
    for path in [json!([loss]), json!([reorder]), json!([loss, reorder])] {
        for (cc, aqm) in [("cubic", step()), ("dctcp", step())] {
            let what = format!("{cc} {aqm} {path}");
            let seen = transfer(cc, "accecn", aqm, json!({}), path.clone(), json!([]));
            check_conservation(&seen, 50, &what);
            assert!(seen.retransmissions >= seen.drops, "{what}: {seen:?}");
        }
    }
}

#[test]
fn a_count_of_marks_does_what_the_classic_echo_does() {
    // one reduction a round with either: the echo until CWR is one bit, the count more than that bit, and CUBIC and Reno ask for no more
    for (cc, aqm) in [("cubic", codel()), ("reno", codel())] {
        let [classic, accurate] =
            ["classic", "accecn"].map(|echo| transfer(cc, echo, aqm.clone(), json!({}), json!([]), json!([])));
        let ratio = accurate.goodput / classic.goodput;
        assert!((ratio - 1.0).abs() < 0.03, "{cc}: {ratio}: {classic:?} {accurate:?}");
        assert!(
            accurate.reductions.abs_diff(classic.reductions) <= 2 + classic.reductions / 10,
            "{cc}: {classic:?} {accurate:?}"
        );
    }
    // DCTCP learns as much from ECE per packet; the count loses nothing by delayed ACKs
    let [per_packet, accurate] = ["auto", "accecn"].map(|echo| transfer("dctcp", echo, codel(), json!({}), json!([]), json!([])));
    let ratio = accurate.goodput / per_packet.goodput;
    assert!((ratio - 1.0).abs() < 0.03, "{ratio}: {per_packet:?} {accurate:?}");
}

#[test]
fn marks_and_sce_are_told_apart() {
    // Cake sets SCE and, above that, CE: the count is of CE alone, and ESCE goes beside it
    let aqm = json!({"name": "cake", "bandwidth": 18_000_000, "sce": "on"});
    let hosts = json!({"sce_feedback": true});
    let [classic, accurate] =
        ["classic", "accecn"].map(|echo| transfer("cubic-sce", echo, aqm.clone(), hosts.clone(), json!([]), json!([])));
    check_conservation(&accurate, 0, "cubic-sce");
    assert_eq!((accurate.drops, accurate.retransmissions), (0, 0), "{accurate:?}");
    assert!((accurate.goodput / classic.goodput - 1.0).abs() < 0.03, "{classic:?} {accurate:?}");
    // without the reaction to SCE the queue is longer and CE is set
    let plain = transfer("cubic", "accecn", aqm, hosts, json!([]), json!([]));
    check_conservation(&plain, 5, "cubic");
    assert_eq!((plain.drops, plain.retransmissions), (0, 0), "{plain:?}");
}
