//! Games and videos over empty links, where every time follows from rate, sizes and delays; and controls of video.

use dumbbell_config::RunConfig;
use dumbbell_sim::{Outcome, Sim};
use serde_json::{json, Value};

const MS: u64 = 1_000_000;

fn run(config: &Value) -> Outcome {
    Sim::new(config).expect("a configuration").finish().expect("a run")
}

fn real(outcome: &Outcome, column: &str) -> Vec<f64> {
    outcome.tables.apps.real(column).unwrap_or_else(|| panic!("{column}: no such column")).to_vec()
}

fn count(outcome: &Outcome, column: &str) -> Vec<u64> {
    outcome.tables.apps.int(column).unwrap_or_else(|| panic!("{column}: no such column")).to_vec()
}

/// One user over 8 Mbit/s down and 1 Mbit/s up, at a base RTT of 20 ms.
fn user(kind: &Value, duration_ms: u64) -> Value {
    json!({
        "duration": duration_ms * MS, "bottleneck": {"rate": 8_000_000, "aqm": {"name": "pfifo"}},
        "reverse": {"rate": 1_000_000, "aqm": {"name": "pfifo"}},
        "app": [{"kind": kind, "base_rtt": 20 * MS}],
    })
}

#[test]
fn packets_of_a_game_take_their_time_on_the_wire_and_half_of_the_base_rtt() {
    let outcome = run(&user(&json!({"name": "game", "late": 10_656_000}), 990));
    // 120 + 42 B at 1 B/us, 40 + 42 B at 8 us/B; 20 updates a second, and 30 packets with input
    assert_eq!(real(&outcome, "delay_mean_ms"), [10.162, 10.656]);
    assert_eq!((count(&outcome, "sent"), count(&outcome, "frames_late")), (vec![20, 30], vec![0, 0]));
    let late = run(&user(&json!({"name": "game", "late": 10_655_000}), 990));
    assert_eq!((count(&late, "frames_late"), real(&late, "late_share")), (vec![0, 30], vec![0.0, 1.0]));
    // each third packet up is lost
    let mut lossy = user(&json!({"name": "game"}), 60_000);
    lossy["app"][0]["ack_path"] = json!([{"name": "loss", "probability": 0.3}]);
    let with_losses = run(&lossy);
    let (lost, share) = (count(&with_losses, "frames_lost"), real(&with_losses, "late_share"));
    assert!(lost[0] == 0 && (lost[1] as f64 / 1_800.0 - share[1]).abs() < 1e-12 && (share[1] - 0.3).abs() < 0.05, "{lost:?}");
}

#[test]
fn a_frame_takes_its_size_over_the_rate_and_half_of_the_base_rtt() {
    let kind = json!({"name": "video", "frame_rate": 10, "group": 2, "intra": 3_000, "predicted": 1_000, "payload": 1_200});
    let outcome = run(&user(&kind, 995));
    // Frames of 1,200 + 1,200 + 600 B in packets with 54 B of headers: 1,254 + 1,254 + 654 B at 1 B/us; of 1,054 B
    let (intra, predicted) = (13.162, 11.054);
    assert_eq!((real(&outcome, "frame_delay_max_ms"), count(&outcome, "sent")), (vec![intra], vec![20]));
    assert!((real(&outcome, "frame_delay_mean_ms")[0] - (intra + predicted) / 2.0).abs() < 1e-9);
    assert_eq!((real(&outcome, "late_share"), count(&outcome, "freezes")), (vec![0.0], vec![0]));
    // ten frames of 2,000 B in the mean, in 0.995 s
    assert!((real(&outcome, "encoder_mbit")[0] - 0.16 / 0.995).abs() < 1e-9);
    // spread over 100 ms, the third packet leaves 66.666666 ms after the first
    let mut paced = kind;
    paced["spacing"] = json!("paced");
    assert!((real(&run(&user(&paced, 995)), "frame_delay_max_ms")[0] - (66.666_666 + 0.654 + 10.0)).abs() < 1e-9);
}

