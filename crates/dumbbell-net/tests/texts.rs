//! Valid texts, and the errors of invalid ones.

use dumbbell_net::{Config, Ecn, Error, FlowKey, Frame, Net, NetCounters};
use std::time::Duration;

const FULL: Frame = Frame { len: 1514, ecn: Ecn::NotEct, flow: 0 };

fn parse_error(text: &str) -> String {
    Config::parse_with(text, |_| Err("no such file".into())).map(drop).expect_err(text).to_string()
}

/// When full frames come out that are pushed at 0, us.
fn times(net: &mut Net<u32>, count: u32) -> Vec<u128> {
    for number in 0..count {
        net.push(Duration::ZERO, FULL, number);
    }
    let mut times = Vec::new();
    while let Some(next) = net.next() {
        while let Some(packet) = net.pop(next) {
            assert_eq!((packet.at, packet.payload), (next, times.len() as u32));
            times.push(packet.at.as_micros());
        }
    }
    times
}

#[test]
fn errors_say_line_key_found_and_allowed() {
    for (text, expected) in [
        ("rate = ", "line 1: "),
        ("aqm = 'codel'\naqm = 'pie'", "line 2: duplicate key"),
        ("rate = '10Mbit'", "line 1, aqm: found nothing, allowed: pfifo, bfifo, red, step, codel"),
        ("\naqm = 'cdel'", "line 2, aqm: found \"cdel\", allowed: pfifo, "),
        ("aqm = 5", "line 1, aqm: found 5, allowed: pfifo, "),
        (
            "aqm = 'pfifo'\nrat = 1",
            "line 2, rat: found this key, allowed: aqm, link, rate_changes, path, behind, delay, rate, shaper",
        ),
        ("aqm = 'pfifo'\nrate = 10", "line 2, rate: found 10, allowed: a rate such as \"10Mbit\""),
        ("aqm = 'pfifo'\nrate = '10bit'", "line 2, rate: found \"10bit\", allowed: 1kbit to 10000Gbit"),
        ("[aqm]\nname = 'codel'\n\ntarget = '5'", "line 4, aqm.target: found \"5\", allowed: a time such as"),
        ("aqm = { name = 'codel', targte = '5ms' }", "line 1, aqm.targte: found this key, allowed: limit, target, interval, ecn"),
        ("aqm = { name = 'codel', ecn = 1 }", "line 1, aqm.ecn: found 1, allowed: true or false"),
        ("aqm = { name = 'cake', ack_filter = 'filter' }", "line 1, aqm.ack_filter: found "),
        ("aqm = 'pfifo'\ndelay = '61s'", "line 2, delay: found 61s, allowed: at most 60 s"),
        ("aqm = 'pfifo'\nlink = 'wi-fi'", "line 2, link: found \"wi-fi\", allowed: serial, htb"),
        ("aqm = 'pfifo'\nlink = 'unshaped'", "line 2, link: found unshaped, allowed: a link with a rate"),
        ("aqm = 'pfifo'\nlink = 'wifi'\nshaper = 'htb'", "line 2, link: found link and shaper, allowed: one of the two"),
        ("aqm = 'pfifo'\npath = [\n  'loss',\n  'los',\n]", "line 4, path[1]: found \"los\", allowed: loss, burst_loss"),
        (
            "aqm = 'pfifo'\npath = [{ name = 'loss', probability = 2.0 }]",
            "line 2, path[0].probability: found 2.0, allowed: 0.0 to 1.0",
        ),
        ("aqm = 'pfifo'\nbehind = 'loss'", "line 2, behind: found \"loss\", allowed: a list"),
        ("aqm = 'pfifo'\nrate_changes = [{ at = '1s' }]", "line 2, rate_changes[0].rate: found null, allowed: a rate such as"),
        (
            "aqm = 'pfifo'\nrate_changes = [{ at = '1s', to = '1Mbit' }]",
            "line 2, rate_changes[0].to: found this key, allowed: at, rate",
        ),
        ("aqm = 'pfifo'\ntrace = 'a.trace'", "line 2, trace: found a.trace: no such file, allowed: the name of a file"),
        ("aqm = 'pfifo'\nburst = '1kB'", "line 2, burst: found \"1kB\", allowed: 1514B to 100000000B"),
        ("[bottleneck]\naqm = 'codel'\n\nrate = 1979-05-27", "line 4, rate: found \"1979-05-27\", allowed: a rate"),
        ("[bottleneck]\naqm = 'codel'\n[hosts]\n", "line 1, bottleneck: found this key, allowed: aqm"),
    ] {
        let error = parse_error(text);
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}\nof\n{text}");
    }
    assert!(matches!(Config::parse("aqm = 'pfifo'\nmpu = '1kB'"), Err(Error::Key { line: 2, key, .. }) if key == "mpu"));
}

