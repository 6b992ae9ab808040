//! Files of whole runs.

use dumbbell_core::units::Instant;
use dumbbell_qlog::{Names, QlogRecorder};
use dumbbell_sim::Sim;
use serde_json::{json, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn events(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.split_terminator('\n').map(|line| serde_json::from_str(line.strip_prefix('\u{1e}').unwrap()).unwrap()).collect()
    }
}

struct Logged {
    sender: Vec<Value>,
    network: Vec<Value>,
    outcome: dumbbell_sim::Outcome,
}

fn log_run(config: &Value) -> Logged {
    let (sender, network) = (Memory::default(), Memory::default());
    let end = Instant(config["duration"].as_u64().unwrap());
    let recorder = QlogRecorder::new(Names::Draft, vec![(0, Box::new(sender.clone()))], Some(Box::new(network.clone())), end);
    let outcome = Sim::builder(config).listener(|hop| recorder.listener(hop)).build().unwrap().finish().unwrap();
    let written = recorder.finish().unwrap();
    let (sender, network) = (sender.events(), network.events());
    assert_eq!(written as usize, sender.len() + network.len());
    Logged { sender, network, outcome }
}

fn select_events<'a>(events: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["name"] == name).map(|event| &event["data"])
}

fn config(cc: &str, aqm: &str) -> Value {
    json!({"duration": 5_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": {"name": aqm}},
        "flows": [{"cc": {"name": cc}, "ecn": aqm != "pfifo"}, {"cc": {"name": "cubic"}, "base_rtt": 60_000_000}]})
}

/// A counter of the first flow in table `flows`.
fn read_counter(outcome: &dumbbell_sim::Outcome, name: &str) -> usize {
    outcome.tables.flows.int(name).unwrap()[0] as usize
}

fn number(data: &Value) -> u64 {
    data["header"]["packet_number"].as_u64().unwrap()
}

/// The packets of data among events.
fn data<'a>(events: &'a [Value], name: &'a str) -> Vec<&'a Value> {
    select_events(events, name).filter(|data| data["header"]["packet_type"] == "1RTT").collect()
}

const CASES: [(&str, &str); 5] =
    [("cubic", "pfifo"), ("cubic", "codel"), ("bbr3", "pfifo"), ("reno", "fq_codel"), ("prague", "dualpi2")];

#[test]
fn a_run_that_is_written_measures_the_same() {
    for (cc, aqm) in CASES {
        let config = config(cc, aqm);
        let plain = Sim::new(&config).unwrap().finish().unwrap();
        assert_eq!(log_run(&config).outcome.hash, plain.hash, "{cc} over {aqm}");
    }
}

#[test]
fn what_is_written_adds_up_to_what_is_measured() {
    for (cc, aqm) in CASES {
        let Logged { sender, network, outcome } = log_run(&config(cc, aqm));
        let sent = data(&sender, "quic:packet_sent");
        assert_eq!(sent.len(), read_counter(&outcome, "sent"), "{cc} over {aqm}");
        let again = sent.iter().filter(|data| data["retransmission"] == true).count();
        assert_eq!(again, read_counter(&outcome, "retransmissions"), "{cc} over {aqm}");
        let numbers: Vec<u64> = sent.iter().map(|data| number(data)).collect();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
        // a queue counts until the run is over there, and the log goes on as long as senders do
        let mine = |name: &str| -> Vec<&Value> {
            let in_time = network.iter().filter(|event| event["name"] == name && event["time"].as_f64().unwrap() <= 5000.0);
            in_time.map(|event| &event["data"]).filter(|data| data["flow"] == 0).collect()
        };
        let dropped = mine("dumbbell:packet_dropped");
        let because = |why: &str| dropped.iter().filter(|data| data["reason"] == why).count();
        assert_eq!(because("overflow"), read_counter(&outcome, "drops_overflow"), "{cc} over {aqm}");
        assert_eq!(because("aqm"), read_counter(&outcome, "drops_aqm"), "{cc} over {aqm}");
        let marked = mine("dumbbell:packet_marked").iter().filter(|data| data["old_ecn"] != "CE").count();
        assert_eq!(marked, read_counter(&outcome, "ce_marks"), "{cc} over {aqm}");
    }
}