#[test]
fn a_video_that_is_sent_up_takes_the_other_link() {
    let kind = json!({"name": "video", "frame_rate": 10, "group": 1, "intra": 1_000, "control": "nada"});
    let mut config = user(&kind, 995);
    config["app"][0]["direction"] = json!("up");
    let outcome = run(&config);
    // 1,054 B at 8 us/B
    assert_eq!(real(&outcome, "frame_delay_max_ms"), [10.0 + 8.432]);
    let direction = outcome.tables.apps.column("direction").map(|column| format!("{column:?}")).expect("a column");
    assert!(direction.contains("up") && outcome.tables.apps.height() == 1, "{direction}");
}

#[test]
fn what_the_net_drops_freezes_the_video() {
    // 146,250 B in 30 frames, 1.17 Mbit/s and headers, over 1 Mbit/s with a queue of 20 packets: the intra frame alone has 38
    let mut config = user(&json!({"name": "video"}), 20_000);
    config["bottleneck"] = json!({"rate": 1_000_000, "aqm": {"name": "pfifo", "limit": 20}});
    let outcome = run(&config);
    let (freezes, frozen) = (count(&outcome, "freezes")[0], real(&outcome, "frozen_s")[0]);
    // no group has its first frame
    assert_eq!((count(&outcome, "frames_lost")[0], freezes), (593, 1));
    assert!(frozen == 20.0 && real(&outcome, "late_share") == [1.0], "{frozen}");
    // with a queue that loses nothing, video is seen again, late; what is still in the queue after 250 ms counts as lost at the end
    config["bottleneck"]["aqm"]["limit"] = json!(1_000);
    let deep = run(&config);
    let late = count(&deep, "frames_late")[0];
    assert!(count(&deep, "frames_lost")[0] < 150 && late > 400, "{late}");
}

/// A call beside twice what the link carries, over `aqm`, with keys of its kind and of [`user`].
fn call_beside_a_flood(aqm: &str, kind: &Value, more: &Value) -> Outcome {
    let mut own = json!({"name": "call"});
    own.as_object_mut().expect("a table").extend(kind.as_object().expect("a table").clone());
    let mut config = user(&own, 20_000);
    config["bottleneck"]["aqm"] = json!({"name": aqm});
    config["udp"] = json!([{"rate": 16_000_000, "size": 1_000}]);
    // frames meet the flood at any place
    config["app"][0]["path"] = json!([{"name": "jitter", "max": 3 * MS}]);
    for (key, value) in more.as_object().expect("a table") {
        config["app"][0][key] = value.clone();
    }
    run(&config)
}

#[test]
fn a_queue_that_drops_a_call_and_a_buffer_that_plays_nothing_are_seen_by_its_measures() {
    let down = |outcome: &Outcome| {
        let (sent, late, lost) = (count(outcome, "sent")[0], count(outcome, "frames_late")[0], count(outcome, "frames_lost")[0]);
        (sent, late, lost, real(outcome, "late_share")[0], real(outcome, "mos")[0])
    };
    // a queue per flow keeps the call, whatever else comes
    let (sent, late, lost, share, score) = down(&call_beside_a_flood("fq_codel", &json!({}), &json!({})));
    assert!((sent, late, lost, share) == (1_001, 0, 0, 0.0) && score > 4.3, "{score}");
    // A FIFO has room only between a departure and the next packet of the flood; what it does not drop waits for a thousand packets
    let dropped = down(&call_beside_a_flood("pfifo", &json!({"playout": 2_000 * MS}), &json!({})));
    assert!(
        (500..950).contains(&dropped.2) && dropped.1 == 0 && (0.5..0.95).contains(&dropped.3) && dropped.4 < 1.5,
        "{dropped:?}"
    );
    // a queue that drops the call, and nothing else
    let none = down(&call_beside_a_flood("fq_codel", &json!({}), &json!({"path": [{"name": "loss", "probability": 1.0}]})));
    assert_eq!(none, (1_001, 0, 1_001, 1.0, 1.0));
    // all frames arrive, and none is played
    let outcome = call_beside_a_flood("fq_codel", &json!({"playout": 0}), &json!({}));
    // the frame of the last instant is still under way
    assert_eq!(down(&outcome), (1_001, 1_000, 0, 1.0, 1.0));
    assert!(real(&outcome, "mouth_to_ear_ms")[0].is_nan() && real(&outcome, "delay_mean_ms")[0] < 20.0);
}