#[test]
fn everything_that_experiments_spell_is_read() {
    let text = r#"
        [bottleneck]
        rate = "20Mbit/s"
        aqm = { name = "fq_codel", target = "5ms", interval = "100ms", quantum = "1514B", ecn = true, ce_threshold = "none" }
        link_layer = "pppoe-ptm"
        overhead = "30B"
        mpu = "64B"
        framing = "none"
        path = ["jitter", { name = "loss", probability = 0 }]
        behind = [{ name = "policer", rate = "10Mbit", burst = "15kB" }]
        rate_changes = [{ at = "1.5s", rate = "5Mbit" }]
        delay = "12.5ms"
    "#;
    Net::<()>::new(text).expect("a bottleneck");
}

#[test]
fn rate_delay_and_a_change_of_rate_by_hand() {
    // 1514 B at 10 Mbit/s: 1211.2 us
    let mut steady = Net::new("rate = '10Mbit'\naqm = 'pfifo'\ndelay = '10ms'").expect("a bottleneck");
    assert_eq!(times(&mut steady, 3), [11_211, 12_422, 13_633]);
    // at 2 ms the rate falls to 1 Mbit/s; what is on the wire then leaves as before, at 2422.4 us; the others take 12112 us each
    let text = "rate = '10Mbit'\naqm = 'pfifo'\nrate_changes = [{ at = '2ms', rate = '1Mbit' }]";
    let mut net: Net<u32> = Net::new(text).expect("a bottleneck");
    for number in 0..4 {
        net.push(Duration::ZERO, FULL, number);
    }
    assert_eq!(net.pop(Duration::from_secs(1)).map(|packet| packet.at.as_nanos()), Some(1_211_200));
    let rest: Vec<u128> = std::iter::from_fn(|| net.pop(Duration::from_secs(1))).map(|packet| packet.at.as_nanos()).collect();
    assert_eq!(rest, [2_422_400, 14_534_400, 26_646_400]);
}

#[test]
fn a_trace_comes_from_wherever_the_caller_has_it() {
    // two frames each 5 ms
    let files = |name: &str| if name == "a.trace" { Ok(b"5\n5\n".to_vec()) } else { Err("unknown".to_owned()) };
    let config = Config::parse_with("aqm = 'pfifo'\ntrace = 'a.trace'", files).expect("a bottleneck");
    assert_eq!(times(&mut config.build().expect("a net"), 5), [5_000, 5_000, 10_000, 10_000, 15_000]);
    // 50 ms of delay, which falls to 1 ms: nothing overtakes the first
    let falling = Config::parse_with("aqm = 'pfifo'\ntrace = 'b.trace'", |_| Ok(b"1 50\n2 1\n60 1\n".to_vec()));
    assert_eq!(times(&mut falling.expect("a bottleneck").build().expect("a net"), 3), [51_000, 51_000, 61_000]);
    // or from a file
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("b.trace");
    std::fs::write(&file, "1\n").expect("a folder to write to");
    let text = format!("aqm = 'pfifo'\ntrace = '{}'", file.display());
    assert_eq!(times(&mut Net::new(&text).expect("a bottleneck"), 2), [1_000, 2_000]);
    assert!(Config::parse("aqm = 'pfifo'\ntrace = 'nowhere/a.trace'").is_err());
}