#[test]
fn each_packet_is_lost_or_acknowledged_once_and_dropped_ones_are_lost() {
    for (cc, aqm) in CASES {
        let Logged { sender, network, .. } = log_run(&config(cc, aqm));
        let lost: Vec<u64> = data(&sender, "quic:packet_lost").into_iter().map(number).collect();
        let once: BTreeSet<u64> = lost.iter().copied().collect();
        assert_eq!(lost.len(), once.len(), "{cc} over {aqm}");
        let mut acked = BTreeSet::new();
        for data in data(&sender, "quic:packet_received") {
            for range in data["frames"][0]["acked_ranges"].as_array().into_iter().flatten() {
                let ends: Vec<u64> = range.as_array().unwrap().iter().map(|end| end.as_u64().unwrap()).collect();
                acked.extend(ends[0]..=*ends.last().unwrap());
            }
        }
        let dropped: BTreeSet<u64> = select_events(&network, "dumbbell:packet_dropped")
            .filter(|data| data["flow"] == 0)
            .filter_map(|data| data["packet_number"].as_u64())
            .collect();
        // what was dropped in the last second may not be known yet
        let known = data(&sender, "quic:packet_sent").len() as u64 * 4 / 5;
        let missed: Vec<&u64> = dropped.iter().filter(|number| **number < known && !once.contains(number)).collect();
        assert!(missed.is_empty(), "{cc} over {aqm}: {missed:?}");
        assert!(acked.is_disjoint(&dropped), "{cc} over {aqm}: {:?}", acked.intersection(&dropped).collect::<Vec<_>>());
    }
}

#[test]
fn times_do_not_go_back_and_a_packet_takes_half_the_rtt_to_the_queue() {
    let Logged { sender, network, .. } = log_run(&config("cubic", "pfifo"));
    for events in [&sender, &network] {
        assert!(events.is_sorted_by(|one, next| one["time"].as_f64() <= next["time"].as_f64()));
    }
    let first = |events: &[Value], name: &str, key: &str| -> BTreeMap<u64, f64> {
        let all =
            events.iter().filter(|event| event["name"] == name && event["data"]["flow"].as_u64().is_none_or(|flow| flow == 0));
        let of_data = all.filter(|event| event["data"]["segment"].is_u64());
        of_data.map(|event| (event["data"].pointer(key).unwrap().as_u64().unwrap(), event["time"].as_f64().unwrap())).collect()
    };
    let sent = first(&sender, "quic:packet_sent", "/header/packet_number");
    let enqueued = first(&network, "dumbbell:packet_enqueued", "/packet_number");
    let lags: Vec<f64> = enqueued.iter().take(100).map(|(number, at)| at - sent[number]).collect();
    // the default base RTT is 20 ms
    assert!(lags.iter().all(|lag| (lag - lags[0]).abs() < 1e-6) && lags[0] > 0.0, "{lags:?}");
}

#[test]
fn metrics_are_in_the_units_of_the_schema() {
    let Logged { sender, .. } = log_run(&config("bbr3", "pfifo"));
    let metrics: Vec<&Value> = select_events(&sender, "quic:recovery_metrics_updated").collect();
    // RFC 6928: ten segments of 1448 bytes
    assert_eq!(metrics[0]["congestion_window"], 14_480);
    let rates: Vec<u64> = metrics.iter().filter_map(|data| data["bbr_max_bw"].as_u64()).collect();
    // two flows share 20 Mbit/s: payload is 95 % of that
    assert!(rates.iter().max().is_some_and(|&most| most > 5_000_000 && most < 21_000_000), "{rates:?}");
    let states: Vec<&str> =
        select_events(&sender, "quic:congestion_state_updated").filter_map(|data| data["new"].as_str()).collect();
    assert_eq!(states[..2], ["startup", "drain"]);
    let lost = metrics.iter().filter_map(|data| data["lost"].as_u64()).max();
    assert_eq!(lost, Some(select_events(&sender, "quic:packet_lost").count() as u64));
}

#[test]
fn acknowledgements_in_a_hop_are_written_as_such() {
    let mut config = config("cubic", "pfifo");
    config["reverse"] = json!({"rate": 200_000, "aqm": {"name": "pfifo", "limit": 20}});
    let Logged { sender, network, outcome } = log_run(&config);
    let back: Vec<&Value> = network.iter().filter(|event| event["data"]["hop"] == "reverse").collect();
    assert!(back.iter().all(|event| event["data"]["acknowledgement"] == true && event["data"]["segment"].is_null()));
    let count = |name: &str| back.iter().filter(|event| event["name"] == name).count() as u64;
    let hops = &outcome.tables.hops;
    // of the first flow alone
    assert!(count("dumbbell:packet_dropped") > 0);
    assert!(count("dumbbell:packet_dropped") <= hops.int("ack_drops").unwrap()[1]);
    let heard = select_events(&sender, "quic:packet_received").count() as u64;
    let left = count("dumbbell:packet_dequeued");
    // at the end, those of the last 20 ms are on their way: eight of 66 B at 200 kbit/s
    assert!((heard..=heard + 8).contains(&left), "{left} left, {heard} came");
}