/// A video of the statistical encoder with NADA over a link of `rate`, with keys of [`user`] in addition. The figures are those of the last 10 s of 30 s.
fn nada(rate: u64, more: &Value) -> Value {
    let mut config = user(&json!({"name": "video", "source": "statistical", "control": "nada"}), 30_000);
    config["bottleneck"] = json!({"rate": rate, "aqm": {"name": "pfifo"}});
    config["record"] = json!({"from": 20_000 * MS});
    for (key, value) in more.as_object().expect("a table") {
        config["app"][0][key] = value.clone();
    }
    config
}

#[test]
fn nada_takes_what_the_link_has_and_no_more_than_its_largest_rate() {
    // 1,000 B of 1,054 on the wire: at most 0.949 Mbit/s fit into 1 Mbit/s
    let outcome = run(&nada(1_000_000, &json!({})));
    let rate = real(&outcome, "encoder_mbit")[0];
    assert!((0.75..0.95).contains(&rate), "{rate}");
    assert_eq!((real(&outcome, "loss_share"), count(&outcome, "frames_lost")), (vec![0.0], vec![0]));
    let fast = run(&nada(20_000_000, &json!({})));
    assert!((real(&fast, "encoder_mbit")[0] / 1.5 - 1.0).abs() < 0.05, "{:?}", real(&fast, "encoder_mbit"));
}

#[test]
fn without_reports_nada_stays_at_its_least_rate() {
    let lost = json!({"ack_path": [{"name": "loss", "probability": 1.0}]});
    let rate = real(&run(&nada(20_000_000, &lost)), "encoder_mbit")[0];
    assert!((rate / 0.15 - 1.0).abs() < 0.1, "{rate}");
}

#[test]
fn reports_wait_in_the_queues_of_the_other_way() {
    let mut config = nada(20_000_000, &json!({}));
    config["reverse"] = json!({"rate": 100_000, "aqm": {"name": "pfifo"}});
    let outcome = run(&config);
    // ten reports of 200 B a second: 16 kbit/s of 100 kbit/s
    let used = outcome.tables.hops.real("utilisation").expect("a column")[1];
    assert!((used - 0.16).abs() < 0.01, "{used}");
}

#[test]
fn a_stopped_video_is_not_frozen_and_equal_runs_have_equal_bits() {
    let mut config = user(&json!({"name": "video", "source": "statistical"}), 10_000);
    config["app"][0]["stop"] = json!(2_000 * MS);
    let (one, other) = (run(&config), run(&config));
    assert_eq!((one.hash.clone(), count(&one, "freezes"), count(&one, "frames_lost")), (other.hash, vec![0], vec![0]));
    let frames = count(&one, "sent")[0];
    config["seed"] = json!(2);
    assert!(run(&config).hash != one.hash && frames > 100, "{frames}");
}

#[test]
fn wrong_keys_of_media_are_refused_with_what_is_allowed() {
    for (kind, part) in [
        (json!({"name": "video", "control": "gcc"}), "app[0].kind.control: found \"gcc\", allowed: none, nada"),
        (json!({"name": "video", "most": 1_000}), "app[0].kind.most: found 1kbit, allowed: at least least, 150kbit"),
        (json!({"name": "video", "payload": 1_461}), "app[0].kind: found datagrams of 1515 B with their headers"),
        (json!({"name": "game", "client_rate": 0}), "app[0].kind.client_rate: found 0, allowed: 1 to 10000"),
        (json!({"name": "call", "buffer": "none"}), "app[0].kind.buffer: found \"none\", allowed: fixed, adaptive"),
    ] {
        let error = RunConfig::from_json(&user(&kind, 1_000)).expect_err("an error").to_string();
        assert!(error.contains(part), "{error}");
    }
}