#[test]
fn the_seed_decides_what_is_random_and_nothing_else_does() {
    let config = Config::parse("aqm = 'pfifo'\npath = [{ name = 'loss', probability = 0.5 }]").expect("a bottleneck");
    let lost = |seed| {
        let mut net = config.clone().seed(seed).build().expect("a net");
        (0..64).filter(|&number| !net.push(Duration::ZERO, FULL, number)).collect::<Vec<u32>>()
    };
    assert!(lost(1) == lost(1) && lost(1) != lost(2) && !lost(1).is_empty());
}

#[test]
fn a_clock_may_start_anywhere_and_any_time_is_a_time() {
    let text = "rate = '10Mbit'\naqm = 'pie'\nrate_changes = [{ at = '1ms', rate = '1Mbit' }]";
    let start = Duration::from_secs(1_700_000_000);
    let mut net = Config::parse(text).expect("a bottleneck").start(start).build().expect("a net");
    // earlier than the start, and in the middle of the change
    net.push(Duration::ZERO, FULL, 0);
    net.push(Duration::from_secs(5), FULL, 1);
    assert_eq!(net.pop(start + Duration::from_secs(1)).map(|packet| (packet.at - start).as_nanos()), Some(1_211_200));
    assert_eq!(net.pop(Duration::MAX).map(|packet| (packet.at - start).as_nanos()), Some(1_211_200 + 12_112_000));
    // what comes out does not take the clock with it
    assert!(net.pop(Duration::MAX).is_none() && net.next().is_none());
    net.push(start + Duration::from_secs(2), FULL, 2);
    assert_eq!(net.pop(Duration::MAX).map(|packet| (packet.at - start).as_nanos()), Some(2_012_112_000));
}

#[test]
fn counters_and_flows_say_what_happened() {
    let mut net: Net<()> = Net::new("rate = '10Mbit'\naqm = { name = 'pfifo', limit = 2 }").expect("a bottleneck");
    net.announce(7, &FlowKey { src_host: 1, dst_host: 2, ports: 7, dscp: 46 });
    // one is on the wire, two wait, one is dropped
    let taken: Vec<bool> = (0..4).map(|_| net.push(Duration::ZERO, Frame::udp(1472).flow(7), ())).collect();
    assert_eq!(taken, [true, true, true, false]);
    let NetCounters { pushed, dropped_overflow, queued, queued_bytes, held, .. } = net.counters();
    assert_eq!((pushed, dropped_overflow, queued, queued_bytes, held), (4, 1, 2, 2 * 1514, 3));
    while net.pop(Duration::from_secs(1)).is_some() {}
    let counters = net.counters();
    assert_eq!((counters.popped, counters.departed_bytes, counters.held, counters.count_dropped()), (3, 3 * 1514, 0, 1));
    // 0, one and two frames of 1211.2 us
    assert_eq!((counters.sojourn_ns, counters.mean_sojourn()), (3 * 1_211_200, Duration::from_nanos(1_211_200)));
    let longest = net.sojourn(1.0).as_micros();
    assert!((2_390..2_450).contains(&longest), "{longest}");
    assert_eq!((net.of_flow(7).arrived, net.of_flow(7).dropped_overflow, net.of_flow(8).arrived), (4, 1, 0));
}

#[test]
fn frames_have_the_length_that_they_have_on_the_wire() {
    assert_eq!([0, 1472, 70_000].map(|payload| Frame::udp(payload).len), [42, 1514, u16::MAX]);
    assert_eq!((Frame::new(0).len, Frame::new(60).ecn(Ecn::Ce).flow(3)), (14, Frame { len: 60, ecn: Ecn::Ce, flow: 3 }));
}

/// Harnesses move nets into threads and tasks.
#[test]
fn a_net_can_be_sent() {
    fn assert_send<T: Send>(_: &T) {}
    assert_send(&Net::<Vec<u8>>::new("aqm = 'cake'").expect("a bottleneck"));
}
